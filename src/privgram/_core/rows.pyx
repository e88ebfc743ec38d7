"""Clip, quantise and accumulate: the exact second moment of a stream of rows.

One pass over the rows x of a block, in C (gram_kernel.h), gives integer rows
q = rint(min(1, bound/||x||) S x) and adds q q^T, with sum q_i^2 <= 2^(2 bits)
always.  The plain NumPy twin is `privgram.reference.Accumulator`; the two
agree bit for bit on every instruction set.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint64_t
from privgram._core._gram cimport (
    GRAM_FLOAT32,
    GRAM_FLOAT64,
    GRAM_INT32,
    GRAM_INT64,
    GRAM_MIXED,
    gram,
    gram_add,
    gram_column,
    gram_free,
    gram_get,
    gram_init,
    gram_kernel,
    gram_kernels,
    gram_merge,
    gram_reset,
    gram_table,
    gram_target,
    gram_update,
)

import numpy as np

cnp.import_array()

# Blocks with no unit stride, or not aligned, are copied this much at a time.
cdef enum:
    COPY_BYTES = 1 << 18

cdef const gram_kernel *kernels[3]
cdef int n_kernels = gram_kernels(kernels)
cdef const gram_kernel *selected = kernels[0]


def available():
    """Names of the instruction sets this processor can run, best first."""
    return tuple([kernels[i].name.decode() for i in range(n_kernels)])


def select(str name):
    """Make new accumulators use one instruction set (for tests and benchmarks)."""
    global selected
    for i in range(n_kernels):
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
    """Tell whether `Accumulator.update` takes a block as it is, without a copy by its caller."""
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


cdef class Accumulator:
    """Exact sum of q q^T over clipped, quantised rows; see the stub for the contract."""

    cdef gram g
    cdef gram_column *columns  # room for the table of an update

    def __cinit__(self, Py_ssize_t n_columns, double bound, int bits=20):
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
        if gram_init(&self.g, selected, n_columns, bound, bits) < 0:
            raise MemoryError(f"no memory for a second moment of {n_columns} columns")
        self.columns = <gram_column *>PyMem_Malloc(n_columns * sizeof(gram_column))
        if self.columns == NULL:
            raise MemoryError

    def __init__(self, n_columns, bound, bits=20):
        pass

    def __dealloc__(self):
        gram_free(&self.g)
        PyMem_Free(self.columns)

    @property
    def n_columns(self):
        return self.g.d

    @property
    def bound(self):
        return self.g.bound

    @property
    def bits(self):
        return self.g.bits

    @property
    def scale(self):
        return self.g.scale

    @property
    def n_rows(self):
        return self.g.n_rows

    @property
    def n_dropped(self):
        return self.g.n_dropped

    def simd(self):
        return self.g.kernel.name.decode()

    def update(self, block, bint drop=False, scaling=None):
        cdef gram_table x
        cdef const double[::1] center, inverse, limit
        if scaling is None:
            x.center = x.inverse = x.limit = NULL
        else:
            center, inverse, limit = scaling
            if not center.shape[0] == inverse.shape[0] == limit.shape[0] == self.g.d:
                raise ValueError(f"scaling must be three arrays of shape ({self.g.d},)")
            x.center, x.inverse, x.limit = &center[0], &inverse[0], &limit[0]
        if isinstance(block, list):
            return self._update_columns(block, drop, &x)
        if not isinstance(block, np.ndarray):
            raise TypeError(f"block must be an ndarray, got {type(block).__name__}")
        cdef cnp.ndarray a = block
        x.kind = kind_of(a)
        if x.kind < 0:
            raise TypeError(
                "block must be float32, float64, int32 or int64 in native byte order, "
                f"got {a.dtype}"
            )
        if a.ndim != 2 or not self._is_width(a.shape[1], scaling is not None):
            raise ValueError(f"block must have shape (n, {self.g.d}), got {block.shape}")
        x.width = a.shape[1]

        # The stride of an axis of length one means nothing.
        cdef Py_ssize_t item = cnp.PyArray_ITEMSIZE(a), j, start, step, bad
        cdef bint by_columns = a.strides[0] == item or a.shape[0] == 1
        cdef bint by_rows = a.strides[1] == item or x.width <= 1
        x.n = a.shape[0]
        x.rows = cnp.PyArray_BYTES(a)
        x.row_stride = a.strides[0] if x.n > 1 else x.width * item
        x.columns = NULL
        if cnp.PyArray_ISALIGNED(a) and (by_rows or by_columns):
            if by_columns and (x.width == 1 or not by_rows):
                for j in range(x.width):
                    self.columns[j].x = x.rows + j * a.strides[1]
                    self.columns[j].kind = x.kind
                x.columns = self.columns
            with nogil:
                bad = gram_update(&self.g, &x, drop)
            return bad

        step = max(1, COPY_BYTES // (x.width * item))
        for start in range(0, x.n, step):
            bad = self.update(block[start:start + step].copy(order="C"), drop, scaling)
            if bad >= 0:
                return start + bad
        return -1

    cdef bint _is_width(self, Py_ssize_t width, bint scaled):
        """Tell whether a block has as many columns as are wanted, or all but the constant one."""
        return width == self.g.d or (scaled and 0 < width == self.g.d - 1)

    cdef object _update_columns(self, list block, bint drop, gram_table *x):
        cdef Py_ssize_t j, bad
        cdef cnp.ndarray a, first
        if not readable(block):
            raise TypeError(
                "block must be columns without gaps, of float32, float64, int32 or int64"
            )
        if not self._is_width(len(block), x.center != NULL):
            raise ValueError(f"block must have shape (n, {self.g.d}), got {len(block)} columns")
        for j in range(len(block)):
            a = block[j]
            first = block[0]
            if a.shape[0] != first.shape[0]:
                raise ValueError("block must be columns of equal length")
            self.columns[j].x = cnp.PyArray_BYTES(a)
            self.columns[j].kind = kind_of(a)
            if j == 0:
                x.kind = self.columns[j].kind
            elif self.columns[j].kind != x.kind:
                x.kind = GRAM_MIXED
        x.n = first.shape[0]
        x.width = len(block)
        x.rows = NULL
        x.columns = self.columns
        with nogil:
            bad = gram_update(&self.g, x, drop)
        return bad

    def merge(self, Accumulator other):
        if (self.g.d, self.g.bound, self.g.bits) != (other.g.d, other.g.bound, other.g.bits):
            raise ValueError(
                "cannot merge accumulators of different n_columns, bound or bits: "
                f"{(self.g.d, self.g.bound, self.g.bits)} "
                f"and {(other.g.d, other.g.bound, other.g.bits)}"
            )
        if self.g.kernel == other.g.kernel:
            with nogil:
                gram_merge(&self.g, &other.g)
        else:
            hi, lo = other.limbs()
            self._add(hi, lo, other.g.n_rows, other.g.n_dropped)

    def limbs(self):
        cdef Py_ssize_t d = self.g.d
        hi = np.empty((d, d), np.int64)
        lo = np.empty((d, d), np.uint64)
        cdef int64_t[:, ::1] hi_view = hi
        cdef uint64_t[:, ::1] lo_view = lo
        with nogil:
            gram_get(&self.g, &hi_view[0, 0], &lo_view[0, 0])
        return hi, lo

    @classmethod
    def from_limbs(cls, n_columns, bound, bits, hi, lo, n_rows, n_dropped):
        cdef Accumulator new = cls(n_columns, bound, bits)
        new._add(hi, lo, n_rows, n_dropped)
        return new

    def _add(self, const int64_t[:, ::1] hi, const uint64_t[:, ::1] lo, int64_t n_rows,
             int64_t n_dropped):
        cdef Py_ssize_t d = self.g.d
        if hi.shape[0] != d or hi.shape[1] != d or lo.shape[0] != d or lo.shape[1] != d:
            raise ValueError(f"limbs must have shape ({d}, {d})")
        with nogil:
            gram_add(&self.g, &hi[0, 0], &lo[0, 0])
        self.g.n_rows += n_rows
        self.g.n_dropped += n_dropped

    def reset(self):
        with nogil:
            gram_reset(&self.g)
