/* Columns computed from columns, each value from that row's alone: see lanes.h. */
#ifndef PRIVGRAM_ENCODE_H
#define PRIVGRAM_ENCODE_H

#include <string.h>

#include "wide.h"

/* Natural logarithm of a normal positive number, within 0.9 units in the last place.
 *
 * x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2); with s = f / (2 + f) and z = s^2,
 * log(1 + f) = 2 atanh(s) = 2 s + s R, and 2 s = f - f^2/2 + s f^2/2 keeps the bits of f.
 * R / z is interpolated in the Chebyshev points of its range, within 2^-57. */
PART double log_of_normal(double x)
{
    const uint64_t root = 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    uint64_t bits, whole;
    double k, m;
    memcpy(&bits, &x, sizeof bits);
    bits += 0x3ff0000000000000 - root;
    whole = bits >> 52 | 0x4330000000000000; /* 2^52 and the biased exponent */
    bits = (bits & 0x000fffffffffffff) + root;
    memcpy(&k, &whole, sizeof k);
    memcpy(&m, &bits, sizeof m);
    k -= 0x1p52 + 1023;
    const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
    double r = 0x1.2b5900de53b32p-3;
    r = r * z + 0x1.39fe51a7c18f9p-3;
    r = r * z + 0x1.7462b51cb66b1p-3;
    r = r * z + 0x1.c71c62e3f11e6p-3;
    r = r * z + 0x1.2492492df281ap-2;
    r = r * z + 0x1.99999999952d7p-2;
    r = r * z + 0x1.5555555555558p-1;
    r = r * z;
    /* ln 2 in two parts, of which k times the first is exact. */
    const double high = k * 0x1.62e42fefa38p-1, low = k * 0x1.ef35793c7673p-45;
    return high - ((half - (s * (half + r) + low)) - f);
}

CLONES
static void encode_log(const double *restrict x, ptrdiff_t n, double lower, double upper,
                       double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const double v = clamp(x[i], lower, upper);
        out[i] = log_of_normal(v) + (v - v); /* NaN stays NaN */
    }
}

/* P_{k+1} from P_k and P_{k-1} at v: v P_k + k / (k + 1) (v P_k - P_{k-1}). */
static void encode_legendre(const double *restrict v, const double *restrict p,
                            const double *restrict before, ptrdiff_t n, ptrdiff_t k,
                            double *restrict out)
{
    const double ratio = (double)k / (double)(k + 1);
    for (ptrdiff_t i = 0; i < n; i++) {
        const double t = v[i] * p[i];
        out[i] = clamp(t + ratio * (t - before[i]), -1, 1);
    }
}

static void encode_product(const double *restrict x, ptrdiff_t n, double *restrict out)
{
    for (ptrdiff_t i = 0; i < n; i++)
        out[i] *= x[i];
}

#endif
