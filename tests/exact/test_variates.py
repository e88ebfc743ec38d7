"""Normal and chi variates by three routes: a twin on the same words, their law, and statistics.

Each of them is shown faults, which it must find. Statistical tests have fixed seeds and fail a
correct sampler with a probability of 1e-6 under a seed drawn at random.
"""

import itertools
import shutil
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from oracle import discrete as oracle
from scipy import stats
from support.scripted import FAULTS, Script, awkward_words, check_finds, first_false, words

from privgram._core.draws import ChaCha20
from privgram.exact import discrete, int128, variates
from privgram.exact.variates import bartlett, normals
from privgram.papers.sheffet.drawing import laplace_step

ALARM = 1e-6
DOF = [1.0, 1 + 2.0**-30, 1.5, 2.0, 3.0, 20.25, 1e4, 1e9, 1e12]


def follows(values, law):
    return stats.kstest(np.ravel(values), law).pvalue > ALARM


def generator():
    return np.random.Generator(ChaCha20(bytes(32)))


def integers(whole):
    return [int(y) for y in int128.to_integers(whole)]


def chis(rng, size, dof):
    centre, whole, _ = variates.chis(rng, np.full(size, float(dof)))
    return centre + np.ldexp(int128.to_float(*whole), -discrete.NORMAL_PLACES)


def check_twin(size, source):
    mine, twins = (Script(copy) for copy in itertools.tee(source))
    whole, seen = discrete.normal(size, mine)
    law = oracle.Normal()
    drawn = [law.draw_real(twins.word) for _ in range(size)]
    assert integers(whole) == [y for y, _ in drawn]
    assert seen == {i: beyond for i, (_, beyond) in enumerate(drawn) if beyond}
    assert mine.taken == twins.taken


@pytest.mark.slow
def test_twin_draws_the_same_normals():
    check_twin(3000, words("normals"))
    check_twin(500, words("awkward", awkward_words(oracle.Normal())))


@pytest.mark.slow
@pytest.mark.parametrize("margin", [2**40, 2**62])
def test_decimals_decide_the_same_of_normals(margin, monkeypatch):
    monkeypatch.setattr(discrete, "MARGIN", margin)
    check_twin(300, words("decimals"))


def near_the_threshold(sign, nudges):
    """Words of a proposal in block 20 whose uniform number agrees with the threshold for a word.

    Between the thresholds of all that may follow the offset: further words decide.
    """
    law = oracle.Normal()
    offset = 2**62 + 12345
    size = 20 * 2**64 + offset
    share = Fraction(law.scale, law.weights[20])
    first = oracle.threshold(share, law.exponent(size + 1), 64)
    more = []
    for nudge in nudges:
        w = 2**63 + len(more)
        size = size * 2**64 + w
        bits = 128 + 64 * len(more) // 2
        least = oracle.threshold(share, law.exponent(size) / 2 ** (64 * (len(more) + 2)), bits)
        more += [w, (least + nudge) % 2**64]
    return [2 * sum(law.weights[:20]) + (sign < 0), offset, first, *more]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("nudge", [-(2**60), 2**60])
def test_words_beyond_the_first_decide_where_it_does_not(sign, nudge):
    source = near_the_threshold(sign, [nudge])
    whole, seen = discrete.normal(1, Script(source))
    accepted = nudge < 0
    y = 20 * 2**64 + source[1]
    if accepted:
        assert integers(whole) == [y if sign > 0 else -y - 1]
        assert seen == {0: [source[3] if sign > 0 else 2**64 - 1 - source[3]]}
    else:
        assert integers(whole) != [y if sign > 0 else -y - 1]
    check_twin(3, source)


@pytest.mark.slow
@pytest.mark.parametrize("rounding", [variates.DECISION_ROUNDING, 2.0**-12, 1.0])
@pytest.mark.parametrize("dof", DOF)
def test_twin_draws_the_same_chis(dof, rounding, monkeypatch):
    """Also where float64 leaves most, or all, to decimals."""
    monkeypatch.setattr(variates, "DECISION_ROUNDING", rounding)
    size = 60
    mine, twins = (Script(copy) for copy in itertools.tee(words(f"chi {dof}")))
    centre, whole, seen = variates.chis(mine, np.full(size, dof))
    drawn = oracle.chis([Fraction(dof)] * size, twins.word)
    assert [Fraction(c) for c in centre] == [c for c, _, _ in drawn]
    assert integers(whole) == [y for _, y, _ in drawn]
    assert seen == {i: beyond for i, (_, _, beyond) in enumerate(drawn) if beyond}
    assert mine.taken == twins.taken


