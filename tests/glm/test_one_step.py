"""One regression by scores: what it fits, what a round can give away, what it costs."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.glm.clipping import Clip
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.state import LIMITS, initial_state, isotropic
from privgram.mechanisms import AdaptiveGaussian

#: So large a budget that noise is nothing.
SURE = {"epsilon": 1e9, "delta": 0.5}

COLUMNS = pg.Columns({"a": (-4, 4), "b": (0, 10), "g": list("uvw"), "y": (-40, 40)}, intercept=True)
FORMULA = "y ~ a + b + g"


def made(n=20_000, seed=0, tail=None):
    rng = np.random.default_rng(seed)
    a, b, g = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n), rng.integers(0, 3, n)
    e = rng.normal(size=n) if tail is None else tail(rng, n)
    y = (0.8 * a - 0.3 * b + 0.5 * g + 1 + e * (0.5 + 0.1 * b)).clip(-40, 40)
    return {"a": a, "b": b, "g": np.array(list("uvw"))[g], "y": y}


def test_target_beyond_its_bounds_is_said_to_be_in_another_unit():
    x = np.random.default_rng(0).uniform(0, 1, 4000)
    bounds, rng = {"x": (0, 1), "y": (5, 9)}, np.random.default_rng(0)
    fit = pg.regress({"x": x, "y": x}, "y ~ x", bounds, epsilon=2.0, delta=1e-6, rng=rng)
    assert "bounds, as where these are in another unit" in fit.refusal


def fit_rows(table):
    levels = [table["g"] == level for level in "vw"]
    return np.column_stack([table["a"], table["b"], *levels, np.ones(len(table["a"]))]).astype(
        float
    )


def solved(table):
    """Least squares as textbooks have it: coefficients and HC1, the intercept last."""
    X = fit_rows(table)
    inverse = np.linalg.inv(X.T @ X)
    coef = inverse @ X.T @ table["y"]
    scores = X * (table["y"] - X @ coef)[:, None]
    factor = len(X) / (len(X) - X.shape[1])
    return coef, factor * inverse @ scores.T @ scores @ inverse


TABLE = made()


WEIGHTED = pg.Columns(COLUMNS.variables, row_weights="b", intercept=True)

RELEASED = {"mechanism": "analyze-gauss"}
ROBUST_REFUSED = {"cov_type": "HC1"} | RELEASED
HC1_UNITS = {"cov_type": "HC1", "unit": pg.Unit("who", max_rows=4)}
NONROBUST_UNITS = {"cov_type": "nonrobust", "unit": pg.Unit("who", max_rows=4)}


def fitted(source=TABLE, formula=FORMULA, columns=COLUMNS, seed=1, **options):
    setting = {"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return pg.regress(source, formula, columns, **setting)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_without_noise_it_is_least_squares_with_robust_errors(adjacency):
    fit = fitted(adjacency=adjacency, **SURE)
    coef, covariance = solved(TABLE)
    assert fit.parameters["method"] == "scores"
    assert fit.param_names == ("a", "b", "g[v]", "g[w]", "Intercept")
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=1e-3 * errors.max())
    np.testing.assert_allclose(np.asarray(fit.bse), errors, rtol=1e-2)
    np.testing.assert_allclose(fit.predict(TABLE), fit_rows(TABLE) @ coef, atol=1e-2)
    assert fit.n_rows == pytest.approx(20_000, rel=1e-5)
    inside = fit.conf_int(estimand="sample")
    assert (np.diff(np.asarray(inside)) < 0.02 * errors.max()).all()  # of these rows all is known
    usual = fitted(adjacency=adjacency, cov_type="nonrobust", **SURE)
    assert not np.allclose(np.asarray(usual.bse), errors, rtol=0.02)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_weights_are_those_of_weighted_least_squares(adjacency):
    weight = np.random.default_rng(4).uniform(0, 2, 20_000)
    columns = pg.Columns(COLUMNS.variables | {"w": (0, 2)}, row_weights="w", intercept=True)
    fit = fitted(TABLE | {"w": weight}, columns=columns, adjacency=adjacency, **SURE)
    X, root = fit_rows(TABLE), np.sqrt(weight)
    coef = np.linalg.lstsq(X * root[:, None], TABLE["y"] * root)[0]
    inverse = np.linalg.inv((X * weight[:, None]).T @ X)
    scores = X * (weight * (TABLE["y"] - X @ coef))[:, None]
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=1e-2 * errors.max())
    np.testing.assert_allclose(np.asarray(fit.bse), errors, rtol=0.05)
    assert adjacency != "replace" or fit.nobs == 20_000
    plain = pg.Columns(COLUMNS.variables | {"w": (0, 2)}, intercept=True)
    once = fitted(TABLE | {"w": weight}, columns=plain, weights="w", adjacency=adjacency, **SURE)
    np.testing.assert_array_equal(once.solution, fit.solution)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_weights_far_below_their_bound_contradict_nothing(adjacency):
    """Scores have them twice and the scale once: what was an eighth of it was refused."""
    weight = np.exp(np.random.default_rng(4).normal(0.0, 0.8, 20_000)).clip(0.2, 12)
    columns = pg.Columns(COLUMNS.variables | {"w": (0, 16)}, row_weights="w", intercept=True)
    fit = fitted(TABLE | {"w": weight}, columns=columns, adjacency=adjacency, **SURE)
    assert fit.refusal is None
    root = np.sqrt(weight)[:, None]
    coef = np.linalg.lstsq(fit_rows(TABLE) * root, TABLE["y"] * root[:, 0])[0]
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=0.1 * np.asarray(fit.bse).max())


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_scores_of_units_have_clustered_errors(adjacency):
    """Without noise they are those of textbooks; with it one round at units is far worse."""
    rng = np.random.default_rng(2)
    who = np.repeat(np.arange(8000), rng.integers(1, 5, 8000))
    whose = rng.normal(size=8000)[who]
    table = made(len(who), 3) | {"who": who}
    table["a"] = (0.7 * whose + 0.7 * table["a"]).clip(-4, 4)
    table["y"] = (table["y"] + whose).clip(-40, 40)
    X = fit_rows(table)
    inverse = np.linalg.inv(X.T @ X)
    coef = inverse @ X.T @ table["y"]
    sums = np.zeros((8000, X.shape[1]))
    np.add.at(sums, who, X * (table["y"] - X @ coef)[:, None])
    errors = np.sqrt(np.diag(inverse @ sums.T @ sums @ inverse))
    unit = pg.Unit("who", max_rows=4)
    fit = fitted(table, unit=unit, adjacency=adjacency, **SURE)
    assert (fit.cov_type, fit.unit) == ("cluster", "who")
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=1e-2 * errors.max())
    # Wider by what units that were clipped in the first round may have left of the steps.
    ratio = np.asarray(fit.bse) / errors
    assert ((ratio > 0.98) & (ratio < 1.35)).all()
    named = fitted(table, unit=unit, adjacency=adjacency, cov_type="cluster", **SURE)
    np.testing.assert_array_equal(named.cov_params(), fit.cov_params())
    assert named.cov_type == "cluster"
    noisy = fitted(table, unit=unit, adjacency=adjacency, epsilon=3.0)
    assert (noisy.parameters["method"], noisy.refusal) == ("scores", None)
    one = fitted(table, unit=unit, adjacency=adjacency, epsilon=3.0, mechanism="analyze-gauss")
    off = [np.abs((np.asarray(x.params) - coef) / errors).max() for x in (noisy, one)]
    assert off[0] < 3 < off[1]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_unit_of_which_nothing_is_said_has_its_bound_chosen_within_the_budget(adjacency):
    """Persons of up to 9 rows, whose first round by the median norm clips half of them."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(9000), rng.integers(1, 10, 9000))
    table = made(len(who), 6) | {"who": who}
    coef = solved(table)[0]
    sure = fitted(table, unit="who", adjacency=adjacency, **SURE)
    # Norms of 5 rows are about 5 |x|^2; that of the median unit is far from both ends.
    assert 1 < sure.parameters["round_radius"][0] ** 2 < 5 * len(sure.columns)
    np.testing.assert_allclose(np.asarray(sure.params), coef, atol=2e-3)
    fit = fitted(table, unit="who", adjacency=adjacency, epsilon=2.0)
    given = fit.parameters
    assert (given["method"], fit.refusal, fit.unit) == ("scores", None, "who")
    spent = [*given["round_mu"], *given["score_mu"], *given["counts_mu"]]
    spent.append(given.get("number_mu", 0.0))
    whole = AdaptiveGaussian().calibrate(len(fit.columns), 1.0, 2.0, 1e-6, adjacency).mu
    assert math.hypot(*spent) == pytest.approx(whole, rel=1e-9)
    assert math.hypot(*spent) < whole
    assert (np.abs(np.asarray(fit.params) - coef) < 3 * np.asarray(fit.bse)).all()


