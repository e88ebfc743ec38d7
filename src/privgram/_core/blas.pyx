"""The private OpenBLAS: its threads, what it is, and the Wishart noise that is written over it.

Matrices are row-major, ld* apart; only the named triangle of a triangular matrix is touched.
"""
from libc.float cimport DBL_EPSILON
from libc.math cimport fabs, isfinite, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memset
from cython cimport view
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport random_chisquare, random_standard_normal_fill

from privgram._core._bitgen cimport bitgen_of

cdef extern from "_blas.h" nogil:
    # B (m, n) = L B, L lower triangular
    void trmm_lower "privgram_trmm_lower"(int m, int n, const double* l, int ldl,
                                          double* b, int ldb)
    # upper triangle of U (n, n) = U U^T, U upper triangular
    void lauum_upper "privgram_lauum_upper"(int n, double* u)

    void privgram_set_num_threads(int n)
    int privgram_get_num_threads()
    const char* privgram_get_config()


def set_num_threads(int n):
    privgram_set_num_threads(n)


def get_num_threads():
    return privgram_get_num_threads()


def config():
    return privgram_get_config().decode()


cdef enum:
    # Columns of A multiplied at a time: enough for BLAS, few enough to skip most zeros above.
    PANEL = 128
    # Rows mirrored together: as many as fill a cache line when they turn into columns.
    BAND = 8


cdef void draw_upper(bitgen_t* bitgen, double k, Py_ssize_t d, double* u) noexcept nogil:
    """U of [1], reversed. Order of draws: row by row, the chi^2, then the normals after it."""
    cdef Py_ssize_t i
    for i in range(d):
        u[i * d + i] = sqrt(random_chisquare(bitgen, k - (d - 1 - i)))
        random_standard_normal_fill(bitgen, d - 1 - i, u + i * d + i + 1)