def outcome(source):
    """What these words alone make of the first proposal, or None if they are not enough."""
    bits = Script(source)
    (y,) = integers(discrete.normal(1, bits)[0])
    return y if bits.taken == len(source) else None


def check_law(blocks):
    """At three places of each block, in both signs, the density is C e^-y^2/2 for one constant C.

    Of the words of the uniform number all below a threshold accept; those that need a further one
    are counted to both sides. So the density is known to some 2^-63 of itself.
    """
    law = oracle.Normal()
    least, most = Fraction(0), Fraction(2**200)
    for bit, block in itertools.product((0, 1), blocks):
        start = sum(law.weights[:block])
        for offset in (0, 2**63 - 3, 2**64 - 1):
            size = block * 2**64 + offset
            y = ~size if bit else size
            for u in (start, start + law.weights[block] - 1):
                assert outcome([2 * u + bit, offset, 0]) == y
            number = first_false(
                lambda v, at=(2 * start + bit, offset), y=y: outcome([*at, v]) == y, 2**64
            )
            ends = [oracle.exp_interval(law.exponent(size + k), 256) for k in (1, 0)]
            least = max(least, Fraction(law.weights[block] * number * 2**256, ends[1][1]))
            more = law.weights[block] * (number + 2) * 2**256
            most = min(most, Fraction(more, max(ends[0][0], 1)))
            assert least < most, f"{y} has another density"


@pytest.mark.slow
def test_law_of_normals_is_counted():
    check_law([*range(64), 100, 180])


def test_offset_of_zero_is_of_both_signs():
    """Unlike of a discrete zero, of which there is one."""
    assert outcome([0, 0, 0]) == 0
    assert outcome([1, 0, 0]) == -1


@pytest.mark.slow
@pytest.mark.parametrize("dof", [1.0, 1.5, 7.5, 1e4])
def test_law_of_chis_is_counted(dof):
    """Of the words that decide about a normal y, e^-T(y) in 2^64 accept it."""
    law = oracle.Normal()
    twin = oracle.Chi(Fraction(dof))
    for block, bit, offset in itertools.product((0, 3, 11, 20, 37), (0, 1), (5, 2**63)):
        normal = [2 * sum(law.weights[:block]) + bit, offset, 0]
        size = block * 2**64 + offset
        y = Fraction(~size if bit else size, 2**68)

        def accepted(v, normal=normal):
            bits = Script([*normal, v])
            variates.chis(bits, np.array([dof]))
            return bits.taken == len(normal) + 1

        number = first_false(accepted, 2**64)
        if twin.centre + y <= 0:
            assert number <= 1
            continue
        high, low = twin.exponent(y, 256)
        around = oracle.exp_interval(high, 64)[0], oracle.exp_interval(max(low, 0), 64)[1]
        # Words that decimals leave to a further word: T moves by the bits of y that are not seen.
        x, c = float(twin.centre + y), float(twin.centre)
        reach = 4 + c * (1 + abs(y)) + (dof - 1) * (1 + abs(np.log(x / c)) + (1 + abs(y)) / x)
        assert around[0] - int(reach) - 1 < number < around[1] + int(reach) + 1


#: Cells of equal probability.
CELLS = 1 << 12


def check_statistics(size, rng):
    """Chi-square of equally probable cells; the first four moments."""
    edges = stats.norm.ppf(np.arange(1, CELLS) / CELLS)
    counts, sums = np.zeros(CELLS, np.int64), np.zeros(4)
    for _ in range(size // 10**6):
        y = normals(rng, 1000, 1000).to_float().ravel()
        counts += np.bincount(np.searchsorted(edges, y), minlength=CELLS)
        sums += [(y**k).sum() for k in range(1, 5)]
    assert stats.chisquare(counts).pvalue > ALARM
    bound = -stats.norm.ppf(ALARM / 8)
    for k, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)]):
        assert abs(sums[k] / size - mean) < bound * np.sqrt(variance / size)


@pytest.mark.slow
def test_statistics():
    check_statistics(10**6, generator())


@pytest.mark.nightly
def test_statistics_of_many_draws():
    check_statistics(10**8, generator())


@pytest.mark.parametrize("dof", DOF)
def test_laws_of_chis(rng, dof):
    assert follows(chis(rng, 30_000, dof) ** 2, stats.chi2(dof).cdf)


@pytest.mark.nightly
@pytest.mark.parametrize("dof", [1.0, 2.5, 40.0, 1e6])
def test_laws_of_many_chis(dof):
    law, rng = stats.chi2(dof), generator()
    edges = law.ppf(np.arange(1, CELLS) / CELLS)
    counts = np.zeros(CELLS, np.int64)
    for _ in range(10):
        found = np.searchsorted(edges, chis(rng, 10**6, dof) ** 2)
        counts += np.bincount(found, minlength=CELLS)
    assert stats.chisquare(counts).pvalue > ALARM


