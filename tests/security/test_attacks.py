"""Known attacks win against naive floats and do not against privgram.

A victim is broken if the attack wins so many of 1000 games that any mechanism that keeps its
guarantee would lose as many with a probability below 1e-6 only; an attack with a rate of
success of 0.7 would be seen to with probability 0.99.
"""

import pytest
from security.attacks import (
    clip,
    edge_of_a_binade,
    exactly,
    low_bits,
    off_diagonal,
    play,
    power,
    rare_attributes,
    reachable,
    streamed,
    threshold,
    whole,
)

import privgram as pg

pytestmark = pytest.mark.slow

GAMES, ALARM = 1000, 1e-6


@pytest.fixture(scope="module")
def edge():
    return edge_of_a_binade()


def limits(game):
    assert power(GAMES, game.permitted, ALARM, 0.7) > 0.99
    return threshold(GAMES, game.permitted, ALARM)


def test_low_bits_of_naive_noise_tell_the_table():
    game = rare_attributes()
    assert game.permitted < 0.51
    assert play(game.naive(whole), low_bits(game), GAMES, seed=1) > 0.99 * GAMES


def test_low_bits_of_a_release_tell_nothing():
    game = rare_attributes()
    assert play(game.privgram(), low_bits(game), GAMES, seed=2) < limits(game)


def test_reachability_never_excludes_the_truth(rng):
    """The attack's own claim: what was released could be released."""
    noise = rng.normal(0.0, 11.5, 10_000)
    for value in (0.0, 1.0, 37.0):
        assert reachable(value + noise, value, 11.5).all()
    assert reachable(noise, 1.0, 11.5).mean() < 0.95


def test_sums_of_floats_move_by_more_than_a_row(edge):
    """By a factor of 60 here, and by the order of the rows alone by as much."""
    totals = [streamed(clip(table, edge.bound))[0, 1] for table in edge.tables]
    assert abs(totals[0] - totals[1]) > 32
    assert abs(totals[0] - streamed(clip(edge.tables[0], edge.bound)[::-1])[0, 1]) > 31
    assert play(edge.naive(streamed), off_diagonal(edge, streamed), GAMES, 3) > 0.99 * GAMES


def test_exact_sums_move_by_a_row_and_not_by_the_order(edge):
    moments = [pg.second_moment(table, bound=edge.bound) for table in edge.tables]
    (hi, lo), (other_hi, other_lo) = (moment.int128() for moment in moments)
    units = [
        [(int(a) - int(c)) * 2**64 + int(b) - int(d) for a, b, c, d in zip(*row, strict=True)]
        for row in zip(hi, lo, other_hi, other_lo, strict=True)
    ]
    assert sum(entry**2 for row in units for entry in row) <= 2 * 2**80
    backwards = pg.second_moment(edge.tables[0][::-1], bound=edge.bound)
    assert backwards.to_bytes() == moments[0].to_bytes()


def test_sums_of_a_release_tell_no_more_than_the_guarantee_permits(edge):
    attack = off_diagonal(edge, exactly)
    assert play(edge.privgram(), attack, GAMES, seed=4) < limits(edge)