cdef void reverse(Py_ssize_t n, double* x) noexcept nogil:
    """x = x[::-1]; for a contiguous matrix M, M = J M J."""
    cdef Py_ssize_t i
    cdef double last
    for i in range(n // 2):
        last = x[n - 1 - i]
        x[n - 1 - i] = x[i]
        x[i] = last


cdef void multiply_lower(Py_ssize_t d, const double* chol, double* a) noexcept nogil:
    """A = L A, both lower triangular: column j of either starts at row j."""
    cdef Py_ssize_t j = 0
    while j < d:
        trmm_lower(<int>(d - j), <int>min(PANEL, d - j), chol + j * (d + 1), <int>d,
                   a + j * (d + 1), <int>d)
        j += PANEL


cdef void column_sums(Py_ssize_t d, const double* a, double* sums) noexcept nogil:
    """Sums of the columns of an upper triangle."""
    cdef Py_ssize_t i, j
    memset(sums, 0, d * sizeof(double))
    for i in range(d):
        for j in range(i, d):
            sums[j] += a[i * d + j]


cdef double square_of(Py_ssize_t d, const double* u, double* sums) noexcept nogil:
    """|U^T 1|^2."""
    cdef Py_ssize_t j
    cdef double total = 0
    column_sums(d, u, sums)
    for j in range(d):
        total += sums[j] * sums[j]
    return total


cdef bint is_off(Py_ssize_t d, const double* w, double expected, double* sums) noexcept nogil:
    """Whether 1^T W 1, of the upper triangle of W = U U^T, differs from |U^T 1|^2.

    By more than rounding can: |U| |U|^T has no sum beyond (sum_i W_ii^(1/2))^2.
    """
    cdef Py_ssize_t j
    cdef double total = 0, root = 0
    column_sums(d, w, sums)
    for j in range(d):
        total += 2 * sums[j] - w[j * d + j]
        root += sqrt(fabs(w[j * d + j]))
    cdef double rounding = 8 * (d + 8) * DBL_EPSILON * root * root
    return isfinite(expected) and not fabs(total - expected) <= rounding


cdef void mirror_upper(Py_ssize_t d, double* w) noexcept nogil:
    """W_ji = W_ij for i < j, in bands of rows so that both sides stay in cache."""
    cdef Py_ssize_t i, j, top = 0
    while top < d:
        for j in range(top + 1, d):
            for i in range(top, min(top + BAND, j)):
                w[j * d + i] = w[i * d + j]
        top += BAND


def is_product(const double[:, ::1] w, const double[:, ::1] u):
    """Whether W can be U U^T, both upper triangles of one order: the check that draws pass."""
    cdef Py_ssize_t d = u.shape[0]
    if not d == u.shape[1] == w.shape[0] == w.shape[1]:
        raise ValueError("both must be square, and of one order")
    cdef double[::1] sums = view.array((max(d, 1),), sizeof(double), "d")
    return d == 0 or not is_off(d, &w[0, 0], square_of(d, &u[0, 0], &sums[0]), &sums[0])


def wishart(
    object bit_generator,
    double k,
    const double[:, ::1] cholesky,  # IN, lower triangle of L; None for the identity
    double[:, ::1] out,             # OUT
):
    """Bartlett's sampler of the Wishart distribution W_d(V, k), k > d - 1 real, in O(d^3).

    Bartlett (1933): with A lower triangular, independent entries, A_ii^2 ~ chi^2_{k-i} from i = 0
    and A_ij ~ N(0, 1) below the diagonal, A A^T ~ W_d(I, k), and for V = L L^T

        (L A) (L A)^T ~ W_d(V, k).

    It is L A A^T L^T, for any L with L L^T = V; D^T B D with the same L has another distribution.

    LAPACK multiplies a triangle with its own transpose, at the speed of BLAS-3 and for d^3/3 flops,
    only as U U^T with U upper triangular. Let J reverse the order of the coordinates. U = J A J is
    upper triangular, U_ii^2 ~ chi^2_{k-(d-1-i)}, and as J J = I

        U U^T = J (A A^T) J,    (L A) (L A)^T = J (U' U'^T) J    where U' = J (L A) J.

    The first is W_d(J J, k) = W_d(I, k) again: for the identity, U is drawn and multiplied. In
    general J stands on both sides, which for a contiguous matrix reverses its memory.

    The product is checked: 1^T (U U^T) 1 = |U^T 1|^2. There are builds of OpenBLAS that multiply
    triangles of more than 64 columns wrongly on ARM (docs/project/packaging.md), and noise that is
    not what it is said to be protects nobody.

    [1] Bartlett, On the theory of statistical regression, Proc. R. Soc. Edinb. 53 (1933).
    [2] Smith and Hocking, Algorithm AS 53: Wishart variate generator, Appl. Stat. 21 (1972).
    """
    cdef bitgen_t* bitgen = bitgen_of(bit_generator)
    cdef Py_ssize_t d = out.shape[0]  # fits an int, as d * d doubles fit the memory
    cdef bint identity = cholesky is None

    if out.shape[1] != d:
        raise ValueError(f"out must be square, not ({d}, {out.shape[1]})")
    if not identity and (cholesky.shape[0] != d or cholesky.shape[1] != d):
        raise ValueError(
            f"cholesky must have the shape of out, ({d}, {d}),"
            f" not ({cholesky.shape[0]}, {cholesky.shape[1]})"
        )
    if not d - 1 < k < float("inf"):
        raise ValueError(f"k must be finite and above d - 1 = {d - 1}, not {k}")
    if d == 0:
        return

    cdef double* w = &out[0, 0]
    cdef double expected
    cdef bint off
    cdef double* sums = <double*>malloc(d * sizeof(double))
    if sums == NULL:
        raise MemoryError
    with bit_generator.lock, nogil:
        if not identity:
            memset(w, 0, d * d * sizeof(double))
        draw_upper(bitgen, k, d, w)
    with nogil:
        if not identity:
            reverse(d * d, w)
            multiply_lower(d, &cholesky[0, 0], w)
            reverse(d * d, w)
        expected = square_of(d, w, sums)
        lauum_upper(<int>d, w)
        off = is_off(d, w, expected, sums)
        free(sums)
        mirror_upper(d, w)
        if not identity:
            reverse(d * d, w)
    if off:
        out[:] = float("nan")
        raise ArithmeticError(
            "the BLAS of this machine multiplies a triangle wrongly, so noise would not be what it "
            "is said to be, and none was drawn: choose other kernels of OpenBLAS, on ARM by "
            "OPENBLAS_CORETYPE=ARMV8 in the environment"
        )
