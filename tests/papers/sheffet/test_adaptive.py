"""The adaptive profile bounds every gap between the smallest eigenvalues and every clip.

The other route is a search over gaps and clips with plain sums and scipy's tails; what it finds
is attained, by two tables that are written down.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats
from support.pairs import rule

from privgram.papers import sheffet
from privgram.papers._shared import wide_and_narrow
from privgram.papers.sheffet import AdaptiveSketchProfile
from privgram.papers.sheffet.profiles import adaptive_delta, sketch_curves


def replace_curve(epsilon, wide, narrow, rows):
    """Pair of two coordinates, given the narrow one: its loss moves epsilon."""
    root = math.sqrt(rows)
    chi, weight = rule(max(root - 9, 0.0), root + 9, 80)
    share = narrow / (1 + narrow)
    loss = rows / 2 * np.log1p(narrow)[:, None] - share[:, None] / 2 * chi**2
    rest = add_remove_curve(epsilon[:, None] - loss, wide[:, None], rows, True)
    return rest @ (weight * stats.chi.pdf(chi, rows))


def add_remove_curve(epsilon, ratio, rows, wide):
    if not wide:  # the same pair exchanged: H_e(Q|P) from H_-e(P|Q)
        return np.exp(epsilon) * add_remove_curve(-epsilon, ratio, rows, True) - np.expm1(epsilon)
    t = 1 + ratio
    # Where the wide law's loss, (1 - 1/t) y / 2 - (rows / 2) ln t at |x|^2 = y, exceeds epsilon.
    y = np.maximum((epsilon + rows / 2 * np.log(t)) / ((1 - 1 / t) / 2), 0.0)
    return special.gammaincc(rows / 2, y / t / 2) - np.exp(epsilon) * special.gammaincc(
        rows / 2, y / 2
    )


def leak(epsilon, curve, gap, c, profile):
    """Delta at a gap and a clip c, by midpoints."""
    total, scale = profile.regulariser + profile.shift, profile.scale
    own = profile.shift - c  # the smaller of the smallest eigenvalues
    step = (total - c) / 400
    z = c + step * (np.arange(400) + 0.5)
    p, q = stats.laplace(max(gap, 0), scale), stats.laplace(max(-gap, 0), scale)
    # What is joined, what is shown, and what is beyond the regulariser.
    where = np.append(z, [c, total])
    gain = p.logpdf(where) - q.logpdf(where)
    gain[-2] = p.logcdf(c) - q.logcdf(c)
    mass = np.append(p.cdf(z + step / 2) - p.cdf(z - step / 2), [p.cdf(c), p.sf(total)])
    least = np.maximum(total - where, own)
    hidden = least > 0
    values = np.ones(where.size)
    values[hidden] = curve((epsilon - gain)[hidden], least[hidden])
    return float(mass @ values)


def curves(rows, adjacency, gap):
    """Of the worst pair, given the smaller of the smallest eigenvalues."""
    if adjacency == "replace":
        # Tables diag(x, x + gap) plus a row along either axis, in units of its square.
        low, high = max(gap, 0), max(-gap, 0)
        return [lambda e, x: replace_curve(e, 1 / (x + high), 1 / (x + low), rows)]
    return [lambda e, x, w=w: add_remove_curve(e, 1 / x, rows, w) for w in (True, False)]


GAPS = [1, 0.7, 0.5, 0.25, 0, -0.5, -1]


PROFILES = [
    AdaptiveSketchProfile(10, 0.8389, 0.6930, 0.7514),
    AdaptiveSketchProfile(6, 1.5, 1.2, 0.5, "add-remove"),
    AdaptiveSketchProfile(25, 8.35, 4.4, 2.69),
    AdaptiveSketchProfile(3, 4.0, 8.0, 0.3),
    AdaptiveSketchProfile(40, 3.0, 0.0, 1.0, "add-remove"),
    AdaptiveSketchProfile(2, 4.1, 9.7, 4.3),
]


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES, ids=repr)
@pytest.mark.parametrize("epsilon", [0.1, 1.5])
def test_no_gap_and_no_clip_leaks_more(profile, epsilon):
    clips = {min(c, profile.shift) for c in (0.0, 0.3, 0.6, 0.9, 2.0, 100.0)}
    bound, worst = profile.delta(epsilon), 0.0
    for gap, c in itertools.product(GAPS, clips):
        for curve in curves(profile.rows, profile.adjacency, gap):
            worst = max(worst, leak(epsilon, curve, gap, c, profile))
    # The sum's own error, and what the bound may exceed the attained by.
    assert 0.98 * bound <= worst <= bound * (1 + 1e-4)


@pytest.mark.slow
def test_bound_is_near_what_is_attained_at_every_epsilon():
    profile = sheffet.adaptive_sketch(30, 1.0, 1e-4)
    for epsilon in (0.01, 0.3, 3.0, 6.0):
        attained = max(
            leak(epsilon, curve, gap, c, profile)
            for gap, c in itertools.product((1, 0), (0.0, profile.shift))
            for curve in curves(30, "replace", gap)
        )
        assert 0.98 * profile.delta(epsilon) <= attained


def test_lesser_gaps_may_leak_more():
    """No gap at all tells nothing by the eigenvalue, but hides two directions the least."""
    profile = AdaptiveSketchProfile(200, 10.0, 3.0, 3.0)
    at_end, none = (leak(0.1, curves(200, "replace", gap)[0], gap, 3.0, profile) for gap in (1, 0))
    assert at_end == pytest.approx(0.4937, abs=2e-3)
    assert none == pytest.approx(0.5046, abs=2e-3)
    assert none <= profile.delta(0.1)


def test_mixture_of_the_pair_of_two_ratios():
    rng = np.random.default_rng(3)
    epsilon = rng.uniform(-1, 3, 30)
    for rows in (7, 40):
        least, gap = rng.uniform(0.5, 30, 30), rng.uniform(-1, 1, 30)
        wide, narrow = 1 / (least + np.maximum(-gap, 0)), 1 / (least + np.maximum(gap, 0))
        found = wide_and_narrow(epsilon, float(rows), wide, narrow)
        assert found == pytest.approx(replace_curve(epsilon, wide, narrow, rows), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "epsilon", "delta", "adjacency"),
    [
        (25, 0.5, 0.1, "add-remove"),
        (25, 0.5, 0.1, "replace"),
        (25, 0.3, 0.2, "replace"),
        (2, 0.1, 0.1, "replace"),
    ],
)
def test_calibration_leaves_no_clip_above_delta(rows, epsilon, delta, adjacency):
    """Clips near 0.3 used to give up to 1.0012 of the delta asked for, no gap 1.0017."""
    profile = sheffet.adaptive_sketch(rows, epsilon, delta, adjacency)
    setting = profile.regulariser + profile.shift, profile.shift, profile.scale
    clips = np.unique(np.minimum([*np.linspace(0, 1, 21), *np.linspace(0, 20, 9)], profile.shift))
    for gap in (1.0, 0.0, -1.0):
        for curve in sketch_curves(float(rows), adjacency, gap):
            q = max(-gap, 0.0)
            found = adaptive_delta(epsilon, curve, max(gap, 0.0), (q, q), *setting, (clips, clips))
            assert found.max() <= delta
    assert profile.delta(epsilon) <= delta


def test_three_evaluations_bound_all_shifts_between():
    """Lemma 2 of sheffet.md, whose curve at the middle is nearly reached."""
    curve, setting = sketch_curves(10.0, "replace")[0], (6.0, 2.5, 0.8)
    clip = np.array([1.7]), np.array([1.7])
    for epsilon in (0.0, 0.4, 2.0):
        for low, high in ((0.0, 1.0), (0.25, 0.5)):

            def at(b, e=epsilon):
                return float(adaptive_delta(e, curve, 1.0, (b, b), *setting, clip)[0])

            lowered = epsilon - math.log(math.cosh((high - low) / 2 / 0.8))
            three = max(at(low), at(high), at((low + high) / 2, lowered))
            assert max(map(at, np.linspace(low, high, 9))) <= three


def test_bound_over_cells_and_over_shifts():
    curve, setting = sketch_curves(10.0, "replace")[0], (6.0, 2.5, 0.8)
    clips, ends = np.linspace(0, 2.5, 40), np.linspace(0, 2.5, 6)
    for epsilon in (0.0, 0.4, 2.0):
        exact = np.stack(
            [
                adaptive_delta(epsilon, curve, 1.0, (b, b), *setting, (clips, clips))
                for b in np.linspace(0, 0.5, 5)
            ]
        )
        for shifts, leaks in (((0.0, 0.0), exact[0]), ((0.0, 0.5), exact.max(axis=0))):
            bound = adaptive_delta(epsilon, curve, 1.0, shifts, *setting, (ends[:-1], ends[1:]))
            cell = np.minimum(np.searchsorted(ends, clips, side="right") - 1, 4)
            assert (leaks <= bound[cell]).all()