def test_bartlett(rng):
    d, dof = 200, 210.5
    a = bartlett(rng, dof, d)
    for matrix in (a.to_float(), *a.parts(2.0**-150)):
        assert not np.triu(matrix, 1).any()
    assert follows(a.to_float()[np.tril_indices(d, -1)], "norm")
    squares = np.diagonal(a.to_float()) ** 2
    assert follows(stats.chi2(dof - np.arange(d)).cdf(squares), "uniform")


def test_laplace(rng):
    location, scale, step = -3.3, 2.0, 0.75
    counts = np.array([laplace_step(rng, location, scale, step) for _ in range(2000)])
    edges = (np.arange(-12, 5) - 0.5) * step
    inside = np.diff(stats.laplace.cdf([-np.inf, *edges, np.inf], location, scale))
    observed = np.bincount(np.searchsorted(edges, counts * step), minlength=len(inside))
    assert stats.chisquare(observed, inside * len(counts)).pvalue > ALARM


ROUTES = {
    "twin": lambda: check_twin(2000, words("fault")),
    "counting": lambda: check_law(range(24)),
    "statistics": lambda: check_statistics(10**6, generator()),
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "zero twice"])
def test_every_route_finds_a_fault(route, fault, compiled, monkeypatch):
    check_finds(fault, ROUTES[route], compiled, monkeypatch)


