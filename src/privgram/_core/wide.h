/* Eight numbers at a time, by the extensions of GCC and Clang, in functions that are compiled once
 * for each instruction set: a vector is as many registers as that takes.
 *
 * One rounded operation after the other, so that a number is the same bits in each of them. */
#ifndef PRIVGRAM_WIDE_H
#define PRIVGRAM_WIDE_H

#include "lanes.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

/* Compiled into its caller, for the instruction set of that. */
#define PART LANES_INLINE
#define UNROLL _Pragma("GCC unroll 8")

enum { WIDE = 8 };
typedef double vec __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t ivec __attribute__((vector_size(64), aligned(8), may_alias)); /* marks of lanes */
typedef uint64_t uvec __attribute__((vector_size(64), aligned(8), may_alias)); /* integers, wrapping */

PART vec set(double x) { return (vec){x, x, x, x, x, x, x, x}; }
PART vec choose(ivec which, vec a, vec b) { return (vec)(((ivec)a & which) | ((ivec)b & ~which)); }
/* NaN where x is. */
PART vec at_least(vec x, vec low) { return choose((ivec)(x < low), low, x); }
PART vec at_most(vec x, vec high) { return choose((ivec)(x > high), high, x); }

PART uvec low_bits(vec shifted) { return (uvec)shifted - (uvec)set(MAGIC); }

#endif
