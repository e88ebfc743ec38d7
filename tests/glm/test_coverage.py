"""How often intervals hold on the tables that a rule is there for, each with its false-alarm rate.

`estimand="sample"`: what is held is the coefficient that statsmodels has of the same rows, so that
noise and clipping alone are asked about. Seeds are fixed: a test that passes once passes.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import privgram as pg


def least_squares(X, y):
    """Coefficients, and their robust errors without privacy."""
    coef = np.linalg.lstsq(X, y)[0]
    inverse = np.linalg.inv(X.T @ X)
    scores = X * (y - X @ coef)[:, None]
    return coef, np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))


class Held:
    """Fits of made tables: whether intervals hold, how wide they are, and what was refused."""

    def __init__(self, make, bounds, draws, *, solve=least_squares, **options):
        held, width, distance, ends, self.refused = [], [], [], [], 0
        setting = {"epsilon": 1.0, "delta": 1e-6} | options
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            table = make(rng)
            fit = pg.regress(table, bounds[0], bounds[1], rng=rng, **setting)
            if fit.refusal is not None:
                self.refused += 1
                continue
            names = [name for name in table if name != "y"]
            X = np.column_stack([*(table[name] for name in names), np.ones(len(table["y"]))])
            exact, errors = solve(X.astype(float), np.asarray(table["y"], float))
            low, high = np.asarray(fit.conf_int(estimand="sample")).T
            held.append((low <= exact) & (exact <= high))
            width.append((high - low) / (2 * 1.96 * errors))
            ends.append(low)
            distance.append(np.abs(np.asarray(fit.params) - exact))
        self.each, self.distance, self.ends = map(np.array, (held, distance, ends))
        self.width = np.median(width, axis=0) if width else None

    def least(self, false_alarm=1e-4):
        """As few of the draws of a coefficient as would hold once in 1 / `false_alarm` of 95 %."""
        return int(binom.ppf(false_alarm, len(self.each), 0.95))

    @property
    def all_hold(self):
        return bool((self.each.sum(axis=0) >= self.least()).all())


N = 10_000
WIDE = ("y ~ a + b", {"a": (-5, 5), "b": (0, 10), "y": (-60, 60)})
SHARES = ("y ~ x + age + size", {"x": (8, 16), "age": (15, 100), "size": (0, 20), "y": (0, 1)})

ERRORS = {
    "normal": lambda rng, a: rng.normal(size=len(a)),
    "t2": lambda rng, a: rng.standard_t(2, len(a)),
    "lognormal": lambda rng, a: np.exp(1.2 * rng.normal(size=len(a))),
    "more spread where features are long": lambda rng, a: rng.normal(size=len(a)) * (0.1 + a**2),
}


def with_errors(of, n=N):
    def make(rng):
        a, b = rng.normal(size=n).clip(-5, 5), rng.uniform(0, 10, n)
        return {"a": a, "b": b, "y": (a + 0.2 * b + of(rng, a)).clip(-60, 60)}

    return make


def food_shares(rng, n=N):
    """As Ecdat's BudgetFood: a share that falls with log spending, spread as its mean is."""
    x, age = rng.normal(12, 0.8, n).clip(8, 16), rng.uniform(18, 90, n).round()
    size = rng.poisson(2.5, n).clip(0, 15) + 1.0
    mean = 1.9 - 0.12 * x + 0.001 * age + 0.015 * size
    y = (mean * np.exp(0.35 * rng.normal(size=n))).clip(0, 1)
    return {"x": x, "age": age, "size": size, "y": y}


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("name", ERRORS)
def test_intervals_hold_and_are_narrow(name, adjacency):
    """16 draws of 3 coefficients: a false alarm in 3,000 a table, if 95 % held.

    The scale may be told from noise that is most of it, by luck, and the fit be refused.
    """
    found = Held(with_errors(ERRORS[name]), WIDE, 16, adjacency=adjacency)
    assert found.refused <= 2
    assert found.all_hold
    assert np.median(found.width) < 3


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_intervals_hold_where_long_scores_pull_one_way(epsilon):
    """Half of them held by a clip for the least mean error. A false alarm in 2,500."""
    found = Held(food_shares, SHARES, 16, epsilon=epsilon)
    assert found.refused == 0
    assert found.all_hold
    assert np.median(found.width) < 2


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_intervals_hold_where_some_rows_are_of_another_kind(adjacency):
    """All of them 15 deviations up: 300 of 60,000. A false alarm in 2,500."""

    def errors(rng, a):
        return np.where(rng.random(len(a)) < 0.005, 15.0, rng.normal(size=len(a)))

    found = Held(with_errors(errors, 60_000), WIDE, 12, adjacency=adjacency)
    assert found.refused == 0
    assert found.all_hold


