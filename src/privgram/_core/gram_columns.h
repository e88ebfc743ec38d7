/* Tables of more than NARROW columns and no more than FEW or FEW_OF_ROWS: a vector has one column
 * of W rows.  Columns are read as they lie, rows are transposed where there are registers for it,
 * and every product is made once, where tiles of panels would be filled up.
 *
 * A block's rows are quantised into columns of BLOCK rows, and tiles of SIDE columns by SIDE add
 * their products to vectors of sums, from which the totals get them from time to time. */
#define BLOCK 128
#define STRIDE (BLOCK + 8) /* odd in lines of the cache */
#define SIDE (W == 8 ? 5 : 3) /* of tiles that stay in the registers */
#define STRIPS ((FEW + SIDE - 1) / SIDE)
#define AHEAD 256 /* rows to fetch ahead */

typedef struct {
    double q[FEW * STRIDE] __attribute__((aligned(64)));
    vec sums[STRIPS * (STRIPS + 1) / 2][SIDE * SIDE];
} upright;

/* Tile of columns i, ..., i + m - 1 by j, ..., j + SIDE - 1; or, own, by themselves. */
INLINE void add_tile(const double *q, vec *sums, ptrdiff_t rows, ptrdiff_t i, ptrdiff_t j,
                         const int m, const int own)
{
    const int n = own ? m : SIDE;
    vec c[SIDE][SIDE];
    const double *a = q + i * STRIDE, *b = q + j * STRIDE;
UNROLL
    for (int k = 0; k < m; k++)
UNROLL
        for (int l = 0; l < SIDE; l++)
            if (!own || l <= k)
                c[k][l] = sums[k * SIDE + l];
    for (ptrdiff_t r = 0; r < rows; r += W) {
        vec x[SIDE];
UNROLL
        for (int l = 0; l < n; l++)
            x[l] = v_load(b + l * STRIDE + r);
UNROLL
        for (int k = 0; k < m; k++) {
            const vec y = own ? x[k] : v_load(a + k * STRIDE + r);
UNROLL
            for (int l = 0; l < SIDE; l++)
                if (!own || l <= k)
                    c[k][l] = v_fma(y, x[l], c[k][l]);
        }
    }
UNROLL
    for (int k = 0; k < m; k++)
UNROLL
        for (int l = 0; l < SIDE; l++)
            if (!own || l <= k)
                sums[k * SIDE + l] = c[k][l];
}

typedef void products_function(const double *, vec *, ptrdiff_t, ptrdiff_t, ptrdiff_t);

#define PRODUCTS(m, own) \
    static __attribute__((noinline)) void products_##m##_##own( \
        const double *q, vec *sums, ptrdiff_t rows, ptrdiff_t i, ptrdiff_t j) \
    { \
        add_tile(q, sums, rows, i, j, m, own); \
    }
#define PRODUCTS_OF(m) PRODUCTS(m, 0) PRODUCTS(m, 1)
#define PRODUCTS_NAMES(m) {products_##m##_0, products_##m##_1}

PRODUCTS_OF(1)
PRODUCTS_OF(2)
PRODUCTS_OF(3)
#if W == 8
PRODUCTS_OF(4)
PRODUCTS_OF(5)
#endif

static products_function *const products_by_size[SIDE][2] = {
    PRODUCTS_NAMES(1),
    PRODUCTS_NAMES(2),
    PRODUCTS_NAMES(3),
#if W == 8
    PRODUCTS_NAMES(4),
    PRODUCTS_NAMES(5),
#endif
};

static void add_block(const gram *g, upright *u, ptrdiff_t rows)
{
    vec(*sums)[SIDE * SIDE] = u->sums;
    for (ptrdiff_t i = 0; i < g->d; i += SIDE) {
        const ptrdiff_t m = g->d - i < SIDE ? g->d - i : SIDE;
        for (ptrdiff_t j = 0; j < i; j += SIDE)
            products_by_size[m - 1][0](u->q, *sums++, rows, i, j);
        products_by_size[m - 1][1](u->q, *sums++, rows, i, i);
    }
}

/* The sums into the totals; then they are zero. */
static void spill_sums(gram *g, upright *u)
{
    vec(*sums)[SIDE * SIDE] = u->sums;
    for (ptrdiff_t i = 0; i < g->d; i += SIDE)
        for (ptrdiff_t j = 0; j <= i; j += SIDE, sums++)
            for (ptrdiff_t r = i; r < i + SIDE && r < g->d; r++)
                for (ptrdiff_t c = j; c < j + SIDE && c <= r; c++) {
                    int64_t lanes[W] __attribute__((aligned(64))) = {0};
                    v_accumulate(lanes, (*sums)[(r - i) * SIDE + c - j]);
                    for (int k = 0; k < W; k++)
                        g->tiles[gram_entry(r, c, W)] += lanes[k];
                }
    memset(u->sums, 0, sizeof u->sums);
}

