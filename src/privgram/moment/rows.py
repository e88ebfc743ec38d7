"""Rows on their way into the kernel: converted where it cannot read them, scaled, checked.

The kernel scales by public bounds as it reads, and takes native float32, float64, int32 and
int64 where they lie. Anything else becomes float64 a few thousand rows at a time, so that no
input is ever copied whole.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._core import rows, scale
from privgram.columns.encoding import Codes
from privgram.moment.mapped import Mapped
from privgram.sources.table import UNLISTED, Block, InvalidRow, n_rows_of

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.encoding import Encoder, Raw
    from privgram.exact.limbs import Limbs

#: Values converted at a time, 2 MiB. Fewer cost more in calls than they save in cache.
PIECE = 1 << 18

#: Rows of which columns are computed at a time.
COMPUTED = 1 << 13

Total: TypeAlias = "rows.Accumulator | rows.TableAccumulator"


def new_total(columns: Columns | None, n_columns: int, bound: float, bits: int = 20) -> Total:
    """Make an empty accumulator of rows as they are described, by codes if there are factors."""
    if columns is None or not columns.encoder.by_codes:
        return rows.Accumulator(n_columns, bound, bits)
    encoder = columns.encoder
    return rows.TableAccumulator(encoder.positions, encoder.levels, encoder.coded, bound, bits)


def state_of(total: Total) -> Limbs:
    """The totals of an accumulator as (hi, lo), one-dimensional: what it takes to restore it."""
    if isinstance(total, rows.TableAccumulator):
        return total.totals()
    hi, lo = total.limbs()
    upper = np.triu_indices(total.n_columns)
    return hi[upper], lo[upper]


def n_totals(columns: Columns | None, n_columns: int) -> int:
    """How many totals `state_of` gives, without making the accumulator of a file's say-so."""
    if columns is None or not columns.encoder.by_codes:
        return n_columns * (n_columns + 1) // 2
    encoder = columns.encoder
    dense = len(encoder.positions)
    blocks = [(factor, encoder.levels[factor]) for factor, *_ in encoder.coded]
    count = dense * (dense + 1) // 2 + sum((dense + 1) * levels for _, levels in blocks)
    for (one, levels), (other, others) in combinations(blocks, 2):
        count += levels if one == other else levels * others
    return count


def squares_of(total: Total) -> NDArray[np.bool_]:
    """Which of the totals that `state_of` gives are on the diagonal."""
    if isinstance(total, rows.TableAccumulator):
        i, j = total.stored()
    else:
        i, j = np.triu_indices(total.n_columns)
    diagonal: NDArray[np.bool_] = i == j
    return diagonal


def restored(empty: Total, state: Limbs, n_rows: int, n_dropped: int) -> Total:
    """An accumulator like an empty one with these totals and numbers of rows."""
    if isinstance(empty, rows.TableAccumulator):
        return rows.TableAccumulator.from_totals(
            empty.positions_dense,
            empty.factors,
            empty.blocks,
            empty.bound,
            empty.bits,
            *state,
            n_rows,
            n_dropped,
        )
    d = empty.n_columns
    upper = np.triu_indices(d)
    hi, lo = np.zeros((d, d), np.int64), np.zeros((d, d), np.uint64)
    for full, given in ((hi, state[0]), (lo, state[1])):
        full[upper] = given
        full.T[upper] = full[upper]
    return rows.Accumulator.from_limbs(d, empty.bound, empty.bits, hi, lo, n_rows, n_dropped)


