"""What is audited, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Adjacency

    Array = NDArray[np.float64]

__all__ = ["Case", "Estimate", "Pair", "Together"]


@dataclass(frozen=True)
class Together:
    """Mechanisms that release the same table, each with the epsilon and delta of the case.

    Attributes
    ----------
    mechanisms : tuple of Mechanism
        On second moments.
    """

    mechanisms: tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """A guarantee to audit.

    Attributes
    ----------
    mechanism : Mechanism, Step or Together
        A mechanism on second moments, a step of find-and-project, or several mechanisms.
    adjacency : {"replace", "add-remove", "row change"}
        Neighbours; those of a `Step` differ by a vector of norm 1 in one row.
    epsilon, delta : float
        What it is calibrated for; each of several by itself.
    at : tuple of float
        Epsilons to measure delta at. The measurement is sharp where delta is large.
    """

    mechanism: Any
    adjacency: Adjacency | Literal["row change"]
    epsilon: float = 1.0
    delta: float = 0.1
    at: tuple[float, ...] = (0.0, 0.5, 1.0)

    @property
    def name(self) -> str:
        """The mechanism, with those of its parameters that are not the default."""
        return " + ".join(_name(mechanism) for mechanism in self.mechanisms)

    @property
    def mechanisms(self) -> tuple[Any, ...]:
        """The one, or the several."""
        several = isinstance(self.mechanism, Together)
        return self.mechanism.mechanisms if several else (self.mechanism,)


def _name(mechanism: Any) -> str:
    changed = (
        f"{x.name}={value!r}"
        for x in fields(mechanism)
        if (value := getattr(mechanism, x.name)) != x.default
    )
    return f"{type(mechanism).__name__}({', '.join(changed)})"


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables.

    Attributes
    ----------
    names : tuple of str
        The row in which they differ, of the first and of the second, up to its length.
    first, second : ndarray of shape (n, d)
    """

    names: tuple[str, str]
    first: Array
    second: Array


@dataclass(frozen=True)
class Estimate:
    """A measured delta.

    Attributes
    ----------
    pair : str
        Which table is P's and which Q's, by the row in which they differ.
    epsilon : float
    claimed : float
        The profile's delta.
    measured : float
        P(L > epsilon) - e^epsilon Q(L > epsilon) in the sample.
    lower, upper : float
        Confidence limits of the delta measured.
    by_law : float
        E_P (1 - e^(epsilon - L))_+ in the sample. It varies less, but is an estimate of
        delta only if the releases have the law they state.
    by_law_error : float
        Its standard error.
    """

    pair: str
    epsilon: float
    claimed: float
    measured: float
    lower: float
    upper: float
    by_law: float
    by_law_error: float

    @property
    def violated(self) -> bool:
        """Whether more leaks than is claimed, at the confidence of the limits."""
        return self.lower > self.claimed
