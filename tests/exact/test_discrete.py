"""Discrete noise by three routes: a twin on the same words, its whole output law, and statistics.

Each of them is shown faults in the C, which it must find. Statistical tests have fixed seeds and
fail a correct sampler with a probability of 1e-6 under a seed drawn at random.
"""

import functools
import itertools
import math
import random
import shutil
from fractions import Fraction

import numpy as np
import pytest
from oracle import discrete as oracle
from scipy import stats
from support.helpers import refuses
from support.scripted import FAULTS, Script, awkward_words, check_finds, first_false, words

from privgram._core.draws import ChaCha20
from privgram.exact import discrete, int128

ALARM = 1e-6

#: Variances on both sides of where the blocks' width changes.
LAWS = [
    *(Fraction(*v) for v in ((1, 10**6), (1, 3), (5, 7), (1, 1), (100, 1), (255, 1), (1023, 1))),
    *(Fraction(v) for v in (256, 1024, 10**6 + Fraction(1, 3), 2**84 + Fraction(1, 3))),
    *(Fraction(4) ** k for k in (67, 68, 69, 90)),
    Fraction(4) ** 80 * 5 / 7,
]
EVERY = pytest.mark.parametrize("variance", LAWS, ids=[f"{float(x):.4g}" for x in LAWS])


def integers(variance, size, rng):
    return [int(y) for y in int128.to_integers(discrete.gaussian(variance, size, rng))]


def check_twin(variance, size, source):
    mine, twins = (Script(copy) for copy in itertools.tee(source))
    assert integers(variance, size, mine) == oracle.draws(variance, size, twins.word)
    assert mine.taken == twins.taken


@pytest.mark.slow
@EVERY
def test_twin_draws_the_same(variance):
    check_twin(variance, 1000, words(f"{variance}"))
    check_twin(variance, 300, words("awkward", awkward_words(oracle.Law(variance))))


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("margin", [2**40, 2**62])
def test_decimals_decide_the_same(variance, margin, monkeypatch):
    monkeypatch.setattr(discrete, "MARGIN", margin)
    check_twin(variance, 200, words("decimals"))


def test_words_beyond_the_first_decide_where_it_does_not():
    law = oracle.Law(Fraction(1024))
    share = Fraction(law.scale, law.weights[3])
    first, second, third = (
        oracle.threshold(share, law.exponent(7), 64 * k) % 2**64 for k in (1, 2, 3)
    )
    chosen, offset = 2 * sum(law.weights[:3]), 2**63  # 7 = 3 * 2 + 1
    for more, accepted in (
        ([second - 1], True),
        ([second + 1], False),
        ([second, third - 1], True),
        ([second, third + 1], False),
    ):
        source = [chosen, offset, first, *more]
        bits = Script(source)
        assert (integers(Fraction(1024), 1, bits) == [7]) is accepted
        assert (bits.taken == len(source)) is accepted  # else a zero is drawn next
        check_twin(Fraction(1024), 5, source)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_groups_beyond_the_table(zeros):
    """A tail's group is the number of zero bits before the first one, through words of zeros."""
    for within, bit in ((0, 0), (17, 3), (31, 58)):
        source = [within, *[0] * (zeros - 1), 2**bit] if zeros else [within + 2**5 * 2**bit]
        group = bit if not zeros else 59 + 64 * (zeros - 1) + bit
        assert discrete._tail(iter(source).__next__) == (32 * group + within, 2 ** (group + 6))
    variance = Fraction(1024)
    chosen = 2 * sum(oracle.Law(variance).weights[:-1])
    check_twin(variance, 3, [chosen, 17 + 2**5, 0, 0])


def outcome(variance, source):
    """What these words alone make, or None if they are not enough."""
    bits = Script(source)
    (y,) = integers(variance, 1, bits)
    return y if bits.taken == len(source) else None


