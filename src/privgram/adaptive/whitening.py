"""Coordinates in which a table is about isotropic, by an earlier release of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privgram.adaptive.rules import ADAPTIVE
from privgram.columns.structure import ties
from privgram.noise import GaussianLaw, MaskedLaw, TiedLaw, imposed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix
    from privgram.columns import Columns


class LevelBlock(NamedTuple):
    """A factor in a frame: the coordinates of its levels, and a row's entry in one of them."""

    start: int
    size: int
    entry: float


@dataclass(frozen=True)
class WhiteningTransform:
    """Coordinates z = A u in which a table is about isotropic.

    Factors may be apart: then the numbers, less what factors tell of them, are about isotropic,
    and each factor has a coordinate for each level, in one of which a row has an entry.
    """

    # (d, d), A: its rows of numbers, the longest first, are orthogonal in the columns of numbers
    matrix: Matrix
    typical: float  # estimate of the mean of |z|^2 over rows
    # the least second moment of numbers in any direction over the noise's own eigenvalues
    clear: float
    stretch: float = 1.0  # how much longer than whitening makes it a target's residual is
    levels: tuple[LevelBlock, ...] = ()  # factors that are apart
    second: Matrix | None = None  # about the second moment per row, if not the identity

    @cached_property
    def numbers(self) -> NDArray[np.intp]:
        """The coordinates that are of no factor."""
        free = np.ones(len(self.matrix), bool)
        for start, size, _ in self.levels:
            free[start : start + size] = False
        return np.flatnonzero(free)

    @property
    def constant(self) -> float:
        """What factors have of |z|^2 in every row."""
        return math.fsum(entry**2 for *_, entry in self.levels)

    def reach(self, times: float) -> float:
        """A square so many times the typical one of the numbers."""
        return self.constant + times * (self.typical - self.constant)

    def towards(self, target: int) -> WhiteningTransform:
        """The frame in which the residual of a column is longer, and gets less noise.

        A^T A is about the inverse of the second moment per row, whose column is in proportion to
        the residual's coefficients. So in the frame the residual is along that column of A.
        """
        numbers = self.matrix[self.numbers]
        along = numbers[:, target] / np.linalg.norm(numbers[:, target])
        stretch = math.sqrt(max(1.0, ADAPTIVE.residual * (self.typical - self.constant)))
        numbers = numbers + (stretch - 1) * np.outer(along, along @ numbers)
        typical = self.typical + stretch**2 - 1
        return replace(self, matrix=self._with(numbers), typical=typical, stretch=stretch)

    def _with(self, numbers: Matrix) -> Matrix:
        """The matrix with other rows of numbers, up to a rotation."""
        matrix = self.matrix.copy()
        matrix[self.numbers] = numbers
        if not self.levels:
            return _orthogonal(matrix)
        rotation = np.linalg.svd(numbers[:, self.numbers])[0]
        matrix[self.numbers] = rotation.T @ numbers
        return matrix

    def teaches(self, noise_std: float, rows: float) -> bool:
        """Whether a middle round, of this noise off the diagonal, is worth anything."""
        return noise_std <= self.loudest(rows)

    def loudest(self, rows: float) -> float:
        """Noise off the diagonal beyond which a round in the frame drowns what it brings forth."""
        return ADAPTIVE.taught * rows / (2 * math.sqrt(max(len(self.numbers), 1)))

    def largest(self, bound: float) -> float:
        """The largest |z|^2 of rows up to `bound`: public."""
        if not self.levels:
            return float((self.matrix[0] ** 2).sum()) * bound**2
        longest = np.linalg.norm(self.matrix[self.numbers], 2) if len(self.numbers) else 0.0
        return self.constant + (float(longest) * bound) ** 2

    @property
    def inverse(self) -> Matrix:
        """A^{-1}, from the orthogonality of A's rows."""
        if not self.levels:
            return np.asarray((self.matrix / (self.matrix**2).sum(axis=1)[:, None]).T)
        square = np.ix_(self.numbers, self.numbers)
        of_numbers = self.matrix[square]
        inverse = np.diag(1 / np.diag(self.matrix))
        inverse[square] = (of_numbers / (of_numbers**2).sum(axis=1)[:, None]).T
        levels = np.setdiff1d(np.arange(len(inverse)), self.numbers)
        across = inverse[square] @ self.matrix[np.ix_(self.numbers, levels)]
        inverse[np.ix_(self.numbers, levels)] = -across * np.diag(inverse)[levels]
        return inverse

    @property
    def longer(self) -> bool:
        """Whether factors that are apart take more of |z|^2 than whitening them would."""
        return self.constant > sum(size - 1 for _, size, _ in self.levels)

    def known(self, std: float, columns: Columns | None) -> GaussianLaw | MaskedLaw | TiedLaw:
        """The law of noise of such a deviation after what factors that are apart say of it."""
        law = GaussianLaw.isotropic(std)
        if columns is None or not self.levels:
            return law
        blocks = tuple(tuple(range(start, start + size)) for start, size, _ in self.levels)
        return imposed(law, blocks, ties(columns.layout, {k: entry for k, _, entry in self.levels}))


