"""What all mechanisms share: calibration records, the way to a release, and their names."""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from privgram import privacy
from privgram._base.numbers import (
    Adjacency,
    check_integer,
    check_number,
    check_positive,
    set_fields,
)
from privgram._base.saved import JsonObject, Registry
from privgram.privacy.guarantee import Guarantee, Price

if TYPE_CHECKING:
    from privgram.columns.unit import UnitNorm
    from privgram.noise import NoiseLaw
    from privgram.privacy import Profile, ProofStatus

    OfUnits: TypeAlias = frozenset[tuple[UnitNorm, Adjacency]]

#: Standard deviation of noise beyond which squares of a release leave float64.
MOST_NOISE = 1e140


@dataclass(frozen=True)
class Request(Guarantee):
    """A guarantee over tables of a public shape: rows where their number is public."""

    n_columns: int
    bound: float
    n_rows: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(
            self,
            n_columns=check_integer(self.n_columns, "n_columns", 1),
            bound=check_positive(self.bound, "bound"),
            n_rows=None if self.n_rows is None else check_integer(self.n_rows, "n_rows", 0),
        )


@dataclass(frozen=True)
class Calibration(Request):
    """Noise parameters for one guarantee; each mechanism adds its own.

    Attributes
    ----------
    privacy : Profile
        The exact profile at these parameters.
    noise_std : float
        Standard deviation of the noise in an off-diagonal entry, in the units of
        the second moment.  Where it depends on that: of a second moment of zero, the
        least it can be.
    bias : float
        Multiple of the identity that the released matrix carries in expectation.
    """

    privacy: Profile
    noise_std: float
    bias: float

    @property
    def proof_status(self) -> ProofStatus:
        """How well the profile is founded, see `Profile.proof_status`."""
        return self.privacy.proof_status

    @property
    def law(self) -> NoiseLaw:
        """The law of a release with this noise, before any repair, debiasing or adjustment."""
        raise NotImplementedError

    @cached_property
    def price(self) -> Price:
        """What a ledger takes of a release with this noise."""
        delta_fp = privacy.profiles.delta_fp_of(self)
        budget = self.epsilon, true_delta(self), self.adjacency, self.whose
        return Price(*budget, self.privacy, delta_fp)

    @property
    def parameters(self) -> JsonObject:
        """Those of the mechanism alone, as a release records them."""
        shared = {field.name for field in fields(Calibration)}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in shared}


@dataclass(frozen=True)
class Mechanism(Registry, ABC, key="name", what="mechanism"):
    """A way to release a second moment under differential privacy."""

    #: Whether it has a guarantee at delta = 0.
    pure: ClassVar[bool] = False

    #: For which norm of a unit's matrix, and which neighbours, the guarantee is proved where a unit
    #: has many rows: docs/theory/units.md.
    of_units: ClassVar[OfUnits] = frozenset()

    #: Whether it has a proof for the groups of a table where a row may change its group:
    #: docs/theory/composition.md.
    of_groups: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # Python's own numbers and truth values: a release that cannot be saved is budget lost.
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, (bool, np.bool_)):
                    raise TypeError(f"{field.name} must be True or False, not {value!r}")
                set_fields(self, **{field.name: bool(value)})
            elif not (
                value is None or isinstance(field.default, str) or field.type == "str | None"
            ):
                number: float = check_number(value, field.name)
                with suppress(TypeError):
                    number = operator.index(value)
                set_fields(self, **{field.name: number})

    @property
    def scale_free(self) -> bool:
        """Whether all lengths in it are in proportion to the bound of a row.

        Then the profile at a given guarantee is the same for every bound, and composes with that
        of a choice of the bound; else only its stated epsilon and delta do.
        """
        return True

    def calibrate(
        self,
        n_columns: int,
        bound: float,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace",
        n_rows: int | None = None,
    ) -> Any:
        """Noise parameters that give (epsilon, delta)-differential privacy.

        Parameters
        ----------
        n_columns : int
            Number of columns d.
        bound : float
            L2 bound B of one row.
        epsilon : float
            Privacy parameter, > 0.
        delta : float
            Privacy parameter, in (0, 1), or 0 with `MatrixLaplace`.
        adjacency : {"replace", "add-remove"}
            Which tables are neighbours: one row replaced (n is public), or one
            row added or removed (n is private).
        n_rows : int, optional
            Number of rows n, for the mechanisms whose noise depends on it.

        Returns
        -------
        Calibration
            A frozen record of the noise parameters.

        Raises
        ------
        ValueError
            If a parameter is out of its range or the guarantee cannot be met.
        """
        return self.noise_for(Guarantee(epsilon, delta, adjacency, None), n_columns, bound, n_rows)

    def noise_for(
        self, guarantee: Guarantee, n_columns: int, bound: float, n_rows: int | None = None
    ) -> Any:
        """Noise parameters that give a guarantee, as `calibrate`."""
        request = Request(**vars(guarantee), n_columns=n_columns, bound=bound, n_rows=n_rows)
        return _calibrate(self, request)

    def check_unit(self, guarantee: Guarantee) -> None:
        """Raise ValueError unless the guarantee is proved for its units of many rows."""
        unit, adjacency = guarantee.unit, guarantee.adjacency
        if unit is None or (unit.clip, adjacency) in self.of_units:
            return
        name = type(self).__name__
        if ("trace", adjacency) in self.of_units:
            raise ValueError(
                f"{name} needs the sum of a unit's squared row norms bounded: take clip='trace', "
                "or AnalyzeGauss()"
            )
        if self.of_units:
            raise ValueError(
                f"{name} is proved for units only where they are added or removed: take "
                "adjacency='add-remove' and clip='trace', or AnalyzeGauss()"
            )
        raise ValueError(f"{name} is proved for single rows, not for units: take AnalyzeGauss()")

    @property
    def condition(self) -> str | None:
        """A promise about the data on which the guarantee depends and which nothing enforces."""
        return None

    def caveat(self, release: Any) -> str | None:
        """What is wrong with the noise of a release of its own; None where it is calibrated."""
        return None

    def reached(self, noise: Calibration) -> float:
        """The delta of a release: what was asked for, where the noise is calibrated to it."""
        return noise.delta

    @abstractmethod
    def _calibrated(self, request: Request) -> Calibration:
        """Noise by the exact profile."""


