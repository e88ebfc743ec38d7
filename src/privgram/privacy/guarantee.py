"""What is guaranteed to whom, and what a ledger takes for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privgram._base.numbers import Adjacency, check_adjacency, check_budget, set_fields

if TYPE_CHECKING:
    from privgram.columns.unit import PrivacyUnit
    from privgram.privacy.profiles import Profile


@dataclass(frozen=True)
class Price:
    """What a ledger takes of one thing that is published.

    Parameters
    ----------
    epsilon, delta, adjacency, unit, privacy, delta_fp, what, condition, id
        As of `Ledger.spend`, which checks them.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    privacy: Profile | None = None
    delta_fp: float = 0.0
    what: str = ""
    condition: str | None = None
    id: str = ""


@dataclass(frozen=True)
class Guarantee:
    """Differential privacy as it is asked for: how much, between which tables, and of whom.

    Epsilon is positive and finite, and delta in [0, 1). Neighbours have one row replaced, their
    number being public, or one more, and it is private. The unit is whose rows go together, None
    for single rows.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: PrivacyUnit | None

    def __post_init__(self) -> None:
        epsilon, delta = check_budget(self.epsilon, self.delta, zero="delta")
        set_fields(self, epsilon=epsilon, delta=delta)
        check_adjacency(self.adjacency)

    @classmethod
    def of(
        cls, epsilon: float | None, delta: float | None, adjacency: Adjacency, example: str
    ) -> Guarantee:
        """Return what a user asks for, who must give both numbers, as in `example`."""
        if epsilon is None or delta is None:
            missing = "epsilon" if epsilon is None else "delta"
            raise TypeError(f"{missing} must be a number, not missing: {example}")
        return cls(epsilon, delta, adjacency, None)

    @property
    def whose(self) -> str:
        """The unit as a ledger has it: a column's name, or "" for single rows."""
        return "" if self.unit is None else self.unit.name

    @property
    def size_is_public(self) -> bool:
        """Whether neighbouring tables have the same number of rows, or of units."""
        return self.adjacency == "replace" and (self.unit is None or self.unit.missing == "error")
