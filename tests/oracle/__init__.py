"""The compiled loops of `privgram._core` in plain NumPy: slow, obvious, the oracle of the tests.

Same names, arguments and order of random draws, so that with the same seed the results
agree to rounding, or bit for bit where `_core` promises that.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "RowAccumulator",
    "legendre",
    "log",
    "noisy_orthonormalise",
    "product",
    "wishart",
]


# --- rows: clip, quantise, accumulate ---------------------------------------------------------


def _squared_norms(x):
    """Squared row norms in the one order of summation that every kernel keeps.

    Eight partial sums over the columns j = k mod 8, folded in half three times.
    """
    n, d = x.shape
    padded = np.zeros((n, -(-d // 8) * 8))
    padded[:, :d] = x
    p = np.zeros((n, 8))
    for chunk in np.split(padded, padded.shape[1] // 8, axis=1):
        p = p + chunk * chunk
    p = p[:, :4] + p[:, 4:]
    p = p[:, :2] + p[:, 2:]
    return p[:, 0] + p[:, 1]


class RowAccumulator:
    """Exact sum of q q^T over clipped, quantised rows, in Python's integers.

    A row x becomes q = rint(c x S) with c = min(1, bound / ||x||) and S = T / bound;
    T = 2^bits - sqrt(n_columns)/2, less a hair for rounding, so that sum q_i^2 is 2^(2 bits) at
    most, always. What is refused is tested of the kernels alone.
    """

    def __init__(self, n_columns, bound, bits=20):
        # The hair covers the roundings of a row; gram.c has the proof.
        self.target = (2.0**bits - math.sqrt(n_columns) / 2) * (1 - (n_columns + 64) * 2.0**-53)
        self.n_columns, self.bound, self.bits = n_columns, float(bound), bits
        self.scale = self.target / bound
        self.n_rows = self.n_dropped = 0
        self._sum = np.zeros((n_columns, n_columns), dtype=object)

    def quantise(self, x):
        """Integer rows q of finite rows x."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            s = _squared_norms(x)
            bound = np.full(len(x), self.bound)
            # Out of range: divide the row by the power of two above its largest entry.
            slow = ~np.isfinite(s) | (not 2.0**-400 <= self.bound <= 2.0**400)
            if slow.any():
                _, e = np.frexp(np.abs(x[slow]).max(axis=1))
                x = x.copy()
                x[slow] = np.ldexp(x[slow], -e[:, None])
                bound[slow] = np.ldexp(bound[slow], -e)
                s[slow] = _squared_norms(x[slow])
            f = np.where(s > bound * bound, self.target / np.sqrt(s), self.target / bound)
            return np.rint(x * f[:, None]).astype(np.int64)

    def update(self, block, drop=False):
        """Add the rows of an array: -1, or the index of the first with a NaN or an infinity."""
        x = block.astype(np.float64)
        missing = np.isnan(x).any(axis=1) if drop else np.zeros(len(x), dtype=bool)
        bad = ~missing & ~np.isfinite(x).all(axis=1)
        if bad.any():
            return int(bad.argmax())
        q = self.quantise(x[~missing])
        at_once = 2 ** (62 - 2 * self.bits)  # rows whose sums fit an int64
        for start in range(0, len(q), at_once):
            part = q[start : start + at_once]
            self._sum = self._sum + (part.T @ part).astype(object)
        self.n_rows += len(q)
        self.n_dropped += int(missing.sum())
        return -1

    def int128(self):
        """The matrix as (hi, lo), its entries being hi 2^64 + lo."""
        return (self._sum >> 64).astype(np.int64), (self._sum & (2**64 - 1)).astype(np.uint64)


# --- columns computed from columns ------------------------------------------------------------


def log(x: NDArray[Any], lower: float, upper: float) -> NDArray[np.float64]:
    """Natural logarithm of a clamped column, the same on every machine, within 0.9 ulp."""
    if not sys.float_info.min <= lower <= upper <= sys.float_info.max:
        raise ValueError("bounds of a logarithm must be positive, normal and finite")
    v = np.clip(_one_dimensional(x), lower, upper)
    m, k = np.frexp(v)  # x = 2^k m, m from sqrt(1/2) to sqrt(2)
    low = m < math.sqrt(0.5)
    m, k = np.where(low, 2 * m, m), np.where(low, k - 1, k)
    f = m - 1
    s = f / (2 + f)
    z = s * s
    r = np.zeros_like(z)
    for c in _LOG_SERIES:
        r = r * z + float.fromhex(c)
    r = r * z
    half = 0.5 * f * f
    high, rest = float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")
    y: NDArray[np.float64] = k * high - ((half - (s * (half + r) + k * rest)) - f)
    return y


