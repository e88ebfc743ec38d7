"""Checks of what callers pass."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

__all__ = ["check_integer", "check_number"]


def check_number(value: Any, name: str) -> float:
    """Give one real number, of any type but text, as a float.

    Raises
    ------
    TypeError
        If it is something else.
    """
    try:
        if isinstance(value, (str, bytes)) or np.ndim(value) != 0:
            raise TypeError
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def check_integer(value: Any, name: str) -> int:
    """Give one integer.

    Raises
    ------
    TypeError
        If it is something else.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
