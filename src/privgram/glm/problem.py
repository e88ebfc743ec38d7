"""One regression as it is asked for, checked, and what its fit is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from privgram.columns import Columns
from privgram.columns.terms import Parsed, as_factor, parse_terms
from privgram.columns.variables import Factor
from privgram.moment import SecondMoment
from privgram.moment.accumulators import OtherColumnsAccumulator
from privgram.moment.units import bounds_of
from privgram.regression.design import AllColumns, Design, RegressionTerms, design
from privgram.scan.executor import accumulate
from privgram.secret.sweep import LevelImage

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.columns.survival import Survival
    from privgram.columns.unit import Unit
    from privgram.regression.families import Family, LossName
    from privgram.regression.glm import FitPurpose
    from privgram.regression.goodness import Goodness, LikelihoodGain
    from privgram.scan.request import ScanRequest

#: A factor of more levels is taken as one. On real tables with 9 to 51 levels far more fits are
#: answered so than by columns, and with fewer levels columns do as well (docs/theory/glm.md).
FEW_LEVELS = 8

#: Rows left out that are counted at a time.
DROPPED_AT_ONCE = 1 << 13

#: All other factors have no more levels: their columns are made.
MOST_LEVELS = 100

#: Factors beside one that is absorbed have no more levels together.
MOST_BESIDE = 50

#: Effects of no more levels are coefficients, each with its covariances; of more they are beside.
MOST_SHOWN = 1000


@dataclass(frozen=True, eq=False)
class HighCardinalityFactor:
    """A factor of many levels, and the columns without it."""

    factor: str
    used: Columns  # what the formula needs
    other_columns: Columns  # and that without the factor
    other_terms: tuple[str, ...]
    absorbed: bool  # whether the effects of its levels are not asked for

    @classmethod
    def of(cls, parsed: Parsed, used: Columns) -> HighCardinalityFactor | None:
        """The largest factor of a formula, if it has many levels by itself, and few are beside.

        Of absorbed factors the largest, whatever its levels are. Differences of weighted rows are
        not free of effects.
        """
        texts = [*parsed.features, *parsed.absorbed]
        terms = dict(zip(texts, parse_terms(texts, used.variables), strict=False))
        alone = [
            text for text in texts if len(terms[text].factors) == 1 and not terms[text].degrees
        ]
        by_size = sorted(alone, key=lambda text: _size(used, terms[text].factors[0]))
        absorbed = bool(parsed.absorbed)
        by_size = [text for text in by_size if not absorbed or text in parsed.absorbed]
        if not by_size or len(terms) < len(texts) or used.row_weights is not None:
            return None
        at = by_size[-1]
        factor = terms[at].factors[0]
        if not absorbed and _size(used, factor) <= FEW_LEVELS:
            return None
        other_columns = used.without(factor)
        others = tuple(text for text in texts if text != at)
        lost = any(factor in term.factors for text, term in terms.items() if text != at)
        lost |= absorbed and not parsed.features
        target = parsed.targets[0].partition("[")[0] == factor
        most = MOST_BESIDE if absorbed else MOST_LEVELS
        if lost or target or sum(map(len, _factors(other_columns))) > most:
            return None
        return cls(factor, used, other_columns, others, absorbed)

    @property
    def size(self) -> int:
        """How many levels there are."""
        return _size(self.used, self.factor)

    @property
    def written_out(self) -> bool:
        """Whether the effects of its levels are coefficients."""
        return not self.absorbed and self.size <= MOST_SHOWN

    def without(self, terms: RegressionTerms) -> RegressionTerms:
        """Terms of a regression but for the factor's."""
        levels = {name: level for name, level in terms.references.items() if name != self.factor}
        return replace(terms, features=self.other_terms, references=levels)

    def image(self, matrix: Matrix) -> LevelImage:
        """Images of rows without the factor, beside its levels."""
        return LevelImage(self.used, self.other_columns, self.factor, matrix)


