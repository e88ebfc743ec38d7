"""The second-moment matrix of a table: exact, mergeable, secret.

Nothing of it may leave: no noise is added here, and nothing printed shows data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privgram._base.files import Guard
from privgram._base.numbers import MAX_BOUND, MIN_BOUND, check_integer, check_positive
from privgram._base.saved import BinaryFormat, JsonObject, understood
from privgram._core.rows import Accumulator
from privgram.columns import Columns
from privgram.columns.structure import zeros
from privgram.columns.unit import PrivacyUnit, Unit
from privgram.exact import int128
from privgram.moment.accumulators import BlockReader, TotalLayout
from privgram.sources import open_block
from privgram.sources.table import InvalidRow, TableSource

#: Two words of d x d, 16 GiB a matrix here; threads share them.
MAX_COLUMNS = 1 << 15


class MomentBase(ABC):
    """What a second moment and those of groups have alike: columns, bound, unit, and a file."""

    _format: ClassVar[BinaryFormat]
    #: What has to be the same of two that are merged.
    _alike: ClassVar[tuple[str, ...]] = ("n_columns", "bound", "names", "columns", "privacy_unit")

    def _adopt(
        self,
        total: Accumulator,
        names: tuple[str, ...] | None,
        columns: Columns | None,
        bound: float,
        unit: PrivacyUnit | None = None,
    ) -> None:
        """Take over an accumulator that nobody else holds."""
        self._total = total
        self._names = names
        self._columns = columns
        self._bound = bound
        self._unit = unit
        self._guard = Guard()

    def copy(self) -> Self:
        """Return an independent copy."""
        return self.from_bytes(self.to_bytes())

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Serialise. SECRET."""

    @classmethod
    @abstractmethod
    def _from_parts(cls, header: JsonObject, body: bytes) -> Self: ...

    @property
    def _layout(self) -> TotalLayout:
        return TotalLayout(self._columns, self.n_columns, self._bound, self._total.bits)

    @property
    def n_columns(self) -> int:
        """Number of columns, d."""
        return int(self._total.n_columns)

    @property
    def n_rows(self) -> int:
        """Number of rows that contribute; with a `privacy_unit`, of units, in each of groups."""
        return int(self._total.n_rows)

    @property
    def n_dropped(self) -> int:
        """Number of rows dropped for a missing value, or as of no group.

        Under the "replace" notion ``n_rows + n_dropped`` is public, and neither is alone.
        """
        return int(self._total.n_dropped)

    @property
    def bound(self) -> float:
        """L2 bound to which rows, or units, are clipped."""
        return self._bound

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, if they have any."""
        return self._names

    @property
    def columns(self) -> Columns | None:
        """Public bounds the rows were scaled by, if any."""
        return self._columns

    @property
    def privacy_unit(self) -> PrivacyUnit | None:
        """Whose rows were bounded together; None where each row was bounded alone."""
        return self._unit

    def _check_addend(self, other: object) -> None:
        """Refuse another kind, this one itself, and what may have rows of the same units."""
        if not isinstance(other, type(self)):
            kind = self._format.what
            raise TypeError(f"only {kind} can be merged here, not {type(other).__name__}")
        if other is self:
            raise ValueError(
                "these are one and the same: merged with itself, every row would count twice"
            )
        if self._unit is not None:
            raise ValueError(
                "the two may have rows of the same units, which must be bounded together: pass all "
                "of the table to one second_moment(..., unit=...)"
            )

    def _check_alike(self, other: MomentBase) -> None:
        for what in self._alike:
            if getattr(self, what) != getattr(other, what):
                raise ValueError(f"the two second moments differ in {what}")

    def merge(self, other: Self) -> Self:
        """Add the rows of another, of the same shape, bound, columns and groups.

        Not those of units, of which both may have rows.

        Returns
        -------
        SecondMoment or SecondMoments
            This one.

        Raises
        ------
        ValueError
            If the two differ.
        """
        self._check_addend(other)
        self.merge_disjoint(other)
        return self

    def merge_disjoint(self, other: Self) -> None:
        """Add another, which has no unit in common with this one (for engines)."""
        self._check_alike(other)
        self._absorb(other.copy()._total)  # a copy: never two locks

    def _absorb(self, addend: Accumulator) -> None:
        with self._guard.lock:
            total = self._total
            if total.n_rows + addend.n_rows + total.n_dropped + addend.n_dropped >= 2**63:
                raise OverflowError("more than 2**63 rows")
            total.merge(addend)

    def __add__(self, other: Self) -> Self:
        if not isinstance(other, type(self)):
            return NotImplemented
        self._check_addend(other)
        return self.copy().merge(other)

    def _header(self, counts: dict[str, int], more: JsonObject) -> JsonObject:
        return {
            "n_columns": self.n_columns,
            "bound": self._bound.hex(),
            "bits": self._total.bits,
            **counts,
            "names": self._names,
            "columns": None if self._columns is None else self._columns.to_dict(),
            **more,
            "privacy_unit": None if self._unit is None else self._unit.to_dict(),
        }

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore a second moment from `data`, which `to_bytes` wrote.

        Raises
        ------
        DamagedFile
            A ValueError: if the data are something else, of a later version, or damaged.
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"{cls._format.what} is made of bytes, not {type(data).__name__}")
        header, body = cls._format.open(bytes(data), "this")
        with understood("this", cls._format.what):
            return cls._from_parts(header, body)

    def __reduce__(self) -> tuple[Any, ...]:
        return (self.from_bytes, (self.to_bytes(),))


class SecondMoment(MomentBase):
    """Exact sum of x x^T over rows clipped to an L2 bound. SECRET: not differentially private.

    A row ``x`` becomes ``q = rint(c x S)``, with ``c = min(1, bound / ||x||)`` and ``S``
    about ``2**20 / bound``; the integers ``q q^T`` are summed without any rounding, so the
    total is the same, bit for bit, for every size of block, number of threads, order of rows
    and order of merging. A row moves the total by at most ``2**40`` in Frobenius norm, in
    units of `resolution`.

    Updating and merging are safe from several threads, also while the process forks: the child
    has a copy with all of a block or none.

    Parameters
    ----------
    n_columns : int
        d, in [1, 32768].
    bound : float
        L2 bound of one row, in [2**-100, 2**100]. It is public: it must not come from the data.
    names : sequence of str, optional
        Names of the columns, all different.
    columns : Columns, optional
        Public bounds: `update` then takes raw values and scales them. Names come from it.

    Examples
    --------
    >>> import numpy as np, privgram as pg
    >>> moment = pg.SecondMoment(2, bound=5.0)
    >>> moment.update(np.array([[3.0, 4.0], [30.0, 40.0]]))
    SecondMoment(n_columns=2, bound=5.0)
    >>> moment.matrix().round(4)
    array([[18., 24.],
           [24., 32.]])
    """

    _format = BinaryFormat(b"privgram.moment\n", 1, "a SecondMoment")
    _total: Accumulator

    def __init__(
        self,
        n_columns: int,
        bound: float,
        names: Sequence[str] | None = None,
        *,
        columns: Columns | None = None,
    ) -> None:
        if columns is not None:
            if not isinstance(columns, Columns):
                raise TypeError(f"columns is a pg.Columns, not {type(columns).__name__}")
            columns = columns.settled(None)  # as in a pass
            if n_columns != len(columns):
                raise ValueError(f"n_columns is {n_columns} and Columns has {len(columns)}")
            if names is not None and tuple(names) != columns.names:
                raise ValueError("names and columns name different columns; pass columns alone")
            names = columns.names
        bound = check_bound(bound)
        total = TotalLayout(columns, check_n_columns(n_columns), bound).new()
        self._adopt(total, _check_names(names, n_columns), columns, bound)
        #: Whether its rows are those of a group, so that how many they are is private.
        self.of_group = False
        self._spare: list[Accumulator] = []

    @classmethod
    def from_accumulator(
        cls,
        total: Accumulator,
        names: tuple[str, ...] | None,
        columns: Columns | None,
        bound: float | None = None,
        unit: PrivacyUnit | None = None,
        of_group: bool = False,
    ) -> Self:
        """Take over an accumulator, `total`, that nobody else holds (for engines).

        With a unit, what it counts as rows are units, and the bound is theirs. `of_group` says that
        it is one of several groups.
        """
        moment = cls.__new__(cls)
        moment._adopt(total, names, columns, total.bound if bound is None else bound, unit)
        moment.of_group = of_group
        moment._spare = []
        return moment

    @classmethod
    def from_sql(cls, answer: object, columns: Columns, *, unit: Unit | str | None = None) -> Self:
        """Take the sums that a warehouse computed by `Columns.sql`: those of a pass, bit for bit.

        Parameters
        ----------
        answer : sequence
            The row that the engine answered, or its rows where there are factors, as the driver
            gives them: whole numbers in the order of the query.
        columns : Columns
            Those that wrote the query.
        unit : Unit or str, optional
            That of the query.

        Raises
        ------
        ValueError
            If the answer is to another query, the engine does not round as this program does, the
            integers are no sums of so many rows of these columns, or rows have missing values,
            which only ``missing="drop"`` leaves out.
        TypeError
            If the answer holds something else than whole numbers.

        Examples
        --------
        >>> import privgram as pg
        >>> columns = pg.Columns({"age": (18, 90)}, intercept=True)
        >>> query = columns.sql("people", "postgres")
        >>> cursor.execute(query)  # doctest: +SKIP
        >>> moment = pg.SecondMoment.from_sql(cursor.fetchall(), columns)  # doctest: +SKIP
        """
        if not isinstance(columns, Columns):
            raise TypeError("columns is the pg.Columns that wrote the query")
        columns = columns.settled(None)
        whose = Unit.of(unit)
        whose = None if whose is None else whose.settled(None)
        from privgram.moment.sql import total_of_answer

        total, recorded = total_of_answer(answer, columns, whose)
        bound = columns.bound if whose is None else columns.query(whose).bound
        return cls.from_accumulator(total, columns.names, columns, bound, recorded)

    @property
    def resolution(self) -> float:
        """Unit of the integer matrix: ``matrix() = resolution * (hi 2**64 + lo)``."""
        return self._total.scale**-2

    @property
    def sensitivity_bound(self) -> float:
        """L2 bound of a quantised row, ``2**20 / S``: a hair over `bound`.

        Its square is the largest Frobenius norm of what a row, or a unit, contributes.
        """
        return math.ldexp(1.0, self._total.bits) / self._total.scale

    def update(self, block: TableSource) -> Self:
        """Clip, quantise and accumulate the rows of a block; all of them or, on error, none.

        Parameters
        ----------
        block : array_like of shape (n, d), DataFrame, Arrow table or mapping of columns
            Real numbers of any type and layout. Converted, where the kernel cannot read them
            in place, a few thousand rows at a time; on a GPU, summed there. Blocks of many rows
            (1000, or d) are the fastest.

        Returns
        -------
        SecondMoment
            This one.

        Raises
        ------
        ValueError
            If the block has the wrong width, or a row holds NaN or infinity.
        TypeError
            If the block does not hold real numbers.
        """
        if self._unit is not None:
            raise ValueError(
                "rows of a unit that is there already cannot be told: pass all rows of all units "
                "to one second_moment(..., unit=...)"
            )
        columns = self._columns
        table = open_block(block, None if columns is None else columns.reads)
        check_width(table.n_columns, self.n_columns, columns)
        scratch = self._scratch()
        feeder = BlockReader(scratch, columns)
        row = 0
        try:
            for chunk in table.chunks:
                for part in chunk.blocks(feeder.sums_on_device):
                    row += feeder.feed(part)
        except InvalidRow as invalid:
            raise invalid.explain(row) from None
        # A scratch that met an error is left to the garbage collector.
        self._absorb_scratch(scratch)
        return self

    def _scratch(self) -> Accumulator:
        """An empty accumulator, which `_absorb_scratch` takes back."""
        try:
            return self._spare.pop()
        except IndexError:
            return self._layout.new()

    def _absorb_scratch(self, scratch: Accumulator) -> None:
        self._absorb(scratch)
        scratch.reset()
        self._spare.append(scratch)

    def merge_disjoint(self, other: Self) -> None:
        """Add another, which has no unit in common with this one (for engines)."""
        self._check_alike(other)
        scratch = self._scratch()  # never two locks, and no new memory for each of many
        with other._guard.lock:
            scratch.merge(other._total)
        self._absorb_scratch(scratch)
        self.of_group |= other.of_group

    def copy(self) -> Self:
        """Return an independent copy."""
        with self._guard.lock:
            copy = self._total.copy()
        public = self._names, self._columns, self._bound, self._unit
        return self.from_accumulator(copy, *public, self.of_group)

    def triangle(self) -> int128.Int128:
        """The integers of the lower triangle, row by row. SECRET."""
        with self._guard.lock:
            of_rows = isinstance(self._total, Accumulator)
            if of_rows:
                totals = self._total.totals()
                if not self._total.blocks:
                    return totals
                (i, j), n = self._total.stored(), self.n_columns
                at, size = i * (i + 1) // 2 + j, n * (n + 1) // 2
                high, low = np.zeros(size, np.int64), np.zeros(size, np.uint64)
                high[at], low[at] = totals
                return high, low
            hi, lo = self._total.int128()
        below = np.tril_indices(self.n_columns)
        return hi[below], lo[below]

    @property
    def n_known_zeros(self) -> int:
        """Entries below the diagonal between two levels of one factor, if all others are kept."""
        d = self.n_columns
        blocks = () if self._columns is None else zeros(self._columns.layout)
        known = sum(len(block) * (len(block) - 1) // 2 for block in blocks)
        return known if self._layout.n_totals() + known == d * (d + 1) // 2 else 0

    def stored(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], int128.Int128]:
        """Row and column of each total of the lower triangle, and their integers. SECRET."""
        with self._guard.lock:
            return self._total.stored(), self._total.totals()

    def int128(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the integer matrix as ``(hi, lo)``, its value ``hi 2**64 + lo``. SECRET."""
        with self._guard.lock:
            return self._total.int128()

    def matrix(self) -> NDArray[np.float64]:
        """Return the (d, d) matrix rounded to float64. SECRET: not differentially private."""
        return int128.to_float(*self.int128()) * self.resolution

    def to_bytes(self) -> bytes:
        """Serialise: versioned, checksummed, little-endian. SECRET.

        Eight bytes an entry of the triangle, or sixteen where one is beyond 64 bits. The checksum
        finds accidents, not forgery.
        """
        with self._guard.lock:
            hi, lo = self._total.totals()
            counts = {"n_rows": self._total.n_rows, "n_dropped": self._total.n_dropped}
        header = self._header(counts, {"of_group": self.of_group})
        parts = [lo.astype("<u8", copy=False)]
        if (hi != int128.from_int64(lo.view(np.int64))[0]).any():
            parts.insert(0, hi.astype("<i8", copy=False))
        return self._format.seal(header, *(part.tobytes() for part in parts))

    @classmethod
    def _from_parts(cls, header: JsonObject, body: bytes) -> Self:
        d, bits, public = read_public(header)
        _, columns, bound, unit = public
        rows = header["n_rows"], header["n_dropped"]
        if not all(type(count) is int and count >= 0 for count in rows) or sum(rows) >= 2**63:
            raise ValueError("the numbers of rows of a SecondMoment are wrong")
        layout = TotalLayout(columns, d, bound, bits)
        size = layout.n_totals()
        if len(body) not in (8 * size, 16 * size):
            raise ValueError("the length is not that of the matrix")
        i, j = layout.entries()
        last = np.frombuffer(body, "<i8", size, len(body) - 8 * size)
        hi, lo = int128.from_int64(last.astype(np.int64))
        if len(body) > 8 * size:
            hi = np.frombuffer(body, "<i8", size).astype(np.int64)
        # A matrix of Frobenius norm 1 has a trace of up to sqrt(d).
        most = (1 if unit is None else math.isqrt(d) + 1) * rows[0] << 2 * bits
        int128.check_gram((hi, lo), (hi[i == j], lo[i == j]), most)
        total = layout.restored((hi, lo), *rows)
        return cls.from_accumulator(total, *public, header["of_group"] is True)

    def __repr__(self) -> str:
        # No counts: under the "add-remove" notion they are private.
        by = "" if self._unit is None else f", unit={self._unit.name!r}"
        return f"SecondMoment(n_columns={self.n_columns}, bound={self.bound!r}{by})"


