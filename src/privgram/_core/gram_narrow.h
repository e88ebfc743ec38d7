/* Up to NARROW columns: a vector has one column of W rows, and the sums stay in registers.
 *
 * The arithmetic of a row is that of gram_kernel.h.  W rows with one that goes the slow path, and
 * the last rows, are left to update_blocks(). */
#define NARROW 4
#define NARROW_GROUPS 512 /* of W rows between two additions to the totals, at most */

#define FEW 12         /* columns that gram_columns.h takes, */
#define FEW_OF_ROWS 10 /* and of tables of rows */

/* Rows start, ... of a table of few columns. */
static ptrdiff_t update_some(gram *g, const gram_table *x, ptrdiff_t start, ptrdiff_t n, int drop)
{
    gram_column columns[FEW];
    gram_table part = *x;
    part.n = n;
    if (x->columns) {
        for (ptrdiff_t j = 0; j < x->width; j++) {
            columns[j] = x->columns[j];
            columns[j].x += start * lane_size(columns[j].kind);
        }
        part.columns = columns;
    } else {
        part.rows += start * x->row_stride;
    }
    const ptrdiff_t bad = update_blocks(g, &part, drop);
    return bad < 0 ? bad : start + bad;
}

/* Rows that may be read W items at a time: rows of one line, and none near the table's end. */
static ptrdiff_t narrow_rows(const gram *g, const gram_table *x)
{
    if (g->d > NARROW || g->hold || g->digits)
        return 0;
    if (x->columns)
        return x->n;
    const ptrdiff_t item = lane_size(x->kind), row = x->width * item;
    if (x->row_stride < row || x->row_stride > W * item || !row)
        return 0;
    return x->n - (W * item - row + x->row_stride - 1) / x->row_stride;
}

INLINE ptrdiff_t narrow(gram *g, const gram_table *x, ptrdiff_t n, int drop, const int d,
                        const int scaling)
{
    const vec scale = v_set(g->rule.scale), zero = v_zero();
    const ptrdiff_t exact = (ptrdiff_t)1 << (EXACT_BITS - 2 * g->bits);
    const ptrdiff_t block = (exact < NARROW_GROUPS ? exact : NARROW_GROUPS) * W;
    place places[NARROW];
UNROLL
    for (int j = 0; j < d; j++)
        places[j] = scaling == GRAM_PLAIN ? (place){zero, zero, zero, zero}
                                          : place_of_one(g->places + j);
    ptrdiff_t r = 0;
    while (r + W <= n) {
        vec sum[NARROW][NARROW];
UNROLL
        for (int i = 0; i < d; i++)
UNROLL
            for (int j = 0; j <= i; j++)
                sum[i][j] = zero;
        const ptrdiff_t from = r, stop = n - r < block ? n : r + block;
        int slow = 0;
        for (; r + W <= stop; r += W) {
            vec q[W];
            if (x->columns) {
UNROLL
                for (int j = 0; j < d; j++) {
                    const int kind = j < x->width ? x->columns[j].kind : LANE_FLOAT64;
                    q[j] = j < x->width ? v_items(x->columns[j].x + r * lane_size(kind), kind)
                                        : zero;
                }
            } else {
                const char *at = x->rows + r * x->row_stride;
UNROLL
                for (int k = 0; k < W; k++)
                    q[k] = v_items(at + k * x->row_stride, x->kind);
                v_transpose(q);
                if (x->width < d)
                    q[d - 1] = zero;
            }
            vec p[NARROW], norm = zero;
UNROLL
            for (int j = 0; j < d; j++) {
                q[j] = enter(q[j], places[j], scale, scaling);
                if (scaling == GRAM_STEADY)
                    norm = v_add(norm, q[j]); /* NaN if one is */
                else
                    p[j] = v_mul(q[j], q[j]);
            }
            if (scaling == GRAM_STEADY) {
                slow = v_exceeds(norm, v_set(DBL_MAX));
            } else {
                norm = d > 2 ? v_add(p[0], p[2]) : p[0];
                if (d > 1)
                    norm = v_add(norm, d > 3 ? v_add(p[1], p[3]) : p[1]);
                slow = v_exceeds(norm, v_set(g->rule.norm_limit));
            }
            if (slow)
                break;
            if (scaling != GRAM_STEADY) {
                const vec f = v_clip(norm, v_set(g->rule.bound_sq), v_set(g->rule.target), scale);
UNROLL
                for (int j = 0; j < d; j++)
                    q[j] = v_round(v_mul(q[j], f));
            }
UNROLL
            for (int i = 0; i < d; i++)
UNROLL
                for (int j = 0; j <= i; j++)
                    sum[i][j] = v_fma(q[i], q[j], sum[i][j]);
        }

        if (g->pending_rows + (r - from) > g->flush_rows)
            gram_flush(g);
        g->pending_rows += r - from;
        g->n_rows += r - from;
UNROLL
        for (int i = 0; i < d; i++)
UNROLL
            for (int j = 0; j <= i; j++) {
                int64_t lanes[W] __attribute__((aligned(64))) = {0};
                v_accumulate(lanes, sum[i][j]);
                for (int k = 0; k < W; k++)
                    g->tiles[gram_entry(i, j, W)] += lanes[k];
            }
        if (slow) {
            const ptrdiff_t bad = update_some(g, x, r, W, drop);
            if (bad >= 0)
                return bad;
            r += W;
        }
    }
    return r < x->n ? update_some(g, x, r, x->n - r, drop) : -1;
}

typedef ptrdiff_t narrow_function(gram *, const gram_table *, ptrdiff_t, int);

#define NARROW_OF(d, scaling) \
    static __attribute__((noinline)) ptrdiff_t narrow_##d##_##scaling( \
        gram *g, const gram_table *x, ptrdiff_t n, int drop) \
    { \
        return narrow(g, x, n, drop, d, GRAM_##scaling); \
    }
#define NARROW_KINDS(d) NARROW_OF(d, PLAIN) NARROW_OF(d, SCALED) NARROW_OF(d, STEADY)
#define NARROW_NAMES(d) {narrow_##d##_PLAIN, narrow_##d##_SCALED, narrow_##d##_STEADY}

NARROW_KINDS(1)
NARROW_KINDS(2)
NARROW_KINDS(3)
NARROW_KINDS(4)

#include "gram_columns.h"

static ptrdiff_t update(gram *g, const gram_table *x, int drop)
{
    static narrow_function *const by_size[NARROW][3] = {
        NARROW_NAMES(1), NARROW_NAMES(2), NARROW_NAMES(3), NARROW_NAMES(4)};
    if (g->d > NARROW && g->d <= (x->columns ? FEW : FEW_OF_ROWS) && !g->hold && !g->digits)
        return x->columns ? update_columns(g, x, drop) : update_few(g, x, drop);
    const ptrdiff_t n = narrow_rows(g, x);
    return n < W ? update_blocks(g, x, drop) : by_size[g->d - 1][g->scaling](g, x, n, drop);
}
