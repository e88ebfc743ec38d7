/* Scores of rows, clipped or counted by their norms, as integers: the C side of scores.pyx.
 *
 * A row comes as an image (z, y, ...), z of q features.  Its score is s = m z, where the
 * multiplier m is a function of the image and of public numbers.  Images lie by columns: value j
 * of row i is x[j * stride + i].
 *
 * What a row adds is a function of its image alone, wherever the row stands and on every machine:
 * lanes are rows, and the numbers of one row are made by one rounded operation after the other,
 * in the order of the columns, never contracted into FMA (meson.build).  Sums are of integers.  The
 * floating-point environment must be the default one.
 */
#ifndef PRIVGRAM_SCORES_H
#define PRIVGRAM_SCORES_H

#include <stddef.h>
#include <stdint.h>

/* Rows that are taken together. */
enum { SCORE_ROWS = 32 };

/* What is expected of y: it is the residual itself; by a family; by Huber's loss.  Or nothing is,
 * and the image is the score. */
enum { SCORE_PLAIN, SCORE_RESIDUAL, SCORE_GAUSSIAN, SCORE_BINOMIAL, SCORE_POISSON, SCORE_HUBER };

typedef struct {
    int kind;
    int curved;          /* m is the root of the weight in the Hessian, not the residual */
    int offset;          /* the image has one more number, which the linear predictor goes up by */
    ptrdiff_t q;
    const double *coef;  /* of the linear predictor */
    const double *ones;  /* takes z to the factor by which a row was shortened; NULL: it is 1 */
    double center, half; /* y stands for center + half y */
    double largest;      /* linear predictor of a Poisson mean, at most */
    double bend;         /* Huber: residuals count up to this size, */
    double reach_sq;     /* and rows in full up to this squared norm of z */
} score_model;

typedef struct {
    const double *x;
    ptrdiff_t stride, n;
    const int32_t *group; /* of each row: its sum, among n_groups; or NULL */
    int32_t n_groups;
} score_images;

/* What becomes of scores: any of these. */
typedef struct {
    /* Sums of rint(factor s), factor = scale / max(norm, clip), or scale where clip is below 0.  A
     * vector of a squared norm above most_sq adds nothing. */
    int64_t *total; /* (n_groups, q) */
    double clip, scale, most_sq;
    int positive; /* a vector with an integer below 0 adds nothing, too */

    /* Counts by norm, `parts` for a row.  Bin i ends at edges[i], which it includes. */
    int64_t *counts;
    const double *edges;
    ptrdiff_t n_edges; /* bins but the last one */
    double parts;

    /* The scores themselves, by columns.  Those of binary targets and of counts are clipped, by what
     * they may well be, where clip is above 0.  With a radius they are shortened to it and written
     * as whole numbers, of which rows_scale is its length; a row of a squared length above
     * rows_most_sq, or that is left out, is zeros then. */
    double *rows;
    ptrdiff_t rows_stride;
    double radius, rows_scale, rows_most_sq;
} score_sink;

/* Take the scores of all images; -1, or the first row whose score is not finite.  With `drop` such
 * rows are left out, and counted in n_dropped.
 *
 * `room` has SCORE_ROWS * (2 q + 2) words, and 8 q more that are 0, and are so again after. */
ptrdiff_t scores_take(const score_images *, const score_model *, const score_sink *, int drop,
                      int64_t *room, int64_t *n_dropped);

/* images (n, m) -= means[group] (n_groups, m) * one, row by row. */
void scores_center(double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t m, const int32_t *group,
                   const double *means, const double *one);

/* Rows that lie by columns, in blocks of one size, which are counted from that of a first row; and
 * the next of their pairs, i < j. */
typedef struct {
    const double *x;
    ptrdiff_t stride, m, size, first;
} score_rows;

typedef struct {
    ptrdiff_t i, j;
} score_pair;

/* What the rows of the next n pairs differ by, m numbers, by columns that begin `step` numbers
 * apart; and which block each is of. */
void scores_differ(const score_rows *, score_pair *next, ptrdiff_t n, double *out, ptrdiff_t step,
                   int32_t *block);

/* The most rows of a block that scores_within takes, and the largest number. */
enum { SCORE_BLOCK = 128 };
#define SCORE_FAR 0x1p40

/* Sums over all pairs of rows of blocks from `first` on, n_blocks of at most SCORE_BLOCK whole
 * numbers (z, e), or z where !residual: of vectors (z_i - z_j) (e_i - e_j), q for each block; and of
 * their products, or of those of z_i - z_j, which a triangle of q (q + 1) / 2 totals goes up by.
 * Either may be NULL.  A block with a vector whose square is above `most`, or near it, or with a
 * number of more than SCORE_FAR, adds nothing.  Others are `calm`, and add what their pairs are in
 * all, modulo 2^64.
 *
 * `room` has (SCORE_BLOCK + 1) * (3 q + 4) words. */
void scores_within(const score_rows *, ptrdiff_t n_blocks, ptrdiff_t q, int residual, double most,
                   int64_t *vectors, int64_t *triangle, uint8_t *calm, double *room);

/* Counts of such vectors of all pairs of rows of blocks, of any size, by length: bins are those of
 * score_sink.  A vector of no length, or that is not finite, is in none.
 *
 * `room` has (SCORE_BLOCK + 8) * (q + 1) + 8 * (n_edges + 1) words. */
void scores_lengths(const score_rows *, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                    const double *edges, ptrdiff_t n_edges, int64_t *counts, double *room);

#endif
