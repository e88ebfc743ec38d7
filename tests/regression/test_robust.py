"""Robust standard errors: what the second look releases, what it costs, and who is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import privgram as pg
from privgram._core.rows import Accumulator
from privgram.drawing import robust as drawing
from privgram.mechanisms import AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.moment.mapped import Mapped
from privgram.privacy import GaussianProfile
from privgram.regression import RefusedError

COLUMNS = pg.Columns(dict.fromkeys("aby", (-1.0, 1.0)), intercept=True)

#: So large a budget that noise is nothing.
SURE = {"epsilon": 1e9, "delta": 0.5}


def made_table(n=4000, seed=0):
    """Errors whose spread grows with the first feature."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = X @ [0.3, -0.2] + 0.35 * X[:, 0] ** 2 * rng.standard_normal(n)
    return np.column_stack([X, y.clip(-1, 1)])


TABLE = made_table()


def by_hand(X, y, clip=np.inf):
    """HC1 as textbooks have it, of clipped residuals."""
    coef = np.linalg.lstsq(X, y)[0]
    scores = X * np.clip(y - X @ coef, -clip, clip)[:, None]
    bread = np.linalg.inv(X.T @ X)
    n, p = X.shape
    return coef, bread @ (scores.T @ scores) @ bread * n / (n - p)


def with_ones(*columns):
    return np.column_stack([*columns, np.ones(len(columns[0]))]).astype(float)


def released(source=TABLE, seed=1, columns=COLUMNS, **options):
    setting = {"epsilon": 4.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return pg.release(source, columns=columns, mechanism=pg.AnalyzeGauss(), **setting)


def robust(fit, source=TABLE, seed=2, **options):
    setting = {"epsilon": 4.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return fit.robust(source, **setting)


# --- what it computes -------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_without_noise_it_is_hc1(adjacency, clip):
    fit = released(adjacency=adjacency, **SURE).regress("y")
    found = robust(fit, clip=clip, **SURE)
    coef, covariance = by_hand(with_ones(TABLE[:, :2]), TABLE[:, 2], clip or np.inf)
    np.testing.assert_allclose(found.params, coef, rtol=1e-3)
    np.testing.assert_allclose(found.cov_params(), covariance, rtol=2e-3, atol=1e-8)
    assert not np.allclose(found.bse, fit.bse, rtol=0.05)
    statistic = found.wald_test(["a", "b"], use_f=False)
    wald = coef[:2] @ np.linalg.solve(covariance[:2, :2], coef[:2])
    assert statistic.statistic == pytest.approx(wald, rel=5e-3)
    np.testing.assert_allclose(found.tvalues, coef / np.sqrt(np.diag(covariance)), rtol=5e-3)
    assert found.look.parameters["clips"] == (clip is not None)


def test_own_units_and_factors():
    rng = np.random.default_rng(3)
    n = 5000
    age, region = rng.uniform(20, 80, n), rng.choice(3, n, p=[0.5, 0.3, 0.2])
    spread = np.array([5.0, 20.0, 40.0])[region]
    wage = 100 + 2 * age + 30 * region + spread * rng.standard_normal(n)
    columns = pg.Columns(
        {"age": (20, 80), "region": list("abc"), "wage": (0, 500)},
        intercept=True,
        terms=["poly(age, 2)", "region", "wage"],
    )
    table = {"age": age, "region": np.array(list("abc"))[region], "wage": wage}
    fit = released(table, columns=columns, **SURE).regress("wage", ["poly(age, 2)", "region"])
    found = robust(fit, table, **SURE)
    X = with_ones(age, age**2, region == 1, region == 2)
    _, covariance = by_hand(X, wage)
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(covariance)), rtol=5e-3)
    clipped = robust(fit, table, clip=30.0, **SURE)
    _, covariance = by_hand(X, wage, 30.0)
    np.testing.assert_allclose(clipped.bse, np.sqrt(np.diag(covariance)), rtol=5e-3)
    assert "Residuals beyond 30" in str(clipped.summary())
    assert "Residuals beyond" not in str(found.summary())


