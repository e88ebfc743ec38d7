"""Clip, quantise and accumulate: the exact second moment of a stream of rows.

One pass over the rows x of a block, in C (gram_kernel.h), gives integer rows
q = rint(min(1, bound/||x||) S x) and adds q q^T, with sum q_i^2 <= 2^(2 bits)
always.  The plain NumPy twin is in `tests/oracle`; the two agree bit for bit on
every instruction set.
"""
cimport cython
cimport numpy as cnp
from libc.math cimport isfinite, ldexp, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memset

from privgram._core._lanes cimport (
    LANE_FLOAT64,
    LANE_MIXED,
    coded_codes,
    describe_codes,
    kind_of,
    zeros,
)

import numpy as np

from privgram._core.rowmap import DefaultRounding

cnp.import_array()

cdef extern from "gram.h" nogil:
    ctypedef struct gram_column:
        const char *x
        int kind

    ctypedef struct gram_table:
        Py_ssize_t n
        Py_ssize_t width
        int kind
        const char *rows
        Py_ssize_t row_stride
        const gram_column *columns
        const double *center
        const double *inverse
        const double *limit

    ctypedef struct row_rule:
        double bound
        double target
        double scale

    ctypedef struct gram_kernel:
        const char *name
        int (*is_permitted)()

    ctypedef struct gram:
        const gram_kernel *kernel
        Py_ssize_t d
        int bits
        row_rule rule
        int64_t n_rows
        int64_t n_dropped

    enum:
        GRAM_KERNELS
        GRAM_SHARERS

    int gram_kernels(const gram_kernel **out, int *with_plain)
    double gram_target(Py_ssize_t d, int bits)
    void gram_set_rule(row_rule *, double bound, double target)
    int gram_quantise_row(const row_rule *, const double *x, Py_ssize_t d, double *q)
    void gram_settle(gram *)
    void gram_merge(gram *, gram *)
    void gram_get_triangle(gram *, int64_t *hi, uint64_t *lo)
    void gram_add_triangle(gram *, const int64_t *hi, const uint64_t *lo)


cdef extern from "coded.h" nogil:
    ctypedef struct coded_table:
        int is_short
        gram_table dense
        const coded_codes *codes
        const gram_column *values
        const double *center
        const double *inverse
        const double *limit

    ctypedef struct coded_block:
        Py_ssize_t factor
        Py_ssize_t first
        Py_ssize_t value
        double weight

    ctypedef struct coded:
        gram g
        Py_ssize_t d
        Py_ssize_t n_factors
        Py_ssize_t n_blocks
        Py_ssize_t n_values
        const Py_ssize_t *position
        const Py_ssize_t *order
        const Py_ssize_t *levels
        coded_block *blocks
        Py_ssize_t groups
        Py_ssize_t slots
        int64_t *n_rows
        int64_t *n_dropped
        Py_ssize_t size
        int64_t *hi
        uint64_t *lo

    int coded_init(coded *, const gram_kernel *, double bound, int bits)
    int coded_init_beside(coded *, coded *)
    void coded_free(coded *)
    void coded_reset(coded *)
    void coded_flush(coded *)
    void coded_merge(coded *, coded *)
    Py_ssize_t coded_update(coded *, const coded_table *, int drop, int leave_out)

# Blocks with no unit stride, or not aligned, are copied this much at a time.
cdef enum:
    COPY_BYTES = 1 << 18

MOST_SHARERS = GRAM_SHARERS

cdef const gram_kernel *kernels[GRAM_KERNELS]
cdef int n_all
cdef int n_kernels = gram_kernels(kernels, &n_all)
cdef const gram_kernel *selected = kernels[0]


def available():
    """Names of the instruction sets this processor can run, best first.

    The system is asked whether it permits those that need its leave.
    """
    return tuple([
        kernels[i].name.decode() for i in range(n_kernels)
        if kernels[i].is_permitted == NULL or kernels[i].is_permitted()
    ])


def emulated():
    """Names of kernels of digits whose tiles are plain C: for tests, on machines without tiles."""
    return tuple([kernels[i].name.decode() for i in range(n_kernels, n_all)])


def select(str name):
    """Make new accumulators use one of these (for tests and benchmarks)."""
    global selected
    for i in range(n_all):
        if kernels[i].name.decode() == name:
            selected = kernels[i]
            return
    raise ValueError(f"no kernel {name!r}; available: {', '.join(available())}")


