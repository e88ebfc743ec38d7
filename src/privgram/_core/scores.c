#include "scores.h"

#include <float.h>
#include <string.h>

#include "wide.h"

enum { W = WIDE, VECS = SCORE_ROWS / W };
#define EACH(k) UNROLL for (int k = 0; k < VECS; k++)

/* One number of each row of a group. */
typedef struct {
    vec v[VECS];
} lanes;

PART lanes load(const double *x)
{
    lanes a;
    memcpy(&a, x, sizeof a);
    return a;
}

PART lanes root(lanes a)
{
    double x[SCORE_ROWS];
    memcpy(x, &a, sizeof a);
    for (int r = 0; r < SCORE_ROWS; r++)
        x[r] = sqrt(x[r]);
    return load(x);
}

/* coef . z, one column after the other. */
PART lanes along(const double *x, ptrdiff_t stride, ptrdiff_t q, const double *coef)
{
    lanes total;
    const lanes first = load(x);
    EACH(k) total.v[k] = coef[0] * first.v[k];
    for (ptrdiff_t j = 1; j < q; j++) {
        const lanes z = load(x + j * stride);
        EACH(k) total.v[k] += coef[j] * z.v[k];
    }
    return total;
}

/* |m z|^2, one column after the other. */
PART lanes squares(const double *x, ptrdiff_t stride, ptrdiff_t q, lanes m)
{
    lanes total;
    EACH(k) total.v[k] = set(0);
    for (ptrdiff_t j = 0; j < q; j++) {
        const lanes z = load(x + j * stride);
        EACH(k) {
            const vec s = z.v[k] * m.v[k];
            total.v[k] += s * s;
        }
    }
    return total;
}

/* e^x for sizes up to 700, as privgram.regression.families.exponential. */
PART vec exponential(vec x)
{
    static const double factorials[] = {
        1.0, 1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40320.0, 362880.0, 3628800.0, 39916800.0,
        479001600.0, 6227020800.0,
    };
    const vec shifted = x * 1.4426950408889634 + MAGIC, k = shifted - MAGIC;
    const vec r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    vec total = set(1.0 / factorials[13]);
UNROLL
    for (int n = 12; n >= 0; n--)
        total = total * r + 1.0 / factorials[n];
    /* times 2^k, which is exact */
    return total * (vec)((low_bits(shifted) + 1023) << 52);
}

typedef struct {
    lanes multiplier;
    lanes size; /* no smaller than the multiplier, and as far as can be whatever y is */
} scored;

/* By the residual, and the root of the weight. */
PART lanes multiplier(const score_model *model, lanes residual, lanes weight_root)
{
    if (!model->curved)
        return residual;
    lanes m; /* a row without a target has no curvature */
    EACH(k) m.v[k] = weight_root.v[k] + (residual.v[k] - residual.v[k]);
    return m;
}

PART scored by_family(const score_model *model, const double *x, ptrdiff_t stride, const int kind)
{
    const ptrdiff_t q = model->q;
    const lanes y = load(x + q * stride);
    lanes eta = along(x, stride, q, model->coef), factor, mean, weight, residual;
    scored out;
    EACH(k) factor.v[k] = set(1);
    if (model->offset) {
        const lanes offset = load(x + (q + 1) * stride);
        EACH(k) eta.v[k] += offset.v[k];
    }
    if (model->ones) {
        factor = along(x, stride, q, model->ones);
        EACH(k) eta.v[k] = choose((ivec)(factor.v[k] == set(0)), set(0), eta.v[k] / factor.v[k]);
    }
    if (kind == SCORE_GAUSSIAN) {
        mean = eta;
        EACH(k) weight.v[k] = set(1);
    } else if (kind == SCORE_POISSON) {
        EACH(k) mean.v[k] = exponential(at_most(at_least(eta.v[k], set(-30)), set(model->largest)));
        weight = root(mean);
    } else {
        lanes e;
        EACH(k) {
            eta.v[k] = at_most(at_least(eta.v[k], set(-30)), set(30));
            const vec size = choose((ivec)(eta.v[k] < set(0)), eta.v[k], -eta.v[k]);
            e.v[k] = exponential(size);
            mean.v[k] = choose((ivec)(eta.v[k] < set(0)), e.v[k], set(1)) / (1 + e.v[k]);
        }
        weight = root(e);
        EACH(k) weight.v[k] = weight.v[k] / (1 + e.v[k]);
    }
    EACH(k) residual.v[k] = (model->center * factor.v[k] + model->half * y.v[k])
                            - factor.v[k] * mean.v[k];
    EACH(k) {
        const vec far = kind == SCORE_POISSON
                            ? at_least(weight.v[k], set(1))
                            : choose((ivec)(mean.v[k] < set(0.5)), 1 - mean.v[k], mean.v[k]);
        const vec below = -residual.v[k];
        out.size.v[k] = at_least(at_least(far * factor.v[k], residual.v[k]), below);
    }
    out.multiplier = multiplier(model, residual, weight);
    return out;
}

