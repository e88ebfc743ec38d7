"""Make the table and the picture of the page on scale-out: python docs/scale_out.py.

Arithmetic from rates that were measured, by the commands beside them.
"""

import re
from pathlib import Path

from matplotlib.figure import Figure

DOCS = Path(__file__).parent
PAGE = DOCS / "benchmarks" / "speed.md"
ROWS = 1e12
CORES = 1000

# Rows a second and core, by columns: python -m bench.bench_rows, python -m bench.bench_scale_out.
MEASURED = {
    ("one machine, in memory", 22): 116e6,
    ("one machine, in memory", 100): 10e6,
    ("Dask, distributed", 22): 64e6,
    ("Dask, distributed", 100): 9.1e6,
    ("Spark", 22): 0.92e6,
    ("Spark", 100): 0.21e6,
}


def table() -> str:
    lines = [
        "| rates of | d | rows a second and core | core hours | minutes, 1000 cores | TB/s read |"
    ]
    lines += ["|---|--:|--:|--:|--:|--:|"]
    for (engine, d), rate in MEASURED.items():
        hours = ROWS / rate / 3600
        shown = float(f"{hours:.3g}")
        read = CORES * rate * d * 8 / 1e12
        lines.append(
            f"| {engine} | {d} | {rate / 1e6:.3g} M | {shown:,g} | {60 * hours / CORES:.2g} "
            f"| {read:.2g} |"
        )
    return "\n".join(lines) + "\n"


def picture() -> Figure:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    cores = [1, 10_000]
    styles = {"one machine, in memory": ":", "Dask, distributed": "-", "Spark": "--"}
    for (engine, d), rate in MEASURED.items():
        hours = [ROWS / rate / 3600 / c for c in cores]
        colour = {22: "C0", 100: "C1"}[d]
        axes.loglog(cores, hours, styles[engine], color=colour, label=f"{engine}, d = {d}")
    for hours, name in ((1 / 60, "a minute"), (1, "an hour"), (24, "a day")):
        axes.axhline(hours, color="0.8", linewidth=0.8, zorder=0)
        axes.text(cores[1], hours, name, color="0.5", ha="right", va="bottom", fontsize=8)
    axes.set(xlabel="cores", ylabel="hours", xlim=cores, title=r"One pass over $10^{12}$ rows")
    figure.legend(fontsize=8, loc="outside right upper")
    return figure


def main() -> None:
    picture().savefig(DOCS / "img" / "scale-out.png", dpi=150)
    text = PAGE.read_text(encoding="utf-8")
    place = re.compile(r"(?<=<!-- scale -->\n).*?(?=<!-- end -->)", re.DOTALL)
    PAGE.write_text(place.sub(lambda _: table(), text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