def check_bound(bound: float | None, name: str = "bound") -> float:
    """Check an L2 bound: one positive, finite number, public."""
    if bound is None:
        raise ValueError(
            "describe the columns by pg.Columns, or give bound=, the largest L2 norm of a row, "
            "known without looking at the data"
        )
    value = check_positive(bound, name)
    if not MIN_BOUND <= value <= MAX_BOUND:
        raise ValueError(
            f"{name} must be in [{MIN_BOUND:.2g}, {MAX_BOUND:.2g}], not {value:g}: what is "
            "computed from the moment is beyond float64 otherwise; use another unit"
        )
    return value


def check_width(width: int, n_columns: int, columns: Columns | None) -> None:
    """Compare the width of a block with what is expected of it."""
    expected = n_columns if columns is None else len(columns.selected)
    if width != expected:
        raise ValueError(f"the block has {width} columns and the second moment takes {expected}")


def check_n_columns(n_columns: int) -> int:
    """Check a number of columns."""
    return check_integer(n_columns, "n_columns", 1, MAX_COLUMNS)


def read_public(
    header: JsonObject,
) -> tuple[int, int, tuple[tuple[str, ...] | None, Columns | None, float, PrivacyUnit | None]]:
    """From the header of a file: the number of columns, the bits, and what is public."""
    d = check_n_columns(header["n_columns"])
    columns = None if header["columns"] is None else Columns.from_dict(header["columns"])
    names = _check_names(header["names"], d)
    if columns is not None and len(columns) != d:
        raise ValueError("the columns are others than the header says")
    if columns is not None and columns.names != names:
        raise ValueError("the names in the header are not those of its columns")
    bound = check_bound(float.fromhex(header["bound"]))
    unit = header["privacy_unit"]
    unit = None if unit is None else PrivacyUnit.from_dict(unit)
    return d, check_integer(header["bits"], "bits", 8, 24), (names, columns, bound, unit)


def _check_names(names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError("names is a sequence of strings")
    if len(names) != n_columns:
        raise ValueError(f"there are {len(names)} names for {n_columns} columns")
    if len(set(names)) != len(names):
        raise ValueError("names must all be different")
    return tuple(names)