def readable(block):
    """Tell whether `RowAccumulator.update` takes a block as it is, without a copy by its caller."""
    cdef cnp.ndarray a
    if isinstance(block, list):
        return all([is_column(column) for column in block])
    a = block
    return kind_of(a) >= 0


def is_column(column):
    """Tell whether an array is a column that is read in place: of a kernel's type, without gaps."""
    if not isinstance(column, np.ndarray):
        return False
    cdef cnp.ndarray a = column
    return (
        kind_of(a) >= 0
        and cnp.PyArray_ISALIGNED(a)
        and a.ndim == 1
        and (a.strides[0] == cnp.PyArray_ITEMSIZE(a) or a.shape[0] <= 1)
    )


cdef bint describe(block, Py_ssize_t d, gram_table *x, gram_column *columns) except -1:
    """Describe a block of d columns; or tell by False that it must be copied to be read."""
    cdef cnp.ndarray a
    cdef Py_ssize_t item, j, width
    cdef bint by_columns, by_rows
    x.rows = NULL
    x.columns = columns
    if isinstance(block, list):
        if not readable(block):
            raise TypeError(
                "block must be columns without gaps, of float32, float64, int32 or int64"
            )
        if len({column.shape for column in block}) > 1:
            raise ValueError("block must be columns of equal length")
        width = len(block)
        x.n = len(block[0]) if width else 0
    else:
        if not isinstance(block, np.ndarray):
            raise TypeError(f"block must be an ndarray, got {type(block).__name__}")
        a = block
        if kind_of(a) < 0:
            raise TypeError(
                "block must be float32, float64, int32 or int64 in native byte order, "
                f"got {a.dtype}"
            )
        width = a.shape[1] if a.ndim == 2 else -1
        x.n = a.shape[0] if a.ndim > 0 else 0
    # Where values are scaled, the last column may be one at its limit.
    if width < 0 or width != d and not (x.center != NULL and width == d - 1):
        shape = f"{width} columns" if isinstance(block, list) else f"{block.shape}"
        raise ValueError(f"block must have shape (n, {d}), got {shape}")
    x.width = width
    x.kind = LANE_FLOAT64

    if isinstance(block, list):
        for j in range(width):
            a = block[j]
            columns[j].x = cnp.PyArray_BYTES(a)
            columns[j].kind = kind_of(a)
            if j == 0:
                x.kind = columns[0].kind
            elif columns[j].kind != x.kind:
                x.kind = LANE_MIXED
        return True

    # The stride of an axis of length one means nothing.
    item = cnp.PyArray_ITEMSIZE(a)
    by_columns = a.strides[0] == item or x.n == 1
    by_rows = a.strides[1] == item or width <= 1
    x.kind = kind_of(a)
    x.rows = cnp.PyArray_BYTES(a)
    x.row_stride = a.strides[0] if x.n > 1 else width * item
    if by_columns and (width == 1 or not by_rows):
        for j in range(width):
            columns[j].x = x.rows + j * a.strides[1]
            columns[j].kind = x.kind
    else:
        x.columns = NULL
    return cnp.PyArray_ISALIGNED(a) and (by_rows or by_columns)


def _scaling(scaling, Py_ssize_t d):
    """Three arrays of d numbers each."""
    arrays = [np.ascontiguousarray(array, np.float64) for array in scaling]
    if [array.shape for array in arrays] != 3 * [(d,)]:
        raise ValueError(f"scaling must be three arrays of shape ({d},)")
    return arrays


cdef void *room(list held, values, kind) except NULL:
    """Where numbers lie that Python holds."""
    cdef cnp.ndarray a = np.array(values, kind)
    held.append(a)
    return cnp.PyArray_DATA(a)


cdef int _check_parameters(Py_ssize_t n_columns, double bound, int bits) except -1:
    if n_columns < 1:
        raise ValueError(f"n_columns must be at least 1, got {n_columns}")
    if not (isfinite(bound) and bound > 0):
        raise ValueError(f"bound must be a positive finite number, got {bound}")
    if not 8 <= bits <= 24:
        raise ValueError(f"bits must be between 8 and 24, got {bits}")
    cdef double target = gram_target(n_columns, bits)
    if target < 2.0 ** (bits - 1):
        raise ValueError(f"{n_columns} columns are too many for {bits} bits; use more bits")
    if not isfinite(target / bound):
        raise ValueError(f"bound {bound} is too small for {bits} bits; rescale the data")
    return 0


