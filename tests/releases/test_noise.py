"""Each noise law against draws from it: means and E[N A N].

Every comparison is of a mean over independent draws with its exact value, in
standard errors estimated from the draws; with 20 000 draws and a limit of 5 the
chance of a false alarm is under 1e-4 for the whole module.
"""

import json

import numpy as np
import pytest
from support.helpers import refuses

from privgram.noise import (
    EntryLaw,
    GaussianLaw,
    ImageLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    TiedLaw,
    combine,
    standard_wishart,
)
from privgram.papers.sheffet import InverseGaussianLaw, InverseWishartLaw, SketchLaw, WishartLaw

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

#: The law of L M L^T of three columns from so many, and others of what is made of releases.
SQUARE = np.array([[1.0, 0.4, 0.0], [-0.2, 2.0, 0.3], [0.5, 0.0, 0.7]])
WIDE = np.array([[1.0, 0.4, 0.0, 0.3], [-0.2, 2.0, 0.3, 0.0], [0.5, 0.0, 0.7, -1.0]])
ISOTROPIC = GaussianLaw(0.7, 0.7 * np.sqrt(2), added=0.5)
TIES = (((0, 1, 1.0), (0, 2, -2.0)), ((1, 1, 1.0), (0, 1, 0.5)), ((0, 0, 1.0), (0, 0, -1.0)))
MADE = {
    **{f"square image of {law}": ImageLaw(law, SQUARE) for law in LAWS},
    **{f"wide image of {law}": law.image(WIDE) for law in LAWS},
    "masked": MaskedLaw(GaussianLaw(0.7, 1.2), ((0, 2),)),
    "image of masked": ImageLaw(MaskedLaw(GaussianLaw(0.7, 1.2), ((0, 3), (2, 1))), WIDE),
    "tied": TiedLaw(ISOTROPIC, TIES),
    "tied, masked": TiedLaw(MaskedLaw(ISOTROPIC, ((1, 2),)), (*TIES, ((0, 0, 1.0), (1, 2, 3.0)))),
    "entries": EntryLaw([[1.0, 0.0, 0.3], [0.0, 0.5, 2.0], [0.3, 2.0, 0.1]]),
}


def assert_mean(draws, expected):
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 5 * error + 1e-12)


@pytest.mark.long
@pytest.mark.parametrize("law", [*LAWS, *MADE.values()], ids=[*map(repr, LAWS), *MADE])
def test_moments(law):
    rng = np.random.default_rng(7)
    noise = np.array([law.draw(MEAN, rng) - MEAN for _ in range(DRAWS)])
    np.testing.assert_allclose(noise, noise.swapaxes(1, 2), atol=1e-12)
    assert_mean(noise, 0.0)
    assert_mean(noise @ INNER @ noise, law.sandwich(MEAN, INNER))
    frame = np.array([[1.0, 0.5, 0.0], [0.2, -1.0, 2.0]])
    assert_mean((frame @ noise @ frame.T) ** 2, law.entry_variance(MEAN, frame))


@pytest.mark.slow
def test_noise_on_the_inverse_to_first_order():
    law = InverseGaussianLaw(1e-4, 1.4e-4)
    rng = np.random.default_rng(9)
    noise = np.array([law.draw(MEAN, rng) - MEAN for _ in range(DRAWS)])
    got = (noise @ INNER @ noise).mean(axis=0)
    np.testing.assert_allclose(got, law.sandwich(MEAN, INNER), rtol=0.1, atol=3e-9)
    np.testing.assert_allclose(
        (noise**2).mean(axis=0), law.entry_variance(MEAN, np.eye(3)), rtol=0.1
    )
    refuses(lambda: law.marginal(3, [0, 2]), ValueError, "all columns")


@pytest.mark.parametrize(
    "law",
    [*LAWS, *MADE.values(), InverseGaussianLaw(0.1, 0.2)],
    ids=[*map(repr, LAWS), *MADE, "inverse"],
)
def test_dictionary_round_trip(law):
    law.check(3)
    saved = json.dumps(law.to_dict())
    assert NoiseLaw.from_dict(json.loads(saved)) == law
    assert json.dumps(NoiseLaw.from_dict(json.loads(saved)).to_dict()) == saved


def test_heavy_inverse_wishart_has_no_variance():
    law = InverseWishartLaw(6.0, 1.0)
    assert np.all(np.isinf(law.sandwich(MEAN, INNER)))
    assert np.all(np.isinf(law.entry_variance(MEAN, np.eye(3))))


