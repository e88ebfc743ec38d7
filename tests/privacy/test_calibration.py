"""Calibration: safe, tight, smallest, and clear where nothing can be done."""

import numpy as np
import pytest
from support.helpers import all_pairs, refuses

from privgram.papers import hardt_roth, sheffet
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import SketchProfile, WishartProfile
from privgram.privacy import calibration as cal

BUDGETS = [
    (epsilon, delta)
    for epsilon in (0.0, 1e-4, 0.1, 1.0, 10.0, 50.0)
    for delta in (1e-30, 1e-9, 1e-3, 0.5)
]
ADJACENCIES = ["replace", "add-remove"]
every_budget = pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES)


@every_budget
@every_adjacency
def test_sketch_ratio_is_safe_and_tight(epsilon, delta, adjacency):
    for rows in (1, 2.5, 100, 10**6, 10**9):
        ratio = sheffet.sketch_ratio(rows, epsilon, delta, adjacency)
        reached = SketchProfile(rows, ratio, adjacency).delta(epsilon)
        assert delta * 0.999999 <= reached <= delta


@every_budget
@every_adjacency
def test_sketch_rows_is_the_most_that_qualifies(epsilon, delta, adjacency):
    for ratio in (1e-9, 1e-4, 0.1, 10.0, 1e3):
        few, many = (SketchProfile(r, ratio, adjacency).delta(epsilon) <= delta for r in (1, 1e12))
        if many or not few:
            with pytest.raises(ValueError, match="larger ratio" if many else "smaller ratio"):
                sheffet.sketch_rows(ratio, epsilon, delta, adjacency)
            continue
        rows = sheffet.sketch_rows(ratio, epsilon, delta, adjacency)
        assert isinstance(rows, int)
        assert SketchProfile(rows, ratio, adjacency).delta(epsilon) <= delta
        assert SketchProfile(rows + 1, ratio, adjacency).delta(epsilon) > delta


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "adjacency", "n_columns"), all_pairs(BUDGETS, ADJACENCIES, [1, 5000])
)
def test_wishart_dof_is_the_least_that_qualifies(budget, adjacency, n_columns):
    epsilon, delta = budget
    for ratio in (1e-9, 1e-3, 1.0, 50.0, 1e3):
        if WishartProfile(1e12, n_columns, ratio, adjacency).delta(epsilon) > delta:
            with pytest.raises(ValueError, match="smaller ratio"):
                sheffet.wishart_dof(n_columns, ratio, epsilon, delta, adjacency)
            continue
        dof = sheffet.wishart_dof(n_columns, ratio, epsilon, delta, adjacency)
        assert isinstance(dof, int)
        assert WishartProfile(dof, n_columns, ratio, adjacency).delta(epsilon) <= delta
        if dof > n_columns + 1:
            assert WishartProfile(dof - 1, n_columns, ratio, adjacency).delta(epsilon) > delta


@pytest.mark.slow
@every_budget
@every_adjacency
def test_wishart_ratio_is_safe_and_tight(epsilon, delta, adjacency):
    for n_columns, dof in ((1, 2), (22, 23), (22, 25.5), (22, 300), (5000, 10**9)):
        ratio = sheffet.wishart_ratio(n_columns, dof, epsilon, delta, adjacency)
        reached = WishartProfile(dof, n_columns, ratio, adjacency).delta(epsilon)
        assert delta * 0.999 <= reached <= delta


@every_budget
def test_chi_gaussian_ratio_is_safe_and_tight(epsilon, delta):
    for k in (1, 10, 10**5):
        reached = ChiGaussianProfile(k, hardt_roth.chi_gaussian_ratio(k, epsilon, delta)).delta(
            epsilon
        )
        assert delta * 0.999999 <= reached <= delta


