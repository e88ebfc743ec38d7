"""Functions of a released covariance: by other routes to their errors, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import solve
from support.helpers import make_release, refuses

import privgram as pg
from privgram.columns.unit import PrivacyUnit
from privgram.multivariate import Variables
from privgram.noise import GaussianLaw, MatrixLaplaceLaw
from privgram.papers.sheffet import WishartLaw
from privgram.regression import RefusedError

pytest.importorskip("pandas")

from support import real_tables as tables

LAW = GaussianLaw(12.0, 17.0)
NAMES = ("a", "b", "c", "intercept")
TRUTH = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, 0.0], [0.2, 0.0, 1.0]])


def released(seed, law=LAW, rows=1500):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, 3)) @ np.linalg.cholesky(TRUTH).T
    table = np.column_stack([table * [1, 2, 3] + 0.5, np.ones(rows)])
    noisy = law.draw(table.T @ table + law.shift_matrix(4), rng)
    return make_release(noisy, NAMES, law, n_rows=rows)


def pairs(one):
    return one.correlation[np.triu_indices(3, 1)]


def slopes(one):
    found = solve(one.matrix[:-1, :-1], one.matrix[:-1, -1], assume_a="pos")
    return np.append(found, one.mean[-1] - one.mean[:-1] @ found)


@pytest.mark.parametrize("estimand", ["sample", "normal"])
def test_errors_of_correlations_are_those_in_closed_form(estimand):
    """2000 draws: a deviation is known to 1.6 %, an end of an interval to 6 % of a deviation."""
    release = released(0)
    found = release.statistic(pairs, draws=2000, estimand=estimand)
    known = release.correlation(estimand=estimand)
    above = np.triu_indices(3, 1)
    np.testing.assert_allclose(found.value, known.matrix[above])
    np.testing.assert_allclose(found.bse, known.stderr[above], rtol=0.08)
    ends = known.intervals[above]
    np.testing.assert_allclose(found.conf_int(), ends, atol=0.25 * found.bse.max())
    assert found.names == NAMES[:3]
    assert found.lost == 0


def test_slopes_are_those_of_least_squares():
    release = released(1)
    found = release.statistic(slopes, ["a", "b", "c"], draws=1000, estimand="normal")
    fit = release.regress("c", ["a", "b"])
    np.testing.assert_allclose((found.value - fit.params) / fit.bse, 0, atol=0.05)
    np.testing.assert_allclose(found.bse, fit.bse, rtol=0.1)


def test_effects_of_units_take_degrees_of_freedom():
    """1200 of 1500 rows: errors of 299 free rows are 2.2 times those of 1499, known to 5 %."""
    plain = released(5, GaussianLaw(1e-9, 1e-9))
    unit = PrivacyUnit("who", fixed_effects=True)
    of_units = replace(plain, n_rows=None, privacy_unit=unit, n_units=1200)
    few, all_rows = (one.statistic(pairs, estimand="normal").bse for one in (of_units, plain))
    np.testing.assert_allclose(few / all_rows, np.sqrt(1499 / 299), rtol=0.2)


@pytest.mark.parametrize("name", tables.NAMES)
def test_function_gets_the_covariance_of_real_tables(name):
    table = tables.numbers(name)
    found = tables.exact(table).statistic(lambda one: [*one.matrix, one.mean, one.std], draws=100)
    expected = np.vstack([np.cov(table.T), table.mean(), table.std()])
    np.testing.assert_allclose(found.value, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())


@pytest.mark.long
@pytest.mark.parametrize(
    "law",
    [GaussianLaw(60.0, 85.0), WishartLaw(6.0, 60.0, 0.0), MatrixLaplaceLaw(6.0, 30.0)],
    ids=lambda law: type(law).__name__,
)
def test_intervals_hold_their_level(law):
    """100 draws: a share has a deviation of 2.2 %, so 86 % is 4.1 of these below 95."""
    held = []
    for seed in range(100):
        try:
            low, high = released(seed, law).statistic(pairs, estimand="normal").conf_int().T
        except RefusedError:
            continue
        truth = TRUTH[np.triu_indices(3, 1)]
        held.append((low <= truth) & (truth <= high))
    assert len(held) > 80
    assert np.min(np.mean(held, axis=0)) > 0.86


def test_indefinite_covariances_are_refused_made_definite_or_kept():
    moment = np.diag([100.0, 100.0, 100.0, 200.0])
    moment[0, 1] = moment[1, 0] = 110.0
    release = make_release(moment, NAMES, GaussianLaw(1.0, 1.4), n_rows=200)

    def least(one):
        return np.linalg.eigvalsh(one.correlation)[0]

    refuses(lambda: release.statistic(least), RefusedError, "exceeds the signal")
    assert release.statistic(least, indefinite="keep").value < 0
    near = release.statistic(lambda one: one.matrix, indefinite="nearest").value
    np.testing.assert_allclose(near.diagonal(), 100 / 199)  # variances stay
    assert 0 < np.linalg.eigvalsh(near)[0] < 1e-5
    one = Variables(release, ["a", "c"]).covariance
    assert one.nearest() is one


def test_draws_without_a_value_are_left_out_and_told():
    release = released(2)
    middle = np.quantile([one.correlation[0, 1] for one in Variables(release).redrawn(100)], 0.3)

    def f(one):
        return np.nan if one.correlation[0, 1] < middle else one.correlation[0, 1]

    found = release.statistic(f, draws=100)
    assert found.lost == pytest.approx(0.3, abs=0.011)
    assert len(found.draws) == round(100 * (1 - found.lost))
    assert found.draws.min() >= middle
    assert "At 30% of the draws" in str(found)
    # Where most are lost, nothing has an error.
    exact = Variables(release).covariance.correlation[0, 1]
    with pytest.raises(RefusedError, match="standard errors"):
        release.statistic(lambda one: 1 / int(one.correlation[0, 1] == exact), draws=100)


def test_it_is_printed_and_framed():
    pytest.importorskip("pandas")
    found = released(3).statistic(lambda one: one.correlation[:2, :2], draws=100)
    assert [line[:6] for line in str(found).splitlines()[1:3]] == ["[0, 0]", "[0, 1]"]
    frame = found.frame()
    assert frame.loc["[0, 1]", "std err"] == found.bse[0, 1]
    assert frame.loc["[1, 0]", "[0.025"] == found.conf_int()[1, 0, 0]
    assert "of shape (2, 2)" in repr(found)


def weighted():
    rng = np.random.default_rng(3)
    rows = rng.uniform(0, 1, (500, 3))
    columns = pg.Columns({"a": (-2, 2), "b": (-2, 2), "w": (0, 1)}, row_weights="w", intercept=True)
    return pg.release(rows, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)


def singular(_):
    raise np.linalg.LinAlgError


ONE = released(4)
AT = Variables(ONE).covariance.matrix[0, 0]
REFUSED = {
    "not a function": (ONE, ("pca",), {}, TypeError, "takes a Covariance"),
    "no number": (ONE, (lambda _: "much",), {}, TypeError, "array of numbers"),
    "ragged": (ONE, (lambda _: [[1.0], [1.0, 2.0]],), {}, TypeError, "array of numbers"),
    "not finite": (ONE, (lambda _: np.inf,), {}, RefusedError, "not finite"),
    "singular": (ONE, (singular,), {}, RefusedError, "LinAlgError.*more epsilon"),
    "shapes": (
        ONE,
        (lambda one: np.ones(2 if one.matrix[0, 0] > AT else 3),),
        {},
        ValueError,
        "one shape",
    ),
    "few draws": (ONE, (pairs,), {"draws": 99}, ValueError, "draws"),
    "estimand": (ONE, (pairs,), {"estimand": "population"}, ValueError, "'sample' or 'normal'"),
    "indefinite": (ONE, (pairs,), {"indefinite": "drop"}, ValueError, "indefinite"),
    "columns": (ONE, (pairs, ["z"]), {}, ValueError, "no column"),
    "moved": (replace(ONE, parameters={"moved": True}), (pairs,), {}, RefusedError, "repair"),
    "clipped": (
        replace(
            ONE, parameters={"clipping_bias": 0.2, "clipped_rows": 150.0, "clipped_rows_std": 9.0}
        ),
        (pairs,),
        {},
        RefusedError,
        "too long for adaptive rounds",
    ),
    "weights": (weighted(), (np.size,), {"estimand": "normal"}, RefusedError, "weighted rows"),
    "rows": (
        replace(ONE.marginal(["a", "b", "c"]), n_rows=None),
        (lambda one: one.correlation,),
        {"estimand": "normal"},
        RefusedError,
        "intercept=True",
    ),
    "hidden": (released(4, GaussianLaw(900.0, 1e4)), (pairs,), {}, RefusedError, "noise"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    release, arguments, options, kind, words = REFUSED[case]
    refuses(lambda: release.statistic(*arguments, **options), kind, words)


@pytest.mark.parametrize("intercept", [True, False])
def test_levels_that_add_up_to_one_are_refused_whatever_noise_made_of_them(intercept):
    rng = np.random.default_rng(5)
    table = {"f": rng.choice(["u", "v", "w"], 3000), "x": rng.uniform(0, 1, 3000)}
    columns = pg.Columns({"f": ["u", "v", "w"], "x": (0, 1)}, intercept=intercept)
    levels = ["f[u]", "f[v]", "f[w]"]
    for seed in range(8):
        options = {"mechanism": pg.AnalyzeGauss(), "rng": np.random.default_rng(seed)}
        one = pg.release(table, columns, 1.0, 1e-6, **options)
        for names in ([*levels, "x"], levels):
            with pytest.raises(RefusedError, match="leave a level out"):
                one.statistic(slopes, names)
        assert np.isfinite(one.statistic(slopes, ["x", *levels[1:]]).value).all()
        assert one.statistic(lambda one: one.mean, levels, indefinite="keep").value.shape == (3,)


def test_errors_of_the_function_are_its_own():
    refuses(lambda: ONE.statistic(lambda _: {}["mine"]), KeyError, "mine")
