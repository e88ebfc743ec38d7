"""A profile as a privacy loss distribution of dp_accounting.

References
----------
.. [1] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi, "Connect the
   Dots: Tighter Discrete Approximations of Privacy Loss Distributions", PETS 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from privgram._base.checks import check_positive
from privgram._base.optional import extra

from ._numerics import Array
from .dots import connect_the_dots


class Losing(Protocol):
    """What is asked of a profile: its curves, and how many points of them are worth the time."""

    @property
    def _dots(self) -> int: ...
    def _curve(self, epsilon: Array) -> Array: ...
    def _directions(self) -> tuple[Callable[[Array], Array], ...]: ...


def pld_from_profile(
    profile: Losing,
    discretization: float = 1e-4,
    dots: int | None = None,
    symmetric: bool = False,
) -> Any:
    r"""Return a profile's pessimistic privacy loss distribution of dp_accounting.

    delta as a function of :math:`e^\epsilon` is convex, so joining its values on a grid
    of epsilons by straight lines gives an upper bound, and a piecewise linear delta
    belongs to a privacy loss that takes only the grid's values [1]_. Both directions of
    the neighbouring relation go in, as dp_accounting's "remove" (the table with the row
    against the one without) and "add"; if `symmetric` the worse for both, as where it is not known
    which table has the row. Distributions compose only with others of the same step.

    About `dots` deltas are evaluated in each direction; fewer are faster and more pessimistic.
    Where the loss is spread over more than 4096 steps, only every second, third, ... point of the
    grid is used (and from 512 on for the adaptive sketch, of which a delta takes milliseconds). The
    relative excess in delta is about (49 / 4096)^2 / 8 far out in the tails, and more where losses
    are in the hundreds.
    """
    PrivacyLossDistribution = _distributions()
    discretization = check_positive(discretization, "discretization")
    directions = (profile._curve,) if symmetric else profile._directions()
    # One curve serves both orders of the pair.
    forward, backward = (directions * 2)[:2]
    dots = min(dots or profile._dots, profile._dots)
    pmf, infinity = connect_the_dots(forward, backward, discretization, dots)
    if len(directions) == 1:
        return PrivacyLossDistribution.create_from_rounded_probability(
            pmf, infinity, discretization
        )
    pmf_add, infinity_add = connect_the_dots(backward, forward, discretization, dots)
    return PrivacyLossDistribution.create_from_rounded_probability(
        pmf,
        infinity,
        discretization,
        rounded_probability_mass_function_add=pmf_add,
        infinity_mass_add=infinity_add,
        symmetric=False,
    )


def _distributions() -> Any:
    with extra("accounting", "privacy loss distributions need"):
        from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    return PrivacyLossDistribution