CHI_FAULTS = {
    "a biased Bernoulli": lambda y, m, c, log: (c * y - (m - 2) * log((c + y) / c), 1 + abs(y)),
    "a dropped retry": lambda y, m, c, log: (0 * y, 1 + abs(y)),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", CHI_FAULTS)
@pytest.mark.parametrize(
    "route",
    [
        lambda patch: test_twin_draws_the_same_chis(7.5, variates.DECISION_ROUNDING, patch),
        lambda _: test_law_of_chis_is_counted(7.5),
        lambda _: test_laws_of_chis(generator(), 7.5),
    ],
    ids=["twin", "counting", "statistics"],
)
def test_every_route_finds_a_fault_of_chis(route, fault, monkeypatch):
    route(monkeypatch)
    monkeypatch.setattr(variates, "_threshold", CHI_FAULTS[fault])
    with pytest.raises(AssertionError):
        route(monkeypatch)


def exact(parts):
    return sum(np.vectorize(Fraction)(part) for part in parts)


@pytest.mark.parametrize("make", [normals, lambda rng, d, _: bartlett(rng, d + 0.5, d)])
def test_more_digits_of_the_same_numbers(rng, make):
    draws = make(rng, 12, 12)
    few, many = (exact(draws.parts(error)) for error in (2.0**-60, 2.0**-300))
    assert ((many >= few) & (many < few + Fraction(1, 2**60))).all()
    there = np.tri(12, dtype=bool) if not few[0, -1] else np.ones((12, 12), bool)
    fraction = ((many - few) * 2**68)[there]
    assert follows(fraction.astype(float), "uniform")
    assert (many[there] != 0).all()
    assert not (many[~there] != 0).any()
    nearest = draws.to_float()
    off = np.abs(np.vectorize(Fraction)(nearest) - many)
    assert (
        off <= np.abs(many) * Fraction(variates.RELATIVE_ERROR) + Fraction(variates.ABSOLUTE_ERROR)
    ).all()


def test_floats_are_near_where_centres_cancel(rng):
    """A chi variate of next to nothing, as no one will ever draw it."""
    y = -(300 * 2**68) + 2**30 + 1
    whole = np.array([y >> 64], np.int64), np.array([y % 2**64], np.uint64)
    draws = variates.Variates((1, 1), np.array([300.0]), whole, {}, rng)
    value = exact(draws.parts(2.0**-100))[0, 0]
    assert 0 < value < Fraction(1, 2**37)
    assert abs(Fraction(draws.to_float()[0, 0]) - value) <= Fraction(variates.ABSOLUTE_ERROR)


@pytest.mark.parametrize("make", [normals, lambda rng, d, _: bartlett(rng, d + 0.5, d)])
def test_part_has_the_digits_of_the_whole(rng, make):
    """By the words of all, and by those of its own blocks of the stream; what was seen, too."""
    draws = make(rng, 60, 60)
    rows, columns = np.array([1, 40, 58]), np.array([0, 2, 33])
    draws._seen |= {int(draws.part(rows, columns)._numbers[1]): [1, 2], 7: [3]}
    square = np.ix_(rows, columns)
    for where, chosen in (((rows, columns), square), ((np.arange(60),), np.s_[:])):
        part = draws.part(*where)
        for error in (2.0**-60, 2.0**-100, 2.0**-200):
            for one, other in zip(part.parts(error), draws.parts(error), strict=True):
                np.testing.assert_array_equal(one, other[chosen])
    close = draws.part(rows, columns).to_float() - draws.to_float()[square]
    assert np.abs(close).max() < 1e-14
    # No two words of the stream are one.
    words = np.array([draws._word(k) for k in range(3)])
    assert len(np.unique(words)) == words.size


def test_words_that_decided_are_kept(rng):
    """A decision that had to see three words: these, and no others, are the number's."""
    source = near_the_threshold(-1, [-(2**60)])
    whole, seen = discrete.normal(1, Script(source))
    draws = variates.Variates((1, 1), None, whole, seen, rng)
    y = exact(draws.parts(2.0**-250))[0, 0]
    follow = (Fraction(y) * 2**68 - int(int128.to_integers(whole)[0])) * 2**64
    assert follow // 1 == seen[0][0] == 2**64 - 1 - source[3]


def excess(y, v, chi):
    """``-ln V - T(y)`` by mpmath, from densities: log(target / (bound proposed V))."""
    m, c = map(mpmath.mpf, chi)
    x = c + y
    if x <= 0:
        return -mpmath.inf

    def density(x):
        return x ** (m - 1) * mpmath.exp(-(x**2) / 2)

    ratio = density(x) / density(c) / mpmath.exp(-(y**2) / 2)
    return mpmath.log(ratio * mpmath.exp(-mpmath.mpf(variates.MODE_FLOOR))) - mpmath.log(v)


@pytest.mark.parametrize("dof", [1.0, 1.25, 2.0, 50.5, 1e6, 1e12])
def test_error_of_float64_is_bounded(rng, dof):
    n = 100
    whole, _ = discrete.normal(n, rng)
    first = rng.bit_generator.random_raw(n) >> rng.integers(0, 40, n).astype(np.uint64)
    centre = variates.chis(rng, np.full(n, dof))[0]
    value, doubt = variates._excess(whole, first, np.full(n, dof), centre)
    assert np.median(doubt) < 1e-6 + 1e-13 * dof
    with mpmath.workprec(200):
        for i, y in enumerate(integers(whole)):
            # Words that follow can be any.
            for more_y, more_v in itertools.product((0, 1), (2.0**-60, 1)):
                number = (mpmath.mpf(y) + more_y) / 2**68
                seen = (mpmath.mpf(int(first[i])) + more_v) / 2**64
                true = excess(number, seen, (dof, centre[i]))
                if np.isfinite(doubt[i]):
                    off = abs(true - value[i])
                    assert off <= doubt[i] or (true == -mpmath.inf and value[i] < 0)


def test_acceptance_is_no_more_than_one():
    """T >= 0 for every centre, also where the mode is far below or above it."""
    with mpmath.workprec(200):
        for m in [1, 1 + 1e-14, 1 + 1e-12, 1.0001, 1.5, 2, 7.3, 1e3, 1e9 + 0.5, 2.0**60]:
            centre, _, _ = variates.chis(np.random.default_rng(0), np.array([float(m)]))
            c, m = mpmath.mpf(centre[0]), mpmath.mpf(m)
            y = (m - 1) / c - c  # the least of c y - (m - 1) ln(1 + y/c)
            least = c * y - (m - 1) * mpmath.log((m - 1) / c**2) if m > 1 else c * y
            assert least + variates.MODE_FLOOR >= 0


def test_logarithm(rng):
    x = np.exp(np.concatenate([rng.uniform(-700, 700, 300), rng.uniform(-0.4, 0.4, 300)]))
    x = np.append(x, [2.0**-64, 0.5, 1.0, np.sqrt(0.5), np.nextafter(np.sqrt(0.5), 0)])
    logs = variates._log(x)
    with mpmath.workprec(100):
        for one, log in zip(x, logs, strict=True):
            true = mpmath.log(mpmath.mpf(one))
            assert abs(log - true) <= 2.0**-49 * (1 + abs(true))


def test_extreme_words():
    """V = 0, and a chi at the edge of its range, are no errors: more words decide."""
    first = np.array([0, 2**63, 2**63], np.uint64)
    whole = (np.array([1, -(2**4), -17], np.int64), np.array([0, 0, 5], np.uint64))
    m, c = np.full(3, 2.0), np.full(3, 1.0)
    value, doubt = variates._excess(whole, first, m, c)
    assert np.isinf(doubt[:2]).all()
    assert value[2] < -doubt[2]
    for y, v in zip(integers(whole), first, strict=True):
        script = Script(words("extreme"))
        variates._accepts(script, y, [], int(v), variates.Decimal(2), variates.Decimal(1))