@pytest.mark.slow
def test_intervals_are_no_wider_than_they_need_be():
    """Errors of normal tables in parts of what is stated: the allowance is for others.

    Of 48 numbers the root mean square lies between a quarter and 1 of the stated deviation.
    """
    off = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        table = with_errors(ERRORS["normal"])(rng)
        fit = pg.regress(table, *WIDE, 1.0, 1e-6, rng=rng)
        if fit.refusal is not None:
            continue
        X = np.column_stack([table["a"], table["b"], np.ones(N)])
        low, high = np.asarray(fit.conf_int(estimand="sample")).T
        off.append((np.asarray(fit.params) - least_squares(X, table["y"])[0]) / (high - low) * 3.92)
    size = math.sqrt(np.mean(np.square(off)))
    assert 0.25 < size < 0.85


DUMMY = ("y ~ a + b + rare", {"a": (-4, 4), "b": (-4, 4), "rare": bool, "y": (-15, 15)})


def with_dummy(n_true, n=60_000):
    def make(rng):
        a, b = rng.normal(size=(2, n)).clip(-4, 4)
        rare = np.zeros(n, bool)
        rare[rng.choice(n, n_true, replace=False)] = True
        y = a - 0.5 * b + 2 * rare + rng.normal(size=n)
        return {"a": a, "b": b, "rare": rare, "y": y.clip(-15, 15)}

    return make


NUMBERS = ("y ~ a + b + rare", {"a": (-5, 5), "b": (-5, 5), "rare": (0, 1), "y": (-10, 10)})


def with_numbers(n_true, n=60_000):
    """The same as numbers, of which a dummy is nearly the constant."""

    def make(rng):
        table = with_dummy(n_true, n)(rng)
        return table | {"rare": table["rare"].astype(float), "y": table["y"].clip(-10, 10)}

    return make


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_dummy_of_a_few_rows_is_seen_and_held(adjacency):
    """True in 200 of 60,000, clipped by every middle round. A false alarm in 2,500."""
    found = Held(with_dummy(200), DUMMY, 12, epsilon=4.0, adjacency=adjacency)
    assert found.refused == 0
    assert found.all_hold
    assert found.width.max() < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_dummy_of_fewer_rows_than_are_counted_is_open_and_near(adjacency):
    """True in 50 of 60,000 and in every round as if it were rarer: once hundreds of errors off.

    Held as the others are, and its estimate is within the target's range. A false alarm in 2,500.
    """
    found = Held(with_numbers(50), NUMBERS, 12, adjacency=adjacency)
    assert found.refused == 0
    assert found.each[:, :2].mean() > 0.9
    assert found.all_hold
    assert found.width[0] < 2
    assert np.mean(found.distance[:, 2] > 20) < 0.1


def test_direction_no_longer_than_few_rows_would_be_keeps_its_ends():
    """A dummy true in 60 of 6,000, of which counts miss as much: clipped, but not by far."""
    found = Held(with_numbers(60, 6000), NUMBERS, 8, epsilon=2.0, adjacency="add-remove")
    assert found.refused == 0
    assert np.isfinite(found.ends).all()
    assert found.all_hold


@pytest.mark.slow
def test_dummy_that_noise_hides_is_open_and_the_others_hold():
    """True in 10 of 60,000. Others are open where noise mixes them into the hidden direction."""
    hidden = Held(with_dummy(10), DUMMY, 12)
    assert hidden.refused == 0
    assert Held(with_dummy(10), DUMMY, 8, adjacency="add-remove").refused == 0
    assert hidden.all_hold
    n_open = np.isinf(hidden.ends[:6]).sum(axis=0)
    assert n_open[2] == 6
    assert n_open[[0, 1, 3]].max() <= 2


def of_people(n_true, n=20_000):
    """Three rows for each of n people, of whom some have a dummy."""

    def make(rng):
        person = np.repeat(np.arange(n), 3)
        a, b = rng.normal(size=(2, 3 * n)).clip(-4, 4)
        rare = np.isin(person, rng.choice(n, n_true, replace=False))
        y = a - 0.5 * b + 2 * rare + rng.normal(size=3 * n) + 0.5 * rng.normal(size=n)[person]
        return {"person": person, "a": a, "b": b, "rare": rare, "y": y.clip(-15, 15)}

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_true", "adjacency", "n_open"), [(50, "replace", 5), (200, "add-remove", 0)]
)
def test_dummy_of_few_people_is_open_or_near(n_true, adjacency, n_open):
    """Fifty of 20,000 are too few, and the dummy is open; two hundred are told.

    Intervals that hold in 95 % of draws fail this once in 10,000 runs.
    """
    distance, opened, n_held = [], np.zeros(4), 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = of_people(n_true)(rng)
        unit = pg.Unit("person", max_rows=3)
        fit = pg.regress(*(table, *DUMMY, 1.0, 1e-6), adjacency=adjacency, unit=unit, rng=rng)
        X = np.column_stack([table["a"], table["b"], table["rare"], np.ones(60_000)])
        exact = least_squares(X, table["y"])[0]
        low, high = np.asarray(fit.conf_int(estimand="sample")).T
        n_held += int(((low <= exact) & (exact <= high)).sum())
        opened += np.isinf(low)
        distance.append(np.abs(np.asarray(fit.params) - exact))
    assert n_held >= binom.ppf(1e-4, 20, 0.95)
    assert opened[2] >= n_open
    assert opened[[0, 1, 3]].max() <= 1
    assert np.median(distance, axis=0)[[0, 1, 3]].max() < 0.03  # 3 to 5 errors without privacy
    if not n_open:
        assert np.max(distance, axis=0)[2] < 1.0


