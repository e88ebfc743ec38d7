"""Mechanisms: from an exact second moment and a budget to a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgram.mechanisms._base import Calibration, Mechanism, check_mechanism, from_dict
from privgram.mechanisms.additive_wishart import AdditiveWishart
from privgram.mechanisms.analyze_gauss import AnalyzeGauss
from privgram.mechanisms.gaussian_sketch import GaussianSketch
from privgram.mechanisms.inverse_gauss import InverseGauss
from privgram.mechanisms.inverse_wishart import InverseWishart

if TYPE_CHECKING:
    import numpy as np

    from privgram._checks import CalibrationKind
    from privgram.ledger import Ledger
    from privgram.moment import SecondMoment
    from privgram.privacy import Adjacency
    from privgram.release import Release

__all__ = [
    "AdditiveWishart",
    "AnalyzeGauss",
    "Calibration",
    "GaussianSketch",
    "InverseGauss",
    "InverseWishart",
    "Mechanism",
    "from_dict",
    "release",
]


def release(
    moment: SecondMoment,
    mechanism: Mechanism,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    allow_published_erratum: bool = False,
    ledger: Ledger | None = None,
) -> Release:
    """Release a second moment by a mechanism: `mechanism.release(moment, ...)` as a function.

    Parameters
    ----------
    moment : SecondMoment
    mechanism : Mechanism
    epsilon, delta : float
        The guarantee.
    adjacency, calibration, rng, allow_published_erratum, ledger
        As in `Mechanism.release`.

    Returns
    -------
    Release
    """
    check_mechanism(mechanism)
    return mechanism.release(
        moment,
        epsilon,
        delta,
        adjacency,
        calibration,
        rng,
        allow_published_erratum=allow_published_erratum,
        ledger=ledger,
    )
