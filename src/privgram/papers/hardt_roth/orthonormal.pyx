"""The Gram-Schmidt step of Hardt and Roth, with noise, over the private OpenBLAS.

Matrices are row-major, ld* apart; only the named triangle of a triangular matrix is touched.
"""
from libc.float cimport DBL_MAX
from libc.limits cimport INT_MAX
from libc.math cimport fabs, frexp, ldexp, sqrt
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport random_standard_normal_fill

from privgram._core._bitgen cimport bitgen_of

import numpy as np

cdef extern from "orthonormal.h" nogil:
    # x^T x
    double square "privgram_square"(int n, const double* x)
    # y (m) -= A x, A (m, n)
    void gemv_subtract "privgram_gemv_subtract"(int m, int n, const double* a, int lda,
                                                const double* x, double* y)
    # y (n) += A^T x, A (m, n)
    void gemv_trans_add "privgram_gemv_trans_add"(int m, int n, const double* a, int lda,
                                                  const double* x, double* y)
    # upper triangle of G (n, n) += X^T X, X (m, n)
    void syrk "privgram_syrk"(int m, int n, const double* x, int ldx, double* g, int ldg)
    # B (m, n) = B R, R upper triangular
    void trmm_right_upper "privgram_trmm_right_upper"(int m, int n, const double* r, int ldr,
                                                      double* b, int ldb)
    # B (m, n) = B R^-1, R upper triangular
    void trsm_right_upper "privgram_trsm_right_upper"(int m, int n, const double* r, int ldr,
                                                      double* b, int ldb)
    # upper triangle of G (n, n) = R with R^T R = G; not 0 if G is not positive definite
    int potrf_upper "privgram_potrf_upper"(int n, double* g)
    # R (n, n) = R^-1, R upper triangular; not 0 if R is singular
    int trtri_upper "privgram_trtri_upper"(int n, double* r)


cdef double MAX_CONDITION = 1e6
cdef double RANK_TOLERANCE = 1e-11


