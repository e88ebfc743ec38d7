"""Images of rows that are kept between reads, as whole numbers of 16 bits, and sums of them.

For models that take many steps at the same rows. Rows come with what is beside their features:
the position of a class, below 0 of rows that are held out, or targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.machine import memory
from privgram._core import scores
from privgram.moment.accumulators import BlockAccumulator
from privgram.secret.kinds import Errors, HeldOut, Learner, Scores
from privgram.secret.sweep import Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.secret.kinds import Kind

#: Rows that are mapped at a time; and the part of the memory that images may take.
MAPPED_AT_ONCE, SHARE_OF_MEMORY = 1 << 10, 0.25

#: The length of an axis as whole numbers, in bits, and of coefficients. A row times an axis, and an
#: image times coefficients, are below 2^53: such products are exact in whatever order.
AXIS_BITS, COEF_BITS = 28, 37


@dataclass(frozen=True, eq=False)
class KeptImage:
    """What a row u is mapped to: z = A (c u), shortened to a radius; by public numbers.

    The axes of A are orthonormal `directions` (d, r), over `deviations` (r,).
    """

    directions: Matrix
    deviations: Vector
    bound: float
    radius: float
    beside: int = 1  # numbers of a row, which are no features

    @property
    def unit(self) -> float:
        """The size of z that a whole number of an image stands for."""
        return self.radius / scores.whole_length(scores.IMAGE_BITS, len(self.deviations))

    def fits(self, n_rows: int) -> bool:
        """Whether images of so many rows may be kept."""
        return 2 * n_rows * len(self.directions) <= SHARE_OF_MEMORY * memory()


class KeptSweep(Totals):
    """Feeds kept images to the integers of sums."""

    def __init__(self, image: KeptImage, kinds: Sequence[Kind]) -> None:
        self.totals = []
        self._feeds: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        r = len(image.deviations)
        width = -(-r // 32) * 32
        for kind in kinds:
            model: Learner = kind.of
            if len(model.coef) != r or max(model.targets or (0,)) >= image.beside:
                raise ValueError(f"images have {r} coefficients and {image.beside} numbers beside")
            coef, shift = whole_coefficients(model.coef, width)
            given: dict[str, Any] = {"size": model.size}
            if model.targets is not None:
                given["target"] = np.array(model.targets, np.int32)
            total: NDArray[np.int64] = np.zeros(1, np.int64)
            if isinstance(kind, Scores):
                total = np.zeros((len(coef), width), np.int64)
                given |= {"total": total, "units": image.unit * scores.KEPT_UNITS / kind.clip}
            elif isinstance(kind, Errors):
                given |= {"squares": total, "reach": kind.reach}
            elif isinstance(kind, HeldOut):
                given["counts"] = total = np.zeros((kind.bins, 2), np.int64)
            else:
                raise TypeError("of kept images there are scores, errors and held-out rows")
            self.totals.append(total[:, :r] if isinstance(kind, Scores) else total)
            back = image.unit * 2.0**-shift
            self._feeds.append(((coef, back, model.targets is None), given))

    def take(self, images: NDArray[np.int16], beside: Matrix) -> None:
        """Add some rows."""
        for model, given in self._feeds:
            scores.take_images(images, beside, *model, **given)


class KeptStream(BlockAccumulator):
    """Makes images of blocks of rows, and feeds them to sums, or keeps them. SECRET."""

    sums, parts = ("n_rows", "blocks"), ("inner",)

    def __init__(self, image: KeptImage, kinds: Sequence[Kind], _: int = 0) -> None:
        self.inner = KeptSweep(image, kinds)
        #: Images, filled up with zeros, and what is beside them, where no sum takes them.
        self.blocks: list[tuple[NDArray[np.int16], Matrix]] = []
        self.n_rows = 0
        d = len(image.directions)
        self._image = image
        self._axes = np.rint(image.directions * (2.0**AXIS_BITS - d))
        row_unit = image.bound / scores.whole_length(scores.ROW_BITS, d)
        self._scales = row_unit / (2.0**AXIS_BITS - d) / image.deviations

    def update(self, block: Matrix, drop: bool = False, scaling: object = None) -> int:
        """Take rows, whose last numbers are beside their features; zeros if one is not finite."""
        features, more = block[:, : -self._image.beside], block[:, -self._image.beside :]
        images = []
        for start in range(0, len(block), MAPPED_AT_ONCE):
            rows = np.ascontiguousarray(features[start : start + MAPPED_AT_ONCE], np.float64)
            # Of whole numbers, and exact: a row's image is of the row alone.
            products = scores.whole_rows(rows, self._image.bound) @ self._axes
            images.append(scores.whole_images(products, self._scales, self._image.radius))
        if images:
            made = np.concatenate(images), np.ascontiguousarray(more, np.float64)
            if self.inner.totals:
                self.inner.take(*made)
            else:
                self.blocks.append(made)
        self.n_rows += len(block)
        return -1

    def stored(self) -> KeptStream:
        """All images, once they are read."""
        return self

    def sums_of(self, _: KeptImage, kinds: Sequence[Kind]) -> list[Any]:
        """Sums over the images that were kept."""
        sweep = KeptSweep(self._image, kinds)
        for some in self.blocks:
            sweep.take(*some)
        return sweep.totals


def whole_coefficients(coef: Matrix, width: int) -> tuple[Matrix, int]:
    """Coefficients (r, k) times a power of two as whole numbers (k, width); and the power."""
    largest = max(float(np.abs(coef).max()), 2.0**-500)
    longest = largest * float(np.linalg.norm(coef / largest, axis=0).max())
    shift = COEF_BITS - 1 - math.frexp(longest)[1]
    whole = np.zeros((coef.shape[1], width))
    whole[:, : len(coef)] = np.rint(np.ldexp(coef, shift)).T
    return whole, shift
