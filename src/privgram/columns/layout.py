"""From terms to columns: which are stored, under which names, and what the others follow from.

A row has the value 1 in exactly one level of a factor, so that the sum of a factor's indicators
is the column of ones, and sums over a product of factors give the factors. What follows is
not stored: it would lengthen every row, and so the noise, without telling anything new.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privgram._core.scale import DefaultRounding
from privgram.columns.terms import INTERCEPT, ONES, Piece, Term
from privgram.columns.variables import MAX_LEVELS, Factor, Numeric, Variable


@dataclass(frozen=True)
class Stored:
    """A piece that is stored: its columns are adjacent, one for each combination of levels."""

    piece: Piece
    start: int
    shape: tuple[int, ...]  # levels of each factor; () for one column
    weight: float

    @property
    def size(self) -> int:
        """Number of columns."""
        return math.prod(self.shape)

    @property
    def columns(self) -> slice:
        """Where they are."""
        return slice(self.start, self.start + self.size)


class Layout:
    """The columns that are stored for some terms, each times the term's weight."""

    def __init__(
        self,
        variables: Mapping[str, Variable],
        terms: Sequence[Term],
        intercept: bool,
        weights: Mapping[Term, float],
    ) -> None:
        self.variables = variables
        wanted: dict[Piece, float] = {}
        for term in terms:
            for piece in term.pieces():
                # What is in two terms takes the larger weight.
                wanted[piece] = max(weights.get(term, 1.0), wanted.get(piece, 0.0))
        if intercept:
            wanted.setdefault(ONES, 1.0)
        kept = _maximal(wanted)
        self.stored: list[Stored] = []
        start = 0
        for piece in kept:
            shape = tuple(self._levels(name) for name in piece.factors)
            if math.prod(shape) > MAX_LEVELS:
                raise ValueError(
                    f"{':'.join(piece.factors)} has {math.prod(shape):,} combinations of levels "
                    f"and a second moment at most {MAX_LEVELS:,} columns: leave the product out, "
                    "or merge levels"
                )
            self.stored.append(Stored(piece, start, shape, wanted[piece]))
            start += math.prod(shape)
        if start > MAX_LEVELS:
            raise ValueError(
                f"the terms make {start:,} columns and a second moment has at most {MAX_LEVELS:,}"
            )
        self.size = start
        self.names = tuple(name for stored in self.stored for name in self._names(stored.piece))

    def _levels(self, name: str) -> int:
        described = self.variables[name]
        assert isinstance(described, Factor)
        return len(described)

    def _names(self, piece: Piece) -> Iterator[str]:
        if piece == ONES:
            yield INTERCEPT
            return
        numeric = [self.power(name, k) for name, k in piece.powers]
        for cell in product(*(self._level_names(name) for name in piece.factors)):
            yield ":".join([*numeric, *cell])

    def _level_names(self, name: str) -> list[str]:
        described = self.variables[name]
        assert isinstance(described, Factor)
        return [f"{name}[{level}]" for level in described.names]

    def power(self, name: str, degree: int) -> str:
        """What the column of a polynomial is called."""
        described = self.variables[name]
        assert isinstance(described, Numeric)
        label = described.label(name)
        return label if degree == 1 else f"P{degree}({label})"

    def squared_bound(self) -> float:
        """The largest squared norm that a row can have; it is attained.

        Legendre polynomials are at most 1 in size on [-1, 1] and all 1 at the end 1, and of an
        indicator's levels one is 1: so every piece contributes its squared weight at most, and
        all do where every number is at its upper bound.
        """
        with DefaultRounding():
            return math.fsum(stored.weight**2 for stored in self.stored)

    def farthest(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest size that each linear image of a row can have, at most, shape (m,).

        The images are by the rows of the matrix, (m, size). Of a piece's columns one counts, as
        large as its weight.
        """
        sizes = np.abs(matrix)
        parts = [own.weight * sizes[:, own.columns].max(axis=1) for own in self.stored]
        return np.asarray(np.sum(parts, axis=0))

    def find(self, piece: Piece) -> Stored | None:
        """The stored piece of which a piece's columns are sums: the one of the fewest columns."""
        found = [stored for stored in self.stored if stored.piece.implies(piece)]
        return min(found, key=lambda stored: stored.size, default=None)

    def image(self, piece: Piece) -> NDArray[np.float64] | None:
        """The columns of a piece as linear images of the stored ones, shape (levels, size).

        Without weights: what multiplies the stored matrix from the left. None where the piece does
        not follow from what is stored.
        """
        stored = self.find(piece)
        if stored is None:
            return None
        shape = tuple(self._levels(name) for name in piece.factors)
        rows = np.zeros((math.prod(shape), self.size))
        index = np.arange(math.prod(shape))
        # Factors are in one order everywhere; those that are summed over have one level here.
        wide = [self._levels(name) if name in piece.factors else 1 for name in stored.piece.factors]
        cells = np.broadcast_to(index.reshape(wide), stored.shape).ravel()
        rows[cells, np.arange(stored.start, stored.start + stored.size)] = 1 / stored.weight
        return rows


def _maximal(wanted: Mapping[Piece, float]) -> list[Piece]:
    """The pieces that follow from no other; the column of ones last."""
    alike: dict[tuple[tuple[str, int], ...], list[Piece]] = {}
    for piece in wanted:
        alike.setdefault(piece.powers, []).append(piece)
    kept = [
        piece
        for piece in wanted
        if not any(other != piece and other.implies(piece) for other in alike[piece.powers])
    ]
    return sorted(kept, key=lambda piece: piece == ONES)
