/* Products of whole numbers below 2^53: exact in any order, and contracted into FMA or not. */
#include "kept.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

#define PART static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Rows, or vectors of numbers, and classes that are taken together: what registers hold. */
enum { W = 8, GROUP = 4, CLASSES = 5 };

typedef double vec __attribute__((vector_size(64), aligned(8), may_alias));

PART vec set(double x) { return (vec){x, x, x, x, x, x, x, x}; }

/* Of four rows and up to five vectors of coefficients. */
PART void along(const double *z, ptrdiff_t width, const double *coef, const int k, double *out)
{
    vec sum[CLASSES][GROUP];
UNROLL
    for (int a = 0; a < k; a++)
UNROLL
        for (int r = 0; r < GROUP; r++)
            sum[a][r] = set(0);
    for (ptrdiff_t j = 0; j < width; j += W) {
        vec x[GROUP];
UNROLL
        for (int r = 0; r < GROUP; r++)
            x[r] = *(const vec *)(z + r * width + j);
UNROLL
        for (int a = 0; a < k; a++) {
            const vec c = *(const vec *)(coef + a * width + j);
UNROLL
            for (int r = 0; r < GROUP; r++)
                sum[a][r] += c * x[r];
        }
    }
UNROLL
    for (int a = 0; a < k; a++)
UNROLL
        for (int r = 0; r < GROUP; r++) {
            const vec s = sum[a][r];
            out[a * KEPT_ROWS + r] =
                ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
        }
}

CLONES /* of a function that is not exported: its resolver would be, too */
static void along_all(const double *z, ptrdiff_t width, const double *coef, ptrdiff_t k, double *out)
{
    for (ptrdiff_t a = 0; a < k; a += CLASSES) /* whose coefficients stay in the cache */
        for (int r = 0; r < KEPT_ROWS; r += GROUP) {
            const double *x = z + r * width, *c = coef + a * width;
            double *to = out + a * KEPT_ROWS + r;
            switch (k - a) {
            case 1: along(x, width, c, 1, to); break;
            case 2: along(x, width, c, 2, to); break;
            case 3: along(x, width, c, 3, to); break;
            case 4: along(x, width, c, 4, to); break;
            default: along(x, width, c, CLASSES, to);
            }
        }
}

/* Of up to five vectors of weights and 32 numbers of each row. */
PART void add(const double *z, ptrdiff_t width, const double *w, const int k, double *total)
{
    vec sum[CLASSES][GROUP];
UNROLL
    for (int a = 0; a < k; a++)
UNROLL
        for (int i = 0; i < GROUP; i++)
            sum[a][i] = *(const vec *)(total + a * width + i * W);
    for (int r = 0; r < KEPT_ROWS; r++) {
        vec x[GROUP];
UNROLL
        for (int i = 0; i < GROUP; i++)
            x[i] = *(const vec *)(z + r * width + i * W);
UNROLL
        for (int a = 0; a < k; a++) {
            const vec c = set(w[a * KEPT_ROWS + r]);
UNROLL
            for (int i = 0; i < GROUP; i++)
                sum[a][i] += c * x[i];
        }
    }
UNROLL
    for (int a = 0; a < k; a++)
UNROLL
        for (int i = 0; i < GROUP; i++)
            *(vec *)(total + a * width + i * W) = sum[a][i];
}

CLONES
static void add_all(const double *z, ptrdiff_t width, const double *w, ptrdiff_t k, double *total)
{
    for (ptrdiff_t j = 0; j < width; j += KEPT_WIDTH)
        for (ptrdiff_t a = 0; a < k; a += CLASSES) {
            const double *weight = w + a * KEPT_ROWS;
            double *to = total + a * width + j;
            switch (k - a) {
            case 1: add(z + j, width, weight, 1, to); break;
            case 2: add(z + j, width, weight, 2, to); break;
            case 3: add(z + j, width, weight, 3, to); break;
            case 4: add(z + j, width, weight, 4, to); break;
            default: add(z + j, width, weight, CLASSES, to);
            }
        }
}

void kept_along(const double *z, ptrdiff_t width, const double *coef, ptrdiff_t k, double *out)
{
    along_all(z, width, coef, k, out);
}

void kept_add(const double *z, ptrdiff_t width, const double *w, ptrdiff_t k, double *total)
{
    add_all(z, width, w, k, total);
}
