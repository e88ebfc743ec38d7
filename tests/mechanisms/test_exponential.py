"""The exponential mechanism's draws, by following every random integer they can meet."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privgram.exact import choice
from privgram.exact.choice import bernoulli_exp, exponential_mechanism, randbelow


class _Undecided(Exception):
    def __init__(self, stop):
        self.stop = stop


def law(monkeypatch, program, least):
    """Exact probabilities of a program's results; paths less likely than `least` are cut off.

    The program is run on every sequence of random integers, each weighted by how likely
    it is: no rounding and no luck.
    """
    script: list[int] = []
    position = 0

    def scripted(stop, rng):
        nonlocal position
        if position == len(script):
            raise _Undecided(stop)
        position += 1
        return script[position - 1]

    monkeypatch.setattr(choice, "randbelow", scripted)
    found: dict[object, Fraction] = {}
    todo = [((), Fraction(1))]
    while todo:
        path, weight = todo.pop()
        if weight < least:
            continue
        script[:], position = path, 0
        try:
            result = program()
        except _Undecided as more:
            todo += [((*path, i), weight / more.stop) for i in range(more.stop)]
        else:
            found[result] = found.get(result, Fraction(0)) + weight
    return found


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 2), Fraction(2, 3), Fraction(1)])
def test_bernoulli_has_the_exponential_series(monkeypatch, exponent):
    found = law(monkeypatch, lambda: bernoulli_exp(exponent, None), Fraction(1, 20_000))
    missing = 1 - sum(found.values())
    assert missing < 0.01
    heads = float(found.get(True, 0))
    assert heads - 1e-12 <= math.exp(-exponent) <= heads + missing + 1e-12


def test_bernoulli_of_more_than_one_is_a_product(monkeypatch):
    calls = []

    def one(exponent, rng):
        calls.append(exponent)
        return True

    monkeypatch.setattr(choice, "_bernoulli_exp_of_one_or_less", one)
    assert bernoulli_exp(Fraction(7, 2), None)
    assert calls == [1, 1, 1, Fraction(1, 2)]


def test_choice_has_the_law_of_the_exponential_mechanism(monkeypatch):
    losses, rate = [4, 3, 5], Fraction(1, 2)
    found = law(monkeypatch, lambda: exponential_mechanism(losses, rate, None), Fraction(1, 30_000))
    missing = 1 - sum(found.values())
    assert missing < 0.2
    weights = np.exp([-0.5 * loss for loss in losses])
    # What is cut off spreads over all results: none can be below what was found.
    for index, share in enumerate(weights / weights.sum()):
        assert float(found[index]) <= share <= float(found[index] + missing)
        assert float(found[index] / sum(found.values())) == pytest.approx(share, abs=0.02)


@pytest.mark.slow
def test_choice_by_drawing(rng):
    """Chi-squared with a false alarm in 10^6."""
    losses, rate = [0, 7, 2, 30, 2, 11], Fraction(0.3)
    draws = [exponential_mechanism(losses, rate, rng) for _ in range(8_000)]
    weights = np.exp(-0.3 * np.array(losses))
    expected = 8_000 * weights / weights.sum()
    observed = np.bincount(draws, minlength=6)
    keep = expected > 5
    statistic = ((observed - expected) ** 2 / expected)[keep].sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-6
    assert observed[~keep].sum() < 30


@pytest.mark.parametrize("stop", [1, 2, 3, 255, 256, 257, 2**70 + 1])
def test_randbelow_is_uniform(rng, stop):
    """Every residue of a wide range, by a chi-squared with a false alarm in 10^6."""
    draws = [randbelow(stop, rng) for _ in range(6000)]
    assert 0 <= min(draws) <= max(draws) < stop
    bins = min(stop, 3)
    observed = np.bincount([draw * bins // stop for draw in draws], minlength=bins)
    sizes = np.diff([-(-i * stop // bins) for i in range(bins + 1)])
    expected = 6000 * np.array([size / stop for size in sizes])
    if bins > 1:
        assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_certain_choice(rng):
    assert {exponential_mechanism([10**12, 0, 10**12], Fraction(1), rng) for _ in range(50)} == {1}
    assert exponential_mechanism([5], Fraction(1), rng) == 0
