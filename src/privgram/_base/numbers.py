"""Numbers: types of arrays, checks of what callers pass, and one-dimensional searches."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

#: "replace": one row is replaced, n is public. "add-remove": one row comes or goes.
Adjacency = Literal["replace", "add-remove"]

#: Limits of a row's L2 bound. Statistics multiply up to eight bounds, which must stay a float64.
MIN_BOUND, MAX_BOUND = 2.0**-100, 2.0**100


def check_number(value: Any, name: str) -> float:
    """Give a real number, of any type but text and truth values, as a float; or TypeError."""
    if type(value) is float:  # what most are
        return value
    try:
        if isinstance(value, (str, bytes, bool, np.bool_)) or np.ndim(value) != 0:
            raise TypeError
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def check_positive(value: object, name: str) -> float:
    """Give a positive finite number; TypeError or ValueError if it is not one."""
    number = check_number(value, name)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, not {number}")
    return number


def check_not_negative(value: object, name: str) -> float:
    """Give a finite number that is not negative; TypeError or ValueError if it is not one."""
    number = check_number(value, name)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and not negative, not {number}")
    return number


def check_within(value: object, name: str, low: float, high: float) -> float:
    """Give a number between `low` and `high`, both excluded; TypeError or ValueError otherwise."""
    number = check_number(value, name)
    if not low < number < high:
        raise ValueError(f"{name} must lie in ({low:.4g}, {high:.4g}), not {number}")
    return number


def check_integer(
    value: object, name: str, least: int | None = None, most: int | None = None
) -> int:
    """Give one integer, from `least` to `most`; TypeError or ValueError if it is not one."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if (least is not None and number < least) or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be an integer {limits}, not {number}")
    return number


def check_one_of(value: object, name: str, choices: Collection[str]) -> None:
    """Raise ValueError unless a value is one of some words."""
    if not isinstance(value, str) or value not in choices:
        given = reprlib.repr(value)  # of a file it is of any length
        raise ValueError(f"{name} is {' or '.join(map(repr, choices))}, not {given}")


def check_budget(
    epsilon: object, delta: object, *, zero: Literal["", "epsilon", "delta"] = ""
) -> tuple[float, float]:
    """Give epsilon, positive and finite, and delta, in (0, 1), of which `zero` may be 0."""
    of_epsilon = check_not_negative if zero == "epsilon" else check_positive
    number = check_number(delta, "delta")
    if not (zero == "delta" and number == 0):
        check_within(number, "delta", 0, 1)
    return of_epsilon(epsilon, "epsilon"), number


def check_adjacency(adjacency: str) -> Adjacency:
    """Return `adjacency` if it is one of the two notions, else raise ValueError."""
    check_one_of(adjacency, "adjacency", get_args(Adjacency))
    return adjacency  # type: ignore[return-value]


def set_fields(record: object, **values: object) -> None:
    """Give fields of a frozen dataclass the values that they are checked to be, as it is made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def is_number(text: str) -> bool:
    """Tell whether a text, such as a cell of a header, is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# One-dimensional searches that end on the safe side: what they return was evaluated, and is good.
#
# SciPy's `elementwise.find_root` returns brackets too, but takes twice as many evaluations, and
# each is a profile.

NumberType = TypeVar("NumberType", int, float)


def largest_safe(
    delta: Callable[[float], float],
    target: float,
    guess: float,
    *,
    limit: float = 1e300,
    tolerance: float = 2e-13,
) -> float:
    """Largest x in (0, limit) with ``delta(x) <= target``, `delta` non-decreasing, in [0, 1].

    The x returned was evaluated and is safe: rounding can make it smaller than the true one, never
    larger. It is 0.0 if no positive float qualifies, `inf` if `limit` does. The search starts at
    `guess` and ends at a delta within `tolerance`, relatively, of the target, by the method of T.
    R. Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
    function without using derivatives", Adv. Eng. Softw. 28(3), 1997.
    """
    aim = -0.5 * tolerance

    def excess(log_x: float) -> float:
        value = delta(math.exp(log_x))
        if not value >= 0.0:
            raise ArithmeticError(f"a privacy profile evaluated to {value}")
        # Aiming a hair inside the safe side lets the search stop as soon as it is close.
        return (math.log(value / target) if value > 0.0 else -1e4) - aim

    # Bracket in ln x, with steps that grow.
    top, bottom = math.log(limit), -690.0
    x1 = min(max(math.log(guess), bottom), top)
    g1 = excess(x1)
    direction = 1.0 if g1 <= 0.0 else -1.0
    step = 0.1
    while True:
        if x1 == top and g1 <= 0.0:
            return math.inf
        if x1 == bottom and g1 > 0.0:
            return 0.0
        x2, g2 = x1, g1
        x1 = min(max(x1 + direction * step, bottom), top)
        g1 = excess(x1)
        step *= 3.0
        if (g1 <= 0.0) != (g2 <= 0.0):
            break
    t = g1 / (g1 - g2)
    while True:
        for x, g in ((x1, g1), (x2, g2)):
            # Within the tolerance, and safe by more than the rounding of the logarithm.
            if -tolerance <= g + aim <= -1e-15:
                return math.exp(x)
        x = x1 + t * (x2 - x1)
        if x in (x1, x2):
            return math.exp(x1 if g1 <= 0.0 else x2)
        g = excess(x)
        if (g <= 0.0) == (g1 <= 0.0):
            x3, g3 = x1, g1
        else:
            x3, g3 = x2, g2
            x2, g2 = x1, g1
        x1, g1 = x, g
        # Inverse quadratic interpolation where it is trustworthy, else bisection.
        xi, phi = (x1 - x2) / (x3 - x2), (g1 - g2) / (g3 - g2) if g3 != g2 else math.inf
        if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:
            t = g1 / (g2 - g1) * g3 / (g2 - g3) + (x3 - x1) / (x2 - x1) * g1 / (g3 - g1) * g2 / (
                g3 - g2
            )
            t = min(max(t, 1e-9), 1.0 - 1e-9)
        else:
            t = 0.5


def least_safe(
    delta: Callable[[float], float], target: float, guess: float, tolerance: float = 2e-13
) -> float:
    """Least x > 0 with ``delta(x) <= target``, `delta` non-increasing, by `largest_safe` of 1/x."""
    inverse = largest_safe(lambda x: delta(1.0 / x), target, 1.0 / guess, tolerance=tolerance)
    return 1.0 / inverse if inverse > 0.0 else math.inf


def bisect_boundary(
    good: Callable[[NumberType], bool],
    inside: NumberType,
    outside: NumberType,
    near: Callable[[NumberType, NumberType], bool] = lambda inside, outside: False,
) -> NumberType:
    """Last good number on the way from a good one to one that is not, either way.

    Of two integers or two floats. `near` tells whether a good number and one that is not are near
    enough; by default no two are unless they are next to each other.
    """
    while not near(inside, outside):
        both = inside + outside
        middle = both // 2 if isinstance(both, int) else both / 2
        if middle in (inside, outside):
            break
        if good(middle):
            inside = middle
        else:
            outside = middle
    return inside


def minimise(f: Callable[[float], float], low: float, high: float) -> float:
    """Minimum of a function with one valley, to 0.05 in x (golden section)."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    f_a, f_b = f(a), f(b)
    while high - low > 0.1:
        if f_a <= f_b:
            high, b, f_b = b, a, f_a
            a = high - ratio * (high - low)
            f_a = f(a)
        else:
            low, a, f_a = a, b, f_b
            b = low + ratio * (high - low)
            f_b = f(b)
    return a if f_a <= f_b else b
