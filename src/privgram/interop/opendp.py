"""privgram's mechanisms inside OpenDP.

`make_measurement` wraps a mechanism as an OpenDP measurement on two-dimensional NumPy
arrays, for use in OpenDP's compositors: docs/guide/budget.md has an example.

What is lost in the conversion. OpenDP has no measure that a privacy profile fits and
that its compositors add up, so

- with ``measure="approxDP"`` the profile shrinks to its one point (epsilon, delta), and
  composing adds epsilons and deltas where `privgram.privacy.compose` convolves;
- with ``measure="pureDP"``, for releases at delta = 0, it shrinks to epsilon;
- with ``measure="zCDP"``, which Gaussian and matrix Laplace noise have, composing is exact but the
  way back to (epsilon, delta) is not: Gaussian noise at (1, 1e-6) comes back as (1.08, 1e-6);
- more than one changed row (``d_in > 1``) is charged by group privacy.

OpenDP checks none of the wrapped code, hence its feature "honest-but-curious". It does
not check that an argument lies in the domain either: rows are clipped to the bound here,
as everywhere in privgram, and the shape is checked.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from privgram._base.installed import extra

with extra("opendp", "privgram.interop.opendp needs"):
    import opendp.prelude as dp
    from opendp.extras.numpy import array2_domain

import privgram
from privgram._base.numbers import check_adjacency, check_one_of
from privgram.mechanisms._base import check_mechanism
from privgram.privacy import GaussianProfile, MatrixLaplaceProfile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["make_measurement"]


def make_measurement(
    mechanism: Mechanism,
    n_columns: int,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    *,
    n_rows: int | None = None,
    measure: Literal["approxDP", "pureDP", "zCDP"] = "approxDP",
) -> Any:
    """Return a mechanism as an OpenDP measurement.

    Parameters
    ----------
    mechanism : Mechanism
        A mechanism of privgram, such as ``AnalyzeGauss()``.
    n_columns : int
        Columns d of the tables it will be given.
    bound : float
        L2 bound of a row; longer rows are clipped.
    epsilon, delta : float
        Privacy parameters of one release.
    adjacency : {"replace", "add-remove"}
        Becomes OpenDP's change-one or symmetric distance.
    n_rows : int, optional
        Public number of rows; required under "replace", refused under "add-remove".
    measure : {"approxDP", "pureDP", "zCDP"}
        OpenDP's output measure. pureDP is for delta = 0, and zCDP for Gaussian noise and,
        by its pure epsilon, matrix Laplace noise.

    Returns
    -------
    opendp.Measurement
        From a float array of shape (n, d) to a `privgram.Release`.

    Raises
    ------
    ValueError
        If the parameters do not fit together, zCDP is asked of noise that has none, or the
        mechanism's guarantee depends on a promise about the data (`Mechanism.condition`): a
        measurement is for every table of its domain.

    Notes
    -----
    OpenDP's features "contrib" and "honest-but-curious" must be enabled.
    """
    if check_adjacency(adjacency) == "replace" and n_rows is None:
        raise ValueError('adjacency="replace" keeps n public: pass n_rows')
    if adjacency == "add-remove" and n_rows is not None:
        raise ValueError('adjacency="add-remove" keeps n private: leave n_rows out')
    check_one_of(measure, "measure", ("approxDP", "pureDP", "zCDP"))
    if measure == "pureDP" and delta:
        raise ValueError(f'measure="pureDP" is for delta = 0, not {delta!r}: use "approxDP"')
    check_mechanism(mechanism)
    if mechanism.condition is not None:
        raise ValueError(
            f"{type(mechanism).__name__} is private only if {mechanism.condition}; an OpenDP "
            "measurement holds for every table, and cannot say so. Use another mechanism"
        )
    noise = mechanism.calibrate(n_columns, bound, epsilon, delta, adjacency, n_rows)
    profile = noise.privacy
    if mechanism.reached(noise) > delta:
        raise ValueError(
            f"{type(mechanism).__name__} has delta={mechanism.reached(noise):.2g} where "
            f"{delta:g} is asked for: an OpenDP measurement would not say so. Use another mechanism"
        )
    concentrated = GaussianProfile, MatrixLaplaceProfile
    if measure == "zCDP" and not isinstance(profile, concentrated):
        raise ValueError(
            f"{type(mechanism).__name__} has no zCDP guarantee: its Renyi divergence is "
            'infinite at some finite order; use measure="approxDP"'
        )

    def release(table: NDArray[np.float64]) -> Any:
        if table.ndim != 2 or table.shape[1] != n_columns:
            raise ValueError(f"the measurement is for tables of {n_columns} columns")
        if n_rows is not None and table.shape[0] != n_rows:
            raise ValueError("the table does not have the public number of rows")
        return privgram.release(
            table,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            adjacency=adjacency,
            bound=bound,
        )

    def group_approx_dp(rows: int) -> tuple[float, float]:
        # A chain of `rows` neighbours: the deltas pick up the epsilons before them.
        if rows == 0:
            return 0.0, 0.0
        if rows * epsilon > 700.0:  # where the factor overflows it has long exceeded 1 / delta
            return rows * epsilon, 1.0 if delta else 0.0
        return rows * epsilon, min(1.0, delta * math.expm1(rows * epsilon) / math.expm1(epsilon))

    def group_zcdp(rows: int) -> float:
        # Of pure epsilon: Bun and Steinke, TCC 2016-B, Proposition 1.4.
        pure = isinstance(profile, MatrixLaplaceProfile)
        mu = rows * (profile.pure if pure else profile.sensitivity_ratio)
        return float(mu * mu / 2)

    output, group = {
        "approxDP": (dp.approximate(dp.max_divergence()), group_approx_dp),
        "pureDP": (dp.max_divergence(), lambda rows: rows * epsilon),
        "zCDP": (dp.zero_concentrated_divergence(), group_zcdp),
    }[measure]
    return dp.m.make_user_measurement(
        array2_domain(T=float, num_columns=n_columns, size=n_rows),
        dp.change_one_distance() if adjacency == "replace" else dp.symmetric_distance(),
        output,
        release,
        group,
        TO="ExtrinsicObject",
    )
