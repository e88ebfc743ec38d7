/* Numbers and codes as they lie in memory, and what every row goes through: loaded by type, scaled,
 * clamped, its squares folded, clipped and rounded.
 *
 * Plain operations in a fixed order and no contraction into FMA (meson.build), so that a number
 * comes out alike on every machine and at every place in a block.  NaN stays NaN.
 */
#ifndef PRIVGRAM_LANES_H
#define PRIVGRAM_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline))

/* Types of values that are read in place; of columns of several; and of what is not there. */
enum { LANE_FLOAT64, LANE_FLOAT32, LANE_INT64, LANE_INT32, LANE_MIXED, LANE_ONES };

/* Bytes of a value, the most of mixed ones. */
static inline ptrdiff_t lane_size(int kind)
{
    return kind == LANE_FLOAT32 || kind == LANE_INT32 ? 4 : 8;
}

/* One value of any type. */
static inline double lane_value(const char *x, int kind)
{
    switch (kind) {
    case LANE_FLOAT64: return *(const double *)x;
    case LANE_FLOAT32: return *(const float *)x;
    case LANE_INT64: return (double)*(const int64_t *)x;
    default: return *(const int32_t *)x;
    }
}

LANES_INLINE double clamp(double v, double lower, double upper)
{
    v = v < lower ? lower : v;
    return v > upper ? upper : v;
}

/* `count` adjacent values: (x - center) inverse, clamped to [-limit, limit]. */
static inline void lanes_scaled(const char *restrict x, int kind, ptrdiff_t count, double center,
                                double inverse, double limit, double *restrict out)
{
#define SCALED(type) \
    for (ptrdiff_t r = 0; r < count; r++) \
        out[r] = clamp(((double)((const type *)x)[r] - center) * inverse, -limit, limit);
    switch (kind) {
    case LANE_FLOAT64: SCALED(double) break;
    case LANE_FLOAT32: SCALED(float) break;
    case LANE_INT64: SCALED(int64_t) break;
    default: SCALED(int32_t) break;
    }
#undef SCALED
}

/* Eight partial sums, folded in half three times. */
#define FOLD(p) ((((p)[0] + (p)[4]) + ((p)[2] + (p)[6])) + (((p)[1] + (p)[5]) + ((p)[3] + (p)[7])))

/* Added to what is below 2^51 it leaves the nearest integer, ties to even, in the low bits. */
#define MAGIC 0x1.8p52

static inline double to_integer(double x) { return (x + MAGIC) - MAGIC; }

/* How rows become integers: those longer than the bound by T over their norm, others by S. */
typedef struct {
    double bound, bound_sq;
    double target;     /* T, the largest norm before rounding */
    double scale;      /* S = T / bound */
    double norm_limit; /* rows whose squared norm is not <= this go the slow path */
} row_rule;

static inline double row_factor(const row_rule *rule, double squared_norm)
{
    return squared_norm > rule->bound_sq ? rule->target / sqrt(squared_norm) : rule->scale;
}

/* Items of two vectors by their places; `marks` are integers as wide. */
#ifdef __clang__
#define SHUFFLE(marks, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(marks, a, b, ...) __builtin_shuffle(a, b, (marks){__VA_ARGS__})
#endif

/* Codes of a factor: adjacent integers, looked up in a table unless it is NULL.
 * A code beyond the levels, below zero or not in the table is a missing value. */
typedef struct {
    const char *x;
    int size; /* in bytes */
    int is_signed;
    const int32_t *lut;
    int64_t n_lut;
} coded_codes;

#define CODES(type) \
    for (ptrdiff_t r = 0; r < count; r++) { \
        const uint64_t i = (uint64_t)((const type *)c->x)[start + r]; \
        code[r] = (int32_t)(i < (uint64_t)levels ? i : (uint64_t)levels); \
    }
#define CODES_LOOKED_UP(type) \
    for (ptrdiff_t r = 0; r < count; r++) { \
        const uint64_t i = (uint64_t)((const type *)c->x)[start + r]; \
        const uint64_t found = i < (uint64_t)c->n_lut ? (uint64_t)c->lut[i] : (uint64_t)levels; \
        code[r] = (int32_t)(found < (uint64_t)levels ? found : (uint64_t)levels); \
    }
#define CODES_OF(what) \
    switch (2 * c->size + c->is_signed) { \
    case 2: what(uint8_t) break; \
    case 3: what(int8_t) break; \
    case 4: what(uint16_t) break; \
    case 5: what(int16_t) break; \
    case 8: what(uint32_t) break; \
    case 9: what(int32_t) break; \
    case 16: what(uint64_t) break; \
    default: what(int64_t) break; \
    }

/* Codes of a block of rows; the number of levels and a mark for those that are missing. */
static inline void read_codes(const coded_codes *c, ptrdiff_t start, ptrdiff_t count, int32_t levels,
                       int32_t *restrict code, unsigned char *restrict missing)
{
    if (c->lut)
        CODES_OF(CODES_LOOKED_UP)
    else
        CODES_OF(CODES)
    for (ptrdiff_t r = 0; missing && r < count; r++)
        missing[r] |= code[r] == levels;
}

#endif
