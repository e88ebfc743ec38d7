#include "gram_digits.h"

#include <float.h>
#ifdef _WIN32
#include <malloc.h>
#include <windows.h>
#else
#include <sched.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const gram_kernel gram_portable, gram_portable_tiles;
#ifdef __x86_64__
extern const gram_kernel gram_avx2, gram_avx512, gram_avx512_tiles;
#endif
#ifdef GRAM_AMX
extern const gram_kernel gram_amx;
int gram_amx_is_there(void);
#endif

int gram_kernels(const gram_kernel *out[GRAM_KERNELS], int *with_plain)
{
    int n = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    const int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
                       && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#ifdef GRAM_AMX
    if (avx512 && gram_amx_is_there())
        out[n++] = &gram_amx;
#endif
    if (avx512)
        out[n++] = &gram_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[n++] = &gram_avx2;
#endif
    out[n++] = &gram_portable;
    int all = n;
#ifdef __x86_64__
    if (avx512)
        out[all++] = &gram_avx512_tiles;
#endif
    out[all++] = &gram_portable_tiles;
    *with_plain = all;
    return n;
}

/* Every integer row satisfies sum q^2 <= 2^(2 bits).
 *
 * Let u = 2^-53.  The squared norm s is a sum of d products in eight partial
 * sums of ceil(d/8) terms and a tree of depth 3, so it is at least
 * (1 - u)^(d/8 + 5) of the truth.  A clipped row is multiplied by
 * fl(T / fl(sqrt s)), one kept by fl(T / B) with s <= fl(B^2); each product
 * fl(x_i f) is rounded once.  Hence || fl(f x) || <= T (1 + (d/16 + 8) u), to
 * first order in u.  Rounding to integers moves a row by at most sqrt(d)/2, so
 * with T = (2^bits - sqrt(d)/2) (1 - (d + 64) u) the triangle inequality gives
 * || q || <= 2^bits.  (The few roundings in T itself and squares lost to
 * underflow, d 2^-1075 beside bound^2 >= 2^-800, are far inside the rest.)
 */
double gram_target(ptrdiff_t d, int bits)
{
    return (ldexp(1.0, bits) - sqrt((double)d) / 2) * (1 - (double)(d + 64) * 0x1p-53);
}

void gram_set_rule(row_rule *rule, double bound, double target)
{
    const double norm_limit = bound >= 0x1p-400 && bound <= 0x1p400 ? DBL_MAX : -1;
    *rule = (row_rule){bound, bound * bound, target, target / bound, norm_limit};
}

int gram_quantise_row(const row_rule *rule, const double *x, ptrdiff_t d, double *q)
{
    double p[8] = {0};
    for (ptrdiff_t j = 0; j < d; j++)
        p[j % 8] += x[j] * x[j];
    const double s = FOLD(p);
    if (!(s <= rule->norm_limit)) {
        for (ptrdiff_t j = 0; j < d; j++)
            if (x[j] != x[j])
                return 0;
        memcpy(q, x, (size_t)d * sizeof *q);
        return gram_quantise_far(rule, q, d, d, 0) ? 1 : -1;
    }
    const double f = row_factor(rule, s);
    for (ptrdiff_t j = 0; j < d; j++)
        q[j] = to_integer(x[j] * f);
    return 1;
}

/* The definition of q for rows whose squared norm is not finite and for bounds beyond 2^+-400.
 *
 * The row is divided by the power of two above its largest entry; clipping
 * and rounding are then as in the hot loop.  Returns 0 for a row with an infinity. */
int gram_quantise_far(const row_rule *rule, double *q, ptrdiff_t d, ptrdiff_t w, ptrdiff_t stride)
{
    double largest = 0, p[8] = {0};
    for (ptrdiff_t j = 0; j < d; j++) {
        const double x = q[j / w * stride + j % w];
        if (fabs(x) > largest)
            largest = fabs(x);
    }
    if (isinf(largest))
        return 0;

    int e;
    frexp(largest, &e);
    for (ptrdiff_t j = 0; j < d; j++) {
        double *at = &q[j / w * stride + j % w];
        *at = ldexp(*at, -e);
        p[j % 8] += *at * *at;
    }
    const double s = FOLD(p);
    const double bound = ldexp(rule->bound, -e); /* 0 or infinity where that is what it amounts to */
    const double f = s > bound * bound ? rule->target / sqrt(s) : rule->target / bound;
    for (ptrdiff_t j = 0; j < d; j++) {
        double *at = &q[j / w * stride + j % w];
        *at = nearbyint(*at * f);
    }
    return 1;
}

