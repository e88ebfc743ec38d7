"""Checks of what callers pass, shared by the steps."""

from __future__ import annotations

import math
from typing import Literal

from privgram._checks import check_integer, check_number

CalibrationKind = Literal["exact", "published"]


def check_ranks(shape: tuple[int, int], rank: int, oversample: int | None) -> tuple[int, int]:
    r, most = check_integer(rank, "rank"), min(shape)
    p = min(r + 1, most - r) if oversample is None else check_integer(oversample, "oversample")
    if r < 2 or p < 2 or r + p > most:
        raise ValueError(
            f"rank and oversample must be at least 2 and rank + oversample at most"
            f" min(m, n) = {most}, not {r} and {p}"
        )
    return r, p


def check_budget(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None or delta is None:
        raise TypeError("epsilon and delta are needed: the budget of this step")
    eps, dlt = check_number(epsilon, "epsilon"), check_number(delta, "delta")
    if not (0 < eps < math.inf and 0 < dlt < 1):
        raise ValueError(
            f"epsilon must be positive and finite and delta in (0, 1), not {eps!r} and {dlt!r}"
        )
    return eps, dlt


def check_calibration(calibration: str) -> str:
    if calibration not in ("exact", "published"):
        raise ValueError(f"calibration must be 'exact' or 'published', not {calibration!r}")
    return calibration


def check_level(level: float) -> float:
    value = check_number(level, "prune")
    if not 0 < value <= 1:
        raise ValueError(f"the pruning level must lie in (0, 1], not {value!r}")
    return value


def check_row_change(row_change: float) -> float:
    value = check_number(row_change, "row_change")
    # A range in which neither it nor its share of an entry over- or underflows.
    if not 2.0**-900 <= value <= 2.0**900:
        raise ValueError(f"row_change must be a positive number within 2^±900, not {value!r}")
    return value
