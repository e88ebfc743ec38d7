"""What asv measured at a commit: kept in docs/benchmarks/speed.json, and made into that page.

A table for each suite: a line for each benchmark and set of parameters, the last of which, what
was run, goes across.
"""

import itertools
import json
import math
from collections import defaultdict
from datetime import UTC, datetime

from . import pages

FIGURES = pages.BENCHMARKS / "speed.json"
LIMITS = {"track_read_bandwidth": "read {:.3g} GB/s", "track_fma_peak": "peaked at {:.3g} Gflop/s"}


def benchmarks(results):
    """What asv found: a mapping of names to what it says of each."""
    found = json.loads((results / "benchmarks.json").read_text())
    return {name: about for name, about in found.items() if isinstance(about, dict)}


def measured(results, commit):
    """Suites of a commit by name: where and when, and the figures of each benchmark."""
    about, suites = benchmarks(results), defaultdict(dict)
    for path in sorted(results.glob(f"*/{commit[:8]}-*.json")):
        found = json.loads(path.read_text())
        for name, values in sorted(found["results"].items()):
            result = dict(zip(found["result_columns"], values, strict=False))
            if name not in about or not result.get("result"):
                continue
            suite, _, benchmark = name.removeprefix("bench_").rpartition(".")
            day = datetime.fromtimestamp(result["started_at"] / 1000, UTC).date()
            suites[suite] |= {
                "commit": commit[:8],
                "date": str(day),
                "machine": "{num_cpu} cores of {cpu}".format(**found["params"]),
                benchmark: {
                    "unit": about[name]["unit"],
                    "names": about[name]["param_names"],
                    "params": [[each.strip("'") for each in axis] for axis in result["params"]],
                    "values": [rounded(value) for value in result["result"]],
                },
            }
    limits = suites.get("limits.Limits", {})
    said = [say.format(*limits[key]["values"]) for key, say in LIMITS.items() if key in limits]
    return {name: suite | {"limits": said} for name, suite in suites.items()}


def rounded(value):
    """Four digits, or None for what failed or does not apply."""
    return None if value is None or math.isnan(value) else float(f"{value:.4g}")


def shown(value, unit):
    if value is None:
        return "-"
    if unit == "seconds":
        return f"{1e3 * value:,.3g} ms" if value < 1 else f"{value:.3g} s"
    if unit == "bytes":
        return f"{value / 1e6:.3g} MB"
    return f"{value:.3g}" + ("" if unit == "unit" else f" {unit}")


def table(suite):
    """Lines of a suite's table, and when, where and at which limits it was measured."""
    figures = {name: each for name, each in suite.items() if isinstance(each, dict)}
    one = next(iter(figures.values()))
    *down, across = one["params"] or [["all"]]
    rows = [
        [*(one["names"] or [""]), *across],
        [*["---"] * (len(down) + 1), *["--:"] * len(across)],
    ]
    cells = {name: iter(each["values"]) for name, each in figures.items()}
    for left in itertools.product(*down):
        for name, each in figures.items():
            kind, _, what = name.replace("_", " ").partition(" ")
            what = {"time": "time", "peakmem": "peak memory"}.get(kind, what)
            values = [shown(next(cells[name]), each["unit"]) for _ in across]
            if set(values) != {"-"}:
                rows.append([*left, what, *values])
    limits = " and ".join(suite["limits"])
    when = f"*{suite['date']}, commit {suite['commit']}, {suite['machine']}"
    caption = when + (f", which {limits} in the same run.*" if limits else ".*")
    return [*(f"| {' | '.join(row)} |" for row in rows), "", caption]


def write(results, commit):
    """Keep what was measured, and fill the page with it."""
    new = measured(results, commit)
    figures = json.loads(FIGURES.read_text()) | new
    FIGURES.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")
    for suite in sorted(new.keys() & pages.TABLES.keys()):
        pages.fill(suite, table(new[suite]))


def check():
    """Exit where the page says something else than the figures."""
    for suite, found in json.loads(FIGURES.read_text()).items():
        if suite in pages.TABLES:
            pages.fill(suite, table(found), check=True)
