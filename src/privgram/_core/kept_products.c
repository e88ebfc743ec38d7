/* Products of whole numbers below 2^53: exact in any order, and contracted into FMA or not.
 *
 * Compiled once for each instruction set, as the kernels of gram.c are. */
#include "kept.h"

#include <string.h>

#define PART static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Numbers of a vector; rows, or vectors of numbers, and classes that registers hold together. */
#if defined(__AVX512F__)
enum { W = 8, GROUP = 4, CLASSES = 5 };
#elif defined(__AVX2__)
enum { W = 4, GROUP = 4, CLASSES = 3 };
#else
enum { W = 2, GROUP = 4, CLASSES = 3 };
#endif
enum { MOST_CLASSES = 5 };

/* Numbers of a row at a time, so that coefficients and what they meet stay in the cache. */
enum { AT_ONCE = 160 };

typedef double vec __attribute__((vector_size(8 * W), aligned(8), may_alias));

PART vec set(double x) { return x - (vec){0}; }

PART double sum_of(const vec *x)
{
    const double *p = (const double *)x;
    double sum = p[0] + p[W / 2];
UNROLL
    for (int i = 1; i < W / 2; i++)
        sum += p[i] + p[i + W / 2];
    return sum;
}

/* Some numbers of an image as doubles, and their squares; what is `ahead` comes next. */
PART void widen(const int16_t *image, ptrdiff_t n, double *z, vec *square, ptrdiff_t ahead)
{
    vec sum = *square;
    for (ptrdiff_t j = 0; j < n; j += KEPT_WIDTH) {
        __builtin_prefetch(image + j + ahead, 0, 2);
        for (int i = 0; i < KEPT_WIDTH; i++)
            z[j + i] = image[j + i];
UNROLL
        for (int i = 0; i < KEPT_WIDTH; i += W)
            sum += *(const vec *)(z + j + i) * *(const vec *)(z + j + i);
    }
    *square = sum;
}

/* Of some rows and vectors of coefficients, n numbers of each. */
PART void along(const double *z, const double *coef, ptrdiff_t width, ptrdiff_t n, const int k,
                vec *part)
{
    vec sum[MOST_CLASSES][GROUP];
UNROLL
    for (int a = 0; a < k; a++)
UNROLL
        for (int r = 0; r < GROUP; r++)
            sum[a][r] = part[a * KEPT_ROWS + r];
    for (ptrdiff_t j = 0; j < n; j += W) {
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
        for (int r = 0; r < GROUP; r++)
            part[a * KEPT_ROWS + r] = sum[a][r];
}

static void along_all(const int16_t *images, ptrdiff_t n, ptrdiff_t width, const double *coef,
                      ptrdiff_t k, double *z, double *square, double *room, double *out)
{
    vec *part = (vec *)room, squares[KEPT_ROWS];
    memset(part, 0, (size_t)(k * KEPT_ROWS) * sizeof *part);
    memset(squares, 0, sizeof squares);
    memset(z + n * width, 0, (size_t)((KEPT_ROWS - n) * width) * sizeof *z);
    for (ptrdiff_t j = 0; j < width; j += AT_ONCE) {
        const ptrdiff_t some = width - j < AT_ONCE ? width - j : AT_ONCE;
        for (ptrdiff_t r = 0; r < KEPT_ROWS; r += GROUP) {
            double *x = z + r * width + j;
            for (ptrdiff_t i = 0; i < GROUP && r + i < n; i++)
                widen(images + (r + i) * width + j, some, x + i * width, &squares[r + i],
                      KEPT_ROWS * width);
            for (ptrdiff_t a = 0; a < k; a += CLASSES) {
                const double *c = coef + a * width + j;
                vec *to = part + a * KEPT_ROWS + r;
                switch (k - a < CLASSES ? k - a : CLASSES) {
                case 1: along(x, c, width, some, 1, to); break;
                case 2: along(x, c, width, some, 2, to); break;
                case 3: along(x, c, width, some, 3, to); break;
                case 4: along(x, c, width, some, 4, to); break;
                default: along(x, c, width, some, MOST_CLASSES, to);
                }
            }
        }
    }
    for (ptrdiff_t i = 0; i < k * KEPT_ROWS; i++)
        out[i] = sum_of(&part[i]);
    for (int r = 0; r < KEPT_ROWS; r++)
        square[r] = sum_of(&squares[r]);
}

/* Of some vectors of weights and numbers of each row. */
PART void add(const double *z, ptrdiff_t width, const double *w, const int k, double *total)
{
    vec sum[MOST_CLASSES][GROUP];
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

static void add_all(const double *z, ptrdiff_t width, const double *w, ptrdiff_t k, double *total)
{
    for (ptrdiff_t j = 0; j < width; j += GROUP * W)
        for (ptrdiff_t a = 0; a < k; a += CLASSES) {
            const double *weight = w + a * KEPT_ROWS;
            double *to = total + a * width + j;
            switch (k - a < CLASSES ? k - a : CLASSES) {
            case 1: add(z + j, width, weight, 1, to); break;
            case 2: add(z + j, width, weight, 2, to); break;
            case 3: add(z + j, width, weight, 3, to); break;
            case 4: add(z + j, width, weight, 4, to); break;
            default: add(z + j, width, weight, MOST_CLASSES, to);
            }
        }
}

const kept_products PRODUCTS = {along_all, add_all};
