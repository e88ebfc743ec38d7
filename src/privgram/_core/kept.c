#include "kept.h"

#include <string.h>

#include "wide.h"

enum { R = KEPT_ROWS };
#define EACH for (int r = 0; r < R; r++)

/* Weights of a row are whole numbers of this length at most: their squares add up exactly. */
#define LONGEST 0x1p26

/* In eight parts, and these in a tree: a function of the numbers in their order. */
PART double sum_of_squares(const double *x, ptrdiff_t d)
{
    double part[WIDE] = {0};
    ptrdiff_t j = 0;
    for (; j + WIDE <= d; j += WIDE)
        for (int k = 0; k < WIDE; k++)
            part[k] += x[j + k] * x[j + k];
    for (int k = 0; j + k < d; k++)
        part[k] += x[j + k] * x[j + k];
    return FOLD(part);
}

PART double largest_of(const double *x, ptrdiff_t d)
{
    double largest = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double size = fabs(x[j]);
        largest = size <= largest ? largest : size; /* NaN, once there, may go again: see below */
    }
    return largest;
}

/* One row q, of length 2^bits at most in whole numbers, or zeros. */
PART void whole(const double *x, ptrdiff_t d, const double *scales, double most, double target,
                double most_sq, double *q)
{
    for (ptrdiff_t j = 0; j < d; j++)
        q[j] = scales ? x[j] * scales[j] : x[j];
    double limit = most, square = sum_of_squares(q, d);
    if (!(square >= 0x1p-900 && square <= 0x1p900)) { /* NaN is not */
        const double largest = largest_of(q, d);
        int e = 0;
        frexp(largest, &e);
        if (largest - largest == 0) { /* divided by a power of two first */
            for (ptrdiff_t j = 0; j < d; j++)
                q[j] = ldexp(q[j], -e);
            limit = ldexp(most, -e);
            square = sum_of_squares(q, d);
        }
    }
    const double length = sqrt(square), factor = target / (length > limit ? length : limit);
    for (ptrdiff_t j = 0; j < d; j++)
        q[j] = to_integer(q[j] * factor);
    /* Whatever arithmetic did: whole numbers that are too long, or no numbers, are none. */
    if (!(sum_of_squares(q, d) < most_sq))
        memset(q, 0, (size_t)d * sizeof *q);
}

CLONES
static void whole_rows(const double *x, ptrdiff_t n, ptrdiff_t d, const double *scales, double most,
                       int bits, double *wide, int16_t *narrow, ptrdiff_t stride)
{
    const double side = ldexp(1, bits), target = side * (1 - 0x1p-36) - sqrt((double)d) / 2 - 1;
    for (ptrdiff_t i = 0; i < n; i++) {
        double *q = wide + (narrow ? 0 : i * stride);
        whole(x + i * d, d, scales, most, target, side * side, q);
        if (narrow) /* below 2^15 */
            for (ptrdiff_t j = 0; j < d; j++)
                narrow[i * stride + j] = (int16_t)q[j];
    }
}

void kept_whole(const double *x, ptrdiff_t n, ptrdiff_t d, const double *scales, double most,
                int bits, double *wide, int16_t *narrow, ptrdiff_t stride)
{
    whole_rows(x, n, d, scales, most, bits, wide, narrow, stride);
}

