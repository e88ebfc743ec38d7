/* AVX2 and FMA: panels of 4 columns, tiles of 4 x 12 in 12 of 16 registers. */
#include <immintrin.h>

#define KERNEL gram_avx2
#define KERNEL_NAME "avx2"
#define W 4
#define TILE_PANELS 3
#define STEP 8
#define EXACT_BITS 51

/* The compiler must keep what was read; see gram_portable.c. */
#define READ_ONCE(x) __asm__("" : "+x"(x))

#include "simd.h"

/* b where either is NaN. */
INLINE vec v_min(vec a, vec b) { return _mm256_min_pd(a, b); }
INLINE vec v_max(vec a, vec b) { return _mm256_max_pd(a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm256_fmadd_pd(a, b, c); }
INLINE vec v_round(vec x) { return _mm256_round_pd(x, 8); }
INLINE int v_exceeds(vec x, vec limit)
{
    return _mm256_movemask_pd(_mm256_cmp_pd(x, limit, _CMP_NLE_UQ));
}

INLINE vec v_widen(floats x) { return _mm256_cvtps_pd(x); }

/* The first n of W items of 8 or 4 bytes, or all where n >= W, zeros after them. */
INLINE __m128i head_mask(ptrdiff_t n)
{
    return _mm_cmpgt_epi32(_mm_set1_epi32((int)n), _mm_setr_epi32(0, 1, 2, 3));
}
INLINE vec v_head(const char *p, ptrdiff_t n)
{
    return _mm256_maskload_pd((const double *)p, _mm256_cvtepi32_epi64(head_mask(n)));
}
INLINE floats v_head_of_4(const char *p, ptrdiff_t n)
{
    return _mm_maskload_ps((const float *)p, head_mask(n));
}

INLINE vec v_clip(vec s, vec bound_sq, vec target, vec scale)
{
    const vec over = _mm256_cmp_pd(s, bound_sq, _CMP_GT_OQ);
    if (!_mm256_movemask_pd(over))
        return scale;
    return _mm256_blendv_pd(scale, _mm256_div_pd(target, _mm256_sqrt_pd(s)), over);
}

/* Lane k of the result is lane k + 1 of x. */
INLINE vec v_rotate(vec x) { return _mm256_permute4x64_pd(x, 0x39); }

/* Lane k: the partial sums of row k folded in half three times. */
INLINE vec v_fold(vec p[W][2])
{
    vec h[4], q[2];
    for (int k = 0; k < 4; k++)
        h[k] = _mm256_add_pd(p[k][0], p[k][1]);
    for (int k = 0; k < 2; k++)
        q[k] = _mm256_add_pd(_mm256_permute2f128_pd(h[k], h[k + 2], 0x20),
                             _mm256_permute2f128_pd(h[k], h[k + 2], 0x31));
    return _mm256_add_pd(_mm256_unpacklo_pd(q[0], q[1]), _mm256_unpackhi_pd(q[0], q[1]));
}

INLINE void v_transpose(vec x[W])
{
    vec t[4];
    for (int k = 0; k < 4; k += 2) {
        t[k] = _mm256_unpacklo_pd(x[k], x[k + 1]);
        t[k + 1] = _mm256_unpackhi_pd(x[k], x[k + 1]);
    }
    for (int k = 0; k < 2; k++) {
        x[k] = _mm256_permute2f128_pd(t[k], t[k + 2], 0x20);
        x[k + 2] = _mm256_permute2f128_pd(t[k], t[k + 2], 0x31);
    }
}

#include "gram_kernel.h"
