"""Python integers as the oracle: matrices of them in arrays of objects."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.exact.exact_matmul import DigitMatrix

Integers = NDArray[Any]


def integers(matrix: Any) -> Integers:
    """Return an array of Python integers."""
    return np.array([[int(x) for x in row] for row in matrix], dtype=object)


def int128_of(matrix: Integers) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Split integers as `SecondMoment.int128` does."""
    return (matrix >> 64).astype(np.int64), (matrix & (2**64 - 1)).astype(np.uint64)


def value(x: DigitMatrix) -> tuple[Integers, int]:
    """Return integers V and e with x = V 2^e."""
    total = integers(np.zeros(x.shape))
    for digit in x.digits[::-1]:
        total = total * 2**x.bits + integers(digit)
    return total, x.bits * x.low


def scaled(x: DigitMatrix, exponent: int) -> Integers:
    """Return x 2^-exponent, which must be integers."""
    v, e = value(x)
    if e >= exponent:
        return v * 2 ** (e - exponent)
    assert not (v % 2 ** (exponent - e)).any()
    return v // 2 ** (exponent - e)


def rounded(v: Integers, exponent: int) -> Integers:
    """Round V 2^-exponent to integers, ties up."""
    if exponent <= 0:
        return v * 2**-exponent
    return (v + 2 ** (exponent - 1)) // 2**exponent


def is_positive(matrix: Any) -> bool:
    """Is a symmetric matrix of rationals positive definite? By elimination."""
    a = [[Fraction(x) for x in row] for row in matrix]
    for k in range(len(a)):
        if a[k][k] <= 0:
            return False
        for i in range(k + 1, len(a)):
            ratio = a[i][k] / a[k][k]
            a[i] = [x - ratio * y for x, y in zip(a[i], a[k], strict=True)]
    return True


def cholesky(h: Integers, bits: int) -> Integers:
    """Return the Cholesky factor of H times 2^bits, within a few units, by mpmath."""
    import mpmath

    with mpmath.workprec(4 * bits):
        factor = mpmath.cholesky(mpmath.matrix(h.tolist()))
        scale = mpmath.mpf(2) ** bits
        return np.array(
            [[int(mpmath.nint(x * scale)) for x in row] for row in factor.tolist()], dtype=object
        )


def inverse(matrix: Integers) -> NDArray[Any]:
    """Invert a matrix of integers: rationals, by Gauss and Jordan without pivots."""
    n = len(matrix)
    a = [
        [Fraction(x) for x in row] + [Fraction(i == j) for j in range(n)]
        for i, row in enumerate(matrix)
    ]
    for k in range(n):
        a[k] = [x / a[k][k] for x in a[k]]
        for i in range(n):
            if i != k:
                a[i] = [x - a[i][k] * y for x, y in zip(a[i], a[k], strict=True)]
    return np.array([row[n:] for row in a], dtype=object)
