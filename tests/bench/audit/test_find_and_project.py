"""Find-and-project audited: what test_audit.py does not say for mechanisms on second moments."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats

from bench.audit import Case, leading, measure, worst_pairs
from bench.audit import low_rank as steps
from bench.audit.low_rank import FindAndProject, Projection, RangeFinder
from privgram.papers import hardt_roth as low_rank

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_pair_of_find_and_project_comes_near_its_profile():
    """Within a tenth: the row that changes is hidden by a twentieth more noise than its bound."""
    (row,) = leading(measure(Case(FindAndProject(), "row change", at=(0.0,)), 1_000, seed=1))
    assert 0.9 * row.claimed < row.by_law < row.claimed + 4.75 * row.by_law_error


@dataclass(frozen=True)
class ShortFinder(RangeFinder):
    def release(self, A, epsilon, delta, rng):
        return low_rank.range_finder(A, 2, 2, epsilon, delta, rng, row_change=0.9)


@dataclass(frozen=True)
class ShortProjection(Projection):
    def release(self, A, epsilon, delta, rng):
        return low_rank.project(A, self.basis, epsilon, delta, rng, row_change=0.9)


@pytest.mark.long
@pytest.mark.parametrize(
    "broken", [ShortFinder(), pytest.param(ShortProjection(), marks=pytest.mark.nightly)]
)
def test_noise_ten_percent_short_is_caught(broken):
    honest = type(broken).__bases__[0]()
    # So lax a guarantee that the pair is told apart often, and a tenth less noise shows soon.
    case = Case(honest, "row change", delta=0.85, at=(0.0,))
    rows = measure(case, 6_000, confidence=0.99, released=broken, seed=3)
    assert any(row.violated for row in rows)


@pytest.mark.long
def test_whole_budget_for_each_step_is_caught():
    """The two steps together are charged for, and the audit sees what both of them tell."""

    class Twice(FindAndProject):
        def release(self, A, epsilon, delta, rng):
            W = low_rank.range_finder(A, 2, 2, epsilon, delta, rng)
            return low_rank.LowRank(W, low_rank.project(A, W, epsilon, delta, rng))

    case = Case(FindAndProject(), "row change", delta=0.5, at=(0.0,))
    assert any(row.violated for row in measure(case, 1_500, released=Twice(), seed=4))


def test_law_of_the_basis_by_integration():
    """k = 1, m = 2: the angle of a Gaussian vector, by integrating its length out.

    What is left out of the law is the same for every matrix.
    """
    std = 0.8
    angles = np.linspace(0.1, 6.0, 9)
    W = np.stack([np.cos(angles), np.sin(angles)], axis=1)[..., None]
    left_out = []
    for A in (np.array([[1.5, 0.0], [0.7, -0.4]]), np.array([[0.1, 0.0], [3.0, 5.0]])):
        law = stats.multivariate_normal(cov=A @ A.T + std**2 * np.eye(2))
        lengths = [
            math.log(integrate.quad(lambda r, w=w[:, 0], law=law: r * law.pdf(r * w), 0, 60)[0])
            for w in W
        ]
        left_out.append(steps._basis(W, A, std) - lengths)
    np.testing.assert_allclose(left_out, left_out[0][0], atol=1e-6)


def test_law_of_the_basis_does_not_depend_on_units():
    """A and the noise ten times as large: the same basis, so the same ratios."""
    rng = np.random.default_rng(2)
    A, B = rng.standard_normal((2, 30, 4))
    W = np.stack([np.linalg.qr(rng.standard_normal((30, 3)))[0] for _ in range(4)])
    one, ten = (steps._basis(W, c * A, c) - steps._basis(W, c * B, c) for c in (1.0, 10.0))
    np.testing.assert_allclose(one, ten, rtol=1e-9)
    assert np.ptp(one) > 1


@pytest.mark.long
@pytest.mark.parametrize("step", [RangeFinder(), Projection(), FindAndProject()])
def test_scores_are_likelihood_ratios(step):
    """E_Q e^L = 1 and E_P e^-L = 1, where the laws are close enough for a mean to settle."""
    case = Case(step, "row change", delta=1e-3)
    for pair in worst_pairs(case):
        first, second = pair.first, pair.second
        assert np.linalg.norm(first - second) == pytest.approx(1.0)
        assert np.count_nonzero(np.any(first != second, axis=1)) == 1
        scores = steps.scores(case, step, pair, 1_000, np.random.SeedSequence(7))
        for ratio in (np.exp(scores[1]), np.exp(-scores[0])):
            assert abs(ratio.mean() - 1) < 4.75 * ratio.std() / math.sqrt(ratio.size)