/* Tell whether the factor of every row is S, and hence no norm is needed.
 *
 * Rounded sums and products grow with their terms, so no row's squared norm s,
 * as computed, exceeds that of the limits; and the factor, T / sqrt(s) or T / B,
 * never grows with s. */
static int is_steady(const gram *g, const double *limit)
{
    double p[8] = {0};
    for (ptrdiff_t j = 0; j < g->d; j++)
        p[j % 8] += limit[j] * limit[j];
    const double s = FOLD(p);
    return s <= g->rule.norm_limit && row_factor(&g->rule, s) == g->rule.scale;
}

/* Take a table's scaling over, with zeros up to whole panels.  A column that is not there
 * is read as zeros, from which its limit is far enough. */
void gram_take_scaling(gram *g, const gram_table *x)
{
    const ptrdiff_t w = g->kernel->width;
    g->scaling = GRAM_PLAIN;
    if (!x->center)
        return;
    for (ptrdiff_t j = 0; j < g->d; j++) {
        double *place = g->places + 4 * w * (j / w) + j % w;
        const int is_there = j < x->width;
        place[0] = is_there ? x->center[j] : -x->limit[j];
        place[w] = is_there ? x->inverse[j] : 1;
        place[2 * w] = -x->limit[j];
        place[3 * w] = x->limit[j];
    }
    g->scaling = is_steady(g, x->limit) ? GRAM_STEADY : GRAM_SCALED;
}

/* Bytes that are not zeros: pages that are not used are not there. */
static void *room(size_t n)
{
#ifdef _WIN32
    return _aligned_malloc(n, 64);
#else
    const size_t large = (size_t)1 << 21; /* a large page, where the system gives them */
    void *p = NULL;
    if (posix_memalign(&p, n < large ? 64 : large, n))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (n >= large)
        madvise(p, n, MADV_HUGEPAGE);
#endif
    return p;
#endif
}

void *gram_zeros(size_t n)
{
    n = n ? n : 1;
    void *p = room(n);
    return p ? memset(p, 0, n) : NULL;
}

void gram_free_zeros(void *p)
{
#ifdef _WIN32
    _aligned_free(p);
#else
    free(p);
#endif
}

/* Without room, or where the system refuses it, rows are multiplied as they come: the sums
 * are the same. */
void gram_make_room(gram *g, ptrdiff_t rows)
{
    const gram_kernel *k = g->kernel;
    if (!g->digits && k->settle && g->d >= k->digit_columns && rows >= k->digit_rows
        && g->bits <= DIGIT_BITS && k->is_permitted())
        g->digits = room(digit_room_at(NULL, g->d).bytes);
}

static ptrdiff_t n_strips(const gram *g) { return (g->d + GRAM_STRIP - 1) / GRAM_STRIP; }

/* Multiply the rows that wait; and, where all others are gone, have the sums for oneself. */
void gram_settle(gram *g)
{
    if (g->waiting)
        g->kernel->settle(g);
    if (!g->shared)
        return;
    g->spilled |= __atomic_load_n(&g->shared->spilled, __ATOMIC_RELAXED);
    if (__atomic_load_n(&g->shared->sharers, __ATOMIC_ACQUIRE) > 1)
        return;
    g->pending_rows = 0;
    for (ptrdiff_t s = 0; s < n_strips(g); s++)
        if (g->shared->strips[s].rows > g->pending_rows)
            g->pending_rows = g->shared->strips[s].rows;
    gram_free_zeros(g->shared);
    g->shared = NULL;
}

/* A while of trying: a thread that has the lock may be asleep. */
void gram_wait(gram_strip *s)
{
    for (int turn = 1;; turn++) {
        if (!__atomic_load_n(&s->locked, __ATOMIC_RELAXED)
            && !__atomic_exchange_n(&s->locked, 1, __ATOMIC_ACQUIRE))
            return;
        if (turn % 64 == 0) {
#ifdef _WIN32
            SwitchToThread();
#else
            sched_yield();
#endif
        }
    }
}

