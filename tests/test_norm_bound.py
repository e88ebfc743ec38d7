"""The privately chosen bound: exact counts, exact privacy, and what becomes of both.

Privacy is checked by exact enumeration: the law of the choice is known in closed form, and
all neighbours of all small tables are gone through.
"""

import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

import privgram as pg
from privgram import privacy
from privgram.ledger import BudgetExceeded
from privgram.norm_bound import Choice, NormCounts, quantile_losses
from privgram.privacy import BoundedRangeProfile

GRID = np.array([0.5, 1.0, 2.0, 4.0])


def table(rng, n=5000, d=4):
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, (n, 1))


# --- counting -----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["C", "F", "float32", "int", "blocks", "frame"])
def test_counts_are_those_of_the_norms(rng, form, threads):
    x = table(rng, 20_000)
    if form == "int":
        x = np.rint(10 * x)
    if form == "float32":
        x = x.astype(np.float32)
    source = {
        "F": lambda: np.asfortranarray(x),
        "int": lambda: x.astype(int),
        "blocks": lambda: iter([x[:1], x[1:9000], x[9000:]]),
        "frame": lambda: {f"x{j}": x[:, j] for j in range(4)},
    }.get(form, lambda: x)()
    choice = Choice(1.0, lower=0.01, upper=100.0)
    counts = choice.count(source, threads=threads)
    norms = np.sqrt((x.astype(float) ** 2).sum(axis=1))
    expected = np.histogram(norms, np.concatenate([[0], choice.grid[:-1], [np.inf]]))[0]
    np.testing.assert_array_equal(counts.counts, expected)
    assert counts.n_rows == 20_000


def test_ends_of_the_intervals():
    counts = NormCounts(1, GRID)
    assert counts.update(np.array([[0.0], [0.5], [-0.6], [1.0], [4.0], [5.0], [1e300]])) == -1
    assert counts.counts.tolist() == [2, 2, 0, 3]
    other = NormCounts(1, GRID)
    other.update(np.array([[3.0]]))
    counts.merge(other)
    assert (counts.counts.tolist(), counts.n_rows) == ([2, 2, 0, 4], 8)


def test_rows_are_scaled_and_left_out_as_columns_say(rng):
    columns = pg.Columns({"a": (0, 10), "b": (-1, 1)}, intercept=True, missing="drop")
    x = np.column_stack([rng.uniform(-5, 15, 3000), rng.uniform(-2, 2, 3000)])
    x[::7, 0] = np.nan
    x[5, 1] = np.inf  # clamped
    counts = Choice(1.0, columns=columns).count(x)
    kept = x[~np.isnan(x).any(axis=1)]
    norms = np.linalg.norm(columns.scale_array(kept), axis=1)
    assert counts.counts.sum() == len(kept)
    assert counts.n_rows == 3000
    bound = pg.private_norm_bound(x, 50.0, 0.5, columns=columns, bins_per_octave=64, rng=rng)
    assert np.quantile(norms, 0.49) <= bound <= np.quantile(norms, 0.51) * 2 ** (1 / 64)
    assert (bound.lower, bound.upper) == (columns.bound / 1024, columns.bound)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_named_by_its_position(rng, value):
    x = table(rng, 20_000)
    x[12_345, 2] = value
    with pytest.raises(ValueError, match="row 12345"):
        pg.private_norm_bound(x, 1.0)


# --- privacy ------------------------------------------------------------------------


def tables(n_bins, largest):
    """All histograms of up to so many rows."""
    return [
        counts
        for counts in itertools.product(range(largest + 1), repeat=n_bins)
        if sum(counts) <= largest
    ]


def neighbours(counts, adjacency):
    """All tables that differ in one row; under "replace" a row may also come to be left out."""
    moved = list(np.eye(len(counts), dtype=int))
    less = [tuple(counts - e) for e in moved if (counts - e).min() >= 0]
    if adjacency == "add-remove":
        return less
    return less + [tuple(np.array(c) + e) for c in less for e in moved]


def log_law(counts, quantile, adjacency, epsilon):
    """Log-probabilities of the choice, from its definition, in floating point."""
    total = sum(counts)
    above = np.cumsum(counts)
    below = above - counts
    losses = np.maximum(0, np.maximum(below - quantile * total, quantile * total - above))
    sensitivity = 1.0 if adjacency == "replace" else max(quantile, 1 - quantile)
    logits = -epsilon * losses / (2 * sensitivity)
    return logits - np.logaddexp.reduce(logits)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("quantile", [0.5, 0.8, 0.95, 0.1])
def test_no_neighbours_exceed_the_profile(adjacency, quantile):
    epsilon = 1.3
    grid = np.linspace(0, epsilon, 7)
    claimed = BoundedRangeProfile(epsilon).delta(grid)
    largest = 0.0
    for counts in tables(4, 5):
        p = log_law(np.array(counts), quantile, adjacency, epsilon)
        for other in neighbours(np.array(counts), adjacency):
            q = log_law(np.array(other), quantile, adjacency, epsilon)
            largest = max(largest, np.abs(p - q).max())
            assert np.ptp(p - q) <= epsilon * (1 + 1e-12)
            for a, b in ((p, q), (q, p)):
                leaked = np.maximum(np.exp(a) - np.exp(grid[:, None] + b), 0).sum(axis=1)
                assert np.all(leaked <= claimed + 1e-12)
    assert 0.3 * epsilon < largest <= epsilon * (1 + 1e-12)


