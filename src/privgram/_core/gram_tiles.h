/* Rows that wait as digits, multiplied and added to the sums of an accumulator: see
 * gram_digits.h.  Included by a file that defines W, the width of the accumulator's panels,
 * and the operations on tiles; without them, they are these in plain C:
 *
 *   DECLARE_TILES declares eight tiles, of which 0 to 3 are sums; BEGIN_TILES and END_TILES stand
 *   around their use; TILE_ZERO(c), TILE_LOAD(t, p), TILE_STORE(c, p) and TILE_DOT(c, a, b), which adds a times b to c: over k the products of
 *   a[row][k] and b[k / 4][column][k % 4]. */
#include <string.h>

#include "gram_digits.h"

#ifndef DECLARE_TILES
typedef struct {
    const int8_t *at[8];
    int32_t sums[4][256];
} plain_tiles;

static void plain_dot(int32_t *c, const int8_t *a, const int8_t *b)
{
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++)
                for (int i = 0; i < 4; i++)
                    c[16 * r + j] += a[64 * r + 4 * k + i] * b[64 * k + 4 * j + i];
}

#define DECLARE_TILES plain_tiles tiles
#define BEGIN_TILES() ((void)0)
#define END_TILES() ((void)0)
#define TILE_ZERO(c) memset(tiles.sums[c], 0, sizeof tiles.sums[c])
#define TILE_LOAD(t, p) (tiles.at[t] = (p))
#define TILE_STORE(c, p) memcpy(p, tiles.sums[c], sizeof tiles.sums[c])
#define TILE_DOT(c, a, b) plain_dot(tiles.sums[c], tiles.at[a], tiles.at[b])
#endif

/* Sums of integers of 64 bits as the accumulator keeps them. */
typedef int64_t sum_lanes __attribute__((vector_size(8 * W), may_alias));
typedef int64_t i64x8 __attribute__((vector_size(64), may_alias));
typedef int32_t i32x8 __attribute__((vector_size(32), may_alias));

typedef struct {
    gram *g;
    ptrdiff_t tiles, blocks, stride; /* of columns, and of rows; of units */
    const int8_t *units;
    int8_t *left;
    digit_feed *feed; /* or NULL */

    /* Sums that are still to be added, a row at a time, for each pair of tiles of columns from i
     * on those of (i, j), (i, j + 1), (i + 1, j), (i + 1, j + 1); but for the rows from `gap` on,
     * the last 16 of the diagonal. */
    const int32_t *sums;
    ptrdiff_t i, j, row, rows, gap;

    /* Lines to be fetched ahead, so many at a time, from units one after the other. */
    const int8_t *ahead;
    ptrdiff_t lines, per_step;
} product;

/* Row r of the columns of tile i and of those of tile j: where its sums are. */
static inline int64_t *sums_of(const gram *g, ptrdiff_t i, ptrdiff_t j, ptrdiff_t r)
{
    return g->tiles + gram_tile((TILE_COLUMNS * i + r) / W, TILE_COLUMNS * j / W, W) + r % W * W;
}

/* 16 sums of q q^T from those of the planes. */
static inline void combine(const int32_t *at, i64x8 out[2])
{
#define PLANE(p) (*(const i32x16 *)(at + (p) * SUMS))
    const i32x16 l = PLANE(0), m = PLANE(1), h = PLANE(2);
    const i32x16 lm = PLANE(3) - l - m, lh = PLANE(4) - l - h + m, mh = PLANE(5) - m - h;
#undef PLANE
    const i32x16 low = l + 128 * lm, high = lh + 128 * mh;
    for (int k = 0; k < 2; k++)
        out[k] = __builtin_convertvector(((const i32x8 *)&low)[k], i64x8)
                 + __builtin_convertvector(((const i32x8 *)&high)[k], i64x8) * (1 << 14)
                 + __builtin_convertvector(((const i32x8 *)&h)[k], i64x8) * (1 << 28);
}

/* Add the next row of what is still to be added; of sums that are shared, those of one tile of
 * columns i, a strip, under its lock, for which `wait` says whether to wait. */
