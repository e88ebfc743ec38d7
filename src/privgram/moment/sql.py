"""A warehouse's answer to the query of `Columns.sql`, as the totals of a second moment.

Nothing is believed of it that can be looked up: whose query it answers, how the engine rounds, and
whether the integers are sums over so many rows within their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import UnitAccumulator
from privgram.columns.sql import PROBE
from privgram.exact import int128
from privgram.moment.accumulators import TotalLayout
from privgram.sources.table import UNLISTED

if TYPE_CHECKING:
    from privgram._core.rows import Accumulator
    from privgram.columns import Columns
    from privgram.columns.sql import Entries, MomentQuery
    from privgram.columns.unit import PrivacyUnit, Unit

AGAIN = "run the query that columns.sql(...) writes for these columns and this unit, as it stands"

WRONG = f"the integers are not sums over so many rows of these columns; {AGAIN}"

#: Beyond so many columns the eigenvalues take longer than they are worth.
MOST_FACTORED = 2_000

#: A row of the answer, without what tells whose it is. SECRET.
Fields = Sequence[Any]


def total_of_answer(
    answer: object, columns: Columns, unit: Unit | None
) -> tuple[Accumulator, PrivacyUnit | None]:
    """The accumulator of an answer, and what a second moment records of its unit, if any.

    ValueError or TypeError if it is none to this query, or counts what the columns refuse.
    """
    query = columns.query(unit)
    rows = [_fields(row, query) for row in _rows(answer)]
    if not rows and query.n_factors:  # so Spark answers of a table without rows
        rows = [[*[None] * query.n_factors, *[0] * (query.n_fields - 2 - query.n_factors)]]
    if not rows:
        raise ValueError(f"the answer has no rows; {AGAIN}")
    if unit is None:
        return _total_of_rows(rows, columns, query), None
    return _total_of_units(rows, columns, query, unit)


def _rows(answer: object) -> list[Any]:
    """The rows of an answer: of one row, given by itself, it."""
    if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
        raise TypeError(f"an answer is a row of integers, or rows, not {type(answer).__name__}")
    if isinstance(answer, Mapping):  # as some drivers give rows
        return [answer]
    rows = list(answer)
    single = rows and not isinstance(rows[0], (Sequence, Mapping, np.ndarray))
    return [rows] if single or (rows and isinstance(rows[0], str)) else rows


def _fields(row: Iterable[Any], query: MomentQuery) -> Fields:
    """The integers of a row that is of this query, without those that tell so."""
    values = list(row.values()) if isinstance(row, Mapping) else list(row)
    if len(values) != query.n_fields:
        raise ValueError(
            f"a row of the answer has {len(values)} fields, and of these columns it has "
            f"{query.n_fields}: {AGAIN}"
        )
    digest, probe, *rest = values
    if _integer(digest) != query.digest:
        raise ValueError(f"the answer is to a query for other columns, or another unit: {AGAIN}")
    if _integer(probe) != PROBE:
        raise ValueError(
            "the engine does not compute in IEEE doubles that are rounded to even, so that its "
            "integers are not those of second_moment: pass the rows themselves"
        )
    levels = rest[: query.n_factors]
    return [
        *(None if level in (None, "") else _integer(level) for level in levels),  # "" in a file
        *map(_integer, rest[query.n_factors :]),
    ]


def _integer(value: object) -> int:
    """An exact integer, as drivers have them: of Python, NumPy or decimal, or in digits."""
    if value is None:
        raise ValueError(f"the answer has a NULL where a sum must be; {AGAIN}")
    if isinstance(value, (float, np.floating)):
        raise TypeError(
            "the answer has floating-point numbers, which do not hold the sums exactly: take its "
            "rows from the driver, by cursor.fetchall(), and not as a data frame"
        )
    if isinstance(value, str) and value.lstrip("-").isdecimal() and value.isascii():
        return int(value)
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise TypeError(f"the answer has something else than whole numbers; {AGAIN}")


def _check_present(counted: int, drop: bool) -> None:
    """Refuse rows with missing values, as a pass does."""
    if counted and not drop:
        raise ValueError(
            f"a row {UNLISTED}. This error tells that there is one, at no cost: it must not reach "
            "the public"
        )


def _total_of_rows(rows: Sequence[Fields], columns: Columns, query: MomentQuery) -> Accumulator:
    """The totals of single rows, from sums by the levels of none, one and two factors."""
    cells = _cells(rows, query)
    n_rows, n, *sums = cells[()][()]
    if not 0 <= n <= n_rows < 2**63:
        raise ValueError(WRONG)
    _check_present(n_rows - n, columns.missing == "drop")
    m = query.n_variables
    most = [largest for _, largest in sorted(query.largest.items())]
    most += [most[i] * most[j] for i, j in query.products]
    if any(abs(value) > n * largest for value, largest in zip(sums, most, strict=True)):
        raise ValueError(WRONG)
    place = {pair: 2 + m + i for i, pair in enumerate(query.products)}
    of_column = {
        column: (entry, level)
        for entry in query.entries
        for level, column in enumerate(entry.columns)
    }

    def integer(i: int, j: int) -> int:
        (one, level), (other, other_level) = of_column[i], of_column[j]
        if one.factor == other.factor and level != other_level:  # a row has one of them
            return 0
        pairs = ((one.factor, level), (other.factor, other_level))
        levels = {k: at for k, at in pairs if k is not None}
        by = tuple(sorted(levels))
        fields = cells[by].get(tuple(levels[k] for k in by))
        return 0 if fields is None else _sum_of_products(one, other, fields, place)

    layout = TotalLayout(columns, query.n_columns, columns.bound)
    at = zip(*map(np.ndarray.tolist, layout.entries()), strict=True)
    return _restored(layout, [integer(i, j) for i, j in at], n, n_rows - n, n)


def _cells(
    rows: Sequence[Fields], query: MomentQuery
) -> dict[tuple[int, ...], dict[tuple[int, ...], Fields]]:
    """Counts and sums by the factors whose levels they are of, and by these levels.

    A row has one level of every factor: sums over the levels are those of all rows.
    """
    k = query.n_factors
    sums: dict[tuple[int, ...], dict[tuple[int, ...], Fields]] = {by: {} for by in query.sets}
    sizes = query.encoder.levels
    for row in rows:
        by = tuple(i for i in range(k) if row[i] is not None)
        levels = tuple(row[i] for i in by)
        wrong = by not in sums or levels in sums[by]
        if wrong or any(not -1 <= level < sizes[i] for i, level in zip(by, levels, strict=True)):
            raise ValueError(f"the answer has rows of other levels than these columns; {AGAIN}")
        sums[by][levels] = row[k:]
    if () not in sums or not sums[()]:
        raise ValueError(f"the answer lacks the sums over all rows; {AGAIN}")
    everything = sums[()][()]
    for cells in sums.values():
        if any(sum(one[i] for one in cells.values()) != x for i, x in enumerate(everything)):
            raise ValueError(WRONG)
    return sums


def _sum_of_products(
    one: Entries, other: Entries, fields: Fields, place: Mapping[tuple[int, int], int]
) -> int:
    """The sum over rows of what they have in two columns."""
    _, n, *_ = fields
    if one.variable is not None and other.variable is not None:
        pair = max(one.variable, other.variable), min(one.variable, other.variable)
        return int(fields[place[pair]])
    varying, fixed = (one, other) if other.variable is None else (other, one)
    assert fixed.constant is not None
    if varying.variable is not None:
        return fixed.constant * int(fields[2 + varying.variable])
    assert varying.constant is not None
    return fixed.constant * varying.constant * int(n)


def _total_of_units(
    rows: Sequence[Fields], columns: Columns, query: MomentQuery, unit: Unit
) -> tuple[Accumulator, PrivacyUnit]:
    """The totals of units, each scaled into its bound by the engine."""
    scale, d = query.unit, query.n_columns
    assert scale is not None
    if len(rows) != 1:
        raise ValueError(f"the answer has {len(rows)} rows instead of one; {AGAIN}")
    n_units, n_without, n_missing, most, *sums = rows[0]
    counts = (n_units, n_without, n_missing, most)
    if min(counts) < 0 or max(counts) >= 2**63 or (most == 0) != (n_units == 0):
        raise ValueError(WRONG)
    if n_without and unit.missing != "drop":
        raise ValueError(
            "some rows have no unit: nobody's rows cannot be bounded; leave such rows out by "
            "Unit(..., missing='drop'), or in the query"
        )
    _check_present(n_missing, columns.missing == "drop")
    trace = unit.clip == "trace"
    most_rows = UnitAccumulator(d, scale.bound, columns.bound, scale.bits, trace).most_rows
    if most > most_rows:
        raise ValueError(f"a unit has more than {most_rows} rows, the most that fit")
    place = dict(zip(query.products, sums, strict=True))
    layout = TotalLayout(columns, d, scale.bound, scale.bits)
    at = zip(*map(np.ndarray.tolist, layout.entries()), strict=True)
    integers = [place[max(i, j), min(i, j)] for i, j in at]
    # A matrix of Frobenius norm 1 has a trace of up to sqrt(d).
    total = _restored(layout, integers, n_units, 0, n_units * (math.isqrt(d) + 1))
    return total, replace(unit.protected, row_bound=float(columns.bound))


def _restored(
    layout: TotalLayout, integers: list[int], n_rows: int, n_dropped: int, most: int
) -> Accumulator:
    """An accumulator of these totals; ValueError if they are no sums over so many rows.

    `most` is how often the square of the bound their trace may be.
    """
    i, j = layout.entries()
    if max(map(abs, integers), default=0) >= 2**126:
        raise ValueError(WRONG)
    hi = np.array([value >> 64 for value in integers], np.int64)
    lo = np.array([value & (2**64 - 1) for value in integers], np.uint64)
    try:
        int128.check_gram((hi, lo), (hi[i == j], lo[i == j]), most << 2 * layout.bits)
    except ValueError:
        raise ValueError(WRONG) from None
    total = layout.restored((hi, lo), n_rows, n_dropped)
    matrix = int128.to_float(*total.int128())
    if len(matrix) <= MOST_FACTORED and np.trace(matrix) > 0:
        least = np.linalg.eigvalsh(matrix / np.trace(matrix))[0]
        if least < -1e-9:  # more than rounding makes of zero
            raise ValueError(WRONG)
    return total
