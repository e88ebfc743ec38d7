"""Multiplicative mechanisms without rounding errors: sketch, inverse Wishart, least eigenvalue.

The secret is an integer matrix G, the public regulariser an integer w, and the ideal release a
function of rows drawn from N(0, H), H = G + w I. Floating point meets H in one place
only: it proposes a factor, a matrix L of dyadic rationals with L L^T near H. How near is
computed in integers and certified. All that follows is integer arithmetic: with the draws A,

    sketch              X = M M^T,  M = L A
    inverse Wishart     X = M M^T,  M = L Q^T,    Q = A^-1

are rounded to a public grid exactly: the draws are real numbers of which as many bits are seen as
that takes (`privgram.exact.variates`). So what is released has exactly the law of the ideal
release from another matrix, H~, and by the certificate that law is within `delta_fp` of the one
from H. No claim is made or needed about the accuracy of any factorisation, or about entries near
a boundary between two grid points. Proofs are in docs/theory/finite-precision.md.

Integers are in units of the second moment: its matrix is ``unit * G``. Grids are powers of two
in these units (of their square root for rows), and what is returned counts them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dtrmm, dtrsm
from scipy.linalg.lapack import dsygst

from privgram._base.numbers import bisect_boundary
from privgram.exact.exact_matmul import (
    BLOCK,
    MAX_DIGITS,
    SLACK,
    DigitDraws,
    DigitMatrix,
    Strip,
    block_slices,
    digit_bits,
    each,
    gram,
    integer_matrix,
    place,
)
from privgram.exact.int128 import GRID_BITS, to_integers
from privgram.exact.rounding import in_digits, product_error

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.exact.int128 import Int128
    from privgram.exact.variates import Variates

#: Certified bound of ||K H K^T - I||_F.
WHITENING_TOLERANCE = 2.0**-72

#: Each step gains some 40 bits: condition numbers of 2^60 need five.
MAX_STEPS = 12

NOT_DEFINITE = "the regularised second moment is not positive definite, or nearly so"


def delta_fp(epsilon: float, dof: float) -> float:
    """Bound what finite precision adds to delta of a sketch of `dof` rows, or degrees of freedom.

    ``(1 + e^epsilon) sqrt(dof) / 2`` times `WHITENING_TOLERANCE`, for every pair of neighbours:
    the theorem of docs/theory/finite-precision.md, "Sketch and inverse Wishart". Calibrate the
    exact profile to delta less this. Infinite where it exceeds what a float64 holds.
    """
    growth = 1 + math.exp(epsilon) if epsilon < 709 else math.inf
    return growth * math.sqrt(dof) * WHITENING_TOLERANCE / 2


def largest_epsilon(delta: float, dof: float) -> float:
    """Epsilon at which `delta_fp` takes half of delta; NaN if it takes more at any."""
    growth = delta / (math.sqrt(dof) * WHITENING_TOLERANCE)
    return math.log(growth - 1) if growth > 1 else math.nan


def gram_exponent(regulariser: int, dof: float) -> int:
    """Exponent of the grid of a sketch's second moment, ``L A A^T L^T``.

    The variance of an entry is ``dof (H_ii H_jj + H_ij^2)``, at least ``dof w^2``.
    """
    return math.floor(math.log2(regulariser) + math.log2(dof) / 2) - GRID_BITS


def rows_exponent(regulariser: int) -> int:
    """Exponent of the grid of a sketch's rows: the variance of an entry is ``H_jj >= w``."""
    return math.floor(math.log2(regulariser) / 2) - GRID_BITS


def inverse_exponent(regulariser: int, n_columns: int, dof: float) -> int:
    """Exponent of the grid of `round_inverse_wishart`.

    ``X_ii`` is ``H_ii >= w`` over a chi-square of m = dof - d + 1 degrees of freedom, and spread
    by about ``sqrt(2) m^(-3/2) w`` or more.
    """
    m = dof - n_columns + 1
    return math.floor(math.log2(regulariser) - 1.5 * math.log2(max(m, 1.0))) - GRID_BITS


