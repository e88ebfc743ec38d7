/* The hot loop, included once for each instruction set by a file that defines
 * its vectors: W lanes of double, and tiles of W x (W TILE_PANELS) sums.
 *
 * Block by block, rows are clipped and quantised into panels of W columns
 * (one sweep: norm, factor, product, rounding), then the lower triangle of the
 * block's Gram matrix is accumulated tile by tile in registers while the next
 * block is prefetched.  Tile sums are integers below 2^EXACT_BITS, so neither
 * the order of the additions nor FMA can change them; what must be identical
 * everywhere is the row's own arithmetic:
 *
 *   p_k = sum of x_j^2 over j = k mod 8, in order of j, without FMA;
 *   s = ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7));
 *   f = s > bound^2 ? T / sqrt(s) : T / bound;
 *   q_j = x_j f, rounded to double, then to the nearest integer, ties to even.
 *
 * Before it, x_j may be scaled: see gram_table.  Rows whose limits keep them
 * within the bound are quantised as they are read, as f is the same for all.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "gram_digits.h"

#define HALVES (8 / W) /* vectors to hold the eight partial sums */
#define ROTATIONS (W / 2 + 1)
#ifndef STEP
#define STEP 4 /* rows of a tile between fetches */
#endif
#define GROUPS 4 /* of W rows, packed together */
#define FAR_PANELS 24 /* beyond, the sums are not in the nearest caches */
#define UNROLL _Pragma("GCC unroll 8")

INLINE vec v_convert(vec x, int kind)
{
    return kind == LANE_INT64 ? (vec)__builtin_convertvector((longs)x, vec) : x;
}

INLINE vec v_convert_4(floats x, int kind)
{
    return kind == LANE_INT32 ? (vec)__builtin_convertvector((ints)x, vec) : v_widen(x);
}

/* W items from anywhere. */
INLINE vec v_items(const char *p, int kind)
{
    if (lane_size(kind) == 8) {
        vec x;
        memcpy(&x, p, sizeof x);
        READ_ONCE(x);
        return v_convert(x, kind);
    }
    floats x;
    memcpy(&x, p, sizeof x);
    READ_ONCE(x);
    return v_convert_4(x, kind);
}

/* The first n of W items, or all where n >= W, zeros after them. */
INLINE vec v_items_head(const char *p, ptrdiff_t n, int kind)
{
    if (lane_size(kind) == 8) {
        vec x = v_head(p, n);
        READ_ONCE(x);
        return v_convert(x, kind);
    }
    floats x = v_head_of_4(p, n);
    READ_ONCE(x);
    return v_convert_4(x, kind);
}

/* How values are scaled: those of W columns, or of one in all lanes. */
typedef struct {
    vec center, inverse, lower, upper;
} place;

INLINE place place_of(const double *at)
{
    return (place){v_load(at), v_load(at + W), v_load(at + 2 * W), v_load(at + 3 * W)};
}

INLINE place place_of_one(const double *at)
{
    return (place){v_set(at[0]), v_set(at[W]), v_set(at[2 * W]), v_set(at[3 * W])};
}

/* What of values goes into the packed block. */
INLINE vec enter(vec x, place at, vec scale, int scaling)
{
    if (scaling != GRAM_PLAIN) {
        x = v_mul(v_sub(x, at.center), at.inverse);
        x = v_min(at.upper, v_max(at.lower, x));
    }
    return scaling == GRAM_STEADY ? v_round(v_mul(x, scale)) : x;
}

/* Add what tells about two vectors that went in: their squares, each to its sum; or, where
 * no norm is needed, to the first sum what is NaN if one of them is. */
INLINE void note(vec x, vec y, vec *sum_x, vec *sum_y, int scaling)
{
    if (scaling == GRAM_STEADY) {
        *sum_x = v_fma(x, y, *sum_x);
    } else {
        *sum_x = v_add(*sum_x, v_mul(x, x));
        *sum_y = v_add(*sum_y, v_mul(y, y));
    }
}

INLINE void fetch_some(fetch *f) { fetch_to(f, 1); }

