"""An orthonormal basis of the columns of a tall matrix: the Gram-Schmidt step of Figure 1.

References
----------
.. [1] Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa and T. Fukaya, "Roundoff error analysis of the
   CholeskyQR2 algorithm", Electron. Trans. Numer. Anal. 44 (2015).
.. [2] L. Giraud, J. Langou, M. Rozloznik and J. van den Eshof, "Rounding error analysis of the
   classical Gram-Schmidt orthogonalization process", Numer. Math. 101 (2005).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.blas import dtrsm

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix

#: Of columns of norm 1: up to this Cholesky's factor is good enough.
MAX_CONDITION = 1e6

#: A column that keeps no more of its norm depends on those before it.
RANK_TOLERANCE = 1e-11


def orthonormalised(Y: Matrix) -> tuple[Matrix, int]:
    """Orthonormalise the columns of `Y` from left to right, without those that depend on others.

    Returns the basis and the rank. There are two ways to the same basis, that of a triangular
    factor with a positive diagonal. CholeskyQR2 [1]_ has the speed of a matrix product. Its first
    round leaves an error of about eps times the square of the condition, and its second of about
    eps. Where the columns are closer to dependence than `MAX_CONDITION`, or dependent, it is
    classical Gram-Schmidt, every column projected twice [2]_.

    Columns are scaled by powers of two first. That changes neither the basis nor a rounding, and
    squares neither overflow nor vanish.
    """
    m, k = Y.shape
    peak = np.maximum(Y.max(axis=0, initial=0.0), -Y.min(axis=0, initial=0.0))
    if not np.isfinite(peak).all():
        raise ValueError("a number of the matrix to be orthonormalised is not finite")
    Z = Y * np.ldexp(1.0, np.minimum(-np.frexp(peak)[1], 1023))
    if 0 < k <= m and (basis := _cholesky_qr2(Z)) is not None:
        return basis, k
    return _gram_schmidt(Z)


def _cholesky_qr2(Z: Matrix) -> Matrix | None:
    """The basis; None where the columns are too near to dependence."""
    try:
        R = np.linalg.cholesky(Z.T @ Z).T
    except np.linalg.LinAlgError:
        return None
    if not np.linalg.cond(R / np.linalg.norm(R, axis=0)) <= MAX_CONDITION:
        return None
    # Solving, not multiplying by the inverse, keeps the span to within eps for any condition.
    Z = dtrsm(1.0, R, Z.T, trans_a=1, overwrite_b=1).T
    # The second factor is near I: here its inverse is as good, and faster.
    inverse: Matrix = np.linalg.inv(np.linalg.cholesky(Z.T @ Z))
    return Z @ inverse.T


def _gram_schmidt(Z: Matrix) -> tuple[Matrix, int]:
    basis, rank = np.empty((len(Z), min(Z.shape)), order="F"), 0
    for column in Z.T:
        if rank == basis.shape[1]:
            break
        Q, v = basis[:, :rank], column.copy()
        for _ in range(2):
            v -= Q @ (Q.T @ v)
        left = np.linalg.norm(v)
        if left > RANK_TOLERANCE * np.linalg.norm(column):
            basis[:, rank] = v / left
            rank += 1
    return np.ascontiguousarray(basis[:, :rank]), rank
