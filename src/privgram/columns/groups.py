"""Groups of rows: a column whose public values each have a matrix of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from privgram._base.numbers import check_one_of, set_fields
from privgram.columns.variables import Factor, Level, Variable

if TYPE_CHECKING:
    from privgram._base.saved import JsonObject
    from privgram.columns import Columns

HandleUnknown: TypeAlias = Literal["error", "drop", "other"]

#: What the group of all rows that are of no listed one is called.
OTHER = "other"


@dataclass(frozen=True)
class Groups:
    """Which rows are of which group: a column whose public values get a release each.

    Parameters
    ----------
    by : str
        Column of the table that says so; text or whole numbers. It is not among the columns of a
        release; of a table without names, the last one.
    levels : sequence of str or of int, or Factor
        Its values that get a release each, all different. They are public: from the form or the
        code book and not from the data. By default those of the columns' `Factor` of that name.
    unknown : {"drop", "other", "error"}, default "drop"
        What becomes of a row with another value, or with none. It is left out, of one more group,
        "other", or an error, which tells that there is such a row and where.

    Raises
    ------
    ValueError, TypeError
        If it is not a column and a list of different values, all text or all whole numbers.

    Examples
    --------
    >>> import privgram as pg
    >>> pg.Groups("state", ["NY", "NJ"], unknown="other").labels
    ('NY', 'NJ', 'other')
    """

    by: str
    levels: Sequence[Level] | Factor | None = None
    unknown: HandleUnknown = "drop"

    def __post_init__(self) -> None:
        if not isinstance(self.by, str):
            raise TypeError(f"by is the name of a column, not {type(self.by).__name__}")
        check_one_of(self.unknown, "unknown", get_args(HandleUnknown))
        if self.levels is None:
            return
        levels: Any = self.levels.levels if isinstance(self.levels, Factor) else self.levels
        try:
            Factor(levels, other=self.unknown == "other")  # or two groups would have one name
            set_fields(self, levels=Factor(levels).levels)
        except (ValueError, TypeError) as error:
            problem = str(error).replace("levels of a factor", "groups").replace("level", "group")
            problem = problem.replace("a factor", "a table").replace("other=False", "another name")
            raise type(error)(f"groups of {self.by!r}: {problem}") from None

    @classmethod
    def of(
        cls, by: Groups | str | None, columns: Columns | Sequence[str] | None = None
    ) -> tuple[Groups | None, Columns | Sequence[str] | None]:
        """Return the groups that a user names, with their levels, and the columns that are left.

        Their levels may be those of a `Factor` of the columns, which then leaves these.
        """
        if by is None:
            return None, columns
        groups = by if isinstance(by, Groups) else cls(by)
        if groups.levels is not None:
            return groups, columns
        if columns is not None and not isinstance(columns, Sequence):
            described = columns.variables.get(groups.by)
            if isinstance(described, Factor):
                unknown: HandleUnknown = "other" if described.other else groups.unknown
                return cls(groups.by, described.levels, unknown), columns.without(groups.by)
        raise ValueError(
            f"the groups are missing: by=Groups({groups.by!r}, [...]) lists the values that "
            "get a release each. They must be public, from the form or the code book and not "
            "from the data: a value that only one person has would give that person away"
        )

    @cached_property
    def factor(self) -> Factor:
        """The public values."""
        return Factor(self.levels)  # type: ignore[arg-type]  # resolved by `of`

    @property
    def labels(self) -> tuple[Level, ...]:
        """The groups, "other" last if there is one."""
        return (*self.factor.levels, *((OTHER,) if self.unknown == "other" else ()))

    def __len__(self) -> int:
        return len(self.factor.levels) + (self.unknown == "other")

    def selection(
        self, columns: Columns | None, select: Mapping[str, Variable] | Sequence[str] | None
    ) -> Mapping[str, Any] | None:
        """Return what to read of a table: `select`, and the column of the groups after it."""
        if self.by in (select or ()) or (columns is not None and self.by in columns.variables):
            raise ValueError(
                f"column {self.by!r} says the group, and is the same in all of its rows: leave it "
                "out of the columns"
            )
        if select is None:
            return None
        held = select if isinstance(select, Mapping) else dict.fromkeys(select)
        return {**held, self.by: self.factor}

    def to_dict(self) -> JsonObject:
        """Give a plain form for JSON, from which `from_dict` makes an equal object."""
        return {"by": self.by, "groups": list(self.factor.levels), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Groups:
        """Make groups from the form `to_dict` gives."""
        return cls(data["by"], data["groups"], data["unknown"])
