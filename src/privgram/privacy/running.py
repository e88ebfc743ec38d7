"""Losses of a list of releases that grows, composed once and kept.

What is kept is of certain profiles in a certain order, and is used for a list that begins with
just those. On a disk it carries the digest of these profiles, of the grid and of this version of
privgram, and a checksum of its own: what does not fit is composed again from the profiles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._profile import Profile
from .composition import composed_losses
from .losses import Losses, _Order, losses_of, none

_Composed = tuple[tuple[Profile, ...], Losses]

#: What is in a file; raised whenever losses are composed in another way.
_FORMAT = "privgram-losses 1"

#: So many more profiles are worth another file, and fewer are composed in no time.
_WORTH = 8


class RunningLosses:
    """Composed losses of the profiles seen last, to go on from: of `step` and `top`, see `Losses`.

    `dots` deltas are evaluated for the losses of one profile. `load` gives what `dump` gave, or
    None.
    """

    def __init__(
        self, step: float, top: float, dots: int, load: Callable[[], bytes | None]
    ) -> None:
        self._grid = step, top, dots
        self._load = load
        self.nothing = none(step, top)
        # All but the last profile, which may have been a question only; and all.
        self._nothing: _Composed = (), self.nothing
        self._before: _Composed = self._nothing
        self._all: _Composed = self._nothing
        self._kept = 0

    def one(self, profile: Profile) -> Losses:
        """Losses of a single profile."""
        return losses_of(profile, *self._grid)

    def of(self, profiles: tuple[Profile, ...]) -> Losses:
        """Losses of all profiles together."""
        candidates = self._all, self._before, self._nothing
        known = [x for x in candidates if profiles[: len(x[0])] == x[0]]
        if len(profiles) - len(known[0][0]) > _WORTH:
            known += [self._restored(profiles)]
        base, losses = max(known, key=lambda x: len(x[0]))
        more = profiles[len(base) :]
        if not more:
            return losses
        if more[:-1]:
            losses = losses.compose(composed_losses(more[:-1], *self._grid))
        self._before = profiles[:-1], losses
        losses = losses.compose(self.one(profiles[-1]))
        self._all = profiles, losses
        return losses

    def dump(self) -> bytes | None:
        """What is composed so far, if that is worth a file."""
        profiles, losses = self._all
        if len(profiles) - self._kept < _WORTH:
            return None
        self._kept = len(profiles)
        body = b"".join(np.ascontiguousarray(x.masses, "<f8").tobytes() for x in losses.orders)
        header = {
            "format": _FORMAT,
            "profiles": len(profiles),
            "of": self._digest(profiles),
            "orders": [[x.low, x.masses.size, x.infinity] for x in losses.orders],
        }
        head = json.dumps(header).encode() + b"\n"
        return hashlib.sha256(head + body).hexdigest().encode() + b"\n" + head + body

    def _restored(self, profiles: tuple[Profile, ...]) -> _Composed:
        nothing = self._nothing
        data = self._load()
        if data is None:
            return nothing
        checksum, _, rest = data.partition(b"\n")
        if hashlib.sha256(rest).hexdigest().encode() != checksum:
            return nothing
        head, _, body = rest.partition(b"\n")
        try:
            header: dict[str, Any] = json.loads(head)
            count = header["profiles"]
            if header["format"] != _FORMAT or header["of"] != self._digest(profiles[:count]):
                return nothing
            orders = []
            for low, size, infinity in header["orders"]:
                masses = np.frombuffer(body[: 8 * size], "<f8").astype(np.float64)
                body = body[8 * size :]
                if masses.size != size or size < 1 or not (masses >= 0.0).all():
                    return nothing
                orders.append(_Order(int(low), masses, float(infinity)))
        except (ValueError, TypeError, KeyError):
            return nothing
        # A loss distribution has a mass of 1 at least, being rounded up.
        whole = all(float(np.sum(x.masses)) + x.infinity > 1.0 - 1e-9 for x in orders)
        if body or len(orders) not in (1, 2) or not whole or count > len(profiles):
            return nothing
        self._kept = count
        step, top, _ = self._grid
        return profiles[:count], Losses(step, top, tuple(orders))

    def _digest(self, profiles: Sequence[Profile]) -> str:
        from privgram._base.version import __version__

        digest = hashlib.sha256(json.dumps([__version__, *self._grid]).encode())
        for profile in profiles:
            digest.update(json.dumps(profile.to_dict(), default=float).encode())
        return digest.hexdigest()
