"""What all mechanisms share: calibration records and the way to a release."""

from __future__ import annotations

import math
import operator
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privgram._base.checks import (
    CalibrationKind,
    check_budget,
    check_calibration,
    check_integer,
    check_number,
    check_positive,
)
from privgram._release import Release
from privgram.drawing import random
from privgram.exact import limbs as _fixed_point
from privgram.ledger import check_ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.ledger import Ledger
    from privgram.mechanisms.norm_bound import NormBound
    from privgram.moment import SecondMoment
    from privgram.noise import NoiseLaw
    from privgram.privacy import Adjacency, Guarantee, Profile


#: Above these there is a warning: e^20 is half a billion, and nobody's row should leak as often
#: as once in a hundred releases.
LARGE_EPSILON, LARGE_DELTA = 20.0, 1e-2


@dataclass(frozen=True)
class Request:
    """A guarantee asked for, over tables of a public shape.

    Attributes
    ----------
    n_columns : int
    bound : float
        L2 bound of one row.
    epsilon, delta : float
    adjacency : {"replace", "add-remove"}
    calibration : {"exact", "published"}
    n_rows : int or None
        Rows of the table, where they are public.
    """

    n_columns: int
    bound: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    calibration: CalibrationKind
    n_rows: int | None

    def __post_init__(self) -> None:
        from privgram.privacy._adjacency import check_adjacency

        epsilon, delta = check_budget(self.epsilon, self.delta)
        checked = {
            "n_columns": check_integer(self.n_columns, "n_columns", 1),
            "bound": check_positive(self.bound, "bound"),
            "epsilon": epsilon,
            "delta": delta,
            "n_rows": None if self.n_rows is None else check_integer(self.n_rows, "n_rows", 0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        check_adjacency(self.adjacency)
        check_calibration(self.calibration)


@dataclass(frozen=True)
class Calibration(Request):
    """Noise parameters for one guarantee; each mechanism adds its own.

    Attributes
    ----------
    privacy : Profile
        The exact profile at these parameters.
    noise_std : float
        Standard deviation of the noise in an off-diagonal entry, in the units of
        the second moment.  For multiplicative mechanisms: where the second
        moment is zero, the least it can be.
    bias : float
        Multiple of the identity that the released matrix carries in expectation.
    """

    privacy: Profile
    noise_std: float
    bias: float

    @property
    def guarantee(self) -> Guarantee:
        """How well the profile is founded, see `Profile.guarantee`."""
        return self.privacy.guarantee

    @property
    def law(self) -> NoiseLaw:
        """The law of a release with this noise, before any repair, debiasing or adjustment."""
        raise NotImplementedError

    def own(self) -> dict[str, Any]:
        """Parameters of the mechanism alone, as plain numbers."""
        shared = {field.name for field in fields(Calibration)}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in shared}


@dataclass(frozen=True)
class Mechanism(ABC):
    """A way to release a second moment under differential privacy."""

    kinds: ClassVar[dict[str, type[Mechanism]]] = {}

    def __init_subclass__(cls) -> None:
        Mechanism.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        # Python's own numbers and truth values: a release that cannot be saved is budget lost.
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, (bool, np.bool_)):
                    raise TypeError(f"{field.name} must be True or False, not {value!r}")
                object.__setattr__(self, field.name, bool(value))
            elif not (value is None or isinstance(field.default, str)):
                number: float = check_number(value, field.name)
                with suppress(TypeError):
                    number = operator.index(value)
                object.__setattr__(self, field.name, number)

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
        calibration: CalibrationKind = "exact",
        n_rows: int | None = None,
        *,
        allow_published_erratum: bool = False,
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
            Privacy parameter, in (0, 1).
        adjacency : {"replace", "add-remove"}
            Which tables are neighbours: one row replaced (n is public), or one
            row added or removed (n is private).
        calibration : {"exact", "published"}
            By the mechanism's exact privacy profile, or the paper's constants.
        n_rows : int, optional
            Number of rows n, for the mechanisms whose noise depends on it.
        allow_published_erratum : bool
            Use the paper's constants even where they are not private as
            printed, to reproduce its figures.

        Returns
        -------
        Calibration
            A frozen record of the noise parameters.

        Raises
        ------
        ValueError
            If a parameter is out of its range or the guarantee cannot be met.
        """
        request = Request(n_columns, bound, epsilon, delta, adjacency, calibration, n_rows)
        return _calibrate(self, request, allow_published_erratum)

    @property
    def condition(self) -> str | None:
        """A promise about the data on which the guarantee depends and which nothing enforces."""
        return None

    @abstractmethod
    def _exact(self, request: Request) -> Calibration:
        """Calibration by the exact profile."""

    @abstractmethod
    def _published(self, request: Request, allow_erratum: bool) -> Calibration:
        """Calibration by the paper's constants."""

    def _check_generator(self, rng: np.random.Generator | None) -> None:  # noqa: B027
        """Raise if noise cannot be drawn with this generator, before any budget is spent."""

    @abstractmethod
    def _draw(
        self, moment: SecondMoment, noise: Any, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NoiseLaw, dict[str, Any]]:
        """The released matrix, its law, and further fields of the release."""

    def release(
        self,
        moment: SecondMoment,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace",
        calibration: CalibrationKind = "exact",
        rng: np.random.Generator | None = None,
        *,
        allow_published_erratum: bool = False,
        ledger: Ledger | None = None,
    ) -> Release:
        """Release a second moment under (epsilon, delta)-differential privacy.

        Parameters
        ----------
        moment : SecondMoment
            The exact second moment. If `private_norm_bound` chose its bound, the release states
            what both cost: epsilons add up, and the profiles are composed.
        epsilon, delta, adjacency, calibration, allow_published_erratum
            As in `calibrate`.
        rng : numpy.random.Generator, optional
            For experiments only: the release is then marked `reproducible`.
            By default a cryptographic generator, keyed by the operating system.
        ledger : Ledger, optional
            Budget to enter the release in, durably, before its noise is drawn. The choice of
            the bound is entered too, unless it is in there already.

        Returns
        -------
        Release

        Warns
        -----
        UserWarning
            If epsilon is above 20, or delta above 0.01 or one in the public number of rows.

        Raises
        ------
        ValueError
            As in `calibrate`; if the bound was chosen under another notion of neighbours; and
            if the ledger has no room for the release or is damaged,
            when nothing is released.
        TypeError
            If the moment is no SecondMoment, the ledger no Ledger, or a number is none.
        OSError
            If the ledger cannot be written; nothing is released then.
        """
        check_moment(moment)
        check_ledger(ledger)
        chosen: NormBound | None = moment.norm_bound
        if chosen is not None:
            chosen.check(adjacency)
            check_positive(check_number(epsilon, "epsilon") + chosen.epsilon, "epsilon, in all,")
        self._check_generator(rng)
        generator, reproducible = random.resolve(rng)
        n_rows = moment.n_rows + moment.n_dropped if adjacency == "replace" else None
        noise = self.calibrate(
            moment.n_columns,
            # Quantised rows may exceed the bound by a few parts in a million.
            moment.sensitivity_bound,
            epsilon,
            delta,
            adjacency,
            calibration,
            n_rows,
            allow_published_erratum=allow_published_erratum,
        )
        if not reproducible:  # those are experiments, and are marked as not private
            warn_of_weak(noise.epsilon, noise.delta, n_rows)
        if ledger is not None:
            if chosen is not None:  # spent, whatever becomes of the release
                chosen.charge(ledger)
            known = chosen is None or self.scale_free
            ledger.spend(
                float(epsilon),
                true_delta(noise),
                adjacency=adjacency,
                privacy=noise.privacy if known else None,
                delta_fp=getattr(noise, "delta_fp", 0.0) if known else 0.0,
                what=str(self),
                condition=self.condition,
            )
        matrix, law, extra = self._draw(moment, noise, generator)
        names = moment.names or tuple(f"x{i}" for i in range(moment.n_columns))
        made = Release(
            matrix=matrix,
            names=tuple(names),
            mechanism=self,
            parameters=noise.own() | extra.pop("parameters", {}),
            noise=law,
            epsilon=float(epsilon),
            delta=float(delta if not allow_published_erratum else true_delta(noise)),
            adjacency=adjacency,
            calibration=calibration,
            privacy=noise.privacy,
            bound=float(moment.bound),
            n_rows=n_rows,
            columns=moment.columns,
            reproducible=reproducible,
            condition=self.condition,
            **extra,
        )
        return made if chosen is None else made.including(chosen)

    def to_dict(self) -> dict[str, Any]:
        """The mechanism's name and parameters, as plain values."""
        return {"name": type(self).__name__, **asdict(self)}


