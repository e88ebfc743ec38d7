"""One regression with a factor of many levels: what it fits, what it costs, how it holds."""

import math

import numpy as np
import pytest
from support.helpers import refuses
from support.sums import integers

import privgram as pg
from privgram._core.scores import UNITS, scale
from privgram.glm.rounds import Rounds

SURE = {"epsilon": 1e9, "delta": 0.5}
LEVELS = 150
NAMES = [f"f{i}" for i in range(LEVELS)]
COLUMNS = pg.Columns(
    {"a": (-4, 4), "b": (0, 10), "h": list("uv"), "firm": NAMES, "y": (-40, 40)}, intercept=True
)


def made(n=60_000, seed=0, least=40):
    rng = np.random.default_rng(seed)
    firm = np.append(np.repeat(np.arange(LEVELS), least), rng.integers(0, 60, n - LEVELS * least))
    a = (rng.normal(size=n) + 0.01 * firm - 0.5).clip(-4, 4)
    b, h = rng.uniform(0, 10, n), rng.integers(0, 2, n)
    own = rng.normal(size=LEVELS)[firm]
    y = (0.8 * a - 0.3 * b + 0.5 * h + own + rng.normal(size=n) * (0.5 + 0.1 * b)).clip(-40, 40)
    names = np.array(NAMES, object)[firm]
    return {"a": a, "b": b, "h": np.array(list("uv"), object)[h], "firm": names, "y": y}


TABLE = made()


def solved(table):
    """Least squares with a column for each level: coefficients and their covariance, HC1."""
    firm = np.searchsorted(sorted(NAMES), table["firm"].astype(str))
    order = np.array([sorted(NAMES).index(name) for name in NAMES])
    dummies = (firm[:, None] == order[None, 1:]).astype(float)
    n = len(firm)
    X = np.column_stack([table["a"], table["b"], table["h"] == "v", dummies, np.ones(n)])
    X = X.astype(float)
    inverse = np.linalg.inv(X.T @ X)
    coef = inverse @ X.T @ table["y"]
    scores = X * (table["y"] - X @ coef)[:, None]
    return coef, n / (n - X.shape[1]) * inverse @ scores.T @ scores @ inverse, firm


COEF, COVARIANCE, FIRM = solved(TABLE)
ERRORS = np.sqrt(np.diag(COVARIANCE))


def fitted(formula="y ~ a + b + h + firm", table=TABLE, seed=1, **options):
    setting = {"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return pg.regress(table, formula, setting.pop("columns", COLUMNS), **setting)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_without_noise_it_is_least_squares_with_a_column_for_each_level(adjacency):
    fit = fitted(adjacency=adjacency, **SURE)
    assert (fit.parameters["method"], fit.parameters["hidden_levels"]) == ("scores", 0)
    assert fit.param_names[2:5] == ("h[v]", "firm[f1]", "firm[f2]")
    # Slopes are those by blocks of some 32 rows, effects beside them those of least squares.
    np.testing.assert_allclose(np.asarray(fit.params)[:3], COEF[:3], atol=0.5 * ERRORS[:3].max())
    np.testing.assert_allclose(np.asarray(fit.params)[3:], COEF[3:], atol=0.05 * ERRORS[3:].max())
    # Of levels HC1 is with errors in independence of the slopes', whose part is small.
    np.testing.assert_allclose(np.asarray(fit.bse)[:3], ERRORS[:3], rtol=0.03)
    np.testing.assert_allclose(np.asarray(fit.bse)[3:], ERRORS[3:], rtol=0.15)
    low, high = np.asarray(fit.conf_int(estimand="sample")).T
    assert ((low <= COEF) & (high >= COEF))[:3].all()
    assert (high - low < 0.8 * ERRORS).all()


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_factor_alone_is_differences_of_means(adjacency):
    """With errors of each level's own variance, and no release of slopes beside."""
    number = np.bincount(FIRM)
    mean = np.bincount(FIRM, TABLE["y"]) / number
    var = np.bincount(FIRM, (TABLE["y"] - mean[FIRM]) ** 2) / number**2
    order = [sorted(NAMES).index(name) for name in NAMES]
    mean, var = mean[order], var[order]
    coef = np.append(mean[1:] - mean[0], mean[0])
    error = np.sqrt(np.append(var[1:] + var[0], var[0]))
    fit = fitted("y ~ firm", adjacency=adjacency, **SURE)
    assert (fit.parameters["method"], fit.parameters["hidden_levels"]) == ("scores", 0)
    assert (len(fit.parameters["counts_mu"]), len(fit.parameters["round_mu"])) == (1, 1)
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=2e-3 * error.max())
    np.testing.assert_allclose(np.asarray(fit.bse), error, rtol=0.02)
    equal = fitted("y ~ firm", adjacency=adjacency, cov_type="nonrobust", **SURE)
    pooled = np.sqrt(
        var @ number[order] ** 2 / len(FIRM) * (1 / number[order] + 1 / number[order[0]])
    )
    np.testing.assert_allclose(np.asarray(equal.bse)[:-1], pooled[1:], rtol=0.02)
    noisy = fitted("y ~ firm", adjacency=adjacency)
    many = slice(59)  # of 900 rows
    assert np.median(np.asarray(noisy.bse)[many] / error[many]) < 1.9
    low, high = np.asarray(noisy.conf_int(estimand="sample")).T
    assert ((low <= coef) & (coef <= high)).mean() >= 0.9


