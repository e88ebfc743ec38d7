"""The privately chosen bound: exact counts, exact privacy, and what becomes of both.

Privacy is checked by exact enumeration: the law of the choice is known in closed form, and
all neighbours of all small tables are gone through.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from support.helpers import by, refuses

import privgram as pg
from privgram import privacy
from privgram.columns import PrivateBound
from privgram.disclosure.norm_bound import BoundSelection, NormCounts
from privgram.exact.choice import quantile_losses
from privgram.ledger import BudgetExceeded
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.privacy import BoundedRangeProfile
from privgram.scan.request import ScanRequest

AUTO = PrivateBound(1.0)
GRID = np.array([0.5, 1.0, 2.0, 4.0])


ASKED = {"epsilon": 1.0, "delta": 1e-6, "mechanism": pg.AnalyzeGauss()}


def selection(x, auto=AUTO, adjacency="replace", columns=None, unit=None, grid=None):
    scan = ScanRequest.of(x, columns, None, unit, None, None, False, adjacency)
    choice = BoundSelection(auto, scan, adjacency)
    choice.grid = choice.grid if grid is None else grid
    return choice


def chosen(*asked, rng=None, ledger=None, **more):
    choice = selection(*asked, **more)
    return choice.draw(choice.count(), rng, ledger)


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
    choice = BoundSelection(PrivateBound(1.0), ScanRequest(source, threads=threads))
    choice.grid = np.geomspace(0.01, 100.0, 214)
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
    made = chosen(x, PrivateBound(50.0, 0.5), columns=columns, rng=rng)
    assert np.quantile(norms, 0.49) <= made.bound <= np.quantile(norms, 0.51) * 2 ** (1 / 16)
    assert (made.lower, made.upper) == (columns.bound / 1024, columns.bound)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_row_that_is_not_finite_is_named_by_its_position(rng, value):
    x = table(rng, 20_000)
    x[12_345, 2] = value
    refuses(lambda: chosen(x), ValueError, "row 12345")


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
        chosen(table(rng), PrivateBound(0.3, 0.9), adjacency, rng=rng)
        assert handed.pop()[1] == Fraction(0.3) / (2 * sensitivity)


def test_no_rows_make_every_bound_as_likely(rng):
    grid = np.array([1.0, 2.0, 4.0, 8.0])
    bounds = {chosen(np.empty((0, 2)), adjacency="add-remove", grid=grid).bound for _ in range(60)}
    assert bounds == {1.0, 2.0, 4.0, 8.0}  # one is missed with chance 4 (3/4)^60 < 2e-7


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_bound_is_near_the_quantile(rng, adjacency):
    """By more missed rows than the docstring allows once in exp(14)."""
    x = table(rng, 40_000)
    norms = np.sort(np.linalg.norm(x, axis=1))
    for quantile in (0.5, 0.95):
        bound = chosen(x, PrivateBound(0.5, quantile), adjacency, rng=rng).bound
        slack = math.ceil(2 / 0.5 * (math.log(1000) + 14))
        target = int(quantile * len(norms))
        assert norms[target - slack] <= bound
        assert bound <= norms[min(target + slack, len(norms) - 1)] * 2 ** (1 / 16) * (1 + 1e-9)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.longdouble, Fraction])
def test_quantile_of_any_type_is_that_number(rng, kind):
    """Plain from the start: it is read as it is written, and saved with the release."""
    auto = PrivateBound(0.5, kind(0.5))
    assert type(auto.quantile) is float
    assert auto == PrivateBound(0.5, 0.5)
    assert chosen(table(rng), auto).quantile == 0.5


def test_ledger_counts_the_choice_before_it_is_made(rng, tmp_path, monkeypatch):
    x, auto = table(rng), PrivateBound(0.8, 0.5)
    ledger = pg.Ledger(tmp_path / "study.ledger", epsilon=1.0, delta=1e-6)
    made = chosen(x, auto, ledger=ledger)
    (entry,) = ledger.entries
    assert (entry.epsilon, entry.delta, entry.privacy) == (0.8, 0.0, made.price.privacy)
    assert (entry.what, made.reproducible) == ("PrivateBound(quantile=0.5)", False)
    monkeypatch.setattr("privgram.secret.gate.exponential_mechanism", lambda *a: 1 / 0)
    with pytest.raises(BudgetExceeded):
        chosen(x, auto, ledger=ledger)
    assert len(ledger.entries) == 1


def test_choice_is_not_paid_for_without_its_release(rng, tmp_path):
    ledger = pg.Ledger(tmp_path / "study.ledger", 1.0, 1e-6, composition="basic")
    asked = {"delta": 1e-7, "bound": PrivateBound(0.8, 0.5), "ledger": ledger}
    for mechanism in (pg.AnalyzeGauss(), GaussianSketch(50)):
        with pytest.raises(BudgetExceeded):
            pg.release(table(rng), epsilon=0.5, mechanism=mechanism, **asked)
    assert ledger.entries == ()
    pg.release(table(rng), epsilon=0.2, mechanism=pg.AnalyzeGauss(), **asked)
    assert [entry.epsilon for entry in ledger.entries] == [0.8, 0.2]


@pytest.mark.parametrize("composition", ["basic", "gaussian"])
def test_least_delta_is_as_good_as_any(rng, tmp_path, composition):
    """Composition by grids of losses has no digits below 1e-12, and the two are two entries."""
    ledger = pg.Ledger(tmp_path / "study.ledger", 1.0, 1e-6, composition=composition)
    asked = {"delta": 1e-14, "bound": PrivateBound(0.2), "ledger": ledger}
    pg.release(table(rng), epsilon=0.2, mechanism=pg.AnalyzeGauss(), **asked)
    assert [entry.epsilon for entry in ledger.entries] == [0.2, 0.2]


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-13), (100.0, 1e-6), (1.0, 0.0)])
def test_choice_is_paid_for_where_grids_of_losses_end(rng, tmp_path, epsilon, delta):
    ledger = pg.Ledger(tmp_path / "study.ledger", 200.0, 1e-3)
    asked = {"epsilon": epsilon, "delta": delta, "bound": PrivateBound(0.5), "ledger": ledger}
    mechanism = pg.AnalyzeGauss() if delta else pg.MatrixLaplace()
    pg.release(table(rng), mechanism=mechanism, **asked)
    assert [(entry.epsilon, entry.delta) for entry in ledger.entries] == [
        (0.5, 0.0),
        (epsilon, delta),
    ]


@pytest.mark.parametrize("form", [".json", ".npz"])
def test_release_counts_its_bound(rng, tmp_path, form):
    x, auto = table(rng), PrivateBound(0.5, 0.5)
    release = pg.release(x, **ASKED, bound=auto, rng=rng)
    assert (release.epsilon, release.delta, release.reproducible) == (1.5, 1e-6, True)
    assert release.parameters["bound_epsilon"] == release.parameters["bound_quantile"] == 0.5
    alone = pg.AnalyzeGauss().calibrate(4, release.bound, 1.0, 1e-6).privacy
    choice = BoundedRangeProfile(0.5, "replace")
    assert release.privacy == privacy.compose([alone, choice])
    # At once they cost less than one after the other, and more than one alone.
    assert alone.delta(1.5) < release.privacy.delta(1.5) < 1e-6
    assert release.marginal([0]).epsilon == 1.5
    release.save(tmp_path / f"gram{form}")
    loaded = pg.load(tmp_path / f"gram{form}")
    assert (loaded.epsilon, loaded.privacy) == (1.5, release.privacy)


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
    asked = ASKED | {"mechanism": ALL_MECHANISMS[name]}
    release = pg.release(x, **asked, bound=PrivateBound(0.5, 0.8))
    assert (release.epsilon, release.delta) == (1.5, 1e-6)
    assert BoundedRangeProfile(0.5, "replace") in release.privacy.profiles


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
def test_fixed_scale_is_composed_by_what_it_states(rng, monkeypatch):
    """Its profile depends on the bound, and the composed profile of one bound is exceeded.

    By the worst choice between two bounds, evaluated from the definition: outcome o has loss l_o,
    and then the release has its own profile, so delta(t) = sum_o P(o) delta_o(t - l_o).
    """
    mechanism, chosen, delta = pg.AdditiveWishart(scale=20.0), 0.3, 1e-6
    assert not mechanism.scale_free
    assert not InverseGauss(eigenvalue_floor=9.0).scale_free
    profiles = [mechanism.calibrate(3, b, 1.0, delta).privacy for b in (0.25, 2.0)]
    x = 0.1 * rng.standard_normal((1000, 3))
    monkeypatch.setattr("privgram.disclosure.norm_bound.LOWER", 0.25)
    monkeypatch.setattr("privgram.disclosure.norm_bound.UPPER", 2.0)
    monkeypatch.setattr("privgram.secret.gate.exponential_mechanism", lambda *a: 0)
    release = pg.release(x, None, 1.0, delta, mechanism=mechanism, bound=PrivateBound(chosen, 0.9))
    assert release.bound == 0.25
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
    for bound in (PrivateBound(0.3, 0.9), 2.0):
        asked = {"mechanism": pg.AdditiveWishart(scale=20.0), "bound": bound}
        pg.release(x, None, 1.0, 1e-6, ledger=ledger, **asked)
    assert [type(e.privacy).__name__ for e in ledger.entries] == [
        "BoundedRangeProfile",
        "NoneType",
        "WishartProfile",
    ]


def test_composed_profile_by_quadrature():
    """The loss of the choice has the density exp((l - epsilon) / 2) on [-epsilon, epsilon]."""
    gauss, epsilon = pg.AnalyzeGauss().calibrate(4, 1.0, 1.0, 1e-6).privacy, 0.3
    total = privacy.compose([gauss, BoundedRangeProfile(epsilon)])
    node, weight = np.polynomial.legendre.leggauss(60)
    density = np.exp((epsilon * node - epsilon) / 2)
    for at in (0.0, 0.5, 1.0, 1.5):
        exact = weight * density @ gauss.delta(at - epsilon * node) / (weight @ density)
        assert exact <= total.delta(at) <= exact * 1.001


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
    of_rows = chosen(table, columns=columns, rng=rng)
    of_units = chosen(table, columns=columns, unit="who", rng=rng)
    assert (of_rows.quantile, of_units.quantile) == (0.95, 0.5)
    assert of_rows.bound == pytest.approx(0.95, rel=0.06)  # a point of the grid
    assert of_units.bound == pytest.approx(0.5, rel=0.06)


def test_rows_are_few_where_the_grid_beyond_all_of_them_is_as_likely():
    """2 (log of the grid's points + 5) over epsilon and the smaller part."""
    choice = selection(np.zeros((1, 2)), pg.PrivateBound(0.5, 0.9), grid=np.geomspace(1, 16, 65))
    needed = math.ceil(2 * (math.log(4 * 16 + 1) + 5) / (0.5 * 0.1))
    choice._warn_of_few(needed)
    with pytest.warns(UserWarning, match=f"{needed - 1} rows are too few .* needs {needed}"):
        choice._warn_of_few(needed - 1)
