"""privgram's profiles inside Google's dp_accounting.

`pld_from_profile` turns a profile, such as ``release.charged``, into a pessimistic
``dp_accounting.pld.PrivacyLossDistribution``, which composes with those of any other mechanism
that library knows: docs/guide/budget.md has an example.

What is pessimistic and what is not. The distribution of one release dominates the exact
one at every epsilon, up to one unit in the ninth digit of delta that is added on top.
Composition is dp_accounting's: its fast Fourier transforms have a floor of about 1e-15,
so composed deltas below 1e-12 mean nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

from privgram._base.installed import extra

with extra("accounting", "privgram.interop.dp_accounting needs"):
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from privgram._base.numbers import check_positive
from privgram.privacy._numerics import connect_the_dots
from privgram.privacy.profiles import ComposedProfile, Profile

__all__ = ["pld_from_profile"]


def pld_from_profile(
    profile: Profile, discretization: float = 1e-4, symmetric: bool = False
) -> Any:
    """Return a profile's pessimistic privacy loss distribution of dp_accounting.

    Both directions of the neighbouring relation go in, as dp_accounting's "remove" (the table with
    the row against the one without) and "add". Under "replace" take `symmetric`, by which the worse
    stands for both: a row may go up in one release and down in another. Of a composed profile the
    parts are composed.

    Parameters
    ----------
    profile : Profile
    discretization : float
        Step of the grid of privacy losses, positive.
    symmetric : bool

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        Dominates the mechanism: deltas read from it, or from its compositions, are never below the
        truth.

    Notes
    -----
    At most 4096 deltas are evaluated in each direction, or as many as the profile says is worth the
    time. Where the loss is spread over more steps than that, only every second, third, ... point of
    the grid is used. The relative excess in delta is about (49 / dots)^2 / 8 far out in the tails,
    and more where losses are in the hundreds.
    """
    step = check_positive(discretization, "discretization")
    if isinstance(profile, ComposedProfile) and not symmetric:
        parts = (
            pld_from_profile(part, step).self_compose(count)
            for part, count in Counter(profile.profiles).items()
        )
        return reduce(lambda x, y: x.compose(y), parts)
    directions = (profile._curve,) if symmetric else profile._directions()
    forward, backward = (directions * 2)[:2]  # one curve serves both orders of the pair
    distribution = PrivacyLossDistribution.create_from_rounded_probability
    masses = connect_the_dots(forward, backward, step, profile._dots)
    if len(directions) == 1:
        return distribution(*masses, step)
    add, infinity_add = connect_the_dots(backward, forward, step, profile._dots)
    return distribution(
        *masses,
        step,
        rounded_probability_mass_function_add=add,
        infinity_mass_add=infinity_add,
        symmetric=False,
    )