/* Packed rows whose squared norm went out of range, or which may not be finite: r0 + k
 * for every bit k of mask.  Their factors become 1.  Returns -1, or the first row
 * of the block that cannot be added; those to be left out are zeros, and marked. */
static ptrdiff_t slow_rows(gram *g, ptrdiff_t r0, int mask, double f[W], int drop)
{
    for (int k = 0; k < W; k++) {
        if (!(mask >> k & 1))
            continue;
        double *q = g->packed + (r0 + k) * W;
        f[k] = 1;
        int nan = 0;
        for (ptrdiff_t i = 0; i < g->panels; i++)
            nan |= v_exceeds(v_load(q + i * g->panel_stride), v_set(INFINITY));
        if (nan && drop) {
            for (ptrdiff_t i = 0; i < g->panels; i++)
                v_store(q + i * g->panel_stride, v_zero());
            g->missing[r0 + k] = 1;
        } else if (nan) {
            return r0 + k;
        } else if (g->scaling != GRAM_STEADY && !g->hold && !gram_quantise_far(&g->rule, q, g->d, W, g->panel_stride)) {
            return r0 + k;
        }
    }
    return -1;
}

/* Factors f of W rows, and the mask of those to take the slow path. */
INLINE int factors(const gram *g, vec s, double f[W])
{
    v_store(f, v_clip(s, v_set(g->rule.bound_sq), v_set(g->rule.target), v_set(g->rule.scale)));
    return v_exceeds(s, v_set(g->rule.norm_limit));
}

/* W rows of unit stride into packed rows q, and their squared norms; or what is NaN for
 * row k, an even number, if there is a NaN in row k or k + 1.
 *
 * As with columns, no value is read twice: another thread, or a process that has mapped the
 * same file, may write to it between the norm and the product. */
INLINE vec copy_in_rows(const gram *g, const char *at, ptrdiff_t row_stride, ptrdiff_t width,
                        double *q, int kind, int scaling)
{
    const ptrdiff_t item = lane_size(kind), stride = g->panel_stride;
    const vec scale = v_set(g->rule.scale);
    vec p[W][HALVES];
    for (int k = 0; k < W; k++)
        for (int h = 0; h < HALVES; h++)
            p[k][h] = v_zero();
    ptrdiff_t j = 0;
#define PANEL(h, items) \
    do { \
        const place s = place_of(g->places + 4 * j); \
        UNROLL for (int k = 0; k < W; k += 2) \
        { \
            const vec x = enter(items(at + k * row_stride), s, scale, scaling); \
            const vec y = enter(items(at + (k + 1) * row_stride), s, scale, scaling); \
            note(x, y, &p[k][h], &p[k + 1][h], scaling); \
            v_store(q + k * W, x); \
            v_store(q + (k + 1) * W, y); \
        } \
        j += W, at += W * item, q += stride; \
    } while (0)
#define ALL(at) v_items(at, kind)
#define HEAD(at) v_items_head(at, width - j, kind)
    while (j + 8 <= width)
        for (int h = 0; h < HALVES; h++)
            PANEL(h, ALL);
    const int half = HALVES == 2 && j + W <= width;
    if (half)
        PANEL(0, ALL);
    if (j < g->d) {
        if (half)
            PANEL(HALVES - 1, HEAD);
        else
            PANEL(0, HEAD);
    }
#undef PANEL
#undef ALL
#undef HEAD
    return v_fold(p);
}

/* `groups` times W rows of a table of columns, from row `start`, transposed into
 * packed rows q, and their squared norms; or what is NaN for a row that has one.
 *
 * Every line is read while it is near: columns a multiple of 4 KiB apart share
 * a set of the nearest cache, which has room for a panel of them, not for all. */