PART lanes by_huber(const score_model *model, const double *x, ptrdiff_t stride)
{
    const ptrdiff_t q = model->q;
    lanes one, weight, weight_root, residual;
    EACH(k) one.v[k] = set(1);
    const lanes r = load(x + q * stride), square = squares(x, stride, q, one);
    EACH(k) weight.v[k] = model->reach_sq / at_least(square.v[k], set(model->reach_sq));
    weight_root = root(weight);
    EACH(k) {
        const vec bent = at_most(at_least(r.v[k], set(-model->bend)), set(model->bend));
        const ivec inside = (ivec)(bent == r.v[k]);
        residual.v[k] = weight.v[k] * bent;
        weight_root.v[k] = weight_root.v[k] * choose(inside, set(1), set(0));
    }
    return multiplier(model, residual, weight_root);
}

/* What the rows of a group are multiplied by.  Sizes are of binomial and of Poisson residuals. */
PART scored score(const score_model *model, const double *x, ptrdiff_t stride)
{
    scored out;
    switch (model->kind) {
    case SCORE_GAUSSIAN: return by_family(model, x, stride, SCORE_GAUSSIAN);
    case SCORE_BINOMIAL: return by_family(model, x, stride, SCORE_BINOMIAL);
    case SCORE_POISSON: return by_family(model, x, stride, SCORE_POISSON);
    case SCORE_HUBER: out.multiplier = by_huber(model, x, stride); break;
    case SCORE_RESIDUAL: out.multiplier = load(x + model->q * stride); break;
    default: EACH(k) out.multiplier.v[k] = set(1);
    }
    out.size = out.multiplier;
    return out;
}

/* Rows of a group to be added: all bits of a lane, or none. */
typedef struct {
    ivec v[VECS];
} marks;

PART int all(marks a)
{
    ivec each = (a.v[0] & a.v[1]) & (a.v[2] & a.v[3]);
    /* In memory, or the compiler would compare lane by lane to begin with. */
    __asm__("" : "+m"(each));
    int64_t every = -1;
    for (int r = 0; r < W; r++)
        every &= each[r];
    return every == -1;
}

/* Totals by lanes to the total that they are of; from here on they are of none. */
PART void bring(const score_sink *sink, ptrdiff_t q, int64_t *sums, ptrdiff_t of)
{
    for (ptrdiff_t j = 0; sink->total && j < q; j++)
        for (int k = 0; k < W; k++) {
            sink->total[of * q + j] += sums[j * W + k];
            sums[j * W + k] = 0;
        }
}

/* Integers of a group of n rows into the totals; `tile` has q rows of integers, and `sums` the
 * totals by lanes. */
