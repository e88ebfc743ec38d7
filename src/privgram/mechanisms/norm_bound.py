"""A bound of the norms that a table chose: a number, and what the choice cost.

Public side. The choice itself, which reads the table, is in `privgram.disclosure.norm_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privgram import privacy
from privgram.privacy.guarantee import Price

if TYPE_CHECKING:
    from privgram.privacy import Adjacency


@dataclass(frozen=True)
class ChosenBound:
    """A privately chosen bound: public, and paid for."""

    bound: float
    quantile: float  # part of the rows, or units, that were to be no longer
    lower: float  # ends of the public grid
    upper: float
    price: Price
    reproducible: bool


def choice_price(epsilon: float, adjacency: Adjacency, unit: str, quantile: float) -> Price:
    """What a ledger takes of a choice of a bound: pure differential privacy at epsilon."""
    profile = privacy.BoundedRangeProfile(epsilon, adjacency)
    what = f"PrivateBound(quantile={quantile:g})"
    return Price(epsilon, 0.0, adjacency, unit, profile, what=what)
