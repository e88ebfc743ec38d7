"""The compiled `UnitAccumulator` in plain Python: slow, obvious, the oracle of its tests.

Same names, arguments, errors and, bit for bit, results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oracle import RowAccumulator

__all__ = ["UnitAccumulator"]

HALF_ULP = 2.0**-53


class UnitAccumulator:
    """Sum over units of their matrices, each within a ball.

    Its norm is at most ``4**bits`` in units of ``scale**-2``: the Frobenius norm, or the trace.
    """

    def __init__(
        self,
        n_columns: int,
        bound: float,
        row_bound: float,
        bits: int = 20,
        trace: bool = False,
        centred: Sequence[int] = (),
        groups: int = 0,
    ) -> None:
        d = n_columns
        target = (2.0**bits - math.sqrt(d) / 2) * (1 - (d + 64) * HALF_ULP)
        self.n_columns, self.row_bound, self.trace = d, row_bound, trace
        self.centred = set(centred)
        self.scale = target / bound
        self.row_target = target if row_bound == bound else self.scale * row_bound
        self.whole = 4**bits
        self.groups = groups
        self.totals = [[[0] * d for _ in range(d)] for _ in range(max(groups, 1))]
        self.n_units = 0
        self._rows = RowAccumulator(d, row_bound, bits)
        self._rows.target = self.row_target

    def quantise(self, row: NDArray[np.float64]) -> list[int]:
        """Integers of a row: rint(min(1, B/|x|) S x)."""
        return [int(value) for value in self._rows.quantise(row[None])[0]]

    @property
    def total(self) -> list[list[int]]:
        """The only one, without groups."""
        return self.totals[0]

    def update(
        self,
        x: NDArray[np.float64],
        starts: NDArray[np.intp],
        drop: bool = False,
        norms: None = None,
        codes: NDArray[np.int32] | None = None,
    ) -> int:
        """Add units, whose rows begin at `starts`; -1, or the first row that cannot be added."""
        for first, last in zip(starts, [*starts[1:], len(x)], strict=True):
            blocks: dict[int, list[list[int]]] = {}
            for i in range(first, last):
                group = 0 if codes is None else int(codes[i])
                if group < 0:
                    continue
                rows = blocks.setdefault(group, [])
                if np.isnan(x[i]).any():
                    if not drop:
                        return int(i)
                elif np.isinf(x[i]).any():
                    return int(i)
                else:
                    rows.append(self.quantise(x[i]))
            self._add(blocks)
            self.n_units += 1
        return -1

    def _add(self, blocks: dict[int, list[list[int]]]) -> None:
        """Add the blocks of a unit, whose norm is that of the block-diagonal matrix of them all."""
        d, k = self.n_columns, len(blocks)
        found, norms = {}, []
        for group, rows in sorted(blocks.items()):
            at = [j for j in range(d) if any(q[j] for q in rows)]
            entries = {(i, j): self._entry(rows, i, j) for i in at for j in at if j <= i}
            values = {pair: value for pair, (_, value) in entries.items()}
            trace = float(sum(entries[i, i][0] for i in at))
            norms.append(trace if self.trace else self._frobenius(values, at))
            found[group] = at, entries
        norm = norms[0] if k == 1 and not self.groups else math.sqrt(sum(n * n for n in norms))
        kept = self.whole if self.trace else self.whole * (1 - (d + k + 31) * HALF_ULP)
        target = float(self.whole - 3 * d * d * k)
        c = 1.0 if norm <= target else target / norm
        for group, (at, entries) in found.items():
            for (i, j), (whole, value) in entries.items():
                if norm <= kept and not self.centred:
                    self.totals[group][i][j] += whole
                else:
                    self.totals[group][i][j] += round(c * value) + (len(at) if i == j else 0)

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
