"""One regression by scores: what it fits, what a look can give away, what it costs."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram._core.units import UnitAccumulator
from privgram.drawing.draws import Looks
from privgram.drawing.scores import add_to_integers
from privgram.mechanisms import Refined
from privgram.moment.rows import Mapped
from privgram.moment.scored import (
    PARTS,
    UNITS,
    Leading,
    ScoreShells,
    ScoreSum,
    UnitScored,
    UnitSecond,
    scale,
)
from privgram.privacy import GaussianProfile
from privgram.regression import scoring

pytest.importorskip("formulaic")

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
HC1_UNITS = {"cov_type": "HC1", "unit": pg.Unit("who", rows=4)}
NONROBUST_UNITS = {"cov_type": "nonrobust", "unit": pg.Unit("who", rows=4)}


def fitted(source=TABLE, formula=FORMULA, columns=COLUMNS, seed=1, **options):
    setting = {"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return pg.regress(source, formula, columns, **setting)


# --- what it computes -------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_without_noise_it_is_least_squares_with_robust_errors(adjacency):
    fit = fitted(adjacency=adjacency, **SURE)
    coef, covariance = solved(TABLE)
    assert fit.parameters["way"] == "scores"
    assert fit.param_names == ("a", "b", "g[v]", "g[w]", "Intercept")
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=1e-3 * errors.max())
    np.testing.assert_allclose(np.asarray(fit.bse), errors, rtol=1e-2)
    np.testing.assert_allclose(fit.predict(TABLE), fit_rows(TABLE) @ coef, atol=1e-2)
    assert fit.n_rows == pytest.approx(20_000, rel=1e-5)
    inside = fit.conf_int(of="data")
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


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_scores_of_units_have_clustered_errors(adjacency):
    """Without noise they are those of textbooks; with it one look at units is far worse."""
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
    unit = pg.Unit("who", rows=4)
    fit = fitted(table, unit=unit, adjacency=adjacency, **SURE)
    assert (fit.cov_type, fit.unit) == ("cluster", "who")
    np.testing.assert_allclose(np.asarray(fit.params), coef, atol=1e-2 * errors.max())
    # Wider by what units that were clipped in the first look may have left of the steps.
    ratio = np.asarray(fit.bse) / errors
    assert ((ratio > 0.98) & (ratio < 1.35)).all()
    named = fitted(table, unit=unit, adjacency=adjacency, cov_type="cluster", **SURE)
    np.testing.assert_array_equal(named.cov_params(), fit.cov_params())
    assert named.cov_type == "cluster"
    noisy = fitted(table, unit=unit, adjacency=adjacency, epsilon=3.0)
    assert (noisy.parameters["way"], noisy.refusal) == ("scores", None)
    one = fitted(table, unit=unit, adjacency=adjacency, epsilon=3.0, mechanism="analyze-gauss")
    off = [np.abs((np.asarray(x.params) - coef) / errors).max() for x in (noisy, one)]
    assert off[0] < 3 < off[1]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_a_unit_of_which_nothing_is_said_has_its_bound_chosen_within_the_budget(adjacency):
    """Persons of up to 9 rows, whose first look by the median norm clips half of them."""
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(9000), rng.integers(1, 10, 9000))
    table = made(len(who), 6) | {"who": who}
    coef = solved(table)[0]
    sure = fitted(table, unit="who", adjacency=adjacency, **SURE)
    # Norms of 5 rows are about 5 |x|^2; that of the median unit is far from both ends.
    assert 1 < sure.parameters["look_radius"][0] ** 2 < 5 * len(sure.columns)
    np.testing.assert_allclose(np.asarray(sure.params), coef, atol=2e-3)
    fit = fitted(table, unit="who", adjacency=adjacency, epsilon=2.0)
    given = fit.parameters
    assert (given["way"], fit.refusal, fit.unit) == ("scores", None, "who")
    spent = [*given["look_mu"], *given["score_mu"], *given["counts_mu"]]
    spent.append(given.get("number_mu", 0.0))
    whole = Refined().calibrate(len(fit.columns), 1.0, 2.0, 1e-6, adjacency).mu
    assert math.hypot(*spent) == pytest.approx(whole, rel=1e-9)
    assert math.hypot(*spent) < whole
    assert (np.abs(np.asarray(fit.params) - coef) < 3 * np.asarray(fit.bse)).all()


def test_a_table_that_changes_after_the_bound_was_chosen_is_noticed():
    """The passes of one fit are of one table, or its budget is not that of its neighbours."""
    table = made(9000, 7) | {"who": np.repeat(np.arange(3000), 3)}

    class Shrinking:
        passes = 0

        def __iter__(self):
            self.passes += 1
            yield table if self.passes == 1 else {name: x[:6000] for name, x in table.items()}

    with pytest.raises(OSError, match="has changed between two looks"):
        fitted(Shrinking(), unit="who", **SURE)


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


def test_rows_in_any_form_and_order_give_the_same_bits():
    fit = fitted()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    turned = np.random.default_rng(0).permutation(len(frame))
    for source in (frame, [frame[:7000], frame[7000:]], frame.iloc[turned]):
        again = fitted(source)
        np.testing.assert_array_equal(again.solution, fit.solution)
        np.testing.assert_array_equal(again.sampling, fit.sampling)


def test_missing_values():
    table = {name: column.copy() for name, column in TABLE.items()}
    table["b"][::5] = np.nan
    with pytest.raises(ValueError, match="missing value"):
        fitted(table)
    kept = {name: column[~np.isnan(table["b"])] for name, column in table.items()}
    dropping = pg.Columns(COLUMNS.variables, intercept=True, missing="drop")
    for adjacency in ("replace", "add-remove"):
        fit = fitted(table, columns=dropping, adjacency=adjacency, **SURE)
        np.testing.assert_allclose(np.asarray(fit.params), solved(kept)[0], atol=1e-3)
        assert fit.n_rows == pytest.approx(16_000, rel=1e-4)


def test_saved_and_loaded(tmp_path):
    fit = fitted()
    for name in ("fit.json", "fit.npz"):
        fit.save(tmp_path / name)
        again = pg.load(tmp_path / name)
        assert str(again.summary()) == str(fit.summary())
        assert repr(again) == repr(fit)
        np.testing.assert_array_equal(again.conf_int(of="data"), fit.conf_int(of="data"))
        assert again.privacy == fit.privacy
    fit.__dict__["epsilon"] = 0.1  # under a checksum of its own
    fit.save(tmp_path / "lies.json")
    with pytest.raises(DamagedFile, match="another delta"):
        pg.load(tmp_path / "lies.json")


def test_where_scores_would_tell_nothing_another_way_is_taken():
    ways = {}
    for rows, epsilon in ((300, 0.01), (500, 1.0), (20_000, 1.0)):
        table = {name: column[:rows] for name, column in TABLE.items()}
        fit = fitted(table, epsilon=epsilon)
        ways[rows] = fit.parameters["way"]
        assert bool(fit.parameters["why"]) == (ways[rows] != "scores")
        assert (ways[rows] == "scores") == ("Not by scores" not in str(fit.summary()))
    assert ways == {300: "one look", 500: "second moment", 20_000: "scores"}


def test_who_assumes_that_the_tail_is_seen_has_smaller_errors_of_the_same_estimates(tmp_path):
    heavy = made(tail=lambda rng, n: rng.standard_t(2.5, n))
    cautious, seen = (fitted(heavy, clipping=x, epsilon=1.0) for x in ("cautious", "assume-seen"))
    assert seen.parameters["way"] == "scores"
    np.testing.assert_array_equal(seen.params, cautious.params)
    np.testing.assert_array_equal(seen.sampling, cautious.sampling)
    assert (seen.bse < 0.8 * cautious.bse).all()
    assert "as many as noise may hide" in str(cautious.summary())
    assert "go on as those that were" in str(seen.summary())
    seen.parameters["clipping"] = "hopeful"
    seen.save(tmp_path / "fit.json")
    with pytest.raises(DamagedFile, match="clipping is"):
        pg.load(tmp_path / "fit.json")


# --- how the clip is chosen -------------------------------------------------------------------


def shells(lengths, units, rng, grid, counts_std=5.0, turns_std=5.0):
    """What is released of scores of these lengths along these units."""
    found = ScoreShells(units.shape[1], grid)
    found.add(units * lengths[:, None], lengths)
    counts = found.counts / PARTS + rng.normal(0, counts_std, len(grid))
    turns = found.total / scale(units.shape[1])
    return counts, turns + rng.normal(0, turns_std, turns.shape), grid, counts_std, turns_std


@pytest.mark.slow
def test_the_clip_is_near_the_best_for_normal_rows_and_far_noise_is_not_taken_for_rows():
    """Of 40 draws none is 3 times as long as the tail: a false alarm far out would be."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50_000, 5))
    scores = rows * rng.normal(size=(50_000, 1))
    sizes = np.linalg.norm(scores, axis=1)
    grid = scoring.lengths(math.sqrt(5), 1000.0)
    for _ in range(40):
        seen = shells(sizes, scores / sizes[:, None], rng, grid)
        clip = scoring.choose_clip(*seen, 5.0, 50_000.0)
        assert 2 * math.sqrt(5) < clip.size < 1.5 * sizes.max()


