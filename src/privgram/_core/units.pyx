"""The rows of one unit at a time: their integer Gram matrix, scaled into a ball, and added.

A row x becomes q = rint(min(1, row_bound/||x||) S x), as in `rows` but for the scale, which is
the unit's: S = T / bound.  M = sum q q^T over the rows of a unit is exact, so it does not depend
on their order.  It is added as it is where its norm is at most W = 2^(2 bits), and else as
rint(c M) + p I on the p columns it has.  The latter is positive semidefinite and of norm at most
W: proofs in docs/theory/units.md.  Of a table of groups M is block-diagonal, a block for each group
in which the unit has rows, with one norm and one c.  The plain twin is `tests/oracle/units.py`.
"""
cimport numpy as cnp
from libc.math cimport fabs, frexp, isfinite, isinf, isnan, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    /* Squares of whole numbers up to 2^48, and their sum, exactly; beyond that it is too long. */
    typedef struct { unsigned __int128 sum; int beyond; } exact_square;
    static inline void square_add(exact_square *s, int64_t z, int times)
    {
        const uint64_t size = z < 0 ? -(uint64_t)z : (uint64_t)z;
        s->beyond |= size > (uint64_t)1 << 48;
        s->sum += (unsigned __int128)size * size * (unsigned)times;
    }
    static inline int square_within(const exact_square *s, double whole)
    {
        const unsigned __int128 most = (unsigned __int128)(uint64_t)whole * (uint64_t)whole;
        return !s->beyond && s->sum <= most;
    }
    """
    ctypedef struct exact_square:
        int beyond
    void square_add(exact_square *s, int64_t z, int times) noexcept nogil
    int square_within(const exact_square *s, double whole) noexcept nogil

cdef double HALF_ULP = 2.0 ** -53
# Adding and taking this off rounds to the nearest integer what is below 2^51.
cdef double ROUND = 6755399441055744.0


cdef struct unit_sums:
    ptrdiff_t d
    int trace           # norm: sum of squared row norms, else Frobenius
    int centring        # whether any column is centred
    double row_bound
    double row_bound_sq
    double row_target   # largest norm of a row before rounding
    double scale        # of rows that are not clipped: S, but for rounding
    double whole        # W
    double room         # what rounding adds to the norm of one block
    double norm_limit   # squared norms beyond take the slow path
    unsigned char *centred
    double *q           # one row
    ptrdiff_t *at       # where it is not zero
    unsigned char *seen  # columns that are not zero in a unit
    int64_t *sums       # of a unit's rows
    int64_t *gram       # of a unit's rows, lower triangle
    double *rest        # of the sums, beyond rows times the mean
    int64_t *hi         # totals, lower triangle, one for each group
    uint64_t *lo


cdef inline void add128(int64_t *hi, uint64_t *lo, int64_t more) noexcept nogil:
    lo[0] += <uint64_t>more
    hi[0] += (more >> 63) + (lo[0] < <uint64_t>more)


cdef int quantise(unit_sums *u, const double *x) noexcept nogil:
    """q of one row: 1, or 0 for a row with NaN, or -1 for one with an infinity."""
    cdef double p[8]
    cdef double s, f, largest = 0.0, bound = u.row_bound
    cdef ptrdiff_t j
    cdef int e = 0
    memset(p, 0, sizeof(p))
    for j in range(u.d):
        p[j % 8] += x[j] * x[j]
    s = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
    if s <= u.norm_limit:
        f = u.row_target / sqrt(s) if s > u.row_bound_sq else u.scale
        for j in range(u.d):
            u.q[j] = (x[j] * f + ROUND) - ROUND
        return 1
    for j in range(u.d):
        if isnan(x[j]):
            return 0
        largest = max(largest, fabs(x[j]))
    if isinf(largest):
        return -1
    # As `gram_quantise_row` in gram.c: divided by a power of two first.
    frexp(largest, &e)
    memset(p, 0, sizeof(p))
    for j in range(u.d):
        u.q[j] = ldexp(x[j], -e)
        p[j % 8] += u.q[j] * u.q[j]
    s = ((p[0] + p[4]) + (p[2] + p[6])) + ((p[1] + p[5]) + (p[3] + p[7]))
    bound = ldexp(bound, -e)
    f = u.row_target / sqrt(s) if s > bound * bound else u.row_target / bound
    for j in range(u.d):
        u.q[j] = (u.q[j] * f + ROUND) - ROUND
    return 1


cdef void add_row(unit_sums *u) noexcept nogil:
    """gram += q q^T, sums += q."""
    cdef ptrdiff_t i, j, a, b, n = 0
    cdef int64_t value
    cdef int64_t *row
    for j in range(u.d):
        u.at[n] = j
        n += u.q[j] != 0.0
    for a in range(n):
        i = u.at[a]
        value = <int64_t>u.q[i]
        row = u.gram + i * u.d
        u.seen[i] = 1
        u.sums[i] += value
        if n == u.d:
            for j in range(i + 1):
                row[j] += value * <int64_t>u.q[j]
        else:
            for b in range(a + 1):
                row[u.at[b]] += value * <int64_t>u.q[u.at[b]]


cdef void centre(unit_sums *u, const ptrdiff_t *at, ptrdiff_t n, int64_t rows) noexcept nogil:
    """Replace the Gram matrix by that about the integer part of the mean, in the centred columns.

    Modulo 2^64 on the way, which leaves the result exact: it is no larger than `gram` was.
    """
    cdef ptrdiff_t a, b, i, j
    cdef int64_t mean
    cdef uint64_t mi, mj, z
    for a in range(n):
        i = at[a]
        if u.centred[i]:
            mean = u.sums[i] // rows
            mean -= mean * rows > u.sums[i]  # C rounds towards zero
            u.rest[i] = <double>(u.sums[i] - mean * rows)
    for a in range(n):
        i = at[a]
        for b in range(a + 1):
            j = at[b]
            if u.centred[i] != u.centred[j]:
                u.gram[i * u.d + j] = 0
            elif u.centred[i]:
                mi = <uint64_t>((u.sums[i] - <int64_t>u.rest[i]) // rows)
                mj = <uint64_t>((u.sums[j] - <int64_t>u.rest[j]) // rows)
                z = <uint64_t>u.gram[i * u.d + j]
                z -= mi * <uint64_t>u.sums[j]
                z -= mj * <uint64_t>u.sums[i]
                z += <uint64_t>rows * mi * mj
                u.gram[i * u.d + j] = <int64_t>z


cdef inline double value_of(
    const unit_sums *u, ptrdiff_t i, ptrdiff_t j, double rows
) noexcept nogil:
    """An entry of the unit's matrix; what is beyond the integer part of the mean is taken off."""
    cdef double z = <double>u.gram[i * u.d + j]
    if u.centring and u.centred[i] and u.centred[j]:
        z -= u.rest[i] * u.rest[j] / rows
    return z