class Feeder:
    """Feed blocks to one accumulator, scaled by public bounds; one feeder a thread."""

    def __init__(self, accumulator: Any, columns: Columns | None = None) -> None:
        self.accumulator = accumulator
        self._drop = columns is not None and columns.missing == "drop"
        self._scaling = None
        if columns is not None:
            limit = np.ones(len(columns))
            self._scaling = columns.center, columns.inverse, limit
        self._encoder = None if columns is None or columns.plain else columns.encoder

    def feed(self, block: Block) -> int:
        """Accumulate every row of a block and return how many there were.

        InvalidRow at the first row that may not be used. The accumulator is then undefined.
        """
        n_rows = n_rows_of(block)
        if self._encoder is not None:
            self._feed_encoded(self._encoder, block, n_rows)
        elif rows.readable(block):  # type: ignore[arg-type]  # no codes without an encoder
            self._accumulate(block, 0)
        else:
            step = max(8, PIECE // self.accumulator.n_columns)
            for start in range(0, n_rows, step):
                self._accumulate(converted(block, slice(start, start + step)), start)
        return n_rows

    def _feed_encoded(self, encoder: Encoder, block: Block, n_rows: int) -> None:
        parts = block if isinstance(block, list) else list(block.T)
        # What is computed stays in the cache; what the kernel reads where it lies needs no cut.
        step = COMPUTED if encoder.derives else max(n_rows, 1)
        for start in range(0, n_rows, step):
            rows = slice(start, start + step)
            some = [part.part(rows) if isinstance(part, Codes) else part[rows] for part in parts]
            bad = self._update_encoded(encoder, some)
            if bad >= 0:
                raise (
                    InvalidRow(start + bad, UNLISTED) if encoder.blocks else InvalidRow(start + bad)
                )

    def _update_encoded(self, encoder: Encoder, parts: list[Raw]) -> int:
        total = self.accumulator
        if (take := getattr(total, "take_parts", None)) is not None:
            return int(take(parts, self._drop))
        plain = isinstance(total, (rows.Accumulator, rows.TableAccumulator, Mapped))
        if encoder.row_weights is not None or not plain:  # else norms are counted
            with scale.DefaultRounding():
                return int(total.update(encoder.table(parts), self._drop))
        dense, codes, values = self._encoded(encoder, parts)
        if isinstance(total, Mapped):
            with scale.DefaultRounding():
                return total.update_coded(encoder, dense, codes, values, self._drop)
        if not isinstance(total, rows.TableAccumulator):
            return int(total.update(dense, self._drop, encoder.scaling))
        return int(total.update(dense, codes, values, self._drop, encoder.scaling))

    @staticmethod
    def _encoded(encoder: Encoder, parts: list[Raw]) -> tuple[list[Any], list[Any], list[Any]]:
        """Dense columns, codes and values as the kernel reads them."""
        with scale.DefaultRounding():
            dense, codes, values = encoder.encode(parts)
            dense, values = readable_columns(dense), readable_columns(values)
        return dense, [(np.ascontiguousarray(code.indices), code.lut) for code in codes], values

    def _accumulate(self, block: Block, start: int) -> None:
        bad = self.accumulator.update(block, self._drop, self._scaling)
        if bad >= 0:
            raise InvalidRow(start + bad)


def converted(block: Block, part: slice) -> Block:
    """Rows of a block that the kernel takes as they are."""
    # A long double beyond float64 becomes infinite, and is clamped like any other value.
    with scale.DefaultRounding(), np.errstate(over="ignore"):
        if not isinstance(block, list):
            return block[part].astype(np.float64)
        return list(
            readable_columns([column[part] for column in block if not isinstance(column, Codes)])
        )


def readable_columns(columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Columns as the kernel reads them: those that it cannot, as float64."""
    return [x if rows.is_column(x) else x.astype(np.float64, order="C") for x in columns]


def scaled(
    piece: NDArray[Any],
    center: NDArray[np.float64],
    inverse: NDArray[np.float64],
    limit: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Values between -limit and limit; with a last column of ones, if the piece has none."""
    k = piece.shape[1]
    found = np.ones((len(piece), len(center)))
    with np.errstate(over="ignore"):
        moved = (piece.astype(np.float64, copy=False) - center[:k]) * inverse[:k]
    np.clip(moved, -limit[:k], limit[:k], out=found[:, :k])
    return found
