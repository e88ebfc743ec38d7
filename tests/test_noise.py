"""Each noise law against draws from it: means and E[N A N].

Every comparison is of a mean over independent draws with its exact value, in
standard errors estimated from the draws; with 20 000 draws and a limit of 5 the
chance of a false alarm is under 1e-4 for the whole module.
"""

import numpy as np
import pytest

from privgram.noise import (
    GaussianLaw,
    InverseGaussianLaw,
    InverseWishartLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    SketchLaw,
    WishartLaw,
    standard_wishart,
    symmetric_gaussian,
)

DRAWS = 20_000
MEAN = np.array([[5.0, 1.0, -0.5], [1.0, 3.0, 0.4], [-0.5, 0.4, 2.0]])
INNER = np.array([[1.0, 0.3, 0.2], [0.3, -0.5, 0.1], [0.2, 0.1, 2.0]])

LAWS = [
    GaussianLaw(0.7, 1.0),
    GaussianLaw(0.7, 0.7, added=2.0),
    WishartLaw(0.3, 7.0, subtracted=1.0),
    MatrixLaplaceLaw(0.3, 4),
    SketchLaw(9, 0.5),
    SketchLaw(2, 0.5),
    InverseWishartLaw(15.0, 0.5),
]


def assert_mean(draws, expected):
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 5 * error + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_moments(law):
    rng = np.random.default_rng(7)
    noise = np.array([law.draw(MEAN, rng) - MEAN for _ in range(DRAWS)])
    np.testing.assert_allclose(noise, noise.swapaxes(1, 2), atol=1e-12)
    assert_mean(noise, 0.0)
    assert_mean(noise @ INNER @ noise, law.sandwich(MEAN, INNER))
    frame = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 2.0]])
    assert_mean((frame @ noise @ frame.T) ** 2, law.entry_variance(MEAN, frame))


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_marginal_is_the_law_of_the_sub_matrix(law):
    block = np.ix_([0, 2], [0, 2])
    inner = np.array([[1.0, 0.3], [0.3, 0.5]])
    rng = np.random.default_rng(8)
    noise = np.array([(law.draw(MEAN, rng) - MEAN)[block] for _ in range(DRAWS)])
    marginal = law.marginal(3, 2)
    assert marginal.shift == law.shift
    if isinstance(law, InverseWishartLaw):
        # Scaled by the whole matrix's dof - d - 1, which the marginal's equals.
        assert marginal.dof - 2 - 1 == law.dof - 3 - 1
    assert_mean(noise @ inner @ noise, marginal.sandwich(MEAN[block], inner))


def test_noise_on_the_inverse_to_first_order():
    law = InverseGaussianLaw(1e-4, 1.4e-4)
    rng = np.random.default_rng(9)
    noise = np.array([law.draw(MEAN, rng) - MEAN for _ in range(DRAWS)])
    got = (noise @ INNER @ noise).mean(axis=0)
    np.testing.assert_allclose(got, law.sandwich(MEAN, INNER), rtol=0.1, atol=3e-9)
    np.testing.assert_allclose(
        (noise**2).mean(axis=0), law.entry_variance(MEAN, np.eye(3)), rtol=0.1
    )
    with pytest.raises(ValueError, match="all columns"):
        law.marginal(3, 2)


@pytest.mark.parametrize("law", [*LAWS, InverseGaussianLaw(0.1, 0.2)], ids=repr)
def test_dictionary_round_trip(law):
    assert NoiseLaw.from_dict(law.to_dict()) == law


def test_heavy_inverse_wishart_has_no_variance():
    law = InverseWishartLaw(6.0, 1.0)
    assert np.all(np.isinf(law.sandwich(MEAN, INNER)))
    assert np.all(np.isinf(law.entry_variance(MEAN, np.eye(3))))


def test_symmetric_gaussian_has_independent_entries_of_the_stated_spread():
    rng = np.random.default_rng(10)
    draws = np.array([symmetric_gaussian(3, 2.0, 3.0, rng) for _ in range(DRAWS)])
    assert np.array_equal(draws, draws.swapaxes(1, 2))
    upper = draws[:, *np.triu_indices(3)]
    expected = np.diag(np.where(np.equal(*np.triu_indices(3)), 9.0, 4.0))
    assert_mean(upper[:, :, None] * upper[:, None, :], expected)


def test_standard_wishart_refuses_fractional_singular_dof():
    with pytest.raises(ValueError, match="integer"):
        standard_wishart(3, 1.5, np.random.default_rng(0))


@pytest.mark.parametrize("law", [*LAWS, InverseGaussianLaw(0.01, 0.02)], ids=repr)
def test_entry_variance_is_a_sandwich_of_frame_rows(law):
    frame = np.random.default_rng(9).standard_normal((4, 3))
    variance = law.entry_variance(MEAN, frame)
    expected = [[f @ law.sandwich(MEAN, np.outer(g, g)) @ f for g in frame] for f in frame]
    np.testing.assert_allclose(variance, expected, rtol=1e-12)
