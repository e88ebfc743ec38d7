/* The hot loop, included once for each instruction set by a file that defines
 * its vectors: W lanes of double, and tiles of W x (W TILE_PANELS) sums.
 *
 * Block by block, rows are clipped and quantised into panels of W columns
 * (one sweep: norm, factor, product, rounding), then the upper triangle of the
 * block's Gram matrix is accumulated tile by tile in registers while the next
 * block is prefetched.  Tile sums are integers below 2^EXACT_BITS, so neither
 * the order of the additions nor FMA can change them; what must be identical
 * everywhere is the row's own arithmetic:
 *
 *   p_k = sum of x_j^2 over j = k mod 8, in order of j, without FMA;
 *   s = ((p0 + p4) + (p2 + p6)) + ((p1 + p5) + (p3 + p7));
 *   f = s > bound^2 ? T / sqrt(s) : T / bound;
 *   q_j = x_j f, rounded to double, then to the nearest even integer.
 */
#include <string.h>

#include "gram.h"

#define HALVES (8 / W) /* vectors to hold the eight partial sums */
#define ROTATIONS (W / 2 + 1)
#define STEP 4   /* rows of a tile between fetches */
#define GROUPS 4 /* of W rows, packed together */
#define FAR_PANELS 24 /* beyond, the sums are not in the nearest caches */
#define UNROLL _Pragma("GCC unroll 8")

/* What to fetch ahead: `left` lines in this run, then on to the next run, which
 * is a jump away or in the next column.  Beyond the end, whatever comes. */
typedef struct {
    const char *at;
    ptrdiff_t left, run, jump;
    const char *const *column, *const *last;
    ptrdiff_t offset;   /* of a run in its column */
    ptrdiff_t per_step; /* lines for every STEP rows of a tile */
} fetch;

INLINE void fetch_some(fetch *f)
{
    for (ptrdiff_t i = 0; i < f->per_step; i++) {
        __builtin_prefetch(f->at);
        f->at += 64;
        if (--f->left == 0) {
            f->left = f->run;
            if (f->column == f->last)
                f->at += f->jump;
            else
                f->at = *++f->column + f->offset;
        }
    }
}

/* Row i of the table, copied to `row`. */
static void copy_row(const gram *g, const gram_table *x, ptrdiff_t i, char *row)
{
    const size_t item = x->is_float32 ? 4 : 8;
    if (!x->columns)
        memcpy(row, x->rows + i * x->row_stride, (size_t)g->d * item);
    else
        for (ptrdiff_t j = 0; j < g->d; j++)
            memcpy(row + (size_t)j * item, x->columns[j] + (size_t)i * item, item);
}

/* Rows whose squared norm went out of range, or which are not finite: r0 + k for
 * every bit k of mask.  Returns -1, or the first row that cannot be added. */
static ptrdiff_t slow_rows(gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t r0, int mask,
                           int drop)
{
    for (int k = 0; k < W; k++) {
        if (!(mask >> k & 1) || start + r0 + k >= x->n)
            continue;
        double *q = g->packed + (r0 + k) * W;
        copy_row(g, x, start + r0 + k, (char *)g->spare);
        const int state = gram_quantise_row(g, (const char *)g->spare, x->is_float32, q);
        if (state == GRAM_FINITE)
            continue;
        if (state == GRAM_INFINITE || !drop)
            return start + r0 + k;
        for (ptrdiff_t j = 0; j < g->d; j++)
            q[j / W * g->panel_stride + j % W] = 0;
        g->n_dropped++;
        g->n_rows--; /* update() counts it with its block */
    }
    return -1;
}

/* Factors f of W rows, and the mask of those to take the slow path. */
INLINE int factors(const gram *g, vec s, double f[W])
{
    v_store(f, v_clip(s, v_set(g->bound_sq), v_set(g->target), v_set(g->scale)));
    return v_exceeds(s, v_set(g->norm_limit));
}

/* A vector put into a packed row as it is, and its squares added to a sum. */
INLINE vec put(double *q, vec x, vec sum)
{
    v_store(q, x);
    return v_add(sum, v_mul(x, x));
}

/* W rows of unit stride into packed rows q as they are, and their squared norms.
 *
 * As with columns, no value is read twice: another thread, or a process that has mapped the
 * same file, may write to it between the norm and the product. */