PART void add(const score_sink *sink, const double *x, ptrdiff_t stride, ptrdiff_t q, lanes m,
              lanes factor, marks good, int n, const int32_t *group, int64_t *tile, int64_t *sums)
{
    lanes square;
    EACH(k) square.v[k] = set(0);
    for (ptrdiff_t j = 0; j < q; j++) {
        const lanes z = load(x + j * stride);
        EACH(k) {
            const vec shifted = z.v[k] * m.v[k] * factor.v[k] + MAGIC, whole = shifted - MAGIC;
            square.v[k] += whole * whole;
            *(uvec *)(tile + j * SCORE_ROWS + k * W) = low_bits(shifted);
        }
    }
    /* Whatever arithmetic did: a row that is too long, which none is, adds nothing. */
    EACH(k) good.v[k] &= (ivec)(square.v[k] <= set(sink->most_sq));
    if (sink->positive)
        for (ptrdiff_t j = 0; j < q; j++)
            EACH(k) good.v[k] &= *(const ivec *)(tile + j * SCORE_ROWS + k * W) >= 0;
    if (!group) {
        for (ptrdiff_t j = 0; j < q; j++) {
            uvec sum = *(uvec *)(sums + j * W);
            EACH(k) sum += *(const uvec *)(tile + j * SCORE_ROWS + k * W) & (uvec)good.v[k];
            *(uvec *)(sums + j * W) = sum;
        }
        return;
    }
    int64_t kept[SCORE_ROWS];
    memcpy(kept, &good, sizeof good);
    for (int r = 0; r < n; r++) {
        if (!kept[r])
            continue;
        int64_t *total = sink->total + group[r] * q;
        for (ptrdiff_t j = 0; j < q; j++)
            total[j] += tile[j * SCORE_ROWS + r];
    }
}

/* Which of the bins each norm is in: the first that does not end below it. */
PART void count(const score_sink *sink, lanes norm, lanes length, marks good, int n)
{
    double at[SCORE_ROWS], part[SCORE_ROWS];
    int64_t kept[SCORE_ROWS];
    ptrdiff_t bin[SCORE_ROWS] = {0};
    lanes parts;
    EACH(k) {
        const vec whole = choose((ivec)(norm.v[k] > set(0)), norm.v[k], set(1));
        const vec share = (sink->parts * (length.v[k] / whole) + MAGIC) - MAGIC;
        parts.v[k] = at_most(share, set(sink->parts)); /* no row counts more than one */
    }
    memcpy(at, &norm, sizeof norm);
    memcpy(part, &parts, sizeof parts);
    memcpy(kept, &good, sizeof good);
    const double *edges = sink->edges;
    const ptrdiff_t n_edges = sink->n_edges;
    /* Edges that lie evenly say themselves where; what they say is looked at. */
    int even = n_edges > 64;
    const double per = even ? (double)(n_edges - 1) / (edges[n_edges - 1] - edges[0]) : 0;
    for (int r = 0; even && r < SCORE_ROWS; r++) {
        const double place = (at[r] - edges[0]) * per + 1;
        const ptrdiff_t i = !(place > 0)                ? 0
                            : place < (double)n_edges ? (ptrdiff_t)place
                                                      : n_edges;
        even = (i == 0 || edges[i - 1] < at[r]) && (i == n_edges || !(edges[i] < at[r]));
        bin[r] = i;
    }
    if (!even)
        memset(bin, 0, sizeof bin);
    for (ptrdiff_t left = even ? 0 : n_edges; left > 0;) {
        const ptrdiff_t half = (left + 1) / 2;
        for (int r = 0; r < SCORE_ROWS; r++)
            bin[r] += half & -(ptrdiff_t)(edges[bin[r] + half - 1] < at[r]);
        left -= half;
    }
    for (int r = 0; r < n; r++)
        if (kept[r])
            sink->counts[bin[r]] += (int64_t)part[r];
}

PART void write(const score_sink *sink, const double *x, ptrdiff_t stride, ptrdiff_t q, lanes m,
                lanes norm, int sized, marks good, int n, double *out)
{
    lanes factor;
    EACH(k) {
        factor.v[k] = set(1);
        if (sized && sink->clip > 0)
            factor.v[k] = sink->clip / at_least(norm.v[k], set(sink->clip));
        factor.v[k] = choose(good.v[k], factor.v[k], set(NAN));
    }
    for (ptrdiff_t j = 0; j < q; j++) {
        lanes z = load(x + j * stride);
        EACH(k) z.v[k] = z.v[k] * m.v[k] * factor.v[k];
        memcpy(out + j * sink->rows_stride, &z, (size_t)n * sizeof *out);
    }
}

