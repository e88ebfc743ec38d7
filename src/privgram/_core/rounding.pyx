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

    enum { SIDE = 32 }; /* of a block */

    /* Entries of total: the lower triangle, row by row; of noise: those above the diagonal, row
     * by row, and those on it. Where rows are far apart the next block's are fetched ahead. */
    static void noisy_matrix(ptrdiff_t d, const int64_t *high, const uint64_t *low,
                             const int64_t *above_high, const uint64_t *above_low,
                             const int64_t *diagonal_high, const uint64_t *diagonal_low,
                             int shift, int exponent, double step, double *out)
    {
        for (ptrdiff_t i0 = 0; i0 < d; i0 += SIDE)
            for (ptrdiff_t j0 = 0; j0 <= i0; j0 += SIDE)
                for (ptrdiff_t i = i0; i < i0 + SIDE && i < d; i++)
                    for (ptrdiff_t j = j0; j < j0 + SIDE && j <= i; j++) {
                        const ptrdiff_t at = i * (i + 1) / 2 + j;
                        const ptrdiff_t above = j * (2 * d - j - 1) / 2 + i - j - 1;
                        if (i % 8 == 0 && j + SIDE < i) {
                            const ptrdiff_t ahead = above + SIDE * (2 * d - 2 * j - SIDE - 3) / 2;
                            __builtin_prefetch(above_high + ahead);
                            __builtin_prefetch(above_low + ahead);
                            __builtin_prefetch(out + (j + SIDE) * d + i, 1);
                        }
                        const u128 noise = i == j ? joined(diagonal_high[i], diagonal_low[i])
                                                  : joined(above_high[above], above_low[above]);
                        out[i * d + j] = out[j * d + i] =
                            grid_steps(joined(high[at], low[at]), noise, shift, exponent) * step;
                    }
    }
    """
    void c_noisy_matrix "noisy_matrix"(
        Py_ssize_t d, const int64_t* high, const uint64_t* low,
        const int64_t* above_high, const uint64_t* above_low,
        const int64_t* diagonal_high, const uint64_t* diagonal_low,
        int shift, int exponent, double step, double* out,
    ) nogil


def noisy_matrix(total, above, diagonal, int shift, int exponent, double step,
                 double[:, ::1] out):  # OUT
    """Add noise to the lower triangle of a symmetric matrix, and round; see the stub."""
    cdef const int64_t[::1] high = total[0], above_high = above[0], diagonal_high = diagonal[0]
    cdef const uint64_t[::1] low = total[1], above_low = above[1], diagonal_low = diagonal[1]
    cdef Py_ssize_t d = out.shape[0], below = d * (d - 1) // 2
    sizes = [high.shape[0], low.shape[0], above_high.shape[0], above_low.shape[0],
             diagonal_high.shape[0], diagonal_low.shape[0], out.shape[1]]
    if d < 1 or sizes != [below + d, below + d, below, below, d, d, d]:
        raise ValueError("the parts must be those of one symmetric matrix")
    if not (0 <= shift < 64 and 0 <= exponent < 127):
        raise ValueError(f"shift {shift} or exponent {exponent} beyond 128 bits")
    with nogil:
        c_noisy_matrix(d, &high[0], &low[0], &above_high[0], &above_low[0], &diagonal_high[0],
                       &diagonal_low[0], shift, exponent, step, &out[0, 0])
