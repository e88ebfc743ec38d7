"""What a look in a frame is worth beside one look: predicted errors of coefficients.

By what was released and what is public alone. Noise of both kinds is drawn with a fixed seed, and
what it does to every coefficient compared: that of one look after what is known of the second
moment was imposed, as a release of one look imposes it. A release in a frame imposes what is known
of factors that are apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram.columns.structure import relations, ties, zeros
from privgram.noise import GaussianLaw, MaskedLaw, TiedLaw, imposed, symmetric_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns
    from privgram.mechanisms.refined import Frame

    Matrix = NDArray[np.float64]

__all__ = ["Gains"]

#: Numbers that are drawn: the logarithm of a ratio is known to a few percent.
_DRAWN = 1 << 11


class Gains:
    """How much less noise than one look a look in a frame has, by the kind of columns.

    With K the inverse of the second moment as the frame has it, on what its exact equations leave
    of the columns, noise N moves the coefficient of column j in the regression of column k by
    (K N K)_jk, times what depends on j and k alone. A gain is the ratio of geometric means over
    the columns j of one piece, a factor's levels or all single numbers, and single numbers k.
    """

    def __init__(self, frame: Frame, columns: Columns | None, bound: float) -> None:
        d = len(frame.matrix)
        law: MaskedLaw | TiedLaw | None = None
        if columns is not None and (blocks := zeros(columns.layout)):
            known = imposed(GaussianLaw(1.0, math.sqrt(2.0)), blocks, ties(columns.layout))
            law = None if isinstance(known, GaussianLaw) else known
        groups = _groups(columns, d)
        rng = np.random.default_rng(0)
        back, within = frame.inverse, frame.known(1.0, columns)
        second = np.eye(d) if frame.second is None else frame.second
        inverse = _inverse(back @ second @ back.T, columns)
        sums = np.zeros(len(groups))
        draws = max(1, _DRAWN // d**2)
        for _ in range(draws):
            one, other = (symmetric_gaussian(d, 1.0, math.sqrt(2.0), rng) for _ in range(2))
            if law is not None:
                one = law.project(one)
            if not isinstance(within, GaussianLaw):
                other = within.project(other)
            sizes = [
                np.log(np.abs(inverse @ noise @ inverse) + 1e-300)
                for noise in (one, back @ other @ back.T)
            ]
            numbers = groups[0]
            for i, group in enumerate(groups):
                apart = group[:, None] != numbers
                ratio = (sizes[0] - sizes[1])[np.ix_(group, numbers)]
                sums[i] += ratio[apart].mean() if apart.any() else 0.0
        self._each = bound**2 * np.exp(sums / draws)

    def are(self, square: float, needed: float) -> bool:
        """Whether the gain is so much over all kinds, and nothing is lost for any of them.

        The noise is that of rows cut at |z|^2 = square.
        """
        each = self._each / square
        return bool(np.exp(np.log(each).mean()) >= needed and each.min() >= 1)


def _groups(columns: Columns | None, size: int) -> list[NDArray[np.intp]]:
    """Places of single numbers, then of each piece with levels."""
    if columns is None or columns.layout.size != size:
        return [np.arange(size)]
    stored = columns.layout.stored
    numbers = [one.start for one in stored if one.size == 1 and one.piece.powers]
    levels = [np.arange(one.start, one.start + one.size) for one in stored if one.size > 1]
    return [np.array(numbers), *levels] if len(numbers) else [np.arange(size)]


def _inverse(moment: Matrix, columns: Columns | None) -> Matrix:
    """Inverse of a second moment on what the exact equations of its columns leave."""
    d = len(moment)
    known = [] if columns is None or columns.layout.size != d else relations(columns.layout)
    if not known:
        return np.asarray(np.linalg.inv(moment), dtype=np.float64)
    rows = np.zeros((len(known), d))
    for row, relation in zip(rows, known, strict=True):
        row[list(relation)] = list(relation.values())
    _, sizes, directions = np.linalg.svd(rows)
    kept = directions[int((sizes > 1e-9 * sizes[0]).sum()) :].T
    inverse: Matrix = kept @ np.linalg.inv(kept.T @ moment @ kept) @ kept.T
    return inverse
