/* From packed rows to digits, for each instruction set: see gram_digits.h.  A part of
 * gram_kernel.h. */
enum { NEAR_ROWS = 64 }; /* of a block, at most: they are read again while they are near */

/* The entries of a row in panels q and after it, times f, from the first of 16 columns. */
INLINE void sixteen(const gram *g, const double *q, ptrdiff_t panels, vec f, u32x16 *out)
{
    const vec offset = v_set(0x1.8p52 + 64 * (1 + (1 << 7) + (1 << 14)));
#if W == 8
    const vec x = v_add(v_mul(v_load(q), f), offset);
    const vec y = panels > 1 ? v_add(v_mul(v_load(q + g->panel_stride), f), offset) : offset;
    *out = SHUFFLE(u32x16, (u32x16)x, (u32x16)y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
#else
    for (int k = 0; k < 4; k++) {
        const vec x = k < panels ? v_add(v_mul(v_load(q + k * g->panel_stride), f), offset) : offset;
        for (int i = 0; i < 4; i++)
            (*out)[4 * k + i] = (uint32_t)((longs)x)[i];
    }
#endif
}

/* A digit of 4 rows, as bytes. */
INLINE void digits_of(const u32x16 u[4], const int digit, i8x64 *out)
{
    u32x16 w = {0};
UNROLL
    for (int r = 0; r < 4; r++) {
        const int up = 8 * r - 7 * digit;
        const u32x16 x = up < 0 ? u[r] >> (up < 0 ? -up : 0) : u[r] << (up < 0 ? 0 : up);
        const uint32_t mask = (digit == 2 ? 255u : 127u) << 8 * r;
#ifdef __AVX512F__
        w = (u32x16)_mm512_ternarylogic_epi32((__m512i)w, (__m512i)x,
                                              _mm512_set1_epi32((int)mask), 0xf8);
#else
        w |= x & mask;
#endif
    }
    *out = (i8x64)((u8x64)w - 64);
}

/* Of W packed rows, times f, the digits of 16 columns from panel `first` on. */
INLINE void split(const gram *g, const double *q, ptrdiff_t panels, const double f[W], int8_t *to)
{
UNROLL
    for (int k = 0; k < W; k += 4, to += 4 * TILE_COLUMNS) {
        u32x16 u[4];
        i8x64 x[3], *out = (i8x64 *)to;
UNROLL
        for (int i = 0; i < 4; i++)
            sixteen(g, q + (k + i) * W, panels, v_set(f[k + i]), &u[i]);
UNROLL
        for (int i = 0; i < 3; i++)
            digits_of(u, i, &x[i]);
        out[0] = x[0];
        out[TILE / 64] = x[1];
        out[2 * TILE / 64] = x[2];
    }
}

/* Packed rows, times factors if they are not quantised, added to those that wait. */
static void split_block(gram *g, ptrdiff_t rows, const double *factors, fetch *ahead)
{
    double one[W];
    for (int k = 0; k < W; k++)
        one[k] = 1;
    if (g->waiting + rows > DIGIT_ROWS)
        g->kernel->settle(g);
    const ptrdiff_t tiles = digit_tiles(g->d), each = TILE_COLUMNS / W;
    int8_t *const units = digit_room_at(g->digits, g->d).units;
    for (ptrdiff_t r = 0; r < rows; r += W, g->waiting += W) {
        const double *f = factors ? factors + r : one, *q = g->packed + r * W;
        int8_t *to = units + g->waiting / TILE_ROWS * digit_stride(tiles)
                     + g->waiting % TILE_ROWS * TILE_COLUMNS;
        for (ptrdiff_t left = g->panels; left > 0; left -= each) {
            fetch_to(ahead, 0);
            if (left >= each)
                split(g, q, each, f, to);
            else
                split(g, q, left, f, to);
            q += each * g->panel_stride;
            to += UNIT;
        }
    }
}

static ptrdiff_t update_digits(gram *g, const gram_table *x, int drop)
{
    double factors[NEAR_ROWS + W] __attribute__((aligned(64)));
    pack_function *const pack_block = pack_of(g, x);
    const ptrdiff_t near = x->columns ? NEAR_ROWS : W;
    const ptrdiff_t most = near < g->block_rows ? near : g->block_rows;
    ptrdiff_t bad = -1;
    g->factors = factors;
    for (ptrdiff_t start = 0; start < x->n && bad < 0; start += most) {
        const ptrdiff_t left = x->n - start - most, count = left < 0 ? x->n - start : most;
        const ptrdiff_t rows = (count + W - 1) / W * W;
        fetch nothing = {.left = 1};
        if (g->pending_rows + 2 * DIGIT_ROWS > g->flush_rows)
            gram_flush(g);
        bad = pack_block(g, x, start, count, drop, &nothing);
        if (bad >= 0) {
            bad += start;
            break;
        }
        fetch ahead = plan_fetch(x, start + count, left < most ? left : most,
                                 rows / W * digit_tiles(g->d));
        split_block(g, rows, factors, &ahead);
        g->pending_rows += count;
        count_rows(g, count);
    }
    g->factors = NULL;
    return bad;
}
