"""Sum rows where they lie, on a GPU: the integers of `gram_kernel.h`, by any library of arrays.

What has to be the same is the row's own arithmetic, one operation of the library after another,
each rounded once: scaled, clamped, its squared norm as eight strided partial sums, the factor, the
product, rounded to the nearest integers. Sums of products of these are exact in float64 over 2^13
rows, in any order, as their squares add up to 2^40 a row at most, and in int64 over 2^22. What
returns are d^2 integers, and rows whose norm is no finite number, which the kernel looks at itself.

The library's float64 has to be IEEE's, as it is on GPUs. A product that imitates it by narrower
numbers is not exact, and none does so unless it is told to.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import Accumulator
from privgram.exact import int128
from privgram.sources.arrays import DeviceRows, library, namespace, to_numpy
from privgram.sources.table import NOT_FINITE, InvalidRow

if TYPE_CHECKING:
    from privgram._core.rows import Scaling

    Array = Any

#: Rows whose products add up to 2^53 at most.
EXACT = 1 << 13

#: Numbers worked on at a time: each step makes a copy of these, 256 MiB.
NUMBERS_AT_ONCE = 1 << 25


def add_device_rows(
    total: Accumulator, rows: DeviceRows, scaling: Scaling | None, drop: bool
) -> None:
    """Add all rows of a device to a total here, as its `update` does.

    InvalidRow at the first row that may not be used. The total is then undefined.
    """
    d = total.n_columns
    with rows.current(), np.errstate(all="ignore"):
        one = _Device(rows, total, scaling)
        xp = one.xp
        sums = one.new(np.zeros((d, d), np.int64))
        n_rows, (n, _) = 0, rows.shape
        step = max(EXACT, NUMBERS_AT_ONCE // d // EXACT * EXACT)
        for start in range(0, n, step):
            x = rows.numbers(start, min(start + step, n))
            q, wrong = one.integers(x)
            n_rows += int(x.shape[0])
            if wrong is not None:
                n_rows -= _add_here(total, to_numpy(x[wrong]), wrong, start, scaling, drop)
            for at in range(0, int(q.shape[0]), EXACT):
                part = q[at : min(at + EXACT, int(q.shape[0])), :]
                sums = sums + _whole(xp, part.T @ part)
        hi, lo = int128.from_int64(to_numpy(sums)[np.tril_indices(d)])
        total.merge(Accumulator.from_totals(total.layout, hi, lo, [[n_rows], [0]]))


def _add_here(
    total: Accumulator, some: Any, wrong: Array, start: int, scaling: Scaling | None, drop: bool
) -> int:
    """Hand the kernel the rows that are `wrong`, and count them."""
    bad = total.update(np.ascontiguousarray(some), drop, scaling)
    if bad >= 0:
        raise InvalidRow(start + int(np.flatnonzero(to_numpy(wrong))[bad]), NOT_FINITE)
    return len(some)


def _whole(xp: Any, x: Array) -> Array:
    return x.to(xp.int64) if library(x) == "torch" else xp.asarray(x, dtype=xp.int64)


class _Device:
    def __init__(self, rows: DeviceRows, total: Accumulator, scaling: Scaling | None) -> None:
        self.xp = namespace(rows.of)
        self.new = rows.array
        self.d = total.n_columns
        self.width = rows.shape[1]
        self.bound, self.target, self.scale = total.bound, total.target, total.scale
        self.scaling = scaling
        self.is_steady = scaling is not None and self._is_steady(scaling[2])
        if scaling is not None:
            center, inverse, limit = (part[: self.width] for part in scaling)
            self.center, self.inverse = self.new(center), self.new(inverse)
            self.lower, self.upper = self.new(-limit), self.new(limit)

    def integers(self, x: Array) -> tuple[Array, Array | None]:
        """Integer rows q of rows x; and which the kernel is to look at, zeros here, or None."""
        xp = self.xp
        if self.scaling is not None:
            x = xp.clip((x - self.center) * self.inverse, self.lower, self.upper)
            if self.width < self.d:  # the last column is at its limit
                last = self.new(self.scaling[2][self.width :])
                x = xp.concat([x, xp.zeros_like(x[:, :1]) + last], axis=1)
        if self.is_steady:
            s = xp.sum(x, axis=1)  # NaN where there is one
            factor: Any = self.scale
        else:
            s = self._squared_norms(x)
            # A number divided by an array is a product with its inverse, in torch.
            clipped = xp.full_like(s, self.target) / xp.sqrt(s)
            plain = xp.full_like(s, self.scale)
            factor = xp.where(s > self.bound * self.bound, clipped, plain)[:, None]
        wrong = ~(s <= sys.float_info.max)
        if not bool(xp.any(wrong)):
            return xp.round(x * factor), None
        q = xp.round(x * factor)
        return xp.where(wrong[:, None], xp.zeros_like(q), q), wrong

    def _squared_norms(self, x: Array) -> Array:
        """Eight partial sums over the columns j = k mod 8, folded in half three times."""
        xp, d = self.xp, self.d
        squares = x * x
        p = xp.zeros_like(squares[:, :1]) + self.new(np.zeros(8))
        for j in range(0, d - 7, 8):
            p = p + squares[:, j : j + 8]
        if k := d % 8:
            p = xp.concat([p[:, :k] + squares[:, d - k :], p[:, k:]], axis=1)
        p = p[:, :4] + p[:, 4:]
        p = p[:, :2] + p[:, 2:]
        return p[:, 0] + p[:, 1]

    def _is_steady(self, limit: Any) -> bool:
        """Tell whether no row is ever clipped; see gram.c."""
        p = [0.0] * 8
        for j, value in enumerate(limit.tolist()):
            p[j % 8] += value * value
        s = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
        steady = s <= self.bound * self.bound or self.target / math.sqrt(s) == self.scale
        return math.isfinite(s) and steady
