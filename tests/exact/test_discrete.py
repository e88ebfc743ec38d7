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

#: Power and parameter: variance or scale, on both sides of where the blocks' width changes.
LAWS = [
    *(
        (2, Fraction(*v))
        for v in ((1, 10**6), (1, 3), (5, 7), (1, 1), (100, 1), (255, 1), (1023, 1))
    ),
    *((2, Fraction(v)) for v in (256, 1024, 10**6 + Fraction(1, 3), 2**84 + Fraction(1, 3))),
    *((2, Fraction(4) ** k) for k in (67, 68, 69, 90)),
    (2, Fraction(4) ** 80 * 5 / 7),
    *(
        (1, Fraction(*t))
        for t in ((1, 50), (1, 2), (7, 1), (319, 10), (32, 1), (1000, 3), (2**40, 3))
    ),
    *((1, Fraction(2) ** k) for k in (68, 69, 90)),
]
IDS = [f"{'gaussian' if power == 2 else 'laplace'} {float(x):.4g}" for power, x in LAWS]
EVERY = pytest.mark.parametrize(("power", "parameter"), LAWS, ids=IDS)


def draw(power, parameter, size, rng):
    return (discrete.gaussian if power == 2 else discrete.laplace)(parameter, size, rng)


def integers(power, parameter, size, rng):
    return [int(y) for y in int128.to_integers(draw(power, parameter, size, rng))]


def check_twin(power, parameter, size, source):
    mine, twins = (Script(copy) for copy in itertools.tee(source))
    assert integers(power, parameter, size, mine) == oracle.draws(
        power, parameter, size, twins.word
    )
    assert mine.taken == twins.taken


@pytest.mark.slow
@EVERY
def test_twin_draws_the_same(power, parameter):
    check_twin(power, parameter, 1000, words(f"{power} {parameter}"))
    check_twin(power, parameter, 300, words("awkward", awkward_words(oracle.Law(power, parameter))))


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("margin", [2**40, 2**62])
def test_decimals_decide_the_same(power, parameter, margin, monkeypatch):
    monkeypatch.setattr(discrete, "MARGIN", margin)
    check_twin(power, parameter, 200, words("decimals"))


def test_words_beyond_the_first_decide_where_it_does_not():
    law = oracle.Law(2, Fraction(1024))
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
        assert (integers(2, Fraction(1024), 1, bits) == [7]) is accepted
        assert (bits.taken == len(source)) is accepted  # else a zero is drawn next
        check_twin(2, Fraction(1024), 5, source)


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_groups_beyond_the_table(zeros):
    """A tail's group is the number of zero bits before the first one, through words of zeros."""
    power, parameter = 1, Fraction(319, 10)
    chosen = 2 * sum(oracle.Law(power, parameter).weights[:-1])
    for within, bit in ((0, 0), (17, 3), (31, 58)):
        beyond = [within + 2**5 * 2**bit, 0] if not zeros else [within, *[0] * (zeros - 1), 2**bit]
        group = bit if not zeros else 59 + 64 * (zeros - 1) + bit
        source = [chosen, *beyond, 0] if zeros else [chosen, beyond[0], 0]
        assert integers(power, parameter, 1, Script(source)) == [256 + 32 * group + within]
        check_twin(power, parameter, 3, source)


def outcome(power, parameter, source):
    """What these words alone make, or None if they are not enough."""
    bits = Script(source)
    (y,) = integers(power, parameter, 1, bits)
    return y if bits.taken == len(source) else None


def check_law(power, parameter, n_blocks):
    """Enumerate the words that make each integer of the first blocks, and compare with the law.

    The probabilities are known to 2^-128 of words: there must be one constant C such that
    C e^-E(y) is within each of them.
    """
    law = oracle.Law(power, parameter)
    width = 2**law.shift
    least, most = Fraction(0), Fraction(2**128)
    for sign in (1, -1):
        bit = int(sign < 0)
        edge = 0
        for block in range(n_blocks):

            def below(u, block=block, bit=bit, sign=sign):
                offset = [2**64 - 1] * (law.shift > 0)
                y = outcome(power, parameter, [2 * u + bit, *offset, 0])
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
                    assert outcome(power, parameter, [*tries[0], 0]) is None
                    continue
                for trial in tries:
                    assert outcome(power, parameter, [*trial, 0]) == y
                number = first_false(
                    lambda v, trial=tries[0], y=y: outcome(power, parameter, [*trial, v]) == y,
                    2**64,
                )
                low, high = oracle.exp_interval(law.exponent(size), 256)
                least = max(least, Fraction((edge - start) * number * 2**256, high))
                most = min(most, Fraction((edge - start) * (number + 1) * 2**256, max(low, 1)))
                assert least < most, f"{y} has another probability"


