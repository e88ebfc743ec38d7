/* Discrete Gaussian variates, and normal ones, exactly: docs/theory/finite-precision.md. */
#ifndef PRIVGRAM_DISCRETE_H
#define PRIVGRAM_DISCRETE_H

#include <stddef.h>
#include <stdint.h>

#include "numpy/random/bitgen.h"

#define DISCRETE_BLOCKS 256
#define DISCRETE_GUIDES 1024
#define DISCRETE_AHEAD 512

/* Bound of the errors of a threshold, in 2^-64: what is closer is not decided here. */
#define DISCRETE_MARGIN 1024

/* Probabilities in proportion to exp(-rate y^2), |y| in blocks of 2^shift integers. */
typedef struct {
    int shift;
    int whole;       /* integers; else real numbers, of which the whole part is drawn */
    uint64_t rate67; /* floor(2^67 A), A the rate of whole blocks; 0 where shift is */
    uint64_t margin;
    uint64_t scale;                           /* K: block b is proposed K e^(-A b^2) times or more */
    uint64_t weight[DISCRETE_BLOCKS + 1];     /* c_b of 2^63, and of all that is beyond */
    uint64_t cumulative[DISCRETE_BLOCKS + 2]; /* up to b and with it; the last is no block's */
    uint64_t start[DISCRETE_BLOCKS + 1];      /* 2^64 of the acceptance at the block's least |y| */
    uint64_t sure[DISCRETE_BLOCKS + 1];       /* below this all of the block is accepted */
    uint8_t guide[DISCRETE_GUIDES];           /* the first block that u with these upper bits can be of */
} discrete_law;

/* A proposal that is to be decided elsewhere; of block DISCRETE_BLOCKS nothing more was drawn. */
typedef struct {
    int negative;
    int block;
    uint64_t offset[2]; /* |y| - block 2^shift, upper and lower word */
    uint64_t first;     /* word of the uniform number that decides */
} discrete_proposal;

/* Words of a bit generator in their order, read ahead by no more than what draws are sure to take. */
typedef struct {
    bitgen_t *bits;
    void (*read)(void *state, uint64_t *words, ptrdiff_t n); /* or NULL: one by one */
    int next, end;                                           /* of those below that are not used */
    uint64_t words[DISCRETE_AHEAD];
} discrete_words;

/* Use the next word. */
uint64_t discrete_word(discrete_words *words);

/* Make the table of a law from the upper and lower word of floor(2^127 e^-A). */
void discrete_prepare(discrete_law *law, int shift, int whole, uint64_t rate67,
                      const uint64_t decay[2], uint64_t margin);

/* Draw integers y = high 2^64 + low from index `at` on, of real numbers floor(y). Returns how far it came: `n`, or the
 * index whose proposal is left to the caller. No word is left over at `n`. */
ptrdiff_t discrete_fill(const discrete_law *law, discrete_words *words, int64_t *high,
                        uint64_t *low, ptrdiff_t at, ptrdiff_t n, discrete_proposal *undecided);

#endif
