"""All results of a commit on one page, tables.html: asv's own report needs the network.

A table for each benchmark; its last parameter, what was run, goes across.
"""

import html
import itertools
import json
import math
from pathlib import Path

HERE = Path(__file__).parent
STYLE = (
    "body{font:15px sans-serif;margin:2em}td{padding:.15em .8em;text-align:right}"
    "tr:first-child{font-weight:bold}"
)


def shown(value, unit):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if unit == "seconds":
        return f"{1e3 * value:.4g} ms"
    if unit == "bytes":
        return f"{value / 1e6:.4g} MB"
    return f"{value:.4g}" + ("" if unit == "unit" else f" {unit}")


def table(name, values, params, about):
    *down, across = params or [[""]]
    rows = [[*about["param_names"][:-1], *across]]
    cells = iter(values)
    for left in itertools.product(*down):
        rows.append([*left, *(shown(next(cells), about["unit"]) for _ in across)])
    lines = [
        "<tr>" + "".join(f"<td>{html.escape(text.strip(chr(39)))}</td>" for text in row) + "</tr>"
        for row in rows
    ]
    return "\n".join([f"<h3>{html.escape(name)}</h3><table>", *lines, "</table>"])


def benchmarks(results):
    """What asv found: a mapping of names to what it says of each."""
    found = json.loads((results / "benchmarks.json").read_text())
    return {name: about for name, about in found.items() if isinstance(about, dict)}


def write(results, commit, quick):
    """Make the page and return its path."""
    about = benchmarks(results)
    body = [f"<h1>privgram, commit {commit[:8]}</h1>"]
    if quick:
        body.append("<p>A quick run: one sample of smaller tables. Nothing to quote.</p>")
    missing = set(about)
    for path in sorted(results.glob(f"*/{commit[:8]}-*.json")):
        found = json.loads(path.read_text())
        machine = ", ".join(str(found["params"][key]) for key in ("cpu", "num_cpu", "os"))
        body.append(f"<h2>{html.escape(machine)}</h2>")
        for name, values in sorted(found["results"].items()):
            result = dict(zip(found["result_columns"], values, strict=False))
            if name in about and result.get("result"):
                body.append(table(name, result["result"], result["params"], about[name]))
                missing.discard(name)
    if missing:
        names = html.escape(", ".join(sorted(missing)))
        body.append(f"<h2>Not measured, or failed</h2><p>{names}</p>")
    out = HERE / "html" / ("quick" if quick else "") / "tables.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    page = f"<!doctype html><meta charset=utf-8><title>privgram</title><style>{STYLE}</style>"
    out.write_text(page + "\n".join(body))
    return out
