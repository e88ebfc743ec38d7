/* AVX-512: panels of 8 columns, tiles of 8 x 24 in 24 of 32 registers. */
#include <immintrin.h>

#define KERNEL gram_avx512
#define KERNEL_NAME "avx512"
#define KERNEL_TILES gram_avx512_tiles
#define W 8
#define TILE_PANELS 3
#define EXACT_BITS 53

/* The compiler must keep what was read; see gram_portable.c. */
#define READ_ONCE(x) __asm__("" : "+v"(x))

#include "simd.h"

/* b where either is NaN. */
INLINE vec v_min(vec a, vec b) { return _mm512_min_pd(a, b); }
INLINE vec v_max(vec a, vec b) { return _mm512_max_pd(a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return _mm512_fmadd_pd(a, b, c); }
INLINE vec v_round(vec x) { return _mm512_roundscale_pd(x, 8); }
INLINE int v_exceeds(vec x, vec limit) { return _mm512_cmp_pd_mask(x, limit, _CMP_NLE_UQ); }

INLINE vec v_widen(floats x) { return _mm512_cvtps_pd(x); }

/* The first n of W items of 8 or 4 bytes, or all where n >= W, zeros after them. */
INLINE vec v_head(const char *p, ptrdiff_t n)
{
    return _mm512_maskz_loadu_pd((__mmask8)((1 << n) - 1), p);
}
INLINE floats v_head_of_4(const char *p, ptrdiff_t n)
{
    /* By a 512-bit load: its mask is AVX-512F's. */
    return _mm512_castps512_ps256(_mm512_maskz_loadu_ps((__mmask16)((1 << n) - 1) & 0xff, p));
}

INLINE vec v_clip(vec s, vec bound_sq, vec target, vec scale)
{
    const __mmask8 over = _mm512_cmp_pd_mask(s, bound_sq, _CMP_GT_OQ);
    return over ? _mm512_mask_div_pd(scale, over, target, _mm512_sqrt_pd(s)) : scale;
}

INLINE void v_accumulate(int64_t *sum, vec x)
{
    __m512i *at = (__m512i *)sum;
    _mm512_store_si512(at, _mm512_add_epi64(_mm512_load_si512(at), _mm512_cvtpd_epi64(x)));
}

/* Lane k of the result is lane k + 1 of x. */
INLINE vec v_rotate(vec x)
{
    const __m512i n = _mm512_castpd_si512(x);
    return _mm512_castsi512_pd(_mm512_alignr_epi64(n, n, 1));
}

/* Lane k: the partial sums of row k folded in half three times. */
INLINE vec v_fold(vec p[W][1])
{
    vec h[4], q[2];
    for (int k = 0; k < 4; k++) {
        /* Rows 0 2, 4 6, 1 3, 5 7: the unpacking at the end interleaves them. */
        const int row = 4 * (k & 1) + (k >> 1);
        const vec a = p[row][0], b = p[row + 2][0];
        h[k] = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
    }
    for (int k = 0; k < 2; k++)
        q[k] = _mm512_add_pd(_mm512_shuffle_f64x2(h[2 * k], h[2 * k + 1], 0x88),
                             _mm512_shuffle_f64x2(h[2 * k], h[2 * k + 1], 0xdd));
    return _mm512_add_pd(_mm512_unpacklo_pd(q[0], q[1]), _mm512_unpackhi_pd(q[0], q[1]));
}

INLINE void v_transpose(vec x[W])
{
    vec t[8], u[8];
    for (int k = 0; k < 8; k += 2) {
        t[k] = _mm512_unpacklo_pd(x[k], x[k + 1]);
        t[k + 1] = _mm512_unpackhi_pd(x[k], x[k + 1]);
    }
    for (int k = 0; k < 2; k++) {
        u[k] = _mm512_shuffle_f64x2(t[k], t[k + 2], 0x88);
        u[k + 2] = _mm512_shuffle_f64x2(t[k], t[k + 2], 0xdd);
        u[k + 4] = _mm512_shuffle_f64x2(t[k + 4], t[k + 6], 0x88);
        u[k + 6] = _mm512_shuffle_f64x2(t[k + 4], t[k + 6], 0xdd);
    }
    for (int k = 0; k < 4; k++) {
        x[k] = _mm512_shuffle_f64x2(u[k], u[k + 4], 0x88);
        x[k + 4] = _mm512_shuffle_f64x2(u[k], u[k + 4], 0xdd);
    }
}

#include "gram_kernel.h"

#ifdef GRAM_AMX
/* The same, but that rows wait for the tiles of gram_amx.c. */
void gram_amx_settle(gram *);
int gram_amx_is_permitted(void);

const gram_kernel gram_amx = {"amx", KERNEL_PARTS, gram_amx_settle, gram_amx_is_permitted, 72, 128};
#endif
