#include "random_features.h"

#include <string.h>

#include "wide.h"

/* Projections are brought within this: beyond it a turn is less than what rounding leaves. */
#define FARTHEST 0x1p20

/* A quarter turn in three parts, of which whole numbers up to 2^20 times the first two are exact. */
#define QUARTER_1 0x1.921fb544p+0
#define QUARTER_2 0x1.0b4611a6p-34
#define QUARTER_3 0x1.3198a2e037073p-69

/* The polynomials are those of fdlibm's kernels on a quarter turn around 0 (Sun Microsystems, 1993):
 * errors are below a unit in the last place. */
CLONES
static void turn(const double *t, ptrdiff_t m, double size, double *cosine, double *sine)
{
    for (ptrdiff_t k = 0; k < m; k++) {
        const double shifted = t[k] * 0x1.45f306dc9c883p-1 + MAGIC, q = shifted - MAGIC;
        int64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        const double r = ((t[k] - q * QUARTER_1) - q * QUARTER_2) - q * QUARTER_3, z = r * r;
        const double s =
            r + r * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03
            + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06
            + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
        const double c =
            1.0 - (0.5 * z - z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03
            + z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07
            + z * (2.08757232129817482790e-09 - z * 1.13596475577881948265e-11))))));
        const double one = bits & 1 ? s : c, other = bits & 1 ? c : s;
        cosine[k] = size * ((bits + 1) & 2 ? -one : one);
        sine[k] = size * (bits & 2 ? -other : other);
    }
}

CLONES
static void project(const double *x, ptrdiff_t d, const double *weights, ptrdiff_t m, double *t)
{
    for (ptrdiff_t k = 0; k < m; k++)
        t[k] = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        for (ptrdiff_t k = 0; k < m; k++)
            t[k] += x[j] * weights[j * m + k];
}

void features_make(const double *x, ptrdiff_t n, ptrdiff_t d, const double *weights, ptrdiff_t m,
                   double size, double *out)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        double *row = out + i * 2 * m, *last = row + m; /* overwritten in its place */
        project(x + i * d, d, weights, m, last);
        for (ptrdiff_t k = 0; k < m; k++)
            last[k] = fmin(fmax(last[k], -FARTHEST), FARTHEST);
        turn(last, m, size, row, last);
    }
}
