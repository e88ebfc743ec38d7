"""Make the table and the picture of the page on scale-out: python -m docs.scale_out.

Arithmetic from rates that were measured: docs/benchmarks/speed.json has them.
"""

import itertools
import json
from pathlib import Path

from matplotlib.figure import Figure

from bench import pages, report

DOCS = Path(__file__).parent
ROWS = 1e12
CORES = 1000


def rates() -> dict[tuple[str, str], float]:
    """Rows a second and core, by engine and columns."""
    figures = json.loads(report.FIGURES.read_text(encoding="utf-8"))

    def cells(suite: str, benchmark: str) -> dict[tuple[str, ...], float]:
        one = figures[suite][benchmark]
        return dict(zip(itertools.product(*one["params"]), one["values"], strict=True))

    speed = cells("rows.Rows", "track_gigabytes_per_second")
    dask = cells("scale_out.Dask", "track_time_against_one_machine")
    spark = cells("scale_out.Spark", "time_second_moment")
    found = {}
    for d, partitions in (("22", 4), ("100", 2)):  # of 10^6 rows
        one = 1e9 * speed[(d,)] / (8 * int(d)) / 2  # cores
        found["one machine, in memory", d] = one
        found["Dask, distributed", d] = one / dask[d, "distributed"]
        found["Spark", d] = partitions * 1e6 / spark[d, "0"] / 2
    return found


def table() -> list[str]:
    lines = [
        "| rates of | d | rows a second and core | core hours | minutes, 1000 cores | TB/s read |"
    ]
    lines += ["|---|--:|--:|--:|--:|--:|"]
    for (engine, d), rate in rates().items():
        hours = ROWS / rate / 3600
        shown, minutes = float(f"{hours:.3g}"), float(f"{60 * hours / CORES:.2g}")
        read = CORES * rate * int(d) * 8 / 1e12
        lines.append(
            f"| {engine} | {d} | {rate / 1e6:.3g} M | {shown:,g} | {minutes:,g} | {read:.2g} |"
        )
    return lines


def picture() -> Figure:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    cores = [1, 10_000]
    styles = {"one machine, in memory": ":", "Dask, distributed": "-", "Spark": "--"}
    for (engine, d), rate in rates().items():
        hours = [ROWS / rate / 3600 / c for c in cores]
        colour = {"22": "C0", "100": "C1"}[d]
        axes.loglog(cores, hours, styles[engine], color=colour, label=f"{engine}, d = {d}")
    for hours, name in ((1 / 60, "a minute"), (1, "an hour"), (24, "a day")):
        axes.axhline(hours, color="0.8", linewidth=0.8, zorder=0)
        axes.text(cores[1], hours, name, color="0.5", ha="right", va="bottom", fontsize=8)
    axes.set(xlabel="cores", ylabel="hours", xlim=cores, title=r"One pass over $10^{12}$ rows")
    figure.legend(fontsize=8, loc="outside right upper")
    return figure


def main() -> None:
    picture().savefig(DOCS / "img" / "scale-out.png", dpi=150)
    pages.fill("scale", table())


if __name__ == "__main__":
    main()