static inline __attribute__((always_inline)) void add_row(product *t, const int wait)
{
    gram *const g = t->g;
    const ptrdiff_t pair = t->row / 64, row = t->row % 64;
    const ptrdiff_t i = t->i + 2 * pair + row / 32, j = t->j + row / 16 % 2;
    const int is_there = (TILE_COLUMNS * i + row % 16) / W < g->panels;
    if (g->shared && row % 32 == 0 && is_there) {
        if (wait)
            gram_open_strip(g, i, 0);
        else if (!gram_try_strip(g, i))
            return;
    }
    if (is_there) {
        i64x8 sum[2];
        combine(t->sums + pair * (PLANES * SUMS) + 16 * row, sum);
        int64_t *to = sums_of(g, i, j, row % 16);
        for (int k = 0; k < TILE_COLUMNS / W; k++, to += W * W)
            *(sum_lanes *)to += ((const sum_lanes *)sum)[k];
    }
    if (++t->row == t->gap)
        t->row += 16;
    if (g->shared && t->row % 32 == 0 && TILE_COLUMNS * i / W < g->panels)
        gram_close_strip(g, i);
}

/* What is done while tiles are multiplied. */
static inline __attribute__((always_inline)) void work(product *t)
{
    if (t->feed)
        t->feed->work(t->feed);
    for (ptrdiff_t k = 0; k < t->per_step; k++, t->ahead += 64) {
        __builtin_prefetch(t->ahead, 0, 2);
        if (--t->lines == 0) {
            t->lines = 2 * UNIT / 64;
            t->ahead += t->stride - 2 * UNIT;
        }
    }
    if (t->row < t->rows)
        add_row(t, 0);
}

static void add_rest(product *t)
{
    while (t->row < t->rows)
        add_row(t, 1);
}

/* A tile on the diagonal: its lower triangle, as tile() in gram_kernel.h leaves it. */
static void add_diagonal(const product *t, const int32_t *sums, ptrdiff_t i)
{
    gram *g = t->g;
    if (g->shared)
        gram_open_strip(g, i, t->blocks * TILE_ROWS);
    for (int r = 0; r < TILE_COLUMNS && TILE_COLUMNS * i + r < g->d; r++) {
        int64_t sum[TILE_COLUMNS] __attribute__((aligned(64)));
        combine(sums + 16 * r, (i64x8 *)sum);
        int64_t *to = sums_of(g, i, i, r), *block = to + r / W * W * W - r % W * W;
        for (int c = 0; c < r / W * W; c++)
            to[c / W * W * W + c % W] += sum[c];
        for (int c = 0, down = r % W; down >= 0; c++, down--)
            block[down <= W / 2 ? down * W + c : (W - down) * W + r % W] += sum[r / W * W + c];
    }
    if (g->shared)
        gram_close_strip(g, i);
}

/* The compiler does not know what tile operations read and write. */
#define SETTLED() __asm__ volatile("" ::: "memory")

/* Products of one or two tiles of a plane, m, from the left factor with one or two, n, from the
 * right one into `sums`. */
static inline __attribute__((always_inline)) void block(product *t, const int8_t *left,
                                                        const int8_t *right, int32_t *sums,
                                                        const int m, const int n,
                                                        const int diagonal)
{
    DECLARE_TILES;
    const ptrdiff_t plane = t->blocks * TILE, stride = t->stride;
    SETTLED();
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (const int8_t *end = left + plane; left < end; left += TILE, right += stride) {
        TILE_LOAD(4, left);
        TILE_LOAD(6, right);
        TILE_DOT(0, 4, 6);
        if (n == 2) {
            TILE_LOAD(7, right + UNIT);
            if (!diagonal)
                TILE_DOT(1, 4, 7);
        }
        if (m == 2) {
            TILE_LOAD(5, left + PLANES * plane);
            TILE_DOT(2, 5, 6);
            TILE_DOT(3, 5, 7);
        }
        work(t);
    }
    TILE_STORE(0, sums);
    TILE_STORE(1, sums + 256);
    TILE_STORE(2, sums + 512);
    TILE_STORE(3, sums + 768);
    SETTLED();
}

