"""The privately chosen bound: exact counts, exact privacy, and what becomes of both.

Privacy is checked by exact enumeration: the law of the choice is known in closed form, and
all neighbours of all small tables are gone through.
"""

import contextlib
import copy
import itertools
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from support.helpers import by, refuses

import privgram as pg
from privgram import privacy
from privgram.columns import PrivateBound
from privgram.disclosure.norm_bound import BoundSelection, NormCounts, private_norm_bound
from privgram.exact.choice import quantile_losses
from privgram.ledger import BudgetExceeded
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import merge
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.privacy import BoundedRangeProfile
from privgram.scan.request import ScanRequest

GRID = np.array([0.5, 1.0, 2.0, 4.0])


def table(rng, n=5000, d=4):
    return rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-2, 2, (n, 1))


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
    choice = BoundSelection(
        PrivateBound(1.0), ScanRequest(source, threads=threads), lower=0.01, upper=100.0
    )
    counts = choice.count()
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
    counts = BoundSelection(PrivateBound(1.0), ScanRequest(x, columns)).count()
    kept = x[~np.isnan(x).any(axis=1)]
    norms = np.linalg.norm(columns.encoder.table(list(kept.T)), axis=1)
    assert counts.counts.sum() == len(kept)
    assert counts.n_rows == 3000
    bound = private_norm_bound(x, 50.0, 0.5, columns=columns, bins_per_octave=64, rng=rng)
    assert np.quantile(norms, 0.49) <= bound <= np.quantile(norms, 0.51) * 2 ** (1 / 64)
    assert (bound.lower, bound.upper) == (columns.bound / 1024, columns.bound)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_row_that_is_not_finite_is_named_by_its_position(rng, value):
    x = table(rng, 20_000)
    x[12_345, 2] = value
    refuses(lambda: private_norm_bound(x, 1.0), ValueError, "row 12345")


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


@pytest.mark.slow
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
        "privgram.secret.gate.exponential_mechanism",
        lambda losses, rate, rng: handed.append((losses, rate)) or 0,
    )
    for adjacency, sensitivity in (("replace", 10), ("add-remove", 9)):
        choice = BoundSelection(
            PrivateBound(0.3, 0.9), ScanRequest(table(rng)), adjacency, 1.0, 4.0, 1
        )
        choice.draw(choice.count(), rng)
        assert handed.pop()[1] == Fraction(0.3) / (2 * sensitivity)


def test_no_rows_make_every_bound_as_likely(rng):
    empty, grid = np.empty((0, 2)), {"lower": 1, "upper": 8, "bins_per_octave": 1}
    bounds = {
        float(private_norm_bound(empty, 1.0, adjacency="add-remove", **grid)) for _ in range(60)
    }
    assert bounds == {1.0, 2.0, 4.0, 8.0}  # one is missed with chance 4 (3/4)^60 < 2e-7


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_bound_is_near_the_quantile(rng, adjacency):
    """By more missed rows than the docstring allows once in exp(14)."""
    x = table(rng, 40_000)
    norms = np.sort(np.linalg.norm(x, axis=1))
    for quantile in (0.5, 0.95):
        bound = private_norm_bound(x, 0.5, quantile, adjacency=adjacency, rng=rng)
        slack = math.ceil(2 / 0.5 * (math.log(1000) + 14))
        target = int(quantile * len(norms))
        assert norms[target - slack] <= bound
        assert bound <= norms[min(target + slack, len(norms) - 1)] * 2 ** (1 / 16) * (1 + 1e-9)


@pytest.mark.slow
def test_result_is_a_float_that_bounds(rng):
    x = table(rng)
    bound = private_norm_bound(x, 2.0, quantile=0.9, rng=rng)
    assert isinstance(bound, float)
    assert bound.reproducible
    assert "REPRODUCIBLE" in repr(bound)
    assert pg.second_moment(x, bound=bound).bound == bound
    assert bound.privacy == BoundedRangeProfile(2.0, "replace")
    assert not private_norm_bound(x, 2.0, quantile=0.9).reproducible
    again = pickle.loads(pickle.dumps(bound))
    assert (again, again.to_dict()) == (bound, bound.to_dict())
    assert bound.to_dict()["bound"] == bound
    with pytest.raises(AttributeError, match="cannot be changed"):
        bound.epsilon = 1.0