/* The same as whole numbers; `tile` has q rows of them. */
PART void write_whole(const score_sink *sink, const double *x, ptrdiff_t stride, ptrdiff_t q,
                      lanes m, lanes square, lanes norm, int sized, marks good, int n, double *tile,
                      double *out)
{
    const double near_sq = sink->radius * sink->radius * (1 - 0x1p-50);
    const int clips = sized && sink->clip > 0;
    lanes factor, whole_sq;
    marks near;
    EACH(k) near.v[k] = (ivec)(square.v[k] <= set(near_sq));
    if (!clips && near_sq > 0x1p-800 && all(near)) { /* none is longer */
        EACH(k) factor.v[k] = set(sink->rows_scale / sink->radius);
    } else {
        const lanes length = root(square);
        EACH(k) {
            vec kept = set(1);
            if (clips)
                kept = sink->clip / at_least(norm.v[k], set(sink->clip));
            factor.v[k] = kept
                          * (sink->rows_scale / at_least(length.v[k] * kept, set(sink->radius)));
        }
    }
    EACH(k) whole_sq.v[k] = set(0);
    for (ptrdiff_t j = 0; j < q; j++) {
        const lanes z = load(x + j * stride);
        lanes whole;
        EACH(k) {
            whole.v[k] = (z.v[k] * m.v[k] * factor.v[k] + MAGIC) - MAGIC;
            whole_sq.v[k] += whole.v[k] * whole.v[k];
        }
        memcpy(tile + j * SCORE_ROWS, &whole, sizeof whole);
    }
    EACH(k) good.v[k] &= (ivec)(whole_sq.v[k] <= set(sink->rows_most_sq));
    for (ptrdiff_t j = 0; j < q; j++) {
        lanes whole = load(tile + j * SCORE_ROWS);
        EACH(k) whole.v[k] = choose(good.v[k], whole.v[k], set(0));
        memcpy(out + j * sink->rows_stride, &whole, (size_t)n * sizeof *out);
    }
}

CLONES
static ptrdiff_t take(const score_images *images, const score_model *model, const score_sink *sink,
                      int drop, int64_t *room, int64_t *n_dropped, ptrdiff_t *of)
{
    const ptrdiff_t q = model->q;
    const ptrdiff_t width = q + (model->kind != SCORE_PLAIN) + (model->offset != 0);
    const int of_counts = model->kind == SCORE_BINOMIAL || model->kind == SCORE_POISSON;
    const int sized = of_counts && !model->curved;
    int64_t *tile = room, *sums = room + SCORE_ROWS * q;
    double *last = (double *)(sums + W * q);
    /* Where no norm is looked at but to clip by, none is computed of rows that are not clipped: the
     * root of a square up to this, as rounded, is surely no longer than the clip. */
    double calm = -1;
    if (!sized && !sink->counts && sink->clip > 0x1p-400)
        calm = sink->clip < 0x1p400 ? sink->clip * sink->clip * (1 - 0x1p-50) : DBL_MAX;
    if (!sink->counts && !sink->total && sink->radius > 0 && !(sized && sink->clip > 0))
        calm = DBL_MAX; /* nor where rows alone are written */
    const double unclipped = sink->scale / sink->clip;
    lanes one;
    EACH(k) one.v[k] = set(1);
    *n_dropped = 0;
    for (ptrdiff_t i = 0; i < images->n; i += SCORE_ROWS) {
        const double *x = images->x + i;
        ptrdiff_t stride = images->stride;
        const int n = images->n - i < SCORE_ROWS ? (int)(images->n - i) : SCORE_ROWS;
        const int32_t *group = images->group ? images->group + i : NULL;
        if (n < SCORE_ROWS) { /* filled up with zeros, which add nothing */
            memset(last, 0, (size_t)(width * SCORE_ROWS) * sizeof *last);
            for (ptrdiff_t j = 0; j < width; j++)
                memcpy(last + j * SCORE_ROWS, x + j * stride, (size_t)n * sizeof *last);
            x = last, stride = SCORE_ROWS;
        }
        const scored s = score(model, x, stride);
        const lanes m = s.multiplier, square = squares(x, stride, q, m);
        lanes length, norm, factor;
        marks good;
        EACH(k) good.v[k] = (ivec)(square.v[k] <= set(calm));
        if (calm > 0 && all(good)) {
            EACH(k) factor.v[k] = set(unclipped);
        } else {
            norm = length = root(square);
            if (sized) {
                norm = root(squares(x, stride, q, one));
                EACH(k) norm.v[k] *= s.size.v[k];
            }
            EACH(k) {
                const vec sum = square.v[k] + norm.v[k];
                good.v[k] = (ivec)(sum - sum == set(0));
                factor.v[k] = set(sink->scale);
                if (sink->clip >= 0)
                    factor.v[k] /= at_least(norm.v[k], set(sink->clip));
            }
        }
        uint32_t others = 0;
        for (int r = 0; group && r < n; r++)
            others |= (uint32_t)(group[r] ^ group[0]);
        if (group && !others && (uint32_t)group[0] < (uint32_t)images->n_groups) {
            if (*of != group[0])
                bring(sink, q, sums, *of);
            *of = group[0];
            group = NULL; /* all of one, by lanes */
        }
        if (group) {
            int64_t known[SCORE_ROWS] = {0};
            for (int r = 0; r < n; r++)
                known[r] = -(int64_t)((uint32_t)group[r] < (uint32_t)images->n_groups);
            EACH(k) good.v[k] &= *(const ivec *)(known + k * W);
        }
        if (!all(good)) {
            int64_t kept[SCORE_ROWS];
            memcpy(kept, &good, sizeof good);
            for (int r = 0; r < n; r++) {
                if (!kept[r] && !drop)
                    return i + r;
                *n_dropped += !kept[r];
            }
        }
        if (sink->total)
            add(sink, x, stride, q, m, factor, good, n, group, tile, sums);
        if (sink->counts)
            count(sink, norm, length, good, n);
        if (sink->rows && sink->radius > 0)
            write_whole(sink, x, stride, q, m, square, norm, sized, good, n, (double *)tile,
                        sink->rows + i);
        else if (sink->rows)
            write(sink, x, stride, q, m, norm, sized, good, n, sink->rows + i);
    }
    return -1;
}

