"""Mechanisms: from an exact second moment and a budget to a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgram.mechanisms._base import Calibration, Mechanism, check_moment, from_dict
from privgram.mechanisms._default import default
from privgram.mechanisms._names import by_name, named
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
    "by_name",
    "default",
    "from_dict",
    "release",
]


def release(
    moment: SecondMoment,
    mechanism: Mechanism | str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
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
    mechanism : Mechanism or str, optional
        With its parameters, or its name alone: "analyze-gauss". By default the one that
        `privgram.plan` says to take: `AnalyzeGauss`, or `AdditiveWishart` where publicly few
        rows might leave the release without a positive definite matrix.
    epsilon, delta : float
        The guarantee; must be given.
    adjacency, calibration, rng, allow_published_erratum, ledger
        As in `Mechanism.release`.

    Returns
    -------
    Release

    Raises
    ------
    TypeError
        If epsilon or delta is missing, or as in `Mechanism.release`.
    ValueError
        If there is no mechanism of that name, or as in `Mechanism.release`.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> moment = pg.second_moment(np.eye(3), bound=1.0)
    >>> pg.release(moment, epsilon=1.0, delta=1e-6).mechanism
    AdditiveWishart(dof=None, scale=None, debias=True)
    """
    chosen = named(mechanism)
    if epsilon is None or delta is None:
        missing = "epsilon" if epsilon is None else "delta"
        raise TypeError(
            f"{missing} must be a number, not missing: release(moment, epsilon=1.0, delta=1e-6)"
        )
    if chosen is None:
        check_moment(moment)
        n_rows = moment.n_rows + moment.n_dropped if adjacency == "replace" else None
        setting = moment.n_columns, float(moment.bound), epsilon, delta
        chosen = default(*setting, n_rows, adjacency)
    return chosen.release(
        moment,
        epsilon,
        delta,
        adjacency,
        calibration,
        rng,
        allow_published_erratum=allow_published_erratum,
        ledger=ledger,
    )