def test_rows_that_pull_one_way_are_seen_and_taken_back():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(50_000, 5)) * rng.normal(size=(50_000, 1))
    pulling = np.zeros((2000, 5))
    pulling[:, 0] = rng.uniform(12, 20, 2000)
    both = np.concatenate([scores, pulling])
    sizes = np.linalg.norm(both, axis=1)
    grid = scoring.lengths(math.sqrt(5), 1000.0)
    clip = scoring.choose_clip(
        *shells(sizes, both / sizes[:, None], rng, grid), 200.0, float(len(both))
    )
    lost = (both * np.maximum(0, 1 - clip.size / sizes)[:, None]).sum(axis=0)
    assert lost[0] > 1000  # or there is nothing to see
    assert abs(clip.taken[0] - lost[0]) < 0.2 * lost[0]
    assert abs(clip.taken[0] - lost[0]) < 3 * clip.doubt


def doubts(scores, counts_std, turns_std, noise):
    """In 40 draws: deviations that intervals allow for, and those by which they would need to."""
    rng = np.random.default_rng(5)
    sizes = np.linalg.norm(scores, axis=1)
    grid = scoring.lengths(math.sqrt(scores.shape[1]), 20 * sizes.max())
    found = []
    for _ in range(40):
        seen = shells(sizes, scores / sizes[:, None], rng, grid, counts_std, turns_std)
        clip = scoring.choose_clip(*seen, noise, float(len(sizes)))
        lost = (scores * np.maximum(0, 1 - clip.size / sizes)[:, None]).sum(axis=0)
        found.append((clip.doubt, np.abs(clip.taken - lost).max() / 1.96))
    return np.array(found).T


