/* z = A (c u) for rows u, with c = min(1, bound / ||u||).
 *
 * A row is made of numbers and of blocks, a block being a column for each level of a factor, of
 * which a row has one entry that is not zero.  An image costs what is not zero of its row.
 *
 * An image depends on its row alone, wherever the row stands and on every machine: products and
 * sums are rounded one by one, in the order of the columns j, and never contracted into FMA
 * (meson.build).  Only rows and columns k of the result are taken several at a time.  Images lie by
 * columns.
 *
 *   s = sum_j u_j^2;  c = s > bound^2 ? bound / sqrt(s) : 1;  z_k = sum_j (c u_j) A_kj,
 *
 * over the numbers and then the entries of the blocks.
 */
#ifndef PRIVGRAM_ROWMAP_H
#define PRIVGRAM_ROWMAP_H

#include <string.h>

#include "wide.h"

/* Rows and columns taken together; how many rows ahead are fetched, and how many codes read. */
enum { MAP_ROWS = 8, MAP_COLUMNS = 8, MAP_AHEAD = 32, MAP_CODES = 256 };

/* A column: its first item, bytes from one to the next, and of what type they are.  Where columns
 * are scaled, a value is clamp((x - center) * inverse) to +-limit, and LANE_ONES stands for limit. */
typedef struct {
    const char *x;
    ptrdiff_t step;
    int kind;
    double center, inverse, limit;
} map_column;

/* The levels of a block, and which row of A transposed is of the first of them.  Its entries, its
 * weight or a value, are a column. */
typedef struct {
    coded_codes codes;
    int32_t levels;
    ptrdiff_t first;
} map_block;

PART vec map_scale(const map_column *column, vec x)
{
    const vec limit = set(column->limit);
    return at_most(at_least((x - column->center) * column->inverse, -limit), limit);
}

/* In registers: a vector that is read where its lanes were just written waits for them. */
#define MAP_LOAD(T) \
    if (rows == MAP_ROWS && column->step == sizeof(T)) { \
        T item __attribute__((vector_size(MAP_ROWS * sizeof(T)))); \
        memcpy(&item, at, sizeof item); \
        x = __builtin_convertvector(item, vec); \
    } else { \
        for (int r = 0; r < MAP_ROWS; r++) \
            x[r] = (double)*(const T *)(at + (r < rows ? r : rows - 1) * column->step); \
    }

/* Items i, ..., i + rows - 1 of a column, the last of them repeated. */
PART vec map_load(const map_column *column, ptrdiff_t i, int rows, int scaled)
{
    vec x = set(column->limit);
    const char *at = column->x + i * column->step;
    __builtin_prefetch(at + MAP_AHEAD * column->step);
    switch (column->kind) {
    case LANE_FLOAT64: MAP_LOAD(double) break;
    case LANE_FLOAT32: MAP_LOAD(float) break;
    case LANE_INT64: MAP_LOAD(int64_t) break;
    case LANE_INT32: MAP_LOAD(int32_t) break;
    default: return x;
    }
    return scaled ? map_scale(column, x) : x;
}

/* One row, of infinite squared norm, clipped where it stands in v: it is infinite, and becomes NaN,
 * or its square is beyond the largest number. */
static void map_clip_far(double *v, ptrdiff_t d, double bound)
{
    double s = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        const double x = v[j * MAP_ROWS] *= 0x1p-600;
        s += x * x;
    }
    const double c = bound / sqrt(s);
    for (ptrdiff_t j = 0; j < d; j++)
        v[j * MAP_ROWS] *= c;
}

/* Clip the rows of a group to the bound: v[j * MAP_ROWS + r] is entry j of row r. */
PART void map_clip(double *restrict v, ptrdiff_t d, vec square, double bound)
{
    vec factor;
    double s[MAP_ROWS], root[MAP_ROWS];
    const vec one = set(1);
    const ivec beyond = (ivec)(square > one * (bound * bound));
    int64_t any = 0;
    for (int r = 0; r < MAP_ROWS; r++)
        any |= beyond[r];
    if (!any)
        return;
    memcpy(s, &square, sizeof s);
    for (int r = 0; r < MAP_ROWS; r++)
        root[r] = sqrt(s[r]);
    memcpy(&factor, root, sizeof factor);
    factor = choose(beyond & (ivec)(square < one * INFINITY), bound / factor, one);
    for (ptrdiff_t j = 0; j < d; j++)
        *(vec *)(v + j * MAP_ROWS) *= factor;
    for (int r = 0; r < MAP_ROWS; r++)
        if (isinf(s[r]))
            map_clip_far(v + r, d, bound);
}

/* Which rows of A transposed the entries of MAP_ROWS rows in each block are multiplied by; an entry
 * of no level is NaN. */
