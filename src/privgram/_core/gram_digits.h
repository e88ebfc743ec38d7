/* Rows that wait to be multiplied, as digits: what gram_kernel.h packs and gram_tiles.h adds up.
 *
 * An entry |q| <= 2^20 of a quantised row is l + 2^7 m + 2^14 h with l and m in [-64, 63]
 * and h in [-64, 64]: with o = 64 (1 + 2^7 + 2^14), the seven lowest bits of q + o are l + 64,
 * the next seven m + 64, and the rest, at most 128, h + 64.  Only the symmetric part of the
 * products of two different digits is wanted, and with S(x) = sum of x x^T over rows
 *
 *   sum of q q^T = S(l) + 2^7 [S(l + m) - S(l) - S(m)]
 *                + 2^14 [S(l + h) - S(l) - S(h) + S(m)]
 *                + 2^21 [S(m + h) - S(m) - S(h)] + 2^28 S(h):
 *
 * six symmetric products of 8-bit integers, as sums of two digits are in [-128, 127].
 * (h = 64 occurs: q + o >= 2^21 from q = 1040320 on, which a row of one entry can have.)
 *
 * 32 bits hold all on the way, for k <= 2^10 rows, and there are DIGIT_ROWS.  S(x) is at most 2^14 k = 2^24;
 * what stands in the brackets is twice a sum of products of two digits, so below 2^13 k = 2^23
 * and, with S(m), 2^24; and S(l) or the bracket of 2^14 plus 2^7 times the one after it is
 * at most 2^12 k + 2^20 k < 2^31, and 2^24 + 2^20 k < 2^31.  Totals are 64 bits as ever.
 *
 * In memory, for every 64 rows and 16 columns there is a unit of three tiles of 1 KiB, one for
 * each digit, whose rows of 64 bytes are 4 rows of the table: [rows / 4][column][row % 4]. */
#ifndef PRIVGRAM_GRAM_DIGITS_H
#define PRIVGRAM_GRAM_DIGITS_H

#include "gram.h"

enum {
    DIGIT_BITS = 20,          /* of entries, at most */
    DIGIT_ROWS = 512,         /* that wait, at most */
    TILE = 1024,              /* bytes: 16 by 64, or 64 by 16 */
    TILE_ROWS = 64,           /* of the table */
    TILE_COLUMNS = 16,
    DIGITS = 3,
    PLANES = 6,               /* digits l, m, h, and sums l + m, l + h, m + h */
    UNIT = DIGITS * TILE + 64, /* odd in cache lines: units spread over sets */
    LEFT_TILES = 12,          /* of columns that are multiplied by all before them while their
                               * planes are in the second cache */
    SUMS = 4 * 256,           /* of four tiles, for each plane */
};

/* The room of an accumulator: units of the rows that wait; planes of the left factor and of two
 * tiles of the right one; sums of two tiles by those. */
typedef struct {
    int8_t *units, *left, *right;
    int32_t *sums;
    size_t bytes;
} digit_room;

static inline ptrdiff_t digit_tiles(ptrdiff_t d)
{
    return (d + TILE_COLUMNS - 1) / TILE_COLUMNS;
}

/* Bytes of the units of 64 rows: those of one column are in all sets of the first cache. */
static inline ptrdiff_t digit_stride(ptrdiff_t tiles)
{
    return (tiles * UNIT / 4096 + 1) * 4096 + TILE;
}

static inline digit_room digit_room_at(int8_t *at, ptrdiff_t d)
{
    const ptrdiff_t tiles = digit_tiles(d), blocks = DIGIT_ROWS / TILE_ROWS;
    const ptrdiff_t most = tiles < LEFT_TILES ? tiles : LEFT_TILES;
    const ptrdiff_t units = blocks * digit_stride(tiles), left = blocks * most * PLANES * TILE;
    const ptrdiff_t right = blocks * 2 * PLANES * TILE;
    const ptrdiff_t sums = (most + 1) / 2 * PLANES * SUMS;
    int8_t *const left_at = at + units, *const right_at = left_at + left;
    return (digit_room){
        at, left_at, right_at, (int32_t *)(right_at + right),
        (size_t)(units + left + right) + (size_t)sums * sizeof(int32_t),
    };
}

/* What to fetch ahead: `left` lines in this run, then on to the next run, which
 * is a jump away or in the next column.  Beyond the end, whatever comes. */
typedef struct {
    const char *at;
    ptrdiff_t left, run, jump;
    const gram_column *column, *last;
    ptrdiff_t first, rows; /* of the runs in their columns */
    ptrdiff_t per_step;    /* lines at a time */
} fetch;

/* Lines of a run of bytes that may begin inside a line. */
static inline ptrdiff_t lines(ptrdiff_t bytes)
{
    return (bytes + 63) / 64 + 1;
}

/* near: into the first cache. */
static inline __attribute__((always_inline)) void fetch_to(fetch *f, const int near)
{
    for (ptrdiff_t i = 0; i < f->per_step; i++) {
        if (near)
            __builtin_prefetch(f->at);
        else
            __builtin_prefetch(f->at, 0, 2);
        f->at += 64;
        if (--f->left == 0) {
            f->left = f->run;
            if (f->column == f->last) {
                f->at += f->jump;
            } else {
                const ptrdiff_t item = lane_size((++f->column)->kind);
                f->at = f->column->x + f->first * item;
                f->left = lines(f->rows * item);
            }
        }
    }
}

/* Vectors of 64 bytes, whatever the machine has. */
typedef int32_t i32x16 __attribute__((vector_size(64), may_alias));
typedef uint32_t u32x16 __attribute__((vector_size(64), may_alias));
typedef int8_t i8x64 __attribute__((vector_size(64), may_alias));
typedef uint8_t u8x64 __attribute__((vector_size(64), may_alias));

#endif