@pytest.mark.slow
def test_doubt_about_rows_far_out_is_small_where_tails_are_light():
    """Of normal rows under half a sampling error in the median, and under two in nine of ten."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(100_000, 5)) * rng.normal(size=(100_000, 1))
    doubt, needed = doubts(scores, 20.0, 25.0, 6.0)
    assert np.median(doubt) < 0.5 * math.sqrt(len(scores))
    assert np.quantile(doubt, 0.9) < 2 * math.sqrt(len(scores))
    assert (needed < doubt).all()


def test_doubt_covers_rows_far_out_that_pull_one_way():
    """Of 40 draws 34: where one in twenty fails, fewer would be seen once in seventy times."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(10_000, 5)) * rng.normal(size=(10_000, 1))
    scores[:3000, 0] = 1.5 * rng.uniform(size=3000) ** (-1 / 2.5)
    doubt, needed = doubts(scores, 25.0, 40.0, 8.0)
    assert (needed < doubt).sum() >= 34
    assert needed.max() > 1.5 * math.sqrt(len(scores))  # or there is nothing to cover


# --- privacy ----------------------------------------------------------------------------------


def test_no_row_moves_a_score_by_more_than_it_is_calibrated_for(rng):
    """An adversary's search over frames, clips and rows, in integers."""
    q, d, bound = 3, 5, math.sqrt(5)
    most = 0.0
    for _ in range(80):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-4, 5, (d, 1))
        clip = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (6, d))
        grid = np.geomspace(1e-3, 1e3, 9)
        for row in rows:
            look = Mapped(frame, bound, ScoreSum(q, clip))
            assert look.update(row[None].copy()) == -1
            square = sum(int(x) ** 2 for x in look.inner.total)
            assert square <= UNITS**2
            most = max(most, math.sqrt(square) / UNITS)
            counted = Mapped(frame, bound, ScoreShells(q, grid))
            counted.update(row[None].copy())
            assert counted.inner.counts.sum() == PARTS
            assert np.count_nonzero(counted.inner.total.any(axis=1)) <= 1
            assert sum(int(x) ** 2 for x in counted.inner.total.ravel()) <= UNITS**2
    assert most > 0.999  # attained, or the search would see nothing
    for q in (1, 2, 7, 500):  # also if all entries are rounded up
        worst = np.full((1, q), 1 / math.sqrt(q))
        found = ScoreSum(q, 1.0)
        found.add(worst * 1e9, np.array([1e9]))
        assert 0.999 * UNITS < math.sqrt(sum(int(x) ** 2 for x in found.total)) <= UNITS


