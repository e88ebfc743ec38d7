/* Rows z and a target of 0 to 1, weighed by the probability p that public coefficients b give them:
 * what a Newton step of a logistic regression sums.
 *
 *   eta = sum_j b_j z_j,  p = 1 / (1 + e^-eta),  m = max(p, 1 - p),  o = min(1, clip / (m |z|));
 *   curved_j = sqrt(o p (1 - p)) z_j;   pulled_j = o (target - p) z_j;   reach_j = m z_j.
 *
 * A row's images depend on that row alone, wherever it stands and on every machine: plain operations
 * in a fixed order, an exponential of our own, and no contraction into FMA (meson.build).  NaN
 * anywhere in a row makes all of it NaN.
 */
#ifndef PRIVGRAM_WEIGH_H
#define PRIVGRAM_WEIGH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Beyond this eta is as far as it can be: e^-30 is 10^-13. */
#define WEIGH_FARTHEST 30.0

/* Exponential of numbers up to 700 in size, within two units in the last place: x = k ln 2 + r, and
 * Taylor's series of e^r, whose first term left out is below 2^-57. */
static inline double weigh_exp(double x)
{
    const double shift = 0x1.8p52;
    double k = x * 0x1.71547652b82fep+0 + shift, power;
    uint64_t bits;
    memcpy(&bits, &k, sizeof bits);
    bits = (bits + 1023) << 52;
    memcpy(&power, &bits, sizeof power);
    k -= shift;
    /* ln 2 in two parts, of which k times the first is exact. */
    const double r = (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    double sum = 1.0 / 6227020800;
    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1;
    return (sum * r + 1) * power;
}

/* The probability of a row of p features, and the root of its weight p (1 - p). */
static inline double weigh_odds(const double *restrict z, const double *restrict coef, ptrdiff_t p,
                                double *root)
{
    double eta = 0;
    for (ptrdiff_t j = 0; j < p; j++)
        eta += coef[j] * z[j];
    eta = eta > WEIGH_FARTHEST ? WEIGH_FARTHEST : eta;
    eta = eta < -WEIGH_FARTHEST ? -WEIGH_FARTHEST : eta;
    const double e = weigh_exp(eta < 0 ? eta : -eta), whole = 1 + e;
    *root = sqrt(e) / whole;
    return (eta < 0 ? e : 1) / whole;
}

/* `z` has n rows of d columns, the first p the features and the next the target, which stands for
 * center + half_width * z.  `pulled` has p + 1 columns, the last of which is the clip. */
static void weigh_rows(const double *restrict z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p,
                       const double *restrict coef, double center, double half_width, double clip,
                       double *restrict curved, double *restrict pulled)
{
    for (ptrdiff_t i = 0; i < n; i++, z += d, curved += p, pulled += p + 1) {
        double root, square = 0;
        const double chance = weigh_odds(z, coef, p, &root);
        const double error = (center + half_width * z[p]) - chance;
        for (ptrdiff_t j = 0; j < p; j++)
            square += z[j] * z[j];
        const double length = (chance < 0.5 ? 1 - chance : chance) * sqrt(square);
        const double o = length > clip ? clip / length : 1;
        const double part = sqrt(o) * root, pull = o * error;
        for (ptrdiff_t j = 0; j < p; j++) {
            curved[j] = part * z[j];
            pulled[j] = pull * z[j];
        }
        pulled[p] = clip + (error - error); /* NaN stays NaN */
    }
}

/* The largest score that a row can have, whatever its target. */
static void weigh_reach(const double *restrict z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p,
                        const double *restrict coef, double *restrict reach)
{
    for (ptrdiff_t i = 0; i < n; i++, z += d, reach += p) {
        double root;
        const double chance = weigh_odds(z, coef, p, &root), own = z[p] - z[p];
        const double m = (chance < 0.5 ? 1 - chance : chance) + own; /* NaN of a missing target */
        for (ptrdiff_t j = 0; j < p; j++)
            reach[j] = m * z[j];
    }
}

#endif
