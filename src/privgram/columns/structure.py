"""What a table's description says of its second moment."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privgram.columns.terms import Layout, Stored

# A row has exactly one of a factor's indicators: products of two of them are zero, and the
# indicators of any two factors have the same sum. All rows obey such equations, so the second
# moment does. Imposing them on a release costs nothing and takes off noise.

#: More equations than this take longer to solve than they are worth.
MOST_TIES = 300

#: An equation: the sum of c times entry (i, j), i <= j, is zero.
Tie = tuple[tuple[int, int, float], ...]


def zeros(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """Groups of columns of which every row has one that is not zero, at most."""
    places = range(layout.size)
    return tuple(tuple(places[stored.columns]) for stored in layout.stored if stored.size > 1)


def ties(layout: Layout, entries: Mapping[int, float] | None = None) -> tuple[Tie, ...]:
    """Equations that the entries of the second moment solve, apart from `zeros`.

    `entries` are what a row has in the pieces that count, by their first columns; by default all
    count, and rows have their weights.

    Of pieces with the same numbers, sums over the levels of what the factors do not share
    are equal: so they are times any column. Entries of two pieces that disagree on a factor
    they share are zero. Where there are more than `MOST_TIES`, those with numbers are given,
    and none if these are too many.
    """
    zero_sums = relations(layout, entries)
    conflicts: list[Tie] = []
    of_levels = [stored for stored in _pieces(layout, entries) if stored.piece.factors]
    for one, other in combinations(of_levels, 2):
        cells, other_cells = _shared_cells(layout, one, other)
        if cells.max() > 0:  # they share a factor
            apart = cells[:, None] != other_cells
            if len(conflicts) + apart.sum() > MOST_TIES:
                continue
            for i, j in np.argwhere(apart).tolist():
                a, b = sorted((one.start + i, other.start + j))
                conflicts.append(((a, b, 1.0),))
    numbers = [stored.start for stored in layout.stored if stored.size == 1]
    for others in (range(layout.size), numbers):
        if len(zero_sums) * len(others) + len(conflicts) <= MOST_TIES:
            tied = [
                tuple((min(i, x), max(i, x), c) for i, c in relation.items())
                for relation in zero_sums
                for x in others
            ]
            return tuple(tied + conflicts)
    return ()


def relations(layout: Layout, entries: Mapping[int, float] | None = None) -> list[dict[int, float]]:
    """What columns of a row add up to zero, and by which coefficients; see `ties`."""
    if entries is None:
        entries = {stored.start: stored.weight for stored in layout.stored}
    by_numbers: dict[object, list[Stored]] = {}
    for stored in _pieces(layout, entries):
        by_numbers.setdefault(stored.piece.powers, []).append(stored)
    alike = [pair for pieces in by_numbers.values() for pair in combinations(pieces, 2)]
    zero_sums: list[dict[int, float]] = []
    for one, other in sorted(alike, key=lambda pair: (pair[0].start, pair[1].start)):
        cells, other_cells = _shared_cells(layout, one, other)
        for cell in range(int(cells.max()) + 1):
            zero_sums.append(
                {one.start + int(i): 1 / entries[one.start] for i in np.flatnonzero(cells == cell)}
                | {
                    other.start + int(j): -1 / entries[other.start]
                    for j in np.flatnonzero(other_cells == cell)
                }
            )
    return zero_sums


def _pieces(layout: Layout, entries: Mapping[int, float] | None) -> list[Stored]:
    return [stored for stored in layout.stored if entries is None or stored.start in entries]


def _shared_cells(
    layout: Layout, one: Stored, other: Stored
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For the columns of two pieces, the combination of the levels of the factors they share."""
    shared = [name for name in one.piece.factors if name in other.piece.factors]
    cells = []
    for stored in (one, other):
        index = np.indices(stored.shape).reshape(len(stored.shape), stored.size)
        cell = np.zeros(stored.size, np.intp)
        for name in shared:
            at = stored.piece.factors.index(name)
            cell = cell * stored.shape[at] + index[at]
        cells.append(cell)
    return cells[0], cells[1]
