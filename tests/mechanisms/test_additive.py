"""Analyze Gauss, additive Wishart and matrix Laplace: calibration, law, public grid."""

import math

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.disclosure.repairs import expected_norm, feasible
from privgram.mechanisms import AnalyzeGauss, MatrixLaplace
from privgram.noise import GaussianLaw
from privgram.papers import sheffet
from privgram.papers.sheffet import AdditiveWishart, PublishedAdditiveWishart, PublishedAnalyzeGauss

EPSILON, DELTA = 1.0, 1e-6
MECHANISMS = [
    AnalyzeGauss(),
    AnalyzeGauss("triangular"),
    AdditiveWishart(),
    AdditiveWishart(scale=1.0),
    MatrixLaplace(),
]


@pytest.fixture
def moment():
    rng = np.random.default_rng(0)
    return pg.SecondMoment(4, bound=2.0).update(rng.standard_normal((200, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_exact_calibration_is_tight_and_safe(mechanism, adjacency):
    noise = mechanism.calibrate(22, 3.0, EPSILON, DELTA, adjacency)
    reached = noise.privacy.delta(EPSILON)
    assert reached <= DELTA
    if isinstance(mechanism, AnalyzeGauss):
        assert reached >= 0.999 * DELTA
    elif isinstance(mechanism, MatrixLaplace):
        assert reached >= (1 - 1e-9) * DELTA
    elif mechanism.scale is not None:
        one_less = sheffet.WishartProfile(noise.dof - 1, 22, 9.0 / noise.scale, adjacency)
        assert one_less.delta(EPSILON) > DELTA


def test_gauss_noise_at_the_figures_of_the_theory():
    # docs/theory: the limit of the Wishart's noise at (1, 1e-6), replace, is 4.225 B^2.
    assert AnalyzeGauss().calibrate(22, 1.0, EPSILON, DELTA).noise_std == pytest.approx(
        4.225, abs=5e-4
    )
    noise = AdditiveWishart(scale=1.0).calibrate(22, 1.0, EPSILON, DELTA)
    assert noise.noise_std == pytest.approx(8.12, abs=5e-3)
    assert noise.mean == 66
    assert AdditiveWishart().calibrate(22, 1.0, EPSILON, DELTA).noise_std < 1.05 * 4.2257


def test_one_column_cannot_move_by_more_than_one_row():
    replace = AnalyzeGauss().calibrate(1, 1.0, EPSILON, DELTA, "replace")
    assert replace.sigma == AnalyzeGauss().calibrate(1, 1.0, EPSILON, DELTA, "add-remove").sigma


def test_one_column_is_private_as_published():
    """The erratum is about two orthogonal rows, and there are none."""
    noise = PublishedAnalyzeGauss().calibrate(1, 1.0, EPSILON, DELTA, "replace")
    assert noise.privacy.delta(EPSILON) <= DELTA


def test_published_erratum_is_refused_unless_allowed():
    with pytest.raises(ValueError, match="allow_published_erratum"):
        PublishedAnalyzeGauss().calibrate(22, 1.0, 1.0, DELTA)
    noise = PublishedAnalyzeGauss(allow_published_erratum=True).calibrate(22, 1.0, 1.0, DELTA)
    assert noise.privacy.delta(1.0) == pytest.approx(7.0e-6, rel=0.01)


def test_published_wishart_takes_no_parameters():
    refuses(lambda: PublishedAdditiveWishart(dof=100), ValueError, "leave both None")


def test_given_degrees_of_freedom():
    noise = AdditiveWishart(dof=500).calibrate(22, 1.0, EPSILON, DELTA)
    assert noise.dof == 500
    assert 0.999 * DELTA <= noise.privacy.delta(EPSILON) <= DELTA
    with pytest.raises(ValueError, match="raise dof or scale"):
        AdditiveWishart(dof=30, scale=1.0).calibrate(22, 1.0, EPSILON, DELTA)


# Means and covariances of the noise over 2000 releases; each statistic within 5 standard
# errors, so with 16 statistics a mechanism the chance of a false alarm is under 1e-4.
@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        AnalyzeGauss(),
        AnalyzeGauss("triangular"),
        AdditiveWishart(debias=False),
        AdditiveWishart(),
        MatrixLaplace(),
        MatrixLaplace(dof=9),
    ],
    ids=repr,
)
def test_law_of_the_release(mechanism):
    moment = pg.SecondMoment(3, bound=1.0).update(np.eye(3)[[0, 1, 2] * 300])
    rng = np.random.default_rng(11)
    draws = [
        pg.release(moment, None, EPSILON, DELTA, rng=rng, mechanism=mechanism) for _ in range(2000)
    ]
    noise = np.array([r.matrix for r in draws]) - moment.matrix()
    law = draws[0].noise
    expected = law.shift * np.eye(3)
    error = noise.std(axis=0) / np.sqrt(len(noise))
    assert np.all(np.abs(noise.mean(axis=0) - expected) < 5 * error)
    centred = noise - expected
    squares = centred @ centred
    error = squares.std(axis=0) / np.sqrt(len(noise))
    expected = law.sandwich(moment.matrix(), np.eye(3))
    assert np.all(np.abs(squares.mean(axis=0) - expected) < 5 * error)
    assert centred[:, 0, 1].std() == pytest.approx(
        mechanism.calibrate(3, moment.sensitivity_bound, EPSILON, DELTA).noise_std, rel=0.08
    )


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_release_lies_on_its_public_grid(moment, mechanism):
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=mechanism)
    matrix = release.matrix + release.parameters.get("subtracted", 0.0) * np.eye(4)
    noise = mechanism.calibrate(4, moment.sensitivity_bound, EPSILON, DELTA).noise_std
    exponent = math.floor(math.log2(noise / moment.resolution)) - 10
    steps = matrix / (moment.resolution * 2.0**exponent)
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-3)
    assert np.array_equal(release.matrix, release.matrix.T)


