/* The hot loop over rows with codes, for each instruction set: see coded.h.
 *
 * A block of rows is packed as for the dense columns alone, entries of the blocks in
 * lanes after them, and then added into sums by level, and into cells by two levels. */
#include "coded.h"

/* Values of a block of rows, scaled; 0 and a mark for those that are missing. */
static void read_values(const coded *t, const coded_table *x, ptrdiff_t k, ptrdiff_t start,
                        ptrdiff_t count)
{
    const gram_column *column = &x->values[k];
    double *restrict out = t->value + k * t->g.block_rows;
    unsigned char *restrict missing = t->g.missing;
    lanes_scaled(column->x + start * lane_size(column->kind), column->kind, count, x->center[k],
                 x->inverse[k], x->limit[k], out);
    for (ptrdiff_t r = 0; r < count; r++) {
        missing[r] |= out[r] != out[r];
        out[r] = out[r] != out[r] ? 0 : out[r];
    }
}

/* Lane e of the packed rows, W apart. */
static inline double *lane(const gram *g, ptrdiff_t e)
{
    return g->packed + e / W * g->panel_stride + e % W;
}

/* Entries of the blocks into their lanes. */
static void fill_lanes(coded *t, ptrdiff_t count)
{
    gram *g = &t->g;
    const int any_weight = t->steady && t->ones < g->d + t->n_blocks;
    for (ptrdiff_t r = 0; any_weight && r < count; r++)
        lane(g, t->ones)[r * W] = 1;
    for (ptrdiff_t b = 0; b < t->n_blocks; b++) {
        const coded_block *block = &t->blocks[b];
        const double *v = t->value + (block->value < 0 ? 0 : block->value) * g->block_rows;
        double *at = lane(g, block->lane);
        const double weight = block->weight, scale = g->rule.scale;
        if (block->value < 0)
            for (ptrdiff_t r = 0; !t->steady && r < count; r++)
                at[r * W] = weight;
        else if (t->steady)
            for (ptrdiff_t r = 0; r < count; r++)
                at[r * W] = to_integer(weight * v[r] * scale);
        else
            for (ptrdiff_t r = 0; r < count; r++)
                at[r * W] = weight * v[r];
    }
}

/* Clip and quantise packed rows whose entries are all there, as gram_kernel.h says. */
static void quantise_coded(coded *t, ptrdiff_t count)
{
    gram *g = &t->g;
    for (ptrdiff_t r0 = 0; r0 < count; r0 += W) {
        double f[W] __attribute__((aligned(64))) = {0};
        for (ptrdiff_t r = r0; r < r0 + W && r < count; r++) {
            double p[8] = {0};
            for (ptrdiff_t i = 0; i < g->d + t->n_blocks; i++) {
                const ptrdiff_t e = t->order[i];
                const coded_block *b = e < g->d ? NULL : &t->blocks[e - g->d];
                const double x = lane(g, b ? b->lane : e)[r * W];
                const ptrdiff_t position =
                    b ? b->first + t->code[b->factor * g->block_rows + r] : t->position[e];
                p[position % 8] += x * x;
            }
            f[r - r0] = FOLD(p);
        }
        factors(g, v_load(f), f);
        quantise_packed(g, g->all_panels, f, g->packed + r0 * W);
    }
}

/* Rows that are to be left out: zeros, and under no level or group. */
static void clear_rows(coded *t, ptrdiff_t count)
{
    gram *g = &t->g;
    for (ptrdiff_t r = 0; r < count; r++) {
        if (!g->missing[r])
            continue;
        for (ptrdiff_t i = 0; i < g->all_panels; i++)
            memset(g->packed + i * g->panel_stride + r * W, 0, W * sizeof(double));
        for (ptrdiff_t k = 0; k < t->n_factors; k++)
            t->code[k * g->block_rows + r] = (int32_t)t->levels[k];
        if (t->slots)
            t->group[r] = (int32_t)t->slots;
    }
}

/* The first row that is to be reported, or -1: of no slot, or with a missing value.  Other rows
 * of no slot are marked as missing, and all are counted. */
