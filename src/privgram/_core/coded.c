#include "coded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ptrdiff_t width(const coded *t)
{
    return t->g.all_panels * t->g.kernel->width;
}

static ptrdiff_t n_cells(const coded_block *b, const coded_block *c)
{
    return (b->levels + 1) * (c->levels + 1);
}

static size_t bytes_of_cells(const coded *t, const coded_block *b, const coded_block *c)
{
    const ptrdiff_t cells = coded_parts(t) * n_cells(b, c);
    return (size_t)(cells * coded_copies(cells)) * sizeof(int64_t);
}

static size_t bytes_of_sums(const coded *t, const coded_block *b)
{
    return (size_t)(coded_parts(t) * (b->levels + 1) * b->copies * width(t)) * sizeof(int64_t);
}

static size_t bytes_of_products(const coded *t)
{
    return (size_t)(coded_parts(t) * t->product_stride) * sizeof(double);
}

/* Room for the dense columns of each group: the blocks that gram.h describes, less what is
 * never used of them, in the order of add_products. */
static int init_groups(coded *t)
{
    const ptrdiff_t d = t->g.d, w = t->g.kernel->width;
    ptrdiff_t at = 0;
    t->n_dense = d * (d + 1) / 2;
    t->place = calloc((size_t)t->n_dense + 1, sizeof *t->place);
    for (ptrdiff_t i = 0; t->place && i * w < d; i++) {
        const ptrdiff_t m = d - i * w < w ? d - i * w : w;
        const ptrdiff_t own = at + i * m * w;
        for (ptrdiff_t r = i * w; r < i * w + m; r++)
            for (ptrdiff_t c = 0; c <= r; c++)
                t->place[r * (r + 1) / 2 + c] =
                    c < i * w          ? at + (c / w * m + r % w) * w + c % w
                    : r - c <= w / 2   ? own + (r - c) * w + c % w
                                       : own + (w - r + c) * w + r % w;
        at = own + (m < w / 2 + 1 ? m : w / 2 + 1) * w;
    }
    t->product_stride = at;
    t->products = gram_zeros(bytes_of_products(t));
    t->pending = calloc((size_t)t->slots + 1, sizeof *t->pending);
    t->pending_limit = (int32_t)1 << (53 - 2 * t->g.bits);
    t->group = gram_zeros((size_t)t->g.block_rows * sizeof *t->group);
    t->n_rows = calloc((size_t)t->slots + 1, sizeof *t->n_rows);
    t->n_dropped = calloc((size_t)t->slots + 1, sizeof *t->n_dropped);
    return t->place && t->products && t->pending && t->group && t->n_rows && t->n_dropped ? 0 : -1;
}

static int init(coded *t)
{
    const ptrdiff_t n = t->n_blocks, dense = t->g.d;
    t->steady = 0;
    t->ones = dense;
    for (ptrdiff_t b = 0; b < n; b++)
        t->ones += t->blocks[b].value >= 0;
    ptrdiff_t with_value = dense, without = t->ones;
    t->code = gram_zeros((size_t)(t->n_factors * t->g.block_rows) * sizeof(int32_t));
    t->value = gram_zeros((size_t)(t->n_values * t->g.block_rows) * sizeof(double));
    t->cell = gram_zeros((size_t)t->g.block_rows * sizeof(int64_t));
    t->cells = calloc((size_t)(n * n) + 1, sizeof *t->cells);
    if (!t->code || !t->value || !t->cell || !t->cells)
        return -1;
    t->size = 0;
    for (ptrdiff_t b = 0; b < n; b++) {
        coded_block *block = &t->blocks[b];
        block->levels = t->levels[block->factor];
        block->lane = block->value >= 0 ? with_value++ : without++;
        block->copies = coded_copies(coded_parts(t) * block->levels);
        block->sums = gram_zeros(bytes_of_sums(t, block));
        if (!block->sums)
            return -1;
        t->size += block->levels * dense;
        for (ptrdiff_t c = 0; c <= b; c++) {
            const coded_block *other = &t->blocks[c];
            if (other->factor == block->factor) {
                t->size += block->levels;
                continue;
            }
            t->size += block->levels * other->levels;
            t->cells[b * n + c] = gram_zeros(bytes_of_cells(t, block, other));
            if (!t->cells[b * n + c])
                return -1;
        }
    }
    if (t->slots) {
        if (init_groups(t) < 0)
            return -1;
        t->size = t->slots * (t->n_dense + t->size);
    }
    t->hi = calloc((size_t)t->size + 1, sizeof *t->hi);
    t->lo = calloc((size_t)t->size + 1, sizeof *t->lo);
    return t->hi && t->lo ? 0 : -1;
}