INLINE void transpose_columns(const gram *g, const gram_table *table, ptrdiff_t start,
                              ptrdiff_t groups, double *q, vec norm[GROUPS], int kind,
                              int scaling)
{
    const gram_column *column = table->columns;
    const vec scale = v_set(g->rule.scale);
    vec p[GROUPS][8], x[W];
    for (int r = 0; r < GROUPS; r++)
        for (int k = 0; k < 8; k++)
            p[r][k] = v_zero();
#define ITEMS(k) \
    v_items(column[k].x + (start + r * W) * lane_size(kind == LANE_MIXED ? column[k].kind : kind), \
            kind == LANE_MIXED ? column[k].kind : kind)
    const double *places = g->places;
    for (ptrdiff_t j = 0; j < g->d; j += W, column += W, q += g->panel_stride, places += 4 * W)
        for (ptrdiff_t r = 0; r < groups; r++) {
            if (j + W <= table->width)
UNROLL
                for (int k = 0; k < W; k++)
                    x[k] = ITEMS(k);
            else
UNROLL
                for (int k = 0; k < W; k++)
                    x[k] = j + k < table->width ? ITEMS(k) : v_zero();
            vec *sum = p[r] + j % 8;
UNROLL
            for (int k = 0; k < W; k += 2) {
                x[k] = enter(x[k], place_of_one(places + k), scale, scaling);
                x[k + 1] = enter(x[k + 1], place_of_one(places + k + 1), scale, scaling);
                note(x[k], x[k + 1], &sum[k], &sum[k + 1], scaling);
            }
            v_transpose(x);
UNROLL
            for (int k = 0; k < W; k++)
                v_store(q + (r * W + k) * W, x[k]);
        }
#undef ITEMS
    for (ptrdiff_t r = 0; r < groups; r++)
        norm[r] = FOLD(p[r]);
}

/* W packed rows quantised where they are. */
INLINE void quantise_packed(const gram *g, ptrdiff_t panels, const double f[W], double *q)
{
    vec factor[W];
UNROLL
    for (int k = 0; k < W; k++)
        factor[k] = v_set(f[k]);
    for (ptrdiff_t i = 0; i < panels; i++, q += g->panel_stride)
UNROLL
        for (int k = 0; k < W; k++)
            v_store(q + k * W, v_round(v_mul(v_load(q + k * W), factor[k])));
}

/* The last `count` rows, fewer than W, into packed rows q filled up with zeros; returns
 * what copy_in_rows does. */
static vec copy_in_last_rows(const gram *g, const gram_table *x, ptrdiff_t start,
                             ptrdiff_t count, double *q)
{
    const ptrdiff_t width = x->width, bytes = width * (ptrdiff_t)sizeof(double);
    memset(g->spare, 0, (size_t)(W * bytes));
    for (ptrdiff_t k = 0; k < count; k++)
        for (ptrdiff_t j = 0; j < width; j++) {
            const int kind = x->columns ? x->columns[j].kind : x->kind;
            const char *at = x->columns ? x->columns[j].x + (start + k) * lane_size(kind)
                                        : x->rows + (start + k) * x->row_stride
                                              + j * lane_size(kind);
            g->spare[k * width + j] = lane_value(at, kind);
        }
    const char *spare = (const char *)g->spare;
    vec s;
    if (g->scaling == GRAM_PLAIN)
        s = copy_in_rows(g, spare, bytes, width, q, LANE_FLOAT64, GRAM_PLAIN);
    else if (g->scaling == GRAM_SCALED)
        s = copy_in_rows(g, spare, bytes, width, q, LANE_FLOAT64, GRAM_SCALED);
    else
        s = copy_in_rows(g, spare, bytes, width, q, LANE_FLOAT64, GRAM_STEADY);
    for (ptrdiff_t i = 0; i < g->panels; i++)
        memset(q + i * g->panel_stride + count * W, 0, (size_t)((W - count) * W) * sizeof *q);
    return s;
}

/* Rows start, ..., start + count - 1 of the table into the packed block, filled
 * up with rows of zeros to a multiple of W.  Returns -1, or the first row of the
 * block that cannot be added.
 *
 * Norms run some groups of W rows ahead of the products, or the latency of
 * square root and division would show. */