def test_standard_wishart_refuses_fractional_singular_dof():
    refuses(lambda: standard_wishart(3, 1.5, np.random.default_rng(0)), ValueError, "integer")


@pytest.mark.parametrize(
    "law",
    [*LAWS, *MADE.values(), InverseGaussianLaw(0.01, 0.02)],
    ids=[*map(repr, LAWS), *MADE, "inverse"],
)
def test_entry_variance_is_a_sandwich_of_frame_rows(law):
    frame = np.random.default_rng(9).standard_normal((4, 3))
    variance = law.entry_variance(MEAN, frame)
    expected = [[f @ law.sandwich(MEAN, np.outer(g, g)) @ f for g in frame] for f in frame]
    np.testing.assert_allclose(variance, expected, rtol=1e-12)
    # Of many frames at once, each as by itself.
    frames = np.random.default_rng(10).standard_normal((2, 5, 4, 3))
    each = [[law.entry_variance(MEAN, frame) for frame in row] for row in frames]
    np.testing.assert_allclose(law.entry_variance(MEAN, frames), each, rtol=1e-12)


def assert_same_law(law, other, matrix=MEAN):
    """Alike in all that is asked of a law."""
    d = len(matrix)
    rng = np.random.default_rng(11)
    frame, root = rng.standard_normal((4, d)), rng.standard_normal((d, d))
    np.testing.assert_allclose(law.shift_matrix(d), other.shift_matrix(d), atol=1e-12)
    for matrix_, inner in ((matrix, root @ root.T), (matrix + np.eye(d), root + root.T)):
        np.testing.assert_allclose(
            law.sandwich(matrix_, inner), other.sandwich(matrix_, inner), rtol=1e-9, atol=1e-9
        )
    np.testing.assert_allclose(
        law.entry_variance(matrix, frame), other.entry_variance(matrix, frame), rtol=1e-9
    )


@pytest.mark.parametrize("law", [*LAWS, *(MADE[k] for k in MADE if "image" not in k)], ids=repr)
def test_images_of_images_are_images(law):
    assert_same_law(law.image(np.eye(3)), law)
    assert_same_law(ImageLaw(law, np.eye(3)), law)
    turn = np.array([[0.0, 1.0, 0.5], [2.0, 0.0, 0.0], [0.0, -1.0, 1.0]])
    assert_same_law(law.image(SQUARE).image(turn), ImageLaw(ImageLaw(law, SQUARE), turn))
    assert_same_law(law.image(SQUARE).image(np.linalg.inv(SQUARE)), law)


@pytest.mark.parametrize("law", [*LAWS, *MADE.values()], ids=[*map(repr, LAWS), *MADE])
def test_marginal_is_the_image_under_a_choice_of_columns(law):
    choice = np.eye(3)[[2, 0]]
    assert_same_law(law.marginal(3, [2, 0]), law.image(choice), choice @ MEAN @ choice.T)
    assert_same_law(law.marginal(3, [1, 2, 0]), law.image(np.eye(3)[[1, 2, 0]]))


def test_image_of_an_inverse_wishart_in_fewer_columns():
    """Its degrees of freedom are those of the smaller matrix; nobody else's bear on its draws."""
    law = InverseWishartLaw(15.0, 0.5)
    frame = WIDE[:2]
    small = MEAN[:2, :2]
    image = law.image(frame)
    assert image.base == InverseWishartLaw(13.0, 0.5)
    np.testing.assert_allclose(image.shift_matrix(2), 0.5 * frame @ frame.T)
    with pytest.raises(ValueError, match="shift_matrix"):
        _ = image.shift
    rng = np.random.default_rng(12)
    draws = np.array([image.draw(small, rng) for _ in range(2000)])
    assert_mean(draws, small)
    assert_mean((draws - small)[:, 0, 0] ** 2, image.entry_variance(small, np.eye(2))[0, 0])
    # Of the release of four columns, in which these two are combinations.
    whole = np.linalg.pinv(frame) @ small @ np.linalg.pinv(frame).T
    np.testing.assert_allclose(
        image.entry_variance(small, np.eye(2)), law.entry_variance(whole, frame)
    )


