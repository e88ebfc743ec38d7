"""Checks of what callers pass: each says in one error which parameter it is and its range."""

from __future__ import annotations

import math
import operator
from typing import Any, Literal

import numpy as np

__all__ = [
    "MAX_BOUND",
    "MIN_BOUND",
    "check_budget",
    "check_integer",
    "check_not_negative",
    "check_number",
    "check_positive",
    "check_within",
    "is_number",
]

#: Limits of a row's L2 bound.  Statistics multiply up to eight bounds, which must stay a float64.
MIN_BOUND, MAX_BOUND = 2.0**-100, 2.0**100


def check_number(value: Any, name: str) -> float:
    """Give a real number, of any type but text and truth values, as a float; or TypeError."""
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)) or np.ndim(value) != 0:
            raise TypeError
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def check_positive(value: Any, name: str) -> float:
    """Give a positive finite number; TypeError or ValueError if it is not one."""
    number = check_number(value, name)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, not {number}")
    return number


def check_not_negative(value: Any, name: str) -> float:
    """Give a finite number that is not negative; TypeError or ValueError if it is not one."""
    number = check_number(value, name)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and not negative, not {number}")
    return number


def check_within(value: Any, name: str, low: float, high: float) -> float:
    """Give a number between `low` and `high`, both excluded; TypeError or ValueError otherwise."""
    number = check_number(value, name)
    if not low < number < high:
        raise ValueError(f"{name} must lie in ({low:.4g}, {high:.4g}), not {number}")
    return number


def check_integer(value: Any, name: str, least: int | None = None, most: int | None = None) -> int:
    """Give one integer, from `least` to `most`; TypeError or ValueError if it is not one."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if (least is not None and number < least) or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be an integer {limits}, not {number}")
    return number


def check_budget(
    epsilon: Any, delta: Any, *, zero: Literal["", "epsilon", "delta"] = ""
) -> tuple[float, float]:
    """Give epsilon, positive and finite, and delta, in (0, 1), of which `zero` may be 0."""
    of_epsilon = check_not_negative if zero == "epsilon" else check_positive
    number = check_number(delta, "delta")
    if not (zero == "delta" and number == 0):
        check_within(number, "delta", 0, 1)
    return of_epsilon(epsilon, "epsilon"), number


def is_number(text: str) -> bool:
    """Tell whether a text, such as a cell of a header, is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