INLINE ptrdiff_t pack(gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t count, int drop,
                      fetch *ahead, int by_rows, int kind, int scaling)
{
    double f[GROUPS][W] __attribute__((aligned(64)));
    int slow[GROUPS];
    const ptrdiff_t groups = !by_rows || g->d <= 128 ? GROUPS : 1;
    for (ptrdiff_t r0 = 0; r0 < count; r0 += groups * W) {
        const ptrdiff_t stop = r0 + groups * W < count ? r0 + groups * W : count;
        vec norm[GROUPS];
        int any_slow = 0;
        if (!by_rows)
            transpose_columns(g, x, start + r0, (stop - r0) / W, g->packed + r0 * W, norm, kind,
                              scaling);
        for (ptrdiff_t r = r0, k = 0; r < stop; r += W, k++) {
            double *q = g->packed + r * W;
            fetch_some(ahead);
            if (r + W > count)
                norm[k] = copy_in_last_rows(g, x, start + r, count - r, q);
            else if (by_rows)
                norm[k] = copy_in_rows(g, x->rows + (start + r) * x->row_stride, x->row_stride,
                                       x->width, q, kind == LANE_MIXED ? x->kind : kind, scaling);
            if (scaling == GRAM_STEADY) {
                slow[k] = v_exceeds(norm[k], v_set(DBL_MAX));
                slow[k] |= slow[k] << 1;
                v_store(f[k], v_set(1));
            } else {
                slow[k] = factors(g, norm[k], f[k]);
            }
            if (r + W > count)
                slow[k] &= (1 << (count - r)) - 1;
            any_slow |= slow[k];
        }
        for (ptrdiff_t k = 0; any_slow && r0 + k * W < stop; k++) {
            const ptrdiff_t bad = slow_rows(g, r0 + k * W, slow[k], f[k], drop);
            if (bad >= 0)
                return bad;
        }
        if (g->factors)
            memcpy(g->factors + r0, f, (size_t)((stop - r0 + W - 1) / W) * sizeof f[0]);
        else if (scaling != GRAM_STEADY && !g->hold)
            for (ptrdiff_t r = r0, k = 0; r < stop; r += W, k++)
                quantise_packed(g, g->panels, f[k], g->packed + r * W);
    }
    return -1;
}

typedef ptrdiff_t pack_function(gram *, const gram_table *, ptrdiff_t, ptrdiff_t, int, fetch *);