/* e^x for sizes up to 700, as privgram.regression.families.exponential. */
PART void exponential(double *x)
{
    static const double factorials[] = {
        1.0, 1.0, 2.0, 6.0, 24.0, 120.0, 720.0, 5040.0, 40320.0, 362880.0, 3628800.0, 39916800.0,
        479001600.0, 6227020800.0,
    };
    EACH {
        const double shifted = x[r] * 1.4426950408889634 + MAGIC, k = shifted - MAGIC;
        const double s = (x[r] - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
        double total = 1.0 / factorials[13];
#pragma GCC unroll 16
        for (int n = 12; n >= 0; n--)
            total = total * s + 1.0 / factorials[n];
        int64_t low, zero;
        double power;
        const double magic = MAGIC;
        memcpy(&low, &shifted, sizeof low);
        memcpy(&zero, &magic, sizeof zero);
        low = (int64_t)((uint64_t)(low - zero + 1023) << 52);
        memcpy(&power, &low, sizeof power);
        x[r] = total * power;
    }
}

/* Probabilities in place of linear predictors (k, R). */
PART void softmax(double *eta, ptrdiff_t k)
{
    double high[R], sum[R];
    memcpy(high, eta, sizeof high);
    for (ptrdiff_t a = 1; a < k; a++)
        EACH high[r] = eta[a * R + r] > high[r] ? eta[a * R + r] : high[r];
    EACH sum[r] = 0;
    for (ptrdiff_t a = 0; a < k; a++) {
        double *e = eta + a * R;
        EACH e[r] -= high[r];
        EACH e[r] = e[r] < -700 ? -700 : e[r];
        exponential(e);
        EACH sum[r] += e[r];
    }
    for (ptrdiff_t a = 0; a < k; a++)
        EACH eta[a * R + r] /= sum[r];
}

/* Errors (k, R) as whole weights, so that with z no row is longer than KEPT_MOST; else zeros. */
PART void weigh(double *error, ptrdiff_t k, const double *square, const int *taken, double units)
{
    double size[R], factor[R], whole_sq[R];
    EACH size[r] = 0;
    for (ptrdiff_t a = 0; a < k; a++)
        EACH size[r] += error[a * R + r] * error[a * R + r];
    EACH {
        const double length = sqrt(size[r]), z = sqrt(square[r] > 1 ? square[r] : 1);
        double most = KEPT_MOST / z < LONGEST ? KEPT_MOST / z : LONGEST;
        most -= sqrt((double)k) / 2 + 1;
        most = (most > 0 ? most : 0) / (length > 0x1p-500 ? length : 0x1p-500);
        factor[r] = most < units ? most : units;
        whole_sq[r] = 0;
    }
    for (ptrdiff_t a = 0; a < k; a++)
        EACH {
            const double w = to_integer(error[a * R + r] * factor[r]);
            error[a * R + r] = w;
            whole_sq[r] += w * w;
        }
    /* Both squares are whole and exact where this holds, and their product is rounded once. */
    int good[R];
    EACH good[r] = taken[r] && whole_sq[r] <= LONGEST * LONGEST
                   && square[r] * whole_sq[r] <= KEPT_MOST * KEPT_MOST * (1 - 0x1p-50);
    for (ptrdiff_t a = 0; a < k; a++)
        EACH error[a * R + r] = good[r] ? error[a * R + r] : 0;
}

/* Of each row the position of its class, and whether it is learnt from, held out, or neither. */
typedef struct {
    ptrdiff_t at[R];
    int learnt[R], held[R];
} codes;

PART codes codes_of(const kept_rows *rows, ptrdiff_t i, int n, ptrdiff_t k)
{
    codes c;
    EACH {
        const double code = r < n ? rows->beside[(i + r) * rows->m] : NAN;
        const double at = code < 0 ? -1 - code : code;
        const int known = at >= 0 && at < (double)k;
        c.at[r] = known ? (ptrdiff_t)at : 0;
        c.learnt[r] = known && code >= 0;
        c.held[r] = known && code < 0;
    }
    return c;
}

PART void count(const double *p, ptrdiff_t k, const codes *c, const kept_sink *sink)
{
    EACH {
        double high = p[r];
        ptrdiff_t best = 0;
        for (ptrdiff_t a = 1; a < k; a++)
            if (p[a * R + r] > high)
                high = p[a * R + r], best = a;
        if (!c->held[r] || !(high >= 0 && high <= 2))
            continue;
        ptrdiff_t bin = (ptrdiff_t)(high * (double)sink->bins);
        bin = bin < sink->bins ? bin : sink->bins - 1;
        sink->counts[2 * bin + (best == c->at[r])] += 1;
    }
}

PART void square_errors(const double *error, ptrdiff_t k, int n, const kept_sink *sink)
{
    for (ptrdiff_t a = 0; a < k; a++) {
        const int sign = a ? -1 : 1;
        for (int r = 0; r < n; r++) {
            const double part = fabs(error[a * R + r]) / sink->reach;
            const double kept = part <= 1 ? part : 1; /* NaN is not */
            const int64_t square = (int64_t)to_integer(kept * kept * KEPT_SQUARE);
            *sink->squares += sign * (square <= (int64_t)KEPT_SQUARE ? square : 0);
        }
    }
}

extern const kept_products kept_portable;
#ifdef __x86_64__
extern const kept_products kept_avx2, kept_avx512;
#endif

static const kept_products *products_here(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
        && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return &kept_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kept_avx2;
#endif
    return &kept_portable;
}

CLONES
static void take(const kept_rows *rows, const kept_model *model, const kept_sink *sink, double *room)
{
    const kept_products *products = products_here();
    const ptrdiff_t width = rows->width, k = model->k;
    double *z = room, *out = z + R * width, *total = out + R * k, *parts = total + k * width;
    memset(total, 0, (size_t)(k * width) * sizeof *total);
    for (ptrdiff_t i = 0; i < rows->n; i += R) {
        const int n = rows->n - i < R ? (int)(rows->n - i) : R;
        double square[R];
        products->along(rows->images + i * width, n, width, model->coef, k, z, square, parts, out);
        for (ptrdiff_t j = 0; j < k * R; j++)
            out[j] *= model->back;
        codes c;
        int all[R];
        if (model->classes) {
            c = codes_of(rows, i, n, k);
            softmax(out, k);
            if (sink->counts)
                count(out, k, &c, sink);
            for (ptrdiff_t a = 0; a < k; a++)
                EACH out[a * R + r] = (c.at[r] == a) - out[a * R + r];
        } else {
            for (ptrdiff_t a = 0; a < k; a++)
                for (int r = 0; r < n; r++)
                    out[a * R + r] = model->size * rows->beside[(i + r) * rows->m + model->target[a]]
                                     - out[a * R + r];
            if (sink->squares)
                square_errors(out, k, n, sink);
            EACH all[r] = r < n;
        }
        if (sink->total) {
            weigh(out, k, square, model->classes ? c.learnt : all, sink->units);
            products->add(z, width, out, k, total);
        }
    }
    if (sink->total)
        for (ptrdiff_t j = 0; j < k * width; j++)
            sink->total[j] += (int64_t)total[j];
}

/* At most so many rows, of 2^30 each, add up to less than 2^53. */
enum { ROWS_OF_A_SUM = 1 << 22 };

void kept_take(const kept_rows *rows, const kept_model *model, const kept_sink *sink, double *room)
{
    for (ptrdiff_t i = 0; i < rows->n; i += ROWS_OF_A_SUM) {
        kept_rows some = *rows;
        some.n = rows->n - i < ROWS_OF_A_SUM ? rows->n - i : ROWS_OF_A_SUM;
        some.images += i * rows->width;
        some.beside += i * rows->m;
        take(&some, model, sink, room);
    }
}