ptrdiff_t scores_take(const score_images *images, const score_model *model, const score_sink *sink,
                      int drop, int64_t *room, int64_t *n_dropped)
{
    ptrdiff_t of = 0, bad = take(images, model, sink, drop, room, n_dropped, &of);
    bring(sink, model->q, room + SCORE_ROWS * model->q, of);
    return bad;
}

CLONES /* of a function that is not exported: its resolver would be, too */
static void center(double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t m, const int32_t *group,
                   const double *means, const double *one)
{
    for (ptrdiff_t j = 0; j < m; j++)
        for (ptrdiff_t i = 0; i < n; i++)
            x[j * stride + i] -= means[group[i] * m + j] * one[i];
}

void scores_center(double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t m, const int32_t *group,
                   const double *means, const double *one)
{
    center(x, stride, n, m, group, means, one);
}

CLONES
static void differ(const score_rows *rows, score_pair *next, ptrdiff_t n, double *out,
                   ptrdiff_t step, int32_t *block)
{
    while (n > 0) {
        const ptrdiff_t end = (next->i / rows->size + 1) * rows->size, left = end - next->j;
        const ptrdiff_t count = left < n ? left : n;
        if (left <= 0) {
            next->j = ++next->i + 1;
            continue;
        }
        for (ptrdiff_t k = 0; k < rows->m; k++) {
            const double *x = rows->x + k * rows->stride, *others = x + next->j;
            const double one = x[next->i];
            double *to = out + k * step;
            for (ptrdiff_t r = 0; r < count; r++)
                to[r] = one - others[r];
        }
        for (ptrdiff_t r = 0; r < count; r++)
            block[r] = (int32_t)(end / rows->size - 1 - rows->first / rows->size);
        out += count, block += count, n -= count, next->j += count;
    }
}

void scores_differ(const score_rows *rows, score_pair *next, ptrdiff_t n, double *out,
                   ptrdiff_t step, int32_t *block)
{
    differ(rows, next, n, out, step, block);
}

/* Whether the vectors of all pairs of b rows t (m, b), whole numbers, have squares up to `most`.
 * Most pairs do by the lengths of their z alone.  `room` has 2 b numbers. */
