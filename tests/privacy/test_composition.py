"""Composition: exact where it can be, an upper bound and a close one where not."""

import json

import numpy as np
import pytest
from scipy import special, stats
from support.helpers import refuses
from support.pairs import rule

import privgram as pg
from privgram.papers._shared import narrow_against_wide, wide_against_narrow, wide_and_narrow
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import (
    GaussianSketch,
    InverseGauss,
    InverseWishart,
    SketchProfile,
    TwoSketchesProfile,
    WishartProfile,
)
from privgram.privacy import (
    BoundedRangeProfile,
    ComposedProfile,
    CoupledProfile,
    GaussianProfile,
    MatrixLaplaceProfile,
    Profile,
    StatedProfile,
    compose,
)
from privgram.privacy.composition import flatten

pytestmark = pytest.mark.slow


def test_closed_forms():
    assert compose([GaussianProfile(0.3), GaussianProfile(0.4)]) == GaussianProfile(0.5)
    assert compose([SketchProfile(10, 0.1)] * 7) == SketchProfile(70, 0.1)
    assert compose([ChiGaussianProfile(3, 0.1), ChiGaussianProfile(4, 0.1)]) == ChiGaussianProfile(
        7, 0.1
    )
    assert compose(
        [GaussianProfile(0.3), ChiGaussianProfile(3, 0.1), GaussianProfile(0.4)]
    ) == ChiGaussianProfile(3, 0.1, 0.5)
    assert compose(
        [ChiGaussianProfile(3, 0.1, 0.3), ChiGaussianProfile(4, 0.1, 0.4)]
    ) == ChiGaussianProfile(7, 0.1, 0.5)
    single = WishartProfile(30, 5, 1.0)
    assert compose([single]) is single


@pytest.mark.parametrize("k", [1, 9])
def test_range_finder_with_gaussians_by_convolution(k):
    finder, gaussian = ChiGaussianProfile(k, 0.2), GaussianProfile(0.5)
    exact = compose([finder, gaussian])
    convolved = ComposedProfile((finder, gaussian))
    epsilon = np.array([0.0, 0.3, 1.0, 2.0])
    excess = convolved.delta(epsilon) / exact.delta(epsilon) - 1
    assert np.all((excess > -1e-9) & (excess < 1e-3))


def test_order_and_nesting_do_not_matter():
    parts = [
        GaussianProfile(0.3),
        SketchProfile(9, 0.01),
        MatrixLaplaceProfile(2, 1, 0.4),
        GaussianProfile(0.4),
    ]
    nested = compose([compose(parts[:3]), parts[3]])
    assert set(nested.profiles) == set(compose(parts[::-1]).profiles)
    assert len(nested.profiles) == 3


def test_sketches_of_different_ratios_stay_apart():
    composed = compose([SketchProfile(9, 0.01), SketchProfile(9, 0.02), SketchProfile(1, 0.01)])
    assert {composed.first, composed.second} == {SketchProfile(10, 0.01), SketchProfile(9, 0.02)}
    three = compose([composed, SketchProfile(3, 0.03), SketchProfile(1, 0.01)])
    assert {p.rows for p in flatten([three])[0]} == {11, 9, 3}


@pytest.mark.parametrize(
    ("profiles", "error", "message"),
    [
        ([], ValueError, "at least one profile"),
        (
            [SketchProfile(9, 0.1), SketchProfile(9, 0.1, "add-remove")],
            ValueError,
            "do not compose",
        ),
        ([WishartProfile(9, 2, 1.0), SketchProfile(9, 0.1, "add-remove")], ValueError, "compose"),
        ([GaussianProfile(1.0), 0.5], TypeError, "not float"),
        (GaussianProfile(1.0), TypeError, "a list of profiles"),
        (
            [GaussianProfile(1.0, "replace"), GaussianProfile(1.0, "add-remove")],
            ValueError,
            "do not compose",
        ),
    ],
)
def test_profiles_that_do_not_compose_are_refused(profiles, error, message):
    refuses(lambda: compose(profiles), error, message)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("count", [2, 10])
def test_convolution_is_an_upper_bound_and_close(adjacency, count):
    pytest.importorskip("dp_accounting")
    exact = SketchProfile(count * 20, 0.02, adjacency)
    numeric = ComposedProfile((SketchProfile(20, 0.02, adjacency),) * count, 1e-3)
    for delta in (1e-2, 1e-5, 1e-9):
        epsilon = exact.epsilon(delta)
        assert delta * (1 - 1e-9) <= numeric.delta(epsilon) <= delta * 1.01
        assert epsilon <= numeric.epsilon(delta) <= epsilon * 1.01