def test_nobody_spends_between_a_choice_and_what_rests_on_it(rng, tmp_path, monkeypatch):
    """Or the choice would be paid for, and be of no use."""
    x = rng.standard_normal((500, 2))
    moment = pg.second_moment(x, private_norm_bound(x, 0.5, 0.5, lower=0.01, upper=100))
    path = tmp_path / "study.ledger"
    ledger = pg.Ledger(path, 1.0, 1e-6, composition="basic")
    other, real = pg.Ledger(path, 1.0, 1e-6, composition="basic"), pg.Ledger._open
    refused = []

    @contextlib.contextmanager
    def opened(self, exclusive=False):
        with real(self, exclusive) as handle:
            yield handle
        if exclusive and self is ledger:
            try:
                other.spend(0.5, 0.0, adjacency="replace", unit="")
            except BudgetExceeded:
                refused.append(True)

    monkeypatch.setattr(pg.Ledger, "_open", opened)
    pg.release(moment, epsilon=0.5, delta=1e-7, mechanism=pg.AnalyzeGauss(), ledger=ledger)
    assert [entry.epsilon for entry in ledger.entries] == [0.5, 0.5]
    assert refused == [True]


def test_ledger_counts_the_choice_before_it_is_made(rng, tmp_path, monkeypatch):
    x = table(rng)
    ledger = pg.Ledger(tmp_path / "study.ledger", epsilon=1.0, delta=1e-6)
    bound = private_norm_bound(x, 0.8, 0.5, lower=0.01, upper=100, ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.epsilon, entry.delta, entry.privacy) == (0.8, 0.0, bound.privacy)
    assert "private_norm_bound" in entry.what
    monkeypatch.setattr("privgram.secret.gate.exponential_mechanism", lambda *a: 1 / 0)
    with pytest.raises(BudgetExceeded):
        private_norm_bound(x, 0.8, 0.5, lower=0.01, upper=100, ledger=ledger)
    assert len(ledger.entries) == 1


def test_choice_is_not_paid_for_without_its_release(rng, tmp_path):
    bound = private_norm_bound(table(rng), 0.8, 0.5, lower=0.01, upper=100)
    moment = pg.second_moment(table(rng), bound)
    ledger = pg.Ledger(tmp_path / "study.ledger", 1.0, 1e-6, composition="basic")
    for mechanism in (pg.AnalyzeGauss(), GaussianSketch(50)):
        with pytest.raises(BudgetExceeded):
            pg.release(moment, epsilon=0.5, delta=1e-7, mechanism=mechanism, ledger=ledger)
    assert ledger.entries == ()
    pg.release(moment, epsilon=0.2, delta=1e-7, mechanism=pg.AnalyzeGauss(), ledger=ledger)
    assert [entry.epsilon for entry in ledger.entries] == [0.8, 0.2]


@pytest.fixture
def both(rng):
    """A bound, and a release that was made with the number alone."""
    x = table(rng, 50_000)
    bound = private_norm_bound(x, 0.1)
    release = pg.release(
        pg.second_moment(x, bound=float(bound)), None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss()
    )
    return bound, release


def carried(bound, x):
    """Moments of the same rows, by every way a moment may take."""
    half = len(x) // 2
    one = pg.second_moment(x, bound)
    first, last = pg.second_moment(x[:half], bound), pg.second_moment(x[half:], bound)
    return {
        "pass": one,
        "updates": pg.SecondMoment(x.shape[1], bound).update(x),
        "threads": pg.second_moment(x, bound, threads=2),
        "copy": one.copy(),
        "bytes": pg.SecondMoment.from_bytes(one.to_bytes()),
        "pickle": pickle.loads(pickle.dumps(one)),
        "deep copy": copy.deepcopy(one),
        "sum": first + last,
        "merge": merge([last, first]),
        "merged": pg.SecondMoment.from_bytes(first.to_bytes()).merge(last),
    }