PART void map_places(const map_block *blocks, ptrdiff_t n_blocks, const int32_t *codes, int rows,
                         ptrdiff_t *restrict place, double *restrict v)
{
    for (ptrdiff_t b = 0; b < n_blocks; b++)
        for (int r = 0; r < MAP_ROWS; r++) {
            const int32_t code = codes[b * MAP_CODES + (r < rows ? r : rows - 1)];
            const int known = code < blocks[b].levels;
            place[b * MAP_ROWS + r] = blocks[b].first + (known ? code : 0);
            if (!known)
                v[b * MAP_ROWS + r] = NAN;
        }
}

/* The images of MAP_ROWS rows v of d numbers and the entries of blocks, to out[k * step + r]; `at` is
 * A transposed, in rows of `width`, padded with zeros, those of the numbers first.
 *
 * Without blocks lanes are rows; but a row's level has a row of A transposed of its own, of which
 * lanes are columns. */
PART void map_numbers(const double *restrict v, const double *restrict at, ptrdiff_t d,
                          ptrdiff_t width, const int columns, vec *restrict sum)
{
UNROLL
    for (int k = 0; k < columns; k++)
        sum[k] = (vec){0};
    for (ptrdiff_t j = 0; j < d; j++) {
        const vec x = *(const vec *)(v + j * MAP_ROWS);
UNROLL
        for (int k = 0; k < columns; k++)
            sum[k] += x * at[j * width + k];
    }
}

