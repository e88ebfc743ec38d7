"""Regressions on what was released, with their inference and summaries: no further budget.

Nothing here sees a table but by its release.
"""

from __future__ import annotations

from privgram.regression.hypothesis import WaldTest
from privgram.regression.inference import RefusedError
from privgram.regression.iv import IVResults, iv
from privgram.regression.least_squares import regress
from privgram.regression.ols import OLSResults
from privgram.regression.prediction import Prediction
from privgram.regression.results import RegressionResults
from privgram.regression.selection import PenaltyPath, penalty_path

__all__ = [
    "IVResults",
    "OLSResults",
    "PenaltyPath",
    "Prediction",
    "RefusedError",
    "RegressionResults",
    "WaldTest",
    "iv",
    "penalty_path",
    "regress",
]
