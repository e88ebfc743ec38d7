"""Units with many rows: the proofs' steps once by numbers, and shifts of many directions."""

import math

import numpy as np
import pytest

from privgram.mechanisms import AnalyzeGauss, MatrixLaplace
from privgram.mechanisms._base import sensitivity
from privgram.papers import sheffet
from privgram.papers.sheffet import AdditiveWishart


def units(rng, d, count):
    """Matrices of random units, of Frobenius norm 1."""
    for _ in range(count):
        x = rng.normal(size=(rng.integers(1, 6), d)) * rng.choice([0.01, 1.0], d)
        m = x.T @ x
        yield m / np.linalg.norm(m)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_frobenius_distance_of_two_units(d):
    rng = np.random.default_rng(d)
    found = [
        np.linalg.norm(a - b) for a, b in zip(units(rng, d, 500), units(rng, d, 500), strict=True)
    ]
    assert max(found) <= sensitivity(1.0, d, "replace") * (1 + 1e-12)
    assert max(found) > 0.8 * sensitivity(1.0, d, "replace") or d == 1


def split(rng, trace, d):
    """Shifts of a given trace: one direction, all alike, and any."""
    yield trace * np.diag(np.eye(d)[0])
    yield trace / d * np.eye(d)
    values = rng.dirichlet(np.ones(d)) * trace
    q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    yield (q * values) @ q.T


def log_density(x, dof):
    """Of the standard Wishart law but for a constant; -inf beyond the cone."""
    d = x.shape[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        sign, log = np.linalg.slogdet(x)
        inside = np.linalg.eigvalsh(x)[..., 0] > 0
        value = (dof - d - 1) / 2 * log - np.trace(x, axis1=-2, axis2=-1) / 2
    return np.where(inside & (sign > 0), value, -np.inf)


def wisharts(rng, d, dof, count):
    z = rng.normal(size=(count, dof, d))
    return np.einsum("nki,nkj->nij", z, z)


@pytest.mark.slow
def test_wishart_noise_hides_a_unit_as_it_hides_a_row():
    """H of P = W + D and Q = W, both orders, by the density ratio: false alarms below 1e-4."""
    rng, d, dof, trace, n = np.random.default_rng(1), 2, 7, 2.0, 40_000
    profile = sheffet.WishartProfile(dof, d, trace, "add-remove")
    for shift in split(rng, trace, d):
        w = wisharts(rng, d, dof, n)
        with_unit = log_density(w, dof) - log_density(w + shift, dof)  # of Q's draws moved: P
        without = log_density(w, dof) - log_density(w - shift, dof)
        for epsilon in (0.1, 0.5, 1.0):
            mine = (
                np.maximum(0, 1 - np.exp(epsilon - with_unit)),
                np.maximum(0, 1 - np.exp(epsilon - without)),
            )
            largest = max(x.mean() - 4 * x.std() / math.sqrt(n) for x in mine)
            assert largest <= profile.delta(epsilon)


@pytest.mark.slow
def test_matrix_laplace_noise_hides_a_unit_as_it_hides_a_row():
    """The loss of W1 - W2 + D against W1 - W2, as a mean over W2, is at most half of D's trace."""
    rng, d, dof, trace, n = np.random.default_rng(2), 2, 3, 1.5, 15_000
    second = wisharts(rng, d, dof, n)

    def density(x):
        values = np.exp(log_density(x + second, dof))
        return values.mean(), values.std() / math.sqrt(n)

    seen = []
    for shift in split(rng, trace, d):
        for x in wisharts(rng, d, dof, 6) - wisharts(rng, d, dof, 6):
            (p, p_error), (q, q_error) = density(x - shift), density(x)
            spread = 4 * (p_error / p + q_error / q)
            assert abs(math.log(p / q)) <= trace / 2 + spread
            seen.append(abs(math.log(p / q)))
    assert max(seen) > 0.4 * trace  # not for nothing


def test_mechanisms_with_and_without_a_proof_for_units():
    from privgram.columns.unit import PrivacyUnit
    from privgram.privacy.guarantee import Guarantee

    frobenius, trace = PrivacyUnit("id"), PrivacyUnit("id", "trace")
    for adjacency in ("add-remove", "replace"):
        AnalyzeGauss().check_unit(Guarantee(1.0, 0.0, adjacency, frobenius))
        AnalyzeGauss().check_unit(Guarantee(1.0, 0.0, adjacency, trace))
        MatrixLaplace().check_unit(Guarantee(1.0, 0.0, adjacency, trace))
        with pytest.raises(ValueError, match="clip='trace'"):
            MatrixLaplace().check_unit(Guarantee(1.0, 0.0, adjacency, frobenius))
    AdditiveWishart().check_unit(Guarantee(1.0, 0.0, "add-remove", trace))
    with pytest.raises(ValueError, match="added or removed"):
        AdditiveWishart().check_unit(Guarantee(1.0, 0.0, "replace", trace))