int coded_init(coded *t, const gram_kernel *kernel, double bound, int bits)
{
    if (gram_init_part(&t->g, kernel, t->g.d, t->n_blocks, t->d, bound, bits, NULL) < 0)
        return -1;
    return init(t);
}

int coded_init_beside(coded *t, coded *other)
{
    if (t->n_blocks || t->slots || gram_init_beside(&t->g, &other->g) < 0)
        return -1;
    return init(t);
}

void coded_free(coded *t)
{
    gram_free(&t->g);
    gram_free_zeros(t->code);
    gram_free_zeros(t->value);
    gram_free_zeros(t->cell);
    for (ptrdiff_t b = 0; t->blocks && b < t->n_blocks; b++)
        gram_free_zeros(t->blocks[b].sums);
    for (ptrdiff_t i = 0; t->cells && i < t->n_blocks * t->n_blocks; i++)
        gram_free_zeros(t->cells[i]);
    free(t->cells);
    gram_free_zeros(t->group);
    gram_free_zeros(t->products);
    free(t->place);
    free(t->pending);
    free(t->n_rows);
    free(t->n_dropped);
    free(t->hi);
    free(t->lo);
    memset(t, 0, sizeof *t);
}

static void clear_pending(coded *t)
{
    const ptrdiff_t n = t->n_blocks;
    for (ptrdiff_t b = 0; b < n; b++) {
        memset(t->blocks[b].sums, 0, bytes_of_sums(t, &t->blocks[b]));
        for (ptrdiff_t c = 0; c < b; c++)
            if (t->cells[b * n + c])
                memset(t->cells[b * n + c], 0, bytes_of_cells(t, &t->blocks[b], &t->blocks[c]));
    }
    if (t->slots) {
        memset(t->products, 0, bytes_of_products(t));
        memset(t->pending, 0, (size_t)(t->slots + 1) * sizeof *t->pending);
    }
}

void coded_reset(coded *t)
{
    gram_reset(&t->g);
    clear_pending(t);
    memset(t->hi, 0, (size_t)t->size * sizeof *t->hi);
    memset(t->lo, 0, (size_t)t->size * sizeof *t->lo);
    if (t->slots) {
        memset(t->n_rows, 0, (size_t)(t->slots + 1) * sizeof *t->n_rows);
        memset(t->n_dropped, 0, (size_t)(t->slots + 1) * sizeof *t->n_dropped);
    }
}

/* The integer that a block's entries were left out of the sums by. */
static int64_t unit(const coded *t, const coded_block *b)
{
    return t->steady && b->value < 0 ? b->q : 1;
}

static int64_t sum_of(const int64_t *sums, ptrdiff_t copies, ptrdiff_t stride)
{
    int64_t sum = 0;
    for (ptrdiff_t k = 0; k < copies; k++)
        sum += sums[k * stride];
    return sum;
}

/* The sums of a slot into its totals; rows that are left out are zeros, and have none. */
void coded_flush_products(coded *t, ptrdiff_t slot)
{
    double *sums = t->products + slot * t->product_stride;
    const ptrdiff_t start = slot < t->slots ? slot * (t->size / t->slots) : 0;
    for (ptrdiff_t e = 0; slot < t->slots && e < t->n_dense; e++) {
        const int64_t sum = (int64_t)sums[t->place[e]];
        gram_add128(&t->hi[start + e], &t->lo[start + e], sum >> 63, (uint64_t)sum);
    }
    memset(sums, 0, (size_t)t->product_stride * sizeof *sums);
    t->pending[slot] = 0;
}

/* Products of pending rows are at most 2^(2 bits) each, so their sums are below 2^63, also
 * where a weight is put in at last. */
