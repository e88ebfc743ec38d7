/* Exact sum of q q^T over clipped, quantised rows q: the C side of rows.pyx.
 *
 * gram.c owns the arithmetic that is the same on every machine (set-up, the
 * slow path of one row, 128-bit totals); gram_kernel.h is the hot loop, built
 * once for each instruction set.  The matrix is kept as W x W blocks of its
 * lower triangle, W being the kernel's panel width.
 */
#ifndef PRIVGRAM_GRAM_H
#define PRIVGRAM_GRAM_H

#include "lanes.h"

typedef struct {
    const char *x; /* the first of adjacent values */
    int kind;
} gram_column;

/* A table of n rows: either rows of adjacent items, any number of bytes of any
 * sign apart, or columns of adjacent items, each anywhere.
 *
 * With center, inverse and limit a value x is taken as (x - center) inverse,
 * clamped to [-limit, limit]; NaN stays NaN.  Of the d columns the last may
 * then be left out: it is at its limit in every row. */
typedef struct {
    ptrdiff_t n;
    ptrdiff_t width; /* columns that are there, d or d - 1 */
    int kind;        /* of all columns, or LANE_MIXED */
    const char *rows; /* the first of them */
    ptrdiff_t row_stride;
    const gram_column *columns;               /* or NULL for a table of rows */
    const double *center, *inverse, *limit; /* d of each; or NULL for values as they are */
} gram_table;

/* Sums that accumulators of several threads add to.  A strip is the tiles of GRAM_STRIP rows of the
 * matrix, with a lock.  `rows` are those whose products are in it, but for the blocks that threads
 * are about to add: few enough for the 2^62 that int64 has left. */
enum { GRAM_STRIP = 16, GRAM_SHARERS = 256 };

typedef struct {
    int64_t rows;
    int locked;
} __attribute__((aligned(64))) gram_strip; /* a line for each: threads wait for different ones */

typedef struct {
    int sharers, spilled;
    gram_strip strips[];
} gram_shared;

typedef struct gram gram;
typedef struct coded coded;
typedef struct coded_table coded_table;

typedef struct {
    const char *name;
    int width;      /* columns of a panel, W */
    int exact_bits; /* block sums up to 2^exact_bits convert to int64 */
    ptrdiff_t (*block_rows)(ptrdiff_t d);
    /* Add all rows of a table; -1, or the first row that cannot be added. */
    ptrdiff_t (*update)(gram *, const gram_table *, int drop);
    ptrdiff_t (*update_coded)(coded *, const coded_table *, int drop, int leave_out); /* coded.h */

    /* With `settle`, rows wait as digits until there are many to be multiplied at once: see
     * gram_digits.h.  Fewer columns are multiplied as they come, and a first table of fewer rows. */
    void (*settle)(gram *);
    int (*is_permitted)(void);
    ptrdiff_t digit_columns, digit_rows;
} gram_kernel;

struct gram {
    const gram_kernel *kernel;
    ptrdiff_t d;
    int bits;

    /* What becomes of the values of the table at hand. */
    int scaling;
    double *places; /* for each panel W centers, inverses, lower and upper limits */

    row_rule rule;

    int64_t n_rows;
    int64_t n_dropped;

    /* A block of quantised rows in panels of W columns, row by row. */
    ptrdiff_t panels;     /* of the d columns */
    ptrdiff_t all_panels; /* with the lanes that others use */
    ptrdiff_t block_rows;
    ptrdiff_t panel_stride; /* in doubles */
    double *packed;
    double *spare; /* W rows of d */
    unsigned char *missing; /* rows of the block that are dropped */
    int hold;               /* leave quantising the block to others */

    int8_t *digits;    /* rows that wait, and room to multiply them; or NULL */
    ptrdiff_t waiting; /* how many, with rows of zeros that fill up vectors */
    double *factors;   /* of the packed rows, if they are to become digits; or NULL */

    /* Sums: int64 for up to flush_rows rows, then spilled into 128 bits. */
    ptrdiff_t size; /* entries of tiles, lo and hi */
    int64_t *tiles;
    uint64_t *lo;
    int64_t *hi;
    int64_t pending_rows;
    int64_t flush_rows;
    int spilled;
    gram_shared *shared; /* or NULL: nobody else adds to the sums */
};