def check_law(variance, n_blocks):
    """Enumerate the words that make each integer of the first blocks, and compare with the law.

    The probabilities are known to 2^-128 of words: there must be one constant C such that
    C e^-E(y) is within each of them.
    """
    law = oracle.Law(variance)
    width = 2**law.shift
    least, most = Fraction(0), Fraction(2**128)
    for sign in (1, -1):
        bit = int(sign < 0)
        edge = 0
        for block in range(n_blocks):

            def below(u, block=block, bit=bit, sign=sign):
                offset = [2**64 - 1] * (law.shift > 0)
                y = outcome(variance, [2 * u + bit, *offset, 0])
                if y is None:  # a zero that is negative, or beyond all blocks
                    return u < 2**63 // 100 * 99
                assert y * sign >= 0
                return abs(y) < (block + 1) * width

            start, edge = edge, first_false(below, 2**63)
            for offset in range(width):
                size = block * width + offset
                found = [2**64 // width * offset, 2**64 // width * (offset + 1) - 1]
                tries = [[2 * (edge - 1) + bit, *[w] * (width > 1)] for w in found]
                y = size * sign
                if sign < 0 and not size:
                    assert outcome(variance, [*tries[0], 0]) is None
                    continue
                for trial in tries:
                    assert outcome(variance, [*trial, 0]) == y
                number = first_false(
                    lambda v, trial=tries[0], y=y: outcome(variance, [*trial, v]) == y,
                    2**64,
                )
                low, high = oracle.exp_interval(law.exponent(size), 256)
                least = max(least, Fraction((edge - start) * number * 2**256, high))
                most = min(most, Fraction((edge - start) * (number + 1) * 2**256, max(low, 1)))
                assert least < most, f"{y} has another probability"


ENUMERATED = [(Fraction(5, 7), 9), (Fraction(1024), 40), (Fraction(9 * 1024), 8)]


@pytest.mark.slow
@pytest.mark.parametrize(("variance", "n_blocks"), ENUMERATED)
def test_law_is_enumerated(variance, n_blocks, monkeypatch):
    monkeypatch.setattr(discrete.draws, "Law", functools.cache(discrete.draws.Law))
    check_law(variance, n_blocks)


def masses(variance, most):
    """Probabilities of the integers from -most to most, in float64."""
    y = np.abs(np.arange(-most, most + 1.0))
    mass = np.exp(-(y**2) / (2 * variance))
    return mass / mass.sum()


def check_statistics(variance, size, rng):
    """Chi-square of all integers that are frequent; mean and variance."""
    most = math.ceil(12 * math.sqrt(variance))
    law = masses(float(variance), most)
    counts = np.zeros(len(law), np.int64)
    for _ in range(size // 10**6):
        high, low = discrete.gaussian(variance, 10**6, rng)
        y = low.view(np.int64)
        np.testing.assert_array_equal(high, y >> 63)
        counts += np.bincount(y + most, minlength=len(law))
    frequent = law * size > 20
    observed = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(law[frequent], law[~frequent].sum()) * size
    if expected[-1] < 20:
        observed, expected = (np.append(x[1:-1], x[0] + x[-1]) for x in (observed, expected))
    assert stats.chisquare(observed, expected * (size / expected.sum())).pvalue > ALARM
    values = np.arange(-most, most + 1.0)
    moments = [np.sum(law * values**k) for k in range(5)]
    bound = -stats.norm.ppf(ALARM / 4)
    for k in (1, 2):
        spread = math.sqrt((moments[2 * k] - moments[k] ** 2) / size)
        assert abs(np.sum(counts * values**k) / size - moments[k]) < bound * spread


TESTED = [Fraction(5, 7), Fraction(100), Fraction(1024), Fraction(10**5)]


@pytest.mark.slow
@pytest.mark.parametrize("variance", TESTED)
def test_statistics(variance):
    check_statistics(variance, 10**6, np.random.Generator(ChaCha20(bytes(32))))


@pytest.mark.nightly
@pytest.mark.parametrize("variance", TESTED)
def test_statistics_of_many_draws(variance):
    check_statistics(variance, 10**8, np.random.Generator(ChaCha20(bytes(32))))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [42, 90])
def test_law_and_low_bits_of_large_noise(bits):
    rng = np.random.Generator(ChaCha20(bytes(32)))
    high, low = discrete.gaussian(Fraction(4) ** bits, 10**5, rng)
    y = int128.to_float(high, low) / 2.0**bits
    assert stats.kstest(y, "norm").pvalue > ALARM
    assert stats.chisquare(np.bincount(low % np.uint64(64))).pvalue > ALARM


ROUTES = {
    "twin": lambda law: check_twin(law, 2000, words("fault")),
    "enumeration": lambda law: check_law(law, 20),
    "statistics": lambda law: check_statistics(
        law, 10**6, np.random.Generator(ChaCha20(bytes(32)))
    ),
}

#: With blocks of two integers.
FAULTY = Fraction(1024)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_route_finds_a_fault(route, fault, compiled, monkeypatch):
    check_finds(fault, lambda: ROUTES[route](FAULTY), compiled, monkeypatch)


def test_variances_that_are_none_are_refused(rng):
    for variance in (0, -1, 2**181):
        with pytest.raises(ValueError, match="positive and at most"):
            discrete.gaussian(Fraction(variance), 3, rng)


def test_of_any_bit_generator_and_of_nothing(rng):
    for bits in (np.random.PCG64(1), np.random.MT19937(1), ChaCha20(bytes(32))):
        high, low = discrete.gaussian(Fraction(10), 1000, np.random.Generator(bits))
        assert 2 < low.view(np.int64).std() < 4
        assert set(high) == {0, -1}
    assert [len(part) for part in discrete.gaussian(Fraction(10), 0, rng)] == [0, 0]
    refuses(lambda: discrete.draws.Words(rng), TypeError, "NumPy bit generator")


def test_floor_of_exp_is_exact():
    source = random.Random(1)
    for _ in range(300):
        exponent = Fraction(source.getrandbits(80), source.getrandbits(60) + 1) / 2**16
        share = Fraction(source.getrandbits(60) + 1, 2**60)
        bits = source.choice([64, 127, 300])
        assert discrete.floor_of_exp(exponent, share, bits) == oracle.threshold(
            share, exponent, bits
        )
    assert discrete.floor_of_exp(Fraction(10**30), Fraction(1), 127) == 0
