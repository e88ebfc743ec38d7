"""One regression as it is asked for, checked, and what its fit is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram.regression.design import AllColumns, Design, design

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

    target: str
    terms: tuple[str, ...]
    columns: Columns  # those that the formula needs
    intercept: bool
    references: dict[str, str]  # levels that are left out, by factor
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
        if self.factor is not None:
            return self.factor.narrow_design(self.target, self.references)
        columns = AllColumns(self.columns)
        return design(columns, self.target, self.terms, self.intercept, self.references)

    @cached_property
    def offset_design(self) -> Design | None:
        """The design whose target is the offset."""
        return None if self.offset is None else replace(self, target=self.offset).design

    def check(self) -> None:
        """Raise ValueError where the terms are none of the columns, before anything is spent."""
        _ = self.design, self.offset_design, self.n_written

    @cached_property
    def written(self) -> Problem:
        """The regression that is written out: with the effects of levels, or without the factor."""
        factor = self.factor
        if factor is None:
            return self
        columns, terms = factor.used, factor.terms
        if not factor.written_out:
            columns, terms = factor.other_columns, factor.texts
        references = {k: v for k, v in self.references.items() if k in columns.variables}
        return replace(self, columns=columns, terms=terms, references=references, factor=None)

    @property
    def n_written(self) -> int:
        """How many coefficients the fit has."""
        return len(self.written.design.images) - 1

    @property
    def scanned(self) -> Columns:
        """The columns of the first second moment."""
        return self.columns if self.factor is None else self.factor.other_columns


@dataclass(frozen=True, eq=False)
class LastSteps:
    """The last two steps of the coefficients, by scores: how far they went, and by which noise."""

    whole: Vector  # (q,), from where both began, weighed as the estimate weighs them
    second: Vector  # (q,), after the first one
    noise_std: float  # of the score


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
    facts: dict[str, Any] = field(default_factory=dict)  # further parameters, for the record

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        arrays = self.coef, self.sampling, self.noise, self.unidentified
        return all(bool(np.isfinite(array).all()) for array in arrays)


def refused_parts(size: int, refusal: str, rows: float = 1.0, stopped: bool = False) -> FitParts:
    """A refused fit of so many coefficients, which are no numbers."""
    none = np.zeros((size, size))
    return FitParts(
        np.zeros(size),
        none,
        none,
        none,
        scale=1.0,
        rows=rows,
        method="scores",
        refusal=refusal,
        stopped=stopped,
    )