def test_no_unit_moves_a_score_by_more_than_a_row_and_its_rows_have_no_order(rng):
    """Whatever number of rows it has, and however long they are."""
    q, d, bound = 3, 5, math.sqrt(5)
    most = 0.0
    for trial in range(40):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-3, 4, (d, 1))
        clip = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (1 + 20 * (trial % 3), d))
        totals = []
        for some in (rows, rows[::-1]):
            look = UnitScored(frame, bound, ScoreSum(q, clip))
            assert look.update(some.copy(), np.zeros(1, np.intp)) == -1
            assert look.n_rows == 1
            totals.append(look.inner.total)
        np.testing.assert_array_equal(*totals)
        square = sum(int(x) ** 2 for x in totals[0])
        assert square <= UNITS**2
        most = max(most, math.sqrt(square) / UNITS)
    assert most > 0.999


def test_no_unit_moves_a_second_moment_in_a_frame_by_more_than_the_radius(rng):
    """In integers, by matrices of units of 1 to 41 rows, of all lengths."""
    m, d, bound, most = 3, 5, math.sqrt(5), 0.0
    for trial in range(40):
        frame = rng.standard_normal((d, d)) * 10.0 ** rng.integers(-3, 4, (d, 1))
        radius = float(10.0 ** rng.uniform(-3, 3))
        rows = rng.uniform(-1, 1, (1 + 20 * (trial % 3), d))
        look = UnitSecond(frame, bound, Leading(UnitAccumulator(m, radius, radius)))
        assert look.update(rows, np.zeros(1, np.intp)) == -1
        assert (look.n_rows, look.inner.inner.n_units) == (1, 1)
        hi, lo = (limb.astype(object) for limb in look.inner.inner.limbs())
        square = sum((hi[i, j] * 2**64 + lo[i, j]) ** 2 for i in range(m) for j in range(m))
        assert square <= 2 ** (4 * look.inner.inner.bits)
        most = max(most, math.sqrt(square) / 2.0 ** (2 * look.inner.inner.bits))
    assert most > 0.999


def test_sums_and_counts_get_the_noise_that_is_stated(rng):
    """20,000 normals each: variances within five deviations, a false alarm in a million."""
    noise = add_to_integers(np.zeros(20_000, np.int64), 3.0, 1e-6, rng)
    looks = Looks.__new__(Looks)
    looks.rng, looks.record = rng, {"parameters": {"counts_mu": []}}
    looks.noise, looks.mu = SimpleNamespace(counts_std=lambda mu: 1e3 / mu), lambda share: share
    counts, std = looks.noisy(SimpleNamespace(counts=np.zeros(20_000, np.int64)), 0.5)
    for drawn, stated in ((noise, 3.0), (counts, std)):
        assert abs(np.mean((drawn / stated) ** 2) - 1) < 5 * math.sqrt(2 / 20_000)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("rows", [500, 20_000])
