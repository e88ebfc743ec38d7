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

/* Of W packed rows from r on, times f, the digits of 16 columns, to be at row `at` of those
 * that wait. */
static __attribute__((noinline)) void split(gram *g, ptrdiff_t r, const double f[W], ptrdiff_t at,
                                            ptrdiff_t tile)
{
    const ptrdiff_t first = tile * (TILE_COLUMNS / W);
    const double *q = g->packed + first * g->panel_stride + r * W;
    int8_t *to = digit_room_at(g->digits, g->d).units[g->side]
                 + at / TILE_ROWS * digit_stride(digit_tiles(g->d)) + tile * UNIT
                 + at % TILE_ROWS * TILE_COLUMNS;
UNROLL
    for (int k = 0; k < W; k += 4, to += 4 * TILE_COLUMNS) {
        u32x16 u[4];
        i8x64 x[3], *out = (i8x64 *)to;
UNROLL
        for (int i = 0; i < 4; i++)
            sixteen(g, q + (k + i) * W, g->panels - first, v_set(f[k + i]), &u[i]);
UNROLL
        for (int i = 0; i < 3; i++)
            digits_of(u, i, &x[i]);
        out[0] = x[0];
        out[TILE / 64] = x[1];
        out[2 * TILE / 64] = x[2];
        out[3 * TILE / 64] = x[0] + x[1];
        out[4 * TILE / 64] = x[0] + x[2];
        out[5 * TILE / 64] = x[1] + x[2];
    }
}

/* Packed rows that are quantised, added to those that wait. */
static void split_block(gram *g, ptrdiff_t rows, fetch *ahead)
{
    double one[W];
    for (int k = 0; k < W; k++)
        one[k] = 1;
    if (g->waiting + rows > DIGIT_ROWS)
        g->kernel->settle(g, NULL);
    for (ptrdiff_t r = 0; r < rows; r += W, g->waiting += W)
        for (ptrdiff_t tile = 0; tile < digit_tiles(g->d); tile++) {
            fetch_to(ahead, 0);
            split(g, r, one, g->waiting, tile);
        }
}

/* A table that is packed as digits, block by block: at once until there are DIGIT_ROWS, then what
 * follows while these are multiplied. */
typedef struct {
    digit_feed feed;
    gram *g;
    const gram_table *x;
    pack_function *pack;
    int drop;
    ptrdiff_t start, most; /* the next row, and rows of a block */
    ptrdiff_t bad;         /* -1, or the first row that cannot be added */
    fetch ahead;

    /* The packed block is split piece by piece, of W rows and 16 columns. */
    ptrdiff_t piece, pieces; /* the next one, and how many there are */
    ptrdiff_t at;            /* where its rows begin among those that wait */
    ptrdiff_t due;           /* steps until the next block */
    double factors[NEAR_ROWS + W] __attribute__((aligned(64)));
} feeder;

static void split_next(feeder *f)
{
    const ptrdiff_t tiles = digit_tiles(f->g->d), r = f->piece / tiles * W;
    split(f->g, r, f->factors + r, f->at + r, f->piece % tiles);
    f->piece++;
}

/* Pack the next block of a table, to be split. */
static void feed_block(feeder *f)
{
    gram *g = f->g;
    const ptrdiff_t left = f->x->n - f->start;
    const ptrdiff_t count = left < f->most ? left : f->most, rows = (count + W - 1) / W * W;
    if (f->bad >= 0 || count <= 0 || g->waiting + rows > DIGIT_ROWS)
        return;
    fetch nothing = {.left = 1};
    const ptrdiff_t bad = f->pack(g, f->x, f->start, count, f->drop, &nothing);
    if (bad >= 0) {
        f->bad = f->start + bad;
        return;
    }
    f->pieces = rows / W * digit_tiles(g->d);
    f->piece = 0;
    f->at = g->waiting;
    f->start += count;
    g->waiting += rows;
    g->pending_rows += count;
    count_rows(g, count);
    f->ahead = plan_fetch(f->x, f->start, left - count < f->most ? left - count : f->most,
                          f->feed.steps ? f->feed.steps : f->pieces);
}

static void feed_finish(digit_feed *feed)
{
    feeder *f = (feeder *)feed;
    while (f->piece < f->pieces) {
        fetch_to(&f->ahead, 0);
        split_next(f);
    }
    f->ahead.per_step = 0; /* the next block is there */
}

static void feed_work(digit_feed *feed)
{
    feeder *f = (feeder *)feed;
    fetch_to(&f->ahead, 0);
    f->due--;
    if (f->piece < f->pieces) {
        split_next(f);
    } else if (f->due <= 0) {
        f->due += feed->steps;
        feed_block(f);
    }
}

static ptrdiff_t update_digits(gram *g, const gram_table *x, int drop)
{
    const ptrdiff_t near = x->columns ? NEAR_ROWS : g->d <= 128 ? GROUPS * W : 2 * W;
    feeder f = {
        .feed = {.work = feed_work, .finish = feed_finish},
        .g = g,
        .x = x,
        .pack = pack_of(g, x),
        .drop = drop,
        .most = near < g->block_rows ? near : g->block_rows,
        .bad = -1,
        .ahead = {.left = 1},
    };
    f.feed.blocks = DIGIT_ROWS / f.most;
    g->factors = f.factors;
    while (f.bad < 0 && f.start < x->n) {
        if (g->pending_rows + 2 * DIGIT_ROWS > g->flush_rows)
            gram_flush(g);
        if (g->waiting + f.most > DIGIT_ROWS) {
            f.due = 0;
            g->kernel->settle(g, &f.feed);
        } else {
            feed_block(&f);
            feed_finish(&f.feed);
        }
    }
    g->factors = NULL;
    return f.bad;
}
