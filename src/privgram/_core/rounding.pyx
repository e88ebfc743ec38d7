"""Whole numbers of 128 bits with noise, rounded to a grid; see `privgram.exact.int128`."""
from libc.stdint cimport int64_t, uint64_t


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    typedef unsigned __int128 u128;

    static inline u128 joined(int64_t high, uint64_t low)
    {
        return (u128)(uint64_t)high << 64 | low;
    }

    /* The multiple of 2^exponent nearest to total 2^shift + noise, counted in grid steps: as
     * int128.round_to_grid does it, to the last bit. */
    static inline double grid_steps(u128 total, u128 noise, int shift, int exponent)
    {
        u128 value = (total << shift) + noise;
        if (exponent)
            value += (u128)1 << (exponent - 1);
        value = (u128)((__int128)value >> exponent);
        const int64_t low = (int64_t)(uint64_t)value;
        const uint64_t high = (uint64_t)(value >> 64) + (low < 0);
        return (double)(int64_t)high * 0x1p64 + (double)low;
    }

    enum { SIDE = 32 }; /* rows of noise: as many lines of cache are written at once */

    static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b)
    {
        return a < b ? a : b;
    }

    /* Entries of total: the lower triangle, row by row; of noise: those right of the diagonal in
     * the rows from `first` to `stop`, row by row. */
    static void noisy_rows(ptrdiff_t d, ptrdiff_t first, ptrdiff_t stop, const int64_t *high,
                           const uint64_t *low, const int64_t *noise_high,
                           const uint64_t *noise_low, int shift, int exponent, double step,
                           double *out)
    {
        const ptrdiff_t before = first * (2 * d - first - 1) / 2;
        for (ptrdiff_t j0 = first; j0 < stop; j0 += SIDE)
            for (ptrdiff_t i = j0 + 1; i < d; i++)
                for (ptrdiff_t j = j0; j < least(least(j0 + SIDE, stop), i); j++) {
                    const ptrdiff_t at = i * (i + 1) / 2 + j;
                    const ptrdiff_t of = j * (2 * d - j - 1) / 2 - before + i - j - 1;
                    out[i * d + j] = out[j * d + i] =
                        step * grid_steps(joined(high[at], low[at]),
                                          joined(noise_high[of], noise_low[of]), shift, exponent);
                }
    }

    static void noisy_diagonal(ptrdiff_t d, const int64_t *high, const uint64_t *low,
                               const int64_t *noise_high, const uint64_t *noise_low, int shift,
                               int exponent, double step, double *out)
    {
        for (ptrdiff_t i = 0; i < d; i++) {
            const ptrdiff_t at = i * (i + 3) / 2;
            out[i * d + i] = step * grid_steps(joined(high[at], low[at]),
                                               joined(noise_high[i], noise_low[i]), shift,
                                               exponent);
        }
    }
    """
    void c_noisy_rows "noisy_rows"(
        Py_ssize_t d, Py_ssize_t first, Py_ssize_t stop, const int64_t* high, const uint64_t* low,
        const int64_t* noise_high, const uint64_t* noise_low,
        int shift, int exponent, double step, double* out,
    ) nogil
    void c_noisy_diagonal "noisy_diagonal"(
        Py_ssize_t d, const int64_t* high, const uint64_t* low,
        const int64_t* noise_high, const uint64_t* noise_low,
        int shift, int exponent, double step, double* out,
    ) nogil


def noisy_rows(total, noise, Py_ssize_t first, Py_ssize_t stop, int shift, int exponent,
               double step, double[:, ::1] out):  # OUT
    """Add noise to some rows of a symmetric matrix, and round; see the stub."""
    cdef const int64_t[::1] high = total[0], noise_high = noise[0]
    cdef const uint64_t[::1] low = total[1], noise_low = noise[1]
    cdef Py_ssize_t d = out.shape[0]
    if not 0 <= first < stop < d:
        raise ValueError(f"no rows from {first} to {stop} have noise right of the diagonal")
    _check([high.shape[0], low.shape[0], noise_high.shape[0], noise_low.shape[0], out.shape[1]],
           d, (stop - first) * (2 * d - first - stop - 1) // 2, shift, exponent)
    with nogil:
        c_noisy_rows(d, first, stop, &high[0], &low[0], &noise_high[0], &noise_low[0], shift,
                     exponent, step, &out[0, 0])


def noisy_diagonal(total, noise, int shift, int exponent, double step,
                   double[:, ::1] out):  # OUT
    """Add noise to the diagonal of a symmetric matrix, and round; see the stub."""
    cdef const int64_t[::1] high = total[0], noise_high = noise[0]
    cdef const uint64_t[::1] low = total[1], noise_low = noise[1]
    cdef Py_ssize_t d = out.shape[0]
    _check([high.shape[0], low.shape[0], noise_high.shape[0], noise_low.shape[0], out.shape[1]],
           d, d, shift, exponent)
    with nogil:
        c_noisy_diagonal(d, &high[0], &low[0], &noise_high[0], &noise_low[0], shift, exponent,
                         step, &out[0, 0])


def _check(sizes, Py_ssize_t d, Py_ssize_t drawn, int shift, int exponent):
    cdef Py_ssize_t triangle = d * (d + 1) // 2
    if d < 1 or sizes != [triangle, triangle, drawn, drawn, d]:
        raise ValueError("the parts must be those of one symmetric matrix")
    if not (0 <= shift < 64 and 0 <= exponent < 127):
        raise ValueError(f"shift {shift} or exponent {exponent} beyond 128 bits")