EVENTS = ("y ~ a + b", {"a": (-4, 4), "b": (-4, 4), "y": (0, 1)})


def with_events(share, n=60_000):
    def make(rng):
        a, b = rng.normal(size=(2, n)).clip(-4, 4)
        return {"a": a, "b": b, "y": (rng.random(n) < share * np.exp(0.3 * a)).astype(float)}

    return make


@pytest.mark.slow
def test_target_of_few_events_is_refused_or_held():
    """300 of 60,000: nine of ten were false by a clip that was chosen for all rows."""
    found = Held(with_events(0.005), EVENTS, 12)
    assert found.all_hold


@pytest.mark.slow
def test_scores_far_shorter_than_the_scale_are_refused():
    """80 events of 20,000, of which clipping leaves nothing: refused where the scale shows them."""
    assert 4 <= Held(with_events(0.004, 20_000), EVENTS, 12).refused < 12


@pytest.mark.slow
def test_noise_in_the_scale_refuses_no_fit():
    """Errors of one in bounds of 50: the scale is mostly noise, and no fit is refused."""
    bounds = ("y ~ a + b", {"a": (-5, 5), "b": (0, 10), "y": (-50, 50)})
    found = Held(with_errors(ERRORS["normal"], 20_000), bounds, 8)
    assert found.refused == 0
    assert found.each.mean() > 0.9


@pytest.mark.slow
def test_scale_that_noise_made_too_large_is_looked_at_again():
    """Errors of one in bounds of 45: the scale's noise is eight times its square.

    In draws 17 and 33 it is two deviations too large, which scores contradict; the sum of squared
    errors alone then agrees with them. Refused by chance: once in 200.
    """
    bounds = {f"x{j}": (0, 10) for j in range(8)} | {"y": (-5, 85)}
    formula = "y ~ " + " + ".join(list(bounds)[:-1])
    rounds = []
    for seed in (0, 17, 33):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 10, (N, 8))
        table = dict(zip(bounds, x.T, strict=False)) | {"y": x.sum(axis=1) + rng.normal(size=N)}
        fit = pg.regress(table, formula, bounds, 4.89, 1e-6, adjacency="add-remove", rng=rng)
        assert fit.refusal is None
        low, high = np.asarray(fit.conf_int())[:-1].T
        assert ((low <= 1) & (high >= 1)).sum() >= 5  # of 8 that hold in 95 %: once in 2,700
        rounds.append(fit.parameters["rounds"])
    assert rounds == [2, 3, 3]


LINKS = {"binomial": bool, "poisson": (0, 60)}


def with_link(family, n=20_000):
    def make(rng):
        a, b = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n)
        eta = 0.6 * a - 0.2 * b + 0.5
        if family == "binomial":
            return {"a": a, "b": b, "y": rng.random(n) < 1 / (1 + np.exp(-eta))}
        return {"a": a, "b": b, "y": rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, n)).clip(0, 60)}

    return make


def with_rare_events(family, rate, n=200_000):
    def make(rng):
        a, b = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n)
        mean = np.exp(0.4 * a - 0.1 * b)
        y = rng.poisson(mean * (rate / mean.mean()))
        return {"a": a, "b": b, "y": y > 0 if family == "binomial" else y.clip(0, 60)}

    return make


def with_level_of_events(rng, n=26_000):
    """A level of 3 % with most events: least squares has its log odds twice as large."""
    a, b, w = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n), rng.random(n) < 0.03
    eta = -3.5 + 0.4 * a + 0.08 * b + 4.2 * w
    return {"a": a, "b": b, "w": w, "y": rng.random(n) < 1 / (1 + np.exp(-eta))}


def with_steep_slopes(rng, n=20_000):
    """Half of the rows have an event, and most are all but certain."""
    a, b = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n)
    return {"a": a, "b": b, "y": rng.random(n) < 1 / (1 + np.exp(-3 * a - 0.8 * (b - 5)))}


