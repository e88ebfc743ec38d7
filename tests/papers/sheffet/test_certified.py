"""Multiplicative mechanisms against exact rational arithmetic and 400-bit Cholesky factors.

PRIVGRAM_TEST_DRAWS sets the number of draws compared (600); it has been run with 100000.
"""

import itertools
import math
import os
from fractions import Fraction

import numpy as np
import pytest
from support.helpers import refuses
from support.integers import cholesky, int128_of, integers, inverse, is_positive, rounded, scaled

from privgram.exact import exact_matmul, rounding
from privgram.exact.exact_matmul import DigitMatrix
from privgram.exact.rounding import add_wisharts
from privgram.exact.variates import bartlett, normals
from privgram.papers.sheffet import certified as _certified
from privgram.papers.sheffet.certified import (
    WHITENING_TOLERANCE,
    certified_factor,
    certified_whitener,
    delta_fp,
    gram_exponent,
    inverse_exponent,
    less_gram,
    round_inverse_wishart,
    rows_exponent,
    smallest_eigenvalue,
)
from privgram.papers.sheffet.drawing import round_gram, round_product

pytestmark = pytest.mark.slow

DRAWS = int(os.environ.get("PRIVGRAM_TEST_DRAWS", "600"))

#: All draws, factors and inverses here are multiples of this.
UNIT = -420

#: Below it the hard matrices have condition numbers that need a whitener, as K H K^T does.
LEAST = 2**40


def semidefinite(rng, d, rank, bits, spread=0.0):
    """Integers B B^T of about so many bits, from columns of falling size."""
    scale = np.logspace(0, -spread, rank)
    b = integers(np.rint(rng.standard_normal((d, rank)) * scale * 2**20))
    g = b @ b.T
    return g * 2 ** max(0, bits - max(int(x).bit_length() for x in np.diagonal(g)))


def hard_matrices(rng):
    """Yield (name, G, regulariser), condition numbers from 1 to 2^60 and beyond."""
    for d in (1, 2, 3, 6):
        yield f"zero{d}", integers(np.zeros((d, d))), 1
        for bits, regulariser in ((40, 2**20), (80, 2**46 + 12345), (100, 2**40), (120, 3)):
            yield f"full{d}-{bits}", semidefinite(rng, d, d, bits), regulariser
            yield f"rank-one{d}-{bits}", semidefinite(rng, d, 1, bits), regulariser
            yield f"graded{d}-{bits}", semidefinite(rng, d, d, bits, 6), regulariser
    scales = integers(np.diag(4.0 ** np.arange(0, 18, 3)))
    yield "scales", scales @ semidefinite(rng, 6, 6, 0) @ scales, 2**30


class Known:
    """Draws that are known to the last digit: a sum of float64 matrices."""

    def __init__(self, *parts):
        self.known = list(parts)

    def parts(self, error):
        return self.known

    def to_float(self):
        return sum(self.known)

    def part(self, rows, columns=slice(None)):
        return Known(*(one[rows][:, columns] for one in self.known))


def exact_draws(draws):
    """So many digits of the draws that none after them changes a release, in `UNIT`."""
    low = UNIT // 20
    return scaled(DigitMatrix.of(draws.parts(2.0**UNIT), low, 20), UNIT)