cdef double norm_of(
    const unit_sums *u, const ptrdiff_t *at, ptrdiff_t n, double rows
) noexcept nogil:
    """Trace or Frobenius norm; one term after another, so a function of the matrix alone."""
    cdef ptrdiff_t a, b
    cdef double row, z, total = 0.0
    cdef int64_t diagonal = 0
    if u.trace:
        for a in range(n):
            diagonal += u.gram[at[a] * u.d + at[a]]
        return <double>diagonal
    for a in range(n):
        row = 0.0
        for b in range(a):
            z = value_of(u, at[a], at[b], rows)
            row += z * z
        z = value_of(u, at[a], at[a], rows)
        total += 2.0 * row + z * z
    return sqrt(total)


cdef double finish(
    unit_sums *u, int64_t rows, double whole_norm, ptrdiff_t blocks, ptrdiff_t slot
) noexcept nogil:
    """Add a block of a unit to that of its group, scaled if it must be; forget it, return its norm.

    `whole_norm` is that of all `blocks` of the unit, and below 0 where this is the only one.
    Nothing is added with `slot` below 0.
    """
    cdef ptrdiff_t a, b, i, j, first, n = 0
    cdef ptrdiff_t *at = u.at
    cdef double norm, all_norm, kept, target, c
    cdef int64_t z, trace = 0
    cdef exact_square total_square
    cdef bint exact
    memset(&total_square, 0, sizeof(total_square))
    for j in range(u.d):
        at[n] = j
        n += u.seen[j]
    if u.centring and rows > 0:
        centre(u, at, n, rows)
    norm = norm_of(u, at, n, <double>rows)
    all_norm = norm if whole_norm < 0 else whole_norm
    # Norms up to `kept` are surely at most W, and longer ones are scaled to `target`.
    kept = u.whole if u.trace else u.whole * (1 - (u.d + blocks + 31) * HALF_ULP)
    target = u.whole - u.room * blocks
    exact = not u.centring and all_norm <= kept
    c = 1.0 if all_norm <= target else target / all_norm
    first = slot * u.d * u.d
    if slot >= 0 and not exact:  # else the norm was that of these whole numbers
        for a in range(n):
            i = at[a]
            for b in range(a + 1):
                j = at[b]
                z = <int64_t>((c * value_of(u, i, j, <double>rows) + ROUND) - ROUND)
                z += n if i == j else 0
                u.gram[i * u.d + j] = z
                square_add(&total_square, z, 1 if i == j else 2)
            trace += u.gram[i * u.d + i]
        # Whatever arithmetic did: a matrix that is too long, which none is, adds nothing.
        if u.trace:
            if trace < 0 or trace > <int64_t>u.whole:
                slot = -1
        elif not square_within(&total_square, u.whole):
            slot = -1
    for a in range(n):
        i = at[a]
        for b in range(a + 1):
            j = at[b]
            if slot >= 0:
                z = u.gram[i * u.d + j]
                add128(&u.hi[first + i * u.d + j], &u.lo[first + i * u.d + j], z)
            u.gram[i * u.d + j] = 0
        u.seen[i] = 0
    for a in range(n):
        u.sums[at[a]] = 0
        u.rest[at[a]] = 0.0
    return norm