cdef inline Py_ssize_t block_rows(Py_ssize_t k) noexcept nogil:
    """Rows worked on at a time: a quarter MiB, but enough of them for dsyrk."""
    return max(256, 32768 // k)


cdef Py_ssize_t add_noise(
    bitgen_t* bitgen,  # NULL: no noise
    Py_ssize_t m,
    Py_ssize_t k,
    const double* y,
    double noise_std,
    double* z,
    double* peak,
) noexcept nogil:
    """Z = Y + noise_std N, and the largest magnitude in each column of Z.

    N is drawn row by row. Return -1, or the first row of Z that is not finite.
    """
    cdef Py_ssize_t i, j
    cdef double value
    cdef bint finite
    memset(peak, 0, k * sizeof(double))
    for i in range(m):
        if bitgen == NULL:
            memcpy(z, y, k * sizeof(double))
        else:
            random_standard_normal_fill(bitgen, k, z)
            for j in range(k):
                z[j] = y[j] + noise_std * z[j]
        finite = True
        for j in range(k):
            value = fabs(z[j])
            finite &= value <= DBL_MAX
            peak[j] = max(peak[j], value)
        if not finite:
            return i
        y += k
        z += k
    return -1


cdef void scale_columns(Py_ssize_t m, Py_ssize_t k, double* z, double* peak) noexcept nogil:
    """Scale by powers of two to peaks in [1/2, 1); less only if zero or subnormal."""
    cdef Py_ssize_t _i, j
    cdef int exponent
    for j in range(k):
        frexp(peak[j], &exponent)
        peak[j] = ldexp(1.0, min(-exponent, 1023))
    for _i in range(m):
        for j in range(k):
            z[j] *= peak[j]
        z += k


cdef void gram(Py_ssize_t m, Py_ssize_t k, double* z, const double* r, double* g) noexcept nogil:
    """Z = Z R^-1 unless R is NULL, and G = Z^T Z, in one sweep."""
    cdef Py_ssize_t rows
    memset(g, 0, k * k * sizeof(double))
    while m > 0:
        rows = min(m, block_rows(k))
        if r != NULL:
            trsm_right_upper(<int>rows, <int>k, r, <int>k, z, <int>k)
        syrk(<int>rows, <int>k, z, <int>k, g, <int>k)
        z += rows * k
        m -= rows


cdef void multiply(Py_ssize_t m, Py_ssize_t k, double* z, const double* r) noexcept nogil:
    """Z = Z R."""
    cdef Py_ssize_t rows
    while m > 0:
        rows = min(m, block_rows(k))
        trmm_right_upper(<int>rows, <int>k, r, <int>k, z, <int>k)
        z += rows * k
        m -= rows


cdef double squared_condition(Py_ssize_t k, const double* r, double* inverse) noexcept nogil:
    """||R D^-1||_F^2 ||D R^-1||_F^2, D the norms of R's columns: at least cond(R D^-1)^2."""
    cdef Py_ssize_t i, j
    cdef double norm, row, total = 0
    memcpy(inverse, r, k * k * sizeof(double))
    if trtri_upper(<int>k, inverse) != 0:
        return DBL_MAX
    for i in range(k):
        norm = 0
        for j in range(i + 1):
            norm += r[j * k + i] * r[j * k + i]
        row = 0
        for j in range(i, k):
            row += inverse[i * k + j] * inverse[i * k + j]
        total += norm * row
    return k * total


cdef bint cholesky_qr2(
    Py_ssize_t m,
    Py_ssize_t k,
    double* z,     # INOUT (m, k)
    double* r,     # scratch (k, k)
    double* work,  # scratch (k, k)
) noexcept nogil:
    """Orthonormalise Z; or return False, its span as it was, if too near to dependence."""
    gram(m, k, z, NULL, r)
    if potrf_upper(<int>k, r) != 0:
        return False
    if not squared_condition(k, r, work) <= MAX_CONDITION * MAX_CONDITION:
        return False
    # Solving, not multiplying by the inverse, keeps the span to within eps for any condition.
    gram(m, k, z, r, work)
    # This factor is near I (a failure is out of question): here its inverse is as good, and faster.
    if potrf_upper(<int>k, work) != 0 or trtri_upper(<int>k, work) != 0:
        return False
    multiply(m, k, z, work)
    return True


cdef Py_ssize_t gram_schmidt(
    Py_ssize_t m,
    Py_ssize_t k,
    double* z,  # INOUT (m, k), the basis in its leading columns
    double* v,  # scratch (m,)
    double* c,  # scratch (2, k)
) noexcept nogil:
    """Orthonormalise Z column by column and return its rank."""
    cdef Py_ssize_t i, j, start, rows, rank = 0
    cdef int sweep
    cdef double before = 0, after = 0
    cdef double* q
    cdef double* old = c
    cdef double* new = c + k
    for j in range(k):
        for i in range(m):
            v[i] = z[i * k + j]
        # Q the basis so far: c1 = Q^T v; v -= Q c1, c2 = Q^T v; v -= Q c2, in three sweeps.
        for sweep in range(3):
            memset(new, 0, rank * sizeof(double))
            after = 0
            start = 0
            while start < m:
                rows = min(block_rows(k), m - start)
                q = z + start * k
                if sweep > 0 and rank > 0:
                    gemv_subtract(<int>rows, <int>rank, q, <int>k, old, v + start)
                if sweep < 2 and rank > 0:
                    gemv_trans_add(<int>rows, <int>rank, q, <int>k, v + start, new)
                after += square(<int>rows, v + start)
                start += rows
            if sweep == 0:
                before = after
            old, new = new, old
        if after <= RANK_TOLERANCE * RANK_TOLERANCE * before:
            continue
        for i in range(m):
            z[i * k + rank] = v[i] / sqrt(after)
        rank += 1
        if rank == m:
            break
    return rank


def noisy_orthonormalise(
    object bit_generator,      # not used if noise_std is 0
    const double[:, ::1] y,    # IN
    double noise_std,
):
    """An orthonormal basis of the columns of Y + noise, Y tall: the Gram-Schmidt step of [1].

    Gaussian noise of standard deviation `noise_std` is added to every entry, drawn row by row, and
    the columns orthonormalised from left to right. Two ways lead to the same basis (that of a
    triangular factor R with positive diagonal):

    CholeskyQR2 [2], at the speed of dsyrk: G = Z^T Z = R^T R, Z <- Z R^-1, and the same once more.
    The first round leaves an orthogonality error of about eps cond(Z)^2, the second one of about
    eps. Taken if cond(Z), its columns scaled to norm 1, is at most MAX_CONDITION, so that the first
    is below 1e-2; the condition is bounded from R before Z is touched.

    Classical Gram-Schmidt, every column projected twice ("twice is enough" [3]), where the columns
    are closer to dependence than that, or dependent. A column that keeps at most RANK_TOLERANCE of
    its norm is dropped. As the tolerance is far above eps, one projection leaves at most about
    eps / RANK_TOLERANCE of a kept column in the span of those before it, and the second about eps.

    Columns are scaled by powers of two first, which changes neither the basis nor a rounding, and
    squares neither overflow nor vanish.

    [1] Hardt and Roth, Beating randomized response on incoherent matrices, STOC 2012.
    [2] Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, Roundoff error analysis of the CholeskyQR2
        algorithm, Electron. Trans. Numer. Anal. 44 (2015).
    [3] Giraud, Langou, Rozloznik and van den Eshof, Rounding error analysis of the classical
        Gram-Schmidt orthogonalization process, Numer. Math. 101 (2005).
    """
    cdef Py_ssize_t m = y.shape[0], k = y.shape[1], rank, bad
    cdef bitgen_t* bitgen = NULL
    cdef bint done

    if k > INT_MAX:
        raise ValueError(f"y has {k} columns; at most {INT_MAX} are possible")
    if not 0 <= noise_std <= DBL_MAX:
        raise ValueError(f"noise_std must be finite and not negative, not {noise_std}")
    if m == 0 or k == 0:
        return np.empty((m, 0)), 0

    basis = np.empty((m, k))
    cdef double[:, ::1] z = basis
    cdef double[:, ::1] scratch = np.empty((2, k))
    if noise_std > 0:
        bitgen = bitgen_of(bit_generator)
        with bit_generator.lock, nogil:
            bad = add_noise(bitgen, m, k, &y[0, 0], noise_std, &z[0, 0], &scratch[0, 0])
    else:
        with nogil:
            bad = add_noise(NULL, m, k, &y[0, 0], 0, &z[0, 0], &scratch[0, 0])
    if bad >= 0:
        raise ValueError(f"row {bad} of y is not finite, or is not once the noise is added")

    cdef double[:, :, ::1] square_scratch = np.empty((2, k, k))
    with nogil:
        scale_columns(m, k, &z[0, 0], &scratch[0, 0])
        done = cholesky_qr2(m, k, &z[0, 0], &square_scratch[0, 0, 0], &square_scratch[1, 0, 0])
    if done:
        return basis, k

    cdef double[::1] column = np.empty(m)
    with nogil:
        rank = gram_schmidt(m, k, &z[0, 0], &column[0], &scratch[0, 0])
    return basis if rank == k else basis[:, :rank].copy(), rank
