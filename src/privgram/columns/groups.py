"""Groups of rows: a column whose public values each have a matrix of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from privgram.columns.variables import Factor, Level, Variable

if TYPE_CHECKING:
    from privgram.columns import Columns

__all__ = ["OTHER", "Groups", "Unlisted"]

Unlisted: TypeAlias = Literal["error", "drop", "other"]

#: What the group of all rows that are of no listed one is called.
OTHER = "other"


@dataclass(frozen=True)
class Groups:
    """Which rows are of which group.

    Parameters
    ----------
    by : str
        Column of a table that says so.
    factor : Factor
        Its public values.
    unlisted : {"error", "drop", "other"}
        What becomes of a row with another value, or with none: an error, nothing, or a part of one
        more group, "other".
    """

    by: str
    factor: Factor
    unlisted: Unlisted = "drop"

    @classmethod
    def of(cls, by: str, groups: Sequence[Level] | Factor | None, unlisted: str) -> Groups:
        """Check what a user says of groups.

        Raises
        ------
        ValueError, TypeError
            If it is not a column and a list of different values, all text or all whole numbers.
        """
        if not isinstance(by, str):
            raise TypeError(f"by is the name of a column, not {type(by).__name__}")
        if groups is None:
            raise ValueError(
                f"groups is missing: the list of the values of {by!r} that get a release each. "
                "They must be public, from the form or the code book and not from the data: a "
                "value that only one person has would give that person away"
            )
        if unlisted not in get_args(Unlisted):
            raise ValueError(
                f"unlisted is one of {', '.join(get_args(Unlisted))}, not {unlisted!r}"
            )
        levels: Any = groups.levels if isinstance(groups, Factor) else groups
        try:
            Factor(levels, other=unlisted == "other")  # or two groups would have one name
            return cls(by, Factor(levels), unlisted)  # type: ignore[arg-type]
        except (ValueError, TypeError) as error:
            said = str(error).replace("levels of a factor", "groups").replace("a factor", "a table")
            said = said.replace("level", "group").replace("other=False", "another name")
            raise type(error)(f"groups of {by!r}: {said}") from None

    @property
    def labels(self) -> tuple[Level, ...]:
        """The groups, "other" last if there is one."""
        return (*self.factor.levels, *((OTHER,) if self.unlisted == "other" else ()))

    def __len__(self) -> int:
        return len(self.factor.levels) + (self.unlisted == "other")

    def selection(
        self, columns: Columns | None, select: Mapping[str, Variable] | Sequence[str] | None
    ) -> Mapping[str, Any] | None:
        """What to read of a table: what is selected, and the column of the groups after it.

        Raises
        ------
        ValueError
            If it is among the selected columns.
        """
        if self.by in (select or ()) or (columns is not None and self.by in columns.variables):
            raise ValueError(
                f"column {self.by!r} says the group, and is the same in all of its rows: leave it "
                "out of the columns"
            )
        if select is None:
            return None
        held = select if isinstance(select, Mapping) else dict.fromkeys(select)
        return {**held, self.by: self.factor}

    def to_dict(self) -> dict[str, Any]:
        """Give a plain form for JSON, from which `from_dict` makes an equal object."""
        return {"by": self.by, "groups": list(self.factor.levels), "unlisted": self.unlisted}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Groups:
        """Make groups from the form `to_dict` gives."""
        return cls.of(data["by"], data["groups"], data["unlisted"])