cdef ptrdiff_t take(
    unit_sums *u, const double *x, ptrdiff_t row, ptrdiff_t end, bint drop, int64_t *rows
) noexcept nogil:
    """Rows of one block into its Gram matrix; the first that cannot be taken, or -1."""
    cdef int found
    rows[0] = 0
    for row in range(row, end):
        found = quantise(u, x + row * u.d)
        if found > 0:
            add_row(u)
            rows[0] += 1
        elif found < 0 or not drop:
            return row
    return -1


cdef inline ptrdiff_t block_end(
    const int32_t *codes, ptrdiff_t row, ptrdiff_t end
) noexcept nogil:
    """Where the rows of one unit and one group end; there are no codes without groups."""
    cdef ptrdiff_t i = row + 1
    if codes == NULL:
        return end
    while i < end and codes[i] == codes[row]:
        i += 1
    return i


cdef class UnitAccumulator:
    """Sum of the units' matrices; see the stub, and `tests/oracle/units.py`."""

    cdef unit_sums u
    cdef readonly Py_ssize_t n_columns
    cdef readonly double bound, row_bound, scale
    cdef readonly int bits
    cdef readonly int64_t most_rows, n_units
    cdef readonly Py_ssize_t groups
    cdef readonly tuple centred
    cdef int64_t[::1] units_of  # of each group, and of none

    def __cinit__(self, Py_ssize_t n_columns, double bound, double row_bound, int bits=20,
                  bint trace=False, centred=(), Py_ssize_t groups=0):
        if n_columns < 1:
            raise ValueError(f"n_columns must be at least 1, got {n_columns}")
        if not (isfinite(bound) and 0 < row_bound <= bound):
            raise ValueError("bounds must be positive and finite, and a row's at most the unit's")
        if not 8 <= bits <= 24:
            raise ValueError(f"bits must be between 8 and 24, got {bits}")
        if groups and trace:
            raise ValueError("the norm of a unit over groups is Frobenius'")
        cdef double d = n_columns, room = 3.0 * d * d * max(groups, 1)
        cdef double target = (ldexp(1.0, bits) - sqrt(d) / 2) * (1 - (d + 64) * HALF_ULP)
        if target < ldexp(1.0, bits - 1) or room > ldexp(1.0, 2 * bits - 2):
            raise ValueError(f"{n_columns} columns are too many for {bits} bits; use more bits")
        if not isfinite(target / bound):
            raise ValueError(f"bound {bound} is too small for {bits} bits; rescale the data")
        self.n_columns, self.bound, self.row_bound, self.bits = n_columns, bound, row_bound, bits
        self.u.d, self.u.trace = n_columns, trace
        self.scale = target / bound
        self.u.row_bound, self.u.row_bound_sq = row_bound, row_bound * row_bound
        self.u.row_target = target if row_bound == bound else self.scale * row_bound
        self.u.scale = self.u.row_target / row_bound
        self.u.norm_limit = 2.0**1023 if 2.0**-400 <= row_bound <= 2.0**400 else -1.0
        self.u.whole = ldexp(1.0, 2 * bits)
        self.u.room = 3.0 * d * d
        # Sums of a unit stay below 2^62.
        self.most_rows = <int64_t>(2.0**62 / (self.u.row_target + sqrt(d) / 2 + 1) ** 2)
        self.centred = tuple([int(j) for j in centred])
        self.u.centring = len(self.centred) > 0
        self.groups = groups
        self.units_of = np.zeros(groups + 1, np.int64)
        cdef size_t size = n_columns, n_totals = max(groups, 1)
        self.u.q = <double *>calloc(size, sizeof(double))
        self.u.rest = <double *>calloc(size, sizeof(double))
        self.u.at = <ptrdiff_t *>calloc(size + 1, sizeof(ptrdiff_t))
        self.u.seen = <unsigned char *>calloc(size, 1)
        self.u.centred = <unsigned char *>calloc(size, 1)
        self.u.sums = <int64_t *>calloc(size, sizeof(int64_t))
        self.u.gram = <int64_t *>calloc(size * size, sizeof(int64_t))
        self.u.hi = <int64_t *>calloc(n_totals * size * size, sizeof(int64_t))
        self.u.lo = <uint64_t *>calloc(n_totals * size * size, sizeof(uint64_t))
        if (self.u.q == NULL or self.u.rest == NULL or self.u.at == NULL or self.u.seen == NULL
                or self.u.centred == NULL or self.u.sums == NULL or self.u.gram == NULL
                or self.u.hi == NULL or self.u.lo == NULL):
            raise MemoryError(f"no memory for a second moment of {n_columns} columns")
        for j in self.centred:
            if not 0 <= j < n_columns:
                raise ValueError("centred columns must be among the columns")
            self.u.centred[<Py_ssize_t>j] = 1

    def __init__(self, n_columns, bound, row_bound, bits=20, trace=False, centred=(), groups=0):
        pass

    def __dealloc__(self):
        free(self.u.q)
        free(self.u.rest)
        free(self.u.at)
        free(self.u.seen)
        free(self.u.centred)
        free(self.u.sums)
        free(self.u.gram)
        free(self.u.hi)
        free(self.u.lo)

    def update(self, const double[:, ::1] x, const Py_ssize_t[::1] starts, bint drop=False,
               double[::1] norms=None, const int32_t[::1] codes=None):
        cdef Py_ssize_t k, row, end, last, blocks, n = x.shape[0], units = starts.shape[0], bad = -1
        cdef bint adding = norms is None
        cdef const int32_t *group = NULL
        cdef const double *values = NULL
        cdef int64_t rows
        cdef double norm, square
        if x.shape[1] != self.n_columns:
            raise ValueError(f"x must have shape (n, {self.n_columns})")
        if (units == 0) != (n == 0) or (units > 0 and starts[0] != 0):
            raise ValueError("starts must begin at 0, and there are rows if there are units")
        for k in range(units):
            end = starts[k + 1] if k + 1 < units else n
            if not starts[k] < end <= n:
                raise ValueError("starts must increase")
            if end - starts[k] > self.most_rows:
                raise ValueError(f"a unit has more than {self.most_rows} rows, the most that fit")
        if not adding and norms.shape[0] != units:
            raise ValueError("there is one norm for each unit")
        if (codes is None) != (self.groups == 0) or (self.groups and not adding):
            raise ValueError("there are codes where there are groups, and no norms then")
        if n > 0:
            values = &x[0, 0]
        if codes is not None and n > 0:
            if codes.shape[0] != n:
                raise ValueError("there is one code for each row")
            group = &codes[0]
            for k in range(units):
                end = starts[k + 1] if k + 1 < units else n
                for row in range(starts[k], end):
                    if not -1 <= codes[row] < self.groups or (
                            row > starts[k] and codes[row] < codes[row - 1]):
                        raise ValueError("the codes of a unit are of its groups, in their order")
        with nogil:
            for k in range(units):
                end = starts[k + 1] if k + 1 < units else n
                if group == NULL:
                    bad = take(&self.u, values, starts[k], end, drop, &rows)
                    if bad >= 0:
                        break
                    norm = finish(&self.u, rows, -1.0, 1, 0 if adding else -1)
                    if not adding:
                        norms[k] = sqrt(norm) / self.scale
                    continue
                # Once for the norm of all blocks, and again to add them.
                square, blocks, row = 0.0, 0, starts[k]
                while row < end and group[row] < 0:
                    row += 1
                last = row
                while row < end:
                    bad = take(&self.u, values, row, block_end(group, row, end), drop, &rows)
                    if bad >= 0:
                        break
                    norm = finish(&self.u, rows, -1.0, 1, -1)
                    square += norm * norm
                    blocks += 1
                    row = block_end(group, row, end)
                if bad >= 0:
                    break
                row = last
                while row < end:
                    take(&self.u, values, row, block_end(group, row, end), drop, &rows)
                    finish(&self.u, rows, sqrt(square), blocks, group[row])
                    self.units_of[group[row]] += 1
                    row = block_end(group, row, end)
                if blocks == 0:
                    self.units_of[self.groups] += 1
            if bad < 0:
                self.n_units += units
        return bad

    def counts(self):
        return np.array(self.units_of)

    def merge(self, UnitAccumulator other):
        cdef Py_ssize_t i, size = max(self.groups, 1) * self.n_columns * self.n_columns
        if self._shape() != other._shape():
            raise ValueError("cannot merge accumulators of units of different shape or bounds")
        with nogil:
            for i in range(size):
                self.u.lo[i] += other.u.lo[i]
                self.u.hi[i] += other.u.hi[i] + (self.u.lo[i] < other.u.lo[i])
            for i in range(self.groups + 1):
                self.units_of[i] += other.units_of[i]
            self.n_units += other.n_units

    def _shape(self):
        bounds = self.bound, self.row_bound, self.bits, self.u.trace
        return (self.n_columns, *bounds, self.centred, self.groups)

    def int128(self):
        cdef Py_ssize_t i, j, k, d = self.n_columns, n = max(self.groups, 1)
        hi, lo = np.empty((n, d, d), np.int64), np.empty((n, d, d), np.uint64)
        cdef int64_t[:, :, ::1] high = hi
        cdef uint64_t[:, :, ::1] low = lo
        for k in range(n):
            for i in range(d):
                for j in range(i + 1):
                    high[k, i, j] = high[k, j, i] = self.u.hi[(k * d + i) * d + j]
                    low[k, i, j] = low[k, j, i] = self.u.lo[(k * d + i) * d + j]
        return (hi, lo) if self.groups else (hi[0], lo[0])