void coded_flush(coded *t)
{
    if (!t->size)
        return;
    const ptrdiff_t n = t->n_blocks, w = width(t);
    ptrdiff_t at = 0;
#define ADD(sum) \
    do { \
        const int64_t value = (sum); \
        gram_add128(&t->hi[at], &t->lo[at], value >> 63, (uint64_t)value); \
        at++; \
    } while (0)
    const ptrdiff_t parts = t->slots ? t->slots : 1;
    for (ptrdiff_t s = 0; t->g.pending_rows && s < parts; s++) {
        if (t->slots)
            coded_flush_products(t, s);
        at += t->n_dense;
        for (ptrdiff_t b = 0; b < n; b++) {
            const coded_block *block = &t->blocks[b];
            const ptrdiff_t step = block->copies * w;
            const int64_t *sums = block->sums + s * (block->levels + 1) * step;
            const int64_t q = unit(t, block);
            for (ptrdiff_t l = 0; l < block->levels; l++)
                for (ptrdiff_t j = 0; j < t->g.d; j++)
                    ADD(q * sum_of(sums + l * step + j, block->copies, w));
            for (ptrdiff_t c = 0; c <= b; c++) {
                const coded_block *other = &t->blocks[c];
                const int64_t *cells = t->cells[b * n + c];
                const int64_t both = q * unit(t, other);
                if (!cells) {
                    for (ptrdiff_t l = 0; l < block->levels; l++)
                        ADD(both * sum_of(sums + l * step + coded_lane(t, other), block->copies, w));
                    continue;
                }
                const ptrdiff_t all = n_cells(block, other);
                const ptrdiff_t copies = coded_copies(coded_parts(t) * all);
                cells += s * all * copies;
                for (ptrdiff_t l = 0; l < block->levels; l++)
                    for (ptrdiff_t m = 0; m < other->levels; m++)
                        ADD(both * sum_of(cells + (l * (other->levels + 1) + m) * copies, copies, 1));
            }
        }
    }
#undef ADD
    if (t->g.pending_rows)
        clear_pending(t);
    gram_flush(&t->g);
}

void coded_merge(coded *t, coded *u)
{
    coded_flush(t);
    coded_flush(u);
    for (ptrdiff_t i = 0; i < t->size; i++)
        gram_add128(&t->hi[i], &t->lo[i], u->hi[i], u->lo[i]);
    for (ptrdiff_t s = 0; t->slots && s <= t->slots; s++) {
        t->n_rows[s] += u->n_rows[s];
        t->n_dropped[s] += u->n_dropped[s];
    }
}

/* Tell whether no row can be clipped, whatever its codes: see is_steady in gram.c.
 *
 * In which partial sum a level's square goes depends on the code.  Sums of few bits
 * are exact in any order; others are taken as large as rounding can make them. */
static int is_steady(const coded *t, const coded_table *x)
{
    const gram *g = &t->g;
    const ptrdiff_t terms = g->d + t->n_blocks;
    double s = 0;
    int exact = 1;
    for (ptrdiff_t i = 0; i < terms; i++) {
        const coded_block *b = i < g->d ? NULL : &t->blocks[i - g->d];
        double v = b ? b->weight : x->dense.limit[i];
        if (b && b->value >= 0)
            v *= x->limit[b->value];
        exact &= ldexp(v * v, 20) == nearbyint(ldexp(v * v, 20));
        s += v * v;
    }
    if (!exact || s >= 0x1p32)
        s *= 1 + (double)(2 * terms + 16) * 0x1p-53;
    return row_factor(&g->rule, s) == g->rule.scale;
}

ptrdiff_t coded_update(coded *t, const coded_table *x, int drop, int leave_out)
{
    gram_take_scaling(&t->g, &x->dense);
    if (!t->slots)
        gram_make_room(&t->g, x->dense.n);
    if (!t->n_blocks && !t->slots)
        return t->g.kernel->update(&t->g, &x->dense, drop);
    /* Without blocks a row is one of gram.h's, which clips and quantises it. */
    const int steady = t->n_blocks && (x->is_short || is_steady(t, x));
    if (steady != t->steady)
        coded_flush(t);
    t->steady = steady;
    if (t->n_blocks)
        t->g.scaling = steady ? GRAM_STEADY : GRAM_SCALED;
    t->g.hold = t->n_blocks && !steady;
    const ptrdiff_t lanes = t->ones + (t->ones < t->g.d + t->n_blocks), w = t->g.kernel->width;
    t->panels = steady ? (lanes + w - 1) / w : t->g.all_panels;
    for (ptrdiff_t b = 0; b < t->n_blocks; b++)
        t->blocks[b].q = (int64_t)nearbyint(t->blocks[b].weight * t->g.rule.scale);
    memset(t->g.missing, 0, (size_t)t->g.block_rows);
    return t->g.kernel->update_coded(t, x, drop, leave_out);
}
