/* Exact sum of q q^T over rows of dense columns and of factors given by codes.
 *
 * A row is what it would be with a column of zeros and one weight for each level,
 * but only what can be other than zero is computed and kept: within the dense
 * columns as in gram.h; sums of the dense row by level; and a cell for each pair
 * of levels, of one factor those on the diagonal alone.
 *
 * Beside the dense columns a packed row has a lane for the entry of each block.  Where no
 * row is clipped, a weight is the same integer q in every row: one lane of ones then
 * stands for all such blocks, and q is put in at the end.
 *
 * Rows may be of groups, each with sums of its own: a group is one more code, which says to
 * which of several sums a row goes.  The dense columns then are in these sums too.
 */
#ifndef PRIVGRAM_CODED_H
#define PRIVGRAM_CODED_H

#include "gram.h"

struct coded_table {
    gram_table dense;
    const coded_codes *codes;               /* one of each factor, and of the groups if any */
    const gram_column *values;              /* columns that blocks are multiplied by */
    const double *center, *inverse, *limit; /* of the values */
    int is_short; /* whether the caller has clipped every row to the bound, less its rounding */
};

/* One column for each level of a factor, of which a row has one entry that is not
 * zero: the weight, or the weight times a value. */
typedef struct {
    ptrdiff_t factor, levels;
    ptrdiff_t first; /* position in the full row */
    ptrdiff_t value; /* or -1 */
    double weight;
    ptrdiff_t lane;
    int64_t q; /* the entry where no row is clipped, of a block without a value */
    int64_t *sums; /* of the packed row times the entry, for each level, and for missing ones */
    ptrdiff_t copies;
} coded_block;

struct coded {
    gram g; /* of the dense columns */
    ptrdiff_t d;
    ptrdiff_t n_factors, n_blocks, n_values;
    const ptrdiff_t *position; /* of the dense columns in the full row */
    const ptrdiff_t *order;    /* dense columns j, and blocks d + b, as they stand in it */
    const ptrdiff_t *levels;
    coded_block *blocks;
    int64_t **cells; /* of blocks b > c: cells[b n_blocks + c]; NULL for those of one factor */
    ptrdiff_t ones;  /* the lane after those of blocks with values, the first of the others' */
    ptrdiff_t panels; /* in use: all, or up to the ones */
    int steady;      /* whether what is pending has weights left out */

    int32_t *code; /* n_factors times block_rows */
    double *value; /* n_values times block_rows */
    int64_t *cell; /* block_rows */

    /* Groups: `groups` are listed, and one more slot, if there is one, is for all other rows. */
    ptrdiff_t groups, slots; /* 0 where rows are of none */
    int32_t *group;          /* block_rows of them; `slots` for rows that are left out */
    double *products;        /* of each slot: sums of products of dense lanes, W at a time */
    ptrdiff_t product_stride;
    ptrdiff_t *place;        /* where among them the entries of the lower triangle are */
    int32_t *pending, pending_limit; /* rows in each; with no more the sums are exact */
    int64_t *n_rows, *n_dropped; /* of each slot, and last of the rows of none */

    /* 128-bit sums of all but the dense columns, in the order of coded_flush; of groups slot by
     * slot, after the lower triangle of the dense columns. */
    ptrdiff_t size; /* of all */
    ptrdiff_t n_dense; /* entries of the triangle, with groups */
    int64_t *hi;
    uint64_t *lo;
};

/* Takes over position, order, levels and blocks, with factor, first, value and weight filled in;
 * groups and slots are set before. */
int coded_init(coded *, const gram_kernel *, double bound, int bits);
/* Another one of numbers alone, which adds to the sums of this one: see gram_init_beside. */
int coded_init_beside(coded *, coded *);
void coded_free(coded *);
void coded_reset(coded *);
void coded_flush(coded *);
void coded_flush_products(coded *, ptrdiff_t slot);
void coded_merge(coded *, coded *); /* of the same shape, bound and bits, by any kernel */
/* leave_out: rows of no slot are left out and counted, instead of reported. */
ptrdiff_t coded_update(coded *, const coded_table *, int drop, int leave_out);

/* A weight's lane, where no row is clipped, is that of ones. */
static inline ptrdiff_t coded_lane(const coded *t, const coded_block *b)
{
    return t->steady && b->value < 0 ? t->ones : b->lane;
}

/* Times that every sum is there: for each slot, and for rows that are left out. */
static inline ptrdiff_t coded_parts(const coded *t)
{
    return t->slots ? t->slots + 1 : 1;
}

static inline ptrdiff_t coded_copies(ptrdiff_t cells)
{
    /* Rows that follow one another rarely wait for the same sum. */
    return cells <= 64 ? 4 : 1;
}

#endif