@dataclass(frozen=True, eq=False)
class Clusters:
    """The clusters of rows by a factor that need not be in the formula."""

    groups: str
    read: Columns  # what the formula needs, and the clusters
    others: Columns  # what the formula needs

    @property
    def size(self) -> int:
        """How many clusters there may be."""
        return _size(self.read, self.groups)

    def image(self, matrix: Matrix) -> LevelImage:
        """Images of rows beside their cluster; rows that are in none are left out."""
        return LevelImage(self.read, self.others, self.groups, matrix)


def first_by_level(of: HighCardinalityFactor | Clusters, scan: ScanRequest) -> SecondMoment:
    """The first pass: the second moment of columns, of rows whose level is known."""
    image = of.image(np.eye(1))
    others, d = image.others, len(image.others)
    new = partial(OtherColumnsAccumulator, image.read, others, image.factor)
    total = accumulate(scan, new)[0]
    second = total.inner
    for start in range(0, total.n_dropped, DROPPED_AT_ONCE):  # which it counts
        second.update(np.full((min(DROPPED_AT_ONCE, total.n_dropped - start), d), np.nan), True)
    return SecondMoment.from_accumulator(second, None, others, others.bound)


def _size(columns: Columns, factor: str) -> int:
    return len(as_factor(factor, columns.variables))


def _factors(columns: Columns) -> list[Factor]:
    return [described for described in columns.variables.values() if isinstance(described, Factor)]


@dataclass(frozen=True, eq=False)
class Problem:
    """One regression: what is asked of a table, and nothing of the table."""

    terms: RegressionTerms
    columns: Columns  # those that the formula needs
    family: Family
    loss: LossName = "squared"
    robust: bool = True
    purpose: FitPurpose = "inference"
    offset: str | None = None  # a term that is added to the linear predictor
    unit: Unit | None = None
    factor: HighCardinalityFactor | None = None
    survival: Survival | None = None  # of which rows are pieces
    clusters: Clusters | None = None  # in which errors go together
    question: RegressionTerms | None = None  # with instruments: `terms` have none

    @cached_property
    def design(self) -> Design:
        """The design of what is stepped in: without the levels of a factor of very many."""
        terms = self.terms if self.factor is None else self.factor.without(self.terms)
        return design(AllColumns(self.scanned), terms, alone=self.factor is not None)

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
        columns = self.scanned if self.factor.absorbed else self.columns  # which has the levels
        return replace(self, columns=columns, terms=terms, factor=None)

    @property
    def n_written(self) -> int:
        """How many coefficients the fit has."""
        return len(self.written.design.images) - 1

    @property
    def read(self) -> Columns:
        """The columns that are read of the table."""
        return self.columns if self.clusters is None else self.clusters.read

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


@dataclass(frozen=True)
class HuberEquation:
    """The public numbers of the bounded equation that a fit solves."""

    error: float  # residuals count up to so many scales
    leverage: float  # rows longer than this weigh less
    frame: list[list[float]]  # (q, q), W in own units


@dataclass(frozen=True)
class ClusterFacts:
    """The clusters in which errors go together, and what is known of them."""

    groups: str
    seen: int  # those that have more rows than noise makes
    ratio: float  # of the noise to what sums by cluster have, as a deviation


@dataclass(frozen=True)
class FitFacts:
    """What the record has of one kind of fit alone: None of others."""

    clip: float | None = None
    hidden_levels: int | None = None
    unit_effects: bool | None = None  # whether means of each unit were taken off
    absorbed: str | None = None  # the factor whose effects are not shown
    absorbed_levels: int | None = None
    huber: HuberEquation | None = None
    clipping_excess: float | None = None  # over the noise, where it makes intervals longer
    heavy_tail: bool | None = None  # whether longer scores become rare very slowly
    one_sided: float | None = None  # over the noise, where these point one way
    goodness: Goodness | None = None  # of least squares
    likelihood: LikelihoodGain | None = None  # of other families
    clusters: ClusterFacts | None = None


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
    by_level: Matrix | None = None  # (K, 3 + slopes), effects beside the coefficients
    stopped: bool = False  # before the whole budget was spent
    facts: FitFacts = FitFacts()

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
