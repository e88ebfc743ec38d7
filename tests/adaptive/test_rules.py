"""The rules of adaptive rounds, each in numbers that a hand can check."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import privgram as pg
from privgram.adaptive import rounds as adaptive
from privgram.adaptive.radius import choose_radius, cumulative_std
from privgram.adaptive.rounds import AdaptiveRounds, Gains, _together
from privgram.adaptive.rules import ADAPTIVE
from privgram.adaptive.whitening import WhiteningTransform, _within, plain_transform, whiten
from privgram.disclosure.samplers import TableRounds
from privgram.mechanisms import AdaptiveGaussian


@pytest.mark.parametrize(("most", "size"), [(4.9, 3.0), (5.0, 2.0), (0.0, 3.0), (9.0, 1.0)])
def test_radius_is_the_least_that_so_many_rows_exceed_or_as_many(most, size):
    choice = choose_radius(np.array([1.0, 2.0, 3.0]), np.array([9.0, 5.0, 1.0]), most)
    assert choice.size == size


class Counted(AdaptiveRounds):
    """Rounds that count as many rows beyond each edge as they are told."""

    def __init__(self, n_rows=10_000):
        noise = AdaptiveGaussian().calibrate(3, 1.0, 1.0, 1e-6, "add-remove", n_rows=n_rows)
        super().__init__(SimpleNamespace(bound=1.0, columns=None), noise, True)

    take = number = mapped = None

    def count(self, frame, edges, share):
        self.edges = edges
        return self.of(edges)


Counted.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(("left", "by_noise"), [(1.0, True), (1e-4, False)])
def test_so_many_rows_are_longer_as_noise_stands_for_or_hides(left, by_noise):
    """Twenty for each unit of noise at a radius of 1, or two deviations of their number's noise."""
    one = Counted()
    stood_for = 20 * one.std_at(1.0, left)
    hidden = 2 * float(cumulative_std(9, one.ranked_std(9, 0.02))[0])
    frame = WhiteningTransform(np.eye(3), 0.5, 9.0)  # 8 bins for the factor of 2, and their end
    most = max(stood_for, hidden) if not by_noise else hidden
    for off, at in ((0.99, 0), (1.01, -1)):
        one.of = lambda edges, off=off: np.append(np.full(len(edges) - 1, off * most), 0.0)
        choice = one.choose(frame, 0.02, left)
        assert len(one.edges) == 9
        if by_noise:
            assert hidden > stood_for
        assert choice.size == pytest.approx(one.edges[at])


def test_one_round_is_the_average_of_two_by_their_shares():
    """Errors that cancel in it: eight hundredths of the first, and the rest of the second."""
    one, error = Counted(), np.arange(9.0).reshape(3, 3)
    one.take = lambda moment, share: np.eye(3) - error * 0.08 / share
    average, law = one.once(np.eye(3) + error, 0.92)
    np.testing.assert_allclose(average, np.eye(3), atol=1e-12)
    assert law.std == pytest.approx(one.noise.law.std)


@pytest.mark.parametrize(("rate", "rounds"), [(14.9, 1), (15.1, 4)])
def test_more_rounds_are_taken_from_fifteen_deviations_of_noise_on(rate, rounds):
    assert AdaptiveGaussian().rounds_worth(rate) == rounds


def test_law_of_the_last_round_allows_for_one_and_a_half_deviations_of_clipping():
    """Where the first round's noise is far larger, the last one is all."""
    frame = WhiteningTransform(2 * np.eye(2), 1.0, 9.0)
    rounds = SimpleNamespace(std=[1e9, 3.0], moment=SimpleNamespace(columns=None))
    released, law = _together(frame, np.zeros((2, 2)), 8 * np.eye(2), rounds)
    np.testing.assert_allclose(released, 2 * np.eye(2))
    variance = law.entry_variance(np.zeros((2, 2)), np.eye(2))
    assert variance[0, 1] == pytest.approx(3.0**2 * (1 + 1.5**2) / 4**2)


@pytest.mark.parametrize(
    ("each", "needed", "enough"),
    [([4.0, 1.0], 1.9, True), ([4.0, 1.0], 2.1, False), ([9.0, 0.9], 1.6, False)],
)
def test_frame_is_worth_it_on_the_whole_and_where_no_kind_of_column_loses(each, needed, enough):
    gains = Gains.__new__(Gains)
    gains._each = 2 * np.array(each)
    assert gains.are(2.0, needed) == enough


def test_means_by_level_bring_their_noise_into_the_numbers():
    """With levels of n rows each, noise of their sums over what the levels are lifted to."""
    columns = pg.Columns({"f": list("uv"), "x": (-1, 1), "z": (-1, 1)})
    frame = plain_transform(columns, 4, columns.bound, -1)
    [(start, size, entry)] = frame.levels
    counts, std = np.array([300.0, 700.0]), 5.0
    moment = np.diag([0.0, 0.0, 200.0, 100.0])
    moment[start : start + size, start : start + size] = np.diag(counts * entry**2)
    _, _, pulled = _within(moment, std, 1000.0, frame)
    lifted = counts * entry**2 + 2 * math.sqrt(4) * std
    assert pulled == pytest.approx(std**2 * (1 / lifted).sum())