def test_table_that_changes_after_the_bound_was_chosen_is_noticed(monkeypatch):
    """The passes of one fit are of one table, or its budget is not that of its neighbours."""
    table = made(9000, 7) | {"who": np.repeat(np.arange(3000), 3)}

    class Shrinking:
        passes = 0

        def __iter__(self):
            self.passes += 1
            # The second time it is only asked whether there are rows.
            yield table if self.passes < 3 else {name: x[:6000] for name, x in table.items()}

    # Where rows fit, none are read again.
    monkeypatch.setattr("privgram.sources.table.CACHE_BYTES", 0)
    fit = fitted(Shrinking(), unit="who", **SURE)
    assert "could not be read again (it has changed meanwhile" in fit.refusal
    assert np.isnan(fit.params).all()


def test_no_row_has_a_longer_image_than_the_layout_says(rng):
    """Of 20,000 rows at random ends; the bound is attained where numbers alone are seen."""
    layout = COLUMNS.layout
    n, d = 20_000, layout.size
    rows = np.zeros((n, d))
    for own in layout.stored:
        if own.size > 1:
            rows[np.arange(n), own.start + rng.integers(0, own.size, n)] = own.weight
        else:
            rows[:, own.start] = own.weight * rng.choice([-1.0, 1.0], n)
    numbers = np.array([own.size == 1 for own in layout.stored for _ in range(own.size)])
    for _ in range(20):
        matrix = rng.standard_normal((3, d))
        assert (np.abs(rows @ matrix.T).max(axis=0) <= layout.farthest(matrix) + 1e-12).all()
        matrix[:, ~numbers] = 0.0
        np.testing.assert_allclose(np.abs(rows @ matrix.T).max(axis=0), layout.farthest(matrix))


