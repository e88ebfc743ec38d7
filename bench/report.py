"""All results of a commit on one page, bench/html/tables.html: asv's report needs the network.

    python report.py COMMIT

Run in bench/ after asv, as `make bench` does. A table for each benchmark; its last parameter, what
was run, goes across.
"""

import html
import itertools
import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / ".asv" / "results"
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


def main():
    commit = sys.argv[1]
    about = json.loads((RESULTS / "benchmarks.json").read_text())
    body = [f"<h1>privgram, commit {commit[:8]}</h1>"]
    for path in sorted(RESULTS.glob(f"*/{commit[:8]}-*.json")):
        found = json.loads(path.read_text())
        machine = ", ".join(str(found["params"][key]) for key in ("cpu", "num_cpu", "os"))
        body.append(f"<h2>{html.escape(machine)}</h2>")
        for name, values in sorted(found["results"].items()):
            result = dict(zip(found["result_columns"], values, strict=False))
            if name in about and result.get("result"):
                body.append(table(name, result["result"], result["params"], about[name]))
    out = HERE / "html" / "tables.html"
    out.parent.mkdir(exist_ok=True)
    page = f"<!doctype html><meta charset=utf-8><title>privgram</title><style>{STYLE}</style>"
    out.write_text(page + "\n".join(body))


if __name__ == "__main__":
    main()
