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
    int8_t *left, *right;
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

/* Add the sums of tile i of columns and n tiles from j on, which are elsewhere. */
static void add_tiles(const product *t, const int32_t *sums, ptrdiff_t i, ptrdiff_t j, int n)
{
    gram *const g = t->g;
    if (g->shared)
        gram_open_strip(g, i, 0);
    for (const ptrdiff_t last = j + n; j < last; j++)
        for (int r = 0; r < TILE_COLUMNS; r++, sums += 16) {
            if ((TILE_COLUMNS * i + r) / W >= g->panels)
                continue;
            i64x8 sum[2];
            combine(sums, sum);
            int64_t *to = sums_of(g, i, j, r);
            for (int k = 0; k < TILE_COLUMNS / W; k++, to += W * W)
                *(sum_lanes *)to += ((const sum_lanes *)sum)[k];
        }
    if (g->shared)
        gram_close_strip(g, i);
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
 * right one into `sums`; meanwhile totals are fetched that will be added to. */
static inline __attribute__((always_inline)) void block(const product *t, const int8_t *left,
                                                        const int8_t *right, ptrdiff_t stride,
                                                        ptrdiff_t second, int32_t *sums,
                                                        const int64_t *ahead,
                                                        const int m, const int n,
                                                        const int diagonal)
{
    DECLARE_TILES;
    const ptrdiff_t plane = t->blocks * TILE;
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
            TILE_LOAD(7, right + second);
            if (!diagonal)
                TILE_DOT(1, 4, 7);
        }
        if (m == 2) {
            TILE_LOAD(5, left + PLANES * plane);
            TILE_DOT(2, 5, 6);
            TILE_DOT(3, 5, 7);
        }
        for (int k = 0; k < 4; k++, ahead += 8)
            __builtin_prefetch(ahead, 1, 2);
    }
    TILE_STORE(0, sums);
    TILE_STORE(1, sums + 256);
    TILE_STORE(2, sums + 512);
    TILE_STORE(3, sums + 768);
    SETTLED();
}

#define TILE_BLOCK(m, n, diagonal) \
    static __attribute__((noinline)) void block_##m##_##n##_##diagonal( \
        const product *t, const int8_t *left, const int8_t *right, ptrdiff_t stride, \
        ptrdiff_t second, int32_t *sums, const int64_t *ahead) \
    { \
        block(t, left, right, stride, second, sums, ahead, m, n, diagonal); \
    }
typedef void block_function(const product *, const int8_t *, const int8_t *, ptrdiff_t, ptrdiff_t,
                            int32_t *, const int64_t *);

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
static void expand_left(const product *t, ptrdiff_t first, ptrdiff_t last)
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

/* Sums of two digits of tiles j and j + 1, as the right factor has them. */
static void expand_right(const product *t, ptrdiff_t j)
{
    const ptrdiff_t plane = 2 * t->blocks * TILE;
    for (ptrdiff_t k = 0; k < t->blocks; k++)
        for (ptrdiff_t c = 0; c < 2 && j + c < t->tiles; c++) {
            const int8_t *unit = t->units + k * t->stride + (j + c) * UNIT;
            int8_t *to = t->right + (2 * k + c) * TILE;
            for (int r = 0; r < 16; r++, to += 64, unit += 64) {
                const i8x64 l = *(const i8x64 *)unit, m = *(const i8x64 *)(unit + TILE);
                const i8x64 h = *(const i8x64 *)(unit + 2 * TILE);
                *(i8x64 *)to = l + m;
                *(i8x64 *)(to + plane) = l + h;
                *(i8x64 *)(to + 2 * plane) = m + h;
            }
        }
}

/* Rows of zeros up to whole tiles. */
static void fill_up(const product *t, int8_t *units, ptrdiff_t waiting)
{
    const ptrdiff_t used = waiting % TILE_ROWS;
    for (ptrdiff_t j = 0; used && j < DIGITS * t->tiles; j++)
        memset(units + (t->blocks - 1) * t->stride + j / DIGITS * UNIT + j % DIGITS * TILE
                   + used * TILE_COLUMNS,
               0, (size_t)((TILE_ROWS - used) * TILE_COLUMNS));
}

/* Add q q^T of the rows that wait to the sums.
 *
 * Two tiles of the right factor are multiplied by all of the left one plane by plane, so that they
 * stay in the first cache. */
static void multiply_digits(gram *g)
{
    const digit_room at = digit_room_at(g->digits, g->d);
    const ptrdiff_t tiles = digit_tiles(g->d);
    const product t = {
        .g = g,
        .tiles = tiles,
        .blocks = (g->waiting + TILE_ROWS - 1) / TILE_ROWS,
        .stride = digit_stride(tiles),
        .units = at.units,
        .left = at.left,
        .right = at.right,
    };
    const ptrdiff_t parts = (tiles + LEFT_TILES - 1) / LEFT_TILES, plane = t.blocks * TILE;
    const ptrdiff_t width = ((tiles + parts - 1) / parts + 1) / 2 * 2;
    fill_up(&t, at.units, g->waiting);
    g->waiting = 0;
    BEGIN_TILES();
    for (ptrdiff_t first = 0; first < tiles; first += width) {
        const ptrdiff_t last = first + width < tiles ? first + width : tiles;
        expand_left(&t, first, last);
        for (ptrdiff_t j = 0; j < last; j += 2) {
            const ptrdiff_t start = j < first ? first : j;
            expand_right(&t, j);
            for (int p = 0; p < PLANES; p++)
                for (ptrdiff_t i = start; i < last; i += 2) {
                    const int is_sum = p >= DIGITS, two = i + 1 < tiles;
                    const int8_t *left = t.left + ((i - first) * PLANES + p) * plane;
                    const int8_t *right = is_sum ? t.right + 2 * (p - DIGITS) * plane
                                                 : t.units + j * UNIT + p * TILE;
                    const ptrdiff_t stride = is_sum ? 2 * TILE : t.stride;
                    const ptrdiff_t second = is_sum ? TILE : UNIT;
                    int32_t *to = at.sums + ((i - start) / 2 * PLANES + p) * SUMS;
                    const int64_t *ahead = sums_of(g, i, j, p % 4 * W);
                    block_function *const add = i == j ? (two ? block_2_2_1 : block_1_1_1)
                                                       : (two ? block_2_2_0 : block_1_2_0);
                    add(&t, left, right, stride, second, to, ahead);
                }
            for (ptrdiff_t i = start, k = 0; i < last; i++, k++) {
                const int32_t *sums = at.sums + k / 2 * PLANES * SUMS + k % 2 * 512;
                if (i > j)
                    add_tiles(&t, sums, i, j, i == j + 1 ? 1 : 2);
                if (i <= j + 1)
                    add_diagonal(&t, sums + (i - j) * 256, i);
            }
        }
    }
    END_TILES();
}