INLINE vec copy_in_rows(const gram *g, const char *at, ptrdiff_t row_stride, double *q,
                        int is_float32)
{
    const ptrdiff_t item = is_float32 ? 4 : 8, stride = g->panel_stride;
    vec p[W][HALVES];
    for (int k = 0; k < W; k++)
        for (int h = 0; h < HALVES; h++)
            p[k][h] = v_zero();
    ptrdiff_t left = g->d;
    for (; left >= 8; left -= 8)
        for (int h = 0; h < HALVES; h++, at += W * item, q += stride)
UNROLL
            for (int k = 0; k < W; k++)
                p[k][h] = put(q + k * W, v_items(at + k * row_stride, is_float32), p[k][h]);
    int last = 0; /* the half of the panel that is not full */
    if (left >= W) {
UNROLL
        for (int k = 0; k < W; k++)
            p[k][0] = put(q + k * W, v_items(at + k * row_stride, is_float32), p[k][0]);
        left -= W, at += W * item, q += stride, last = HALVES - 1;
    }
    if (left > 0)
UNROLL
        for (int k = 0; k < W; k++) {
            const vec x = v_items_head(at + k * row_stride, left, is_float32);
            if (last)
                p[k][HALVES - 1] = put(q + k * W, x, p[k][HALVES - 1]);
            else
                p[k][0] = put(q + k * W, x, p[k][0]);
        }
    return v_fold(p);
}

/* `groups` times W rows of a table of columns, from row `start`, transposed into
 * packed rows q as they are, and their squared norms.
 *
 * Every line is read while it is near: columns a multiple of 4 KiB apart share
 * a set of the nearest cache, which has room for a panel of them, not for all. */
INLINE void transpose_columns(const gram *g, const char *const *column, ptrdiff_t start,
                              ptrdiff_t groups, double *q, vec norm[GROUPS], int is_float32)
{
    const ptrdiff_t item = is_float32 ? 4 : 8;
    vec p[GROUPS][8], x[W];
    for (int r = 0; r < GROUPS; r++)
        for (int k = 0; k < 8; k++)
            p[r][k] = v_zero();
    for (ptrdiff_t j = 0; j < g->d; j += W, column += W, q += g->panel_stride)
        for (ptrdiff_t r = 0; r < groups; r++) {
            const ptrdiff_t from = (start + r * W) * item;
            if (j + W <= g->d)
UNROLL
                for (int k = 0; k < W; k++)
                    x[k] = v_items(column[k] + from, is_float32);
            else
UNROLL
                for (int k = 0; k < W; k++)
                    x[k] = j + k < g->d ? v_items(column[k] + from, is_float32) : v_zero();
            vec *sum = p[r] + j % 8;
UNROLL
            for (int k = 0; k < W; k++)
                sum[k] = v_add(sum[k], v_mul(x[k], x[k]));
            v_transpose(x);
UNROLL
            for (int k = 0; k < W; k++)
                v_store(q + (r * W + k) * W, x[k]);
        }
    for (ptrdiff_t r = 0; r < groups; r++)
        norm[r] = v_add(v_add(v_add(p[r][0], p[r][4]), v_add(p[r][2], p[r][6])),
                        v_add(v_add(p[r][1], p[r][5]), v_add(p[r][3], p[r][7])));
}

/* W packed rows quantised where they are. */
INLINE void quantise_packed(const gram *g, const double f[W], double *q)
{
    const ptrdiff_t d = g->d, stride = g->panel_stride;
    vec factor[W];
UNROLL
    for (int k = 0; k < W; k++)
        factor[k] = v_set(f[k]);
    for (ptrdiff_t j = 0; j < d; j += W, q += stride)
UNROLL
        for (int k = 0; k < W; k++)
            v_store(q + k * W, v_round(v_mul(v_load(q + k * W), factor[k])));
}

/* The last `count` rows, fewer than W, copied into W rows filled up with zeros. */
static void copy_rows(const gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t count)
{
    const size_t row = (size_t)g->d * (x->is_float32 ? 4 : 8);
    memset(g->spare, 0, W * row);
    for (ptrdiff_t k = 0; k < count; k++)
        copy_row(g, x, start + k, (char *)g->spare + (size_t)k * row);
}

/* Rows start, ..., start + count - 1 of the table into the packed block, filled
 * up with rows of zeros to a multiple of W.  Returns -1, or the first row that
 * cannot be added.
 *
 * Norms run some groups of W rows ahead of the products, or the latency of
 * square root and division would show. */
