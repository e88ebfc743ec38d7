"""Rows of a table of which means, deviations and correlations are guessed, and nothing more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from scipy.special import betainc, ndtr, pdtr

from privgram._base.numbers import check_number, check_positive
from privgram._base.text import listed, shown
from privgram.columns.variables import Boolean, Factor, Number, Numeric
from privgram.multivariate.synthetic import decoded, labels_of
from privgram.multivariate.variables import root_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns

#: Standard deviation of a number of which nothing is said, as a part of its range.
SPREAD = 1 / 6

#: What a guess and its rare twin take where nothing is said: the mean of counts, as a part of their
#: upper bound; the part of its variance that instruments explain of what is instrumented.
COUNTED, STRENGTH = (1 / 10, 1 / 100), (1 / 4, 1 / 200)

#: Part of the rows that the rare twin gives to each level but the first, at most.
RARE = 1 / 100

#: Counts of which the probability is computed: of larger targets, those of as many even steps.
MOST_COUNTS = 1 << 20

#: The parts of a guess that a mapping may have.
PARTS = ("correlation", "mean", "std")


def is_guess(design: object, columns: Columns) -> TypeGuard[Mapping[Any, Any]]:
    """Whether a design is a guess, and not a table of the columns."""
    if not isinstance(design, Mapping):
        return False
    pairs = all(isinstance(key, tuple) for key in design)
    parts = all(isinstance(part, Mapping) for part in design.values())
    apart = parts or not set(design) & set(columns.variables)
    return pairs or (set(design) <= set(PARTS) and apart)


@dataclass(frozen=True, eq=False)
class Guess:
    """A guess of what a table is like.

    Every variable follows from a normal number, and these go together as `correlation` says: a
    level is where its number is between two quantiles, levels in the order of the description.
    Its rare twin differs where a fit turns on what nobody said: events and levels are few, and
    instruments weak.
    """

    columns: Columns
    parts: Mapping[str, Mapping[Any, float]]  # by `PARTS`
    #: Targets of regressions of counts.
    counts: frozenset[str] = frozenset()
    #: What is instrumented, and its instruments, as variables.
    instrumented: tuple[tuple[str, Sequence[str]], ...] = ()
    rare: bool = False

    @classmethod
    def of(
        cls,
        design: Mapping[Any, Any],
        columns: Columns,
        counts: frozenset[str] = frozenset(),
        instrumented: tuple[tuple[str, Sequence[str]], ...] = (),
        rare: bool = False,
    ) -> Guess:
        """A guess as `design` says it: by parts, or by correlations alone."""
        parts = design if set(design) <= set(PARTS) else {"correlation": design}
        for part, values in parts.items():
            if not isinstance(values, Mapping):
                raise TypeError(f"design: {part!r} is a mapping of names to numbers")
        return cls(columns, parts, counts, instrumented, rare)

    def rows(self, n: int) -> dict[str, NDArray[Any]]:
        """So many rows, in own units: the same ones each time."""
        rng = np.random.default_rng(0)
        normal = rng.standard_normal((n, len(self._place))) @ root_of(self._correlation).T
        return {name: self._column(name, normal[:, i]) for name, i in self._place.items()}

    @property
    def assumptions(self) -> list[str]:
        """What is taken to be so without a word of the design, as parts of a sentence."""
        bare, levels = self._bare, self._bare_levels
        coins = [name for name in self._place if self._by_bounds(name)]
        normal = [
            name for name in self._place if not (self._has_levels(name) or name in self.counts)
        ]
        words = []
        if normal:
            middle = [name for name in normal if name in bare]
            which = "" if middle == normal else f", {listed(middle)}"
            about = f"{which} about the middle of their bounds" if middle else ""
            words.append(f"numbers are normal{about}")
        if coins:
            words.append(f"{listed(coins)} (0 to 1) is 0 or 1")
        if levels:
            words.append(f"{listed(levels)} has each value as often")
        words += self._of_twins
        other = "other pairs of " if self._strengths or self._pairs else ""
        if len(self._place) > 1:
            words.append(f"{other}columns are uncorrelated")
        return words

    @property
    def rare_twin(self) -> Guess | None:
        """The same guess with few events, rare levels and weak instruments; None without any."""
        apart = self._bare_counts or self._bare_levels or self._strengths
        return replace(self, rare=True) if apart and not self.rare else None

    @property
    def rare_assumptions(self) -> list[str]:
        """What the rare twin takes to be so instead, as parts of a sentence."""
        levels = self._bare_levels
        few = f"all values of {listed(levels)} but the first have {RARE:.0%} of the rows at most"
        return [*([few] if levels else []), *replace(self, rare=True)._of_twins]

    @property
    def _of_twins(self) -> list[str]:
        counts = []
        for name in sorted(self.counts):
            said = [] if name in self._means else [f"a mean of {self._mean_of_counts(name):g}"]
            if name not in self._stds:
                said.append(f"a standard deviation of {self._std_of_counts(name):.2g}")
            counts += [f"{shown(name)} has {' and '.join(said)}"] if said else []
        weak = f"instruments explain {100 * STRENGTH[self.rare]:g}% of what they stand in for"
        return [*counts, *([weak] if self._strengths else [])]

    # --- what is said of a variable, by its name ----------------------------------------------

    @property
    def _bare(self) -> list[str]:
        return [name for name in self._place if name not in self._means]

    @property
    def _bare_counts(self) -> list[str]:
        return [name for name in self._bare if name in self.counts]

    @property
    def _bare_levels(self) -> list[str]:
        return [name for name in self._bare if self._has_levels(name)]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.columns.variables)}

    def _has_levels(self, name: str) -> bool:
        """Whether there is a share of the rows for each value."""
        levels = isinstance(self.columns.variables[name], Factor | Boolean)
        return levels or self._by_bounds(name)

    @cached_property
    def _labels(self) -> dict[str, tuple[str, int | None]]:
        """Names that a design may have: variables, also as logarithms, and levels."""
        labels: dict[str, tuple[str, int | None]] = {}
        for name, described in self.columns.variables.items():
            if isinstance(described, Factor):
                levels = enumerate(described.names)
                labels |= {f"{name}[{level}]": (name, i) for i, level in levels}
            elif isinstance(described, Numeric):
                labels[described.label(name)] = (name, None)
            labels[name] = (name, None)
        return labels

    def _named(self, label: str) -> tuple[str, int | None]:
        if label not in self._labels:
            raise ValueError(
                f"design: {label!r} is none of these columns: {listed(list(self._labels))}"
            )
        return self._labels[label]

    @cached_property
    def _means(self) -> dict[str, dict[int | None, float]]:
        means: dict[str, dict[int | None, float]] = {}
        for label, value in self.parts.get("mean", {}).items():
            name, level = self._named(label)
            described = self.columns.variables[name]
            if isinstance(described, Factor):
                if level is None:
                    example = f"{name}[{described.names[0]}]"
                    raise ValueError(
                        f"design: {name!r} has levels, and a mean of each is the part of the rows "
                        f"that have it: {{'mean': {{{example!r}: 0.1}}}}"
                    )
                low, high = 0.0, 1.0
            else:
                low, high = described.interval  # type: ignore[attr-defined]
            value = check_number(value, f"design: the mean of {label!r}")
            if not low <= value <= high:
                raise ValueError(
                    f"design: the mean of {label!r} must be within its bounds in own units, "
                    f"[{low:g}, {high:g}], not {value:g}"
                )
            means.setdefault(name, {})[level] = value
        return means

    @cached_property
    def _stds(self) -> dict[str, float]:
        stds: dict[str, float] = {}
        for label, value in self.parts.get("std", {}).items():
            name, _ = self._named(label)
            if isinstance(self.columns.variables[name], Factor | Boolean):
                raise ValueError(
                    f"design: the standard deviation of {label!r} follows from its mean: leave it "
                    "out"
                )
            stds[name] = check_positive(value, f"design: the standard deviation of {label!r}")
        return stds

    def _by_bounds(self, name: str) -> bool:
        """Whether a number is taken to be 0 or 1 since its bounds are these."""
        described = self.columns.variables[name]
        plain = type(described) is Number and described.interval == (0.0, 1.0)
        return plain and name not in self._stds and name not in self.counts

    def _shares(self, name: str) -> Vector:
        """Part of the rows that each level has: what the design leaves, evenly to the others."""
        described = self.columns.variables[name]
        stated = self._means.get(name, {})
        if not isinstance(described, Factor):
            share = stated.get(None, RARE if self.rare else 0.5)
            return np.array([1 - share, share])
        left, others = 1 - math.fsum(stated.values()), len(described) - len(stated)
        if left < -1e-9 or (others == 0 and left > 1e-9):
            raise ValueError(f"design: the parts of the rows with levels of {name!r} must add to 1")
        each = max(left, 0.0) / max(others, 1)
        shares = np.full(len(described), each)
        if self.rare and not stated:
            shares[1:] = min(RARE, each)
            shares[0] = 1 - shares[1:].sum()
        for level, share in stated.items():
            shares[level] = share
        return shares

    def _mean_of_counts(self, name: str) -> float:
        return self._means.get(name, {}).get(None, COUNTED[self.rare] * self._upper(name))

    def _std_of_counts(self, name: str) -> float:
        """Of real counts it is mostly about the mean, and more than Poisson's."""
        mean = self._mean_of_counts(name)
        return self._stds.get(name, math.sqrt(mean + mean**2))

    def _upper(self, name: str) -> float:
        described = self.columns.variables[name]
        assert isinstance(described, Number)
        return described.upper

    @cached_property
    def _strengths(self) -> dict[tuple[str, str], float]:
        """Correlations of instruments with what they stand in for, where none is said."""
        strengths: dict[tuple[str, str], float] = {}
        stated = [{self._named(label)[0] for label in pair} for pair in self._pairs]
        for endogenous, instruments in self.instrumented:
            if not any({endogenous, name} in stated for name in instruments):
                each = math.sqrt(STRENGTH[self.rare] / len(instruments))
                strengths |= {(endogenous, name): each for name in instruments}
        return strengths

    @property
    def _pairs(self) -> Mapping[Any, float]:
        pairs = self.parts.get("correlation", {})
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise ValueError("design: a correlation is of two columns, {('age', 'cost'): 0.3}")
        return pairs

    @cached_property
    def _correlation(self) -> Matrix:
        matrix = np.eye(len(self._place))
        for pair, value in (*self._strengths.items(), *self._pairs.items()):
            i, j = (self._place[self._named(name)[0]] for name in pair)
            matrix[i, j] = matrix[j, i] = check_number(value, f"design: {pair!r}")
        if not np.linalg.eigvalsh(matrix).min(initial=1.0) > -1e-9:
            raise ValueError("design: no table has these correlations; they contradict each other")
        return matrix

    # --- from normal numbers to values --------------------------------------------------------

    def _column(self, name: str, normal: Vector) -> Any:
        described = self.columns.variables[name]
        if name in self.counts:
            return self._counted(name, ndtr(normal))
        if self._has_levels(name):
            edges = np.cumsum(self._shares(name))[:-1]
            code = np.searchsorted(edges, ndtr(normal), side="right")
            numeric = self._by_bounds(name)
            return code.astype(np.float64) if numeric else labels_of(described, code)
        assert isinstance(described, Numeric)
        mean = self._means.get(name, {}).get(None, described.center)
        std = self._stds.get(name, 2 * SPREAD * described.half_width)
        return decoded(described, mean + std * normal)

    def _counted(self, name: str, quantile: Vector) -> Vector:
        """Counts by the negative binomial law, or by Poisson's where they vary by no more."""
        mean, std = self._mean_of_counts(name), self._std_of_counts(name)
        upper = min(self._upper(name), mean + 40 * max(std, math.sqrt(mean)) + 40)
        step = max(float(math.ceil(upper / MOST_COUNTS)), 1.0)
        k = step * np.arange(upper // step + 1.0)
        excess = std**2 - mean
        if excess > 1e-9 * mean > 0:
            size = mean**2 / excess
            below = betainc(size, k + 1, size / (size + mean))
        else:
            below = pdtr(k, mean)
        return step * np.searchsorted(below[:-1], quantile, side="right").astype(np.float64)