PART int short_pairs(const double *t, ptrdiff_t b, ptrdiff_t q, int residual, double most,
                     double *room)
{
    const double limit = sqrt(most), *e = t + q * b;
    double *length = room, *square = room + b;
    memset(square, 0, (size_t)b * sizeof *square);
    for (ptrdiff_t k = 0; k < q; k++)
        for (ptrdiff_t i = 0; i < b; i++)
            square[i] += t[k * b + i] * t[k * b + i];
    for (ptrdiff_t i = 0; i < b; i++)
        length[i] = sqrt(square[i]);
    for (ptrdiff_t i = 0; i < b; i++) {
        int64_t near = -1;
        for (ptrdiff_t j = i + 1; j < b; j++) {
            const double by = residual ? fabs(e[i] - e[j]) : 1;
            near &= -(int64_t)((length[i] + length[j]) * by <= limit);
        }
        if (near)
            continue;
        memset(square, 0, (size_t)b * sizeof *square);
        for (ptrdiff_t k = 0; k < q; k++)
            for (ptrdiff_t j = i + 1; j < b; j++) {
                const double d = t[k * b + i] - t[k * b + j];
                square[j] += d * d;
            }
        near = -1;
        for (ptrdiff_t j = i + 1; j < b; j++) {
            const double by = residual ? e[i] - e[j] : 1;
            near &= -(int64_t)(square[j] * (by * by) <= most);
        }
        if (!near)
            return 0;
    }
    return 1;
}

/* Products of the vectors of all pairs of b rows y (m, b), of columns of a `sum`, into a triangle:
 * docs/theory/glm.md.  `room` has b (q + 1) + 2 q words. */
PART void add_products(const uint64_t *y, ptrdiff_t b, ptrdiff_t q, int residual,
                       const uint64_t *sum, uint64_t *room, uint64_t *triangle)
{
    const uint64_t *e = y + q * b;
    uint64_t *w = room + q * b, *first = w + b, *second = first + q, squares = 0;
    for (ptrdiff_t i = 0; residual && i < b; i++)
        squares += e[i] * e[i];
    for (ptrdiff_t i = 0; i < b; i++)
        w[i] = residual ? (uint64_t)b * e[i] * e[i] - 2 * sum[q] * e[i] + squares : (uint64_t)b;
    for (ptrdiff_t k = 0; k < q; k++) {
        const uint64_t *z = y + k * b;
        uint64_t *to = room + k * b;
        first[k] = second[k] = 0;
        for (ptrdiff_t i = 0; residual && i < b; i++) {
            first[k] += z[i] * e[i];
            second[k] += z[i] * e[i] * e[i];
        }
        for (ptrdiff_t i = 0; i < b; i++)
            to[i] = w[i] * z[i];
    }
    for (ptrdiff_t j = 0; j < q; j++)
        for (ptrdiff_t k = 0; k <= j; k++) {
            uint64_t total = residual ? 2 * first[j] * first[k] - second[j] * sum[k]
                                            - sum[j] * second[k]
                                      : -(sum[j] * sum[k]);
            for (ptrdiff_t i = 0; i < b; i++)
                total += room[j * b + i] * y[k * b + i];
            *triangle++ += total;
        }
}

CLONES
static void within(const score_rows *rows, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                   double most, uint64_t *vectors, uint64_t *triangle, uint8_t *calm, double *room)
{
    const ptrdiff_t b = rows->size, m = q + residual;
    double *t = room;
    uint64_t *y = (uint64_t *)(t + m * b), *e = y + q * b, *weighted = y + m * b;
    uint64_t *sum = weighted + (q + 1) * b + 2 * q;
    for (ptrdiff_t at = 0; at < n_blocks; at++) {
        const double *x = rows->x + rows->first + at * b;
        int64_t good = -1;
        for (ptrdiff_t k = 0; k < m; k++) { /* less a whole number in the middle */
            double *to = t + k * b, total = 0;
            for (ptrdiff_t i = 0; i < b; i++) {
                const double one = x[k * rows->stride + i];
                good &= -(int64_t)(fabs(one) <= SCORE_FAR);
                total += one;
            }
            const double middle = (total / (double)b + MAGIC) - MAGIC;
            for (ptrdiff_t i = 0; i < b; i++)
                to[i] = x[k * rows->stride + i] - middle;
        }
        calm[at] = good && short_pairs(t, b, q, residual, most, (double *)y);
        if (!calm[at])
            continue;
        /* In integers modulo 2^64, where sums of so few pairs are what they are. */
        for (ptrdiff_t i = 0; i < m * b; i++)
            y[i] = (uint64_t)(int64_t)t[i];
        for (ptrdiff_t k = 0; k < m; k++) {
            sum[k] = 0;
            for (ptrdiff_t i = 0; i < b; i++)
                sum[k] += y[k * b + i];
        }
        if (vectors)
            for (ptrdiff_t k = 0; k < q; k++) {
                uint64_t total = 0;
                for (ptrdiff_t i = 0; i < b; i++)
                    total += y[k * b + i] * e[i];
                vectors[at * q + k] = (uint64_t)b * total - sum[k] * sum[q];
            }
        if (triangle)
            add_products(y, b, q, residual, sum, weighted, triangle);
    }
}