def test_moment_carries_its_bound_and_a_release_counts_it(rng):
    """However the moment came about, and unasked."""
    x = table(rng)
    bound = private_norm_bound(x, 0.5, 0.5, lower=0.01, upper=100)
    for way, moment in carried(bound, x).items():
        assert moment.norm_bound.to_dict() == bound.to_dict(), way
        release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
        assert (release.epsilon, release.delta) == (1.5, 1e-6), way
        assert release.parameters["bound_epsilon"] == 0.5
        assert release.parameters["bound_id"] == bound.id
        assert release.privacy == privacy.compose(
            [pg.AnalyzeGauss().calibrate(4, bound, 1.0, 1e-6).privacy, bound.privacy]
        )
        assert type(release.bound) is float
        assert release.including(bound) is release  # as was asked for before
        assert release.marginal([0]).epsilon == 1.5
    plain = pg.second_moment(x, float(bound))
    assert plain.norm_bound is None
    assert pg.release(plain, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss()).epsilon == 1.0


@pytest.mark.parametrize("form", [".json", ".npz"])
def test_saved_release_counts_its_bound(rng, tmp_path, form):
    x = table(rng)
    bound = private_norm_bound(x, 0.5, 0.5, lower=0.01, upper=100)
    release = pg.release(pg.second_moment(x, bound), None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss())
    release.save(tmp_path / f"gram{form}")
    loaded = pg.load(tmp_path / f"gram{form}")
    assert (loaded.epsilon, loaded.privacy) == (1.5, release.privacy)
    assert loaded.including(bound) is loaded


def test_only_moments_of_one_choice_are_merged(rng):
    x = table(rng)
    options = {"lower": 1.0, "upper": 1.5, "bins_per_octave": 1}
    bounds = [private_norm_bound(x, 50.0, 0.5, **options) for _ in range(2)]
    bounds[1] = NormBound(bounds[0], **bounds[1].__dict__)  # the same number, chosen again
    moments = [pg.second_moment(x, bound) for bound in (*bounds, float(bounds[0]))]
    for a, b in itertools.permutations(moments, 2):
        with pytest.raises(ValueError, match="not chosen together"):
            a.copy().merge(b)


@pytest.mark.parametrize(
    "change",
    [
        {"bound": 3.0},
        {"bound": "x"},
        {"epsilon": -1.0},
        {"epsilon": None},
        {"adjacency": "swap"},
        {"id": 3},
        {"more": 1},
    ],
)
def test_bytes_with_a_choice_that_is_none_are_refused(rng, change):
    bound = private_norm_bound(table(rng), 1.0, 0.5, lower=0.01, upper=100)
    moment = pg.SecondMoment(2, bound)
    values = bound.to_dict() | change
    object.__setattr__(bound, "to_dict", lambda: values)
    with pytest.raises(ValueError, match=r"NormBound|not the one that was chosen"):
        pg.SecondMoment.from_bytes(moment.to_bytes())


ALL_MECHANISMS = {
    "gauss": pg.AnalyzeGauss(),
    "wishart": pg.AdditiveWishart(),
    "matrix laplace": pg.MatrixLaplace(),
    "sketch": GaussianSketch(rows=50),
    "adaptive sketch": GaussianSketch(rows=50, adaptive=True),
    "inverse wishart": InverseWishart(dof=60),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_MECHANISMS)
def test_every_mechanism_counts_the_bound(rng, name):
    x = rng.standard_normal((3000, 3))
    bound = private_norm_bound(x, 0.5, 0.8, lower=0.1, upper=10)
    release = pg.release(
        pg.second_moment(x, bound), None, 1.0, 1e-6, mechanism=ALL_MECHANISMS[name]
    )
    assert (release.epsilon, release.delta) == (1.5, 1e-6)
    assert bound.privacy in release.privacy.profiles