def certified_factor(integers: Int128, regulariser: int) -> DigitMatrix:
    """Find a factor L of ``H = G + regulariser I``, and certify how near L L^T is to it.

    Lower triangular, ``||H^-1/2 L L^T H^-1/2 - I||_F`` within `WHITENING_TOLERANCE`. G (d, d) is
    symmetric positive semidefinite, ``high 2^64 + low``, and the regulariser positive, in its
    units. ArithmeticError if H has a condition number far above 2^60.
    """
    # No eigenvalue of H is below the regulariser: H - L L^T must be that small.
    tolerance = WHITENING_TOLERANCE * regulariser
    h = integer_matrix(integers, regulariser)
    matrix, d = h.to_float(), h.shape[0]
    low = place(tolerance / (16 * d * math.sqrt(SLACK * float(np.trace(matrix)))), h.bits)
    first = _cholesky(matrix)
    # As many digits as float64 has, or as a first correction needs to be the last one.
    needed = min(
        2.0**51 * tolerance / (d * d * float(np.linalg.norm(first))),
        2.0**-30 * math.sqrt(regulariser) / d,
    )
    coarse = place(max(needed, 2.0**-53 * float(first.max())), h.bits)
    factor = DigitMatrix.of([first], max(low, coarse), h.bits)
    for _ in range(MAX_STEPS):
        rest = less_gram(h, factor, tolerance / 8)
        start = factor.to_float()
        # Half of L^-1 (H - L L^T) L^-T. L step is what L lacks.
        step = _lower_half(dsygst(rest.T, start.T)[0].T)
        if np.linalg.norm(step) < 2.0**-27:
            added = dtrmm(1.0, start.T, step.T, side=1).T
            factor = factor + DigitMatrix.of([added], low, h.bits)
        else:
            step = _cholesky(np.eye(d) + step + step.T) - np.eye(d)
            fine = place(2.0**-60 * float(np.abs(step).max()), h.bits)
            more = factor.multiply(DigitMatrix.of([step], fine, h.bits), low)
            factor, added = factor + more, more.to_float()
        # (L + A)(L + A)^T - L L^T = A (L + A/2)^T + (L + A/2) A^T.
        half = dtrmm(1.0, (start + added / 2).T, added.T, trans_a=1)
        size = float(np.linalg.norm(added))
        reach = float(np.linalg.norm(start)) + size
        error = tolerance / 8 + 2.0**-46 * float(np.linalg.norm(rest))
        error += (2 * product_error(d) * size + d * math.ldexp(1.0, h.bits * low)) * reach
        if SLACK * (float(np.linalg.norm(rest - half - half.T)) + error) <= tolerance:
            return factor
    raise ArithmeticError(NOT_DEFINITE)


def _cholesky(matrix: Matrix) -> Matrix:
    """Cholesky's factor of a symmetric matrix, or where float64 finds none of one shifted."""
    if not np.isfinite(matrix).all():
        raise ArithmeticError(NOT_DEFINITE)
    d = len(matrix)
    shift, more = 0.0, 2.0**-52 * d * float(np.abs(np.diagonal(matrix)).max())
    while True:
        try:
            return np.asarray(np.linalg.cholesky(matrix + shift * np.eye(d)), np.float64)
        except np.linalg.LinAlgError:
            shift = max(16 * shift, more)


def certified_whitener(
    integers: Int128, regulariser: int, tolerance: float | None = None
) -> DigitMatrix:
    """Find K, lower triangular, and certify ``||K H K^T - I||_F``, ``H = G + regulariser I``.

    G (d, d) is symmetric positive semidefinite, ``high 2^64 + low``, and the regulariser in its
    units. If that is not positive, G must be known to have no small eigenvalue. ArithmeticError if
    H is not positive definite, or has a condition number far above 2^60.
    """
    tolerance = tolerance or WHITENING_TOLERANCE
    h = integer_matrix(integers, regulariser)
    bits = h.bits
    d = h.shape[0]
    matrix = h.to_float()
    diagonal = np.diagonal(matrix)
    if diagonal.min() <= 0:
        raise ArithmeticError(NOT_DEFINITE)
    k_low = place(tolerance / (8 * d * math.sqrt(diagonal.sum())), bits)
    p_low = place(tolerance / (8 * d), bits)
    start = np.ldexp(1.0, -np.ceil(np.log2(diagonal) / 2).astype(int))
    # The first correction is of K = diag(start), by float64 alone: it scales without rounding.
    z = _correction(start[:, None] * matrix * start - np.eye(d))
    k = DigitMatrix.of([np.diag(start), z * start], k_low, bits)
    for _ in range(MAX_STEPS):
        norm = SLACK * float(np.linalg.norm(k.to_float()))
        t_low = place(tolerance / (16 * d * norm), bits)
        t = k.multiply(h, t_low)
        residual = less_identity(t.multiply(k.T, p_low, symmetric=True)).to_float()
        error = d * (math.ldexp(1.0, bits * p_low) + 3 * norm * math.ldexp(1.0, bits * t_low))
        if SLACK * float(np.linalg.norm(residual)) + error <= tolerance:
            return k
        z = _correction(residual)
        z_low = place(2.0**-60 * float(np.abs(z).max()), bits)
        del t, residual
        k = k + DigitMatrix.of([z], z_low, bits).multiply(k, k_low)
    raise ArithmeticError(NOT_DEFINITE)