/* scaling: values are taken as they are; scaled; scaled, and no row is ever clipped. */
enum { GRAM_PLAIN, GRAM_SCALED, GRAM_STEADY };

/* Kernels this processor can run, best first; after them in `out` those that no machine needs,
 * for tests: digits of any number of columns, multiplied by plain C. */
enum { GRAM_KERNELS = 6 };
int gram_kernels(const gram_kernel *out[GRAM_KERNELS], int *with_plain);

double gram_target(ptrdiff_t d, int bits);
/* For d of the columns of longer rows; packed rows have room for some lanes after them.  Sums are
 * its own, or those of another accumulator.  The floating-point environment must be the default one
 * here and where rows are added: round to nearest, subnormals kept. */
int gram_init_part(gram *, const gram_kernel *, ptrdiff_t d, ptrdiff_t lanes, ptrdiff_t whole,
                   double bound, int bits, const gram *beside);
/* Another accumulator that adds to the sums of this one, at rest, which is then one of those that
 * share them: until all others are freed, only updates, and merging any two, which adds numbers of
 * rows.  -1 without memory, or for more than GRAM_SHARERS. */
int gram_init_beside(gram *, gram *);
void gram_settle(gram *); /* multiply the rows that wait */
void gram_free(gram *);
void gram_reset(gram *);
void gram_flush(gram *);
void gram_merge(gram *, gram *); /* same kernel, d, bound and bits */
/* The lower triangle, row by row. */
void gram_get_triangle(gram *, int64_t *hi, uint64_t *lo);
void gram_add_triangle(gram *, const int64_t *hi, const uint64_t *lo);
void gram_take_scaling(gram *, const gram_table *);
void gram_make_room(gram *, ptrdiff_t rows); /* for digits, where they are worth it */
void *gram_zeros(size_t bytes); /* aligned for vectors */
void gram_free_zeros(void *);

void gram_set_rule(row_rule *, double bound, double target);
/* The integers of a row x: 1; or 0 if it has a NaN, or -1 an infinity. */
int gram_quantise_row(const row_rule *, const double *x, ptrdiff_t d, double *q);
/* The same where they are, in panels of w so far apart, with no fear of overflow. */
int gram_quantise_far(const row_rule *, double *q, ptrdiff_t d, ptrdiff_t w, ptrdiff_t stride);

/* The lock of a strip of shared sums, before so many more rows are in it. */
void gram_wait(gram_strip *);
void gram_spill_strip(gram *, ptrdiff_t strip);

static inline void gram_open_strip(gram *g, ptrdiff_t strip, int64_t rows)
{
    gram_strip *s = &g->shared->strips[strip];
    if (__atomic_exchange_n(&s->locked, 1, __ATOMIC_ACQUIRE))
        gram_wait(s);
    if (s->rows + rows > g->flush_rows)
        gram_spill_strip(g, strip);
    s->rows += rows;
}

static inline void gram_close_strip(gram *g, ptrdiff_t strip)
{
    __atomic_store_n(&g->shared->strips[strip].locked, 0, __ATOMIC_RELEASE);
}

/* (hi, lo) += (hi2, lo2), two's complement in 128 bits. */
static inline void gram_add128(int64_t *hi, uint64_t *lo, int64_t hi2, uint64_t lo2)
{
    *lo += lo2;
    *hi = (int64_t)((uint64_t)*hi + (uint64_t)hi2 + (*lo < lo2));
}

/* Block (i, j), i >= j, of the lower triangle of blocks. */
static inline ptrdiff_t gram_tile(ptrdiff_t i, ptrdiff_t j, ptrdiff_t width)
{
    return (i * (i + 1) / 2 + j) * width * width;
}

/* Where entry (r, c), r >= c, is kept; see tile() in gram_kernel.h for the diagonal blocks. */
static inline ptrdiff_t gram_entry(ptrdiff_t r, ptrdiff_t c, ptrdiff_t width)
{
    const ptrdiff_t block = gram_tile(r / width, c / width, width);
    if (r / width != c / width)
        return block + r % width * width + c % width;
    return r - c <= width / 2 ? block + (r - c) * width + c % width
                              : block + (width - r + c) * width + r % width;
}

#endif