#define TILE_BLOCK(m, n, diagonal) \
    static __attribute__((noinline)) void block_##m##_##n##_##diagonal( \
        product *t, const int8_t *left, const int8_t *right, int32_t *sums) \
    { \
        block(t, left, right, sums, m, n, diagonal); \
    }
TILE_BLOCK(2, 2, 0)
TILE_BLOCK(2, 2, 1)
TILE_BLOCK(1, 2, 0)
TILE_BLOCK(1, 1, 1)

#define QUADS(s, a, b, c, d) s(a, b, c, d, 0), s(a, b, c, d, 4), s(a, b, c, d, 8), s(a, b, c, d, 12)
#define QUAD(a, b, c, d, k) a + k, b + k, c + k, d + k
#define FOUR(k) k, k + 1, k + 2, k + 3

/* A tile of 16 rows of 16 groups of four bytes, turned over. */
static inline __attribute__((always_inline)) void turn(const int8_t *from, i32x16 x[16])
{
    i32x16 t[16], u[16];
    for (int i = 0; i < 16; i += 2) {
        const i32x16 a = *(const i32x16 *)(from + 64 * i), b = *(const i32x16 *)(from + 64 * i + 64);
        t[i] = SHUFFLE(i32x16, a, b, QUADS(QUAD, 0, 16, 1, 17));
        t[i + 1] = SHUFFLE(i32x16, a, b, QUADS(QUAD, 2, 18, 3, 19));
    }
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 2; k++) {
            u[i + 2 * k] = SHUFFLE(i32x16, t[i + k], t[i + k + 2], QUADS(QUAD, 0, 1, 16, 17));
            u[i + 2 * k + 1] = SHUFFLE(i32x16, t[i + k], t[i + k + 2], QUADS(QUAD, 2, 3, 18, 19));
        }
    for (int i = 0; i < 4; i++) {
        const i32x16 a = SHUFFLE(i32x16, u[i], u[i + 4], FOUR(0), FOUR(8), FOUR(16), FOUR(24));
        const i32x16 b = SHUFFLE(i32x16, u[i], u[i + 4], FOUR(4), FOUR(12), FOUR(20), FOUR(28));
        const i32x16 c = SHUFFLE(i32x16, u[i + 8], u[i + 12], FOUR(0), FOUR(8), FOUR(16), FOUR(24));
        const i32x16 e = SHUFFLE(i32x16, u[i + 8], u[i + 12], FOUR(4), FOUR(12), FOUR(20), FOUR(28));
        x[i] = SHUFFLE(i32x16, a, c, FOUR(0), FOUR(8), FOUR(16), FOUR(24));
        x[i + 8] = SHUFFLE(i32x16, a, c, FOUR(4), FOUR(12), FOUR(20), FOUR(28));
        x[i + 4] = SHUFFLE(i32x16, b, e, FOUR(0), FOUR(8), FOUR(16), FOUR(24));
        x[i + 12] = SHUFFLE(i32x16, b, e, FOUR(4), FOUR(12), FOUR(20), FOUR(28));
    }
}

/* The planes of tiles first, ..., last - 1 of columns as the left factor has them. */
static void expand_left(product *t, ptrdiff_t first, ptrdiff_t last)
{
    const ptrdiff_t plane = t->blocks * TILE;
    for (ptrdiff_t k = 0; k < t->blocks; k++)
        for (ptrdiff_t i = first; i < last; i++) {
            const int8_t *unit = t->units + k * t->stride + i * UNIT;
            int8_t *to = t->left + (i - first) * PLANES * plane + k * TILE;
            i32x16 x[16];
            for (int p = 0; p < 2; p++) {
                turn(unit + p * TILE, x);
                for (int r = 0; r < 16; r++)
                    *(i32x16 *)(to + p * plane + 64 * r) = x[r];
            }
            turn(unit + 2 * TILE, x);
            for (int r = 0; r < 16; r++, to += 64) {
                const i8x64 l = *(const i8x64 *)to, m = *(const i8x64 *)(to + plane);
                *(i8x64 *)(to + 2 * plane) = (i8x64)x[r];
                *(i8x64 *)(to + 3 * plane) = l + m;
                *(i8x64 *)(to + 4 * plane) = l + (i8x64)x[r];
                *(i8x64 *)(to + 5 * plane) = m + (i8x64)x[r];
            }
        }
}

