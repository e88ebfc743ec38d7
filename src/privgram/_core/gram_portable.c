/* Any machine, by the vector extensions of GCC and Clang: SSE2 on x86-64, NEON
 * on aarch64. */
#define KERNEL gram_portable
#define KERNEL_NAME "portable"
#define KERNEL_TILES gram_portable_tiles
#define W 4
#ifdef __aarch64__
#define TILE_PANELS 3 /* 24 of 32 registers of two doubles */
#else
#define TILE_PANELS 1 /* 8 of 16 */
#endif
#define EXACT_BITS 51

/* The compiler must keep what was read: short of registers it would read again, what
 * another thread may have changed since. */
#define READ_ONCE(x) __asm__("" : "+m"(x))

#include "simd.h"

/* b where either is NaN. */
INLINE vec v_select(longs which, vec a, vec b)
{
    return (vec)(((longs)a & which) | ((longs)b & ~which));
}
INLINE vec v_min(vec a, vec b) { return v_select((longs)(a < b), a, b); }
INLINE vec v_max(vec a, vec b) { return v_select((longs)(a > b), a, b); }
INLINE vec v_fma(vec a, vec b, vec c) { return a * b + c; } /* integers: exact either way */
/* To nearest, ties to even, for |x| < 2^51. */
INLINE vec v_round(vec x) { return (x + v_set(0x1.8p52)) - v_set(0x1.8p52); }
INLINE int v_exceeds(vec x, vec limit)
{
    int mask = 0;
    for (int k = 0; k < W; k++)
        mask |= !(x[k] <= limit[k]) << k;
    return mask;
}

INLINE vec v_widen(floats x) { return __builtin_convertvector(x, vec); }

/* The first n of W items of 8 or 4 bytes, or all where n >= W, zeros after them. */
INLINE vec v_head(const char *p, ptrdiff_t n)
{
    vec x = v_zero();
    memcpy(&x, p, (size_t)(n < W ? n : W) * 8);
    return x;
}
INLINE floats v_head_of_4(const char *p, ptrdiff_t n)
{
    floats x = {0};
    memcpy(&x, p, (size_t)(n < W ? n : W) * 4);
    return x;
}

INLINE vec v_clip(vec s, vec bound_sq, vec target, vec scale)
{
    for (int k = 0; k < W; k++)
        if (s[k] > bound_sq[k])
            scale[k] = target[k] / sqrt(s[k]);
    return scale;
}

/* Lane k of the result is lane k + 1 of x. */
INLINE vec v_rotate(vec x) { return (vec){x[1], x[2], x[3], x[0]}; }

/* Lane k: the partial sums of row k folded in half three times. */
INLINE vec v_fold(vec p[W][2])
{
    vec s;
    for (int k = 0; k < W; k++) {
        const vec h = p[k][0] + p[k][1];
        s[k] = (h[0] + h[2]) + (h[1] + h[3]);
    }
    return s;
}

INLINE void v_transpose(vec x[W])
{
    vec t[W];
    for (int k = 0; k < W; k++)
        t[k] = (vec){x[0][k], x[1][k], x[2][k], x[3][k]};
    for (int k = 0; k < W; k++)
        x[k] = t[k];
}

#include "gram_kernel.h"