def test_certificate(rng):
    """||K H K^T - I||_F and the same for L, by exact arithmetic."""
    for name, g, regulariser in hard_matrices(rng):
        d = len(g)
        h = g + regulariser * integers(np.eye(d))
        k = scaled(certified_whitener(int128_of(g), regulariser), UNIT)
        one = 2 ** (-2 * UNIT)
        f = k @ h @ k.T - one * integers(np.eye(d))
        assert (f**2).sum() <= (one * WHITENING_TOLERANCE.as_integer_ratio()[0] // 2**72) ** 2, name
        assert not np.triu(k, 1).any()
        regulariser, before = max(regulariser, LEAST), regulariser
        h += (regulariser - before) * integers(np.eye(d))
        factor = scaled(certified_factor(int128_of(g), regulariser), UNIT)
        # ||H^(-1/2) L L^T H^(-1/2) - I||_F^2 is the trace of (H^-1 L L^T - I)^2.
        ratio = inverse(h) @ (factor @ factor.T) - one * integers(np.eye(d))
        assert (ratio @ ratio).trace() <= (one // 2**72) ** 2, name


def test_truncation_counts_against_the_certificate(rng, monkeypatch):
    """K H K^T is I to all digits that are left of it, and yet nothing is certified."""
    place, more = _certified.place, iter([0, 1])
    # The second place asked for is that of K H K^T.
    monkeypatch.setattr(_certified, "place", lambda x, bits: place(x, bits) + next(more, 0))
    with pytest.raises(ArithmeticError):
        certified_whitener(int128_of(semidefinite(rng, 4, 4, 70)), 2**40)


def test_what_a_gram_matrix_leaves(rng):
    """H - X X^T within the error asked for, also where places are left out for it."""
    loose = 0
    for _ in range(40):
        d = int(rng.integers(1, 7))
        h = exact_matmul.integer_matrix(int128_of(semidefinite(rng, d, d, 90)), 2**60)
        first = np.linalg.cholesky(h.to_float())
        low = int(rng.integers(-2, 1))
        factor = DigitMatrix.of([first * rng.choice([1, 2])], low, h.bits)
        error = 2.0 ** rng.integers(-40, 60)
        rest = less_gram(h, factor, error)
        x = scaled(factor, UNIT)
        exact = scaled(h, 2 * UNIT) - x @ x.T
        off = np.vectorize(Fraction)(rest) * Fraction(2) ** (-2 * UNIT) - exact
        norm = math.sqrt((off**2).sum() * Fraction(4) ** (2 * UNIT))
        assert norm <= error + 2.0**-47 * np.linalg.norm(rest)
        np.testing.assert_array_equal(rest, rest.T)
        loose += norm > error / 2**22
    assert loose  # some of it is left out


@pytest.mark.parametrize("bound", ["float64", "digits"])
def test_rounding_counts_against_the_factor(rng, monkeypatch, bound):
    """L L^T is H to all digits that are left of it, and yet nothing is certified."""
    if bound == "float64":
        monkeypatch.setattr(_certified, "product_error", lambda d: 1e200)
    else:
        place, more = _certified.place, iter([2])
        # The first place asked for is that of L.
        monkeypatch.setattr(_certified, "place", lambda x, bits: place(x, bits) + next(more, 0))
    with pytest.raises(ArithmeticError):
        certified_factor(int128_of(semidefinite(rng, 4, 4, 70)), 2**40)


def test_indefinite_matrices_have_no_factor():
    with pytest.raises(ArithmeticError, match="not positive definite"):
        certified_factor(int128_of(integers([[2**90, 0], [0, -(2**90)]])), 2**40)


def test_releases_round_exact_products(rng):
    """Given K, the release is the rounded rational number, however fine the grid."""
    for name, g, regulariser in hard_matrices(rng):
        d = len(g)
        regulariser = max(regulariser, LEAST)
        certified = certified_factor(int128_of(g), regulariser)
        factor = scaled(certified, UNIT)
        columns = int(rng.integers(1, d + 1))
        for draws in (bartlett(rng, d + 0.5, d), normals(rng, d, columns)):
            a = exact_draws(draws)
            m = factor @ a
            for fine in (0, 30):
                exponent = max(gram_exponent(regulariser, d), 0) - fine
                # Counts are exact to 2^53.
                exponent = max(exponent, int((m @ m.T).max()).bit_length() + 4 * UNIT - 52)
                counts = round_gram(certified, draws, exponent)
                np.testing.assert_array_equal(
                    integers(counts), rounded(m @ m.T, exponent - 4 * UNIT), name
                )
                exponent = max(
                    rows_exponent(regulariser) - fine,
                    int(np.abs(m).max()).bit_length() + 2 * UNIT - 52,
                )
                rows = round_product(certified, draws, exponent).T
                np.testing.assert_array_equal(
                    integers(rows.T), rounded(m, exponent - 2 * UNIT), name
                )
        draws = bartlett(rng, d + 2.5, d)
        a = exact_draws(draws)
        x = factor @ inverse(a @ a.T) @ factor.T
        exponent = int(max(x.ravel())).bit_length() - 52
        half = np.full(x.shape, Fraction(1, 2))
        np.testing.assert_array_equal(
            integers(round_inverse_wishart(certified, draws, exponent)),
            (x * Fraction(2) ** -exponent + half) // 1,
            name,
        )


def test_added_wishart_matrices_are_rounded_exactly(rng):
    """G + q^2 (A A^T - B B^T), q^2 the scale to a part in 2^20, but never less."""
    for _ in range(20):
        d, bits = int(rng.integers(1, 6)), int(rng.integers(20, 100))
        g = semidefinite(rng, d, d, bits)
        scale = float(2.0 ** rng.uniform(-4, 90))
        q = Fraction(rounding._root(scale))
        assert Fraction(scale) < q**2 < Fraction(scale) * (1 + Fraction(1, 2**20))
        a, b = bartlett(rng, d + 1, d), bartlett(rng, d + 1, d)
        exponent = max(0, bits - 50, int(math.log2(scale)) - int(rng.integers(0, 20)))
        counts = add_wisharts(int128_of(g), scale, a, b, exponent)
        one, other = exact_draws(a), exact_draws(b)
        noise = (one @ one.T - other @ other.T) * q**2 * Fraction(2) ** (2 * UNIT)
        half = np.full(g.shape, Fraction(1, 2))
        expected = ((g + noise) * Fraction(2) ** -exponent + half) // 1
        np.testing.assert_array_equal(integers(counts) - expected, 0 * g)


def release_mismatches(rng, draws):
    """Compare releases with those from 420-bit Cholesky factors; return how many differ."""
    cases = [
        (semidefinite(rng, d, rank, bits, spread), 2**46 + 1)
        for d, rank, bits, spread in ((1, 1, 70, 0), (2, 1, 96, 0), (3, 3, 76, 3), (4, 2, 66, 0))
    ]
    mismatches = 0
    for (g, regulariser), adjust in itertools.product(cases, (0, 12)):
        d = len(g)
        h = g + regulariser * integers(np.eye(d))
        certified = certified_factor(int128_of(g), regulariser)
        factor = cholesky(h, -UNIT)
        for _ in range(draws // 8):
            dof = d + int(rng.integers(0, 30))
            a = bartlett(rng, dof, d)
            m = factor @ exact_draws(a)
            exact = m @ m.T
            exponent = gram_exponent(regulariser, dof) - adjust
            expected = rounded(exact, exponent - 4 * UNIT)
            counts = round_gram(certified, a, exponent)
            # Beyond 2^53 a count is a float64 near it.
            mismatches += int((np.abs(integers(counts) - expected) > abs(expected) >> 50).any())
            if d <= 2:
                # (A A^T)^-1 = adj(A A^T) / det(A A^T), in integers.
                drawn = exact_draws(a)
                w = drawn @ drawn.T
                adjugate = integers(np.eye(1)) if d == 1 else w[::-1, ::-1] * [[1, -1], [-1, 1]]
                determinant = w[0, 0] if d == 1 else w[0, 0] * w[1, 1] - w[0, 1] ** 2
                exponent = inverse_exponent(regulariser, d, dof) - adjust
                top = (factor @ adjugate @ factor.T) * 2 ** max(-exponent, 0)
                bottom = determinant * 2 ** max(exponent, 0)
                expected = (2 * top + bottom) // (2 * bottom)
                counts = round_inverse_wishart(certified, a, exponent)
                mismatches += int((np.abs(integers(counts) - expected) > abs(expected) >> 50).any())
    return mismatches


def test_releases_equal_those_of_exact_cholesky_factors(rng):
    """No more is promised than equality in law, but K is so near L^-1 that these agree too."""
    assert release_mismatches(rng, DRAWS) == 0


def test_comparison_would_see_a_loose_certificate(rng, monkeypatch):
    monkeypatch.setattr(_certified, "WHITENING_TOLERANCE", 2.0**-16)
    assert release_mismatches(rng, 80) > 0


@pytest.mark.parametrize("side", [-1, 1])
def test_boundaries(side):
    """Draws that put an entry within 2^-60 of a grid step of a boundary."""
    # H = 2^60 L0 L0^T, L0 = [[2, 0], [1, 2]], X_21 = 2^61 A_11 (A_11 + 2 A_21), grid 2^40.
    g = integers([[2**62 - 2**50, 2**61], [2**61, 5 * 2**60 - 2**50]])
    certified = certified_factor(int128_of(g), 2**50)
    for count in range(1000, 1040):
        # Solve for A_21 to 2^-90 with A_11 = 1.
        target = (2 * count + 1) * 2**39 + side * 2**-21
        low = side * 2.0**-83
        high = ((2 * count + 1) * 2.0**39 / 2**61 - 1) / 2
        a = Known(np.array([[1.0, 0.0], [high, 1.0]]), np.array([[0.0, 0.0], [low, 0.0]]))
        x = exact_draws(a)[1, 0]
        assert 2**61 * (1 + 2 * x / 2**-UNIT) == pytest.approx(target, abs=1)
        distance = (2**61 * (2**-UNIT + 2 * x) - (2 * count + 1) * 2 ** (39 - UNIT)) * side
        assert 0 < distance < 2 ** (40 - 60 - UNIT)
        assert round_gram(certified, a, 40)[1, 0] == count + (side > 0)


def unsure(value, error):
    return np.zeros_like(value), np.ones(value.shape, bool)


def unsure_in_part(counts, doubtful):
    doubtful[1:3, 1:3] = True
    return np.where(doubtful, 0.0, counts), doubtful


@pytest.mark.parametrize("bits", [44, 1])
@pytest.mark.parametrize("deciding", ["floats", "digits", "both"])
def test_same_counts_whatever_decides(rng, bits, deciding, monkeypatch):
    """Float64, digits or both; and where the leading digits do not decide, more of them."""
    attempts = []
    settled = DigitMatrix.round_within
    monkeypatch.setattr(
        DigitMatrix, "round_within", lambda *args: attempts.append(1) or settled(*args)
    )
    nearest = rounding.nearest
    if deciding != "floats":
        monkeypatch.setattr(rounding, "DECIDING_BITS", bits)
        patched = unsure if deciding == "digits" else lambda *x: unsure_in_part(*nearest(*x))
        monkeypatch.setattr(rounding, "nearest", patched)
    g = semidefinite(rng, 12, 30, 60)
    certified = certified_factor(int128_of(g), 2**46)
    factor = scaled(certified, UNIT)
    for _ in range(10):
        a, b = bartlett(rng, 20.0, 12), bartlett(rng, 20.0, 12)
        m = factor @ exact_draws(a)
        np.testing.assert_array_equal(
            integers(round_gram(certified, a, 30)), rounded(m @ m.T, 30 - 4 * UNIT)
        )
        np.testing.assert_array_equal(
            integers(round_product(certified, a, 10)), rounded(m, 10 - 2 * UNIT)
        )
        q = Fraction(rounding._root(2.0**50))
        for minus in (None, b):
            noise = exact_draws(a) @ exact_draws(a).T
            noise = noise if minus is None else noise - exact_draws(b) @ exact_draws(b).T
            expected = g + noise * q**2 * Fraction(4) ** UNIT
            half = np.full(g.shape, Fraction(1, 2))
            np.testing.assert_array_equal(
                integers(add_wisharts(int128_of(g), 2.0**50, a, minus, 40)),
                (expected / 2**40 + half) // 1,
            )
    if deciding == "floats":
        assert len(attempts) < 10
    elif bits == 44:
        assert len(attempts) == 40
    else:
        assert len(attempts) > 60


def test_undecided_floats_are_seen(monkeypatch):
    """Counts as if float64 had no error are wrong near a boundary."""
    monkeypatch.setattr(
        rounding, "nearest", lambda value, _: (np.rint(value), np.zeros(value.shape, bool))
    )
    with pytest.raises(AssertionError):
        [test_boundaries(side) for side in (-1, 1)]


def test_errors_of_floats_are_within_their_bound(rng):
    """At every size of the factors, and not a thousand times below it where terms are few."""
    largest = 0.0
    for _ in range(60):
        d, columns = (int(n) for n in rng.integers(1, 9, 2))
        factor = certified_factor(int128_of(semidefinite(rng, d, d, 60)), 2**46)
        a = normals(rng, d, columns)
        exact = scaled(factor, UNIT) @ exact_draws(a)
        left, right = factor.to_float(), a.to_float()
        bound = rounding.product_error(d) * np.outer(
            np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=0) + rounding.NORM_PAD
        )
        values = np.vectorize(Fraction)(left @ right)
        off = np.abs(values - exact * Fraction(4) ** UNIT).astype(float)
        assert (off <= bound).all()
        largest = max(largest, (off / bound).max())
    assert largest > 1e-3


def test_products_of_draws_are_within_their_bound(rng):
    """Of both kinds, at targets of every size: what rounding to a grid rests on."""
    largest = 0
    for _ in range(60):
        d = int(rng.integers(1, 9))
        factor = certified_factor(int128_of(semidefinite(rng, d, d, 60)), 2**46)
        a = bartlett(rng, d + 0.5, d)
        right = exact_matmul.DigitDraws(a, factor.bits)
        m = scaled(factor, UNIT) @ exact_draws(a)
        target = 2.0 ** rng.integers(-60, 60)
        x, error = exact_matmul.gram(factor, right, target)
        exact = (m @ m.T) * Fraction(2) ** (4 * UNIT)
        off = max(abs(scaled(x, UNIT) * Fraction(2) ** UNIT - exact).ravel()) / Fraction(error)
        assert off < 1
        assert error < 8 * target
        largest = max(largest, off)
    assert largest > 0.02  # digits have 23 bits: their last place is often far below the target


def test_inverse_of_a_draw(rng):
    """Within the error asked for, also of a draw that float64 cannot invert."""
    for d in (1, 2, 5, 12):
        hard = np.tril(rng.standard_normal((d, d)), -1) + np.diag(
            2.0 ** -rng.integers(0, 61 // d, d)
        )
        for a in (bartlett(rng, d, d), Known(hard)):
            exact = inverse(exact_draws(a)) * 2 ** (-2 * UNIT)
            for error in (1e-3, 2.0**-80, 2.0**-200):
                q = _certified._Inverse(a, 20).within(error)
                off = scaled(q.T, UNIT) - exact
                assert max(abs(off).ravel()) <= Fraction(error) * 2**-UNIT, d


@pytest.mark.parametrize("dof", [1, 10, 1000])
def test_delta_fp_bounds_total_variation(dof):
    """Against the exact distance of N(0, 1)^r and N(0, 1 + f)^r, at an f that can be seen."""
    from scipy.stats import chi2

    f = 1e-3
    crossing = dof * (1 + f) / f * math.log1p(f)
    tv = chi2.sf(crossing / (1 + f), dof) - chi2.sf(crossing, dof)
    bound = delta_fp(0.0, dof) / 2 * f / WHITENING_TOLERANCE
    assert 0.4 * bound < tv <= bound


def test_delta_fp_is_negligible():
    """The table of docs/theory/finite-precision.md."""
    table = {1e2: (2.2e-21, 3.9e-21, 2.3e-17), 1e6: (2.2e-19, 3.9e-19, 2.3e-15)}
    table[1e9] = (7.0e-18, 1.2e-17, 7.4e-14)
    for dof, row in table.items():
        assert [delta_fp(e, dof) for e in (0.1, 1.0, 10.0)] == pytest.approx(row, rel=0.05)


def test_grids_lie_below_the_noise():
    assert 2.0 ** gram_exponent(2**46, 100) == pytest.approx(2**46 * 10 / 2**10, rel=0.5)
    assert 2.0 ** rows_exponent(2**46) == 2.0**13
    assert gram_exponent(10**400, 4.0) > 1000


def check_eigenvalue(g, exponent, name=""):
    count = smallest_eigenvalue(int128_of(g), exponent)
    d = len(g)
    assert count >= 0
    grid = 2**exponent
    eye = integers(np.eye(d))
    # Not below: G - c g I is semidefinite, so definite with half a unit more.
    assert is_positive(2 * (g - count * grid * eye) + eye), name
    assert not is_positive(g - (count * grid + grid + grid // 32) * eye), name
    return count


def test_smallest_eigenvalue(rng):
    for name, g, _ in hard_matrices(rng):
        if max(g.ravel()) < 2**110:
            check_eigenvalue(g, 20, name)


def test_smallest_eigenvalue_on_the_grid(rng):
    """Multiples of the grid, multiple eigenvalues, zero: no tie may hang or go astray."""
    eye = integers(np.eye(3))
    assert check_eigenvalue(0 * eye, 20) == 0
    assert check_eigenvalue(2**20 * eye, 20) in (0, 1)
    for m in (1, 2**10, 2**30, 3**20):
        assert check_eigenvalue(m * 2**20 * eye, 20) in (m - 1, m)
    # Integer matrices with a known kernel.
    b = integers(rng.integers(-(2**18), 2**18, (6, 5)))
    assert check_eigenvalue(2**40 * b @ b.T, 20) == 0


def test_smallest_eigenvalue_of_neighbours(rng):
    """Counts of neighbours differ by at most 2^40 / g + 1, and nearly so for the worst row."""
    exponent = 30
    base = semidefinite(rng, 3, 3, 70)
    vectors = np.linalg.eigh(base.astype(float))[1]
    worst = 0
    for q in [vectors[:, 0], *rng.standard_normal((20, 3))]:
        v = integers(np.rint(q / np.linalg.norm(q) * (2**20 - 2))[:, None])
        change = smallest_eigenvalue(int128_of(base + v @ v.T), exponent) - smallest_eigenvalue(
            int128_of(base), exponent
        )
        assert -1 <= change <= 2**10 + 1
        worst = max(worst, change)
    assert worst >= 2**10 - 2
    refuses(lambda: smallest_eigenvalue(int128_of(base), 5), ValueError, "grid")


def test_smallest_eigenvalue_without_a_certificate(rng, monkeypatch):
    """Where floating point proposes nothing that can be certified, whole numbers do: no error."""

    def fails(*_):
        raise ArithmeticError("no certificate")

    monkeypatch.setattr(_certified, "certified_whitener", fails)
    test_smallest_eigenvalue(rng)
    test_smallest_eigenvalue_on_the_grid(rng)


@pytest.mark.parametrize(
    ("g", "regulariser"),
    [([[1, 2], [2, 1]], 0), ([[4, 2], [2, 1]], 0), ([[0]], 0), ([[2**90, 0], [0, 5]], -6)],
)
def test_indefinite_matrices_are_refused(g, regulariser):
    with pytest.raises(ArithmeticError, match="not positive definite"):
        certified_whitener(int128_of(integers(g)), regulariser)


def test_negative_regulariser(rng):
    g = semidefinite(rng, 3, 3, 70) + 2**60 * integers(np.eye(3))
    k = scaled(certified_whitener(int128_of(g), -(2**59)), UNIT)
    one = 2 ** (-2 * UNIT)
    f = k @ (g - 2**59 * integers(np.eye(3))) @ k.T - one * integers(np.eye(3))
    assert (f**2).sum() <= (one // 2**72) ** 2


def test_nothing_secret_in_repr(rng):
    assert "array" not in repr(certified_factor(int128_of(integers(np.diag([1.0, 2.0]))), 5))
