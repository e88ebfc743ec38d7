"""Least squares of a tree of counts, the variances of what follows, and their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.columns import Columns
from privgram.multivariate import distribution
from privgram.multivariate.distribution import (
    BRANCHES,
    DistributionResults,
    Grid,
    consistent,
    noise_variances,
    not_negative,
    prefix_variances,
)
from privgram.privacy import GaussianProfile
from privgram.study.tables import level_shares

VARIANCES = ([2.0, 3.0, 0.5, 1.0], [0.0, 1.0, 4.0], [3.0, np.inf, 2.0], [7.0])


def design(depth):
    """Nodes of all levels as sums of steps, level by level."""
    steps = np.eye(BRANCHES**depth)
    return [steps.reshape(BRANCHES**h, -1, len(steps)).sum(1) for h in range(depth + 1)]


def covariance(variances):
    """Of the steps' least squares estimates, by the normal equations."""
    rows = np.vstack(design(len(variances) - 1))
    sizes = [BRANCHES**h for h in range(len(variances))]
    weights = np.repeat(1 / np.maximum(variances, 1e-6), sizes)
    return np.linalg.inv(rows.T * weights @ rows), rows.T * weights


@pytest.mark.parametrize("variances", VARIANCES, ids=str)
def test_consistent_counts_are_those_of_the_normal_equations(variances):
    rng = np.random.default_rng(3)
    depth = len(variances) - 1
    noisy = [rng.normal(10, 3, (2, BRANCHES**h)) for h in range(depth + 1)]
    counts, nodes = consistent(noisy, variances)
    cov, right = covariance(variances)
    for g in range(2):
        solved = cov @ right @ np.concatenate([x[g] for x in noisy])
        np.testing.assert_allclose(counts[g], solved, atol=1e-4)
    sums = np.vstack([rng.normal(size=(3, BRANCHES**depth)), np.tri(BRANCHES**depth)])
    found = noise_variances(sums, nodes)
    np.testing.assert_allclose(found, np.diag(sums @ cov @ sums.T), atol=1e-4)
    if depth:
        part = np.arange(1, BRANCHES**depth + 1) / BRANCHES**depth
        whole = prefix_variances(nodes).sum(0) + part**2 * nodes[0]
        np.testing.assert_allclose(whole, found[3:], atol=1e-4)


@pytest.mark.parametrize(
    ("described", "whole"),
    [((0, 50), range(51)), ((18, 90), range(18, 91)), ((-3, 3000), range(-3, 3000, 7))],
)
def test_whole_numbers_are_values_of_the_grid(described, whole):
    grid = Grid(Columns({"x": described}).variables["x"], 12)
    assert np.isin(np.array(whole, float), np.round(grid.values, 9)).all()
    assert grid.values[0] == described[0]
    assert grid.values[-1] == pytest.approx(described[1])


def results(x, bounds=(0.0, 1.0), mu=0.25, rng=None, public=True, depth=12):
    """What `Study.summarize` would give for one group of rows, by the law of its noise."""
    columns = Columns({"x": bounds}, intercept=True)
    grid = Grid(columns.variables["x"], depth)
    steps = np.rint((x - bounds[0]) / (bounds[1] - bounds[0]) * (grid.size - 1))
    at = steps.astype(int)
    exact = np.bincount(at, minlength=BRANCHES**depth).astype(float)
    variance = 2 * (depth + (not public)) / mu**2
    variances = [0.0 if public and not h else variance for h in range(depth + 1)]
    noisy = [
        exact.reshape(1, BRANCHES**h, -1).sum(-1)
        + (0 if rng is None else np.sqrt(v) * rng.standard_normal((1, BRANCHES**h)))
        for h, v in enumerate(variances)
    ]
    counts, nodes = consistent(noisy, variances)
    return DistributionResults(
        column="x", by=(), columns=columns, statistics=("count", "mean", "sd", "quantile"),
        q=(0.5,), counts=counts, variances=nodes, n_rows=float(len(x)), epsilon=1.0, delta=1e-6,
        adjacency="replace", privacy=GaussianProfile(mu, "replace"), reproducible=True,
    )  # fmt: skip


