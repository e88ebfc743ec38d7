"""Principal components of a release and the bound on their error."""

from dataclasses import replace

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram.columns import Columns
from privgram.multivariate import Variables, pca
from privgram.noise import GaussianLaw
from privgram.papers.sheffet import SketchLaw
from privgram.regression import RefusedError


def projection(components):
    return components.T @ components


def test_known_shift_is_removed():
    law = SketchLaw(1000, 5.0)
    result = make_release(np.diag([9.0, 7.0]), "ab", law).pca()
    np.testing.assert_allclose(result.explained_variance_, [4.0, 2.0])
    assert result.error_bound == 0.0  # the whole space


@pytest.mark.long
@pytest.mark.parametrize(
    "law", [GaussianLaw(0.3, 0.45), GaussianLaw(2.0, 3.0), SketchLaw(4000, 0.1)], ids=repr
)
def test_bound_holds_as_often_as_it_says(law):
    # 100 trials at 95 %: fewer than 86 successes has probability under 1e-3 were the
    # bound exactly tight, and it is far from tight.
    rng = np.random.default_rng(2)
    truth = np.diag([100.0, 60.0, 30.0, 10.0, 5.0])
    good = informative = 0
    for _ in range(100):
        matrix = law.draw(truth + law.shift * np.eye(5), rng)
        result = pca(make_release(matrix, "abcde", law), 2)
        error = np.linalg.norm(projection(result.components_) - np.diag([1.0, 1, 0, 0, 0]))
        good += error <= result.error_bound
        informative += result.error_bound < 2.0
    assert good >= 86
    assert informative > 83


def test_bound_is_trivial_when_noise_swamps_the_gap():
    result = make_release(np.diag([2.0, 1.9, 1.8]), "abc", GaussianLaw(5.0, 7.0)).pca(1)
    assert result.error_bound == pytest.approx(np.sqrt(2))


BOUNDS = {"a": (-10.0, 30.0), "b": (5.0, 6.0)}


@pytest.fixture
def sample():
    """Rows in their own units, and the second moment of them scaled, with a column of ones."""
    rng = np.random.default_rng(4)
    rows = rng.uniform([-10, 5], [30, 6], (50, 2)) @ [[1.0, 0.0], [0.01, 1.0]]
    scaled = Columns(BOUNDS, intercept=True).encoder.table(list(rows.T))
    return (scaled[:, :2] * [20, 0.5] + [10, 5.5]), scaled.T @ scaled


NAMES = ("a", "b", "intercept")


def mean_and_covariance(release):
    covariance = Variables(release, center=True).covariance
    return covariance.mean, covariance.matrix


def test_mean_and_covariance_are_those_of_the_rows(sample):
    rows, gram = sample
    columns = Columns(BOUNDS, intercept=True)
    public = replace(make_release(gram, NAMES, n_rows=50, columns=columns), bound=columns.bound)
    for release in (public, replace(public, n_rows=None), public.marginal(["intercept", "a", "b"])):
        mean, covariance = mean_and_covariance(release)
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(covariance, np.cov(rows.T), rtol=1e-10)
    mean, covariance = mean_and_covariance(public.marginal(["b", "intercept"]))
    np.testing.assert_allclose(
        [mean, covariance[0]], [rows[:, 1:].mean(0), [rows[:, 1].var(ddof=1)]]
    )
    bare = rows.T @ rows, rows.sum(axis=0)
    gram = np.block([[bare[0], bare[1][:, None]], [bare[1], 50.0]])
    mean, covariance = mean_and_covariance(make_release(gram, NAMES))
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(rows.T), rtol=1e-9)


def test_public_count_is_used_where_every_row_counts_in_full(sample):
    rows, gram = sample
    columns = Columns(BOUNDS, intercept=True, missing="error")
    whole = replace(make_release(gram, NAMES, n_rows=50, columns=columns), bound=columns.bound)
    gram[2, 2] += 7.0  # noise in the count
    noisy = replace(whole, matrix=gram)
    np.testing.assert_allclose(mean_and_covariance(noisy)[0], rows.mean(axis=0), rtol=1e-12)
    released = (rows.mean(axis=0) - [10, 5.5]) * 50 / 57 + [10, 5.5]
    dropping = Columns(BOUNDS, intercept=True, missing="drop")
    for other in (
        replace(noisy, n_rows=None),
        replace(noisy, bound=1.0),
        replace(noisy, columns=dropping),
        replace(noisy, noise=SketchLaw(1000, 0.0)),
    ):
        np.testing.assert_allclose(mean_and_covariance(other)[0], released, rtol=1e-12)


