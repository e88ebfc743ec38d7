"""What is done to a matrix once noise is in it: known entries imposed, and repairs.

All of it is post-processing, of the released matrix and what is public.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from privgram.adaptive import rounds
from privgram.disclosure.laws import Sample, is_definite
from privgram.noise import GaussianLaw, MaskedLaw, TiedLaw, symmetric_gaussian

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.columns import Columns
    from privgram.mechanisms import Calibration
    from privgram.mechanisms.additive import AnalyzeGauss, GaussCalibration

#: Gaussian noise, and what is left of it where the matrix is known in part.
Imposed: TypeAlias = GaussianLaw | MaskedLaw | TiedLaw


def repaired(
    mechanism: AnalyzeGauss,
    matrix: Matrix,
    noise: GaussCalibration,
    columns: Columns | None,
    zeros: bool,
) -> Sample:
    """Impose what is known on a released matrix, and repair it as the mechanism says.

    It may have its known `zeros` already.
    """
    law: Imposed = rounds.known_of(noise.law, columns)
    if not (zeros and isinstance(law, MaskedLaw)):
        matrix, law = impose(matrix, noise.law, columns)
    if mechanism.repair == "none":
        return Sample(matrix, law)
    if mechanism.repair == "feasible":
        matrix, moved = feasible(matrix, noise)
        return Sample(matrix, law, {"moved": moved})
    if mechanism.repair != "project":
        added, d = 0.0, len(matrix)
        if not is_definite(matrix):
            added = expected_norm(noise.law, d)
        return Sample(matrix + added * np.eye(d), _shifted(law, added), {"added": added})
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < 0:
        matrix = (vectors * np.maximum(values, 0.0)) @ vectors.T
        matrix = (matrix + matrix.T) / 2
    return Sample(matrix, law)


def impose(matrix: Matrix, law: GaussianLaw, columns: Columns | None) -> tuple[Matrix, Imposed]:
    """Project a release on what the description of its columns says, and tell the law of that.

    Post-processing: the equations are public (`privgram.columns.structure`).
    """
    known = rounds.known_of(law, columns)
    return matrix if isinstance(known, GaussianLaw) else known.project(matrix), known


def _shifted(law: Imposed, added: float) -> Imposed:
    """The law of a release to which a multiple of the identity was added."""
    if isinstance(law, GaussianLaw):
        return replace(law, added=added)
    if isinstance(law, MaskedLaw):
        return replace(law, base=replace(law.base, added=added))
    base = _shifted(law.base, added)
    assert not isinstance(base, TiedLaw)
    return replace(law, base=base)


def feasible(matrix: Matrix, noise: Calibration) -> tuple[Matrix, float]:
    """Second moment of n rows within the bound that is nearest in Frobenius norm, and its distance.

    The matrix (d, d) is symmetric. A bound B limits a row and, where the number of rows is public,
    n B^2 the trace. A matrix that is one already is returned as it was, with 0.0.
    """
    values, vectors = np.linalg.eigh(matrix)
    most = math.inf if noise.n_rows is None else noise.n_rows * noise.bound**2
    feasible_values = np.maximum(values, 0.0)
    if feasible_values.sum() > most:
        # All less by the same, where that leaves them above 0: the projection on a simplex.
        falling = values[::-1]
        less = (np.cumsum(falling) - most) / np.arange(1, len(values) + 1)
        feasible_values = np.maximum(values - less[np.flatnonzero(falling >= less)[-1]], 0.0)
    if np.array_equal(feasible_values, values):
        return matrix, 0.0
    nearest = (vectors * feasible_values) @ vectors.T
    return (nearest + nearest.T) / 2, float(np.linalg.norm(feasible_values - values))


def expected_norm(law: GaussianLaw, n_columns: int) -> float:
    """E||N|| (spectral norm) of the noise, by simulation from its own law with a fixed seed.

    The norm concentrates as d grows (relative spread of order d^(-2/3)), so a
    number of draws inversely proportional to d keeps the error under 1 %.
    """
    draws, rng = max(4, 4096 // n_columns), np.random.default_rng(0)
    noise = [symmetric_gaussian(n_columns, law.std, law.std_diagonal, rng) for _ in range(draws)]
    return float(np.abs(np.linalg.eigvalsh(noise)).max(axis=1).mean())