ENUMERATED = [
    (2, Fraction(5, 7), 9),
    (2, Fraction(1024), 40),
    (2, Fraction(9 * 1024), 8),
    (1, Fraction(2), 30),
    (1, Fraction(100, 3), 40),
]


@pytest.mark.slow
@pytest.mark.parametrize(("power", "parameter", "n_blocks"), ENUMERATED)
def test_law_is_enumerated(power, parameter, n_blocks, monkeypatch):
    monkeypatch.setattr(discrete.draws, "Law", functools.cache(discrete.draws.Law))
    check_law(power, parameter, n_blocks)


def masses(power, parameter, most):
    """Probabilities of the integers from -most to most, in float64."""
    y = np.abs(np.arange(-most, most + 1.0))
    mass = np.exp(-(y**power) / (parameter if power == 1 else 2 * parameter))
    return mass / mass.sum()


def check_statistics(power, parameter, size, rng):
    """Chi-square of all integers that are frequent; mean and variance."""
    scale = float(parameter) ** (1 / power)
    most = math.ceil(12 * scale) if power == 2 else math.ceil(50 * scale)
    law = masses(power, float(parameter), most)
    counts = np.zeros(len(law), np.int64)
    for _ in range(size // 10**6):
        high, low = draw(power, parameter, 10**6, rng)
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


TESTED = [(2, Fraction(5, 7)), (2, Fraction(100)), (2, Fraction(1024)), (2, Fraction(10**5))]
TESTED += [(1, Fraction(1, 2)), (1, Fraction(100, 3))]


@pytest.mark.slow
@pytest.mark.parametrize(("power", "parameter"), TESTED)
def test_statistics(power, parameter):
    check_statistics(power, parameter, 10**6, np.random.Generator(ChaCha20(bytes(32))))


@pytest.mark.nightly
@pytest.mark.parametrize(("power", "parameter"), TESTED)
def test_statistics_of_many_draws(power, parameter):
    check_statistics(power, parameter, 10**8, np.random.Generator(ChaCha20(bytes(32))))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [42, 90])
def test_law_and_low_bits_of_large_noise(bits):
    rng = np.random.Generator(ChaCha20(bytes(32)))
    high, low = discrete.gaussian(Fraction(4) ** bits, 10**5, rng)
    y = int128.to_float(high, low) / 2.0**bits
    assert stats.kstest(y, "norm").pvalue > ALARM
    assert stats.chisquare(np.bincount(low % np.uint64(64))).pvalue > ALARM
    high, low = discrete.laplace(Fraction(2) ** bits, 10**5, rng)
    y = int128.to_float(high, low) / 2.0**bits
    assert stats.kstest(y, "laplace").pvalue > ALARM


ROUTES = {
    "twin": lambda *law: check_twin(*law, 2000, words("fault")),
    "enumeration": lambda *law: check_law(*law, 20),
    "statistics": lambda *law: check_statistics(
        *law, 10**6, np.random.Generator(ChaCha20(bytes(32)))
    ),
}

#: With blocks of two integers, and of four.
FAULTY = {"gaussian": (2, Fraction(1024)), "laplace": (1, Fraction(200, 3))}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("law", FAULTY)
def test_every_route_finds_a_fault(law, route, fault, compiled, monkeypatch):
    check_finds(fault, lambda: ROUTES[route](*FAULTY[law]), compiled, monkeypatch)


@pytest.mark.parametrize("function", [discrete.gaussian, discrete.laplace])
def test_scales_that_are_none_are_refused(function, rng):
    for scale in (0, -1, 2**181):
        with pytest.raises(ValueError, match="positive and at most"):
            function(Fraction(scale), 3, rng)


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
