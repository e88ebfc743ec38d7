/* Rows as whole images of 16 bits, and what models of several outputs make of them.
 *
 * Products of images are of whole numbers that stay below 2^53, so that they are exact in whatever
 * order they are added and on every machine (kept_products.c).  All else of a row is one rounded
 * operation after the other, lanes are rows, and nothing is contracted into FMA.  So what a row adds
 * is a function of the row alone.
 */
#ifndef PRIVGRAM_KEPT_H
#define PRIVGRAM_KEPT_H

#include <stddef.h>
#include <stdint.h>

/* Rows that are taken together, and what the numbers of a row are filled up to. */
enum { KEPT_ROWS = 32, KEPT_WIDTH = 32 };

/* No row adds integers of a longer vector to a sum of scores; and a square is at most 2^20. */
#define KEPT_MOST 0x1p30
#define KEPT_SQUARE 0x1p20

/* Rows x (n, d) times `scales` (or 1), shortened to `most`, as whole numbers of length 2^bits at
 * most, of which `most` is about the length.  A row that is not finite, or that arithmetic made
 * longer, is zeros.  One of `wide` and `narrow` is written, of `stride` numbers a row. */
void kept_whole(const double *x, ptrdiff_t n, ptrdiff_t d, const double *scales, double most,
                int bits, double *wide, int16_t *narrow, ptrdiff_t stride);

typedef struct {
    const int16_t *images; /* (n, width), filled up with zeros */
    ptrdiff_t n, width;
    const double *beside; /* (n, m): classes, or targets */
    ptrdiff_t m;
} kept_rows;

/* Linear predictors back * coef . z of k classes, or of k fits; coef (k, width), whole numbers. */
typedef struct {
    int classes;
    ptrdiff_t k;
    const double *coef;
    double back;
    const int32_t *target; /* of fits: which of what is beside, times `size` */
    double size;
} kept_model;

/* What becomes of them: any of these.  Rows whose class is below 0, -1 - c, are held out. */
typedef struct {
    /* Sums of z e^T (k, width), e = y - p of classes or y - eta, in units of 1 / units for e:
     * |z| |e| <= KEPT_MOST in integers, of each row.  Of rows that are not held out. */
    int64_t *total;
    double units;

    /* A sum of squared errors of a fit up to `reach`, KEPT_SQUARE for one that is as large or no
     * number; of two fits the first less the second. */
    int64_t *squares;
    double reach;

    /* Rows that are held out, (bins, 2): by the largest probability, and whether that is right. */
    int64_t *counts;
    ptrdiff_t bins;
} kept_sink;

/* `room` has KEPT_ROWS * (width + 9 k) + k * width doubles. */
void kept_take(const kept_rows *, const kept_model *, const kept_sink *, double *room);

/* Products of numbers that are all whole, of which no sum is beyond 2^53. */
typedef struct {
    /* z = images (n, width) up to KEPT_ROWS, zeros after them; out (k, KEPT_ROWS) = coef z^T; and
     * the squares of their lengths.  `room` has 8 k KEPT_ROWS doubles. */
    void (*along)(const int16_t *images, ptrdiff_t n, ptrdiff_t width, const double *coef,
                  ptrdiff_t k, double *z, double *square, double *room, double *out);
    /* total (k, width) += w (k, KEPT_ROWS) z. */
    void (*add)(const double *z, ptrdiff_t width, const double *w, ptrdiff_t k, double *total);
} kept_products;

#endif
