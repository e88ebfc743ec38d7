/* Rows z and a target, weighed by the mean that public coefficients give them: what a Newton step of
 * a generalised linear model sums.
 *
 *   eta = sum_j b_j z_j,  m = mean of eta,  w = its derivative,  e = target - m;
 *   curved_j = sqrt(w) z_j;   pulled_j = c e z_j with c = min(1, clip / |e z|).
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

enum { WEIGH_LOGISTIC, WEIGH_POISSON };

/* Beyond this eta is as far as it can be: e^30 is 10^13. */
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

/* Mean and root of the weight at eta. */
static inline void weigh_mean(int family, double eta, double *mean, double *root)
{
    eta = eta > WEIGH_FARTHEST ? WEIGH_FARTHEST : eta;
    eta = eta < -WEIGH_FARTHEST ? -WEIGH_FARTHEST : eta;
    if (family == WEIGH_POISSON) {
        *mean = weigh_exp(eta);
        *root = sqrt(*mean);
        return;
    }
    const double e = weigh_exp(eta < 0 ? eta : -eta), whole = 1 + e;
    *mean = (eta < 0 ? e : 1) / whole;
    *root = sqrt(e) / whole;
}

/* `z` has n rows of d columns, the first p the features and the next the target, which stands for
 * center + half_width * z.  `pulled` has p or p + 1 columns, the last of which is the clip. */
static void weigh_rows(int family, const double *restrict z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p,
                       const double *restrict coef, double center, double half_width, double clip,
                       double *restrict curved, double *restrict pulled, ptrdiff_t width)
{
    for (ptrdiff_t i = 0; i < n; i++, z += d, curved += p, pulled += width) {
        double eta = 0, square = 0, mean, root;
        for (ptrdiff_t j = 0; j < p; j++)
            eta += coef[j] * z[j];
        weigh_mean(family, eta, &mean, &root);
        const double error = (center + half_width * z[p]) - mean;
        for (ptrdiff_t j = 0; j < p; j++) {
            pulled[j] = error * z[j];
            square += pulled[j] * pulled[j];
            curved[j] = root * z[j];
        }
        const double shorter = square > clip * clip ? clip / sqrt(square) : 1;
        for (ptrdiff_t j = 0; j < p; j++)
            pulled[j] *= shorter;
        if (width > p)
            pulled[p] = clip + (error - error); /* NaN stays NaN */
    }
}

#endif