def test_number_of_rows_is_public_under_replace_alone():
    columns = pg.Columns({"a": (0, 1), "b": (0, 1)}, missing="drop")
    moment = pg.SecondMoment(2, columns.bound, columns=columns)
    moment.update(np.array([[0.1, 0.2], [np.nan, 0.3], [0.3, 0.4]]))
    assert moment.n_rows == 2
    # The dropped row counts: which rows have gaps is nobody's business.
    assert pg.release(moment, None, 1.0, 1e-6, mechanism=AnalyzeGauss()).n_rows == 3
    assert (
        pg.release(moment, None, 1.0, 1e-6, adjacency="add-remove", mechanism=AnalyzeGauss()).n_rows
        is None
    )


def test_repairs():
    moment = pg.SecondMoment(5, bound=1.0)  # empty: the release is pure noise
    rng = np.random.default_rng(6)
    plain = pg.release(moment, None, 1.0, 1e-6, rng=rng, mechanism=AnalyzeGauss())
    assert np.linalg.eigvalsh(plain.matrix)[0] < 0
    rng = np.random.default_rng(6)
    projected = pg.release(
        moment, None, 1.0, 1e-6, rng=rng, mechanism=AnalyzeGauss(repair="project")
    )
    values, vectors = np.linalg.eigh(plain.matrix)
    np.testing.assert_allclose(projected.matrix, (vectors * values.clip(0)) @ vectors.T, atol=1e-9)
    rng = np.random.default_rng(6)
    shifted = pg.release(moment, None, 1.0, 1e-6, rng=rng, mechanism=AnalyzeGauss(repair="shift"))
    added = shifted.parameters["added"]
    np.testing.assert_allclose(shifted.matrix, plain.matrix + added * np.eye(5))
    assert shifted.noise.shift == added


def test_no_repair_where_none_is_needed(moment):
    big = moment.copy()
    for _ in range(12):
        big = big + big.copy()
    for repair in ("none", "shift", "project", "feasible"):
        release = pg.release(
            big,
            None,
            1.0,
            1e-6,
            rng=np.random.default_rng(2),
            mechanism=AnalyzeGauss(repair=repair),
        )
        assert release.noise.shift == 0.0
        np.testing.assert_array_equal(
            release.matrix,
            pg.release(
                big, None, 1.0, 1e-6, rng=np.random.default_rng(2), mechanism=AnalyzeGauss()
            ).matrix,
        )


def test_expected_norm_by_quadrature():
    # d = 1: E|N| = sigma sqrt(2/pi).  d = 2, isotropic: the eigenvalues are m +- r with
    # m ~ N(0, 1/2), r^2 ~ chi2_2 / 2 (in units of sigma), so ||N|| = |m| + r and
    # E||N|| = sqrt(1/pi) + sqrt(pi)/2.
    assert expected_norm(GaussianLaw(1.0, 3.0), 1) == pytest.approx(
        3 * math.sqrt(2 / math.pi), rel=0.06
    )
    assert expected_norm(GaussianLaw(1 / math.sqrt(2), 1.0), 2) == pytest.approx(
        math.sqrt(1 / math.pi) + math.sqrt(math.pi) / 2, rel=0.06
    )