def plain_transform(
    columns: Columns | None, n_columns: int, bound: float, target: int
) -> WhiteningTransform:
    """The scaled columns themselves, with factors apart where a row has 1 of a factor's levels.

    That is where no row is weighted or clipped, and there are numbers beside them. A target is no
    level that is apart.
    """
    levels: list[LevelBlock] = []
    if columns is not None and columns.row_weights is None and bound >= columns.bound:
        levels = [
            LevelBlock(block.start, block.size, block.weight)
            for block in columns.layout.stored
            if block.size > 1 and not block.piece.powers
            if not block.start <= target < block.start + block.size
        ]
    if sum(block.size for block in levels) == n_columns:
        levels = []
    return WhiteningTransform(np.eye(n_columns), bound**2, 1.0, levels=tuple(levels))


def whiten(
    moment: Matrix,
    noise_std: float,
    rows: float,
    before: WhiteningTransform | None = None,
    seen: float = 1.0,
) -> WhiteningTransform:
    """The frame that a second moment teaches, released in the frame before with isotropic noise.

    A = diag(rows / (max(w, 0) + f))^{1/2} V^T for eigenvalues w and the floor
    f = 2 sqrt(d) noise_std, of the noise off the diagonal, within which its eigenvalues stay.
    Isotropic noise and clipping do not see a rotation of z; the one is taken that makes the rows
    of A orthogonal in the scaled columns, where the first round's noise is isotropic: so its
    entries are independent in every frame.
    Where factors are apart, that is for what is left of the d numbers within levels.
    Directions that stand out of the noise are shortened, to the mean square `seen` at least: rows
    are then shorter, and the next noise hides less of the others.
    """
    if before is None:
        before = WhiteningTransform(np.eye(len(moment)), 1.0, 1.0)
    within, back, pulled = _within(moment, noise_std, rows, before)
    values, vectors = np.linalg.eigh(within)
    signal = np.maximum(values, 0.0)
    floor = 2 * math.sqrt(len(within)) * noise_std + pulled
    lifted = signal + floor
    squares = np.maximum(floor / lifted, seen)
    numbers = (vectors * np.sqrt(rows * squares / lifted)).T
    scaled_columns = not before.levels and np.array_equal(before.matrix, np.eye(len(moment)))
    if not scaled_columns:  # two products take as long as the eigenvectors
        numbers = numbers @ back @ before.matrix
    # Where noise makes eigenvalues negative their sum is too small.
    all_of, surely = (float((of * squares / lifted).sum()) for of in (values, signal))
    typical = max(all_of, 0.3 * surely, 1e-3)
    clear = float(values[0]) / floor
    if not before.levels:
        # In the scaled columns the rows are orthogonal as they are, the longest first.
        matrix = numbers if scaled_columns else _orthogonal(numbers)
        return WhiteningTransform(matrix, typical, clear)
    levels, second = _levels(moment, noise_std, rows, before, typical)
    scaled = before.matrix.copy()
    for (start, size, entry), (*_, new) in zip(before.levels, levels, strict=True):
        scaled[start : start + size] *= new / entry
    bare = WhiteningTransform(scaled, typical, clear, levels=levels, second=second)
    return replace(bare, matrix=bare._with(numbers), typical=typical + bare.constant)


