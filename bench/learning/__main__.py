"""What learning on features is worth: `python -m bench.learning FOLDER [what]`.

The folder has tables as `.npz` files with `X`, `y` and `test`, and is where features of images
are kept. `what` is "tables", "fresh", "fashion", "text", "picture", or "page", which writes
what was measured into the page of results. Cells that were measured are kept, so that a run may be
broken off.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bench.learning import fashion, tables, text
from bench.pages import BENCHMARKS, fill, read, write

EPSILONS = (3.0, 1.0), (2.7, 0.5)  # the first two with all seeds, then the others
TEXT_EPSILONS = 1.0, 3.0, float("inf")
SEEDS = range(5)
WHAT = "tables", "fresh", "fashion", "text", "page", "picture"
SIZE = 3969
KINDS = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
)
FASHION, TABLES = BENCHMARKS / "learning-fashion.csv", BENCHMARKS / "learning-tables.csv"
TEXT, FRESH = BENCHMARKS / "learning-text.csv", BENCHMARKS / "learning-fresh.csv"

#: Accuracy that others published, at delta 1e-5.
PUBLISHED = (
    ("DP-SGD on scattering features, as published", "2.7", "89.5"),
    ("DP-SGD on scattering features, as published", "3", "89.7"),
)


def measure(path: Path, cells: list[dict[str, Any]], run: Any) -> None:
    """Measure cells that are not in a file yet, each by what tells it."""
    rows = read(path) if path.exists() else []
    known = {tuple(str(row[k]) for k in cells[0]) for row in rows}
    for cell in cells:
        if tuple(map(str, cell.values())) not in known:
            rows.append(cell | run(cell))
            print(rows[-1], flush=True)
            write(path, rows)


def page() -> None:
    """Put the tables into the page of results."""
    rows = read(FASHION)
    lines = ["| | features | ε | accuracy, % | seeds |", "|---|--:|--:|--:|--:|"]
    for size, epsilon in sorted({(int(r["size"]), float(r["epsilon"])) for r in rows}):
        cell = [r for r in rows if (int(r["size"]), float(r["epsilon"])) == (size, epsilon)]
        found = [100 * float(r["accuracy"]) for r in cell]
        shown = f"{np.mean(found):.1f}" + f" ± {np.std(found):.1f}" * (len(found) > 1)
        lines.append(f"| `PrivateClassifier` | {size:,} | {epsilon:g} | {shown} | {len(found)} |")
    lines += [f"| {name} | 3,969 | {epsilon} | {value} | |" for name, epsilon, value in PUBLISHED]
    fill("learning, fashion", lines)
    fill("learning, text", texts(read(TEXT)))
    fill("learning, tables", regressions(read(TABLES)))
    fill("learning, fresh", regressions(read(FRESH)))


def texts(rows: list[dict[str, str]]) -> list[str]:
    """Accuracy by table and epsilon."""
    epsilons = sorted({float(r["epsilon"]) for r in rows})
    shown = ["without privacy" if np.isinf(e) else f"ε = {e:g}" for e in epsilons]
    lines = [
        f"| texts | rows | classes | largest class | {' | '.join(shown)} |",
        "|---|" + "--:|" * (3 + len(shown)),
    ]
    for name in dict.fromkeys(r["table"] for r in rows):
        own = [r for r in rows if r["table"] == name]
        cells = []
        for epsilon in epsilons:
            found = [100 * float(r["accuracy"]) for r in own if float(r["epsilon"]) == epsilon]
            spread = f" ± {np.std(found):.1f}" if len(found) > 1 else ""
            cells.append(f"{np.mean(found):.1f}{spread}" if found else "")
        first = own[0]
        largest = f"{100 * float(first['largest class']):.1f}"
        cells = [name, f"{int(first['rows']):,}", first["classes"], largest, *cells]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def regressions(rows: list[dict[str, str]]) -> list[str]:
    """Errors by table and method."""
    methods = "least squares", "AdaSSP", "Hessian mixing", "linear", "features", "told"
    lines = [
        "| table | rows | columns | without privacy | AdaSSP | Hessian mixing | `PrivateRidge` "
        "| with `features=` | its own estimate |",
        "|---|" + "--:|" * 8,
    ]
    for name in dict.fromkeys(r["table"] for r in rows):
        own = [r for r in rows if r["table"] == name and float(r["epsilon"]) == 1.0]
        means = {method: np.mean([float(r[method]) for r in own]) for method in methods}
        cells = [f"{means[method]:.3f}" for method in methods]
        lines.append(
            f"| {name} | {int(own[0]['rows']):,} | {own[0]['columns']} | "
            + " | ".join(cells)
            + " |"
        )
    return lines


def picture(folder: Path) -> None:
    """Confusion and reliability of one fit, as a picture."""
    from matplotlib.figure import Figure

    x, y = fashion.features(folder, SIZE), fashion.labels()
    model, _ = fashion.fit(x, y, 1.0, 0, holdout=0.1)
    new, truth = x[fashion.TRAINED :], y[fashion.TRAINED :]
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (truth, model.predict(new)), 1)
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.imshow(np.sqrt(counts), cmap="Greys")
    for i, j in np.argwhere(counts):
        dark = "white" if counts[i, j] > 300 else "black"
        left.text(j, i, counts[i, j], ha="center", va="center", fontsize=6, color=dark)
    left.set_xticks(range(10), KINDS, rotation=90)
    left.set_yticks(range(10), KINDS)
    left.set_xlabel("predicted")
    held = model.result_.held_out
    middle = (held.edges[1:] + held.edges[:-1]) / 2
    p = model.predict_proba(new)
    at = np.minimum((p.max(axis=1) * len(middle)).astype(int), len(middle) - 1)
    right_ones = p.argmax(axis=1) == truth
    exact = [right_ones[at == b].mean() if (at == b).any() else np.nan for b in range(len(middle))]
    right.plot([0, 1], [0, 1], color="grey", lw=0.8)
    right.plot(middle, exact, "o-", color="black", label="images for tests")
    right.plot(
        middle, held.reliability, "s", mfc="none", color="tab:red", label="held out, private"
    )
    right.set_xlabel("probability of the predicted class")
    right.set_ylabel("part that is right")
    right.legend(frameon=False)
    figure.savefig(BENCHMARKS.parent / "img" / "classifier.png", dpi=110)
    print(held.accuracy, held.accuracy_stderr, model.score(new, truth))


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=WHAT, nargs="?")
    given = parser.parse_args()
    sources = {
        "tables": lambda: {path.stem: path for path in sorted(given.folder.glob("*.npz"))},
        "fresh": lambda: tables.fresh(given.folder / "fresh"),
    }
    for what, file in (("tables", TABLES), ("fresh", FRESH)):
        if given.what not in (what, None):
            continue
        paths = sources[what]()
        cells = [{"table": t, "epsilon": 1.0, "seed": seed} for seed in SEEDS for t in paths]
        measure(
            file, cells, lambda c, at=paths: tables.errors(at[c["table"]], c["epsilon"], c["seed"])
        )
    if given.what in ("text", None):
        cells = [
            {"table": t, "epsilon": e, "seed": s}
            for s in SEEDS
            for t in text.SOURCES
            for e in TEXT_EPSILONS
            if s == 0 or np.isfinite(e)
        ]
        measure(
            TEXT,
            cells,
            lambda c: text.accuracy(c["table"], c["epsilon"], c["seed"]),
        )
    if given.what in ("fashion", None):
        order = [(e, s) for two in EPSILONS for s in SEEDS for e in two]
        cells = [{"size": SIZE, "epsilon": e, "seed": s} for e, s in order]
        measure(
            FASHION,
            cells,
            lambda c: fashion.accuracy(c["size"], c["epsilon"], c["seed"], given.folder),
        )
    if given.what in ("picture", None):
        picture(given.folder)
    if given.what in ("page", None):
        page()


if __name__ == "__main__":
    main()