#: (2 atanh(s) / s - 2) / s^2 as a polynomial in s^2, interpolated in Chebyshev's points.
_LOG_SERIES = (
    "0x1.2b5900de53b32p-3",
    "0x1.39fe51a7c18f9p-3",
    "0x1.7462b51cb66b1p-3",
    "0x1.c71c62e3f11e6p-3",
    "0x1.2492492df281ap-2",
    "0x1.99999999952d7p-2",
    "0x1.5555555555558p-1",
)


def legendre(x: NDArray[Any], center: float, inverse: float, degree: int) -> NDArray[np.float64]:
    """Legendre polynomials P_1, ..., P_degree of ``(x - center) * inverse``, within [-1, 1]."""
    if degree < 1:
        raise ValueError(f"degree must be at least 1, not {degree}")
    with np.errstate(over="ignore"):
        v = np.clip((_one_dimensional(x) - center) * inverse, -1.0, 1.0)
    p = [np.ones_like(v), v]
    for k in range(1, degree):
        t = v * p[k]
        p.append(np.clip(t + k / (k + 1) * (t - p[k - 1]), -1.0, 1.0))
    return np.array(p[1:])


def product(
    columns: Sequence[NDArray[Any]], center: Sequence[float], inverse: Sequence[float]
) -> NDArray[np.float64]:
    """Product from the left of columns, each ``(x - center) * inverse``, clamped to [-1, 1]."""
    if not len(columns) == len(center) == len(inverse) > 0:
        raise ValueError("a product is of as many columns as there are centers and inverses")
    if len({len(x) for x in columns}) > 1:
        raise ValueError("columns must be of equal length")
    total = np.ones(len(columns[0]))
    for x, c, i in zip(columns, center, inverse, strict=True):
        total = total * legendre(x, c, i, 1)[0]
    return total


def _one_dimensional(x: Any) -> NDArray[np.float64]:
    column = np.asarray(x, np.float64)
    if column.ndim != 1:
        raise ValueError(f"a column has one dimension, not {column.ndim}")
    return column


# --- wishart: Bartlett ------------------------------------------------------------------------


def wishart(
    bit_generator: Any,
    k: float,
    cholesky: NDArray[np.float64] | None,
    out: NDArray[np.float64],
) -> None:
    """Draw W_d(V, k) by Bartlett's decomposition, V = L L^T, real k > d - 1.

    L is the lower triangle of `cholesky`, or the identity where that is None. U is drawn upper
    triangular, U U^T ~ W_d(I, k); row by row, the chi^2 variable of the diagonal first, the normals
    after it. With the coordinates in reverse order it is Bartlett's lower triangular A.
    """
    d = len(out)
    if out.shape != (d, d):
        raise ValueError(f"out must be square, not {out.shape}")
    if cholesky is not None and cholesky.shape != (d, d):
        raise ValueError(f"cholesky must have the shape of out, ({d}, {d}), not {cholesky.shape}")
    if not d - 1 < k < np.inf:
        raise ValueError(f"k must be finite and above d - 1 = {d - 1}, not {k}")
    rng = np.random.Generator(bit_generator)
    u = np.zeros((d, d))
    for i in range(d):
        u[i, i] = np.sqrt(rng.chisquare(k - (d - 1 - i)))
        u[i, i + 1 :] = rng.standard_normal(d - 1 - i)
    if cholesky is None:
        out[:] = u @ u.T
    else:
        t = np.tril(cholesky) @ u[::-1, ::-1]
        out[:] = t @ t.T


# --- orthonormal: noisy Gram-Schmidt ----------------------------------------------------------

RANK_TOLERANCE = 1e-11


def noisy_orthonormalise(
    bit_generator: Any, y: NDArray[np.float64], noise_std: float
) -> tuple[NDArray[np.float64], int]:
    """Orthonormalise the columns of Y + noise, drawn row by row, by Gram-Schmidt, each twice.

    A column that keeps at most `RANK_TOLERANCE` of its norm once the columns before it are
    projected out counts as dependent on them.
    """
    if not 0 <= noise_std < np.inf:
        raise ValueError(f"noise_std must be finite and not negative, not {noise_std}")
    z = np.array(y)
    if noise_std > 0:
        z += noise_std * np.random.Generator(bit_generator).standard_normal(z.shape)
    bad = np.flatnonzero(~np.isfinite(z).all(axis=1))
    if len(bad) > 0:
        raise ValueError(f"row {bad[0]} of y is not finite, or is not once the noise is added")
    basis: list[NDArray[np.float64]] = []
    for column in z.T if z.size > 0 else ():
        # A power of two takes the squares away from overflow and underflow without a rounding.
        v = np.ldexp(column, -np.frexp(np.abs(column).max())[1])
        norm = np.linalg.norm(v)
        for q in 2 * basis:
            v = v - (q @ v) * q
        if len(basis) < len(z) and np.linalg.norm(v) > RANK_TOLERANCE * norm:
            basis.append(v / np.linalg.norm(v))
    return np.reshape(basis, (len(basis), len(z))).T.copy(), len(basis)