/* Rows of zeros up to whole tiles. */
static void fill_up(const product *t, int8_t *units, ptrdiff_t waiting)
{
    const ptrdiff_t used = waiting % TILE_ROWS;
    for (ptrdiff_t j = 0; used && j < PLANES * t->tiles; j++)
        memset(units + (t->blocks - 1) * t->stride + j / PLANES * UNIT + j % PLANES * TILE
                   + used * TILE_COLUMNS,
               0, (size_t)((TILE_ROWS - used) * TILE_COLUMNS));
}

/* Add q q^T of the rows that wait to the sums.
 *
 * Two tiles of the right factor are multiplied by all of the left one plane by plane, so that they
 * stay in the first cache; the sums of the two before are combined and added meanwhile. */
static void multiply_digits(gram *g, digit_feed *feed)
{
    const digit_room at = digit_room_at(g->digits, g->d);
    const ptrdiff_t tiles = digit_tiles(g->d), pairs = (tiles + 1) / 2;
    product t = {
        .g = g,
        .tiles = tiles,
        .blocks = (g->waiting + TILE_ROWS - 1) / TILE_ROWS,
        .stride = digit_stride(tiles),
        .units = at.units[g->side],
        .left = at.left,
        .feed = feed,
    };
    const ptrdiff_t parts = (tiles + LEFT_TILES - 1) / LEFT_TILES, plane = t.blocks * TILE;
    const ptrdiff_t width = ((tiles + parts - 1) / parts + 1) / 2 * 2;
    int side = 0;
    fill_up(&t, at.units[g->side], g->waiting);
    g->waiting = 0;
    g->side ^= 1;
    if (feed)
        feed->steps = pairs * (pairs + 1) / 2 * PLANES * t.blocks / feed->blocks + 1;
    BEGIN_TILES();
    for (ptrdiff_t first = 0; first < tiles; first += width) {
        const ptrdiff_t last = first + width < tiles ? first + width : tiles;
        expand_left(&t, first, last);
        for (ptrdiff_t j = 0; j < last; j += 2, side ^= 1) {
            const ptrdiff_t start = j < first ? first : j, calls = (last - start + 1) / 2 * PLANES;
            int32_t *const sums = at.sums[side];
            t.lines = 2 * UNIT / 64;
            t.ahead = t.units + (j + 2) * UNIT;
            t.per_step = parts > 1 && j + 4 <= last ? (t.lines + calls - 1) / calls : 0;
            for (int p = 0; p < PLANES; p++)
                for (ptrdiff_t i = start; i < last; i += 2) {
                    const int8_t *left = t.left + ((i - first) * PLANES + p) * plane;
                    const int8_t *right = t.units + j * UNIT + p * TILE;
                    int32_t *to = sums + ((i - start) / 2 * PLANES + p) * SUMS;
                    const int two = i + 1 < tiles;
                    if (i == j)
                        (two ? block_2_2_1 : block_1_1_1)(&t, left, right, to);
                    else
                        (two ? block_2_2_0 : block_1_2_0)(&t, left, right, to);
                }
            add_rest(&t);
            t.sums = sums, t.i = start, t.j = j, t.row = 0, t.gap = -1;
            t.rows = 32 * (last - start);
            if (start == j) {
                add_diagonal(&t, sums, j);
                if (j + 1 < tiles)
                    add_diagonal(&t, sums + 768, j + 1);
                t.row = 32, t.gap = 48;
            }
        }
    }
    add_rest(&t);
    END_TILES();
    if (feed) {
        feed->finish(feed);
        feed->steps = 0;
    }
}