def test_debiasing_keeps_the_release_positive_definite():
    empty = pg.SecondMoment(6, bound=1.0)
    rich = pg.SecondMoment(6, bound=1.0).update(np.tile(np.eye(6), (3000, 1)))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for moment in (empty, rich):
            release = pg.release(moment, None, 1.0, 1e-6, rng=rng, mechanism=AdditiveWishart())
            noise = release.parameters
            assert np.linalg.eigvalsh(release.matrix)[0] > 0
            if moment is rich:
                assert noise["subtracted"] == noise["mean"]
                assert release.noise.shift == pytest.approx(0.0, abs=1e-9)
            else:
                assert noise["subtracted"] < noise["mean"]


def test_infinitesimal_epsilon_is_refused_not_wrapped(moment):
    with pytest.raises(ValueError, match=r"2\*\*126|epsilon|noise"):
        pg.release(moment, None, 1e-30, 1e-300, mechanism=AnalyzeGauss())


def test_feasible_is_the_projection():
    """No feasible matrix is nearer: (M - P) is at most orthogonal to X - P, for every such X."""
    rng = np.random.default_rng(3)
    for n_rows in (0, 1, 5, 60, None):
        noise = AnalyzeGauss().calibrate(4, 1.3, 1.0, 1e-6, n_rows=n_rows)
        most = math.inf if n_rows is None else n_rows * 1.3**2
        for _ in range(20):
            matrix = 10 * rng.standard_normal((4, 4))
            matrix += matrix.T
            nearest, moved = feasible(matrix, noise)
            assert np.linalg.eigvalsh(nearest)[0] >= -1e-12 * np.abs(matrix).max()
            assert np.trace(nearest) <= most * (1 + 1e-12)
            assert moved == pytest.approx(np.linalg.norm(nearest - matrix), rel=1e-9)
            for rank in (0, 1, 4, 4):
                half = rng.standard_normal((4, rank))
                other = half @ half.T
                if rank:
                    other *= min(most, 100.0) * rng.uniform() / np.trace(other)
                slope = np.sum((matrix - nearest) * (other - nearest))
                assert slope <= 1e-9 * np.linalg.norm(matrix) ** 2


@pytest.mark.parametrize("kind", [AnalyzeGauss, MatrixLaplace])
def test_what_is_drawn_of_no_rows_is_repaired_to_no_rows(kind):
    """Also where rows are too few to be told from none beside the noise."""
    for epsilon, row in ((1.0, np.zeros((0, 2))), (1e-17, np.ones((1, 2)))):
        moment = pg.second_moment(row, bound=2.0)
        release = pg.release(moment, None, epsilon, 1e-6, mechanism=kind(repair="feasible"))
        assert np.abs(release.matrix).max() <= 4.0
        assert release.parameters["moved"] > 0


def test_feasible_keeps_what_is_feasible():
    noise = AnalyzeGauss().calibrate(3, 1.0, 1.0, 1e-6, n_rows=100)
    matrix = np.diag([50.0, 30.0, 19.0])
    nearest, moved = feasible(matrix, noise)
    assert nearest is matrix
    assert moved == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("kind", [AnalyzeGauss, MatrixLaplace])
def test_inference_is_refused_where_the_repair_binds(kind, adjacency, tmp_path):
    rng = np.random.default_rng(4)
    # All of the norm that is allowed: the trace is at its limit, and noise exceeds it every other
    # time; in two columns the eigenvalues are far above the noise.
    angle = rng.uniform(0, 2 * np.pi, 20_000)
    moment = pg.second_moment(np.stack([np.cos(angle), np.sin(angle)], axis=1), bound=1.0)
    fits = {True: 0, False: 0}
    for seed in range(12):
        plain, repaired = (
            pg.release(
                moment,
                None,
                1.0,
                1e-6,
                adjacency=adjacency,
                rng=np.random.default_rng(seed),
                mechanism=kind(repair=repair),
            )
            for repair in ("none", "feasible")
        )
        moved = repaired.parameters["moved"]
        assert moved == pytest.approx(np.linalg.norm(repaired.matrix - plain.matrix), rel=1e-9)
        assert repaired.privacy == plain.privacy
        fits[moved > 0] += 1
        if adjacency == "replace":
            refusal = repaired.regress(0).refusal
            assert (refusal is None) == (moved == 0)
            if moved:
                assert "the repair moved the released matrix" in refusal
            edges = [release.pca().edge[0] for release in (plain, repaired)]
            assert edges[1] == pytest.approx(edges[0] * (2 if moved else 1), rel=1e-6)
    # Under add-remove the number of rows is private, and so is the limit.
    assert fits[False] == 12 if adjacency == "add-remove" else 2 <= fits[True] <= 10
    repaired.save(tmp_path / "release.json")
    assert pg.load(tmp_path / "release.json").parameters["moved"] == moved
    assert repaired.marginal([0]).parameters["moved"] == moved