@pytest.mark.parametrize("columns", [None, ["u", "v", "w"]])
def test_a_table_without_bounds(columns):
    source = TABLE if columns is None else dict(zip(columns, TABLE.T, strict=True))
    fit = released(source, columns=None, bound=2.0, **SURE).regress(2, [0, 1])
    found = robust(fit, source, **SURE)
    _, covariance = by_hand(TABLE[:, :2], TABLE[:, 2])
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(covariance)), rtol=5e-3)
    with pytest.raises(ValueError, match="4 columns and the release is of 3" if columns is None
                       else "column"):  # fmt: skip
        robust(fit, np.zeros((4000, 4)) if columns is None else {"u": TABLE[:, 0]})


@pytest.mark.parametrize("package", ["dict", "pandas", "polars", "pyarrow"])
def test_columns_are_told_by_names_that_look_like_positions(package):
    """A frame of x1, x0, y is not a table of x0, x1, x2, nor are its columns in that order."""
    source = dict(zip(("x1", "x0", "x2"), TABLE.T, strict=True))
    if package != "dict":
        module = pytest.importorskip(package)
        source = getattr(module, "table" if package == "pyarrow" else "DataFrame")(source)
    fit = released(source, columns=["x0", "x1", "x2"], bound=2.0, **SURE).regress("x2")
    found = robust(fit, source, **SURE)
    _, covariance = by_hand(TABLE[:, [1, 0]], TABLE[:, 2])
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(covariance)), rtol=5e-3)


def test_of_some_of_the_columns_and_without_missing_rows():
    table = TABLE.copy()
    table[::5, 1] = np.nan
    columns = pg.Columns(dict.fromkeys("aby", (-1.0, 1.0)), intercept=True, missing="drop")
    fit = released(table, columns=columns, **SURE).marginal(["intercept", "y", "a"]).regress("y")
    found = robust(fit, table, **SURE)
    kept = ~np.isnan(table).any(axis=1)
    _, covariance = by_hand(with_ones(table[kept, 0]), table[kept, 2])
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(covariance)), rtol=5e-3)


# --- privacy ----------------------------------------------------------------------------------


def summed(rows, frame, clip, radius, block=7, bound=2.0):
    total = Mapped(frame, bound, drawing.Scores(clip, Accumulator(3, radius)))
    for start in range(0, len(rows), block):
        assert total.update(rows[start : start + block]) == -1
    return SecondMoment.from_accumulator(total.inner.inner, None, None)


def test_no_row_moves_the_sum_by_more_than_it_is_calibrated_for():
    """Whatever frame a release taught, also one that no table would: an adversary's search."""
    rng = np.random.default_rng(4)
    largest = 0.0
    for scale in (1.0, 1e-3, 1e6):
        for _ in range(20):
            frame = scale * rng.standard_normal((4, 4))
            clip, radius = rng.exponential(size=2) + 0.01
            rows = rng.standard_normal((30, 4)) * 10.0 ** rng.integers(-3, 9, (30, 1))
            sums = [summed(row[None], frame, clip, radius) for row in rows]
            reach = sums[0].sensitivity_bound ** 2
            norms = [np.linalg.norm(one.matrix()) for one in sums]
            pairs = [np.linalg.norm(a.matrix() - b.matrix()) for a in sums[:9] for b in sums[9:]]
            assert max(norms) <= reach * (1 + 1e-12)
            assert max(pairs) <= math.sqrt(2) * reach * (1 + 1e-12)
            largest = max(largest, max(norms) / reach)
    assert largest > 0.99


def test_the_radius_clips_no_score():
    """|e x| <= c |x|, so that nothing is lost to the accumulator's own clipping."""
    planned = []
    fit = released().regress("y")
    original = fit.release._look_again

    def spy(release, look, *args, **options):
        planned.append(look)
        return original(release, look, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(fit.release), "_look_again", staticmethod(spy))
        robust(fit, clip=0.1)
    look = planned[0]
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
    rows = with_ones(corners) @ look.frame.T
    scores = rows[:, :-1] * rows[:, -1:].clip(-look.clip, look.clip)
    assert np.linalg.norm(scores, axis=1).max() == pytest.approx(look.radius, rel=1e-9)