def test_mean_stays_within_the_bounds_and_needs_ones(sample):
    columns = Columns(BOUNDS, intercept=True)
    gram = np.array([[9.0, 0.0, 80.0], [0.0, 9.0, -80.0], [80.0, -80.0, -3.0]])
    mean, covariance = mean_and_covariance(make_release(gram, NAMES, columns=columns))
    np.testing.assert_array_equal(mean, [30.0, 5.0])
    assert np.isfinite(covariance).all()
    for names, words in ((["a", "b"], "column of ones"), (["intercept"], "no column but")):
        with pytest.raises(ValueError, match=words):
            mean_and_covariance(make_release(gram, NAMES).marginal(names))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_components_of_a_release_with_an_intercept_are_about_the_mean(order):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((400, 2)) @ [[1.0, 0.5], [0.0, 0.3]] + [30.0, -8.0]
    table = np.column_stack([rows, np.ones(400)])[:, order]
    names = tuple(np.array(["a", "b", "intercept"])[list(order)])
    release = make_release(table.T @ table, names)
    result = release.pca()
    assert result.names == ("a", "b")
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    np.testing.assert_allclose(result.explained_variance_, values[::-1], rtol=1e-8)
    np.testing.assert_allclose(projection(result.components_[:1]), projection(vectors.T[1:]))
    np.testing.assert_allclose(result.mean_, rows.mean(axis=0))
    np.testing.assert_allclose(pca(release).eigenvalues, values[::-1], rtol=1e-8)
    # About zero the mean is the first component, and the ones are no variable there either.
    plain = release.pca(center=False)
    assert plain.names == ("a", "b")
    assert plain.mean_ is None
    np.testing.assert_allclose(plain.explained_variance_, np.linalg.eigvalsh(rows.T @ rows)[::-1])


def test_centring_is_refused_where_nothing_was_released_to_centre_by():
    with pytest.raises(ValueError, match=r"Columns\(..., intercept=True\)"):
        make_release(np.eye(3), "abc").pca(center=True)
    assert make_release(np.eye(3), "abc").pca().mean_ is None
    ones = make_release(np.eye(1), ["intercept"])
    refuses(lambda: ones.pca(), ValueError, "no column but the intercept")
    refuses(lambda: make_release(np.eye(3), "abc").pca(center="mean"), TypeError, "center")


@pytest.mark.parametrize("law", [GaussianLaw(4.0, 5.6), SketchLaw(4000, 3.0)], ids=repr)
def test_noise_of_the_mean_is_in_the_edge_and_in_the_bound(law):
    # 200 trials at 95 %: fewer than 175 have probability 1e-5.  The mean is at (0.9, 0.9, 0.9),
    # and without its noise the edge is short by a third.
    rng = np.random.default_rng(6)
    spread = np.diag([300.0, 200.0, 50.0])
    mean = np.full(3, 0.9)
    moment = np.block([[spread + 1000 * np.outer(mean, mean), 1000 * mean[:, None]],
                       [1000 * mean, 1000.0]])  # fmt: skip

    def drawn():
        matrix = law.draw(moment + law.shift * np.eye(4), rng)
        return make_release(matrix, ("a", "b", "c", "intercept"), law)

    release = drawn()
    edge = release.pca().edge[0]
    off = [np.abs(pca(drawn()).eigenvalues - np.diag(spread)).max() for _ in range(200)]
    assert np.sum(np.array(off) <= edge) >= 175
    result = release.pca(2)
    distance = np.linalg.norm(projection(result.components_) - np.diag([1.0, 1.0, 0.0]))
    assert distance <= result.error_bound < np.sqrt(2)
    if isinstance(law, GaussianLaw):
        assert edge > 1.4 * release.marginal(["a", "b", "c"]).pca().edge[0]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_sketch_of_fewer_rows_than_columns_has_an_edge(rows):
    sample = np.random.default_rng(7).standard_normal((rows, 4))
    release = make_release(sample.T @ sample, "abcd", SketchLaw(rows, 0.1))
    assert 0 < release.pca().edge[0] < np.inf
    assert release.pca(1).error_bound <= np.sqrt(2)


def factors(rng, rows, names="abcdef"):
    """A release of rows of one common factor behind three columns, and three of their own."""
    common = rng.standard_normal((rows, 1))
    table = np.column_stack(
        [common + rng.standard_normal((rows, 3)), rng.standard_normal((rows, 3))]
    )
    table = np.column_stack([table * [1, 2, 3, 1, 2, 3] + 1.0, np.ones(rows)])
    law = GaussianLaw(15.0, 21.0)
    return make_release(law.draw(table.T @ table, rng), (*names, "intercept"), law, n_rows=rows)


def test_standard_errors_are_the_spread_over_tables_and_releases():
    # 60 draws of a deviation are within 9.2 % of it at one sigma: 40 % is 4 sigma. Errors are those
    # at a release, and their mean is compared.
    rng = np.random.default_rng(8)
    several = [factors(rng, 1000).pca(1, standardize=True) for _ in range(60)]
    spread = np.std([one.components_[0] for one in several], axis=0)
    stated = np.mean([one.stderr[0] for one in several[:6]], axis=0)
    np.testing.assert_allclose(stated, spread, rtol=0.4)


