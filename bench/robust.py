"""Coverage of robust standard errors where the classical ones fail, and where it is worst.

    python -m bench.robust [--draws 400] [--seed 0]

Half a minute on one core.  As in `bench/coverage.py`: every table is a fixed population, a draw
takes n of its rows with replacement, releases them, and looks again with half the epsilon.  Prints
the rows of the table in docs/guide/regression.md: the coverage of the worst coefficient.
"""

import argparse
from collections.abc import Callable

import numpy as np

import privgram as pg
from bench.coverage import DELTA, POPULATION, Table, errors


def by_level(rng: np.random.Generator) -> Table:
    """A factor by whose levels, the rarest 10 %, the spread of errors grows sevenfold."""
    region = rng.choice(4, POPULATION, p=[0.4, 0.3, 0.2, 0.1])
    x = rng.uniform(-1, 1, POPULATION)
    spread = np.array([0.05, 0.1, 0.2, 0.35])[region] * (0.5 + np.abs(x))
    effect = np.array([0.0, 0.1, -0.1, 0.2])[region]
    y = np.clip(0.3 * x + effect + spread * rng.standard_normal(POPULATION), -1, 1)
    rows = np.empty(POPULATION, [("x", "f8"), ("region", "U1"), ("y", "f8")])
    rows["x"], rows["region"], rows["y"] = x, np.array(list("abcd"))[region], y
    columns = pg.Columns({"x": (-1, 1), "region": list("abcd"), "y": (-1, 1)}, intercept=True)
    dummies = [region == i for i in (1, 2, 3)]
    design = np.column_stack([x, *dummies, np.ones(POPULATION), y]).astype(float)
    return Table(rows, columns, "y", 20_000, (3.0, 8.0), design=design)


TABLES: dict[str, tuple[Callable[[np.random.Generator], Table], int, tuple[float, ...]]] = {
    "spread x²": (errors("unequal variance"), 5_000, (1.0, 4.0)),
    "spread x², longer": (errors("unequal variance"), 20_000, (1.0, 4.0)),
    "spread by level": (by_level, 20_000, (3.0, 8.0)),
}


def measure(name: str, draws: int, seed: int) -> None:
    """Print one table's rows."""
    make, n, epsilons = TABLES[name]
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    table = make(rng)
    truth = table.truth()
    for adjacency in ("replace", "add-remove"):
        for epsilon in epsilons:
            hits, refused = [], 0
            for _ in range(draws):
                rows = table.rows[rng.integers(0, len(table.rows), n)]
                release = pg.release(
                    rows, "analyze-gauss", epsilon, DELTA, adjacency, columns=table.columns, rng=rng
                )
                try:
                    fit = release.regress(table.target)
                    found = fit.robust(rows, epsilon / 2, DELTA, rng=rng)
                except ValueError:  # noise above the signal
                    refused += 1
                    continue
                ends = (f.conf_int(intercept=True).T for f in (fit, found))
                hits.append([(low <= truth) & (truth <= high) for low, high in ends])
            cells = []
            for shares in np.mean(hits, axis=0):
                worst = int(shares.argmin())
                cells.append(f"{found.param_names[worst]} {100 * shares[worst]:.1f}")
            print(f"| {name} | {n:,} | {adjacency} | {epsilon:g} | {' | '.join(cells)} |")
            if refused:
                print(f"{refused} of {draws} were refused")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name in TABLES:
        measure(name, arguments.draws, arguments.seed)