static ptrdiff_t sort_out(coded *t, ptrdiff_t count, int drop, int leave_out)
{
    unsigned char *restrict missing = t->g.missing;
    const int32_t *restrict group = t->group;
    const int32_t slots = (int32_t)t->slots;
    int some = 0;
    for (ptrdiff_t r = 0; r < count; r++)
        some |= missing[r] | (group[r] == slots);
    for (ptrdiff_t r = 0; some && r < count; r++) {
        const int outside = group[r] == slots;
        if (outside ? !leave_out : missing[r] && !drop)
            return r;
        missing[r] |= (unsigned char)outside;
        t->n_dropped[group[r]] += missing[r];
    }
    int64_t *restrict n_rows = t->n_rows;
    for (ptrdiff_t r = 0; r < count; r++)
        n_rows[group[r]] += !missing[r];
    return -1;
}

/* Codes of levels as codes of groups and levels, which sums are under. */
static void combine_codes(coded *t, ptrdiff_t count)
{
    for (ptrdiff_t k = 0; k < t->n_factors; k++) {
        int32_t *restrict code = t->code + k * t->g.block_rows;
        const int32_t *restrict group = t->group, n = (int32_t)t->levels[k] + 1;
        for (ptrdiff_t r = 0; r < count; r++)
            code[r] += group[r] * n;
    }
}

INLINE void add_product(double *sum, vec x, vec y)
{
    v_store(sum, v_fma(x, y, v_load(sum)));
}

/* Products of the dense lanes of packed rows, added to the sums of each row's group: of a panel
 * with those before it, a column at a time, and with itself as in tile(). */
INLINE void add_products(coded *t, ptrdiff_t count, const ptrdiff_t full, const int rest)
{
    const ptrdiff_t stride = t->g.panel_stride, size = t->product_stride;
    double *const all = t->products; /* not read in the loop: what it stores may be anything */
    int32_t *const pending = t->pending;
    const double *q = t->g.packed;
    for (ptrdiff_t r = 0; r < count; r++, q += W) {
        const ptrdiff_t s = t->group[r];
        double *sums = all + s * size;
        for (ptrdiff_t i = 0; i < full + (rest > 0); i++) {
            const double *a = q + i * stride;
            const int m = i < full ? W : rest, turns = m < ROTATIONS ? m : ROTATIONS;
            for (ptrdiff_t j = 0; j < i; j++) {
                const vec y = v_load(q + j * stride);
                for (int k = 0; k < m; k++, sums += W)
                    add_product(sums, v_set(a[k]), y);
            }
            const vec x = v_load(a);
            vec turned = x;
            for (int k = 0; k < turns; k++, sums += W, turned = v_rotate(turned))
                add_product(sums, x, turned);
        }
        if (++pending[s] == t->pending_limit)
            coded_flush_products(t, s);
    }
}

static void add_pairs(coded *t, ptrdiff_t count)
{
    const ptrdiff_t full = t->g.d / W;
    const int rest = (int)(t->g.d % W);
    if (full == 0)
        add_products(t, count, 0, rest);
    else if (full == 1)
        add_products(t, count, 1, rest);
    else
        add_products(t, count, full, rest);
}

/* Packed rows, times the entry of a block unless that is 1, into its sums by level. */
INLINE void add_by_level(const coded *t, const coded_block *b, const int32_t *code,
                         ptrdiff_t count, const ptrdiff_t panels, const int is_one)
{
    const gram *g = &t->g;
    const ptrdiff_t w = g->all_panels * W, stride = g->panel_stride;
    const ptrdiff_t copies = b->copies, level = copies * w;
    const double *q = g->packed, *entry = lane(g, coded_lane(t, b));
    int64_t *const all = b->sums; /* not read in the loop: what it stores may be anything */
    for (ptrdiff_t r = 0; r < count; r++, q += W, entry += W) {
        int64_t *sums = all + code[r] * level + (r & (copies - 1)) * w;
        const vec x = v_set(*entry);
        for (ptrdiff_t i = 0; i < panels; i++) {
            const vec y = v_load(q + i * stride);
            v_accumulate(sums + i * W, is_one ? y : v_mul(x, y));
        }
    }
}

static void add_levels(const coded *t, const coded_block *b, ptrdiff_t count)
{
    const gram *g = &t->g;
    const int32_t *code = t->code + b->factor * g->block_rows;
    const int is_one = t->steady && b->value < 0;
    if (!is_one)
        add_by_level(t, b, code, count, t->panels, 0);
    else if (t->panels == 1)
        add_by_level(t, b, code, count, 1, 1);
    else if (t->panels == 2)
        add_by_level(t, b, code, count, 2, 1);
    else if (t->panels == 3)
        add_by_level(t, b, code, count, 3, 1);
    else
        add_by_level(t, b, code, count, t->panels, 1);
}

