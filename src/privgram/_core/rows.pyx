"""Clip, quantise and accumulate: the exact second moment of a stream of rows.

One pass over the rows x of a block, in C (gram_kernel.h), gives integer rows
q = rint(min(1, bound/||x||) S x) and adds q q^T, with sum q_i^2 <= 2^(2 bits)
always.  The plain NumPy twin is in `tests/oracle`; the two agree bit for bit on
every instruction set.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport isfinite
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy
from privgram._core._gram cimport (
    GRAM_FLOAT32,
    GRAM_FLOAT64,
    GRAM_INT32,
    GRAM_INT64,
    GRAM_KERNELS,
    GRAM_MIXED,
    GRAM_SHARERS,
    coded,
    coded_block,
    coded_codes,
    coded_flush,
    coded_free,
    coded_init,
    coded_init_beside,
    coded_merge,
    coded_reset,
    coded_table,
    coded_update,
    gram,
    gram_add_rows,
    gram_add_triangle,
    gram_column,
    gram_get,
    gram_get_triangle,
    gram_kernel,
    gram_kernels,
    gram_merge,
    gram_settle,
    gram_table,
    gram_target,
)

import numpy as np

cnp.import_array()

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


cdef int kind_of(cnp.ndarray a):
    """Tell how the kernels read the items of an array; -1 if they do not."""
    cdef int kind = cnp.PyArray_TYPE(a)
    if not cnp.PyArray_ISNOTSWAPPED(a):
        return -1
    if kind == cnp.NPY_FLOAT64:
        return GRAM_FLOAT64
    if kind == cnp.NPY_FLOAT32:
        return GRAM_FLOAT32
    if cnp.PyArray_ISSIGNED(a) and cnp.PyArray_ISINTEGER(a):
        # By size: NumPy has two types of eight bytes.
        if cnp.PyArray_ITEMSIZE(a) == 8:
            return GRAM_INT64
        if cnp.PyArray_ITEMSIZE(a) == 4:
            return GRAM_INT32
    return -1


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
    if width != d and not (x.center != NULL and width == d - 1):
        shape = f"{width} columns" if isinstance(block, list) else f"{block.shape}"
        raise ValueError(f"block must have shape (n, {d}), got {shape}")
    x.width = width
    x.kind = GRAM_FLOAT64

    if isinstance(block, list):
        for j in range(width):
            a = block[j]
            columns[j].x = cnp.PyArray_BYTES(a)
            columns[j].kind = kind_of(a)
            if j == 0:
                x.kind = columns[0].kind
            elif columns[j].kind != x.kind:
                x.kind = GRAM_MIXED
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


cdef class Accumulator:
    """Exact sum of q q^T over clipped, quantised rows of numbers and of codes; see the stub."""

    cdef coded t
    cdef gram_column *columns  # room for the table of an update
    cdef gram_column *values
    cdef coded_codes *codes
    cdef readonly tuple positions_dense, factors, blocks
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
        places = [(position, e) for e, position in enumerate(self.positions_dense)]
        places += [(block[1], n_dense + b) for b, block in enumerate(self.blocks)]
        self.t.position = _copied(np.array(self.positions_dense, np.intp))
        self.t.order = _copied(np.array([e for _, e in sorted(places)], np.intp))
        self.t.levels = _copied(np.array(self.factors, np.intp))
        self.t.blocks = <coded_block *>calloc(n + 1, sizeof(coded_block))
        self.columns = <gram_column *>PyMem_Malloc((n_dense + 1) * sizeof(gram_column))
        self.values = <gram_column *>PyMem_Malloc((len(values) + 1) * sizeof(gram_column))
        self.codes = <coded_codes *>PyMem_Malloc((len(self.factors) + 1) * sizeof(coded_codes))
        if self.columns == NULL or self.values == NULL or self.codes == NULL:
            raise MemoryError
        if NULL in (self.t.position, self.t.order, self.t.levels, self.t.blocks):
            raise MemoryError
        for i in range(n):
            block = self.blocks[i]
            self.t.blocks[i].factor, self.t.blocks[i].first = block[0], block[1]
            self.t.blocks[i].value, self.t.blocks[i].weight = block[2], block[3]
        cdef int failed
        if sharer is None:
            failed = coded_init(&self.t, selected, bound, bits)
        else:
            failed = coded_init_beside(&self.t, &sharer.t)
        if failed:
            raise MemoryError(f"no memory for a second moment of {d} columns")

    def __init__(self, positions_dense, factors, blocks, bound, bits=20, groups=0, other=False,
                 sharer=None):
        pass

    def __dealloc__(self):
        coded_free(&self.t)
        PyMem_Free(self.columns)
        PyMem_Free(self.values)
        PyMem_Free(self.codes)

    @property
    def layout(self):
        """What it is made of again, and has to be the same of two that are merged."""
        shape = self.positions_dense, self.factors, self.blocks, self.t.g.bound, self.t.g.bits
        return (*shape, self.t.groups, self.t.slots > self.t.groups)

    @property
    def n_columns(self):
        return self.t.d

    @property
    def bound(self):
        return self.t.g.bound

    @property
    def bits(self):
        return self.t.g.bits

    @property
    def scale(self):
        return self.t.g.scale

    @property
    def target(self):
        return self.t.g.target

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
        return self.t.g.kernel.name.decode()

    def update(self, dense, bint drop=False, scaling=None, codes=(), values=(), group=None,
               bint leave_out=False, bint short=False):
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
        with nogil:
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
        return [self._describe_codes(k, *codes[k]) for k in range(len(codes))]

    def _describe_codes(self, Py_ssize_t k, indices, lut):
        cdef cnp.ndarray a
        if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu":
            raise TypeError("codes must be arrays of integers")
        a = indices
        if a.ndim != 1 or not (
            cnp.PyArray_ISALIGNED(a)
            and cnp.PyArray_ISNOTSWAPPED(a)
            and (a.strides[0] == cnp.PyArray_ITEMSIZE(a) or a.shape[0] <= 1)
        ):
            raise TypeError("codes must be one-dimensional, without gaps and in native byte order")
        self.codes[k].x = cnp.PyArray_BYTES(a)
        self.codes[k].size = cnp.PyArray_ITEMSIZE(a)
        self.codes[k].is_signed = cnp.PyArray_ISSIGNED(a)
        self.codes[k].lut = NULL
        if lut is not None:
            a = np.ascontiguousarray(lut, np.int32)
            self.codes[k].lut = <const int32_t *>cnp.PyArray_BYTES(a)
            self.codes[k].n_lut = a.shape[0]
        return a

    def add_rows(self, const int64_t[:, ::1] sums, int64_t n_rows):
        cdef Py_ssize_t d = self.t.d
        if sums.shape[0] != d or sums.shape[1] != d or len(self.blocks):
            raise ValueError(f"sums must have shape ({d}, {d})")
        if not 0 <= n_rows <= self.t.g.flush_rows:
            raise ValueError(f"n_rows must be at most {self.t.g.flush_rows}, got {n_rows}")
        with nogil:
            gram_add_rows(&self.t.g, &sums[0, 0], n_rows)

    def merge(self, Accumulator other):
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
        new = Accumulator(*self.layout)
        new.merge(self)
        return new

    def stored(self):
        return stored(self.positions_dense, self.factors, self.blocks)

    def totals(self):
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
        cdef Py_ssize_t d = self.t.d
        cdef cnp.ndarray hi, lo
        if self.is_plain:
            hi, lo = np.empty((d, d), np.int64), np.empty((d, d), np.uint64)
            gram_get(&self.t.g, <int64_t *>cnp.PyArray_DATA(hi), <uint64_t *>cnp.PyArray_DATA(lo))
            return hi, lo
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
        with nogil:
            coded_reset(&self.t)


def RowAccumulator(Py_ssize_t n_columns, bound, bits=20):
    """One of rows of so many numbers."""
    return Accumulator(range(n_columns), (), (), bound, bits)


cdef const Py_ssize_t *_copied(cnp.ndarray a):
    """Numbers for C to own."""
    cdef Py_ssize_t *copy = <Py_ssize_t *>calloc(a.shape[0] + 1, sizeof(Py_ssize_t))
    if copy != NULL:
        memcpy(copy, cnp.PyArray_DATA(a), a.shape[0] * sizeof(Py_ssize_t))
    return copy