def test_profile_is_attained_on_long_grids():
    """A row goes from the front to the back: the points before the target gain, those after lose.

    With enough grid points the others do not matter: two outcomes, losses epsilon apart.
    """
    epsilon = 0.4
    for before, after in ((3, 10**6), (10**5, 10**6), (10**6, 10**6)):
        counts = np.zeros(before + after + 3, int)
        counts[[0, before + 1, -1]] = 2, 4, 2
        other = counts.copy()
        other[[0, -1]] = 1, 3
        p, q = (log_law(x, 0.5, "replace", epsilon) for x in (counts, other))
        assert np.ptp(p - q) == pytest.approx(epsilon, rel=1e-12)
        loss = np.abs((p - q)[0])
        if before == 3:
            assert loss == pytest.approx(epsilon, rel=1e-4)
            continue
        at = 2 * loss - epsilon  # where this pair is the worst
        leaked = np.maximum(np.exp(p) - np.exp(at + q), 0).sum()
        assert leaked == pytest.approx(BoundedRangeProfile(epsilon).delta(at), rel=1e-3)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.1])
def test_sensitivity_is_attained_and_not_exceeded(adjacency, quantile):
    largest = 0
    for counts in tables(4, 5):
        losses, sensitivity = quantile_losses(list(counts), quantile, adjacency)
        for other in neighbours(np.array(counts), adjacency):
            changed, same = quantile_losses(list(other), quantile, adjacency)
            assert same == sensitivity
            difference = max(abs(a - b) for a, b in zip(losses, changed, strict=True))
            assert difference <= sensitivity
            largest = max(largest, difference)
    assert largest == sensitivity


def test_losses_are_those_of_the_definition(rng):
    for _ in range(50):
        counts = rng.integers(0, 30, 6)
        losses, sensitivity = quantile_losses(counts.tolist(), 0.95, "add-remove")
        assert sensitivity == 19
        logits = log_law(counts, 0.95, "add-remove", 1.0)
        mine = -np.array(losses) / (2 * sensitivity)
        np.testing.assert_allclose(mine - np.logaddexp.reduce(mine), logits, atol=1e-12)


def test_rate_of_the_draw(monkeypatch, rng):
    """What is handed to the sampler is epsilon / 2 a row, as an exact fraction."""
    handed = []
    monkeypatch.setattr(
        "privgram.norm_bound.exponential_mechanism",
        lambda losses, rate, rng: handed.append((losses, rate)) or 0,
    )
    for adjacency, sensitivity in (("replace", 10), ("add-remove", 9)):
        choice = Choice(0.3, 0.9, 1.0, 4.0, 1, adjacency)
        choice.draw(choice.count(table(rng)), rng)
        assert handed.pop()[1] == Fraction(0.3) / (2 * sensitivity)


def test_no_rows_make_every_bound_as_likely(rng):
    with pytest.warns(UserWarning, match="too few"):
        bounds = {
            float(pg.private_norm_bound(np.empty((0, 2)), 1.0, lower=1, upper=8, bins_per_octave=1))
            for _ in range(60)
        }
    assert bounds == {1.0, 2.0, 4.0, 8.0}  # one is missed with chance 4 (3/4)^60 < 2e-7


# --- the result ---------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_bound_is_near_the_quantile(rng, adjacency):
    """By more missed rows than the docstring allows once in exp(14)."""
    x = table(rng, 40_000)
    norms = np.sort(np.linalg.norm(x, axis=1))
    for quantile in (0.5, 0.95):
        bound = pg.private_norm_bound(x, 0.5, quantile, adjacency=adjacency, rng=rng)
        slack = math.ceil(2 / 0.5 * (math.log(1000) + 14))
        target = int(quantile * len(norms))
        assert norms[target - slack] <= bound
        assert bound <= norms[min(target + slack, len(norms) - 1)] * 2 ** (1 / 16) * (1 + 1e-9)


def test_result_is_a_float_that_bounds(rng):
    x = table(rng)
    bound = pg.private_norm_bound(x, 2.0, quantile=0.9, rng=rng)
    assert isinstance(bound, float)
    assert bound.reproducible
    assert "REPRODUCIBLE" in repr(bound)
    assert pg.second_moment(x, bound=bound).bound == bound
    assert bound.privacy == BoundedRangeProfile(2.0, "replace")
    assert not pg.private_norm_bound(x, 2.0, quantile=0.9).reproducible
    again = pickle.loads(pickle.dumps(bound))
    assert (again, again.to_dict()) == (bound, bound.to_dict())
    assert bound.to_dict()["bound"] == bound
    with pytest.raises(AttributeError, match="cannot be changed"):
        bound.epsilon = 1.0