def test_an_image_depends_on_its_row_alone():
    rng = np.random.default_rng(5)
    frame, rows = rng.standard_normal((4, 4)), rng.standard_normal((500, 4))
    one = summed(rows, frame, 0.3, 0.8)
    other = summed(rows[rng.permutation(500)], frame, 0.3, 0.8, block=64)
    for a, b in zip(one.limbs(), other.limbs(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_losses_on_neighbouring_tables_are_those_of_the_stated_profile(adjacency):
    """A route of its own: draws on two tables, along the line between their sums.

    300 draws each; limits of 4.5 standard errors of means and variances: a false alarm in 30 000.
    """
    table = TABLE[:400].copy()
    table[0] = [1.0, 1.0, -1.0]  # residuals beyond the clip, and features at their bounds
    other = table.copy()
    other[0] = [-1.0, 0.0, 1.0]
    if adjacency == "add-remove":
        other = other[1:]
    fit = released(table, adjacency=adjacency, epsilon=60.0).regress("y")
    exact = [robust(fit, t, clip=0.5, **SURE).look.matrix for t in (table, other)]
    line = exact[1] - exact[0]
    line /= np.linalg.norm(line)
    rng = np.random.default_rng(11)
    means = []
    for source in (table, other):
        looks = [robust(fit, source, clip=0.5, epsilon=20.0, seed=rng).look for _ in range(300)]
        std = math.sqrt(2) * looks[0].noise.std
        found = np.array([np.sum((look.matrix - exact[0]) * line) / std for look in looks])
        assert found.var() == pytest.approx(1, abs=4.5 * math.sqrt(2 / 300))
        means.append(found.mean())
    ratio = looks[0].privacy.sensitivity_ratio
    distance = np.sum((exact[1] - exact[0]) * line) / std
    np.testing.assert_allclose(means, [0, distance], atol=4.5 / math.sqrt(300))
    assert 0.6 * ratio < distance <= ratio


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_the_whole_costs_what_two_gaussian_mechanisms_cost(adjacency):
    fit = released(adjacency=adjacency, epsilon=1.0).regress("y")
    found = robust(fit, epsilon=3.0)
    first, second = fit.release.privacy.sensitivity_ratio, found.look.privacy.sensitivity_ratio
    assert found.privacy == GaussianProfile(math.hypot(first, second), adjacency)
    assert found.delta == 2e-6
    assert 3.0 < found.epsilon < 4.0
    assert found.privacy.delta(found.epsilon) <= found.delta
    assert f"Epsilon: {found.epsilon:>29g}" in str(found.summary())
    assert (fit.epsilon, fit.delta, fit.privacy) == (1.0, 1e-6, fit.release.privacy)
    # The noise is the mechanism's for rows of the length that is looked at.
    length = found.look.bound * (1 + 2.0**-18)
    noise = AnalyzeGauss().calibrate(3, length, 3.0, 1e-6, adjacency)
    assert found.look.noise.std == pytest.approx(noise.noise_std, rel=1e-4)
    assert found.look.adjacency == adjacency


def test_the_ledger_is_charged_once_and_before_the_noise(tmp_path, monkeypatch):
    fit = released().regress("y")
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    robust(fit, ledger=ledger)
    (entry,) = ledger.entries
    assert entry.what.endswith(", for robust standard errors")
    assert (entry.epsilon, entry.delta) == (4.0, 1e-6)
    with pytest.raises(pg.BudgetExceeded):
        robust(fit, object(), ledger=ledger)  # no table: refused before it is read
    assert len(ledger.entries) == 1

    def fail(*args, **options):
        raise RuntimeError("no noise")

    fresh = pg.Ledger(tmp_path / "two", epsilon=5.0, delta=1e-5)
    monkeypatch.setattr("privgram.drawing.additive.symmetric_gaussian", fail)
    with pytest.raises(RuntimeError, match="no noise"):
        robust(fit, ledger=fresh)
    assert len(fresh.entries) == 1


def test_nothing_is_charged_for_a_table_that_cannot_be_read(tmp_path):
    fit = released().regress("y")
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    for source, problem in [
        ((block for block in [TABLE]), "an iterator"),
        (TABLE[:-1], "another number of rows"),
        (pg.second_moment(TABLE, columns=COLUMNS), "SecondMoment"),
        (np.where(TABLE > 0.9, np.nan, TABLE), "missing value"),
    ]:
        with pytest.raises((ValueError, TypeError), match=problem):
            robust(fit, source, ledger=ledger)
    assert not ledger.entries


# --- refusals ---------------------------------------------------------------------------------


def test_who_is_refused(monkeypatch):
    fit = released().regress("y")
    found = robust(fit)
    monkeypatch.setattr(type(fit.release), "_look_again", None)  # nothing is read any more
    with pytest.raises(ValueError, match="already"):
        robust(found)
    with pytest.raises(ValueError, match="leave adjacency out"):
        robust(fit, adjacency="add-remove")
    with pytest.raises(ValueError, match="clip"):
        robust(fit, clip=0.0)
    with pytest.raises(ValueError, match="delta must be above 0"):
        robust(fit, delta=0.0)
    with pytest.raises(ValueError, match="epsilon"):
        robust(fit, epsilon=-1.0)
    with pytest.raises(RefusedError, match="Nothing was spent"):
        robust(fit, epsilon=1e-4)
    refused = replace(fit, without="there is nothing to tell")
    with pytest.raises(RefusedError, match="no inference"):
        robust(refused)


def test_a_drowned_variance_errs_on_the_wide_side():
    """The rare level's variance is noise: its standard error is at least that of two deviations."""
    rng = np.random.default_rng(6)
    n = 20_000
    rare = (rng.random(n) < 0.002) * 1.0
    x = rng.uniform(-1, 1, n)
    table = np.column_stack([x, rare, (0.3 * x + 0.1 * rng.standard_normal(n)).clip(-1, 1)])
    columns = pg.Columns({"x": (-1, 1), "rare": (0, 1), "y": (-1, 1)}, intercept=True)
    # The first look knows it, and the second does not.
    fit = released(table, columns=columns, epsilon=200.0).regress("y")
    for seed in range(8):
        found = robust(fit, table, epsilon=0.5, seed=seed)
        # Its influence is half the column and half that of ones, over its rows.
        deviation = math.sqrt(2) * found.look.noise.std / 2
        assert found.bse[1] > 0.99 * math.sqrt(2 * deviation) / rare.sum() > fit.bse[1]
        assert found.bse[0] < 1.5 * fit.bse[0]
        assert 0 < found.wald_test("rare", use_f=False).statistic < 4


# --- what it is worth -------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_one_deviation_of_noise_on_top_is_enough_at_every_ratio(level):
    """Coverage where the true variance is v deviations and the stated one max(v + g, 1) + 1."""
    g, step = np.linspace(-9, 9, 20_001, retstep=True)
    density = np.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * step

    def least(stated):
        return min(
            (2 * ndtr(ndtri(0.5 + level / 2) * np.sqrt(stated(v) / v)) - 1) @ density
            for v in np.geomspace(0.05, 100, 60)
        )

    assert least(lambda v: np.maximum(v + g, 1) + 1) > level
    assert least(lambda v: np.maximum(v + g, 0)) < level  # without


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_it_covers_where_equal_variance_does_not(adjacency):
    """300 draws, 3 coefficients: 0.90 is four standard errors below 0.95, a chance of 1e-4."""
    rng = np.random.default_rng(7)
    whole = made_table(2**15, 8)
    truth = np.linalg.lstsq(with_ones(whole[:, :2]), whole[:, 2])[0]
    hits = []
    for _ in range(300):
        table = whole[rng.integers(0, len(whole), 10_000)]
        fit = released(table, epsilon=4.0, adjacency=adjacency, seed=rng).regress("y")
        found = robust(fit, table, epsilon=2.0, seed=rng)
        ends = [np.asarray(f.conf_int()).T for f in (fit, found)]
        hits.append([(low <= truth) & (truth <= high) for low, high in ends])
    plain, held = np.mean(hits, axis=0)
    assert plain.min() < 0.90
    assert held.min() > 0.90