int gram_init_part(gram *g, const gram_kernel *kernel, ptrdiff_t d, ptrdiff_t lanes,
                   ptrdiff_t whole, double bound, int bits, const gram *beside)
{
    const ptrdiff_t w = kernel->width;
    memset(g, 0, sizeof *g);
    g->kernel = kernel;
    g->d = d;
    g->bits = bits;
    gram_set_rule(&g->rule, bound, gram_target(whole, bits));

    /* block_rows 2^(2 bits) <= 2^exact_bits: every partial sum of a block is exact. */
    const ptrdiff_t exact = (ptrdiff_t)1 << (kernel->exact_bits - 2 * bits);
    g->block_rows = kernel->block_rows(d);
    if (g->block_rows > exact)
        g->block_rows = exact;
    g->flush_rows = (int64_t)1 << (62 - 2 * bits);

    g->panels = (d + w - 1) / w;
    g->all_panels = (d + lanes + w - 1) / w;
    g->panel_stride = (g->block_rows + 1) * w; /* odd in cache lines: panels spread over sets */
    g->size = gram_tile(g->panels, 0, w);
    g->packed = gram_zeros((size_t)(g->all_panels * g->panel_stride) * sizeof(double));
    g->spare = gram_zeros((size_t)(w * d) * sizeof(double));
    g->missing = gram_zeros((size_t)g->block_rows);
    g->places = gram_zeros((size_t)(4 * g->panels * w) * sizeof(double));
    if (beside) {
        g->shared = beside->shared;
        g->tiles = beside->tiles, g->lo = beside->lo, g->hi = beside->hi;
    } else {
        /* calloc: pages of the totals that are never spilled into are never touched. */
        g->tiles = gram_zeros((size_t)g->size * sizeof(int64_t));
        g->lo = calloc((size_t)g->size + 1, sizeof(uint64_t));
        g->hi = calloc((size_t)g->size + 1, sizeof(int64_t));
    }
    if (!g->packed || !g->spare || !g->missing || !g->places || !g->tiles || !g->lo || !g->hi) {
        gram_free(g);
        return -1;
    }
    return 0;
}

void gram_free(gram *g)
{
    gram_free_zeros(g->packed);
    gram_free_zeros(g->spare);
    gram_free_zeros(g->missing);
    gram_free_zeros(g->digits);
    gram_free_zeros(g->places);
    if (!g->shared || !__atomic_sub_fetch(&g->shared->sharers, 1, __ATOMIC_ACQ_REL)) {
        gram_free_zeros(g->tiles);
        gram_free_zeros(g->lo);
        gram_free_zeros(g->hi);
        gram_free_zeros(g->shared);
    }
    g->shared = NULL;
    g->packed = g->spare = g->places = NULL;
    g->missing = NULL;
    g->digits = NULL;
    g->tiles = g->hi = NULL;
    g->lo = NULL;
}

void gram_reset(gram *g)
{
    memset(g->tiles, 0, (size_t)g->size * sizeof(int64_t));
    if (g->spilled) {
        memset(g->lo, 0, (size_t)g->size * sizeof(uint64_t));
        memset(g->hi, 0, (size_t)g->size * sizeof(int64_t));
    }
    memset(g->missing, 0, (size_t)g->block_rows);
    g->n_rows = g->n_dropped = g->pending_rows = g->waiting = 0;
    g->spilled = 0;
}

/* gram_narrow.h knows of no strips, but of few columns only. */
int gram_init_beside(gram *g, gram *other)
{
    gram_shared *shared = other->shared;
    if (other->d <= GRAM_STRIP)
        return -1;
    if (!shared) {
        const size_t strips = (size_t)n_strips(other);
        shared = gram_zeros(sizeof *shared + strips * sizeof shared->strips[0]);
        if (!shared)
            return -1;
        shared->sharers = 1;
        shared->spilled = other->spilled;
        for (size_t s = 0; s < strips; s++)
            shared->strips[s].rows = other->pending_rows;
        other->shared = shared;
    }
    if (__atomic_add_fetch(&shared->sharers, 1, __ATOMIC_ACQ_REL) > GRAM_SHARERS) {
        __atomic_sub_fetch(&shared->sharers, 1, __ATOMIC_ACQ_REL);
        return -1;
    }
    return gram_init_part(g, other->kernel, other->d, 0, other->d, other->rule.bound, other->bits,
                          other);
}

static void spill(gram *g, ptrdiff_t from, ptrdiff_t to)
{
    for (ptrdiff_t i = from; i < to; i++) {
        gram_add128(&g->hi[i], &g->lo[i], g->tiles[i] >> 63, (uint64_t)g->tiles[i]);
        g->tiles[i] = 0;
    }
}