def _restored(*parts):
    """By a name of its own, as pickles need."""
    return Accumulator.from_totals(*parts)


cdef tuple _triangle_of(gram *g):
    """The integers of the lower triangle, row by row."""
    cdef Py_ssize_t size = g.d * (g.d + 1) // 2
    cdef cnp.ndarray hi = np.empty(size, np.int64), lo = np.empty(size, np.uint64)
    cdef int64_t *high = <int64_t *>cnp.PyArray_DATA(hi)
    cdef uint64_t *low = <uint64_t *>cnp.PyArray_DATA(lo)
    with nogil:
        gram_get_triangle(g, high, low)
    return hi, lo


def stored(positions_dense, factors, blocks):
    """List the entries of the lower triangle that can be other than zero, as they are kept.

    Those of two dense columns first, row by row; then, block by block, those of its levels with
    the dense columns, and with each block up to itself: all levels with all of another
    factor's, or each with the same level of the same factor. Row and column in the full matrix,
    i >= j, int64.
    """
    dense = np.asarray(positions_dense, np.int64).reshape(-1)
    one, two = np.tril_indices(len(dense))
    rows, columns = [dense[one]], [dense[two]]
    ranges = [first + np.arange(factors[factor]) for factor, first, _, _ in blocks]
    for b, levels in enumerate(ranges):
        rows.append(np.repeat(levels, len(dense)))
        columns.append(np.tile(dense, len(levels)))
        for c in range(b + 1):
            if blocks[c][0] == blocks[b][0]:
                rows.append(levels)
                columns.append(ranges[c])
            else:
                rows.append(np.repeat(levels, len(ranges[c])))
                columns.append(np.tile(ranges[c], len(levels)))
    i, j = np.concatenate(rows), np.concatenate(columns)
    return np.maximum(i, j), np.minimum(i, j)


def check_layout(positions_dense, factors, blocks):
    """Check a layout of dense columns and blocks, and count the columns of the full row."""
    if len(positions_dense) and not len(factors) + len(blocks):
        if tuple(positions_dense) == tuple(range(len(positions_dense))):
            return len(positions_dense)
    if not all(1 <= levels < 2**31 for levels in factors):
        raise ValueError("factors must be numbers of levels, each at least 1")
    values = [value for _, _, value, _ in blocks if value >= 0]
    if sorted(set(values)) != list(range(len(set(values)))):
        raise ValueError("blocks must use the values 0, 1, ..., or -1 for none")
    if not all(0 <= factor < len(factors) for factor, _, _, _ in blocks):
        raise ValueError(f"blocks must be of factors 0 to {len(factors) - 1}")
    if not all(isfinite(weight) and weight > 0 for _, _, _, weight in blocks):
        raise ValueError("weights of blocks must be positive and finite")
    parts = sorted(
        [(int(position), 1) for position in positions_dense]
        + [(first, factors[factor]) for factor, first, _, _ in blocks]
    )
    d = 0
    for first, width in parts:
        if first != d:
            raise ValueError("the columns and blocks must fill the row, each position once")
        d += width
    if d < 1:
        raise ValueError("n_columns must be at least 1, got 0")
    return d


def check_groups(groups, other, factors):
    """Check a number of groups, beside factors of so many levels."""
    if groups < 0 or (other and not groups):
        raise ValueError(f"groups must be at least 1, or 0 for none, not {groups}")
    if (groups + 2) * (max(factors, default=1) + 1) >= 2**31:
        raise ValueError("there are too many groups for codes of 32 bits")