def _correction(residual: Matrix) -> Matrix:
    """Z such that (I + Z) (I + F) (I + Z)^T is nearer I than I + F, by all that float64 can.

    I + Z is the inverse of the Cholesky factor I + D of I + F: D = phi(F - D D^T), phi the strict
    lower triangle and half the diagonal, gives it near I with a small relative error. Far from I,
    where I + F may not be positive definite to float64, a shift makes it so, and brings the
    eigenvalues below the shift nearer to the others by its reciprocal.
    """
    d = len(residual)
    identity = np.eye(d)
    residual = (residual + residual.T) / 2
    if np.linalg.norm(residual) < 2.0**-10:
        step = _lower_half(residual)
        step = _lower_half(residual - step @ step.T)
    else:
        matrix = identity + residual
        shift = 2.0**-52 * d * float(np.abs(np.diagonal(matrix)).max())
        step = _cholesky(matrix + shift * identity) - identity
    return -_solve_lower(identity + step, step)


def _solve_lower(a: Matrix, b: Matrix) -> Matrix:
    """Give ``a^-1 b``, a lower triangular."""
    # LAPACK's triangular solver, of OpenBLAS, has threads even for 2 x 2.
    x: Matrix = dtrsm(1.0, a, b, lower=1)
    return x


def _lower_half(matrix: Matrix) -> Matrix:
    return np.tril(matrix) - np.diag(np.diagonal(matrix) / 2)


def round_inverse_wishart(factor: DigitMatrix, draws: Variates, exponent: int) -> Matrix:
    """Round ``L (A A^T)^-1 L^T``, inverse Wishart of scale H, to multiples of ``2^exponent`` units.

    Counts of the grid, symmetric (d, d), for Bartlett's factor (d, d).
    """
    inverse = _Inverse(draws, factor.bits)
    return in_digits(lambda error: gram(factor, inverse, error / 4), exponent)


@dataclass(frozen=True, repr=False, eq=False)
class _Inverse(DigitDraws):
    """The inverse of triangular draws, transposed, in digits."""

    @cached_property
    def start(self) -> Matrix:
        """The inverse to about the digits of float64."""
        a = self.draws.to_float()
        diagonal = np.diag_indices(len(a))
        # Where digits cancelled, the inverse must not be too large: from below it converges.
        a[diagonal] = np.maximum(a[diagonal], 2.0**-48)
        return _solve_lower(a, np.eye(len(a))).T

    def within(self, error: float) -> DigitMatrix:
        """Digits such that no entry of the matrix is further off than `error`.

        By Newton's iteration, which converges for every triangular matrix: the residual is
        triangular with next to nothing on its diagonal, so that its powers tend to 0.
        """
        start = self.start.T
        q = DigitMatrix.of([start], place(2.0**-96 * np.abs(start).max(), self.bits), self.bits)
        drawn = DigitDraws(self.draws, self.bits)
        d = len(start)
        size = SLACK * float(np.linalg.norm(self.draws.to_float()))
        while True:
            # R = A Q - I and A (Q - Q R) - I = -R^2, and for the error of any Q, in Frobenius
            # norms, |A^-1 - Q| <= |Q| |R| / (1 - |R|). A quarter of the tolerance is for digits
            # of A and of A Q that are left out, an eighth for those of Q R.
            norm = SLACK * float(np.linalg.norm(q.to_float()))
            tolerance = min(error / (4 * norm), 0.25)
            a = drawn.within(tolerance / (8 * d * norm))
            residual = less_identity(a.multiply(q, place(tolerance / (8 * d), self.bits)))
            del a
            r = SLACK * float(np.linalg.norm(residual.to_float())) + tolerance / 4
            q = q - q.multiply(residual, place(tolerance / (8 * d * size), self.bits))
            if r < 0.5 and r**2 <= tolerance / 2:
                return q.T