/* W rows of the table into q, quantised; or zeros, if one goes the slow path: then 1. */
INLINE int stand(const gram *g, const gram_table *x, ptrdiff_t r, double *q, const int scaling,
                 const int by_rows)
{
    const vec scale = v_set(g->rule.scale);
    vec p[8];
    for (int k = 0; k < 8; k++)
        p[k] = v_zero();
    for (ptrdiff_t j0 = 0; j0 < g->d; j0 += 8) {
        vec rows[W];
        if (by_rows) {
            const char *at = x->rows + r * x->row_stride + j0 * lane_size(x->kind);
UNROLL
            for (int k = 0; k < W; k++, at += x->row_stride) {
                __builtin_prefetch(at + AHEAD * x->row_stride);
                rows[k] = v_items_head(at, x->width - j0, x->kind);
            }
            v_transpose(rows);
        }
UNROLL
        for (int k = 0; k < 8; k++) {
            const ptrdiff_t j = j0 + k;
            if (j >= g->d)
                break;
            vec v = by_rows ? rows[k % W] : v_zero();
            if (!by_rows && j < x->width) {
                const gram_column c = x->columns[j];
                const char *at = c.x + r * lane_size(c.kind);
                __builtin_prefetch(at + AHEAD * lane_size(c.kind));
                v = v_items(at, c.kind);
            }
            if (scaling != GRAM_PLAIN)
                v = enter(v, place_of_one(g->places + 4 * W * (j / W) + j % W), scale, scaling);
            p[k] = v_add(p[k], scaling == GRAM_STEADY ? v : v_mul(v, v));
            v_store(q + j * STRIDE, v);
        }
    }
    const vec norm = FOLD(p);
    if (v_exceeds(norm, v_set(scaling == GRAM_STEADY ? DBL_MAX : g->rule.norm_limit))) {
        for (ptrdiff_t j = 0; j < g->d; j++)
            v_store(q + j * STRIDE, v_zero());
        return 1;
    }
    if (scaling != GRAM_STEADY) {
        const vec f = v_clip(norm, v_set(g->rule.bound_sq), v_set(g->rule.target), scale);
        for (ptrdiff_t j = 0; j < g->d; j++)
            v_store(q + j * STRIDE, v_round(v_mul(v_load(q + j * STRIDE), f)));
    }
    return 0;
}

INLINE ptrdiff_t update_upright(gram *g, const gram_table *x, int drop, const int scaling,
                                const int by_rows)
{
    const ptrdiff_t exact = (ptrdiff_t)1 << (EXACT_BITS - 2 * g->bits); /* products in a lane */
    const ptrdiff_t most = exact < 4096 ? exact : 4096;
    upright u;
    memset(u.sums, 0, sizeof u.sums);
    ptrdiff_t lane = 0, bad = -1, r = 0;
    while (r + W <= x->n && bad < 0) {
        ptrdiff_t rows = x->n - r < BLOCK ? (x->n - r) / W * W : BLOCK;
        if (rows > most * W)
            rows = most * W;
        unsigned char slow[BLOCK / W];
        ptrdiff_t n_slow = 0;
        for (ptrdiff_t k = 0; k < rows; k += W)
            n_slow += slow[k / W] = (unsigned char)stand(g, x, r + k, u.q + k, scaling, by_rows);
        if (lane + rows / W > most) {
            spill_sums(g, &u);
            lane = 0;
        }
        const ptrdiff_t count = rows - n_slow * W;
        if (g->pending_rows + count > g->flush_rows) {
            spill_sums(g, &u);
            lane = 0;
            gram_flush(g);
        }
        add_block(g, &u, rows);
        lane += rows / W;
        g->pending_rows += count;
        g->n_rows += count;
        for (ptrdiff_t k = 0; n_slow && k < rows && bad < 0; k += W)
            if (slow[k / W]) {
                if (g->pending_rows + W > g->flush_rows) {
                    spill_sums(g, &u); /* before update_blocks() flushes */
                    lane = 0;
                }
                bad = update_some(g, x, r + k, W, drop);
            }
        r += rows;
    }
    spill_sums(g, &u);
    return bad >= 0 || r == x->n ? bad : update_some(g, x, r, x->n - r, drop);
}

#define UPRIGHT(name, by_rows) \
    static __attribute__((noinline)) ptrdiff_t name(gram *g, const gram_table *x, int drop) \
    { \
        if (g->scaling == GRAM_PLAIN) \
            return update_upright(g, x, drop, GRAM_PLAIN, by_rows); \
        return g->scaling == GRAM_SCALED ? update_upright(g, x, drop, GRAM_SCALED, by_rows) \
                                         : update_upright(g, x, drop, GRAM_STEADY, by_rows); \
    }

UPRIGHT(update_columns, 0)
#if W == 8
UPRIGHT(update_few, 1)
#else
#define update_few update_blocks
#endif