def test_ledger_is_charged_for_a_choice_once(rng, tmp_path):
    """Entered at the choice or at the first release, and by no further one."""
    x = table(rng)
    options = {"lower": 0.01, "upper": 100.0}
    for entered in (True, False):
        ledger = pg.Ledger(tmp_path / f"{entered}.ledger", 10.0, 1e-4, composition="basic")
        budget = ledger if entered else None
        bound = private_norm_bound(x, 0.5, 0.5, ledger=budget, **options)
        assert len(ledger.entries) == entered
        moment = pg.second_moment(x, bound)
        for m in (moment, pickle.loads(pickle.dumps(moment)), moment + moment.copy()):
            assert (
                pg.release(m, None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss(), ledger=ledger).epsilon
                == 1.5
            )
        assert [e.epsilon for e in ledger.entries] == [0.5, 1.0, 1.0, 1.0]
        assert [e.id for e in ledger.entries] == [bound.id, "", "", ""]
        assert ledger.spent == (3.5, pytest.approx(3e-6))
        again = private_norm_bound(x, 0.5, 0.5, ledger=ledger, **options)  # another choice
        assert ledger.entries[-1].id == again.id != bound.id
    with pytest.raises(ValueError, match="another spend with the id"):
        ledger.spend(0.1, 0.0, adjacency="replace", unit="", id=again.id)


def test_two_notions_of_neighbours_are_not_mixed(rng, tmp_path):
    x = table(rng)
    ledger = pg.Ledger(tmp_path / "study.ledger", 5.0, 1e-5)
    for chosen, released in (("replace", "add-remove"), ("add-remove", "replace")):
        bound = private_norm_bound(x, 0.5, 0.5, lower=0.01, upper=100, adjacency=chosen)
        moment = pg.second_moment(x, bound)
        with pytest.raises(ValueError, match="one notion of neighbours"):
            pg.release(
                moment,
                epsilon=1.0,
                delta=1e-6,
                mechanism=pg.AnalyzeGauss(),
                adjacency=released,
                ledger=ledger,
            )
    assert not ledger.entries


SCALED = {
    **ALL_MECHANISMS,
    "wishart of a dof": pg.AdditiveWishart(dof=20),
    "adaptive inverse wishart": InverseWishart(dof=60, adaptive=True),
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "calibration"),
    [  # a theorem fixes the degrees of freedom
        (name, kind)
        for name in SCALED
        for kind in ("exact", "published")
        if (name, kind) not in (("wishart of a dof", "published"), ("matrix laplace", "published"))
    ],
)
def test_profiles_of_mechanisms_without_a_length_are_those_of_any_bound(name, calibration):
    """What lets the profile compose with the choice of the bound."""
    mechanism = by(calibration, SCALED[name], allow_published_erratum=True)
    assert mechanism.scale_free
    at = [0.0, 0.5, 1.5]
    deltas = [
        mechanism.calibrate(3, bound, 0.5, 1e-5, "replace", 1000).privacy.delta(at)
        for bound in (1.0, 7.7e8)
    ]
    np.testing.assert_allclose(*deltas, rtol=1e-9)


@pytest.mark.slow
def test_fixed_scale_is_composed_by_what_it_states(rng):
    """Its profile depends on the bound, and the composed profile of one bound is exceeded.

    By the worst choice between two bounds, evaluated from the definition: outcome o has loss l_o,
    and then the release has its own profile, so delta(t) = sum_o P(o) delta_o(t - l_o).
    """
    mechanism, chosen, delta = pg.AdditiveWishart(scale=20.0), 0.3, 1e-6
    assert not mechanism.scale_free
    assert not InverseGauss(eigenvalue_floor=9.0).scale_free
    profiles = [mechanism.calibrate(3, b, 1.0, delta).privacy for b in (0.25, 2.0)]
    x = 0.1 * rng.standard_normal((1000, 3))
    fields = {"adjacency": "replace", "quantile": 0.9, "lower": 0.25, "upper": 2.0}
    bound = NormBound(0.25, epsilon=chosen, bins_per_octave=1, reproducible=False, **fields)
    release = pg.release(pg.second_moment(x, bound), None, 1.0, delta, mechanism=mechanism)
    # The composition of one profile with the choice, as in the test by quadrature above.
    node, weight = np.polynomial.legendre.leggauss(20)
    weight *= np.exp(chosen * node / 2)
    at = np.array([0.9, 1.0, 1.1, 1.25])
    naive = profiles[0].delta(at[:, None] - chosen * node) @ weight / weight.sum()
    stated = release.privacy.delta(at)
    worst = 0.0
    for tau in (0.01, 0.1, 0.2, 0.29):
        first = math.expm1(tau - chosen) / math.expm1(-chosen)
        p, losses = np.array([first, 1 - first]), np.array([tau, tau - chosen])
        np.testing.assert_allclose((p * np.exp(-losses)).sum(), 1.0)  # Q is a law as well
        deltas = [profile.delta(at[:, None] - losses) for profile in profiles]
        exact = np.maximum(*deltas) @ p
        assert (exact <= stated).all()
        worst = max(worst, (exact / naive).max())
    assert worst > 8  # what composing the profile of the bound that came out would have claimed
    assert (release.epsilon, release.delta) == (1.3, delta)
    assert release.privacy.delta(1.3) <= delta * (1 + 1e-6)


