"""What fits of a table have in common: their guarantee, and how files have them."""

from __future__ import annotations

import math
import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from privgram._base.numbers import Vector, check_adjacency, check_positive, check_within
from privgram.privacy import Adjacency, GaussianProfile, Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.saved import ArchiveFormat, JsonObject

#: Powers of what a file holds must stay a float64.
MOST_POWER = 1e30


class SavedFit:
    """A dataclass that is written whole: the arrays that its format names, and all else as JSON."""

    _format: ClassVar[ArchiveFormat]

    n_rows: float
    refusal: str | None
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    reproducible: bool

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to `.json` or `.npz`, whole or not at all; `privgram.load` reads it back.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        header, path = self._header(), Path(path)
        if path.suffix == ".json" and (derived := self._derived()):
            header["derived"] = derived
        self._format.save(path, header, self._arrays())

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        return {x: getattr(self, x) for x in self._format.arrays if getattr(self, x) is not None}

    def _header(self) -> JsonObject:
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return {x: _plain(getattr(self, x)) for x in names if x not in self._format.arrays}

    def _derived(self) -> JsonObject:
        """What follows from the rest and JSON has all the same, for readers in other languages."""
        return {}

    @classmethod
    def _read(cls, path: Path) -> Self:
        """A fit that `save` wrote; what it raises is said by `privgram.load`."""
        header, arrays = cls._format.read(path)
        with cls._format.understood(path):
            derived = header.pop("derived", None)
            header["privacy"] = Profile.from_dict(header["privacy"])
            loaded = cls(**cls._parts(header), **arrays)
            loaded._check_shared()
            loaded._check()
            if derived is not None and not _alike(derived, loaded._derived()):
                raise ValueError("what is derived does not follow from the rest")
        return loaded

    @classmethod
    def _parts(cls, header: JsonObject) -> JsonObject:
        """What a header's plain values stand for."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise unless the parts of a fit are sound and fit together."""
        raise NotImplementedError

    def _check_shared(self) -> None:
        """Raise unless what all fits have is sound."""
        check_positive(self.n_rows, "n_rows")
        if type(self.reproducible) is not bool:
            raise ValueError("reproducible is true or false")
        if not (self.refusal is None or isinstance(self.refusal, str)):
            raise ValueError("a refusal is a sentence")
        self._check_guarantee()

    def _check_guarantee(self) -> None:
        """Raise unless the guarantee is one of Gaussian noise, as that of scores is."""
        check_positive(self.epsilon, "epsilon")
        check_within(self.delta, "delta", 0, 1)
        check_adjacency(self.adjacency)
        profile = self.privacy
        if not isinstance(profile, GaussianProfile) or profile.adjacency != self.adjacency:
            raise ValueError("the privacy profile is Gaussian, for the adjacency of the fit")
        if not math.isclose(profile.delta(self.epsilon), self.delta, rel_tol=0.01):
            raise ValueError("the privacy profile has another delta at epsilon than the fit")


def check_sizes(**arrays: Vector) -> None:
    """Raise unless all numbers are finite, with room for powers of them."""
    for name, array in arrays.items():
        if not (np.abs(array) <= MOST_POWER).all():  # also if it is NaN
            raise ValueError(f"{name} must be finite, {MOST_POWER:g} at most")


def _alike(saved: JsonObject, derived: JsonObject) -> bool:
    """Tell whether two records say the same; rounding of another machine aside."""

    def same(one: Any, other: Any) -> bool:
        if isinstance(other, list):
            return len(one) == len(other) and all(map(same, one, other))
        if isinstance(other, float):
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
        return bool(one == other)

    return saved.keys() == derived.keys() and all(same(saved[x], derived[x]) for x in derived)


def _plain(value: Any) -> Any:
    """A part of a fit as JSON has it; what is not known is None."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