def test_seeded_choice_is_the_same_for_every_reading(rng):
    x = table(rng, 30_000)
    seeded = [
        pg.private_norm_bound(source, 1.0, rng=np.random.default_rng(5), threads=threads)
        for source, threads in ((x, 1), (x, 2), (np.asfortranarray(x), 2), (iter([x]), 1))
    ]
    assert len(set(seeded)) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": math.inf}, "epsilon must be positive"),
        ({"epsilon": math.nan}, "epsilon must be positive"),
        ({"quantile": 1.0}, "quantile must lie in"),
        ({"quantile": math.nan}, "quantile must lie in"),
        ({"lower": 2.0, "upper": 1.0}, "the grid needs"),
        ({"lower": 0.0}, "the grid needs"),
        ({"upper": math.inf}, "the grid needs"),
        ({"bins_per_octave": 0}, "bins_per_octave"),
        ({"adjacency": "swap"}, "adjacency"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        pg.private_norm_bound(np.ones((3, 2)), **({"epsilon": 1.0} | options))


def test_ledger_counts_the_choice_before_it_is_made(rng, tmp_path, monkeypatch):
    x = table(rng)
    ledger = pg.Ledger(tmp_path / "study.ledger", epsilon=1.0, delta=1e-6)
    bound = pg.private_norm_bound(x, 0.8, 0.5, lower=0.01, upper=100, ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.epsilon, entry.delta, entry.privacy) == (0.8, 0.0, bound.privacy)
    assert "private_norm_bound" in entry.what
    monkeypatch.setattr("privgram.norm_bound.exponential_mechanism", lambda *a: 1 / 0)
    with pytest.raises(BudgetExceeded):
        pg.private_norm_bound(x, 0.8, 0.5, lower=0.01, upper=100, ledger=ledger)
    assert len(ledger.entries) == 1


# --- with a release -----------------------------------------------------------------


@pytest.fixture
def both(rng):
    x = table(rng, 50_000)
    bound = pg.private_norm_bound(x, 0.1)
    release = pg.release(pg.second_moment(x, bound=bound), pg.AnalyzeGauss(), 1.0, 1e-6)
    return bound, release


def test_release_counts_its_bound(both, tmp_path):
    bound, release = both
    total = release.including(bound)
    assert (total.epsilon, total.delta) == (pytest.approx(1.1), 1e-6)
    assert total.parameters["bound_epsilon"] == 0.1
    assert total.parameters["sigma"] == release.parameters["sigma"]
    total.save(tmp_path / "gram.json")
    loaded = pg.load_release(tmp_path / "gram.json")
    assert loaded.privacy == total.privacy == privacy.compose([release.privacy, bound.privacy])
    assert loaded.epsilon == total.epsilon
    # At once they cost less than one after the other, and more than one alone.
    assert release.privacy.delta(1.1) < total.privacy.delta(1.1) < 1e-6


def test_composed_profile_by_quadrature(both):
    """The loss of the choice has the density exp((l - epsilon) / 2) on [-epsilon, epsilon]."""
    gauss, epsilon = both[1].privacy, 0.3
    total = privacy.compose([gauss, BoundedRangeProfile(epsilon)])
    node, weight = np.polynomial.legendre.leggauss(60)
    density = np.exp((epsilon * node - epsilon) / 2)
    for at in (0.0, 0.5, 1.0, 1.5):
        exact = weight * density @ gauss.delta(at - epsilon * node) / (weight @ density)
        assert exact <= total.delta(at) <= exact * 1.001


def test_only_its_own_bound_is_counted_and_once(both):
    bound, release = both
    other = pg.NormBound(bound * 2, **{k: v for k, v in bound.to_dict().items() if k != "bound"})
    with pytest.raises(ValueError, match="the bound of this release"):
        release.including(other)
    with pytest.raises(ValueError, match="already"):
        release.including(bound).including(bound)
    fields = {k: v for k, v in bound.to_dict().items() if k != "bound"}
    with pytest.raises(ValueError, match="add-remove"):
        release.including(pg.NormBound(bound, **fields | {"adjacency": "add-remove"}))


# --- the profile --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 4.0])
def test_profile_is_the_worst_pair_of_coins(epsilon):
    """Losses t and t - epsilon, for every t: by search instead of by calculus."""
    profile = BoundedRangeProfile(epsilon)
    t = np.linspace(0, epsilon, 20_001)
    heads = -np.expm1(t - epsilon) / (np.exp(t) - np.exp(t - epsilon))
    for at in np.linspace(0, 0.99 * epsilon, 9):
        leaked = np.maximum(heads * (np.exp(t) - math.exp(at)), 0.0) + np.maximum(
            (1 - heads) * (np.exp(t - epsilon) - math.exp(at)), 0.0
        )
        assert profile.delta(at) == pytest.approx(leaked.max(), rel=1e-6, abs=1e-12)
    assert profile.delta(epsilon) == profile.delta(2 * epsilon) == 0.0
    assert profile.epsilon(0.0) == epsilon