def test_means_by_level_of_one_factor_need_no_eigenvectors():
    """What is far below the last digit of the moment has them computed: the same numbers."""
    columns = pg.Columns({"f": list("uvw"), "x": (-1, 1), "z": (-1, 1)})
    frame = plain_transform(columns, 5, columns.bound, -1)
    [(start, size, _)] = frame.levels
    root = np.random.default_rng(2).standard_normal((5, 5))
    moment, at = root @ root.T, slice(start, start + size)
    moment[at, at] = np.diag(moment[at, at].diagonal())
    near = moment.copy()
    near[start, start + 1] = near[start + 1, start] = 1e-30
    for one, other in zip(
        *(_within(each, 0.1, 9.0, frame) for each in (moment, near)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("gain", "rounds"), [(1.5, 1), (1.7, 2)])
def test_frame_that_gains_less_than_a_factor_of_1_6_is_not_looked_into(monkeypatch, gain, rounds):
    seen = []

    def are(_, square, needed):
        seen.append(needed)
        return gain >= needed

    monkeypatch.setattr(Gains, "are", are)
    monkeypatch.setattr(adaptive, "ADAPTIVE", replace(ADAPTIVE, clear_enough=(0.0, 0.0)))
    rng = np.random.default_rng(5)
    x = 0.3 + 0.1 * rng.standard_normal(4000)
    table = {"x": x, "y": 0.5 * x + 0.03 * rng.standard_normal(4000)}
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)}, intercept=True)
    options = {"mechanism": AdaptiveGaussian(), "rng": rng, "adjacency": "add-remove"}
    release = pg.release(table, columns, 2.0, 1e-6, **options)
    assert len(release.parameters["counts_mu"]) == rounds - 1
    assert seen[0] == 1.6


def test_target_has_a_sixth_of_the_squares():
    """Where its residual is longer for it; else it stays as whitening made it."""
    frame = WhiteningTransform(np.diag([3.0, 2.0]), 60.0, 9.0).towards(1)
    assert frame.stretch**2 == pytest.approx(60 / 6)
    assert frame.typical == pytest.approx(60 + 10 - 1)
    sizes = np.linalg.norm(frame.matrix, axis=1)
    np.testing.assert_allclose(np.sort(sizes), [3.0, 2 * math.sqrt(10)])
    assert WhiteningTransform(np.eye(2), 2.0, 9.0).towards(1).stretch == 1.0


@pytest.mark.parametrize(("part", "teaches"), [(0.99, True), (1.01, False)])
def test_noise_whose_eigenvalues_may_be_half_of_a_direction_teaches_nothing(part, teaches):
    """2 sqrt(d) of its deviation, beside as many rows as every direction has."""
    frame = WhiteningTransform(np.eye(4), 4.0, 9.0)
    assert frame.teaches(part * 0.5 * 1000 / (2 * math.sqrt(4)), 1000.0) == teaches


@pytest.mark.slow
def test_middle_round_reaches_to_twice_the_typical_length(monkeypatch):
    seen, real = [], TableRounds.mapped

    def mapped(rounds, frame, radius):
        seen.append((radius, frame.typical, frame.largest(rounds.moment.bound)))
        return real(rounds, frame, radius)

    monkeypatch.setattr(TableRounds, "mapped", mapped)
    monkeypatch.setattr(adaptive, "ADAPTIVE", replace(ADAPTIVE, clear_enough=(1e9, 0.0)))
    monkeypatch.setattr(Gains, "are", lambda *_: True)
    rng = np.random.default_rng(5)
    x = (0.3 + 0.1 * rng.standard_normal(4000)).clip(-1, 1)
    table = {"x": x, "y": (0.5 * x + 0.03 * rng.standard_normal(4000)).clip(-1, 1)}
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)}, intercept=True)
    options = {"mechanism": AdaptiveGaussian(), "rng": rng, "adjacency": "add-remove"}
    pg.release(table, columns, 2.0, 1e-6, **options)
    radius, typical, largest = seen[0]
    assert 4 * typical < largest
    assert radius == pytest.approx(2 * math.sqrt(typical))


def test_directions_that_are_seen_are_shorter_where_others_are_hidden():
    """Of the noise's floor, 2 sqrt(3) deviations, one has 100 times as much, and two have none."""
    std = 1.0
    floor = 2 * math.sqrt(3) * std
    moment = np.diag([100 * floor, 0.0, 0.0])
    plain, aimed = whiten(moment, std, 1000.0), whiten(moment, std, 1000.0, seen=0.5)
    hidden = 1000 / floor  # its square in the frame, were it of length 1 in the columns
    np.testing.assert_allclose(
        (aimed.matrix**2).sum(0), [0.5 * 1000 / (101 * floor), hidden, hidden]
    )
    np.testing.assert_allclose((plain.matrix**2).sum(0), [1000 / (101 * floor), hidden, hidden])
    assert aimed.typical == pytest.approx(plain.typical / 2)
    # Half of this one is noise, which makes it a half of its own, and another nine tenths.
    part = whiten(np.diag([floor, floor / 9, 0.0]), std, 1000.0, seen=0.75)
    squares = [750 / (2 * floor), 900 / (10 / 9 * floor), hidden]
    np.testing.assert_allclose((part.matrix**2).sum(0), squares)