def check_mechanism(mechanism: Any) -> Mechanism:
    """Give a mechanism; TypeError if it is none, which says what to do about a class."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if isinstance(mechanism, type) and issubclass(mechanism, Mechanism):
        name = mechanism.__name__
        needs = [f.name for f in fields(mechanism) if f.default is MISSING]
        raise TypeError(
            f"mechanism must be a Mechanism, and {name} is a class: add (), as in "
            f"{name}({', '.join(f'{need}=...' for need in needs)})"
        )
    raise TypeError(
        f"mechanism must be a Mechanism such as AnalyzeGauss(), not {type(mechanism).__name__}"
    )


@lru_cache(maxsize=1024)
def _calibrate(mechanism: Mechanism, request: Request, allow_erratum: bool) -> Calibration:
    # A pure function of public numbers that takes milliseconds: worth remembering.
    try:
        if request.calibration == "exact":
            return mechanism._exact(request)
        return mechanism._published(request, allow_erratum)
    except ArithmeticError:
        raise ValueError(
            f"epsilon={request.epsilon:g} with delta={request.delta:g} is beyond what floating "
            f"point can calibrate {type(mechanism).__name__} for; an epsilon of a few is the most "
            "that protects anyone"
        ) from None


def from_dict(values: dict[str, Any]) -> Mechanism:
    """A mechanism from what `Mechanism.to_dict` gave."""
    values = dict(values)
    name = values.pop("name")
    if name not in Mechanism.kinds:
        raise ValueError(f"unknown mechanism {name!r}")
    return Mechanism.kinds[name](**values)


def warn_of_weak(epsilon: float, delta: float, n_rows: int | None) -> None:
    """Say what a guarantee means that protects hardly anyone; `n_rows` only if it is public."""
    if epsilon > LARGE_EPSILON:
        warnings.warn(
            f"epsilon={epsilon:g} protects hardly anyone: a release may be e^{epsilon:g} times as "
            "likely with somebody's row as with another. About 1 is common, and above 10 little "
            "is left",
            stacklevel=4,
        )
    if delta > LARGE_DELTA or (n_rows and delta > 1 / n_rows):
        warnings.warn(
            f"delta={delta:g} promises little: with that probability the guarantee may fail "
            "altogether, and from 1 / rows on it allows publishing somebody's row as it is. Take "
            "it far below",
            stacklevel=4,
        )


def check_moment(moment: Any) -> None:
    """Refuse what is no second moment."""
    # By what it has: its class is on the secret side, and calibration is not.
    if not hasattr(moment, "sensitivity_bound"):
        raise TypeError(
            "what is released is a SecondMoment, as second_moment(table, ...) makes it, not "
            f"{type(moment).__name__}"
        )


def true_delta(noise: Calibration) -> float:
    """The delta a release has at its epsilon: under a published erratum more than was asked."""
    return max(noise.delta, noise.privacy.delta(noise.epsilon))


def sensitivity(bound: float, n_columns: int, adjacency: Adjacency) -> float:
    """Frobenius sensitivity of the second moment, attained.

    B^2 for adding or removing a row; for replacing one sqrt(2) B^2, by two
    orthogonal rows, which a single column does not have room for.
    """
    if adjacency == "replace" and n_columns > 1:
        return math.sqrt(2.0) * bound**2
    return bound**2


def add_noise(
    moment: SecondMoment, noise: NDArray[np.float64], noise_std: float
) -> NDArray[np.float64]:
    """Second moment plus symmetric noise, on the public grid of the noise.

    Parameters
    ----------
    moment : SecondMoment
    noise : ndarray of shape (d, d), float64
        Noise in the units of the second moment.
    noise_std : float
        Its standard deviation off the diagonal, which sets the grid.
    """
    return add_integers(moment, _fixed_point.to_limbs(noise / moment.unit), noise_std)


def add_integers(
    moment: SecondMoment, noise: _fixed_point.Limbs, noise_std: float
) -> NDArray[np.float64]:
    """Second moment plus noise in integer multiples of its unit; see `add_noise`."""
    unit = moment.unit
    exponent = _fixed_point.grid_exponent(noise_std / unit)
    total = _fixed_point.add(moment.limbs(), noise)
    steps = _fixed_point.round_to_grid(total, exponent)
    released: NDArray[np.float64] = steps * (unit * 2.0**exponent)
    return released