void scores_within(const score_rows *rows, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                   double most, int64_t *vectors, int64_t *triangle, uint8_t *calm, double *room)
{
    within(rows, n_blocks, q, residual, most * (1 - 0x1p-30), (uint64_t *)vectors,
           (uint64_t *)triangle, calm, room);
}

PART int any(ivec a)
{
    __asm__("" : "+m"(a)); /* as in `all` */
    int64_t some = 0;
    for (int r = 0; r < W; r++)
        some |= a[r];
    return some != 0;
}

/* Each row beside later ones of its block, of which up to SCORE_BLOCK lie in `room` at a time. */
CLONES
static void lengths(const score_rows *rows, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                    const double *edges, ptrdiff_t n_edges, int64_t *counts, double *room)
{
    enum { STEP = SCORE_BLOCK + W };
    const ptrdiff_t b = rows->size, m = q + residual, stride = rows->stride;
    double *t = room;
    uvec *beyond = (uvec *)(room + m * STEP);
    memset(beyond, 0, (size_t)(n_edges + 1) * sizeof *beyond);
    for (ptrdiff_t part = 0; part < n_blocks * b;) {
        const ptrdiff_t start = part / b * b, end = start + b;
        const ptrdiff_t n = end - part < SCORE_BLOCK ? end - part : SCORE_BLOCK;
        for (ptrdiff_t k = 0; k < m; k++) {
            memcpy(t + k * STEP, rows->x + k * stride + part, (size_t)n * sizeof *t);
            *(vec *)(t + k * STEP + n) = set(NAN);
        }
        for (ptrdiff_t i = start; i < part + n; i++) {
            vec square[SCORE_BLOCK / W + 1];
            const double *x = rows->x + i, *from = t + (i < part ? 0 : i + 1 - part);
            const ptrdiff_t many = (t + n - from + W - 1) / W;
            for (ptrdiff_t r = 0; r < many; r++) {
                vec total = set(0);
                for (ptrdiff_t k = 0; k < q; k++) {
                    const vec d = x[k * stride] - *(const vec *)(from + k * STEP + r * W);
                    total += d * d;
                }
                if (residual) {
                    const vec d = x[q * stride] - *(const vec *)(from + q * STEP + r * W);
                    total *= d * d;
                }
                square[r] = choose((ivec)(total - total == set(0)), total, set(0));
            }
            double edge = 0; /* squared, and none is below one before it */
            for (ptrdiff_t k = 0; k <= n_edges; k++) {
                if (k && edges[k - 1] > 0 && edges[k - 1] * edges[k - 1] > edge)
                    edge = edges[k - 1] * edges[k - 1];
                ivec some = {0};
                for (ptrdiff_t r = 0; r < many; r++)
                    some += (ivec)(square[r] > set(edge));
                beyond[k] -= (uvec)some;
                if (!any(some))
                    break;
            }
        }
        part += n;
    }
    for (ptrdiff_t k = 0; k <= n_edges; k++)
        for (int r = 0; r < W; r++)
            counts[k] += (int64_t)(beyond[k][r] - (k < n_edges ? beyond[k + 1][r] : 0));
}

void scores_lengths(const score_rows *rows, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                    const double *edges, ptrdiff_t n_edges, int64_t *counts, double *room)
{
    lengths(rows, n_blocks, q, residual, edges, n_edges, counts, room);
}
