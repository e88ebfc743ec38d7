"""The compiled loops of `privgram._core` in plain NumPy: slow, obvious, the oracle of the tests.

Same names, arguments, errors and order of random draws, so that with the same seed the results
agree to rounding, or bit for bit where `_core` promises that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram._core import rows

__all__ = [
    "RowAccumulator",
    "TableAccumulator",
    "legendre",
    "log",
    "noisy_orthonormalise",
    "product",
    "scaled",
    "wishart",
]


# --- rows: clip, quantise, accumulate ---------------------------------------------------------


def _squared_norms(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared row norms in the one order of summation that every kernel keeps.

    Eight partial sums over the columns j = k mod 8, folded in half three times.
    """
    n, d = x.shape
    padded = np.zeros((n, -(-d // 8) * 8))
    padded[:, :d] = x
    p = np.zeros((n, 8))
    for chunk in np.split(padded, padded.shape[1] // 8, axis=1):
        p = p + chunk * chunk
    p = p[:, :4] + p[:, 4:]
    p = p[:, :2] + p[:, 2:]
    s: NDArray[np.float64] = p[:, 0] + p[:, 1]
    return s


_TYPES = tuple(np.dtype(name) for name in ("=f8", "=f4", "=i8", "=i4"))

Scaling: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _is_column(column: Any) -> bool:
    """Tell whether an array is a column without gaps, of a type the kernels read."""
    return (
        isinstance(column, np.ndarray)
        and column.ndim == 1
        and column.flags.c_contiguous
        and column.flags.aligned
        and column.dtype in _TYPES
    )


def scaled(x: NDArray[np.float64], scaling: Scaling) -> NDArray[np.float64]:
    """Scale columns: ``(x - center) * inverse``, clamped to ``[-limit, limit]``.

    A last column that is not in `x` is at its limit. NaN stays NaN.

    Parameters
    ----------
    x : ndarray of shape (n, d) or (n, d - 1)
    scaling : (center, inverse, limit), ndarrays of shape (d,)
    """
    center, inverse, limit = scaling
    k = x.shape[1]
    out = np.tile(limit, (len(x), 1))
    with np.errstate(over="ignore"):
        out[:, :k] = np.clip((x - center[:k]) * inverse[:k], -limit[:k], limit[:k])
    return out


def _numbers(block: Any, d: int, is_scaled: bool) -> NDArray[np.float64]:
    """Check a block of d columns, or of all but the last if they are scaled, and widen it."""
    if isinstance(block, list):
        if not all(map(_is_column, block)):
            raise TypeError(
                "block must be columns without gaps, of float32, float64, int32 or int64"
            )
        if len({len(column) for column in block}) > 1:
            raise ValueError("block must be columns of equal length")
        x = np.stack([column.astype(np.float64) for column in block], axis=1)
    elif not isinstance(block, np.ndarray):
        raise TypeError(f"block must be an ndarray, not {type(block).__name__}")
    elif block.dtype not in _TYPES:
        raise TypeError(
            "block must be float32, float64, int32 or int64 in native byte order, "
            f"not {block.dtype}"
        )
    else:
        x = block.astype(np.float64)
    if x.ndim != 2 or x.shape[1] not in ([d, d - 1] if is_scaled else [d]):
        raise ValueError(f"block must have shape (n, {d}), not {x.shape}")
    return x


class RowAccumulator:
    """Exact sum of q q^T over clipped, quantised rows (an integer matrix).

    A row x becomes q = rint(c x S) with c = min(1, bound / ||x||) and
    S = T / bound; T = 2^bits - sqrt(n_columns)/2, less a hair for rounding, so
    that sum q_i^2 <= 2^(2 bits) always.

    Parameters
    ----------
    n_columns : int >= 1
    bound : float > 0
        Largest Euclidean norm of a row.
    bits : int in [8, 24]

    Raises
    ------
    ValueError
        If a parameter is out of range, or S would overflow.
    """

    def __init__(self, n_columns: int, bound: float, bits: int = 20) -> None:
        if n_columns < 1:
            raise ValueError(f"n_columns must be at least 1, not {n_columns}")
        if not (math.isfinite(bound) and bound > 0):
            raise ValueError(f"bound must be a positive finite number, not {bound}")
        if not 8 <= bits <= 24:
            raise ValueError(f"bits must be between 8 and 24, not {bits}")
        # The hair covers the roundings of a row; gram.c has the proof.
        target = (2.0**bits - math.sqrt(n_columns) / 2) * (1 - (n_columns + 64) * 2.0**-53)
        if target < 2.0 ** (bits - 1):
            raise ValueError(f"{n_columns} columns are too many for {bits} bits; use more bits")
        if not math.isfinite(target / bound):
            raise ValueError(f"bound {bound} is too small for {bits} bits; rescale the data")
        self.n_columns = n_columns
        self.bound = float(bound)
        self.bits = bits
        self.scale = target / bound
        self.target = target
        self.reset()

    def reset(self) -> None:
        """Forget all rows."""
        self.n_rows = 0
        self.n_dropped = 0
        self._sum = np.zeros((self.n_columns, self.n_columns), dtype=object)

    def simd(self) -> str:
        """Name of the instruction set."""
        return "reference"

    def quantise(self, x: NDArray[np.float64]) -> NDArray[np.int64]:
        """Integer rows q of finite rows x."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            s = _squared_norms(x)
            bound = np.full(len(x), self.bound)
            # Out of range: divide the row by the power of two above its largest entry.
            slow = ~np.isfinite(s) | (not 2.0**-400 <= self.bound <= 2.0**400)
            if slow.any():
                _, e = np.frexp(np.abs(x[slow]).max(axis=1))
                x = x.copy()
                x[slow] = np.ldexp(x[slow], -e[:, None])
                bound[slow] = np.ldexp(bound[slow], -e)
                s[slow] = _squared_norms(x[slow])
            f = np.where(s > bound * bound, self.target / np.sqrt(s), self.target / bound)
            return np.rint(x * f[:, None]).astype(np.int64)

    def update(
        self,
        block: NDArray[Any] | list[NDArray[Any]],
        drop: bool = False,
        scaling: Scaling | None = None,
    ) -> int:
        """Add the rows of a block.

        Parameters
        ----------
        block : ndarray of shape (n, n_columns), or list of n_columns arrays of shape (n,)
            float64, float32, int64 or int32 in native byte order; columns without gaps, each of
            its own type. With `scaling` the last column may be left out: it is then constant,
            at its limit.
        drop : bool
            Leave out rows with a NaN, and count them, instead of reporting them.
        scaling : (center, inverse, limit), ndarrays of shape (n_columns,)
            Take ``(x - center) * inverse``, clamped to ``[-limit, limit]``, for every value x.

        Returns
        -------
        int
            -1, or the index of the first row with a NaN or an infinity, after
            which the state is undefined.

        Raises
        ------
        TypeError
            If block is not such an array or list.
        ValueError
            If its shape is wrong.
        """
        if scaling is not None and any(a.shape != (self.n_columns,) for a in scaling):
            raise ValueError(f"scaling must be three arrays of shape ({self.n_columns},)")
        x = _numbers(block, self.n_columns, scaling is not None)
        if scaling is not None:
            x = scaled(x, scaling)
        missing = np.isnan(x).any(axis=1) if drop else np.zeros(len(x), dtype=bool)
        bad = ~missing & ~np.isfinite(x).all(axis=1)
        if bad.any():
            return int(bad.argmax())
        q = self.quantise(x[~missing])
        at_once = 2 ** (62 - 2 * self.bits)  # rows whose sums fit an int64
        for start in range(0, len(q), at_once):
            part = q[start : start + at_once]
            self._sum = self._sum + (part.T @ part).astype(object)
        self.n_rows += len(q)
        self.n_dropped += int(missing.sum())
        return -1

    def add_rows(self, sums: NDArray[np.int64], n_rows: int) -> None:
        """Add the sums q q^T over rows that were quantised elsewhere.

        Parameters
        ----------
        sums : ndarray of shape (n_columns, n_columns)
        n_rows : int in [0, 2**(62 - 2 * bits)]
            How many rows they are of.

        Raises
        ------
        ValueError
            If the shape is wrong, or these are too many rows for sums of 64 bits.
        """
        d, most = self.n_columns, 2 ** (62 - 2 * self.bits)
        if sums.shape != (d, d):
            raise ValueError(f"sums must have shape ({d}, {d})")
        if not 0 <= n_rows <= most:
            raise ValueError(f"n_rows must be at most {most}, not {n_rows}")
        self._sum = self._sum + sums.astype(object)
        self.n_rows += n_rows

    def merge(self, other: Self) -> None:
        """Add another accumulator's rows.

        Raises
        ------
        ValueError
            If it has another n_columns, bound or bits.
        """
        mine = (self.n_columns, self.bound, self.bits)
        others = (other.n_columns, other.bound, other.bits)
        if mine != others:
            raise ValueError(
                "cannot merge accumulators of different n_columns, bound or bits: "
                f"{mine} and {others}"
            )
        self._sum = self._sum + other._sum
        self.n_rows += other.n_rows
        self.n_dropped += other.n_dropped

    def int128(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The matrix as (hi, lo), its entries being hi 2^64 + lo."""
        hi, lo = self._sum >> 64, self._sum & (2**64 - 1)
        return hi.astype(np.int64), lo.astype(np.uint64)

    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The lower triangle of `int128`, row by row."""
        hi, lo = self.int128()
        at = np.tril_indices(len(hi))
        return hi[at], lo[at]

    @classmethod
    def from_totals(
        cls,
        n_columns: int,
        bound: float,
        bits: int,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        n_rows: int,
        n_dropped: int,
    ) -> Self:
        """Undo `totals`.

        Raises
        ------
        ValueError
            If a parameter is out of range or a limb has the wrong shape.
        """
        new = cls(n_columns, bound, bits)
        i, j = np.tril_indices(n_columns)
        if not hi.shape == lo.shape == i.shape:
            raise ValueError(f"totals must have shape ({len(i)},)")
        new._sum[i, j] = new._sum[j, i] = hi.astype(object) * 2**64 + lo.astype(object)
        new.n_rows = n_rows
        new.n_dropped = n_dropped
        return new


# --- rows of numbers and of codes -------------------------------------------------------------


class TableAccumulator:
    """Exact sum of q q^T, as `RowAccumulator`, over rows of dense columns and of factors.

    A factor gives one column for each of its levels, of which a row has at most one entry that
    is not zero. The sum is that of the table with those columns written out, and so is every
    row's clipping and rounding; kept are only the entries that can be other than zero.

    Parameters
    ----------
    positions_dense : sequence of int
        Positions of the dense columns in the full row, in the order in which they are given.
    factors : sequence of int
        Number of levels of each factor.
    blocks : sequence of (int, int, int, float)
        Columns of levels: the factor; the position in the full row of its first level; the value
        they are multiplied by, or -1; and a positive weight. The entry is the weight, or the
        weight times the scaled value. Several blocks may be of one factor or of one value.
    bound : float in [2**-400, 2**400]
        Largest Euclidean norm of a full row.
    bits : int in [8, 24]
    groups : int, default 0
        Number of groups, each with a sum of its own; 0 for one sum of all rows.
    other : bool, default False
        Whether rows of none of these groups make one more.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the columns do not fill the row, each position once.

    Notes
    -----
    Where no row that `scaling` allows is longer than the bound, rows need no norms and this is
    several times faster. Weights and limits that are no short binary fractions, whose squares
    add up to the bound's, need a bound larger by a relative 1e-12.
    """

    def __init__(
        self,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int = 20,
        groups: int = 0,
        other: bool = False,
    ) -> None:
        self.positions_dense = tuple(positions_dense)
        self.factors = tuple(factors)
        self.blocks = tuple(blocks)
        self.n_columns = rows.check_layout(self.positions_dense, self.factors, self.blocks)
        self._expanded = RowAccumulator(self.n_columns, bound, bits)
        if not 2.0**-400 <= bound <= 2.0**400:
            raise ValueError(f"bound must be between 2**-400 and 2**400, not {bound}")
        self.bound, self.bits, self.scale = float(bound), bits, self._expanded.scale
        rows.check_groups(groups, other, self.factors)
        self.groups, self.other = groups, other
        self._outside = 0
        self._parts = [self._part() for _ in range(groups + other)]

    def _part(self) -> Self:
        """An empty accumulator of the same rows, without groups."""
        return type(self)(self.positions_dense, self.factors, self.blocks, self.bound, self.bits)

    @property
    def n_rows(self) -> int:
        """Number of rows that contribute."""
        return self._expanded.n_rows + sum(part.n_rows for part in self._parts)

    @property
    def n_dropped(self) -> int:
        """Number of rows dropped for a missing value, or left out as of no group."""
        dropped = sum(part.n_dropped for part in self._parts)
        return self._expanded.n_dropped + dropped + self._outside

    def counts(self) -> NDArray[np.int64]:
        """Numbers of rows that contribute, and of those that do not: of each group, and of none.

        Returns
        -------
        ndarray of shape (2, groups + other + 1), int64
            Of shape (2, 0) where there are no groups.
        """
        if not self._parts:
            return np.zeros((2, 0), np.int64)
        found = [(part.n_rows, part.n_dropped) for part in self._parts]
        return np.array([*found, (0, self._outside)], np.int64).T.copy()

    def simd(self) -> str:
        """Name of the instruction set."""
        return "reference"

    def reset(self) -> None:
        """Forget all rows."""
        self._expanded.reset()
        self._outside = 0
        for part in self._parts:
            part.reset()

    def update(
        self,
        dense: NDArray[Any] | list[NDArray[Any]],
        codes: list[tuple[NDArray[Any], NDArray[np.int32] | None]],
        values: list[NDArray[Any]],
        drop: bool,
        scaling: Scaling | None,
        group: tuple[NDArray[Any], NDArray[np.int32] | None] | None = None,
        leave_out: bool = False,
    ) -> int:
        """Add the rows of a block.

        Parameters
        ----------
        dense : ndarray of shape (n, D), or list of D arrays of shape (n,)
            As `RowAccumulator.update` takes them, or all but the last one, which is then constant,
            at its limit.
        codes : list of (indices, lut), one for each factor
            indices, an ndarray of shape (n,) of integers without gaps, are the codes 0, 1, ...
            of the rows' levels, or their places in lut, an ndarray of int32 that has the codes.
            A code out of range, or an index out of lut's, is a missing value.
        values : list of ndarrays of shape (n,)
            What blocks are multiplied by; of the types of dense columns.
        drop : bool
            Leave out rows with a missing value, NaN among them, and count them, instead of
            reporting them.
        scaling : (center, inverse, limit), ndarrays of shape (D + len(values),)
            As for `RowAccumulator.update`, for the dense columns and then the values; finite. It
            may be left out where there are no blocks.
        group : (indices, lut), optional
            Codes of the rows' groups, where there are groups.
        leave_out : bool
            Leave out rows of no group, whatever else they hold, instead of reporting them.

        Returns
        -------
        int
            -1, or the index of the first row with a missing value or of no group, after which the
            state is undefined.
        """
        if (group is None) != (not self._parts):
            raise ValueError("codes of groups must be given where there are groups, and only there")
        if group is not None:
            return self._update_groups(dense, codes, values, drop, scaling, group, leave_out)
        if scaling is None:
            if self.blocks:
                raise ValueError("columns of levels must be scaled")
            given = _numbers(dense, len(self.positions_dense), False)
            plain = np.zeros((len(given), self.n_columns))
            plain[:, self.positions_dense] = given
            return self._expanded.update(plain, drop)
        n_dense = len(self.positions_dense)
        n_values = len({value for _, _, value, _ in self.blocks if value >= 0})
        if any(a.shape != (n_dense + n_values,) for a in scaling):
            raise ValueError(f"scaling must be three arrays of shape ({n_dense + n_values},)")
        if not sum(scaling[2] ** 2) < 2.0**1000:
            raise ValueError("limits of scaling must be finite, and their squares too")
        if (len(codes), len(values)) != (len(self.factors), n_values):
            raise ValueError(
                f"there must be {len(self.factors)} codes and {n_values} values, "
                f"not {len(codes)} and {len(values)}"
            )
        if not all(map(_is_column, values)):
            raise TypeError(
                "values must be columns without gaps, of float32, float64, int32 or int64"
            )
        lengths = {len(indices) for indices, _ in codes} | {len(value) for value in values}
        if isinstance(dense, np.ndarray) or len(dense) > 0:
            numbers = _numbers(dense, n_dense, True)
            lengths.add(len(numbers))
        else:
            numbers = np.empty((max(lengths, default=0), 0))
        if len(lengths) != 1:
            raise ValueError("dense columns, codes and values must be of equal length")
        n = lengths.pop()

        x = np.zeros((n, self.n_columns))
        x[:, self.positions_dense] = scaled(numbers, _part(scaling, slice(n_dense)))
        columns = [value.astype(np.float64)[:, None] for value in values]
        entries = scaled(
            np.hstack([np.empty((n, 0)), *columns]), _part(scaling, slice(n_dense, None))
        )
        for factor, first, value, weight in self.blocks:
            code = _codes(*codes[factor], self.factors[factor])
            entry = weight * entries[:, value] if value >= 0 else np.full(n, weight)
            missing = np.isnan(code)
            x[~missing, first + code[~missing].astype(int)] = entry[~missing]
            x[missing, first] = np.nan
        for levels, (indices, lut) in zip(self.factors, codes, strict=True):
            x[np.isnan(_codes(indices, lut, levels)), 0] = np.nan
        x[np.isnan(entries).any(axis=1), 0] = np.nan
        return self._expanded.update(x, drop)

    def _update_groups(
        self,
        dense: NDArray[Any] | list[NDArray[Any]],
        codes: list[tuple[NDArray[Any], NDArray[np.int32] | None]],
        values: list[NDArray[Any]],
        drop: bool,
        scaling: Scaling | None,
        group: tuple[NDArray[Any], NDArray[np.int32] | None],
        leave_out: bool,
    ) -> int:
        """Add the rows of each group to its own."""

        def add(to: Self, kept: NDArray[np.bool_]) -> int:
            some = [x[kept] for x in dense] if isinstance(dense, list) else dense[kept]
            some_codes = [(indices[kept], lut) for indices, lut in codes]
            return to.update(some, some_codes, [v[kept] for v in values], drop, scaling)

        code = _codes(*group, self.groups)
        slot = np.where(np.isnan(code), self.groups, code).astype(int)
        outside = slot == len(self._parts)
        bad = [] if leave_out else np.flatnonzero(outside)[:1].tolist()
        invalid = add(self._part(), ~outside)
        if invalid >= 0:
            bad.append(int(np.flatnonzero(~outside)[invalid]))
        if bad:
            return int(min(bad))
        self._outside += int(outside.sum())
        for number, part in enumerate(self._parts):
            add(part, slot == number)
        return -1

    def merge(self, other: Self) -> None:
        """Add another accumulator's rows.

        Raises
        ------
        ValueError
            If it has another layout, bound, bits or groups.
        """
        names = ("positions_dense", "factors", "blocks", "bound", "bits", "groups", "other")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            raise ValueError("cannot merge accumulators of different layout, bound, bits or groups")
        self._expanded.merge(other._expanded)
        self._outside += other._outside
        for mine, others in zip(self._parts, other._parts, strict=True):
            mine.merge(others)

    def stored(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions (i, j), i >= j, of the entries of the matrix that are kept; see `totals`."""
        return rows.stored(self.positions_dense, self.factors, self.blocks)

    def totals(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The entries at `stored` as (hi, lo), being hi 2^64 + lo; all others are zero.

        One-dimensional, or with a row for each group.
        """
        i, j = self.stored()
        hi, lo = self.int128()
        return hi[..., i, j], lo[..., i, j]

    def int128(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """The whole matrix, or each group's, as (hi, lo), its entries being hi 2^64 + lo."""
        if self._parts:
            hi, lo = zip(*(part.int128() for part in self._parts), strict=True)
            return np.array(hi), np.array(lo)
        return self._expanded.int128()

    @classmethod
    def from_totals(
        cls,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        n_rows: int,
        n_dropped: int,
    ) -> Self:
        """Undo `totals`.

        Raises
        ------
        ValueError
            If a parameter is out of range or the totals have the wrong shape.
        """
        new = cls(positions_dense, factors, blocks, bound, bits)
        i, j = new.stored()
        if not hi.shape == lo.shape == i.shape:
            raise ValueError(f"totals must have shape {i.shape}")
        total = np.zeros((new.n_columns, new.n_columns), dtype=object)
        total[i, j] = total[j, i] = hi.astype(object) * 2**64 + lo.astype(object)
        new._expanded._sum = total
        new._expanded.n_rows, new._expanded.n_dropped = n_rows, n_dropped
        return new

    @classmethod
    def from_groups(
        cls,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int,
        groups: int,
        other: bool,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        counts: NDArray[np.int64],
    ) -> Self:
        """Undo `totals` and `counts` of an accumulator of groups.

        Raises
        ------
        ValueError
            If a parameter is out of range or the totals have the wrong shape.
        """
        new = cls(positions_dense, factors, blocks, bound, bits, groups, other)
        shape = len(new._parts), len(new.stored()[0])
        if not (hi.shape == lo.shape == shape and counts.shape == (2, len(new._parts) + 1)):
            raise ValueError(f"totals of groups must have shape {shape}")
        layout = new.positions_dense, new.factors, new.blocks, bound, bits
        new._parts = [
            cls.from_totals(*layout, hi[s], lo[s], int(counts[0, s]), int(counts[1, s]))
            for s in range(len(new._parts))
        ]
        new._outside = int(counts[1, -1])
        return new


def _codes(indices: NDArray[Any], lut: NDArray[Any] | None, levels: int) -> NDArray[np.float64]:
    """Codes of the levels, NaN for missing ones."""
    if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu":
        raise TypeError("codes must be arrays of integers")
    if indices.ndim != 1 or not indices.flags.c_contiguous or not indices.dtype.isnative:
        raise TypeError("codes must be one-dimensional, without gaps and in native byte order")
    found = [int(i) for i in indices]
    if lut is not None:
        found = [int(lut[i]) if 0 <= i < len(lut) else -1 for i in found]
    return np.array([code if 0 <= code < levels else np.nan for code in found], dtype=float)


def _part(scaling: Scaling, part: slice) -> Scaling:
    center, inverse, limit = scaling
    return center[part], inverse[part], limit[part]


# --- columns computed from columns ------------------------------------------------------------


def log(x: NDArray[Any], lower: float, upper: float) -> NDArray[np.float64]:
    """Natural logarithm of a clamped column, the same on every machine, within 0.9 ulp.

    Parameters
    ----------
    x : array_like of shape (n,)
    lower, upper : float in [2**-1022, 2**1024)
        Values are clamped to this interval first; NaN stays NaN.

    Raises
    ------
    ValueError
        If a bound is not positive, normal and finite, or lower is above upper.
    """
    if not sys.float_info.min <= lower <= upper <= sys.float_info.max:
        raise ValueError("bounds of a logarithm must be positive, normal and finite")
    v = np.clip(_one_dimensional(x), lower, upper)
    m, k = np.frexp(v)  # x = 2^k m, m from sqrt(1/2) to sqrt(2)
    low = m < math.sqrt(0.5)
    m, k = np.where(low, 2 * m, m), np.where(low, k - 1, k)
    f = m - 1
    s = f / (2 + f)
    z = s * s
    r = np.zeros_like(z)
    for c in _LOG_SERIES:
        r = r * z + float.fromhex(c)
    r = r * z
    half = 0.5 * f * f
    high, rest = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")
    y: NDArray[np.float64] = k * high - ((half - (s * (half + r) + k * rest)) - f)
    return y


#: (2 atanh(s) / s - 2) / s^2 as a polynomial in s^2, interpolated in Chebyshev's points.
_LOG_SERIES = (
    "0x1.2b5900de53b32p-3",
    "0x1.39fe51a7c18f9p-3",
    "0x1.7462b51cb66b1p-3",
    "0x1.c71c62e3f11e6p-3",
    "0x1.2492492df281ap-2",
    "0x1.99999999952d7p-2",
    "0x1.5555555555558p-1",
)


def legendre(x: NDArray[Any], center: float, inverse: float, degree: int) -> NDArray[np.float64]:
    """Legendre polynomials P_1, ..., P_degree of a scaled column, all within [-1, 1].

    Parameters
    ----------
    x : array_like of shape (n,)
        P_1 is ``(x - center) * inverse``, clamped to [-1, 1]; NaN stays NaN.
    center, inverse : float
    degree : int >= 1

    Returns
    -------
    ndarray of shape (degree, n)

    Raises
    ------
    ValueError
        If degree is less than 1.
    """
    if degree < 1:
        raise ValueError(f"degree must be at least 1, not {degree}")
    with np.errstate(over="ignore"):
        v = np.clip((_one_dimensional(x) - center) * inverse, -1.0, 1.0)
    p = [np.ones_like(v), v]
    for k in range(1, degree):
        t = v * p[k]
        p.append(np.clip(t + k / (k + 1) * (t - p[k - 1]), -1.0, 1.0))
    return np.array(p[1:])


def product(
    columns: Sequence[NDArray[Any]], center: Sequence[float], inverse: Sequence[float]
) -> NDArray[np.float64]:
    """Product of columns, each scaled to [-1, 1] first, from the left.

    Parameters
    ----------
    columns : sequence of array_like of shape (n,)
    center, inverse : sequence of float
        A column x is taken as ``(x - center) * inverse``, clamped to [-1, 1].

    Raises
    ------
    ValueError
        If there are no columns, or they differ in length.
    """
    if not len(columns) == len(center) == len(inverse) > 0:
        raise ValueError("a product is of as many columns as there are centers and inverses")
    if len({len(x) for x in columns}) > 1:
        raise ValueError("columns must be of equal length")
    total = np.ones(len(columns[0]))
    for x, c, i in zip(columns, center, inverse, strict=True):
        total = total * legendre(x, c, i, 1)[0]
    return total


def _one_dimensional(x: Any) -> NDArray[np.float64]:
    column = np.asarray(x, np.float64)
    if column.ndim != 1:
        raise ValueError(f"a column has one dimension, not {column.ndim}")
    return column


# --- wishart: Bartlett ------------------------------------------------------------------------


def wishart(
    bit_generator: Any,
    k: float,
    cholesky: NDArray[np.float64] | None,
    out: NDArray[np.float64],
) -> None:
    """Draw W_d(V, k) by Bartlett's decomposition, V = L L^T, real k > d - 1.

    Parameters
    ----------
    bit_generator : numpy.random.BitGenerator
    k : float in (d - 1, inf)
        Degrees of freedom.
    cholesky : ndarray of shape (d, d) or None
        L in its lower triangle; what is above the diagonal is ignored. None for the identity.
    out : ndarray of shape (d, d)
        Where the draw goes.

    Notes
    -----
    U is drawn upper triangular, U U^T ~ W_d(I, k); row by row, the chi^2 variable of the diagonal
    first, the normals after it. With the coordinates in reverse order it is Bartlett's lower
    triangular A.
    """
    d = len(out)
    if out.shape != (d, d):
        raise ValueError(f"out must be square, not {out.shape}")
    if cholesky is not None and cholesky.shape != (d, d):
        raise ValueError(f"cholesky must have the shape of out, ({d}, {d}), not {cholesky.shape}")
    if not d - 1 < k < np.inf:
        raise ValueError(f"k must be finite and above d - 1 = {d - 1}, not {k}")
    rng = np.random.Generator(bit_generator)
    u = np.zeros((d, d))
    for i in range(d):
        u[i, i] = np.sqrt(rng.chisquare(k - (d - 1 - i)))
        u[i, i + 1 :] = rng.standard_normal(d - 1 - i)
    if cholesky is None:
        out[:] = u @ u.T
    else:
        t = np.tril(cholesky) @ u[::-1, ::-1]
        out[:] = t @ t.T


# --- orthonormal: noisy Gram-Schmidt ----------------------------------------------------------

RANK_TOLERANCE = 1e-11


def noisy_orthonormalise(
    bit_generator: Any, y: NDArray[np.float64], noise_std: float
) -> tuple[NDArray[np.float64], int]:
    """Orthonormalise the columns of Y + noise by Gram-Schmidt, each of them twice.

    Parameters
    ----------
    bit_generator : numpy.random.BitGenerator
        Not used if `noise_std` is 0.
    y : ndarray of shape (m, k)
    noise_std : float in [0, inf)
        Standard deviation of the Gaussian noise added to every entry, drawn row by row.

    Returns
    -------
    q : ndarray of shape (m, r)
        Orthonormal basis of the range of Y + noise.
    r : int
        Its rank. A column that keeps at most `RANK_TOLERANCE` of its norm once the columns before
        it are projected out counts as dependent on them.
    """
    if not 0 <= noise_std < np.inf:
        raise ValueError(f"noise_std must be finite and not negative, not {noise_std}")
    z = np.array(y)
    if noise_std > 0:
        z += noise_std * np.random.Generator(bit_generator).standard_normal(z.shape)
    bad = np.flatnonzero(~np.isfinite(z).all(axis=1))
    if len(bad) > 0:
        raise ValueError(f"row {bad[0]} of y is not finite, or is not once the noise is added")
    basis: list[NDArray[np.float64]] = []
    for column in z.T if z.size > 0 else ():
        # A power of two takes the squares away from overflow and underflow without a rounding.
        v = np.ldexp(column, -np.frexp(np.abs(column).max())[1])
        norm = np.linalg.norm(v)
        for q in 2 * basis:
            v = v - (q @ v) * q
        if len(basis) < len(z) and np.linalg.norm(v) > RANK_TOLERANCE * norm:
            basis.append(v / np.linalg.norm(v))
    return np.reshape(basis, (len(basis), len(z))).T.copy(), len(basis)
