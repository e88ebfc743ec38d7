"""The automatic ridge: identities, an independent route, limits, and risk on synthetic tables."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from privgram.papers.sheffet import InverseWishartLaw, SketchLaw
from privgram.regression.least_squares import Sketch, _unrepelled, auto_ridge, possible_rows

Matrix = NDArray[np.float64]


def isotropic(std: float):
    """Noise of deviation `std` off the diagonal and sqrt(2) std on it, in any basis."""

    def entry_variance(frame: Matrix) -> Matrix:
        metric = frame @ frame.T
        size = np.diag(metric)
        return std**2 * (np.outer(size, size) + metric**2)

    return entry_variance


def draw_noise(d: int, std: float, rng: np.random.Generator) -> Matrix:
    half = rng.standard_normal((d, d))
    return std * (half + half.T) / np.sqrt(2)


def table(seed: int, intercept: bool = False) -> tuple[Matrix, int]:
    """Second moment of n rows of unit norm at most: features, optional ones, target."""
    rng = np.random.default_rng(seed)
    n, d = int(10 ** rng.uniform(3, 5)), int(rng.integers(2, 20))
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) * rng.uniform(0.05, 1, d)
    y = X @ rng.standard_normal(d)
    y = y / y.std() + rng.uniform(0.3, 3) * rng.standard_normal(n)
    if intercept:
        X = np.column_stack([X + rng.uniform(-1, 1, d), np.ones(n)])
    X /= np.linalg.norm(X, axis=1).max()
    rows = np.column_stack([X, y / np.abs(y).max()]) / np.sqrt(2)
    return rows.T @ rows, n


def solve(matrix: Matrix, penalty: Matrix | float) -> NDArray[np.float64]:
    d = len(matrix) - 1
    return np.linalg.solve(matrix[:-1, :-1] + penalty * np.eye(d) if np.isscalar(penalty)
                           else matrix[:-1, :-1] + penalty, matrix[:-1, -1])  # fmt: skip


def excess(moment: Matrix, coef: NDArray[np.float64]) -> float:
    """Squared error above least squares, relative to that of predicting zero."""
    gap = coef - np.linalg.solve(moment[:-1, :-1], moment[:-1, -1])
    best = moment[:-1, -1] @ np.linalg.solve(moment[:-1, :-1], moment[:-1, -1])
    return float(gap @ moment[:-1, :-1] @ gap / best)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_penalised_matrix_is_positive_definite(seed: int, intercept: bool) -> None:
    moment, n = table(seed, intercept)
    rng = np.random.default_rng(seed)
    for std in n * np.logspace(-6, 3, 10):
        released = moment + draw_noise(len(moment), std, rng)
        penalty = auto_ridge(released, isotropic(std), intercept=intercept)
        np.testing.assert_array_equal(penalty, penalty.T)
        assert np.linalg.eigvalsh(released[:-1, :-1] + penalty)[0] > 0


@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_so_where_noise_turned_every_eigenvalue_negative(d: int) -> None:
    released = -np.diag(np.arange(1.0, d + 2))
    penalty = auto_ridge(released, isotropic(3.0))
    assert np.linalg.eigvalsh(released[:-1, :-1] + penalty)[0] > 0


def test_scale_equivariance() -> None:
    moment, n = table(1)
    std = 0.01 * n
    released = moment + draw_noise(len(moment), std, np.random.default_rng(1))
    penalty = auto_ridge(released, isotropic(std))
    scaled = auto_ridge(1e-3 * released, isotropic(1e-3 * std))
    np.testing.assert_allclose(scaled, 1e-3 * penalty, rtol=1e-9, atol=1e-12 * std)


def test_rotating_the_features_rotates_the_penalty() -> None:
    moment, n = table(2)
    rng = np.random.default_rng(2)
    std = 0.01 * n
    released = moment + draw_noise(len(moment), std, rng)
    d = len(moment) - 1
    turn = np.eye(d + 1)
    turn[:-1, :-1] = np.linalg.qr(rng.standard_normal((d, d)))[0]
    penalty = auto_ridge(released, isotropic(std))
    turned = auto_ridge(turn @ released @ turn.T, isotropic(std))
    expected = turn[:-1, :-1] @ penalty @ turn[:-1, :-1].T
    np.testing.assert_allclose(turned, expected, rtol=1e-7, atol=1e-9 * np.abs(penalty).max())


@pytest.mark.slow
def test_one_feature_is_the_posterior_mean_by_brute_force() -> None:
    x, cross, square, std = 3.0, 2.5, 9.0, 1.3
    width = np.sqrt(2) * std
    # A plain Riemann sum over the feature's moment and the share explained.
    g = (np.arange(20_000) + 0.5)[:, None] * 1e-3
    share = (np.arange(200) + 0.5) / 200
    prior = stats.norm.pdf(g, x, width)
    known = square * square**2 / (square**2 + width**2)
    spread = share * known / ((prior * g).sum() / prior.sum())
    total = spread * g**2 + std**2
    weight = prior * stats.norm.pdf(cross, scale=np.sqrt(total))
    weight /= weight.sum()
    mean = (weight * g).sum()
    explained = cross * (weight * (1 - std**2 / total)).sum()
    penalty = auto_ridge(np.array([[x, cross], [cross, square]]), isotropic(std))[0, 0]
    # Sixteen midpoints of the share against a continuum.
    assert cross / (x + penalty) == pytest.approx(explained / (mean + std), rel=1e-3)


@pytest.mark.parametrize("spread", [4.0, 6.0])
def test_repulsion_undone_is_the_moment_along_the_released_eigenvectors(spread: float) -> None:
    rng = np.random.default_rng(8)
    truth = np.diag(spread * np.arange(12.0))
    raw, undone = [], []
    for _ in range(3_000):
        values, vectors = np.linalg.eigh(truth + draw_noise(12, 1.0, rng))
        along = np.einsum("ij,ik,kj->j", vectors, truth, vectors)
        variance = isotropic(1.0)(np.eye(12))
        raw.append(values - along)
        undone.append(_unrepelled(values, variance) - along)
    # The bias of the extreme eigenvalues, where all the others push the same way.
    raw_bias, bias = np.mean(raw, axis=0)[[0, -1]], np.mean(undone, axis=0)[[0, -1]]
    assert np.all(np.abs(raw_bias) > 5 / spread)
    assert np.all(np.abs(bias) < 0.25 * np.abs(raw_bias))


@pytest.mark.parametrize("intercept", [False, True])
def test_without_noise_least_squares_remains(intercept: bool) -> None:
    moment, _ = table(5, intercept)
    exact = solve(moment, 0.0)
    assert not auto_ridge(moment, isotropic(0.0), intercept=intercept).any()
    gaps = []
    for std in (1e-5, 1e-7, 1e-9):
        released = moment + draw_noise(len(moment), std, np.random.default_rng(5))
        penalty = auto_ridge(released, isotropic(std), intercept=intercept)
        assert np.abs(penalty).max() < 100 * std * len(moment)
        gaps.append(np.linalg.norm(solve(released, penalty) - exact))
    assert gaps[2] < 1e-3 * gaps[0]


@pytest.mark.parametrize("noise_ratio", [1e2, 1e4, 1e6])
def test_under_boundless_noise_nothing_is_predicted(noise_ratio: float) -> None:
    moment, n = table(6)
    sizes, unshrunk = [], []
    for seed in range(41):
        std = noise_ratio * n
        released = moment + draw_noise(len(moment), std, np.random.default_rng(seed))
        coef = solve(released, auto_ridge(released, isotropic(std)))
        sizes.append(np.linalg.norm(coef))
        unshrunk.append(np.linalg.norm(solve(released, 0.0)))
    assert np.median(sizes) < 0.02
    assert np.median(unshrunk) > 0.5


def test_intercept_is_that_of_the_centred_regression() -> None:
    moment, n = table(7, intercept=True)
    std = 1e-4 * n
    released = moment + draw_noise(len(moment), std, np.random.default_rng(7))
    penalty = auto_ridge(released, isotropic(std), intercept=True)
    assert not penalty[-1].any()
    coef = solve(released, penalty)
    slopes, k = coef[:-1], len(moment) - 2
    assert coef[-1] == pytest.approx((released[k, -1] - released[k, :k] @ slopes) / released[k, k])


@pytest.mark.slow
@pytest.mark.parametrize("relative_noise", [0.001, 0.01, 0.05])
def test_lower_median_risk_than_fixed_penalties(relative_noise: float) -> None:
    errors: dict[str, list[float]] = {"auto": [], "none": [], "adassp": [], "zero": []}
    for seed in range(60):
        moment, _ = table(100 + seed)
        rng = np.random.default_rng(seed)
        d = len(moment) - 1
        std = relative_noise * np.trace(moment[:-1, :-1])
        released = moment + draw_noise(d + 1, std, rng)
        fixed = std * np.sqrt(d * np.log(2 * d**2 / 0.05))
        penalties = {"auto": auto_ridge(released, isotropic(std)), "none": 0.0, "adassp": fixed}
        for name, penalty in penalties.items():
            errors[name].append(excess(moment, solve(released, penalty)))
        errors["zero"].append(1.0)
    median = {name: float(np.median(values)) for name, values in errors.items()}
    assert median["auto"] < 0.9 * median["none"]
    assert median["auto"] < 0.9 * median["adassp"]
    assert median["auto"] < median["zero"]


def wide_table(kind: str) -> tuple[Matrix, Matrix, int]:
    """Second moments of 15 d rows and of the population, of features and target."""
    rng = np.random.default_rng(11)
    d, n = 32, 15 * 32
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    spectrum = {"weak": 1, "principal": 2, "small": 1.5}[kind]
    sizes = (1.0 + np.arange(d)) ** -spectrum
    coef, share = {
        "weak": (rng.standard_normal(d), 0.05),
        "principal": (turn[0] + turn[1], 0.6),
        "small": (turn.T @ (rng.standard_normal(d) / np.sqrt(sizes)), 0.99),
    }[kind]
    shape = np.diag(np.sqrt(sizes)) @ turn
    coef = coef * np.sqrt(share) / np.linalg.norm(shape @ coef)
    X = rng.standard_normal((n, d)) @ shape
    rows = np.column_stack([X, X @ coef + np.sqrt(1 - share) * rng.standard_normal(n)])
    scale = np.linalg.norm(rows, axis=1).max()
    cross = shape.T @ shape @ coef
    population = np.block([[shape.T @ shape, cross[:, None]], [cross, 1.0]])
    return rows.T @ rows / scale**2, population, n


# Medians of 15 draws; the slack is for their error. With privacy noise counted alone, "weak"
# rose from 0.028 to 0.064 as the noise went.
@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False], ids=["rows", "bound alone"])
@pytest.mark.parametrize("kind", ["weak", "principal", "small"])
def test_less_noise_predicts_no_worse(kind: str, known: bool) -> None:
    moment, population, n = wide_table(kind)
    truth = np.linalg.solve(population[:-1, :-1], population[:-1, -1])
    rows = n if known else possible_rows(np.trace(moment))
    medians = []
    # As Analyze Gauss has it at a row norm of 1, delta 1e-6 and epsilon 0.5, 2, 8, 30, infinity.
    for std in (6.0, 1.7, 0.5, 0.17, 0.0):
        misses = []
        for seed in range(15 if std else 1):
            noise = draw_noise(len(moment), std, np.random.default_rng(seed))
            penalty = auto_ridge(moment + noise, isotropic(std), rows=rows)
            miss = solve(moment + noise, penalty) - truth
            misses.append(miss @ population[:-1, :-1] @ miss)
        medians.append(float(np.median(misses)))
    assert medians == pytest.approx(sorted(medians, reverse=True), rel=0.03, abs=3e-3)
    ols = solve(moment, 0.0) - truth
    assert medians[-1] < 1.1 * ols @ population[:-1, :-1] @ ols + 1e-3


def test_without_noise_it_is_ridge_regression_learnt_from_the_rows() -> None:
    moment, _, n = wide_table("weak")
    features, cross, square = moment[:-1, :-1], moment[:-1, -1], moment[-1, -1]
    values = np.linalg.eigvalsh(features)
    # By the marginal law of the cross product, on a grid of one's own.
    shares = np.tile((np.arange(16) + 0.5) / 16, 2)
    coefs, evidence = [], []
    for i, share in enumerate(shares):
        spread = share * square / values.sum() * np.eye(len(values))
        if i >= 16:
            spread = share * square / len(values) * np.linalg.inv(features)
        error = (1 - share) * square / n * features
        law = stats.multivariate_normal(None, features @ spread @ features + error)
        gain = features @ spread @ features @ np.linalg.inv(law.cov)
        coefs.append(np.linalg.solve(features, gain @ cross))
        evidence.append(law.logpdf(cross) + np.log(0.99 if i < 16 else 0.01))
    weights = np.exp(evidence - np.max(evidence))
    expected = weights @ np.array(coefs) / weights.sum()
    penalty = auto_ridge(moment, isotropic(0.0), rows=n)
    np.testing.assert_allclose(solve(moment, penalty), expected, rtol=1e-6, atol=1e-12)


def test_more_rows_are_shrunk_less() -> None:
    moment, _, n = wide_table("weak")
    sizes = [np.trace(auto_ridge(moment, isotropic(0.0), rows=k * n)) for k in (1, 10, 1e4)]
    assert sizes[0] > sizes[1] > 100 * sizes[2] > 0
    assert not auto_ridge(moment, isotropic(0.0), rows=np.inf).any()


SKETCHED = {"sketch": SketchLaw, "inverse Wishart": InverseWishartLaw}


def made_task(rng, intercept):
    """A second moment of p features and a target, with an intercept in between if asked."""
    p = int(rng.integers(3, 25))
    turn = np.linalg.qr(rng.standard_normal((p, p)))[0]
    features = (turn.T * (1.0 + np.arange(p)) ** -rng.uniform(0, 2)) @ turn / p
    theta = rng.standard_normal(p)
    theta *= np.sqrt(rng.uniform(0.05, 0.98) / (theta @ features @ theta))
    cross, explained = features @ theta, theta @ features @ theta
    moment = np.block([[features, cross[:, None]], [cross, explained + rng.uniform(0.05, 1)]])
    if intercept:
        mean = 0.3 * rng.standard_normal(p + 1) * np.sqrt(np.diag(moment))
        moment = np.block([[moment + np.outer(mean, mean), mean[:, None]], [mean, 1.0]])
        order = [*range(p), p + 1, p]
        moment = moment[np.ix_(order, order)]
    return 10 ** rng.uniform(2.5, 4.5) * moment


def relative_errors(law, intercept, rng):
    """Errors above least squares of auto, least squares on the sketch, and the additive rule."""
    moment = made_task(rng, intercept)
    d = len(moment)
    rows = int(d * np.exp(rng.uniform(np.log(1.5), np.log(100)))) + 6
    noise = SKETCHED[law](rows, np.sqrt(rows) * rng.choice([0.5, 4.0, 20.0]))
    matrix = noise.draw(moment + noise.shift * np.eye(d), rng)
    centred = matrix - noise.shift * np.eye(d)
    exact = np.linalg.solve(moment[:-1, :-1], moment[:-1, -1])

    def error(gram, cross):
        miss = np.linalg.solve(gram, cross) - exact
        return miss @ moment[:-1, :-1] @ miss

    def auto(**arguments):
        penalty = auto_ridge(
            centred, lambda f: noise.entry_variance(matrix, f), intercept=intercept, **arguments
        )
        return error(centred[:-1, :-1] + penalty, centred[:-1, -1])

    return (
        auto(sketch=Sketch(noise.sketch_rows(d), noise.shift)),
        error(matrix[:-1, :-1], matrix[:-1, -1]),
        auto(),
    )


# Mean log-ratios over 150 tasks; measured: 0.13 to 0.6, with standard errors of 0.05.
@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("law", SKETCHED)
def test_sketch_is_better_served_as_a_sketch(law, intercept):
    rng = np.random.default_rng(8)
    errors = np.log([relative_errors(law, intercept, rng) for _ in range(150)])
    assert np.mean(errors[:, 1] - errors[:, 0]) > 0  # than by least squares on it
    assert np.mean(errors[:, 2] - errors[:, 0]) > 0  # than by the rule for additive noise


def test_many_rows_leave_the_regulariser_to_be_taken_off():
    rng = np.random.default_rng(9)
    moment = made_task(rng, intercept=False)
    noise = SketchLaw(1e15, 100.0)
    penalty = auto_ridge(
        moment,
        lambda f: noise.entry_variance(moment + 100 * np.eye(len(moment)), f),
        sketch=Sketch(1e15, 100.0),
    )
    np.testing.assert_allclose(penalty, 0.0, atol=1e-6 * np.trace(moment))


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_directions_a_small_sketch_leaves_out_get_no_coefficient(rows):
    rng = np.random.default_rng(10)
    noise = SketchLaw(rows, 10.0)
    sample = rng.standard_normal((rows, 9))
    matrix = 100 * sample.T @ sample / rows
    centred = matrix - 10 * np.eye(9)
    penalty = auto_ridge(
        centred, lambda f: noise.entry_variance(matrix, f), sketch=Sketch(rows, 10.0)
    )
    coef = np.linalg.solve(centred[:-1, :-1] + penalty, centred[:-1, -1])
    outside = np.linalg.svd(sample[:, :-1])[2][rows:]
    np.testing.assert_allclose(outside @ coef, 0.0, atol=1e-8 * np.linalg.norm(coef))


def test_variances_that_rounding_made_negative_are_zero():
    matrix = np.diag([1.0, 1.0 + 2**-52, 5.0])
    exact = isotropic(0.1)

    def without(frame):  # along the first two directions
        return exact(frame) * [[1, 0, 1], [0, 1, 1], [1, 1, 1]]

    def rounded(frame):
        return without(frame) - 1e-20 * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])

    np.testing.assert_array_equal(auto_ridge(matrix, rounded), auto_ridge(matrix, without))