def test_mask_without_zeros_and_no_ties_change_nothing():
    for law in (MaskedLaw(ISOTROPIC, ()), MaskedLaw(ISOTROPIC, ((1,),)), TiedLaw(ISOTROPIC, ())):
        assert_same_law(law, ISOTROPIC)
    zero = TiedLaw(ISOTROPIC, (((0, 2, 3.0),),))
    assert_same_law(zero, MaskedLaw(ISOTROPIC, ((0, 2),)))
    variances = MADE["masked"].independent(3)
    assert_same_law(EntryLaw(variances), MADE["masked"])


def test_projection_solves_its_ties_and_is_the_nearest_matrix_that_does():
    law = MADE["tied, masked"]
    whole = np.array([ISOTROPIC.draw(np.zeros((3, 3)), np.random.default_rng(1))])[0]
    left = law.draw(np.zeros((3, 3)), np.random.default_rng(1))
    ties = [*law.ties, ((1, 2, 1.0),)]
    solves = np.zeros((len(ties), 3, 3))
    for tie, matrix in zip(ties, solves, strict=True):
        for i, j, c in tie:
            matrix[i, j] += c / 2
            matrix[j, i] += c / 2
    np.testing.assert_allclose(np.tensordot(solves, left, 2), 0.0, atol=1e-12)
    np.testing.assert_allclose(left, left.T)
    # What was taken off is a combination of the ties.
    off = (whole - left).ravel()
    basis = solves.reshape(len(ties), -1).T
    np.testing.assert_allclose(basis @ (np.linalg.pinv(basis) @ off), off, atol=1e-12)


def test_ties_are_of_isotropic_noise():
    refuses(lambda: TiedLaw(GaussianLaw(1.0, 1.0), TIES), ValueError, "isotropic")


def test_combined_releases_have_the_law_of_the_weighted_sum():
    exact = MaskedLaw(GaussianLaw(1.0, 1.0), ((0, 1),))
    laws = [GaussianLaw(0.7, 1.0), EntryLaw(MADE["entries"].variances + 0.1), exact]
    weights, law = combine(laws, 3)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0)
    variances = [law.independent(3) for law in laws]
    np.testing.assert_allclose(law.variances, (weights**2 * variances).sum(axis=0))
    assert weights[2, 0, 1] == 1.0
    assert law.variances[0, 1] == 0.0
    assert (law.variances <= np.min(variances, axis=0)).all()
    # Two alike: their mean, with half the variance.
    weights, law = combine([GaussianLaw(1.0, np.sqrt(2))] * 2, 3)
    np.testing.assert_allclose(weights, 0.5)
    assert_same_law(law, GaussianLaw(np.sqrt(0.5), 1.0))
    for bad in (WishartLaw(1.0, 9.0), GaussianLaw(1.0, 1.0, added=1.0), ImageLaw(laws[0], SQUARE)):
        with pytest.raises(ValueError, match="independent entries"):
            combine([bad], 3)


def test_isotropic_noise_keeps_independent_entries_along_orthogonal_directions():
    turn = np.linalg.qr(SQUARE)[0]
    frame = np.array([[3.0], [0.1], [20.0]]) * turn
    law = ImageLaw(GaussianLaw(0.7, 0.7 * np.sqrt(2)), frame)
    assert_same_law(EntryLaw(law.independent(3)), law)
    assert ImageLaw(GaussianLaw(0.7, 0.7), frame).independent(3) is None


@pytest.mark.parametrize(
    ("law", "problem"),
    [
        (ImageLaw(ISOTROPIC, SQUARE[:2]), "3 rows"),
        (ImageLaw(ISOTROPIC, np.full((3, 3), np.inf)), "finite"),
        (ImageLaw(GaussianLaw(-1.0, 1.0), SQUARE), "std of the noise"),
        (MaskedLaw(ISOTROPIC, ((0, 3),)), "not among the 3"),
        (MaskedLaw(ISOTROPIC, ((0, 1), (1, 2))), "two blocks"),
        (TiedLaw(ISOTROPIC, (((0, 5, 1.0),),)), "not among the 3"),
        (TiedLaw(ISOTROPIC, (((2, 0, 1.0),),)), "i <= j"),
        (EntryLaw(np.ones((2, 2))), "3 x 3"),
        (EntryLaw(-np.ones((3, 3))), "not negative"),
    ],
    ids=str,
)
def test_unsound_parameters_of_a_file_are_refused(law, problem):
    refuses(lambda: law.check(3), ValueError, problem)
