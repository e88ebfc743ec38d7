"""Exact variates: their laws, and each decision against mpmath.

Kolmogorov-Smirnov tests have a fixed seed and fail with a probability of 1e-6 by chance.
"""

from decimal import Decimal

import mpmath
import numpy as np
import pytest
from scipy import stats

from privgram.exact import variates
from privgram.exact.variates import bartlett, laplace_step, normals

ALARM = 1e-6


def follows(values, law):
    return stats.kstest(np.ravel(values), law).pvalue > ALARM


def drawn(rng, size, dof):
    parts, _ = variates._draw(rng, size, np.full(size, float(dof)))
    return sum(parts)


class Words:
    """A generator that gives these numbers, and then others."""

    def __init__(self, words, rng):
        self.words, self.rng = list(words), rng

    def random(self, size=None):
        if size is None:
            return self.words.pop(0) if self.words else self.rng.random()
        return np.array([self.random() for _ in range(np.prod(size))]).reshape(size)


# --- Laws --------------------------------------------------------------------------


def test_normals(rng):
    assert follows(normals(rng, 300, 500).to_float(), "norm")
    # Few together are drawn by other rounds.
    assert follows([normals(rng, 2, 3).to_float() for _ in range(1000)], "norm")


@pytest.mark.parametrize("dof", [1.0, 1 + 1e-9, 1.5, 2.0, 3.0, 20.25, 1e4, 1e9])
def test_chis(rng, dof):
    assert follows(drawn(rng, 30_000, dof) ** 2, stats.chi2(dof).cdf)


@pytest.mark.slow
@pytest.mark.parametrize("dof", [None, 1.0, 7.5])
def test_laws_where_decimals_decide(rng, monkeypatch, dof):
    """The same laws where float64 leaves all to decimals, also of the words they have seen."""
    monkeypatch.setattr(variates, "DECISION_ROUNDING", 1.0)
    size = 400
    if dof is not None:
        assert follows(drawn(rng, size, dof) ** 2, stats.chi2(dof).cdf)
        return
    draws = normals(rng, 20, 20)
    assert follows(draws.to_float(), "norm")
    assert len(draws._seen) == size
    for words in (2, 3):
        u = np.abs(draws.parts(2.0 ** (-53 * words))[words + 1]) * 2.0 ** (53 * (words - 1))
        assert follows(u, "uniform")


def test_bartlett(rng):
    d, dof = 200, 210.5
    a = bartlett(rng, dof, d)
    for matrix in (a.to_float(), *a.parts(2.0**-100)):
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


# --- Digits ------------------------------------------------------------------------


def test_more_digits_of_the_same_numbers(rng):
    draws = normals(rng, 30, 30)
    few = draws.parts(2.0**-60)
    many = draws.parts(2.0**-200)
    assert len(few) == 4
    assert len(many) == 6
    for one, other in zip(few, many, strict=False):
        np.testing.assert_array_equal(one, other)
    sign = np.copysign(1.0, many[2])
    for place, part in enumerate(many[2:]):
        u = np.ldexp(part * sign, 53 * place)
        assert (np.copysign(1.0, part) == sign).all()
        assert (u == np.ldexp(np.rint(np.ldexp(u, 53)), -53)).all()
        if place:  # the first word of a normal is not uniform
            assert follows(u, "uniform")
    assert set(np.unique(many[0])) == {0.0}


def test_words_that_decided_are_kept(rng):
    """A decision that had to see five words: these, and no others, are the number's."""
    draws = normals(rng, 2, 2)
    draws._seen = {2: [0.0, 0.25, 0.5, 0.75, 0.125]}
    parts = draws.parts(2.0**-300)
    words = [abs(part[1, 0]) * 2.0 ** (53 * place) for place, part in enumerate(parts[2:])]
    assert words[1:5] == [0.25, 0.5, 0.75, 0.125]
    assert words[5] not in (0.0, 0.125)


# --- Decisions ---------------------------------------------------------------------


def excess(k, sign, u, v, chi):
    """``-ln V - T(y)`` by mpmath, from densities: log(target / (bound proposed V))."""
    y = sign * (mpmath.mpf(k) + u)
    half = mpmath.mpf(1) / 2
    ratio = mpmath.exp(-(y**2) / 2) * 2 ** mpmath.mpf(k) / (2 * mpmath.exp(-half))
    if chi is not None:
        m, c = map(mpmath.mpf, chi)
        x = c + y
        if x <= 0:
            return -mpmath.inf

        def density(x):
            return x ** (m - 1) * mpmath.exp(-(x**2) / 2)

        ratio = density(x) / density(c) * 2 ** mpmath.mpf(k) / (2 * mpmath.exp(-half))
        ratio *= mpmath.exp(-mpmath.mpf(variates.MODE_FLOOR))
    return mpmath.log(ratio) - mpmath.log(v)