def test_mixed_composition_by_plain_convolution():
    """Laplace then Gaussian: delta = E over the Laplace loss of the Gaussian's profile."""
    pytest.importorskip("dp_accounting")
    laplace, gaussian = MatrixLaplaceProfile(2, 1, 1), GaussianProfile(0.6)
    composed = compose([laplace, gaussian], discretization=1e-3)
    x, w = np.polynomial.legendre.leggauss(200)
    # Loss of Laplace(0, 1) against Laplace(0.5, 1): +-0.5 at the ends, 0.5 - 2x between.
    middle, weight = 0.25 * (x + 1), 0.25 * w
    for epsilon in (0.2, 1.0, 2.0):
        truth = (
            0.5 * gaussian.delta(epsilon - 0.5)
            + 0.5 * np.exp(-0.5) * gaussian.delta(epsilon + 0.5)
            + np.sum(weight * 0.5 * np.exp(-middle) * gaussian.delta(epsilon - 0.5 + 2 * middle))
        )
        assert truth <= composed.delta(epsilon) <= truth * 1.002


def test_nothing_is_said_below_the_floor_of_the_transforms():
    pytest.importorskip("dp_accounting")
    composed = compose([MatrixLaplaceProfile(2, 1, 0.2), GaussianProfile(0.1)], discretization=1e-2)
    assert composed.delta(5.0) == 1e-12
    assert composed.epsilon(1e-13) == np.inf


def joint(first, second, orientations):
    """Delta of two sketches by quadrature over the first, each oriented, in the worse order."""
    curves = (wide_against_narrow, narrow_against_wide)
    (r1, lam1), (r2, lam2) = first, second
    x, w = np.polynomial.legendre.leggauss(400)
    u, w = 60.0 * (x + 1), 60.0 * w  # chi2 of up to twenty degrees of freedom
    from scipy import stats

    def delta(epsilon):
        worst = 0.0
        for order in (0, 1):
            wide = (orientations[0] == "narrow") == bool(order)
            t = 1 + lam1
            loss = (lam1 * u - r1 * np.log(t)) / 2 if wide else (-lam1 / t * u + r1 * np.log(t)) / 2
            curve = curves[(orientations[1] == "narrow") != bool(order)]
            rest = curve(epsilon - loss, r2, np.asarray(lam2))
            worst = max(worst, float(np.sum(w * stats.chi2(r1).pdf(u) * rest)))
        return worst

    return delta


@pytest.mark.parametrize("orientations", [("wide", "wide"), ("wide", "narrow")])
def test_orders_are_composed_like_with_like(orientations):
    exact = joint((8, 0.3), (12, 0.2), orientations)
    parts = [
        SketchProfile(rows, ratio, "add-remove", orientation)
        for (rows, ratio), orientation in zip([(8, 0.3), (12, 0.2)], orientations, strict=True)
    ]
    two, numeric = compose(parts), ComposedProfile(tuple(parts), 1e-3)
    assert two == Profile.from_dict(json.loads(json.dumps(two.to_dict())))
    for epsilon in (0.2, 1.0, 3.0):
        assert two.delta(epsilon) == pytest.approx(exact(epsilon), rel=1e-6)
        assert two.delta(epsilon) <= numeric.delta(epsilon) <= two.delta(epsilon) * 1.005


def test_parts_of_a_composed_profile_are_profiles():
    parts = [GaussianProfile(0.3), SketchProfile(20, 0.02)]
    assert ComposedProfile(parts) == ComposedProfile(tuple(parts))
    assert hash(ComposedProfile(parts)) == hash(ComposedProfile(tuple(parts)))
    with pytest.raises(TypeError, match="profiles must be of Profile, not float"):
        ComposedProfile((GaussianProfile(0.3), 0.4))
    with pytest.raises(ValueError, match="at least one"):
        ComposedProfile(())