def test_ledger_takes_a_fixed_scale_by_what_it_states(rng, tmp_path):
    x = rng.standard_normal((1000, 3))
    ledger = pg.Ledger(tmp_path / "study.ledger", 5.0, 1e-5, composition="basic")
    bound = private_norm_bound(x, 0.3, 0.9, lower=0.5, upper=4.0, ledger=ledger)
    for b in (bound, float(bound)):
        mechanism = pg.AdditiveWishart(scale=20.0)
        pg.release(pg.second_moment(x, b), None, 1.0, 1e-6, ledger=ledger, mechanism=mechanism)
    assert [type(e.privacy).__name__ for e in ledger.entries] == [
        "BoundedRangeProfile",
        "NoneType",
        "WishartProfile",
    ]


def test_number_alone_is_counted_by_hand(both, tmp_path):
    bound, release = both
    assert release.epsilon == 1.0
    total = release.including(bound)
    assert (total.epsilon, total.delta) == (pytest.approx(1.1), 1e-6)
    assert total.parameters["bound_epsilon"] == 0.1
    assert total.parameters["sigma"] == release.parameters["sigma"]
    total.save(tmp_path / "gram.json")
    loaded = pg.load(tmp_path / "gram.json")
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
    other = NormBound(bound * 2, **{k: v for k, v in bound.to_dict().items() if k != "bound"})
    refuses(lambda: release.including(other), ValueError, "the bound of this release")
    total = release.including(bound)
    assert total.including(bound) is total
    fields = {k: v for k, v in bound.to_dict().items() if k != "bound"}
    with pytest.raises(ValueError, match="already"):
        total.including(NormBound(bound, **fields | {"id": "another"}))
    with pytest.raises(ValueError, match="add-remove"):
        release.including(NormBound(bound, **fields | {"adjacency": "add-remove"}))


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


def test_nineteen_of_twenty_rows_are_whole_and_half_of_the_units():
    table = {"x": np.linspace(-1, 1, 20_000), "who": np.arange(20_000)}
    columns = pg.Columns({"x": (-1, 1)})
    rng = np.random.default_rng(0)
    of_rows = private_norm_bound(table, 1.0, columns=columns, rng=rng)
    of_units = private_norm_bound(table, 1.0, columns=columns, unit="who", rng=rng)
    assert (of_rows.quantile, of_units.quantile) == (0.95, 0.5)
    assert float(of_rows) == pytest.approx(0.95, rel=0.06)  # a point of the grid
    assert float(of_units) == pytest.approx(0.5, rel=0.06)


def test_rows_are_few_where_the_grid_beyond_all_of_them_is_as_likely():
    """2 (log of the grid's points + 5) over epsilon and the smaller part."""
    asked = ScanRequest.of(np.zeros((1, 2)), None, None, None, None, None, False)
    choice = BoundSelection(pg.PrivateBound(0.5, 0.9), asked, lower=1.0, upper=16.0)
    needed = math.ceil(2 * (math.log(4 * 16 + 1) + 5) / (0.5 * 0.1))
    choice._warn_of_few(needed)
    with pytest.warns(UserWarning, match=f"{needed - 1} rows are too few .* needs {needed}"):
        choice._warn_of_few(needed - 1)