/* to[k][r] = from[r][k], by blocks of 1, 2 and 4. */
PART void map_transpose(const vec from[MAP_ROWS], vec to[MAP_ROWS])
{
    vec a[MAP_ROWS], b[MAP_ROWS];
    for (int r = 0; r < MAP_ROWS; r += 2) {
        a[r] = SHUFFLE(ivec, from[r], from[r + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        a[r + 1] = SHUFFLE(ivec, from[r], from[r + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int r = 0; r < MAP_ROWS; r += 4)
        for (int k = 0; k < 2; k++) {
            b[r + k] = SHUFFLE(ivec, a[r + k], a[r + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            b[r + k + 2] = SHUFFLE(ivec, a[r + k], a[r + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int k = 0; k < 4; k++) {
        to[k] = SHUFFLE(ivec, b[k], b[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        to[k + 4] = SHUFFLE(ivec, b[k], b[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

PART void map_levels(const double *restrict v, const double *restrict at, ptrdiff_t d,
                         const ptrdiff_t n_blocks, const ptrdiff_t *restrict place,
                         ptrdiff_t width, vec *restrict sum)
{
    vec image[MAP_ROWS] = {{0}};
    for (ptrdiff_t j = 0; j < d; j++) {
        const vec a = *(const vec *)(at + j * width);
UNROLL
        for (int r = 0; r < MAP_ROWS; r++)
            image[r] += v[j * MAP_ROWS + r] * a;
    }
    for (ptrdiff_t b = 0; b < n_blocks; b++) {
        const double *entry = v + (d + b) * MAP_ROWS;
UNROLL
        for (int r = 0; r < MAP_ROWS; r++)
            image[r] += entry[r] * *(const vec *)(at + place[b * MAP_ROWS + r] * width);
    }
    map_transpose(image, sum);
}

PART void map_group(const double *restrict v, const double *restrict at, ptrdiff_t d,
                        const ptrdiff_t n_blocks, const ptrdiff_t *restrict place, ptrdiff_t width,
                        ptrdiff_t size, int rows, ptrdiff_t step, double *restrict out)
{
    for (ptrdiff_t k = 0; k < size; k += MAP_COLUMNS) {
        vec sum[MAP_COLUMNS];
        const int columns = size - k < MAP_COLUMNS ? (int)(size - k) : MAP_COLUMNS;
        if (n_blocks)
            map_levels(v, at + k, d, n_blocks, place, width, sum);
        else if (columns > MAP_COLUMNS / 2)
            map_numbers(v, at + k, d, width, MAP_COLUMNS, sum);
        else
            map_numbers(v, at + k, d, width, MAP_COLUMNS / 2, sum);
        for (int c = 0; c < columns; c++)
            if (rows == MAP_ROWS)
                *(vec *)(out + (k + c) * step) = sum[c];
            else
                memcpy(out + (k + c) * step, &sum[c], (size_t)rows * sizeof *out);
    }
}

/* As map_rows, for a number of blocks that may be known when this is compiled. */
PART void map_all(const map_column *columns, int scaled, ptrdiff_t first, ptrdiff_t n,
                      ptrdiff_t d, const map_block *blocks, const ptrdiff_t n_blocks, double bound,
                      const double *at, ptrdiff_t width, ptrdiff_t size, double *v,
                      ptrdiff_t *place, int32_t *codes, ptrdiff_t step, double *out)
{
    int usual = scaled; /* adjacent doubles, but for ones */
    for (ptrdiff_t j = 0; j < d + n_blocks; j++)
        usual &= columns[j].kind != LANE_FLOAT64 || columns[j].step == sizeof(double);
    for (ptrdiff_t i = 0; i < n; i += MAP_ROWS) {
        vec square = {0};
        const int rows = n - i < MAP_ROWS ? (int)(n - i) : MAP_ROWS;
        const ptrdiff_t ahead = n - i < MAP_CODES ? n - i : MAP_CODES;
        for (ptrdiff_t b = 0; b < n_blocks && i % MAP_CODES == 0; b++)
            read_codes(&blocks[b].codes, first + i, ahead, blocks[b].levels, codes + b * MAP_CODES, NULL);
        for (ptrdiff_t j = 0; j < d + n_blocks; j++) {
            const map_column *column = columns + j;
            vec x;
            if (usual && rows == MAP_ROWS && column->kind == LANE_FLOAT64) {
                const double *at = (const double *)column->x + first + i;
                __builtin_prefetch(at + MAP_AHEAD);
                x = map_scale(column, *(const vec *)at);
            } else {
                x = map_load(column, first + i, rows, scaled);
            }
            *(vec *)(v + j * MAP_ROWS) = x;
            square += x * x;
        }
        map_places(blocks, n_blocks, codes + i % MAP_CODES, rows, place, v + d * MAP_ROWS);
        map_clip(v, d + n_blocks, square, bound);
        map_group(v, at, d, n_blocks, place, width, size, rows, step, out + i);
    }
}

/* Add the squares of a column's `rows` items from i on to sums. */
PART void map_add_squares(const map_column *column, ptrdiff_t i, int rows, vec *sums)
{
    const vec x = map_load(column, i, rows, 0);
    *sums += x * x;
}

/* Squared norms of MAP_ROWS rows from i on, whose items are adjacent. */
PART vec map_squares_across(const map_column *columns, ptrdiff_t i, ptrdiff_t d)
{
    vec sum = {0}, x[MAP_ROWS], turned[MAP_ROWS];
    ptrdiff_t j = 0;
    for (; columns->kind == LANE_FLOAT64 && j + MAP_ROWS <= d; j += MAP_ROWS) {
        for (int r = 0; r < MAP_ROWS; r++)
            x[r] = *(const vec *)(columns[j].x + (i + r) * columns->step);
        map_transpose(x, turned);
        for (int k = 0; k < MAP_ROWS; k++)
            sum += turned[k] * turned[k];
    }
    for (; j < d; j++)
        map_add_squares(columns + j, i, MAP_ROWS, &sum);
    return sum;
}

/* Squared norms of n rows of d numbers: column after column of a strip that stays in the cache, or,
 * where items of a row are adjacent, row after row. */
CLONES
static void map_squares(const map_column *columns, ptrdiff_t n, ptrdiff_t d, int adjacent,
                        double *out)
{
    enum { STRIP = 64 }; /* of MAP_ROWS rows */
    vec sums[STRIP];
    for (ptrdiff_t i = 0, count; i < n; i += count) {
        const ptrdiff_t whole = (n - i) / MAP_ROWS, groups = whole < STRIP ? whole : STRIP;
        const int rows = groups ? MAP_ROWS : (int)(n - i);
        memset(sums, 0, sizeof sums);
        if (adjacent && groups)
            for (ptrdiff_t k = 0; k < groups; k++)
                sums[k] = map_squares_across(columns, i + k * MAP_ROWS, d);
        else
            for (ptrdiff_t j = 0; j < d; j++)
                for (ptrdiff_t k = 0; k < groups + !groups; k++)
                    map_add_squares(columns + j, i + k * MAP_ROWS, rows, sums + k);
        count = groups ? groups * MAP_ROWS : rows;
        memcpy(out + i, sums, (size_t)count * sizeof *out);
    }
}

/* n rows from a first one, of d numbers and `n_blocks` blocks, whose entries are in `columns` after
 * the numbers.
 * An image has `size` numbers, which go to columns that begin `step` numbers apart.  `v` has room
 * for (d + n_blocks) * MAP_ROWS numbers, `place` for n_blocks * MAP_ROWS and `codes` for
 * n_blocks * MAP_CODES. */
CLONES
static void map_rows(const map_column *columns, int scaled, ptrdiff_t first, ptrdiff_t n,
                     ptrdiff_t d, const map_block *blocks, ptrdiff_t n_blocks, double bound,
                     const double *at, ptrdiff_t width, ptrdiff_t size, double *v,
                     ptrdiff_t *place, int32_t *codes, ptrdiff_t step, double *out)
{
    if (n_blocks)
        map_all(columns, scaled, first, n, d, blocks, n_blocks, bound, at, width, size, v, place,
                codes, step, out);
    else
        map_all(columns, scaled, first, n, d, blocks, 0, bound, at, width, size, v, place, codes,
                step, out);
}

#endif