/* pack() by layout, type of values, where all have one that is common, and scaling. */
#define PACK(by_rows, kind, scaling) \
    static __attribute__((noinline)) ptrdiff_t pack_##by_rows##_##kind##_##scaling( \
        gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t count, int drop, fetch *ahead) \
    { \
        return pack(g, x, start, count, drop, ahead, by_rows, LANE_##kind, GRAM_##scaling); \
    }
#define PACK_KINDS(by_rows, scaling) \
    PACK(by_rows, FLOAT64, scaling) PACK(by_rows, FLOAT32, scaling) PACK(by_rows, MIXED, scaling)
#define PACK_NAMES(by_rows, scaling) \
    {pack_##by_rows##_FLOAT64_##scaling, pack_##by_rows##_FLOAT32_##scaling, \
     pack_##by_rows##_MIXED_##scaling}

PACK_KINDS(0, PLAIN)
PACK_KINDS(0, SCALED)
PACK_KINDS(0, STEADY)
PACK_KINDS(1, PLAIN)
PACK_KINDS(1, SCALED)
PACK_KINDS(1, STEADY)

static pack_function *pack_of(const gram *g, const gram_table *x)
{
    static pack_function *const by_layout[2][3][3] = {
        {PACK_NAMES(0, PLAIN), PACK_NAMES(0, SCALED), PACK_NAMES(0, STEADY)},
        {PACK_NAMES(1, PLAIN), PACK_NAMES(1, SCALED), PACK_NAMES(1, STEADY)},
    };
    return by_layout[!x->columns][g->scaling][x->kind < 2 ? x->kind : 2];
}

typedef struct {
    vec c[W][TILE_PANELS], own[ROTATIONS], first[ROTATIONS];
} tile_sums;

/* What tile() adds, to sums that others add to.  Not a part of it: a call there, for a lock that
 * is taken, would cost registers where no sums are shared. */
static __attribute__((noinline)) void add_shared(gram *g, ptrdiff_t rows, ptrdiff_t i, ptrdiff_t j,
                                                 const tile_sums *sums, int m, int n, int turns,
                                                 int first)
{
    const ptrdiff_t strip = i * W / GRAM_STRIP, strip_of_first = j * W / GRAM_STRIP;
    gram_open_strip(g, strip, turns && i * W % GRAM_STRIP == 0 ? rows : 0);
    for (int l = 0; l < n; l++)
        for (int k = 0; k < m; k++)
            v_accumulate(g->tiles + gram_tile(i, j + l, W) + k * W, sums->c[k][l]);
    for (int k = 0; k < turns; k++)
        v_accumulate(g->tiles + gram_tile(i, i, W) + k * W, sums->own[k]);
    gram_close_strip(g, strip);
    if (!first)
        return;
    gram_open_strip(g, strip_of_first, j * W % GRAM_STRIP == 0 ? rows : 0);
    for (int k = 0; k < ROTATIONS; k++)
        v_accumulate(g->tiles + gram_tile(j, j, W) + k * W, sums->first[k]);
    gram_close_strip(g, strip_of_first);
}

/* Sums over the block for panel i against n panels from j: block (i, j) has a
 * row for each column of panel i, its lanes are the columns of panel j.
 *
 * m: columns of panel i in use.  own, first: also the diagonal block of i, of
 * j.  A diagonal block is symmetric, so its row k holds the products of the
 * panel with itself rotated by k lanes, k <= W/2: five FMAs instead of eight. */
INLINE void tile(gram *g, ptrdiff_t rows, ptrdiff_t i, ptrdiff_t j, fetch *ahead, const int m,
                 const int n, const int own, const int first)
{
    const ptrdiff_t stride = g->panel_stride;
    const double *a = g->packed + i * stride, *b = g->packed + j * stride;
    const int turns = m < ROTATIONS ? m : ROTATIONS; /* the others meet lanes of zeros */
    vec c[W][TILE_PANELS], own_sum[ROTATIONS], first_sum[ROTATIONS];
UNROLL
    for (int k = 0; k < W; k++)
UNROLL
        for (int l = 0; l < n; l++)
            c[k][l] = v_zero();
UNROLL
    for (int k = 0; k < ROTATIONS; k++)
        own_sum[k] = first_sum[k] = v_zero();

    if (g->panels > FAR_PANELS)
        for (int l = 0; l < n; l++)
            for (int k = 0; k < m; k++)
                __builtin_prefetch(g->tiles + gram_tile(i, j + l, W) + k * W, 1);
    fetch f = *ahead;
    for (ptrdiff_t r = 0; r < rows; r += STEP) {
        fetch_some(&f);
UNROLL
        for (int s = 0; s < STEP; s++, a += W, b += W) {
            vec y[TILE_PANELS];
UNROLL
            for (int l = 0; l < n; l++)
                y[l] = v_load(b + l * stride);
            if (n)
UNROLL
                for (int k = 0; k < m; k++) {
                    const vec x = v_set(a[k]);
UNROLL
                    for (int l = 0; l < n; l++)
                        c[k][l] = v_fma(x, y[l], c[k][l]);
                }
            if (own) {
                const vec x = v_load(a);
                vec turned = x;
UNROLL
                for (int k = 0; k < turns; k++, turned = v_rotate(turned))
                    own_sum[k] = v_fma(x, turned, own_sum[k]);
            }
            if (first) {
                vec turned = y[0];
UNROLL
                for (int k = 0; k < ROTATIONS; k++, turned = v_rotate(turned))
                    first_sum[k] = v_fma(y[0], turned, first_sum[k]);
            }
        }
    }
    *ahead = f;

    if (g->shared) {
        tile_sums sums;
UNROLL
        for (int k = 0; k < m; k++)
UNROLL
            for (int l = 0; l < n; l++)
                sums.c[k][l] = c[k][l];
UNROLL
        for (int k = 0; k < ROTATIONS; k++)
            sums.own[k] = own_sum[k], sums.first[k] = first_sum[k];
        add_shared(g, rows, i, j, &sums, m, n, own ? turns : 0, first);
        return;
    }
UNROLL
    for (int l = 0; l < n; l++)
UNROLL
        for (int k = 0; k < m; k++)
            v_accumulate(g->tiles + gram_tile(i, j + l, W) + k * W, c[k][l]);
    if (own)
UNROLL
        for (int k = 0; k < turns; k++)
            v_accumulate(g->tiles + gram_tile(i, i, W) + k * W, own_sum[k]);
    if (first)
UNROLL
        for (int k = 0; k < ROTATIONS; k++)
            v_accumulate(g->tiles + gram_tile(j, j, W) + k * W, first_sum[k]);
}

/* tile() for m columns rounded up to even, n and own that vary. */
#define TILE(m, n, own) tile(g, rows, i, j, ahead, m, n, own, 0)
#define TILES(m, n) \
    static __attribute__((noinline)) void tile_##m##_##n(gram *g, ptrdiff_t rows, ptrdiff_t i, \
                                                         ptrdiff_t j, fetch *ahead, int own) \
    { \
        if (own) \
            TILE(m, n, 1); \
        else \
            TILE(m, n, 0); \
    }
#define TILES_M(m) TILES(m, 0) TILES(m, 1) TILES(m, 2) TILES(m, 3)

typedef void tile_function(gram *, ptrdiff_t, ptrdiff_t, ptrdiff_t, fetch *, int);

TILES_M(2)
TILES_M(4)
#if W == 8
TILES_M(6)
TILES_M(8)
#endif

#define TILE_NAMES(m) {tile_##m##_0, tile_##m##_1, tile_##m##_2, tile_##m##_3}
static tile_function *const tiles_by_size[W / 2][4] = {
    TILE_NAMES(2),
    TILE_NAMES(4),
#if W == 8
    TILE_NAMES(6),
    TILE_NAMES(8),
#endif
};

/* Block (j + 1, j) and the diagonal blocks on either side of it. */
static __attribute__((noinline)) void tile_pair(gram *g, ptrdiff_t rows, ptrdiff_t j, fetch *ahead)
{
    tile(g, rows, j + 1, j, ahead, W, 1, 1, 1);
}

/* Full panels of the next group: three, but rather two and two than three and one. */
static inline ptrdiff_t group(ptrdiff_t left)
{
    if (TILE_PANELS == 1 || left == 1)
        return 1;
    return left == 2 || left == 4 ? 2 : 3;
}

/* tiles += q^T q for the packed block, the lower triangle of blocks. */
static void multiply(gram *g, ptrdiff_t rows, fetch *ahead)
{
    const ptrdiff_t full = g->d / W;
    const int rest = (int)(g->d % W);
    tile_function *const *const whole = tiles_by_size[W / 2 - 1];
    tile_function *const *const part = rest ? tiles_by_size[(rest - 1) / 2] : NULL;

    for (ptrdiff_t r = rows; r % STEP; r += W) /* whole steps, the last filled up with zeros */
        for (ptrdiff_t i = 0; i < g->panels; i++)
            memset(g->packed + i * g->panel_stride + r * W, 0, W * W * sizeof(double));
    if (full == 0)
        part[0](g, rows, 0, 0, ahead, 1);
    for (ptrdiff_t j = 0, n; j < full; j += n) {
        n = group(full - j);
        if (n == 1)
            whole[0](g, rows, j, j, ahead, 1);
        else
            tile_pair(g, rows, j, ahead);
        if (n == 3)
            whole[2](g, rows, j + 2, j, ahead, 1);
        for (ptrdiff_t i = j + n; i < full; i++)
            whole[n](g, rows, i, j, ahead, 0);
        if (rest)
            part[n](g, rows, full, j, ahead, j + n == full);
    }
}

/* Calls of tile() in multiply(). */
static ptrdiff_t tile_calls(const gram *g)
{
    const ptrdiff_t full = g->d / W;
    ptrdiff_t calls = full == 0;
    for (ptrdiff_t j = 0, n; j < full; j += n) {
        n = group(full - j);
        calls += (n == 3 ? 2 : 1) + g->panels - j - n;
    }
    return calls;
}

/* The lines of rows start, ..., start + count - 1, spread over `steps` steps. */
static fetch plan_fetch(const gram_table *x, ptrdiff_t start, ptrdiff_t count, ptrdiff_t steps)
{
    fetch f = {.left = 1, .run = 1};
    if (count <= 0 || x->width == 0)
        return f;
    ptrdiff_t total;
    if (x->columns) {
        f.column = x->columns, f.last = x->columns + x->width - 1;
        f.first = start, f.rows = count;
        f.at = f.column->x + start * lane_size(f.column->kind);
        f.left = f.run = lines(count * lane_size(f.column->kind));
        total = x->width * lines(count * lane_size(x->kind)); /* or less, of mixed types */
    } else {
        const ptrdiff_t row = x->width * lane_size(x->kind);
        const int solid = x->row_stride == row;
        f.at = x->rows + start * x->row_stride;
        f.left = f.run = solid ? (count * row + 63) / 64 : lines(row);
        f.jump = (solid ? 0 : x->row_stride) - 64 * f.run;
        total = (solid ? 1 : count) * f.run;
    }
    f.per_step = (total + steps - 1) / steps;
    return f;
}

/* Count the rows of the block, those to be left out apart, and forget which they were. */
static void count_rows(gram *g, ptrdiff_t count)
{
    ptrdiff_t missing = 0;
    for (ptrdiff_t r = 0; r < count; r++)
        missing += g->missing[r];
    g->n_dropped += missing;
    g->n_rows += count - missing;
    memset(g->missing, 0, (size_t)count);
}

/* Steps that the lines of the next block are spread over. */
static ptrdiff_t steps_of_block(const gram *g, ptrdiff_t rows, ptrdiff_t tile_calls)
{
    return rows / W + (g->digits ? rows / W * digit_tiles(g->d)
                                 : tile_calls * ((rows + STEP - 1) / STEP));
}

#include "gram_feed.h"

static ptrdiff_t update_blocks(gram *g, const gram_table *x, int drop)
{
    if (g->digits)
        return update_digits(g, x, drop);
    pack_function *const pack_block = pack_of(g, x);
    const ptrdiff_t calls = tile_calls(g);
    int64_t pending = g->pending_rows; /* not written in the loop: g may share its lines */
    for (ptrdiff_t start = 0; start < x->n; start += g->block_rows) {
        const ptrdiff_t left = x->n - start - g->block_rows;
        const ptrdiff_t count = left < 0 ? x->n - start : g->block_rows;
        const ptrdiff_t rows = (count + W - 1) / W * W;
        fetch ahead = plan_fetch(x, start + count, left < g->block_rows ? left : g->block_rows,
                                 steps_of_block(g, rows, calls));
        const ptrdiff_t bad = pack_block(g, x, start, count, drop, &ahead);
        if (bad >= 0)
            return start + bad;
        count_rows(g, count);

        if (pending + count > g->flush_rows) {
            gram_flush(g);
            pending = 0;
        }
        multiply(g, rows, &ahead);
        pending += count;
    }
    g->pending_rows = pending;
    return -1;
}

static ptrdiff_t block_rows(ptrdiff_t d)
{
    return d <= 24 ? 64 : d <= 150 ? 48 : 128;
}

#include "coded_kernel.h"
#include "gram_narrow.h"

#define KERNEL_PARTS W, EXACT_BITS, block_rows, update, update_coded

const gram_kernel KERNEL = {KERNEL_NAME, KERNEL_PARTS, NULL, NULL, 0, 0};

#ifdef KERNEL_TILES
#include "gram_tiles.h"

static int always(void) { return 1; }

const gram_kernel KERNEL_TILES = {KERNEL_NAME "-tiles", KERNEL_PARTS, multiply_digits, always, 1, 0};
#endif