@every_adjacency
@pytest.mark.parametrize("n_columns", [1, 2, 22, 5000])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-12), (0.1, 1e-9), (1, 1e-6), (50, 0.5)])
def test_wishart_noise_is_one_per_cent_above_the_gaussian(n_columns, epsilon, delta, adjacency):
    noise = sheffet.wishart_noise(n_columns, epsilon, delta, adjacency)
    ratio, dof = noise
    reached = WishartProfile(dof, n_columns, ratio, adjacency).delta(epsilon)
    assert delta * 0.999 <= reached <= delta
    one_row = adjacency == "add-remove" or n_columns == 1
    limit = np.sqrt(0.5 if one_row else 1.0) / cal.gaussian_ratio(epsilon, delta)
    assert 1.0 < np.sqrt(dof) / ratio / limit <= 1.01 * (1 + 1e-9)


def test_wishart_dof_has_the_printed_values():
    """At (1, 1e-6), d = 22, replace: docs/theory/wishart.md."""
    dof = [sheffet.wishart_dof(22, s, 1.0, 1e-6) for s in (1, 2, 4, 8, 16)]
    assert dof == [66, 128, 348, 1208, 4635]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "total", "plain"), [("add-remove", 57.07, 35.54), ("replace", 66.67, 43.41)]
)
def test_adaptive_sketch_at_the_worked_example(adjacency, total, plain):
    profile = sheffet.adaptive_sketch(100, 1.0, 1e-6, adjacency)
    assert profile.regulariser + profile.shift == pytest.approx(total, rel=2e-3)
    assert 0.99e-6 <= profile.delta(1.0) <= 1e-6
    # Where the data have a null direction it costs a few per cent over the plain sketch.
    assert 1 / sheffet.sketch_ratio(100, 1.0, 1e-6, adjacency) == pytest.approx(plain, rel=1e-3)
    assert plain < profile.regulariser < 1.06 * plain


@pytest.mark.slow
@every_adjacency
@pytest.mark.parametrize(
    ("rows", "epsilon", "delta"),
    [
        pytest.param(1, 1.0, 1e-6, marks=pytest.mark.long),
        pytest.param(1e4, 1.0, 1e-6, marks=pytest.mark.long),
        pytest.param(50, 10, 1e-12, marks=pytest.mark.long),
        pytest.param(10, 0.0, 1e-3, marks=pytest.mark.long),
        (100, 50, 0.5),
        (1e9, 1e-4, 1e-30),
    ],
)
def test_adaptive_sketch_is_safe_and_tight(rows, epsilon, delta, adjacency):
    profile = sheffet.adaptive_sketch(rows, epsilon, delta, adjacency)
    assert 0.99 * delta <= profile.delta(epsilon) <= delta
    # A scale 10 % off is no better.
    total = profile.regulariser + profile.shift
    for factor in (0.9, 1.1):
        other = type(profile)(rows, 0.5 * total, 0.5 * total, factor * profile.scale, adjacency)
        here = type(profile)(rows, 0.5 * total, 0.5 * total, profile.scale, adjacency)
        if here.delta(epsilon) < 1.5 * delta:
            assert other.delta(epsilon) > 0.9 * here.delta(epsilon)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cal.gaussian_ratio(1.0, 1e-301), "delta must be at least 1e-300"),
        (lambda: sheffet.sketch_rows(100.0, 0.1, 1e-9), "ask for a smaller ratio"),
        (lambda: sheffet.sketch_rows(1e-12, 1.0, 1e-3), "ask for a larger ratio"),
        (lambda: sheffet.wishart_dof(22, 1e9, 1e-3, 1e-9), "ask for a smaller ratio"),
        (lambda: sheffet.wishart_noise(22, 1.0, 1e-9, "none"), "adjacency is"),
        (lambda: sheffet.wishart_noise(22, 1e12, 0.5), "or use Gaussian noise"),
        (lambda: sheffet.adaptive_sketch(9, 101.0, 1e-6), "epsilon must be at most 100"),
    ],
)
def test_impossible_arguments_are_refused(call, message):
    refuses(call, ValueError, message)
