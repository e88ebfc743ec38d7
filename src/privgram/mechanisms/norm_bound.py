"""A bound of the row norms that was chosen at a cost: a number that knows its price.

Public side. The choice itself, which reads the table, is in `privgram.disclosure.norm_bound`.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from privgram import privacy
from privgram._base.numbers import check_adjacency, check_positive
from privgram._base.saved import JsonObject
from privgram.privacy.guarantee import Price

if TYPE_CHECKING:
    from privgram.privacy import Adjacency, BoundedRangeProfile, ProofStatus
    from privgram.privacy.guarantee import Guarantee


class NormBound(float):
    """A privately chosen bound of the row norms: a number, with what it cost.

    Pass it on as the `bound` of `second_moment`. It is public; it is not free: the second moment
    carries it, and a release states the two costs together.

    A number computed from it, such as ``2 * bound``, is a plain float that has forgotten the
    cost. So is ``float(bound)``, which is right where the bound was chosen by another table,
    of other people.

    Attributes
    ----------
    epsilon : float
        Privacy parameter of the choice: pure, delta = 0.
    adjacency : {"replace", "add-remove"}
    quantile : float
        Part of the rows that were to be no longer than the bound.
    lower, upper : float
        Ends of the public grid.
    bins_per_octave : int
        Points of the grid between a bound and twice the bound.
    reproducible : bool
        True if the randomness came from a generator the caller seeded: then the choice is
        not private against anyone who knows the seed.
    id : str
        Random, and different for every choice: by it a ledger charges each choice once.
    unit : str or None
        Of whose rows together it bounds the norm, and is private; None for single rows.
    """

    epsilon: float
    adjacency: Adjacency
    quantile: float
    lower: float
    upper: float
    bins_per_octave: int
    reproducible: bool
    id: str
    unit: str | None

    def __new__(cls, bound: float, **fields: Any) -> Self:  # noqa: D102
        self = super().__new__(cls, bound)
        self.__dict__.update({"id": new_id(), "unit": None} | fields)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a NormBound cannot be changed: {name}")

    def __getnewargs_ex__(self) -> tuple[tuple[float], JsonObject]:
        return (float(self),), self.__dict__

    def __repr__(self) -> str:
        whose = "row" if self.unit is None else "unit"
        text = (
            f"<NormBound {float(self):.6g}: {self.quantile:g} quantile of the {whose} norms,"
            f" epsilon={self.epsilon:g}, {self.adjacency}, {self.proof_status}"
        )
        if self.reproducible:
            text += "; REPRODUCIBLE: not private against anyone who knows the seed"
        return text + ">"

    @property
    def privacy(self) -> BoundedRangeProfile:
        """The exact privacy profile of the choice, for `privacy.compose`."""
        return privacy.BoundedRangeProfile(self.epsilon, self.adjacency)

    @property
    def proof_status(self) -> ProofStatus:
        """How well the profile is founded, see `privgram.privacy.Profile.proof_status`."""
        return self.privacy.proof_status

    def to_dict(self) -> JsonObject:
        """The number and the attributes, as plain values."""
        return {"bound": float(self), **self.__dict__}

    @classmethod
    def from_dict(cls, values: JsonObject) -> NormBound:
        """A bound from what `to_dict` gave.

        Raises
        ------
        ValueError
            If the values are not those of a bound.
        """
        try:
            fields = dict(values)
            bound = cls(check_positive(fields.pop("bound"), "bound"), **fields)
            check_adjacency(bound.adjacency)
            privacy.BoundedRangeProfile(bound.epsilon)
            whole = fields.keys() == cls.__annotations__.keys() and isinstance(bound.id, str)
        except (AttributeError, KeyError, TypeError, ValueError):
            whole = False
        if not whole:
            raise ValueError("these values are not those of a NormBound")
        return bound

    def check(self, guarantee: Guarantee) -> None:
        """Raise ValueError unless the choice has the unit and the adjacency of `guarantee`."""
        adjacency, unit = guarantee.adjacency, guarantee.whose
        if unit != (self.unit or ""):
            of, by = (f"units by {x!r}" if x else "single rows" for x in (unit, self.unit))
            raise ValueError(
                f"the release is private for {of} and its bound was chosen for {by}: choose both "
                "for one unit"
            )
        if adjacency != self.adjacency:
            raise ValueError(
                f"the release is private under {adjacency!r} and its bound was chosen under "
                f"{self.adjacency!r}: choose both under one notion of neighbours"
            )
        check_positive(guarantee.epsilon + self.epsilon, "epsilon, in all,")

    @property
    def price(self) -> Price:
        """What a ledger takes of the choice, once."""
        return choice_price(self.epsilon, self.adjacency, self.unit, self.quantile, self.id)


def new_id() -> str:
    """A name for one choice, that no other has."""
    return secrets.token_hex(16)


def choice_price(
    epsilon: float, adjacency: Adjacency, unit: str | None, quantile: float, id: str = ""
) -> Price:
    """What a ledger takes of a choice of a bound, which was made already or is about to be."""
    return Price(
        epsilon,
        0.0,
        adjacency,
        unit or "",
        privacy.BoundedRangeProfile(epsilon, adjacency),
        what=f"private_norm_bound(quantile={quantile:g})",
        id=id,
    )


def together(price: Price, choice: Price) -> Price:
    """The price of a release and of the choice of its bound."""
    profile = price.privacy
    if profile is None:
        profile = privacy.StatedProfile(price.epsilon, price.delta, price.adjacency)
    epsilon = price.epsilon + choice.epsilon
    if price.delta or choice.delta:
        whole = privacy.compose([choice.privacy, profile])
    else:  # pure losses add up, and grids of losses have a delta that is not 0
        whole = privacy.StatedProfile(epsilon, 0.0, price.adjacency)
    return replace(price, epsilon=epsilon, privacy=whole)
