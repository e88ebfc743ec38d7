"""Mechanisms, their public half: parameters, calibration and the records of it.

What they draw from a second moment is in `privgram.drawing`.
"""

from __future__ import annotations

from privgram.mechanisms._base import Calibration, Mechanism, from_dict, true_delta
from privgram.mechanisms._default import best, default, taken
from privgram.mechanisms._names import by_name, named
from privgram.mechanisms.additive_wishart import AdditiveWishart
from privgram.mechanisms.analyze_gauss import AnalyzeGauss
from privgram.mechanisms.matrix_laplace import MatrixLaplace
from privgram.mechanisms.refined import Refined

__all__ = [
    "AdditiveWishart",
    "AnalyzeGauss",
    "Calibration",
    "MatrixLaplace",
    "Mechanism",
    "Refined",
    "best",
    "by_name",
    "default",
    "from_dict",
    "named",
    "taken",
    "true_delta",
]