@pytest.mark.slow
def test_edge_of_correlations_counts_what_is_common():
    # The first of one factor is clear; a second would be in 1 of 20: 4 of 20 has probability 0.016.
    rng = np.random.default_rng(9)
    counts = [factors(rng, 1000).pca("auto", standardize=True).n_components_ for _ in range(20)]
    assert min(counts) == 1
    assert np.mean(np.array(counts) > 1) < 0.2


def test_hidden_variance_is_refused_by_name():
    matrix = np.diag([100.0, -3.0, 50.0])
    release = make_release(matrix, ("a", "b", "intercept"), GaussianLaw(2.0, 3.0), n_rows=50)
    refuses(lambda: release.pca(standardize=True), RefusedError, "hides the variance of b")
    assert release.pca(1, standardize=True, columns=["a"]).names == ("a",)


def test_own_units_need_the_number_of_rows():
    release = make_release(np.diag([4.0, 9.0]), "ab")
    for asked in ({"units": "own"}, {"standardize": True}):
        with pytest.raises(RefusedError, match="number of rows"):
            release.pca(**asked)
    counted = replace(release, n_rows=100).pca(standardize=True)
    assert counted.eigenvalues.sum() == pytest.approx(2)
    for units in ("sd", ["own"]):
        refuses(lambda units=units: release.pca(units=units), ValueError, "'bounds' or 'own'")
    refuses(lambda: release.pca(standardize="yes"), TypeError, "standardize")
    refuses(lambda: release.pca(columns=["c"]), ValueError, "no column 'c'")
    refuses(lambda: release.pca(columns=["a", "a"]), ValueError, "different")


def test_scores_are_of_rows_in_own_units():
    columns = Columns({"a": (0.0, 4.0), "g": ["x", "y"]}, intercept=True)
    table = {"a": np.array([0.0, 4.0, 2.0]), "g": ["x", "y", "y"]}
    rows = columns.encode(table)
    pca = make_release(rows.T @ rows, columns.names, n_rows=3, columns=columns).pca()
    np.testing.assert_allclose(pca.transform(table).mean(axis=0), 0.0, atol=1e-12)
    squares = (pca.transform(table) ** 2).sum(axis=0)
    np.testing.assert_allclose(squares, pca.explained_variance_, atol=1e-12)
    with pytest.raises(ValueError, match="rows of 2 columns"):
        make_release(np.eye(2), "ab").pca().transform(np.zeros((3, 3)))


@pytest.mark.long
def test_errors_of_noise_alone_are_about_these_rows():
    """Their spread over releases of the same rows: of 60 it is within 9.2 % at one sigma."""
    rng, law = np.random.default_rng(13), GaussianLaw(12.0, 17.0)
    table = rng.standard_normal((2000, 2)) @ [[1, 1, 0.5, 0], [0, 0, 0.5, 1]]
    table = np.column_stack([table + 0.5 * rng.standard_normal((2000, 4)), np.ones(2000)])
    names = (*"abcd", "intercept")

    def release():
        return make_release(law.draw(table.T @ table, rng), names, law, n_rows=2000)

    several = [release() for _ in range(60)]
    expected = np.std([one.pca(1, standardize=True).components_ for one in several], axis=0)
    first = several[0].pca(1, standardize=True)
    ratio = first.noise_stderr / expected
    assert np.all((ratio > 0.55) & (ratio < 1.45))
    assert np.all(first.noise_stderr < first.stderr)


def test_weighted_rows_without_ones_have_correlations_about_zero_alone():
    """Their weights have no known sum, by which a variance would be divided."""
    rng = np.random.default_rng(3)
    rows = np.column_stack([rng.uniform(-1, 1, (500, 2)), rng.uniform(0, 1, 500)])
    rows[:, 1] += rows[:, 0]
    columns = Columns({"a": (-2, 2), "b": (-2, 2), "w": (0, 1)}, row_weights="w")
    release = pg.release(rows, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    covariance = Variables(release).covariance
    moment = (rows[:, :2] * rows[:, 2:]).T @ rows[:, :2]
    expected = moment / np.sqrt(np.outer(moment.diagonal(), moment.diagonal()))
    np.testing.assert_allclose(covariance.correlation, expected, atol=1e-5)
    assert np.isnan(covariance.rows)
    with pytest.raises(RefusedError, match="intercept=True"):
        _ = covariance.std


def test_parts_of_no_positive_whole_are_said_to_be_unknown():
    one = make_release(np.diag([-50.0, 3.0, 100.0]), ("a", "b", "intercept"), n_rows=100).pca()
    assert np.isnan(one.explained_variance_ratio_).all()
    assert "parts of it are unknown" in str(one)
