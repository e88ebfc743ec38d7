/* Cosines and sines of random projections: the C side of rowmap.pyx.
 *
 * A number is made by one rounded operation after the other, never contracted into FMA
 * (meson.build): only projections are taken several at a time.  So a row's features are the same
 * bits wherever it stands and on every machine.
 */
#ifndef PRIVGRAM_RANDOM_FEATURES_H
#define PRIVGRAM_RANDOM_FEATURES_H

#include <stddef.h>

/* Of n rows of d numbers, m projections by `weights` (d, m): `size` times their cosines and then
 * their sines, 2 m numbers a row. */
void features_make(const double *x, ptrdiff_t n, ptrdiff_t d, const double *weights, ptrdiff_t m,
                   double size, double *out);

#endif