def test_sketch_and_an_inverse_of_as_many_rows():
    """By another route: a mixture of Gaussians, Theorem A2 of sheffet.md."""
    epsilon = np.array([0.0, 0.5, 2.0])
    for rows, one, other in ((7, 0.3, 0.1), (40, 0.05, 0.2)):
        wide = SketchProfile(rows, one, "add-remove", "wide")
        two = compose([wide, SketchProfile(rows, other, "add-remove", "narrow")])
        with_row, without = (
            wide_and_narrow(epsilon, rows, np.array(x), np.array(y))
            for x, y in ((one, other), (other, one))
        )
        deltas = [curve(epsilon) for curve in two._directions()]
        np.testing.assert_allclose(deltas, [with_row, without], rtol=1e-9)


@pytest.mark.long
def test_two_ratios_under_replace():
    """By another route: the second's profile, moved by the loss of the first one's two rows."""
    first, second = SketchProfile(6, 0.3), SketchProfile(15, 0.15)
    two = compose([first, second])
    u, weight = rule(0.0, 60.0, 400)
    weight = weight * stats.chi2(6).pdf(u)
    loss = 0.15 * np.subtract.outer(u, u / 1.3)
    for epsilon in (0.2, 1.5):
        rest = second.delta(epsilon - loss)
        assert two.delta(epsilon) == pytest.approx(weight @ rest @ weight, rel=1e-6)


def test_sketch_of_one_row_and_an_inverse_of_a_thousand():
    """By incomplete gamma functions over the normal deviate of the one row, as wide as it is."""
    one = SketchProfile(1, 5.0, "add-remove", "wide")
    two = TwoSketchesProfile(one, SketchProfile(1000, 0.01, "add-remove", "narrow"))
    edges = np.arange(0.0, 60.0)
    y, weight = (part.ravel() for part in rule(edges, edges + 1.0, 100))
    density = 2.0 * stats.norm(scale=np.sqrt(6.0)).pdf(y)
    level = 20.0 - (y * y * 5.0 / 12.0 - np.log(6.0) / 2.0)
    x = np.maximum((500.0 * np.log1p(0.01) - level) / 0.01, 0.0)
    lower = [special.gammainc(500.0, z) for z in (1.01 * x, x)]
    rest = np.where(x > 0.0, lower[0] - np.exp(np.minimum(level, 700.0)) * lower[1], 0.0)
    truth = np.sum(weight * density * rest)
    assert truth == pytest.approx(3.16908840e-3, rel=1e-8)
    assert two.delta(20.0) == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize(
    ("ratio", "rows", "share"), [(30, (2, 9), 1.0), (900, (1, 1), 0.2), (900, (1, 1), 1.0)]
)
def test_two_sketches_of_one_ratio_are_one_with_all_rows(ratio, rows, share):
    """However steep the profile of either is: `compose` would not take this route."""
    first, second = (SketchProfile(r, ratio) for r in rows)
    epsilon = share * ratio**2 / (1 + ratio) * sum(rows) / 2
    expected = SketchProfile(sum(rows), ratio).delta(epsilon)
    assert TwoSketchesProfile(first, second).delta(epsilon) == pytest.approx(expected, rel=1e-11)


def test_two_sketches_need_a_worst_pair_in_common():
    known, one_column = SketchProfile(9, 0.1), SketchProfile(9, 0.2, one_column=True)
    for other in (one_column, SketchProfile(9, 0.2, "add-remove")):
        with pytest.raises(ValueError, match="no worst pair"):
            TwoSketchesProfile(known, other)
    with pytest.raises(TypeError, match="SketchProfile is needed"):
        TwoSketchesProfile(known, GaussianProfile(1.0))
    # What has none is convolved.
    assert set(compose([known, one_column]).profiles) == {known, one_column}


@pytest.mark.parametrize(
    ("budget", "dof", "truth"), [((1.0, 1e-3), (8, 10), 0.00238), ((0.5, 1e-2), (12, 10), 0.0240)]
)
def test_additive_and_inverse_wishart_under_add_remove(budget, dof, truth):
    """Simulated on real releases: 0.00232 +- 0.00004 and 0.0240, where half was stated."""
    noises = [
        mechanism.calibrate(3, 1.0, *budget, "add-remove")
        for mechanism in (pg.AdditiveWishart(dof=dof[0]), InverseWishart(dof=dof[1]))
    ]
    composed = compose([noise.privacy for noise in noises], discretization=2e-3)
    assert truth * 0.995 < composed.delta(budget[0]) < truth * 1.01


