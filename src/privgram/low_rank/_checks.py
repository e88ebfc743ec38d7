"""Checks of what callers pass, shared by the steps."""

from __future__ import annotations

import operator
from typing import Literal

CalibrationKind = Literal["exact", "published"]


def check_ranks(shape: tuple[int, int], rank: int, oversample: int | None) -> tuple[int, int]:
    r, most = operator.index(rank), min(shape)
    p = min(r + 1, most - r) if oversample is None else operator.index(oversample)
    if r < 2 or p < 2 or r + p > most:
        raise ValueError(
            f"rank and oversample must be at least 2 and rank + oversample at most"
            f" min(m, n) = {most}, not {r} and {p}"
        )
    return r, p


def check_budget(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None or delta is None:
        raise TypeError("epsilon and delta are needed: the budget of this step")
    return float(epsilon), float(delta)


def check_calibration(calibration: str) -> str:
    if calibration not in ("exact", "published"):
        raise ValueError(f"calibration must be 'exact' or 'published', not {calibration!r}")
    return calibration


def check_level(level: float) -> float:
    if not 0 < level <= 1:
        raise ValueError(f"the pruning level must lie in (0, 1], not {level!r}")
    return float(level)


def check_row_change(value: float) -> float:
    # A range in which neither it nor its share of an entry over- or underflows.
    if not 2.0**-900 <= value <= 2.0**900:
        raise ValueError(f"row_change must be a positive number within 2^±900, not {value!r}")
    return float(value)