@pytest.mark.parametrize("dof", [None, 1.0, 1.25, 2.0, 50.5, 1e6, 1e12])
def test_the_error_of_float64_is_bounded(rng, dof):
    n = 100
    k, sign = rng.integers(0, 4, n).astype(float), rng.choice([-1.0, 1.0], n)
    u, v = rng.random(n), rng.random(n) ** 4
    chi = None
    if dof is not None:
        parts, _ = variates._draw(rng, n, np.full(n, dof))
        chi = np.full(n, dof), parts[0]
    value, doubt = variates._float_excess(k, sign, u, v, chi)
    assert np.median(doubt) < 1e-8 + 1e-13 * (dof or 0)
    with mpmath.workprec(200):
        for i in range(n):
            one = None if chi is None else (chi[0][i], chi[1][i])
            # Words that follow can be any.
            for more_u in (0, 2.0**-53):
                for more_v in (2.0**-100, 2.0**-53):
                    exact = excess(k[i], sign[i], u[i] + mpmath.mpf(more_u), v[i] + more_v, one)
                    if np.isfinite(doubt[i]):
                        off = abs(exact - value[i])
                        assert off <= doubt[i] or (exact == -mpmath.inf and value[i] < 0)


@pytest.mark.parametrize("chi", [None, (1.0, 2.0**-20), (2.0, 1.0), (7.5, 2.5), (1e12, 1e6)])
def test_decimals_decide_as_mpmath(rng, chi):
    """Where the first word of V agrees with the boundary in all bits."""
    one = None if chi is None else tuple(map(Decimal, chi))
    for nudge in (-1, 1) * 10:
        k, u, more = 0.0, float(rng.random()), rng.random(4)
        with mpmath.workprec(400):
            value = sum(mpmath.mpf(w) / 2 ** (53 * i) for i, w in enumerate([u, *more]))
            boundary = mpmath.exp(excess(k, 1.0, value, mpmath.mpf(1), chi))
            target, deciding = boundary + nudge * mpmath.mpf(2) ** -120, []
            for _ in range(5):
                word = mpmath.floor(target * 2**53) / 2**53
                deciding.append(float(word))
                target = (target - word) * 2**53
        given = [w for pair in zip(more, deciding[1:], strict=True) for w in pair]
        words = [u]
        accepts = variates._decimal_accepts(Words(given, rng), k, 1.0, words, deciding[0], one)
        assert accepts == (nudge < 0)
        assert 3 <= len(words) <= 5
        assert words[1:] == list(more[: len(words) - 1])


def test_acceptance_is_no_more_than_one():
    """T >= 0 for every centre, also where the mode is far below or above it."""
    with mpmath.workprec(200):
        for m in [1, 1 + 1e-14, 1 + 1e-12, 1.0001, 1.5, 2, 7.3, 1e3, 1e9 + 0.5, 2.0**60]:
            parts, _ = variates._draw(np.random.default_rng(0), 1, np.array([float(m)]))
            c, m = mpmath.mpf(parts[0][0]), mpmath.mpf(m)
            y = (m - 1) / c - c  # the least of c y - (m - 1) ln(1 + y/c)
            least = c * y - (m - 1) * mpmath.log((m - 1) / c**2) if m > 1 else c * y
            assert least + variates.MODE_FLOOR >= 0
        for k in range(4):
            assert k**2 / 2 + (1 - k) * mpmath.log(2) - 0.5 >= 0


def test_logarithm(rng):
    x = np.exp(np.concatenate([rng.uniform(-700, 700, 300), rng.uniform(-0.4, 0.4, 300)]))
    x = np.append(x, [2.0**-53, 0.5, 1.0, np.sqrt(0.5), np.nextafter(np.sqrt(0.5), 0)])
    logs = variates._log(x)
    with mpmath.workprec(100):
        for one, log in zip(x, logs, strict=True):
            exact = mpmath.log(mpmath.mpf(one))
            assert abs(log - exact) <= 2.0**-49 * (1 + abs(exact))


def test_zeros_go_on_beyond_a_word(rng):
    given = [0.5, 0.25, 0.0, 1 - 2.0**-53, 2.0**-53, 0.0, 0.125]
    zeros = variates._geometric(Words(given, rng), 5)
    np.testing.assert_array_equal(zeros, [0, 1, 53 + 53 + 2, 0, 52])


def test_extreme_words(rng):
    """V = 0, and a chi at the edge of its range, are no errors: more words decide."""
    chi = (np.array([2.0]), np.array([1.0]))
    for k, sign, u, v in [
        (0.0, 1.0, 0.5, 0.0),
        (1.0, -1.0, 0.0, 0.5),
        (0.0, -1.0, 1 - 2.0**-53, 0.5),
    ]:
        one = [np.array([x]) for x in (k, sign, u, v)]
        _, doubt = variates._float_excess(*one, chi)
        assert np.isinf(doubt).all()
        variates._decimal_accepts(rng, k, sign, [u], v, (Decimal(2), Decimal(1)))
    value, doubt = variates._float_excess(*[np.array([x]) for x in (3.0, -1.0, 0.5, 0.5)], chi)
    assert value < -doubt
