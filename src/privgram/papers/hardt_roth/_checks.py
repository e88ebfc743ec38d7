"""Checks of what callers pass, shared by the steps."""

from __future__ import annotations

from typing import Any, Literal, get_args

from privgram._base import checks as _checks
from privgram._base.checks import check_integer, check_number

CalibrationKind = Literal["exact", "published"]
"""``"exact"``: by the exact profile; ``"published"``: by the paper's constants."""


def check_calibration(calibration: Any) -> CalibrationKind:
    if calibration not in get_args(CalibrationKind):
        raise ValueError(f'calibration must be "exact" or "published", not {calibration!r}')
    return calibration  # type: ignore[no-any-return]


def check_ranks(shape: tuple[int, int], rank: int, oversample: int | None) -> tuple[int, int]:
    r, most = check_integer(rank, "rank"), min(shape)
    p = min(r + 1, most - r) if oversample is None else check_integer(oversample, "oversample")
    if r < 2 or p < 2 or r + p > most:
        raise ValueError(
            f"rank and oversample must be at least 2 and rank + oversample at most"
            f" min(m, n) = {most}, not {r} and {p}"
            + ("; for rank 1 take the first factors of `svd`" if r == 1 else "")
        )
    return r, p


def check_budget(epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None or delta is None:
        raise TypeError("epsilon and delta must be given: the budget of this step")
    return _checks.check_budget(epsilon, delta)


def check_share(share: float, name: str) -> float:
    value = check_number(share, name)
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], not {value}")
    return value


def check_row_change(row_change: float) -> float:
    value = check_number(row_change, "row_change")
    # A range in which neither it nor its share of an entry over- or underflows.
    if not 2.0**-900 <= value <= 2.0**900:
        raise ValueError(f"row_change must be a positive number within 2^±900, not {value!r}")
    return value