@cython.no_gc  # what is freed points to what it holds
cdef class Accumulator:
    """Exact sum of q q^T over clipped, quantised rows of numbers and of codes, perhaps by group.

    A row has its numbers at `positions_dense`, and an entry in each of `blocks`, (factor, first,
    value, weight): at the column of its level of a factor, of which the block's first is at
    `first`, the number of that `value`, or the weight where it is -1. `factors` are numbers of
    levels. With `groups` there are as many sums, and one more with `other`, of all other groups. A
    `sharer` is one to whose sums this adds: see `beside`.
    """

    cdef coded t
    cdef list held  # arrays that are pointed to
    cdef gram_column *columns  # room for the table of an update
    cdef gram_column *values
    cdef coded_codes *codes
    cdef readonly tuple positions_dense, factors, blocks
    cdef readonly Py_ssize_t n_columns
    cdef readonly double bound, scale, target
    cdef readonly int bits
    cdef bint is_plain  # rows of numbers alone, in their order

    def __cinit__(self, positions_dense, factors, blocks, double bound, int bits=20,
                  Py_ssize_t groups=0, bint other=False, Accumulator sharer=None):
        self.positions_dense = tuple([int(position) for position in positions_dense])
        self.factors = tuple([int(levels) for levels in factors])
        self.blocks = tuple([(int(f), int(i), int(v), float(w)) for f, i, v, w in blocks])
        cdef Py_ssize_t d = check_layout(self.positions_dense, self.factors, self.blocks)
        _check_parameters(d, bound, bits)
        cdef Py_ssize_t n_dense = len(self.positions_dense), n = len(self.blocks), i
        self.is_plain = not n + groups and self.positions_dense == tuple(range(d))
        if n + groups and not 2.0**-400 <= bound <= 2.0**400:
            raise ValueError(f"bound must be between 2**-400 and 2**400, got {bound}")
        check_groups(groups, other, self.factors)
        self.t.groups, self.t.slots = groups, groups + other
        values = {value for _, _, value, _ in self.blocks if value >= 0}
        self.t.d, self.t.g.d = d, n_dense
        self.t.n_factors, self.t.n_blocks = len(self.factors), n
        self.t.n_values = len(values)
        places = np.array([*self.positions_dense, *[block[1] for block in self.blocks]], np.intp)
        self.held = []
        self.t.position = <Py_ssize_t *>room(self.held, places, np.intp)
        self.t.order = <Py_ssize_t *>room(self.held, places.argsort(), np.intp)
        self.t.levels = <Py_ssize_t *>room(self.held, self.factors, np.intp)
        self.t.blocks = <coded_block *>zeros(
            self.held, n * sizeof(coded_block) + (n_dense + len(values)) * sizeof(gram_column)
            + (len(self.factors) + 1) * sizeof(coded_codes)
        )
        self.columns = <gram_column *>(self.t.blocks + n)
        self.values = self.columns + n_dense
        self.codes = <coded_codes *>(self.values + <Py_ssize_t>len(values))
        for i in range(n):
            block = self.blocks[i]
            self.t.blocks[i].factor, self.t.blocks[i].first = block[0], block[1]
            self.t.blocks[i].value, self.t.blocks[i].weight = block[2], block[3]
        cdef int failed
        with DefaultRounding():
            if sharer is None:
                failed = coded_init(&self.t, selected, bound, bits)
            else:
                failed = coded_init_beside(&self.t, &sharer.t)
        if failed:
            raise MemoryError(f"no memory for a second moment of {d} columns")
        self.n_columns, self.bits, self.bound = d, bits, bound
        self.scale, self.target = self.t.g.rule.scale, self.t.g.rule.target

    def __dealloc__(self):
        coded_free(&self.t)

    @property
    def layout(self):
        """What it is made of again, and has to be the same of two that are merged."""
        shape = self.positions_dense, self.factors, self.blocks, self.bound, self.bits
        return (*shape, self.t.groups, self.t.slots > self.t.groups)

    @property
    def n_rows(self):
        return self.t.g.n_rows

    @property
    def n_dropped(self):
        return self.t.g.n_dropped

    def counts(self):
        """Rows that count and those left out, of each slot; last of no slot, or of all."""
        cdef Py_ssize_t n = self.t.slots + 1
        found = np.array([[self.t.g.n_rows], [self.t.g.n_dropped]], np.int64)
        if n == 1:
            return found
        found = np.empty((2, n), np.int64)
        cdef int64_t[:, ::1] view = found
        memcpy(&view[0, 0], self.t.n_rows, n * sizeof(int64_t))
        memcpy(&view[1, 0], self.t.n_dropped, n * sizeof(int64_t))
        return found

    def simd(self):
        """Name the instruction set whose kernel this has."""
        return self.t.g.kernel.name.decode()

    def update(self, dense, bint drop=False, scaling=None, codes=(), values=(), group=None,
               bint leave_out=False, bint short=False):
        """Accumulate rows; the position of the first that may not be used, or -1.

        Their numbers, `dense` and then `values`, are scaled and clamped by `scaling`; of `dense`
        the last column may be left out then, which is at its limit. `codes` of factors, and of the
        `group`, are pairs of numbers and of what these stand for, or None. A row with NaN or of no
        level is left out with `drop`, and one of no group with `leave_out`. `short` says that all
        rows were clipped before. After a row that may not be used the sums are undefined.
        """
        cdef coded_table x
        cdef Py_ssize_t n_dense = self.t.g.d, n_values = self.t.n_values, bad, start, step
        cdef const double[::1] center, inverse, limit
        x.dense.center = x.dense.inverse = x.dense.limit = NULL
        x.center = x.inverse = x.limit = NULL
        x.is_short = short
        if scaling is None and len(self.blocks):
            raise ValueError("columns of levels must be scaled")
        if scaling is not None:
            center, inverse, limit = _scaling(scaling, n_dense + n_values)
            if len(self.blocks):
                largest = np.square(scaling[2]).sum() + sum([b[3] ** 2 for b in self.blocks])
                if not largest < 2.0**1000:
                    raise ValueError("limits of scaling must be finite, and their squares too")
            # One more number than there are: a pointer to none of them is still one.
            x.dense.center, x.dense.inverse, x.dense.limit = &center[0], &inverse[0], &limit[0]
            x.center, x.inverse = x.dense.center + n_dense, x.dense.inverse + n_dense
            x.limit = x.dense.limit + n_dense
        if (group is None) != (self.t.slots == 0):
            raise ValueError("codes of groups must be given where there are groups, and only there")
        if group is not None:
            codes = [*codes, group]
        if not describe(dense, n_dense, &x.dense, self.columns):
            if self.is_plain:  # copied some at a time
                step = max(1, COPY_BYTES // (dense.shape[1] * dense.itemsize))
                for start in range(0, dense.shape[0], step):
                    some = dense[start:start + step].copy(order="C")
                    bad = Accumulator.update(self, some, drop, scaling)
                    if bad >= 0:
                        return start + bad
                return -1
            dense = dense.copy(order="C")
            describe(dense, n_dense, &x.dense, self.columns)
        keep = None
        if not self.is_plain or len(codes) or len(values):
            keep = self._describe_levels(&x, dense, codes, values, group is not None)
        with DefaultRounding(), nogil:
            bad = coded_update(&self.t, &x, drop, leave_out)
        del keep
        return bad

    cdef list _describe_levels(self, coded_table *x, dense, codes, values, bint grouped):
        """Point to codes and values, and return what must stay meanwhile."""
        cdef Py_ssize_t k
        cdef cnp.ndarray a
        if len(codes) != len(self.factors) + grouped or len(values) != self.t.n_values:
            raise ValueError(
                f"there must be {len(self.factors)} codes and {self.t.n_values} values, "
                f"got {len(codes) - grouped} and {len(values)}"
            )
        lengths = {len(indices) for indices, _ in codes} | {len(value) for value in values}
        if x.dense.width > 0 or isinstance(dense, np.ndarray):
            lengths.add(x.dense.n)
        if len(lengths) != 1:
            raise ValueError("dense columns, codes and values must be of equal length")
        x.dense.n = lengths.pop()
        if not readable(list(values)):
            raise TypeError(
                "values must be columns without gaps, of float32, float64, int32 or int64"
            )
        for k in range(len(values)):
            a = values[k]
            self.values[k].x = cnp.PyArray_BYTES(a)
            self.values[k].kind = kind_of(a)
        x.codes, x.values = self.codes, self.values
        return [
            describe_codes(codes[k][0], codes[k][1], &self.codes[k]) for k in range(len(codes))
        ]

    def merge(self, Accumulator other):
        """Add the rows of another of the same layout, by whatever kernel."""
        if self.layout != other.layout:
            raise ValueError(
                "cannot merge accumulators of different layout, bound, bits or groups"
            )
        with nogil:
            coded_merge(&self.t, &other.t)
        if self.t.g.kernel == other.t.g.kernel:
            with nogil:
                gram_merge(&self.t.g, &other.t.g)
        else:
            self._add_dense(*_triangle_of(&other.t.g), Accumulator.counts(other))

    def beside(self):
        """Make one, of more than 16 numbers, for another thread, which adds to the same sums.

        This one is at rest when the first is made. Until all are merged the sums are of all
        together, and numbers of rows of each.
        """
        return Accumulator(*self.layout, self)

    def settle(self):
        """Multiply the rows that wait to be many."""
        with nogil:
            gram_settle(&self.t.g)

    def copy(self):
        """Make another with the same rows."""
        new = Accumulator(*self.layout)
        new.merge(self)
        return new

    def stored(self):
        """Row and column of each of the totals."""
        return stored(self.positions_dense, self.factors, self.blocks)

    def totals(self):
        """Give what is kept as two words, (n,) or (slots, n), in the order of `stored`."""
        cdef Py_ssize_t n = self.t.size
        if n:
            coded_flush(&self.t)
        hi, lo = _triangle_of(&self.t.g)
        if not n:
            return hi, lo
        rest = np.empty(n, np.int64), np.empty(n, np.uint64)
        cdef cnp.ndarray high = rest[0], low = rest[1]
        memcpy(cnp.PyArray_DATA(high), self.t.hi, n * sizeof(int64_t))
        memcpy(cnp.PyArray_DATA(low), self.t.lo, n * sizeof(uint64_t))
        if self.t.slots:
            return high.reshape(self.t.slots, -1), low.reshape(self.t.slots, -1)
        return np.concatenate([hi, high]), np.concatenate([lo, low])

    @classmethod
    def from_totals(cls, layout, hi, lo, counts):
        """Make one of a layout, with totals and counts as these give them."""
        cdef Accumulator new = cls(*layout)
        cdef Py_ssize_t size = 0
        cdef cnp.ndarray high, low
        cdef const int64_t[:, ::1] view = np.ascontiguousarray(counts, np.int64)
        hi, lo = np.ascontiguousarray(hi, np.int64), np.ascontiguousarray(lo, np.uint64)
        counts = np.asarray(counts)
        if new.t.slots:
            expected = new.t.slots, new.t.size // new.t.slots
        else:
            size = new.t.g.d * (new.t.g.d + 1) // 2
            expected = (size + new.t.size,)
        if not (hi.shape == lo.shape == expected and counts.shape == (2, new.t.slots + 1)):
            raise ValueError(f"totals must have shape {expected}")
        high, low = hi.reshape(-1)[size:], lo.reshape(-1)[size:]
        memcpy(new.t.hi, cnp.PyArray_DATA(high), new.t.size * sizeof(int64_t))
        memcpy(new.t.lo, cnp.PyArray_DATA(low), new.t.size * sizeof(uint64_t))
        if new.t.slots:
            memcpy(new.t.n_rows, &view[0, 0], view.shape[1] * sizeof(int64_t))
            memcpy(new.t.n_dropped, &view[1, 0], view.shape[1] * sizeof(int64_t))
            new.t.g.n_rows, new.t.g.n_dropped = np.sum(counts, axis=1)
        else:
            new._add_dense(hi[:size], lo[:size], counts)
        return new

    def __reduce__(self):
        return _restored, (self.layout, *self.totals(), Accumulator.counts(self))

    def int128(self):
        """Give the sums as two words (d, d), or (slots, d, d)."""
        i, j = self.stored()
        full = []
        for values in self.totals():
            square = np.zeros((*values.shape[:values.ndim - 1], self.t.d, self.t.d), values.dtype)
            square[..., i, j] = square[..., j, i] = values
            full.append(square)
        return tuple(full)

    def _add_dense(self, cnp.ndarray hi, cnp.ndarray lo, counts):
        gram_add_triangle(&self.t.g, <const int64_t *>cnp.PyArray_DATA(hi),
                          <const uint64_t *>cnp.PyArray_DATA(lo))
        self.t.g.n_rows += np.sum(counts[0])
        self.t.g.n_dropped += np.sum(counts[1])

    def reset(self):
        """Forget all rows."""
        with nogil:
            coded_reset(&self.t)


def RowAccumulator(Py_ssize_t n_columns, bound, bits=20):
    """One of rows of so many numbers."""
    return Accumulator(range(n_columns), (), (), bound, bits)


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
    row_rule rule       # of rows; its scale is S, but for rounding
    double whole        # W
    double room         # what rounding adds to the norm of one block
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
        found = gram_quantise_row(&u.rule, x + row * u.d, u.d, u.q)
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
    """The rows of one unit at a time: their integer Gram matrix, scaled into a ball, and added.

    A row x becomes q = rint(min(1, row_bound/||x||) S x), as in `rows` but for the scale, which is
    the unit's: S = T / bound.  M = sum q q^T over the rows of a unit is exact, so it does not
    depend on their order.  It is added as it is where its norm is at most W = 2^(2 bits), and else
    as rint(c M) + p I on the p columns it has.  The latter is positive semidefinite and of norm at
    most W: proofs in docs/theory/units.md.  Of a table of groups M is block-diagonal, a block for
    each group in which the unit has rows, with one norm and one c.  The plain twin is
    `tests/oracle/units.py`.
    """

    cdef unit_sums u
    cdef readonly Py_ssize_t n_columns
    cdef readonly double bound, row_bound, scale
    cdef readonly int bits
    cdef readonly int64_t most_rows, n_units
    cdef readonly Py_ssize_t groups
    cdef readonly tuple centred
    cdef int64_t[::1] units_of  # of each group, and of none
    cdef list held  # arrays that are pointed to

    def __cinit__(self, Py_ssize_t n_columns, double bound, double row_bound, int bits=20,
                  bint trace=False, centred=(), Py_ssize_t groups=0):
        if not (isfinite(bound) and 0 < row_bound <= bound):
            raise ValueError("bounds must be positive and finite, and a row's at most the unit's")
        _check_parameters(n_columns, bound, bits)
        if groups and trace:
            raise ValueError("the norm of a unit over groups is Frobenius'")
        cdef double d = n_columns, target = gram_target(n_columns, bits)
        if 3.0 * d * d * max(groups, 1) > ldexp(1.0, 2 * bits - 2):
            raise ValueError(f"{n_columns} columns are too many for {bits} bits; use more bits")
        self.n_columns, self.bound, self.row_bound, self.bits = n_columns, bound, row_bound, bits
        self.u.d, self.u.trace = n_columns, trace
        self.scale = target / bound
        cdef double row_target = target if row_bound == bound else self.scale * row_bound
        gram_set_rule(&self.u.rule, row_bound, row_target)
        self.u.whole = ldexp(1.0, 2 * bits)
        self.u.room = 3.0 * d * d
        # Sums of a unit stay below 2^62.
        self.most_rows = <int64_t>(2.0**62 / (row_target + sqrt(d) / 2 + 1) ** 2)
        self.centred = tuple([int(j) for j in centred])
        self.u.centring = len(self.centred) > 0
        self.groups = groups
        self.units_of = np.zeros(groups + 1, np.int64)
        cdef size_t size = n_columns, n_totals = max(groups, 1)
        self.held = []
        self.u.q = <double *>zeros(self.held, size * sizeof(double))
        self.u.rest = <double *>zeros(self.held, size * sizeof(double))
        self.u.at = <ptrdiff_t *>zeros(self.held, (size + 1) * sizeof(ptrdiff_t))
        self.u.seen = <unsigned char *>zeros(self.held, size)
        self.u.centred = <unsigned char *>zeros(self.held, size)
        self.u.sums = <int64_t *>zeros(self.held, size * sizeof(int64_t))
        self.u.gram = <int64_t *>zeros(self.held, size * size * sizeof(int64_t))
        self.u.hi = <int64_t *>zeros(self.held, n_totals * size * size * sizeof(int64_t))
        self.u.lo = <uint64_t *>zeros(self.held, n_totals * size * size * sizeof(uint64_t))
        for j in self.centred:
            if not 0 <= j < n_columns:
                raise ValueError("centred columns must be among the columns")
            self.u.centred[<Py_ssize_t>j] = 1

    def update(self, const double[:, ::1] x, const Py_ssize_t[::1] starts, bint drop=False,
               double[::1] norms=None, const int32_t[::1] codes=None):
        """Accumulate units, whose rows begin at `starts`; the first row that is no good, or -1.

        Rows with NaN are left out with `drop`. Where `norms` are given they become those of the
        units, of which nothing is added. `codes` are of each row's group, -1 of none, in order
        within a unit. After a row that is no good the sums are undefined.
        """
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
        """Count the units of each group, and those of none."""
        return np.array(self.units_of)

    def merge(self, UnitAccumulator other):
        """Add the units of another."""
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
        """Give the sums as two words (d, d), or (groups, d, d)."""
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