def test_the_shares_add_up_to_the_guarantee(adjacency, rows):
    fit = fitted({name: column[:rows] for name, column in TABLE.items()}, adjacency=adjacency)
    given = fit.parameters
    spent = [*given["look_mu"], *given.get("score_mu", []), *given["counts_mu"]]
    whole = Refined().calibrate(len(fit.columns), 1.0, 1.0, 1e-6, adjacency).mu
    assert math.hypot(*spent) == pytest.approx(whole, rel=1e-9)
    assert math.hypot(*spent) < whole
    assert fit.privacy == GaussianProfile(whole, adjacency)
    if rows > 500:
        # The last are of directions, which have length one, and of scores twice.
        for at, length in ((-3, 1.0), (-2, given["clip"]), (-1, given["clip"])):
            needed = (2 if adjacency == "replace" else 1) * length / given["score_mu"][at]
            assert needed < given["score_noise_std"][at] < (1 + 1e-5) * needed


def test_the_ledger_is_charged_once_and_before_the_noise(tmp_path, monkeypatch):
    ledger = pg.Ledger(tmp_path / "one", epsilon=1.2, delta=1e-5)
    fit = fitted(ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.epsilon, entry.delta) == (1.0, 1e-6)
    assert entry.what == "regress(y)"
    assert entry.privacy == fit.privacy
    with pytest.raises(pg.BudgetExceeded):
        fitted(SimpleNamespace(), ledger=ledger)  # no table: refused before it is read
    fresh = pg.Ledger(tmp_path / "two", epsilon=5.0, delta=1e-5)

    def fail(*args, **options):
        raise RuntimeError("no noise")

    monkeypatch.setattr("privgram.drawing.draws.symmetric_gaussian", fail)
    with pytest.raises(RuntimeError, match="no noise"):
        fitted(ledger=fresh)
    assert len(fresh.entries) == 1


def test_nothing_is_spent_for_what_cannot_be_fitted(tmp_path):
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    for error, options in (
        ("cov_type is", {"cov_type": "HC3"}),
        ("clipping is", {"clipping": "none"}),
        ("of scores that are clipped: leave", {"clipping": "assume-seen"} | RELEASED),
        ("loss clips nothing", {"clipping": "assume-seen", "loss": "huber"}),
        ("rows are protected singly here", {"cov_type": "cluster"}),
        ("rows of one unit may go together", NONROBUST_UNITS),
        ("rows of one unit may go together", HC1_UNITS),
        ("study weights its rows by 'b'", {"weights": "a", "columns": WEIGHTED}),
        ("not negative; 'a' is none", {"weights": "a"}),
        ("nothing", {"formula": "y ~ nothing"}),
        ("robust standard errors come with scores", ROBUST_REFUSED),
        (r"must end in \.json", {"out": tmp_path / "fit.txt"}),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            fitted(ledger=ledger, **options)
    assert ledger.entries == ()


def test_who_asks_for_more_than_scores_gets_a_release():
    for options in ({"mechanism": "analyze-gauss"}, {"formula": "y ~ a + b + a:g | g"}):
        assert hasattr(fitted(**options), "release")
    assert not hasattr(fitted(), "release")


# --- how often its intervals hold ---------------------------------------------------------------


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
    held = {"population": [], "data": []}
    for seed in range(40):
        table = made(20_000, seed, tail)
        fit = fitted(table, seed=seed, adjacency=adjacency)
        assert fit.refusal is None
        exact = solved(table)[0][:4]
        for of, aim in (("population", truth), ("data", exact)):
            low, high = np.asarray(fit.conf_int(of=of))[:4].T
            held[of].append((low <= aim) & (aim <= high))
    for of in held:
        assert np.mean(held[of]) >= 0.95 - 3.6 * math.sqrt(0.95 * 0.05 / 160)


@pytest.mark.parametrize("cov_type", ["HC1", "nonrobust"])
def test_what_a_summary_prints_can_be_asked_for(cov_type):
    """By statsmodels' names, which "robust" was none of."""
    fit = fitted(cov_type=cov_type, **SURE)
    assert fit.cov_type == cov_type
    assert cov_type in str(fit.summary())