def with_long_means(rng, n=28_000):
    """Counts that a count explains, of which few rows are far out, and a dummy of 180 rows."""
    a, b, w = rng.normal(size=n).clip(-4, 4), rng.poisson(0.7, n).clip(0, 9), np.arange(n) < 180
    mean = np.exp(-1.4 + 0.1 * a + 0.45 * b + 0.4 * w)
    y = rng.poisson(mean * rng.gamma(1, 1, n)).clip(0, 60)
    return {"a": a, "b": b.astype(float), "w": w, "y": y}


def held_by_link(family, make, draws, **options):
    """Fits of a family beside those of statsmodels."""
    sm = pytest.importorskip("statsmodels.api")
    kind = sm.families.Binomial() if family == "binomial" else sm.families.Poisson()
    more = "w" in make(np.random.default_rng(0))

    def solve(X, y):
        fit = sm.GLM(y, X, family=kind).fit(cov_type="HC1")
        return fit.params, fit.bse

    bounds = {"a": (-4, 4), "b": (0, 10), "y": LINKS[family]} | ({"w": bool} if more else {})
    formula = "y ~ a + b + w" if more else "y ~ a + b"
    return Held(make, (formula, bounds), draws, solve=solve, family=family, **options)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("family", LINKS)
def test_intervals_of_links_hold(family, adjacency):
    """12 draws of 3 coefficients: a false alarm in 2,500."""
    found = held_by_link(family, with_link(family), 12, adjacency=adjacency)
    assert found.refused == 0
    assert found.all_hold
    assert np.median(found.width) < 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_rates_of_what_happens_once_hold(seed):
    """Of people who were long at risk more than one event is expected: means once ended at 1."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(seed)
    a = rng.normal(size=10_000).clip(-4, 4)
    end, left = rng.exponential(np.exp(2 - a)), rng.uniform(1, 15, a.size)
    table = {"a": a, "died": 1.0 * (end < left), "years": np.minimum(end, left).clip(0.1)}
    known = {"a": (-4, 4), "died": (0, 1), "years": pg.Log(0.1, 15)}
    formula = "died ~ a + offset(log(years))"
    fit = pg.regress(table, formula, known, 4.0, 1e-6, family="poisson", rng=rng)
    X, poisson = sm.add_constant(a, prepend=False), sm.families.Poisson()
    usual = sm.GLM(table["died"], X, family=poisson, exposure=table["years"]).fit()
    low, high = np.asarray(fit.conf_int(0.01, estimand="sample")).T
    assert ((low < usual.params) & (usual.params < high)).all()


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.05, 0.012, 0.003])
def test_rare_counts_without_noise_are_those_of_statsmodels(rate):
    """An event's score is as long as its features are, and was once clipped by itself."""
    found = held_by_link("poisson", with_rare_events("poisson", rate), 1, epsilon=1e9, delta=0.5)
    assert found.refused == 0
    assert found.width.max() < 0.1
    assert found.distance.max() < 0.02  # a tenth of an error at most


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [0.2, 0.05, 0.012, 0.003])
@pytest.mark.parametrize("family", LINKS)
def test_intervals_of_rare_events_hold(family, rate):
    """From 40,000 events to 600, 20 draws of 3 coefficients: a false alarm in 2,500."""
    found = held_by_link(family, with_rare_events(family, rate), 20)
    assert found.refused == 0
    assert found.all_hold
    assert np.median(found.width) < 3


def with_even_counts(rng, n=8000):
    """Years of school, which vary by a tenth of what counts of that mean may."""
    a, b = rng.normal(size=n).clip(-4, 4), rng.uniform(0, 10, n)
    y = np.round(11 + 0.5 * a + 0.1 * b + rng.normal(size=n)).clip(0, 60)
    return {"a": a, "b": b, "y": y}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_counts_that_hardly_vary_are_answered(epsilon):
    """8 draws of 3 coefficients: a false alarm in 2,500."""
    found = held_by_link("poisson", with_even_counts, 8, epsilon=epsilon)
    assert found.refused == 0
    assert found.all_hold


@pytest.mark.slow
def test_rare_counts_are_answered():
    """600 events of 200,000, 4 draws of 3 coefficients: a false alarm in 3,300."""
    found = held_by_link("poisson", with_rare_events("poisson", 0.003), 4)
    assert found.refused == 0
    assert found.all_hold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "make", "epsilon"),
    [
        ("binomial", with_level_of_events, 4.0),
        ("binomial", with_steep_slopes, 1.0),
        ("poisson", with_long_means, 1.0),
    ],
)
def test_steps_end_where_means_bend(family, make, epsilon):
    """Past the root, in noise that few rows asked for, or on the way, where intervals were false.

    6 draws of 4 coefficients: a false alarm in 1,900.
    """
    found = held_by_link(family, make, 6, epsilon=epsilon)
    assert found.refused == 0
    assert np.isfinite(found.ends).all()
    assert found.all_hold
