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

from typing import TYPE_CHECKING, Any

from privgram._base.installed import extra

with extra("accounting", "privgram.interop.dp_accounting needs"):
    import attr
    from dp_accounting import NeighboringRelation, dp_event
    from dp_accounting.pld import PLDAccountant

from privgram._base.numbers import check_adjacency
from privgram.privacy.profiles import CoupledProfile, Profile, chance_off, pld_from_profile

if TYPE_CHECKING:
    from privgram.releases.record import ReleaseRecord

__all__ = ["ReleaseAccountant", "ReleaseDpEvent", "pld_from_profile"]


_RELATIONS = {
    "replace": (NeighboringRelation.REPLACE_ONE,),
    # Emptying a row is what removing it does to a second moment.
    "add-remove": (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL),
}


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
            pld = (
                pld_from_profile(profile, step, symmetric=True) if symmetric else profile.pld(step)
            )
            if count > 1:
                pld = pld.self_compose(count)
            self._pld: Any = self._pld.compose(pld)
            if event.condition is not None and event.condition not in self.conditions:
                self.conditions += (event.condition,)
        return None