/* Of a strip whose lock one has. */
void gram_spill_strip(gram *g, ptrdiff_t strip)
{
    const ptrdiff_t w = g->kernel->width, blocks = GRAM_STRIP / w, first = strip * blocks;
    const ptrdiff_t last = first + blocks < g->panels ? first + blocks : g->panels;
    spill(g, gram_tile(first, 0, w), gram_tile(last, 0, w));
    g->shared->strips[strip].rows = 0;
    __atomic_store_n(&g->shared->spilled, 1, __ATOMIC_RELAXED);
}

void gram_flush(gram *g)
{
    gram_settle(g);
    if (!g->shared)
        spill(g, 0, g->size);
    for (ptrdiff_t s = 0; g->shared && s < n_strips(g); s++) {
        gram_open_strip(g, s, 0);
        gram_spill_strip(g, s);
        gram_close_strip(g, s);
    }
    g->pending_rows = 0;
    g->spilled = 1;
}

void gram_merge(gram *g, gram *h)
{
    gram_settle(g);
    gram_settle(h);
    g->n_rows += h->n_rows;
    g->n_dropped += h->n_dropped;
    if (g != h && g->tiles == h->tiles)
        return;
    if (g->shared || h->shared) {
        gram_flush(g);
        gram_flush(h);
    }
    if (g->pending_rows + h->pending_rows > g->flush_rows)
        gram_flush(g);
    for (ptrdiff_t i = 0; i < g->size; i++)
        g->tiles[i] += h->tiles[i];
    g->pending_rows += h->pending_rows;
    if (h->spilled) {
        for (ptrdiff_t i = 0; i < g->size; i++)
            gram_add128(&g->hi[i], &g->lo[i], h->hi[i], h->lo[i]);
        g->spilled = 1;
    }
}

/* Where entry (r, c), r >= c, is kept. */
static inline ptrdiff_t entry(const gram *g, ptrdiff_t r, ptrdiff_t c)
{
    return gram_entry(r, c, g->kernel->width);
}

/* Where entries (r, w j), ..., (r, w j + n - 1) of the lower triangle are kept one after
 * another; of a diagonal block, which keeps them otherwise, n is 1. */
typedef struct {
    ptrdiff_t c, n, at;
} run;

static inline run next_run(const gram *g, ptrdiff_t r, ptrdiff_t c)
{
    const ptrdiff_t w = g->kernel->width;
    return (run){c, c < r / w * w ? w : 1, entry(g, r, c)};
}

#define EACH_RUN(x) \
    for (ptrdiff_t r = 0; r < g->d; r++) \
        for (run x = next_run(g, r, 0); x.c <= r; x = next_run(g, r, x.c + x.n))

void gram_get_triangle(gram *g, int64_t *hi, uint64_t *lo)
{
    gram_settle(g);
    EACH_RUN(x) {
        const int64_t *sums = g->tiles + x.at;
        for (ptrdiff_t i = 0; i < x.n; i++) {
            hi[i] = sums[i] >> 63;
            lo[i] = (uint64_t)sums[i];
        }
        for (ptrdiff_t i = 0; g->spilled && i < x.n; i++)
            gram_add128(&hi[i], &lo[i], g->hi[x.at + i], g->lo[x.at + i]);
        hi += x.n;
        lo += x.n;
    }
}

/* Into the tiles where as many rows could have made the sums as they have room for. */
void gram_add_triangle(gram *g, const int64_t *hi, const uint64_t *lo)
{
    gram_settle(g);
    const ptrdiff_t n = g->d * (g->d + 1) / 2;
    uint64_t largest = 0, beyond = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        const uint64_t sign = (uint64_t)((int64_t)lo[k] >> 63);
        const uint64_t size = (lo[k] ^ sign) - sign;
        beyond |= (uint64_t)hi[k] ^ sign;
        largest = size > largest ? size : largest;
    }
    const int64_t rows = (int64_t)((largest >> 2 * g->bits) + 1);
    const int fits = !beyond && !g->shared && g->pending_rows + rows <= g->flush_rows;
    if (fits)
        g->pending_rows += rows;
    else
        g->spilled = 1;
    EACH_RUN(x)
        for (ptrdiff_t i = x.at; i < x.at + x.n; i++, hi++, lo++) {
            if (fits)
                g->tiles[i] += (int64_t)*lo;
            else
                gram_add128(&g->hi[i], &g->lo[i], *hi, *lo);
        }
}
