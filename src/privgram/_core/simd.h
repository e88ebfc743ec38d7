/* Vectors of W doubles, W being 4 or 8, by the extensions of GCC and Clang: what no instruction set
 * does better.  What it does, the file that includes this adds. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lanes.h"

typedef double vec __attribute__((vector_size(8 * W), may_alias));
typedef int64_t longs __attribute__((vector_size(8 * W), may_alias));
typedef float floats __attribute__((vector_size(4 * W), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * W), may_alias));

#define INLINE LANES_INLINE

INLINE vec v_zero(void) { return (vec){0}; }
INLINE vec v_set(double x) { return x - v_zero(); }
INLINE vec v_load(const double *p) { return *(const vec *)p; }
INLINE void v_store(double *p, vec x) { *(vec *)p = x; }
INLINE vec v_add(vec a, vec b) { return a + b; }
INLINE vec v_sub(vec a, vec b) { return a - b; }
INLINE vec v_mul(vec a, vec b) { return a * b; }

#if W == 4
/* Integers up to 2^51: added to 1.5 2^52 they are the low bits of the sum. */
INLINE void v_accumulate(int64_t *sum, vec x)
{
    const vec magic = v_set(0x1.8p52);
    *(longs *)sum += (longs)(x + magic) - (longs)magic;
}
#endif