def test_without_noise_statistics_are_numpys():
    x = np.round(np.random.default_rng(0).beta(2, 5, 4001), 3)
    found = replace(results(x, (0, 1000)), variances=np.full(13, 1e-12))
    x = np.round(1000 * x)
    found = replace(found, counts=results(x, (0, 1000)).counts)
    assert found.count().estimate[0] == pytest.approx(4001)
    assert found.mean(estimand="sample").estimate[0] == pytest.approx(x.mean(), rel=1e-9)
    assert found.sd(estimand="sample").estimate[0] == pytest.approx(x.std(ddof=1), rel=1e-6)
    q = [0.01, 0.3, 0.5, 0.99]
    inverted = np.quantile(x, q, method="inverted_cdf")
    np.testing.assert_allclose(found.quantile(q).estimate[0], inverted, atol=0.13)
    for at in (100, 250.0, 700):
        assert found.cdf(at).estimate[0, 0] == pytest.approx((x <= at).mean(), abs=1e-9)
    edges = [0, 100, 250, 1000]
    counted = found.histogram(edges)
    np.testing.assert_allclose(counted.counts[0], np.histogram(x, edges)[0], atol=1e-6)
    assert found.histogram(7).counts.sum() == pytest.approx(4001)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "public"),
    [(0.08, False), (1.0, True)]
    + [pytest.param(*other, marks=pytest.mark.nightly) for other in ((0.08, True), (1.0, False))],
)
def test_intervals_hold_of_the_rows_at_hand_and_of_a_population(mu, public):
    """300 draws of 95 % intervals; 91 % or fewer hold with a chance of 1 in 500, each of 13."""
    rng = np.random.default_rng([int(100 * mu), public])
    draws, q = 300, [0.05, 0.5, 0.95]
    truth = {"mean": 0.3, "sd": np.sqrt(0.3 * 0.7 / 11)}
    held = {}
    for _ in range(draws):
        x = rng.beta(3, 7, 2000)
        found = results(x, mu=mu, rng=rng, public=public)
        own = {"mean": x.mean(), "sd": x.std(ddof=1), "count": len(x)}
        for name, value in own.items():
            several = [(value, ())] if name == "count" else [(value, (0.05, "sample"))]
            if name != "count":
                several.append((truth[name], (0.05, "population")))
            for true, given in several:
                _, low, high = getattr(found, name)(*given)
                held.setdefault((name, *given), []).append(low[0] <= true <= high[0])
        for estimand, true in (
            ("sample", np.quantile(x, q, method="inverted_cdf")),
            ("population", [0.09775, 0.28624, 0.54964]),  # of beta(3, 7), by its inverse
        ):
            _, low, high = found.quantile(q, 0.05, estimand)
            for k, p in enumerate(q):
                inside = low[0, k] <= true[k] <= high[0, k]
                held.setdefault(("quantile", p, estimand), []).append(inside)
        _, low, high = found.cdf(0.25, 0.05, "sample")
        held.setdefault("cdf", []).append(
            low[0, 0] <= (x <= 0.25).mean() + 1e-3 and (x <= 0.25).mean() - 1e-3 <= high[0, 0]
        )
    rates = {name: np.mean(inside) for name, inside in held.items()}
    assert min(rates.values()) > 0.91, rates


@pytest.mark.parametrize("public", [False, True])
def test_distribution_function_has_the_errors_of_its_sums_of_counts(public):
    rng = np.random.default_rng(6)
    found = results(rng.random(4000), mu=0.3, rng=rng, public=public)
    estimate, low, high = found.cdf([0.25, 0.5, 0.8], 0.05, "sample")
    for k, at in enumerate([0.25, 0.5, 0.8]):
        below = np.append(found.grid.values, np.ones(9999))[: found.counts.shape[1]] <= at
        raw, n = found.counts[0] @ below, found.count().estimate[0]
        form = below - estimate[0, [k]]
        half = 1.959964 * np.sqrt(noise_variances(form[None], found.variances)[0])
        np.testing.assert_allclose([low[0, k], high[0, k]], [raw - half, raw + half] / n, rtol=1e-6)


def test_bounds_that_are_far_too_wide_leave_means_and_deviations_near():
    """Rows in a hundredth of the bounds: where noise hides whether there are any, none are counted.

    Noise about all of the range moves means by a deviation of the rows, and deviations by ten.
    """
    rng = np.random.default_rng(5)
    x = rng.beta(3, 7, 3000)
    off = []
    for _ in range(21):
        found = results(x, (0, 100), mu=0.25, rng=rng)
        estimates = found.mean().estimate[0], found.sd().estimate[0]
        off.append(np.abs(np.array(estimates) - [x.mean(), x.std()]) / x.std())
    assert (np.median(off, axis=0) < 0.1).all(), np.median(off, axis=0)


