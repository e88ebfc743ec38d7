/* Codes of the levels of a factor, as they lie in memory. */
#ifndef PRIVGRAM_CODES_H
#define PRIVGRAM_CODES_H

#include <stddef.h>
#include <stdint.h>

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
