"""What a table may look like, from what is public: rows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from privgram._base.text import listed
from privgram.columns.encoding import ColumnTable
from privgram.columns.variables import Boolean
from privgram.multivariate.synthetic import synthetic_rows
from privgram.planning.guess import PARTS, Guess, is_guess
from privgram.releases.record import ReleaseRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.columns import Columns

#: What a plan can be told of a table: an earlier release, a public table, or a guess.
DesignInput: TypeAlias = ReleaseRecord | ColumnTable | Mapping[Any, Any] | None

#: What a design is that is a release, and one that is neither that nor a table.
EARLIER, GUESSED = "an earlier release", "a guess"


def _check_table(design: object, columns: Columns) -> tuple[ColumnTable, NDArray[np.bool_]]:
    """Take a design for a public table: with which of its rows miss nothing."""
    if not hasattr(design, "__getitem__"):
        raise TypeError(
            "design is a release, a data frame or mapping of public columns, or a mapping of "
            'correlations, such as {("age", "cost"): 0.3}'
        )
    if isinstance(design, Mapping) and not set(design) & set(columns.variables):
        raise ValueError(
            "a design that is a mapping is a table with the columns "
            f"{listed(list(columns.variables))} or a guess with {listed(PARTS)}; this one has "
            f"{listed([str(key) for key in design])}"
        )
    table = cast("ColumnTable", design)
    complete = np.logical_not(np.isnan(columns.encode(table)).any(axis=1))
    if not complete.any():
        raise ValueError("the design has no row without missing values")
    return table, complete


def simulated_rows(
    design: DesignInput,
    columns: Columns,
    n: int,
    unit: str | None = None,
    counts: frozenset[str] = frozenset(),
    instrumented: tuple[tuple[str, Sequence[str]], ...] = (),
    rare: bool = False,
) -> tuple[str, dict[str, NDArray[Any]], Guess | None]:
    """So many rows of what a plan is given, in own units; `counts`, `instrumented` and `rare` of
    `Guess`.

    With what they are like, in words, and the guess that they are drawn by, if it is one. Of a
    public table that has a column of the `unit` too, whole units are drawn, and the column is among
    those of the result.
    """
    rng = np.random.default_rng(0)
    names = list(columns.reads)
    if isinstance(design, ReleaseRecord):
        synthetic = synthetic_rows(design, n, rng)
        values = {name: np.asarray(synthetic[name]) for name in names}
        for name, described in columns.reads.items():
            if isinstance(described, Boolean) and values[name].dtype.kind == "f":
                # Released as numbers within (0, 1): their means and products stay.
                values[name] = rng.random(n) < values[name]
        return EARLIER, values, None
    if is_guess(design, columns):
        guess = Guess.of(design, columns, counts, instrumented, rare)
        return GUESSED, guess.rows(n), guess
    table, complete = _check_table(design, columns)
    what = f"a public table of {len(complete):,} rows"
    if unit is not None and unit in table:  # type: ignore[operator]
        names.append(unit)
    values = {name: np.asarray(table[name]) for name in names}
    if columns.missing != "drop":  # and none is expected
        values = {name: column[complete] for name, column in values.items()}
    size = len(values[names[0]])
    if unit in values:
        at, values[unit] = _whole_units(values[unit], n, rng)
        return what, {name: x if name == unit else x[at] for name, x in values.items()}, None
    at = np.arange(size) if n == size else rng.choice(size, n, replace=n > size)
    return what, {name: column[at] for name, column in values.items()}, None


def _whole_units(
    ids: NDArray[Any], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of about n rows that are those of whole units, and the units as they were drawn."""
    code, counts = np.unique(ids, return_inverse=True, return_counts=True)[1:]
    start, order = np.cumsum(counts) - counts, np.argsort(code, kind="stable")
    drawn = rng.permutation(len(counts))
    while counts[drawn].sum() < n:
        drawn = np.append(drawn, rng.permutation(len(counts)))
    drawn = drawn[: int(np.searchsorted(np.cumsum(counts[drawn]), n)) + 1]
    at = np.concatenate([order[start[i] : start[i] + counts[i]] for i in drawn.tolist()])
    return at, np.repeat(np.arange(len(drawn)), counts[drawn])