def test_groups_have_the_numbers_that_each_has_by_itself():
    """All are computed at once; one that the noise hides is NaN, and changes no other."""
    rng = np.random.default_rng(2)
    parts = [results(rng.beta(2, a, 900), mu=0.5, rng=rng, public=False) for a in (2, 5, 9)]
    parts.insert(1, replace(parts[0], counts=parts[0].counts * 0.001))
    columns = Columns({"x": (0.0, 1.0), "g": list("abcd")}, intercept=True)
    counts = np.vstack([part.counts for part in parts])
    whole = replace(parts[0], columns=columns, by=("g",), counts=counts)
    q, at = [0.02, 0.5, 0.97], [-1.0, 0.1, 0.4]
    for ask in (
        lambda r: r.quantile(q), lambda r: r.cdf(at), lambda r: r.mean(), lambda r: r.sd(),
        lambda r: r.count(), lambda r: r.quantile(q, 0.2, "sample"),
    ):  # fmt: skip
        for end, *own in zip(ask(whole), *map(ask, parts), strict=True):
            np.testing.assert_allclose(end, np.concatenate(own), rtol=1e-12)
    assert whole.hidden == (("b",),)
    assert np.isnan(whole.quantile(q).lower[1]).all()


def test_quantiles_do_not_fall_and_stay_within_the_bounds():
    rng = np.random.default_rng(8)
    found = results(rng.random(50), mu=0.05, rng=rng, public=True)
    estimate, low, high = found.quantile(np.linspace(0.01, 0.99, 60))
    for values in (estimate[0], low[0], high[0]):
        assert (np.diff(values) >= 0).all()
        assert 0 <= values.min() <= values.max() <= 1
    assert (low <= estimate).all()
    assert (estimate <= high).all()


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_saved_distribution_is_the_same_and_an_edited_one_is_refused(suffix, tmp_path):
    rng = np.random.default_rng(4)
    found = results(rng.random(300), mu=1.0, rng=rng)
    profile = GaussianProfile(1.0, "replace")
    found = replace(found, privacy=profile, delta=profile.delta(1.0))
    path = tmp_path / f"found{suffix}"
    found.save(path)
    again = pg.load(path, DistributionResults)
    assert str(again) == str(found)
    np.testing.assert_array_equal(again.counts, found.counts)
    for wrong in (
        {"counts": found.counts[:, 1:]}, {"variances": -found.variances}, {"q": (2.0,)},
        {"statistics": ("mode",)}, {"epsilon": 0.5}, {"counts": found.counts * np.nan},
        {"rows_of_unit": 0}, {"unit": 5},
    ):  # fmt: skip
        replace(found, **wrong).save(path)
        with pytest.raises(pg._base.saved.DamagedFile):
            pg.load(path)


def test_distribution_and_its_histogram_are_drawn():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(4)
    found = results(rng.random(300), mu=1.0, rng=rng)
    assert found.plot().get_xlabel() == found.histogram(12).plot().get_xlabel() == "x"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.quantile(1.0), "q must lie"),
        (lambda r: r.mean(estimand="rows"), "estimand is"),
        (lambda r: r.mean(0.7), "alpha"),
        (lambda r: r.histogram(0), "bins must be"),
        (lambda r: r.histogram(10**12), "bins must be .* to 262144"),
        (lambda r: r.histogram([2, 1]), "edges that ascend"),
    ],
)
def test_bad_questions_are_refused(call, message):
    refuses(lambda: call(results(np.ones(9))), ValueError, message)


def test_bins_may_be_finer_than_the_steps_of_the_column():
    """Those without a step have no rows, and take no memory of all steps."""
    found = results(np.random.default_rng(1).random(900), mu=1.0, rng=np.random.default_rng(2))
    fine, steps = found.histogram(1 << 18), found.histogram(found.grid.size - 1)
    assert np.count_nonzero(fine.variances) == found.grid.size
    np.testing.assert_allclose(fine.counts.sum(), steps.counts.sum())
    empty = fine.variances == 0
    assert not fine.counts[:, empty].any()


def test_quantiles_that_are_near_have_headings_of_their_own():
    found = replace(results(np.ones(9)), q=(0.3333333, 0.33333331))
    assert {"q33.33333", "q33.333331"} <= found.heads().keys()


