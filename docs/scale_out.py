"""Make the table and the picture of the page on scale-out: python docs/scale_out.py.

Arithmetic from rates that were measured, here below, by the commands beside them.
"""

import re
from pathlib import Path

from matplotlib.figure import Figure

DOCS = Path(__file__).parent
PAGE = DOCS / "guide" / "scale-out.md"
ROWS = 1e12

# Million rows a second and core: python -m bench.bench_rows, python -m bench.bench_scale_out.
MEASURED = {
    22: {"kernel": 116.0, "Dask": 0.0, "Spark": 0.0},
    100: {"kernel": 10.0, "Dask": 0.0, "Spark": 0.0},
}


def core_hours(d: int, engine: str) -> float:
    return ROWS / (MEASURED[d][engine] * 1e6) / 3600


def table() -> str:
    lines = ["| 10^12 rows | d = 22 | d = 100 |", "|---|--:|--:|"]
    row = "| {} | {} |".format
    lines.append(
        row("float64 values, TB", " | ".join(f"{ROWS * d * 8 / 1e12:.0f}" for d in MEASURED))
    )
    for engine, name in (
        ("kernel", "in memory, one machine"),
        ("Dask", "Dask, distributed"),
        ("Spark", "Spark"),
    ):
        hours = " | ".join(f"{core_hours(d, engine):,.0f}" for d in MEASURED)
        lines.append(row(f"{name}: core hours", hours))
    for engine in ("Dask", "Spark"):
        minutes = " | ".join(f"{core_hours(d, engine) / 1000 * 60:,.1f}" for d in MEASURED)
        lines.append(row(f"{engine} on 1000 cores: minutes", minutes))
    reading = " | ".join(
        f"{MEASURED[d]['Dask'] * 1e6 * d * 8 * 1000 / 1e12:,.1f}" for d in MEASURED
    )
    lines.append(row("which read together, TB a second (Dask)", reading))
    return "\n".join(lines) + "\n"


def picture() -> Figure:
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    cores = [1, 10_000]
    for d, colour in zip(MEASURED, ("C0", "C1"), strict=True):
        for engine, style in (("kernel", ":"), ("Dask", "-"), ("Spark", "--")):
            hours = [core_hours(d, engine) / c for c in cores]
            axes.loglog(cores, hours, style, color=colour, label=f"{engine}, d = {d}")
    for hours, name in ((1 / 60, "a minute"), (1, "an hour"), (24, "a day")):
        axes.axhline(hours, color="0.8", linewidth=0.8, zorder=0)
        axes.text(cores[1], hours, name, color="0.5", ha="right", va="bottom", fontsize=8)
    axes.set(xlabel="cores", ylabel="hours", xlim=cores, title="One pass over 10^12 rows")
    axes.legend(fontsize=8, ncols=2)
    return figure


def main() -> None:
    picture().savefig(DOCS / "img" / "scale-out.png", dpi=150)
    text = PAGE.read_text(encoding="utf-8")
    place = re.compile(r"(?<=<!-- scale -->\n).*?(?=<!-- end -->)", re.DOTALL)
    PAGE.write_text(place.sub(lambda _: table(), text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