def test_only_like_sketches_add_their_rows():
    wide, narrow = (SketchProfile(10, 0.1, "add-remove", x) for x in ("wide", "narrow"))
    assert compose([wide, wide]) == SketchProfile(20, 0.1, "add-remove", "wide")
    assert compose([narrow, narrow]) == SketchProfile(20, 0.1, "add-remove", "narrow")
    assert compose([wide, narrow]) == TwoSketchesProfile(wide, narrow)
    # Replacing a row turns into itself.
    assert SketchProfile(10, 0.1, "replace", "narrow") == SketchProfile(10, 0.1)
    refuses(lambda: SketchProfile(10, 0.1, "add-remove", None), ValueError, "orientation must be")


def test_column_replaced_may_go_up_here_and_down_there():
    """One person's value rises in one table of one column, and falls in another."""
    alone = SketchProfile(10, 0.3, "replace", one_column=True)
    assert alone.delta(0.5) == SketchProfile(10, 0.3, "add-remove").delta(0.5)
    exact = joint((10, 0.3), (10, 0.3), ("wide", "narrow"))
    composed = compose([alone, alone], discretization=1e-3)
    assert exact(1.0) <= composed.delta(1.0) <= exact(1.0) * 1.5


def test_mechanisms_say_which_law_a_row_makes():
    def profile(mechanism, adjacency, n_columns=3):
        return mechanism.calibrate(n_columns, 1.0, 1.0, 1e-6, adjacency).privacy

    sketch, inverse = GaussianSketch(20), InverseWishart(dof=20)
    assert profile(sketch, "add-remove").orientation == "wide"
    assert profile(inverse, "add-remove").orientation == "narrow"
    assert profile(sketch, "replace") == profile(inverse, "replace")
    assert profile(sketch, "replace", 1).one_column
    for mechanism in (pg.AnalyzeGauss(), InverseGauss(4.0)):
        for adjacency in ("replace", "add-remove"):
            assert profile(mechanism, adjacency).adjacency == adjacency


@pytest.mark.parametrize(
    "parts",
    [
        [MatrixLaplaceProfile(2, 1, 2, "replace"), StatedProfile(1.0, 0.0, "add-remove")],
        [BoundedRangeProfile(1.0, "add-remove"), WishartProfile(9, 2, 1.0)],
        [GaussianProfile(0.1, "replace"), GaussianProfile(1.0, "add-remove")],
        [CoupledProfile(GaussianProfile(1.0, "replace"), 1e-9), GaussianProfile(1, "add-remove")],
    ],
)
def test_no_kind_of_profile_mixes_notions_of_neighbours(parts):
    refuses(lambda: compose(parts), ValueError, "do not compose")
    # Where it is not said, it is the caller who knows.
    assert compose([GaussianProfile(0.3), GaussianProfile(0.4, "replace")]) == GaussianProfile(
        0.5, "replace"
    )


def test_chance_of_being_off_counts():
    exact = GaussianProfile(0.5)
    off = CoupledProfile(exact, 1e-9)
    assert off.delta(1.0) == pytest.approx(exact.delta(1.0) + 1e-9 * (1 + np.e), rel=1e-12)
    epsilon = np.linspace(0.0, 80.0, 300)
    delta = off.delta(epsilon)
    assert np.all(np.diff(delta) <= 0.0)
    assert 1e-9 < off.delta(80.0) < 1e-6
    assert Profile.from_dict(json.loads(json.dumps(off.to_dict()))) == off
    # Chances add up, and what is composed exactly stays so.
    assert compose([off, CoupledProfile(exact, 1e-9)]) == CoupledProfile(
        GaussianProfile(np.hypot(0.5, 0.5)), 2e-9
    )
    pytest.importorskip("dp_accounting")
    from privgram.interop.dp_accounting import pld_from_profile

    upper = pld_from_profile(off, 1e-3).get_delta_for_epsilon(1.0)
    assert off.delta(1.0) <= upper <= off.delta(1.0) * 1.001


def test_releases_compose_with_their_finite_precision():
    moment = pg.second_moment(np.eye(3), bound=1.0)
    release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=GaussianSketch(50))
    both = compose([release, release])
    assert both.of == compose([release.privacy] * 2)
    assert both.chance * (1 + np.e) >= 2 * release.parameters["delta_fp"] > 0
    other = pg.release(moment, None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss(), adjacency="add-remove")
    refuses(lambda: compose([release, other]), ValueError, "do not compose")