def _within(
    moment: Matrix, noise_std: float, rows: float, transform: WhiteningTransform
) -> tuple[Matrix, Matrix, float]:
    """The second moment of numbers within levels, what takes it there, and what noise adds."""
    if not transform.levels:
        return moment, np.eye(len(moment)), 0.0
    numbers, d = transform.numbers, len(moment)
    levels = np.setdiff1d(np.arange(d), numbers)
    entries = np.zeros(d)
    for start, size, entry in transform.levels:
        entries[start : start + size] = entry
    # The mean, by the factor whose sums have the least noise: a row has one of its levels.
    start, size, entry = min(transform.levels, key=lambda block: block.size)
    mean = moment[numbers, start : start + size].sum(axis=1) / (entry * rows)
    centred = moment[np.ix_(numbers, numbers)] - rows * np.outer(mean, mean)
    counts = np.maximum(np.diag(moment), 0.0)[levels] / entries[levels]
    across = moment[np.ix_(numbers, levels)] - np.outer(mean, counts)
    # Means by level of the rest, shrunk where noise hides them.
    values, vectors = np.diag(moment)[levels], None
    if len(transform.levels) > 1:
        values, vectors = np.linalg.eigh(moment[np.ix_(levels, levels)])
    lifted = np.maximum(values, 0.0) + 2 * math.sqrt(d) * noise_std
    level_means = across / lifted if vectors is None else (across @ vectors / lifted) @ vectors.T
    back = np.zeros((len(numbers), d))
    back[:, numbers] = np.eye(len(numbers))
    back[:, levels] = -level_means
    back[:, start : start + size] -= mean[:, None] / entry
    return centred - level_means @ across.T, back, noise_std**2 * float((1 / lifted).sum())


def _levels(
    moment: Matrix, noise_std: float, rows: float, before: WhiteningTransform, typical: float
) -> tuple[tuple[LevelBlock, ...], Matrix]:
    """Factors in the next frame, and its second moment per row if they were independent.

    With numbers up to r the noise is in proportion to r + sum of the squared entries, and that of
    a level's coefficients to this over the entry: least where factors have as much as the numbers.
    Less will do if no level is rare.
    """
    most = ADAPTIVE.uncounted * typical / len(before.levels)
    blocks: list[LevelBlock] = []
    means = np.zeros(len(moment))
    for start, size, entry in before.levels:
        at = slice(start, start + size)
        counts = np.diag(moment)[at] / entry**2
        rarest = max(float(counts.min()), 1.0)
        blocks.append(LevelBlock(start, size, math.sqrt(min(most, rows / rarest))))
        shares = np.maximum(counts, 0.0) + noise_std / entry**2
        means[at] = blocks[-1].entry * shares / shares.sum()
    second = np.outer(means, means)
    np.fill_diagonal(second, 1 + means**2)
    for start, size, entry in blocks:
        at = slice(start, start + size)
        second[at, at] = 0.0
        np.fill_diagonal(second[at, at], entry * means[at])
    return tuple(blocks), second


def _orthogonal(matrix: Matrix) -> Matrix:
    """The same up to a rotation, with orthogonal rows, the longest first."""
    _, sizes, directions = np.linalg.svd(matrix)
    rows: Matrix = sizes[:, None] * directions
    return rows