def test_missing_values():
    table = {name: column.copy() for name, column in TABLE.items()}
    table["b"][::5] = np.nan
    refuses(lambda: fitted(table), ValueError, "missing value")
    kept = {name: column[~np.isnan(table["b"])] for name, column in table.items()}
    dropping = pg.Columns(COLUMNS.variables, intercept=True, missing="drop")
    for adjacency in ("replace", "add-remove"):
        fit = fitted(table, columns=dropping, adjacency=adjacency, **SURE)
        np.testing.assert_allclose(np.asarray(fit.params), solved(kept)[0], atol=1e-3)
        assert fit.n_rows == pytest.approx(16_000, rel=1e-4)


def test_where_scores_would_tell_nothing_one_round_is_taken():
    methods = {}
    for rows, epsilon in ((2000, 0.3), (20_000, 1.0)):
        table = {name: column[:rows] for name, column in TABLE.items()}
        fit = fitted(table, epsilon=epsilon)
        methods[rows] = fit.parameters["method"]
        assert bool(fit.parameters["reason"]) == (methods[rows] != "scores")
        assert (methods[rows] == "scores") == ("Not by scores" not in str(fit.summary()))
    assert methods == {2000: "one round", 20_000: "scores"}


@pytest.mark.slow
def test_frame_is_near_white_for_few_long_rows_too(monkeypatch):
    """A dummy true in 200 of 60,000: middle rounds alone see a twelfth of it."""
    seen, nearer = [], OneStepEstimator._nearer

    def watched(estimator, state):
        seen.append((estimator.problem, state.whitening))
        return nearer(estimator, state)

    monkeypatch.setattr(OneStepEstimator, "_nearer", watched)
    rng = np.random.default_rng(100)
    a, b = rng.normal(size=(2, 60_000)).clip(-4, 4)
    rare = np.zeros(60_000, bool)
    rare[rng.choice(60_000, 200, replace=False)] = True
    y = (a - 0.5 * b + 2 * rare + rng.normal(size=60_000)).clip(-15, 15)
    bounds = {"a": (-4, 4), "b": (-4, 4), "rare": bool, "y": (-15, 15)}
    columns = pg.Columns(bounds, intercept=True)
    table = {"a": a, "b": b, "rare": rare, "y": y}
    fitted(table, "y ~ a + b + rare", columns, epsilon=1.0, seed=0)
    [(problem, whitening)] = seen
    z = problem.columns.encode(table) @ problem.design.images[:-1].T @ whitening.T
    values = np.linalg.eigvalsh(z.T @ z / 60_000)
    assert 0.3 < values.min() <= values.max() < 4


