r"""privgram's profiles inside Google's dp_accounting.

`pld_from_profile` turns a profile into a pessimistic
``dp_accounting.pld.PrivacyLossDistribution``; `ReleaseDpEvent` and `ReleaseAccountant`
let a release be composed with any other event that library knows: docs/guide/budget.md has an
example.

What is pessimistic and what is not. The distribution of one release dominates the exact
one at every epsilon, up to one unit in the ninth digit of delta that is added on top.
Composition is dp_accounting's: its fast Fourier transforms have a floor of about 1e-15,
so composed deltas below 1e-12 mean nothing.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Any

from privgram._base.installed import extra

with extra("accounting", "privgram.interop.dp_accounting needs"):
    import attr
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from privgram._base.numbers import check_adjacency, check_positive
from privgram.privacy._numerics import connect_the_dots
from privgram.privacy.profiles import ComposedProfile, CoupledProfile, Profile, chance_off

if TYPE_CHECKING:
    from privgram.releases.record import ReleaseRecord

__all__ = ["ReleaseAccountant", "ReleaseDpEvent", "pld_from_profile"]


_RELATIONS = {
    "replace": (NeighboringRelation.REPLACE_ONE,),
    # Emptying a row is what removing it does to a second moment.
    "add-remove": (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL),
}


def pld_from_profile(
    profile: Profile, discretization: float = 1e-4, symmetric: bool = False
) -> Any:
    """Return a profile's pessimistic privacy loss distribution of dp_accounting.

    Both directions of the neighbouring relation go in, as dp_accounting's "remove" (the table with
    the row against the one without) and "add"; with `symmetric` the worse stands for both, where it
    is not known which table has the row. Of a composed profile the parts are composed.

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


@attr.s(frozen=True, auto_attribs=True)
class ReleaseDpEvent(dp_event.DpEvent):  # type: ignore[misc]
    """One release, as an event of dp_accounting.

    Attributes
    ----------
    privacy : profile
        Privacy profile of the release, ``release.privacy``.
    adjacency : {"replace", "add-remove"}
        Neighbours the profile is for, ``release.adjacency``.
    chance : float
        Chance, at most, that the output is not the profile's mechanism's: what finite
        precision adds.
    condition : str or None
        A promise about the data on which the profile depends and which nothing enforces.
    """

    privacy: Profile
    adjacency: str = attr.ib(default="replace", validator=attr.validators.in_(_RELATIONS))
    chance: float = 0.0
    condition: str | None = None

    @classmethod
    def of(cls, release: ReleaseRecord) -> ReleaseDpEvent:
        """Return the event of a `privgram.Release`."""
        return cls(release.privacy, release.adjacency, chance_off(release), release.condition)


class ReleaseAccountant(PLDAccountant):  # type: ignore[misc]
    """dp_accounting's PLD accountant, which also knows `ReleaseDpEvent`.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        Notion of neighbours. An event of another notion is refused with dp_accounting's
        ``UnsupportedEventError``. Under ``REPLACE_SPECIAL`` a row is replaced by zeros,
        which is what "add-remove" measures on a second moment.
    value_discretization_interval : float
        Step of the grid of losses.

    Attributes
    ----------
    conditions : tuple of str
        The promises about the data on which what was composed depends, each once.

    Notes
    -----
    dp_accounting takes Laplace noise only under ``ADD_OR_REMOVE_ONE`` and
    ``REPLACE_SPECIAL``. Under ``REPLACE_ONE`` pass ``ReleaseDpEvent(LaplaceProfile(...))``
    with the sensitivity for replacing a row.
    """

    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, adjacency: str, discretization: float = 1e-4) -> ReleaseAccountant:
        """Return an accountant for privgram's name of the neighbouring relation."""
        return cls(_RELATIONS[check_adjacency(adjacency)][0], discretization)

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if not isinstance(event, ReleaseDpEvent):
            return super()._maybe_compose(event, count, do_compose)
        if self.neighboring_relation not in _RELATIONS[event.adjacency]:
            return self.CompositionErrorDetails(
                invalid_event=event,
                error_message=(
                    f"the release is private for neighbours by {event.adjacency!r}, "
                    f"the accountant counts {self.neighboring_relation}"
                ),
            )
        if do_compose:
            profile: Profile = event.privacy
            if event.chance:
                profile = CoupledProfile(profile, event.chance)
            step = self._value_discretization_interval
            # Replaced, a row may go up in one release and down in another.
            symmetric = event.adjacency == "replace" and len(profile._directions()) > 1
            pld = pld_from_profile(profile, step, symmetric)
            if count > 1:
                pld = pld.self_compose(count)
            self._pld: Any = self._pld.compose(pld)
            if event.condition is not None and event.condition not in self.conditions:
                self.conditions += (event.condition,)
        return None