def test_counts_that_are_not_negative_are_the_nearest_by_siblings():
    """Down a tree: of two children that add up to their parent the nearest to what they were."""
    rng = np.random.default_rng(4)
    counts = rng.normal(1, 3, (20, 8))
    found = not_negative(counts)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(1), np.maximum(counts.sum(1), 0))
    np.testing.assert_allclose(not_negative(np.abs(counts)), np.abs(counts))
    for size in (4, 2, 1):
        mine, was = (x.reshape(20, -1, 2, size).sum(-1) for x in (found, counts))
        whole = mine.sum(-1)
        tried = np.linspace(0, 1, 1001)[:, None, None] * whole  # of the first child
        off = (tried - was[..., 0]) ** 2 + (whole - tried - was[..., 1]) ** 2
        at = np.take_along_axis(tried, off.argmin(0)[None], 0)[0]
        np.testing.assert_allclose(mine[..., 0], at, atol=2e-3 * whole.max())


def test_depth_falls_with_very_many_groups():
    number, truth = Columns({"x": (0, 1), "t": bool}).variables.values()
    assert [distribution.depth_for(number, n) for n in (1, 1000, 10_000)] == [12, 8, 4]
    assert distribution.depth_for(truth, 1) == 1


def test_sums_of_a_tree_have_the_noise_that_the_theory_says():
    """In that of one count at the whole budget; the root of the matrix of sums is the other."""
    empty = [np.zeros((1, BRANCHES**h)) for h in range(13)]
    shares = level_shares(("quantile",), 12, True, 1)[1:]
    _, nodes = consistent(empty, [0.0, *(1 / shares)])
    assert np.sqrt(prefix_variances(nodes).sum(0).mean()) == pytest.approx(4.45, abs=0.01)
    root = np.cumprod(np.append(1.0, 1 - 0.5 / np.arange(1, 4096)))
    lengths = np.sqrt(np.cumsum(root**2))
    assert lengths[-1] * lengths.mean() == pytest.approx(3.55, abs=0.01)


def of_groups(**asked):
    rng = np.random.default_rng(8)
    table = {"age": rng.integers(0, 8, 2000), "g": rng.choice(["u", "v"], 2000)}
    described = {"age": pg.Factor(range(8)), "g": ["u", "v"]}
    columns = pg.Columns(described, intercept=True, terms=["age*g"])
    return pg.release(table, columns, epsilon=1.0, **asked, rng=rng)


GAUSS = {"delta": 1e-6, "mechanism": pg.AnalyzeGauss()}
RELEASES = {
    "gaussian": lambda: of_groups(**GAUSS),
    "laplace": lambda: of_groups(delta=1e-6, mechanism=pg.MatrixLaplace()),
    "pure": lambda: of_groups(delta=0.0, mechanism=pg.MatrixLaplace()),
    "pooled": lambda: pg.pool([of_groups(**GAUSS), of_groups(**GAUSS | {"delta": 1e-5})]),
}


@pytest.mark.parametrize("name", RELEASES)
def test_summary_of_any_release_is_read_again(name, tmp_path):
    path, found = tmp_path / "found.json", RELEASES[name]().summarize("age", "g")
    found.save(path)
    again = pg.load(path, DistributionResults)
    assert str(again) == str(found)
    replace(found, epsilon=found.epsilon / 9).save(path)
    with pytest.raises(pg._base.saved.DamagedFile, match="larger delta"):
        pg.load(path)


def test_one_quantile_may_be_a_number_of_any_type():
    found = results(np.ones(9))
    np.testing.assert_array_equal(found.quantile(np.float32(0.5)), found.quantile(0.5))


def test_all_rows_are_within_the_bounds():
    """Steps beyond the last value have noise too, and no rows."""
    found = results(np.random.default_rng(2).random(900), mu=0.2, rng=np.random.default_rng(3))
    for part in found.cdf([-1.0, 1.0, 7.0]):
        np.testing.assert_array_equal(part, [[0.0, 1.0, 1.0]])
    refuses(lambda: found.cdf([0.5, np.nan]), ValueError, "x must not be NaN")


def test_edge_of_a_logarithm_may_be_a_hair_below_its_bound():
    described = pg.Log(1e-10, 1)
    plain = distribution.bins_of(described, [1e-10, 0.5, 1.0])[1]
    for edge in (0.0, -5e-10):
        np.testing.assert_allclose(distribution.bins_of(described, [edge, 0.5, 1.0])[1], plain)