INLINE ptrdiff_t pack(gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t count, int drop,
                      fetch *ahead, int by_rows, int is_float32)
{
    double f[GROUPS][W] __attribute__((aligned(64)));
    int slow[GROUPS];
    const ptrdiff_t item = is_float32 ? 4 : 8;
    const ptrdiff_t groups = !by_rows || g->d <= 128 ? GROUPS : 1;
    const char *spare = (const char *)g->spare;
    for (ptrdiff_t r0 = 0; r0 < count; r0 += groups * W) {
        const ptrdiff_t stop = r0 + groups * W < count ? r0 + groups * W : count;
        vec norm[GROUPS];
        int any_slow = 0;
        if (!by_rows)
            transpose_columns(g, x->columns, start + r0, (stop - r0) / W, g->packed + r0 * W,
                              norm, is_float32);
        for (ptrdiff_t r = r0, k = 0; r < stop; r += W, k++) {
            double *q = g->packed + r * W;
            vec s;
            fetch_some(ahead);
            if (r + W > count) {
                copy_rows(g, x, start + r, count - r);
                s = copy_in_rows(g, spare, g->d * item, q, is_float32);
            } else if (by_rows) {
                s = copy_in_rows(g, x->rows + (start + r) * x->row_stride, x->row_stride, q,
                                 is_float32);
            } else {
                s = norm[k];
            }
            any_slow |= slow[k] = factors(g, s, f[k]);
        }
        for (ptrdiff_t r = r0, k = 0; r < stop; r += W, k++)
            quantise_packed(g, f[k], g->packed + r * W);
        for (ptrdiff_t k = 0; any_slow && r0 + k * W < stop; k++) {
            const ptrdiff_t bad = slow_rows(g, x, start, r0 + k * W, slow[k], drop);
            if (bad >= 0)
                return bad;
        }
    }
    return -1;
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
static fetch plan_fetch(const gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t count,
                        ptrdiff_t steps)
{
    const ptrdiff_t item = x->is_float32 ? 4 : 8;
    fetch f = {.left = 1, .run = 1};
    if (count <= 0)
        return f;
    ptrdiff_t runs, stride, bytes; /* runs of bytes, a stride apart */
    if (x->columns) {
        runs = g->d, stride = 0, bytes = count * item;
        f.column = x->columns, f.last = x->columns + g->d - 1, f.offset = start * item;
    } else if (x->row_stride == g->d * item) {
        runs = 1, stride = 0, bytes = count * x->row_stride;
    } else {
        runs = count, stride = x->row_stride, bytes = g->d * item;
    }
    f.at = x->columns ? x->columns[0] + f.offset : x->rows + start * x->row_stride;
    f.left = f.run = (bytes + 63) / 64 + (runs > 1); /* a run may begin inside a line */
    f.jump = stride - 64 * f.run;
    f.per_step = (runs * f.run + steps - 1) / steps;
    return f;
}

static ptrdiff_t update(gram *g, const gram_table *x, int drop)
{
    const int by_rows = !x->columns;
    const ptrdiff_t steps = tile_calls(g);
    int64_t pending = g->pending_rows; /* not written in the loop: g may share its lines */
    for (ptrdiff_t start = 0; start < x->n; start += g->block_rows) {
        const ptrdiff_t left = x->n - start - g->block_rows;
        const ptrdiff_t count = left < 0 ? x->n - start : g->block_rows;
        const ptrdiff_t rows = (count + W - 1) / W * W;
        fetch ahead = plan_fetch(g, x, start + count, left < g->block_rows ? left : g->block_rows,
                                 rows / W + steps * ((rows + STEP - 1) / STEP));
        ptrdiff_t bad;
        if (by_rows)
            bad = x->is_float32 ? pack(g, x, start, count, drop, &ahead, 1, 1)
                                : pack(g, x, start, count, drop, &ahead, 1, 0);
        else
            bad = x->is_float32 ? pack(g, x, start, count, drop, &ahead, 0, 1)
                                : pack(g, x, start, count, drop, &ahead, 0, 0);
        if (bad >= 0)
            return bad;

        if (pending + count > g->flush_rows) {
            gram_flush(g);
            pending = 0;
        }
        multiply(g, rows, &ahead);
        pending += count;
    }
    g->pending_rows = pending;
    g->n_rows += x->n;
    return -1;
}

static ptrdiff_t block_rows(ptrdiff_t d)
{
    return d <= 24 ? 64 : d <= 150 ? 48 : 128;
}

const gram_kernel KERNEL = {KERNEL_NAME, W, EXACT_BITS, block_rows, update};
