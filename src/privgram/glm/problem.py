"""One regression as it is asked for, checked, and what its fit is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram.moment.units import bounds_of
from privgram.regression.design import AllColumns, Design, RegressionTerms, design

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.columns.unit import Unit
    from privgram.glm.factor import HighCardinalityFactor
    from privgram.regression.families import FamilyName, LossName

#: What a fit is for: standard errors, or predictions alone.
FitPurpose = Literal["inference", "prediction"]


@dataclass(frozen=True, eq=False)
class Problem:
    """One regression: what is asked of a table, and nothing of the table."""

    terms: RegressionTerms
    columns: Columns  # those that the formula needs
    family: FamilyName = "gaussian"
    loss: LossName = "squared"
    robust: bool = True
    purpose: FitPurpose = "inference"
    offset: str | None = None  # a term that is added to the linear predictor
    unit: Unit | None = None
    factor: HighCardinalityFactor | None = None

    @cached_property
    def design(self) -> Design:
        """The design of what is stepped in: without the levels of a factor of very many."""
        terms = self.terms if self.factor is None else self.factor.without(self.terms)
        return design(AllColumns(self.scanned), terms)

    @cached_property
    def offset_design(self) -> Design | None:
        """The design whose target is the offset."""
        if self.offset is None:
            return None
        return replace(self, terms=replace(self.terms, target=self.offset)).design

    def check(self) -> None:
        """Raise ValueError where the terms are none of the columns, before anything is spent."""
        _ = self.design, self.offset_design, self.n_written

    @cached_property
    def written(self) -> Problem:
        """The regression that is written out: with the effects of levels, or without the factor."""
        if self.factor is None:
            return self
        if self.factor.written_out:
            return replace(self, factor=None)
        terms = self.factor.without(self.terms)
        return replace(self, columns=self.scanned, terms=terms, factor=None)

    @property
    def n_written(self) -> int:
        """How many coefficients the fit has."""
        return len(self.written.design.images) - 1

    @property
    def scanned(self) -> Columns:
        """The columns of the first second moment."""
        return self.columns if self.factor is None else self.factor.other_columns

    @property
    def chooses_bound(self) -> bool:
        """Whether the bound of units is chosen by the table, as nothing public says it."""
        return self.unit is not None and self.unit.max_rows is None and self.unit.bound is None

    @property
    def bound(self) -> float:
        """That of the first second moment, of rows or of units, where it is not chosen."""
        bound = self.scanned.bound
        if self.unit is None or self.chooses_bound:
            return bound
        return bounds_of(self.unit, bound)[1]


@dataclass(frozen=True, eq=False)
class LastSteps:
    """The last two steps of the coefficients, by scores: how far they went, and by which noise."""

    whole: Vector  # (q,), from where both began, weighed as the estimate weighs them
    second: Vector  # (q,), after the first one
    noise_std: float  # of the score


@dataclass(frozen=True, eq=False)
class HuberEquation:
    """Which of Huber's equations a fit solved: its limits, and the whitening of own features."""

    error: float
    leverage: float
    whitening: Matrix  # (q, p + 1)


@dataclass(frozen=True, eq=False)
class FitParts:
    """Coefficients of a design, what is not known of them, and how they came about.

    `sampling` is the covariance of a sample, `noise` that of privacy with what clipping may have
    moved, and `unidentified` that of directions which the noise hides; all (q, q).
    """

    coef: Vector  # (q,)
    sampling: Matrix
    noise: Matrix
    unidentified: Matrix
    scale: float
    rows: float
    method: str  # "scores" or "one round"
    reason: str = ""  # why not by scores
    refusal: str | None = None
    clipped_rows: float = 0.0
    path: LastSteps | None = None
    stopped: bool = False  # before the whole budget was spent
    clip: float | None = None  # of scores
    hidden_levels: int | None = None  # of a factor of very many
    absorbed: str | None = None  # the factor whose levels' effects are not written out
    absorbed_levels: int | None = None
    huber: HuberEquation | None = None

    @property
    def facts(self) -> dict[str, object]:
        """What the record has of this kind of fit alone."""
        names = "clip", "hidden_levels", "absorbed", "absorbed_levels"
        facts = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.huber is None:
            return facts
        error, leverage, whitening = self.huber.error, self.huber.leverage, self.huber.whitening
        equation = {"error": error, "leverage": leverage, "frame": whitening.tolist()}
        return facts | {"huber": equation}

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        arrays = self.coef, self.sampling, self.noise, self.unidentified
        return all(bool(np.isfinite(array).all()) for array in arrays)


def refused_parts(size: int, refusal: str, rows: float = 1.0, stopped: bool = False) -> FitParts:
    """A refused fit of so many coefficients, which are no numbers."""
    none = np.zeros((size, size))
    parts = FitParts(np.zeros(size), none, none, none, scale=1.0, rows=rows, method="scores")
    return replace(parts, refusal=refusal, stopped=stopped)
