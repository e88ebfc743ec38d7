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
    gram,
    gram_add,
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


cdef bint is_real(cnp.ndarray a):
    """Tell whether the items are of a type the kernels read."""
    return cnp.PyArray_TYPE(a) in (cnp.NPY_FLOAT64, cnp.NPY_FLOAT32) and cnp.PyArray_ISNOTSWAPPED(a)


def in_place(list columns):
    """Tell whether `Accumulator.update` takes columns as they are: alike, and without gaps."""
    cdef cnp.ndarray a, first
    for column in columns:
        if not isinstance(column, np.ndarray):
            return False
        a = column
        first = columns[0]
        if not (
            is_real(a)
            and cnp.PyArray_TYPE(a) == cnp.PyArray_TYPE(first)
            and cnp.PyArray_ISALIGNED(a)
            and a.ndim == 1
            and a.shape[0] == first.shape[0]
            and (a.strides[0] == cnp.PyArray_ITEMSIZE(a) or a.shape[0] == 1)
        ):
            return False
    return True


cdef class Accumulator:
    """Exact sum of q q^T over clipped, quantised rows; see the stub for the contract."""

    cdef gram g
    cdef const char **columns  # room for the table of an update

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
        self.columns = <const char **>PyMem_Malloc(n_columns * sizeof(char *))
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

    def update(self, block, bint drop=False):
        if isinstance(block, list):
            return self._update_columns(block, drop)
        if not isinstance(block, np.ndarray):
            raise TypeError(f"block must be an ndarray, got {type(block).__name__}")
        cdef cnp.ndarray a = block
        if not is_real(a):
            raise TypeError(f"block must be float32 or float64 in native byte order, got {a.dtype}")
        if a.ndim != 2 or a.shape[1] != self.g.d:
            raise ValueError(f"block must have shape (n, {self.g.d}), got {block.shape}")

        # The stride of an axis of length one means nothing.
        cdef Py_ssize_t item = cnp.PyArray_ITEMSIZE(a), d = self.g.d, j, start, step, bad
        cdef bint by_columns = a.strides[0] == item or a.shape[0] == 1
        cdef bint by_rows = a.strides[1] == item or d == 1
        cdef gram_table x
        x.n = a.shape[0]
        x.is_float32 = cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT32
        x.rows = cnp.PyArray_BYTES(a)
        x.row_stride = a.strides[0] if x.n > 1 else d * item
        x.columns = NULL
        if cnp.PyArray_ISALIGNED(a) and (by_rows or by_columns):
            if by_columns and (d == 1 or not by_rows):
                for j in range(d):
                    self.columns[j] = x.rows + j * a.strides[1]
                x.columns = self.columns
            with nogil:
                bad = gram_update(&self.g, &x, drop)
            return bad

        step = max(1, COPY_BYTES // (d * item))
        for start in range(0, x.n, step):
            bad = self.update(block[start:start + step].copy(order="C"), drop)
            if bad >= 0:
                return start + bad
        return -1

    def _update_columns(self, list block, bint drop):
        cdef Py_ssize_t j, bad
        cdef cnp.ndarray a
        cdef gram_table x
        if not in_place(block):
            raise TypeError("block must be columns without gaps, all float32 or all float64")
        if len(block) != self.g.d:
            raise ValueError(f"block must have shape (n, {self.g.d}), got {len(block)} columns")
        for j in range(self.g.d):
            a = block[j]
            self.columns[j] = cnp.PyArray_BYTES(a)
        x.n = a.shape[0]
        x.is_float32 = cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT32
        x.rows = NULL
        x.columns = self.columns
        with nogil:
            bad = gram_update(&self.g, &x, drop)
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