def smallest_eigenvalue(integers: Int128, exponent: int) -> int:
    """Bound the smallest eigenvalue of G from below, to a grid of ``g = 2^exponent`` units.

    A count c >= 0 with ``c g <= lambda_min(G) < c g + (1 + 1/32) g``, exponent at least 6: of two
    matrices whose eigenvalues differ by at most ``m g``, m whole, counts differ by at most m + 1.

    A certificate for G - t I proves t < lambda_min(G); for any y and x = K^T y, it also proves
    lambda_min(G) - t <= (1 + f) |y|^2 / |x|^2. Steps from below end when the two are close.
    Should they not, bisection in whole numbers finds such a count for every G.
    """
    if exponent < 6:
        raise ValueError("the grid must be at least 2^6 units")
    try:
        return _smallest_by_steps(integers, exponent)
    except ArithmeticError:
        # Never seen. An error would be an event that depends on the data.
        return _smallest_by_bisection(integers, exponent)


def _smallest_by_steps(integers: Int128, exponent: int) -> int:
    resolution = 1 << (exponent - 6)
    t = -resolution
    for _ in range(MAX_STEPS):
        k = certified_whitener(integers, -t, 2.0**-30).to_float()
        y = np.linalg.eigh(k @ k.T)[1][:, -1]
        x = k.T @ y
        # Rounding and f hide in the slack, see the proof.
        gap = SLACK * float(y @ y) / float(x @ x)
        if gap <= 2 * resolution:
            return max(t, 0) >> exponent
        t += math.floor(gap * (1 - 2.0**-18))
    raise ArithmeticError("the smallest eigenvalue was not found")


def _smallest_by_bisection(integers: Int128, exponent: int) -> int:
    """Find the most grid steps c >= 0 with G - c g I positive definite, or else 0.

    In whole numbers, by Sylvester's criterion: it ends for every G, slowly where d is large.
    """
    matrix = to_integers(integers)
    d = len(matrix)

    def definite(count: int) -> bool:
        m = matrix.copy()
        m[np.diag_indices(d)] -= count << exponent
        previous = 1
        for i in range(d):
            # Bareiss: the pivots are the leading minors, and the divisions leave no rest.
            pivot = m[i, i]
            if pivot <= 0:
                return False
            rest = slice(i + 1, d)
            m[rest, rest] = (pivot * m[rest, rest] - np.outer(m[rest, i], m[i, rest])) // previous
            previous = pivot
        return True

    # The smallest eigenvalue is at most the mean of all.
    return bisect_boundary(definite, 0, (int(np.trace(matrix)) // d >> exponent) + 1)


def less_identity(x: DigitMatrix) -> DigitMatrix:
    """Subtract the identity, in place where no digit grows too large."""
    place = -x.low
    if 0 <= place < len(x.digits):
        diagonal = np.einsum("ii->i", x.digits[place])
        if diagonal.min() > -math.ldexp(1.0, x.bits - 1):
            diagonal -= 1
            return x
    return x - DigitMatrix.of([np.eye(x.shape[0])], 0, x.bits)


def less_gram(x: DigitMatrix, factor: DigitMatrix, error: float) -> Matrix:
    """Subtract ``X X^T``, X lower triangular: symmetric, float64.

    Off by at most `error` and 2^-47 of the result, in Frobenius norm. From the highest place
    down, what is left is an integer that float64 holds, until it is the result but for its last
    digits. Places below are not computed.
    """
    n, base = len(factor.digits), math.ldexp(1.0, x.bits)
    if n > MAX_DIGITS or x.bits > digit_bits(len(factor.digits[0])):
        raise ArithmeticError("a product of matrices has too many terms to be exact")
    norms = [SLACK * float(np.linalg.norm(digit)) for digit in factor.digits]
    start, first = 0, 2 * factor.low
    while start < 2 * n - 2:
        pairs = zip(norms[: start + 1], norms[start::-1], strict=False)
        error -= math.ldexp(sum(one * two for one, two in pairs), x.bits * (first + start))
        if error < 0:
            break
        start += 1
    lowest = min(x.low, first + start)
    highest = max(x.low + len(x.digits), first + 2 * n - 1)
    rest = np.empty(x.shape)
    rows = x.shape[0]
    strips = each(lambda p: Strip.of(factor.digits[:, p], p), block_slices(rows, BLOCK), rows)

    def fill(block: tuple[Strip, Strip]) -> None:
        down, across = block
        p, q = down.panel, across.panel
        value = np.zeros((p.stop - p.start, q.stop - q.start))
        for k in range(highest - 1, lowest - 1, -1):
            value *= base
            if 0 <= k - x.low < len(x.digits):
                value += x.digits[k - x.low, p, q]
            if start <= k - first <= 2 * n - 2:
                value -= down.convolved(across, k - first)
        rest[p, q] = value
        rest[q, p] = value.T

    each(fill, [(p, q) for i, p in enumerate(strips) for q in strips[: i + 1]], rows)
    return np.ldexp(rest, x.bits * lowest)