/* Products of the entries of two blocks of different factors into cells by their levels. */
static void add_cells(const coded *t, const coded_block *b, const coded_block *c, int64_t *cells,
                      ptrdiff_t count)
{
    const gram *g = &t->g;
    const int32_t *restrict one = t->code + b->factor * g->block_rows;
    const int32_t *restrict two = t->code + c->factor * g->block_rows;
    const int64_t n = c->levels + 1;
    const int64_t copies = coded_copies(coded_parts(t) * (b->levels + 1) * n);
    int64_t *restrict cell = t->cell; /* found first, many at a time */
    for (ptrdiff_t r = 0; r < count; r++)
        cell[r] = (one[r] * n + two[r]) * copies + (r & (copies - 1));
    if (t->slots) /* both codes count the groups */
        for (ptrdiff_t r = 0; r < count; r++)
            cell[r] -= t->group[r] * n * copies;
    const double *x = lane(g, coded_lane(t, b)), *y = lane(g, coded_lane(t, c));
    if (t->steady && b->value < 0 && c->value < 0)
        for (ptrdiff_t r = 0; r < count; r++)
            cells[cell[r]]++;
    else
        for (ptrdiff_t r = 0; r < count; r++)
            cells[cell[r]] += (int64_t)(x[r * W] * y[r * W]);
}

static ptrdiff_t update_coded(coded *t, const coded_table *x, int drop, int leave_out)
{
    gram *g = &t->g;
    const ptrdiff_t n = t->n_blocks;
    pack_function *const pack_block = pack_of(g, &x->dense);
    const ptrdiff_t calls = t->slots ? 0 : tile_calls(g); /* for groups, there are no tiles */
    for (ptrdiff_t start = 0; start < x->dense.n; start += g->block_rows) {
        const ptrdiff_t left = x->dense.n - start - g->block_rows;
        const ptrdiff_t count = left < 0 ? x->dense.n - start : g->block_rows;
        const ptrdiff_t rows = (count + W - 1) / W * W;
        fetch ahead = plan_fetch(&x->dense, start + count,
                                 left < g->block_rows ? left : g->block_rows,
                                 steps_of_block(g, rows, calls));

        for (ptrdiff_t k = 0; k < t->n_factors; k++)
            read_codes(&x->codes[k], start, count, (int32_t)t->levels[k],
                       t->code + k * g->block_rows, g->missing);
        for (ptrdiff_t k = 0; k < t->n_values; k++)
            read_values(t, x, k, start, count);
        if (t->slots)
            read_codes(&x->codes[t->n_factors], start, count, (int32_t)t->groups, t->group, NULL);
        /* Whether a missing value counts turns on the row's group. */
        ptrdiff_t bad = pack_block(g, &x->dense, start, count, drop || t->slots, &ahead);
        if (t->slots) {
            const ptrdiff_t first = sort_out(t, bad < 0 ? count : bad, drop, leave_out);
            bad = first < 0 ? bad : first;
        }
        const unsigned char *found = memchr(g->missing, 1, (size_t)count);
        if (found && !drop && !t->slots && (bad < 0 || found - g->missing < bad))
            bad = found - g->missing;
        if (bad >= 0)
            return start + bad;

        fill_lanes(t, count);
        if (found)
            clear_rows(t, count);
        if (n && !t->steady)
            quantise_coded(t, count);

        if (g->pending_rows + count > g->flush_rows)
            coded_flush(t);
        if (t->slots)
            combine_codes(t, count);
        for (ptrdiff_t b = 0; b < n; b++) {
            add_levels(t, &t->blocks[b], count);
            for (ptrdiff_t c = 0; c < b; c++)
                if (t->cells[b * n + c])
                    add_cells(t, &t->blocks[b], &t->blocks[c], t->cells[b * n + c], count);
        }
        if (t->slots)
            add_pairs(t, count);
        else if (g->digits)
            split_block(g, rows, NULL, &ahead);
        else if (g->d)
            multiply(g, rows, &ahead);
        g->pending_rows += count;
        count_rows(g, count);
    }
    return -1;
}