class Scripted(OneStepEstimator):
    """Scores that a test chooses, each with its noise."""

    sums_squares = False  # of which nothing is scripted

    def __init__(self, *scores):
        self.q = len(scores[0][0])
        self.scores = iter(scores)
        squares = 100.0 * np.eye(self.q)
        self.rounds = SimpleNamespace(
            clusters=None,
            moment=SimpleNamespace(columns=SimpleNamespace(row_weights=None)),
            spent=0.0,
            noise=SimpleNamespace(mu=1.0),
            std=[0.0],
            take=lambda *_: squares,
            sums_at=lambda *_: (None, None),
            score=lambda *_: next(self.scores),
        )
        self.problem = SimpleNamespace(robust=True, purpose="inference")

    def _score(self, *_):
        return next(self.scores)

    def _at(self, state):
        return None


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_last_score_without_noise_still_leaves_what_its_step_does(bias):
    """What the Hessian's error leaves of the first estimate's variance v is all that is off.

    So two estimates with the variances v and r v weigh r : 1. Noise N of q directions with the
    variance .2, and .4 on the diagonal, has E N^2 = .2 (q + 1) I.
    """
    q, rows = 2, 100.0
    state = initial_state(rows * np.eye(q + 1), isotropic(0.0), 1e-9 * np.eye(q + 1), rows)
    state = replace(state, hessian_noise=isotropic(math.sqrt(0.2)), hessian_bias=bias)
    left = 0.2 * (q + 1) + bias**2
    first, last = np.array([3.0, 1.0]), np.array([-2.0, 1.0])
    fit = Scripted((first, 5.0), (last, 0.0))._last_scores(state, Clip(1.0, 0.0))
    where = state.coef + state.step(first) + state.step(last) / (1 + left)
    np.testing.assert_allclose(fit.coef, where, rtol=1e-12)


class OfLengths(Scripted):
    """Rows whose images are of lengths that a test chooses, by direction."""

    def __init__(self, lengths, mu=1.0):
        super().__init__((np.zeros(len(lengths)), 0.0))
        self.rounds.noise.mu = mu
        self.each = 1.0
        self.lengths = lengths

    def _at(self, state):
        back = np.linalg.inv(self.whitening)
        return SimpleNamespace(matrix=state.whitening @ back * np.array(self.lengths)[:, None])

    def _far(self, leading):
        return float(np.linalg.norm(leading))

    def _doubt(self, share):
        return 1 / LIMITS.uncounted  # so that one row is too few

    def limited(self, rows, visible, beyond):
        """What is left of a state with errors of 1 in each direction; and that state."""
        q = len(self.lengths)
        joint = rows * np.eye(q + 1)
        joint[:q, q] = joint[q, :q] = 0.1 * rows
        state = initial_state(joint, isotropic(0.0), 1e-9 * np.eye(q + 1), rows)
        state = replace(state, visible=np.array(visible, float))
        self.whitening = state.whitening
        edges = np.array([1.0, 2.0, 4.0])
        return self._without_few(state, edges, np.array(beyond, float)), state


