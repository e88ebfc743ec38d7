"""The compiled `UnitAccumulator` in plain Python: slow, obvious, the oracle of its tests.

Same names, arguments, errors and, bit for bit, results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle import Accumulator

__all__ = ["UnitAccumulator"]

HALF_ULP = 2.0**-53


class UnitAccumulator:
    """Sum over units of their matrices, each within a ball.

    Parameters
    ----------
    n_columns : int
    bound : float
        C, of a unit.
    row_bound : float
        B, of a row, at most C.
    bits : int, default 20
        A unit's matrix has norm at most ``W = 2**(2 bits)`` in units of ``scale**-2``.
    trace : bool, default False
        Whether that is the trace or the Frobenius norm.
    centred : sequence of int
        Columns from which the mean of a unit is taken off.

    Attributes
    ----------
    total : list of list of int
        Lower triangle.
    n_units : int
    """

    def __init__(
        self,
        n_columns: int,
        bound: float,
        row_bound: float,
        bits: int = 20,
        trace: bool = False,
        centred: Sequence[int] = (),
    ) -> None:
        d = n_columns
        target = (2.0**bits - math.sqrt(d) / 2) * (1 - (d + 64) * HALF_ULP)
        self.n_columns, self.row_bound, self.trace = d, row_bound, trace
        self.centred = set(centred)
        self.scale = target / bound
        self.row_target = target if row_bound == bound else self.scale * row_bound
        self.whole = 4**bits
        self.kept = self.whole if trace else self.whole * (1 - (d + 32) * HALF_ULP)
        self.target = float(self.whole - 3 * d * d)
        self.total = [[0] * d for _ in range(d)]
        self.n_units = 0
        self._rows = Accumulator(d, row_bound, bits)
        self._rows._target = self.row_target

    def quantise(self, row: NDArray[np.float64]) -> list[int]:
        """Integers of a row: rint(min(1, B/|x|) S x)."""
        return [int(value) for value in self._rows.quantise(row[None])[0]]

    def update(self, x: NDArray[np.float64], starts: NDArray[np.intp], drop: bool = False) -> int:
        """Add units, whose rows begin at `starts`; -1, or the first row that cannot be added."""
        for first, last in zip(starts, [*starts[1:], len(x)], strict=True):
            rows = []
            for i in range(first, last):
                if np.isnan(x[i]).any():
                    if not drop:
                        return int(i)
                elif np.isinf(x[i]).any():
                    return int(i)
                else:
                    rows.append(self.quantise(x[i]))
            self._add(rows)
            self.n_units += 1
        return -1

    def _add(self, rows: list[list[int]]) -> None:
        d = self.n_columns
        at = [j for j in range(d) if any(q[j] for q in rows)]
        pairs = [(i, j) for i in at for j in at if j <= i]
        whole, values = {}, {}
        for i, j in pairs:
            whole[i, j], values[i, j] = self._entry(rows, i, j)
        trace = float(sum(whole[i, i] for i in at))
        norm = trace if self.trace else self._frobenius(values, at)
        c = 1.0 if norm <= self.target else self.target / norm
        for i, j in pairs:
            if norm <= self.kept and not self.centred:
                self.total[i][j] += whole[i, j]
            else:
                self.total[i][j] += round(c * values[i, j]) + (len(at) if i == j else 0)

    def _entry(self, rows: list[list[int]], i: int, j: int) -> tuple[int, float]:
        """Sum of products: about the integer parts of the means, or all of them, if centred."""
        if (i in self.centred) != (j in self.centred):
            return 0, 0.0
        a = r = b = s = 0
        if i in self.centred:
            (a, r), (b, s) = (divmod(sum(q[m] for q in rows), len(rows)) for m in (i, j))
        whole = sum((q[i] - a) * (q[j] - b) for q in rows)
        return whole, float(whole) - float(r) * float(s) / len(rows)

    def _frobenius(self, values: dict[tuple[int, int], float], at: list[int]) -> float:
        total = 0.0
        for n, i in enumerate(at):
            row = 0.0
            for j in at[:n]:
                row += values[i, j] * values[i, j]
            total += 2.0 * row + values[i, i] * values[i, i]
        return math.sqrt(total)