@pytest.mark.slow
def test_absorbed_factor_is_taken_along_and_not_shown():
    fit = fitted("y ~ a + b + h | firm", **SURE)
    assert fit.param_names == ("a", "b", "h[v]", "Intercept")
    np.testing.assert_allclose(np.asarray(fit.params)[:3], COEF[:3], atol=0.5 * ERRORS[:3].max())
    effects = COEF[-1] + np.append(0.0, COEF[3:-1])
    weights = np.array([(TABLE["firm"] == name).sum() for name in NAMES])
    mean = effects @ weights / weights.sum()
    assert float(np.asarray(fit.params)[-1]) == pytest.approx(mean, abs=ERRORS[0])
    assert "150 levels of firm are taken along" in str(fit.summary())
    again = fitted("y ~ a + b + h | firm", {**TABLE}, **SURE)
    np.testing.assert_array_equal(again.solution, fit.solution)


def many_levels(k, n, seed=0):
    """A table of k levels, whose own effects go with the feature; its slope and its effects."""
    rng, names = np.random.default_rng(seed), [f"f{i}" for i in range(k)]
    firm = np.append(np.arange(k), rng.integers(0, k // 2, n - k))
    own = rng.normal(size=k)[firm]
    x = (own + rng.normal(size=n)).clip(-8, 8)
    y = (0.5 * x + 2 * own + rng.normal(size=n)).clip(-15, 15)
    number = np.bincount(firm)
    x_g, y_g = (np.bincount(firm, a) / number for a in (x, y))
    within = x - x_g[firm]
    slope = within @ y / (within @ within)
    effects = y_g - slope * x_g
    table = {"x": x, "firm": np.array(names, object)[firm], "y": y}
    columns = pg.Columns({"x": (-8, 8), "firm": names, "y": (-15, 15)}, intercept=True)
    return table, columns, slope, effects - number @ effects / n, number


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_effects_of_thousands_of_levels_are_beside_the_coefficients(adjacency, tmp_path):
    """Those of least squares with a column for each level, less their mean over rows."""
    table, columns, slope, effects, number = many_levels(1001, 40_000)
    given = {"columns": columns, "adjacency": adjacency}
    fit = fitted("y ~ x + firm", table, **given, **SURE)
    assert fit.param_names == ("x", "Intercept")
    found = fit.effects()
    np.testing.assert_allclose(found["effect"], effects, atol=0.05 / math.sqrt(number.min()))
    assert list(found.index) == [f"f{i}" for i in range(1001)]
    residual = table["y"] - slope * table["x"]
    error = np.sqrt(1 / number + 1 / len(residual))  # of errors of variance 1
    common = number > 10  # of one row HC1 has no error
    assert np.median((found["std err"] / error)[common]) == pytest.approx(1.0, abs=0.1)
    noisy = fitted("y ~ x + firm", table, **given, epsilon=4.0, out=tmp_path / "fit.json")
    shown = noisy.effects(estimand="sample")
    hidden = np.isnan(shown["effect"])
    assert 500 <= noisy.parameters["hidden_levels"] == hidden.sum() < 700  # of 1 row each
    assert np.isinf(shown["upper"][hidden]).all()
    held = (shown["lower"] <= effects) & (effects <= shown["upper"])
    assert held[~hidden].mean() > 0.9
    assert abs(noisy.params["x"] - slope) < 5 * noisy.bse["x"]
    notes = str(noisy.summary())
    assert "1,001 levels of firm are in effects()" in notes
    assert "intervals have no ends" in notes
    again = pg.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.effects(0.1), noisy.effects(0.1))
    for other in (fitted("y ~ x | firm", table, **given), fitted()):
        refuses(other.effects, ValueError, "coefficients, or absorbed")


@pytest.mark.slow
def test_missing_levels_and_values_are_left_out():
    holes = {name: x.copy() for name, x in TABLE.items()}
    holes["firm"][::3] = None
    holes["a"][1::3] = np.nan
    kept = {name: x[2::3] for name, x in TABLE.items()}
    fits = [fitted(table=x, adjacency="add-remove", seed=3) for x in (holes, kept)]
    np.testing.assert_array_equal(fits[0].solution, fits[1].solution)
    refuses(lambda: fitted(table=holes, adjacency="replace"), ValueError, "missing value")


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_rows_that_miss_a_value_are_no_observations(adjacency):
    """Of 60,000 half are left out; their number is private, also where that of all is public."""
    holes = TABLE | {"a": TABLE["a"].copy()}
    holes["a"][::2] = np.nan
    dropping = pg.Columns(COLUMNS.variables, intercept=True, missing="drop")
    for formula, absorbed in (("y ~ a + b + h + firm", 0), ("y ~ a + b + h | firm", LEVELS - 1)):
        given = {"columns": dropping, "adjacency": adjacency}
        fit = fitted(formula, holes, **given, **SURE)
        assert fit.nobs == pytest.approx(30_000, rel=1e-5)
        assert fit.df_resid == pytest.approx(fit.nobs - len(fit.params) - absorbed)
        noisy = fitted(formula, holes, **given)
        assert noisy.nobs_stderr > 0
        assert abs(noisy.nobs - 30_000) < 5 * noisy.nobs_stderr


@pytest.mark.slow
@pytest.mark.parametrize("formula", ["y ~ a + b + h + firm", "y ~ a + b + h | firm", "y ~ firm"])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_every_sum_has_the_noise_that_a_row_needs(adjacency, formula, monkeypatch):
    """A row replaced turns a vector round; of what is never negative it moves one to another.

    Of pairs it turns 2.25 of the heaviest.
    """
    seen, released = [], Rounds.score

    def noted(rounds, total, share):
        found, std = released(rounds, total, share)
        unit = total.kind.clip / scale(total.kind.of.q) * UNITS
        noise = std * rounds.gate.mu(share) / unit
        seen.append((min(integers(total)) < 0, total.kind.of_pairs, noise))
        return found, std

    monkeypatch.setattr(Rounds, "score", noted)
    spent = fitted(formula, adjacency=adjacency).parameters
    parts = [*spent["round_mu"], *spent["score_mu"], *spent["counts_mu"]]
    parts.append(spent.get("number_mu", 0.0))
    whole = pg.AdaptiveGaussian().calibrate(4, 1.0, 1.0, 1e-6, adjacency).mu
    assert math.hypot(*parts) == pytest.approx(whole, rel=1e-9)
    assert {signed for signed, *_ in seen} == {False, True}
    assert any(pairs for _, pairs, _ in seen) is (formula != "y ~ firm")
    for signed, pairs, noise in seen:
        if pairs:
            turned = 2.0 if adjacency == "replace" else 1.0
            assert noise == pytest.approx(2.25 * turned * 1058 / 1024, rel=1e-5)
            continue
        needed = 1.0 if adjacency == "add-remove" else math.sqrt(2.0)
        if adjacency == "replace" and (signed or noise > 1.9):  # few numbers may be positive
            needed = 2.0
        assert noise == pytest.approx(needed, rel=1e-12)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_intervals_hold_and_noise_is_small(adjacency):
    """8 draws of 149 effects and 4 coefficients: 90 % hold, of the 95 % that are said.

    Effects of a draw share their reference. Noise and so the verdict are the same in every run.
    """
    held, off = [], []
    for seed in range(8):
        fit = fitted(seed=seed, adjacency=adjacency)
        assert fit.refusal is None
        low, high = np.asarray(fit.conf_int(estimand="sample")).T
        held.append((low <= COEF) & (high >= COEF))
        off.append((np.asarray(fit.params) - COEF) / ERRORS)
    held = np.array(held)
    assert held.mean() >= 0.9
    assert held[:, :3].mean() >= 0.9
    # Of slopes, and of levels of 900 rows.
    size = [np.sqrt(np.mean(np.square(np.array(off)[:, at]))) for at in (slice(3), slice(3, 62))]
    assert np.less(size, (2.2, 2.2) if adjacency == "replace" else (1.4, 1.2)).all()


@pytest.mark.slow
def test_other_terms_come_from_a_release():
    """Products with the factor, and two that are wide."""
    assert hasattr(fitted("y ~ a*h + b | firm", **SURE), "sampling")
    assert hasattr(fitted("y ~ a + a:firm + firm", **SURE), "release")


@pytest.mark.parametrize("n_levels", [8, 9])
def test_rare_levels_cost_others_nothing_from_nine_levels_on(n_levels):
    """Levels of 30 of 60,000 rows, which columns would hide or find with the noise of all."""
    pytest.importorskip("pandas")
    rng = np.random.default_rng(n_levels)
    g = np.sort(np.append(np.repeat(np.arange(2, n_levels), 30), rng.integers(0, 2, 60_000)))
    names = [f"g{i}" for i in range(n_levels)]
    table = {"x": rng.normal(size=len(g)).clip(-4, 4), "g": np.array(names, object)[g]}
    table["y"] = (table["x"] + rng.normal(size=len(g))).clip(-10, 10)
    columns = {"x": (-4, 4), "g": names, "y": (-10, 10)}
    fit = fitted("y ~ x + g", table, columns=columns)
    assert ("hidden_levels" in fit.parameters) == (n_levels > 8)
    if n_levels > 8:
        error = 1 / math.sqrt(len(g))
        assert fit.bse["x"] < 2 * error
        assert abs(fit.params["x"] - 1) < 4 * fit.bse["x"]  # 1 seed in 16,000
        assert fit.bse["g[g1]"] < 1.5 * 2 * error


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_slopes_are_those_within_levels_where_effects_go_with_features(adjacency):
    """Of 24 intervals that hold in 95 % fewer than 19 hold in less than one run of a thousand."""
    held, rng = 0, np.random.default_rng(4)
    names = [f"f{i}" for i in range(60)]
    columns = pg.Columns({"x": (-8, 8), "firm": names, "y": (-15, 15)}, intercept=True)
    for seed in range(24):
        sizes = 60 / (1 + np.arange(60))
        firm = rng.choice(60, 15_000, p=sizes / sizes.sum())
        effect = rng.normal(size=60)[firm]
        x = effect + rng.normal(size=15_000)
        y = 0.2 * x + 2 * effect + rng.normal(size=15_000)
        numbers = np.maximum(np.bincount(firm, minlength=60), 1)
        within = x - (np.bincount(firm, x, 60) / numbers)[firm]
        table = {"x": x, "firm": np.array(names, object)[firm], "y": y}
        fit = fitted("y ~ x | firm", table, seed, columns=columns, adjacency=adjacency)
        lower, upper = np.asarray(fit.conf_int(estimand="sample"))[0]
        held += lower <= within @ y / (within @ within) <= upper
        assert upper - lower < 1.5  # pooled, the slope is 1.2
    assert held >= 19


@pytest.mark.slow
def test_levels_of_two_rows_are_enough():
    """10,000 of them, of which no mean is known."""
    names, rng = [f"f{i}" for i in range(10_000)], np.random.default_rng(0)
    columns = pg.Columns({"x": (-8, 8), "firm": names, "y": (-15, 15)}, intercept=True)
    firm = np.repeat(np.arange(10_000), 2)
    effect = rng.normal(size=10_000)[firm]
    x = effect + rng.normal(size=20_000)
    y = 0.5 * x + 2 * effect + rng.normal(size=20_000)
    table = {"x": x, "firm": np.array(names, object)[firm], "y": y}
    fit = fitted("y ~ x | firm", table, 0, columns=columns, epsilon=4.0)
    x, y = (a[::2] - a[1::2] for a in (x, y))
    lower, upper = np.asarray(fit.conf_int(estimand="sample"))[0]
    assert lower <= x @ y / (x @ x) <= upper
    assert upper - lower < 0.1
    assert fit.df_resid == 20_000 - 2 - 9_999


def two_way(n=30_000):
    rng = np.random.default_rng(0)
    region, year = rng.integers(0, 200, n), rng.integers(0, 12, n)
    x = rng.normal(size=200)[region] + rng.normal(size=12)[year] + rng.normal(size=n)
    y = 0.5 * x + rng.normal(size=200)[region] + 2 * rng.normal(size=12)[year] + rng.normal(size=n)
    names = {"region": [f"r{i}" for i in range(200)], "year": [f"y{i}" for i in range(12)]}
    table = {"x": x.clip(-8, 8), "y": y.clip(-20, 20), "w": np.ones(n), "who": np.arange(n) // 2}
    table |= {
        name: np.array(names[name], object)[at] for name, at in (("region", region), ("year", year))
    }
    return table, {"x": (-8, 8), "y": (-20, 20), "w": (0, 1)} | names, (region, year)


TWO, TWO_COLUMNS, TWO_CODES = two_way()


@pytest.mark.slow
def test_of_two_absorbed_factors_the_smaller_is_columns_within_the_larger():
    region, year = TWO_CODES
    effects = [region[:, None] == np.arange(200), year[:, None] == np.arange(1, 12)]
    X = np.column_stack([TWO["x"], *effects]).astype(float)
    coef = np.linalg.solve(X.T @ X, X.T @ TWO["y"])
    widths = []
    for seed, formula in enumerate(2 * ("y ~ x | region + year", "y ~ x | year + region")):
        fit = fitted(formula, TWO, columns=TWO_COLUMNS, epsilon=4.0, seed=seed)
        assert fit.param_names == ("x", "Intercept")
        assert (fit.parameters["absorbed"], fit.parameters["absorbed_levels"]) == ("region", 200)
        assert fit.df_resid == len(region) - 1 - 11 - 200
        low, high = np.asarray(fit.conf_int(estimand="sample"))[0]
        assert low < coef[0] < high
        widths.append(high - low)
    # Of one fit in seven noise in the counts passes for long pairs, and its interval is wide.
    assert np.median(widths) < 0.03, widths


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x | region + w_level", {}),
        ("y ~ 1 | region", {}),
        ("y ~ x:region | region", {}),
        ("y ~ x | region:year", {}),
        ("y ~ 0 + x | region", {}),
        ("y ~ x | region", {"unit": pg.Unit("who", max_rows=2), "most": "100"}),
        ("y ~ x | region", {"columns": pg.Columns(TWO_COLUMNS, row_weights="w"), "most": "100"}),
    ],
)
def test_effects_that_pairs_do_not_take_off_are_refused_before_anything_is_spent(formula, options):
    """No fit comes from a release without being asked for."""
    many = {"w_level": [f"l{i}" for i in range(51)]}
    table = TWO | {"w_level": np.array(many["w_level"], object)[np.arange(30_000) % 51]}
    options = dict(options)
    columns, most = options.pop("columns", TWO_COLUMNS), options.pop("most", "one factor")
    if isinstance(columns, dict):
        columns = columns | many
    study = pg.Study(table, columns, epsilon=1.0, delta=1e-6, **options)
    with pytest.raises(ValueError, match=rf"effects after \| are taken along of {most}"):
        study.regress(formula, 1.0)
    assert study.remaining() == 1.0