@pytest.mark.parametrize("mu", [1.0, 7.0])
def test_hidden_directions_are_no_longer_than_few_rows_would_be(mu):
    """Of 100 rows none fills a direction if it is 10 long; noise is never so little beside that.

    The first is hidden and 50 long, the second hidden and 5, the third visible and 50.
    """
    estimator = OfLengths([50.0, 5.0, 50.0], mu)
    left, state = estimator.limited(100.0, [0, 0, 1], [100, 100, 0])  # as many as there can be
    np.testing.assert_allclose(left.whitening, np.diag([0.2, 1, 1]) @ state.whitening)
    np.testing.assert_array_equal(left.visible, state.visible)
    np.testing.assert_allclose(
        state.whitening @ left.coef, [0, *(state.whitening @ state.coef)[1:]]
    )


@pytest.mark.parametrize(
    ("beyond", "visible"), [([100, 100, 0], [1, 1, 1]), ([60, 0, 0], [1, 0, 1])]
)
def test_longest_direction_is_hidden_where_counts_miss_one(beyond, visible):
    left, _ = OfLengths([5.0, 50.0, 30.0]).limited(100.0, [1, 1, 1], beyond)
    np.testing.assert_array_equal(left.visible, visible)


def test_nothing_is_spent_for_what_cannot_be_fitted(tmp_path):
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    table = TABLE | {"who": np.arange(len(TABLE["y"])) // 4}
    for error, options in (
        ("cov_type is", {"cov_type": "HC3"}),
        ("purpose is", {"purpose": "means"}),
        ("name their column, groups=", {"cov_type": "cluster"}),
        ("say it too", {"groups": "g"}),
        ("'a' is none: list its levels", {"cov_type": "cluster", "groups": "a"}),
        ("no other clusters", {"cov_type": "cluster", "groups": "g", "unit": "who"}),
        ("is of family=", {"cov_type": "cluster", "groups": "g", "loss": "huber"}),
        ("rows of one unit may go together", NONROBUST_UNITS),
        ("rows of one unit may go together", HC1_UNITS),
        ("study weights its rows by 'b'", {"weights": "a", "columns": WEIGHTED}),
        ("not negative; 'a' is none", {"weights": "a"}),
        ("nothing", {"formula": "y ~ nothing"}),
        ("robust standard errors come with scores", ROBUST_REFUSED),
        (r"must end in \.json", {"out": tmp_path / "fit.txt"}),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            fitted(table, ledger=ledger, **options)
    assert ledger.entries == ()


def test_request_beyond_scores_gets_a_release():
    assert hasattr(fitted(mechanism="analyze-gauss"), "release")
    assert not hasattr(fitted(), "release")
    with pytest.raises(ValueError, match=r"effects after \| are taken along"):
        fitted(formula="y ~ a + b + a:g | g")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "tail",
    [
        None,
        lambda rng, n: rng.standard_t(3, n),
        lambda rng, n: rng.exponential(1, n) - 1,
    ],
    ids=["normal", "t3", "one-sided"],
)
def test_intervals_hold(adjacency, tail):
    """40 tables of 5 coefficients, unequal variances: 92 % at least, or 3.6 deviations below.

    A false alarm in some 6000 if intervals held 95 %, were they independent.
    """
    truth = np.array([0.8, -0.3, 0.5, 1.0])
    held = {"population": [], "sample": []}
    for seed in range(40):
        table = made(20_000, seed, tail)
        fit = fitted(table, seed=seed, adjacency=adjacency)
        assert fit.refusal is None
        exact = solved(table)[0][:4]
        for of, aim in (("population", truth), ("sample", exact)):
            low, high = np.asarray(fit.conf_int(estimand=of))[:4].T
            held[of].append((low <= aim) & (aim <= high))
    for of in held:
        assert np.mean(held[of]) >= 0.95 - 3.6 * math.sqrt(0.95 * 0.05 / 160)


@pytest.mark.parametrize("cov_type", ["HC1", "nonrobust"])
def test_covariance_type_of_a_summary_can_be_requested(cov_type):
    """By statsmodels' names, which "robust" was none of."""
    fit = fitted(cov_type=cov_type, **SURE)
    assert fit.cov_type == cov_type
    assert cov_type in str(fit.summary())