@lru_cache(maxsize=1024)
def _calibrate(mechanism: Mechanism, request: Request) -> Calibration:
    # A pure function of public numbers that takes milliseconds: worth remembering.
    if request.delta == 0 and not mechanism.pure:
        raise ValueError(
            f"delta must be above 0 for {type(mechanism).__name__}; MatrixLaplace() is private at 0"
        )
    try:
        noise = mechanism._calibrated(request)
    except ArithmeticError:
        raise ValueError(
            f"epsilon={request.epsilon:g} with delta={request.delta:g} is beyond what floating "
            f"point can calibrate {type(mechanism).__name__} for; an epsilon of a few is the most "
            "that protects anyone"
        ) from None
    if not noise.noise_std <= MOST_NOISE:
        raise ValueError(
            f"epsilon={request.epsilon:g} is so small that squares of the noise leave float64: "
            "nothing would be left of the table. About 1 is common"
        )
    return noise


def true_delta(noise: Calibration) -> float:
    """The delta of a release at its epsilon: more than was asked under a published erratum."""
    reached = noise.privacy.delta(noise.epsilon) + privacy.profiles.delta_fp_of(noise)
    return max(noise.delta, reached)


def release_price(mechanism: Mechanism, noise: Calibration, chosen_bound: bool) -> Price:
    """What a ledger takes of a release, whose bound may have been chosen by the table.

    Without a profile where that would depend on the bound that is chosen.
    """
    price = replace(noise.price, condition=mechanism.condition)
    if chosen_bound and not mechanism.scale_free:
        return replace(price, privacy=None, delta_fp=0.0)
    return price


def sensitivity(bound: float, n_columns: int, adjacency: Adjacency) -> float:
    """Frobenius sensitivity of the second moment, attained.

    B^2 for adding or removing a row; for replacing one sqrt(2) B^2, by two orthogonal rows, which a
    single column does not have room for: the first theorem of docs/theory/analyze-gauss.md.
    """
    if adjacency == "replace" and n_columns > 1:
        return math.sqrt(2.0) * bound**2
    return bound**2


def hyphenated(name: str) -> str:
    """The name of a class as words are joined on a command line."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


#: The classes and their names on the command line, in the order of use.
NAMES = {name: hyphenated(name) for name in ("AnalyzeGauss", "MatrixLaplace", "AdaptiveGaussian")}

#: A mechanism from what `Mechanism.to_dict` gave.
from_dict = Mechanism.from_dict


def class_name(name: str) -> str:
    """The class's name for any name of a mechanism.

    That is itself, or with hyphens between the words; capitals do not matter.
    """
    bare = name.replace("-", "").replace("_", "").lower()
    names = {kind.lower(): kind for kind in NAMES}
    if bare not in names:
        names |= {kind.lower(): kind for kind in Mechanism.all_kinds()}
    if bare not in names:
        there_are = ", ".join(NAMES.values())
        raise ValueError(f"there is no mechanism {name!r}; there are {there_are}")
    return names[bare]


def by_name(name: str) -> Mechanism:
    """Make a mechanism by any of its names; ValueError if there is none or it has to be told."""
    kind = class_name(name)
    for field in fields(Mechanism.kinds[kind]):
        if field.default is MISSING:
            raise ValueError(f"{hyphenated(kind)} needs a parameter: {kind}({field.name}=...)")
    mechanism: Mechanism = Mechanism.kinds[kind]()
    return mechanism


def check_mechanism(mechanism: object) -> Mechanism:
    """Give a mechanism, or raise a TypeError, which says what to do about a class."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        name = mechanism.__name__
        required = [field.name for field in fields(mechanism) if field.default is MISSING]
        needs = ", ".join(f"{need}=..." for need in required)
        raise TypeError(
            f"mechanism must be a Mechanism, and {name} is a class: add (), as in {name}({needs})"
        )
    raise TypeError(
        f"mechanism must be a Mechanism such as AnalyzeGauss(), not {type(mechanism).__name__}"
    )


def named(mechanism: object) -> Mechanism | None:
    """A mechanism as it was given: itself, any of its names, or None.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If there is no mechanism of that name, or it lacks a parameter.
    """
    if isinstance(mechanism, str):
        return by_name(mechanism)
    return None if mechanism is None else check_mechanism(mechanism)
