"""A factor of very many levels, whose columns are never made, and the first pass by its levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from privgram.columns import Columns
from privgram.columns.terms import as_factor, parse_terms
from privgram.columns.variables import Factor
from privgram.glm.accumulators import STEP, HighCardinalityAccumulator, LevelFirst, LevelSums
from privgram.moment import SecondMoment
from privgram.scan.executor import accumulate

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.columns.terms import Parsed
    from privgram.glm.accumulators import ByLevel
    from privgram.regression.design import RegressionTerms
    from privgram.scan.request import ScanRequest

#: Of factors with more levels columns are slow, and noise in all of them hides what a step is.
MOST_LEVELS = 100

#: Effects of no more levels are written out, each with its covariances.
MOST_SHOWN = 1000


@dataclass(frozen=True, eq=False)
class HighCardinalityFactor:
    """A factor of many levels, and the columns without it."""

    factor: str
    used: Columns  # what the formula needs
    other_columns: Columns  # and that without the factor
    other_terms: tuple[str, ...]
    written_out: bool  # whether the effects of its levels are written out

    @classmethod
    def of(cls, parsed: Parsed, used: Columns) -> HighCardinalityFactor | None:
        """The wide factor of a formula, if it has one by itself and few columns else."""
        texts = [*parsed.features, *parsed.absorbed]
        terms = dict(zip(texts, parse_terms(texts, used.variables), strict=False))
        alone = [
            text for text in texts if len(terms[text].factors) == 1 and not terms[text].degrees
        ]
        by_size = sorted(alone, key=lambda text: _size(used, terms[text].factors[0]))
        absorbed = parsed.absorbed[0] if parsed.absorbed else None
        at = absorbed or (by_size[-1] if by_size else None)
        if at is None or at not in alone or len(parsed.absorbed) > 1 or len(terms) < len(texts):
            return None
        factor = terms[at].factors[0]
        if absorbed is None and not MOST_LEVELS < _size(used, factor) <= MOST_SHOWN:
            return None
        other_columns = used.without(factor)
        others = tuple(text for text in texts if text != at)
        lost = any(factor in term.factors for text, term in terms.items() if text != at)
        target = parsed.targets[0].partition("[")[0] == factor
        if lost or target or not others or sum(map(len, _factors(other_columns))) > MOST_LEVELS:
            return None
        return cls(factor, used, other_columns, others, absorbed is None)

    @property
    def size(self) -> int:
        """How many levels there are."""
        return _size(self.used, self.factor)

    def without(self, terms: RegressionTerms) -> RegressionTerms:
        """Terms of a regression but for the factor's."""
        levels = {name: level for name, level in terms.references.items() if name != self.factor}
        return replace(terms, features=self.other_terms, references=levels)

    def first(self, scan: ScanRequest) -> tuple[SecondMoment, LevelSums]:
        """The first pass: the second moment of the other columns, and the numbers by level."""
        d, bound = len(self.other_columns), float(self.other_columns.bound)
        total = self.read(scan, np.eye(d), None, partial(LevelFirst, self.size, d, bound))
        inner = total.inner
        second = inner.within.second
        for start in range(0, total.n_dropped, STEP):  # which it counts
            second.update(np.full((min(STEP, total.n_dropped - start), d), np.nan), True)
        moment = SecondMoment.from_accumulator(
            second, None, self.other_columns, self.other_columns.bound
        )
        return moment, inner.counts

    def read(
        self, scan: ScanRequest, transform: Matrix, shift: Matrix | None, new: Callable[[], ByLevel]
    ) -> HighCardinalityAccumulator[ByLevel]:
        """Feed the rows of the table, mapped and less what their level has."""

        def of_rows(_: int) -> HighCardinalityAccumulator[ByLevel]:
            return HighCardinalityAccumulator(
                self.used, self.other_columns, self.factor, transform, shift, new()
            )

        read: HighCardinalityAccumulator[ByLevel] = accumulate(scan, of_rows)[0]
        return read


def _size(columns: Columns, factor: str) -> int:
    return len(as_factor(factor, columns.variables))


def _factors(columns: Columns) -> list[Factor]:
    return [described for described in columns.variables.values() if isinstance(described, Factor)]
