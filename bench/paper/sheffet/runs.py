"""Results: what is measured of each estimate, and how it is kept in files."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.paper.sheffet.estimators import ESTIMATORS, Trial, coefficients
from bench.paper.sheffet.settings import CALIBRATIONS
from privgram._base.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.paper.sheffet.settings import Setting
    from privgram.moment import SecondMoment

__all__ = ["Run", "evaluate", "lasso", "read", "write"]

#: Penalty of the Lasso, in standard deviations of the label's units per standardised feature.
PENALTY = 0.05


class Run(NamedTuple):
    """One estimate, measured. Its fields are the columns of the CSV files.

    `extras` is m, the number of other labels among the features; `penalty` is 0 for least
    squares. `error` is the L2 distance to the true coefficients, intercept included; for the
    Lasso `zero_features` and `zero_labels` are the shares of coefficients set to zero among
    the p features and the m labels. `dof` is the rows or degrees of freedom, where there are any;
    `definite` tells whether the matrix is positive definite on the columns used.
    """

    n: int
    repetition: int
    epsilon: float
    calibration: str
    estimator: str
    extras: int
    penalty: float
    error: float
    zero_features: float
    zero_labels: float
    dof: float
    definite: int


def evaluate(
    setting: Setting,
    exponent: int,
    repetition: int,
    moment: SecondMoment,
    estimators: Iterable[str],
) -> list[Run]:
    """Make every estimate on one data set and measure it."""
    runs = []
    for epsilon in setting.epsilons:
        for calibration in CALIBRATIONS:
            trial = Trial(setting, exponent, repetition, moment, epsilon, calibration)
            for name in estimators:
                estimate = ESTIMATORS[name](trial)
                dof = np.nan if estimate.dof is None else float(estimate.dof)
                for extras in setting.extras:
                    for penalty in (0.0, PENALTY) if extras else (0.0,):
                        measured = _measure(setting, estimate.matrix, extras, penalty)
                        runs.append(
                            Run(
                                2**exponent,
                                repetition,
                                epsilon,
                                calibration,
                                name,
                                extras,
                                penalty,
                                *measured[:3],
                                dof,
                                measured[3],
                            )
                        )
    return runs


def _measure(
    setting: Setting, matrix: NDArray[np.float64], extras: int, penalty: float
) -> tuple[float, float, float, int]:
    """Error, shares of zeros among features and labels, and definiteness."""
    p, target = setting.n_features, setting.n_columns - 2
    features = [*range(p + extras), setting.n_columns - 1]
    truth = np.zeros(len(features))
    truth[:p], truth[-1] = setting.coefficients[-1, :p], setting.coefficients[-1, p]
    used = [*features, target]
    definite = bool(np.linalg.eigvalsh(matrix[np.ix_(used, used)])[0] > 0)
    if penalty == 0.0:
        estimate = coefficients(matrix, features, target)
        return float(np.linalg.norm(estimate - truth)), np.nan, np.nan, int(definite)
    if not definite:
        return np.nan, np.nan, np.nan, 0
    estimate = lasso(matrix, features, target, penalty)
    zeros = estimate == 0.0
    return (
        float(np.linalg.norm(estimate - truth)),
        float(zeros[:p].mean()),
        float(zeros[p:-1].mean()),
        1,
    )


def lasso(
    matrix: NDArray[np.float64], features: list[int], target: int, penalty: float
) -> NDArray[np.float64]:
    """Lasso on a positive definite second moment, by coordinate descent.

    Minimises b^T M b / 2 - m^T b + penalty |b|_1 with every column but the last feature, the
    intercept, scaled to have unit second moment, as the R package glmnet does by default.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
    features : list of int
        Without penalty: the last.
    target : int
    penalty : float
        In units of the target's root mean square.

    Returns
    -------
    ndarray of shape (len(features),)
        In the columns' own units.
    """
    scale = np.sqrt(np.diag(matrix))
    correlation = matrix / np.outer(scale, scale)
    gram = correlation[np.ix_(features, features)]
    gradient = correlation[features, target].copy()  # of the fit alone, negative
    b = np.zeros(len(features))
    thresholds = np.full(len(features), penalty)
    thresholds[-1] = 0.0
    for _ in range(10_000):
        largest = 0.0
        for j in range(len(b)):
            raw = gradient[j] + b[j]
            new = np.sign(raw) * max(abs(raw) - thresholds[j], 0.0)
            step = new - b[j]
            if step != 0.0:
                gradient -= gram[j] * step
                b[j] = new
                largest = max(largest, abs(step))
        if largest < 1e-8:
            break
    own_units: NDArray[np.float64] = b * scale[target] / scale[features]
    return own_units


# --- Files -------------------------------------------------------------------------


def write(path: Path, runs: Iterable[Run]) -> None:
    """Write runs as CSV, all or nothing. Numbers are written so that they read back exactly."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Run._fields)
    for run in runs:
        writer.writerow(["" if value != value else value for value in run])
    write_atomically(path, out.getvalue().encode())


def read(path: Path) -> list[Run]:
    """Read what `write` wrote."""
    with path.open(newline="") as file:
        rows = csv.reader(file)
        if tuple(next(rows, ())) != Run._fields:
            raise ValueError(f"{path} does not hold runs of this version; use another folder")
        return [_parse(row) for row in rows]


def _parse(row: Sequence[str]) -> Run:
    n, repetition, epsilon, calibration, estimator, extras, *measured, definite = row
    penalty, error, zero_features, zero_labels, dof = (
        float(text) if text else np.nan for text in measured
    )
    return Run(
        int(n), int(repetition), float(epsilon), calibration, estimator, int(extras),
        penalty, error, zero_features, zero_labels, dof, int(definite),
    )  # fmt: skip
