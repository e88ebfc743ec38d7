"""Scale and clamp columns into a scratch, the kernel's next input, in one pass over each.

`privgram.columns.Columns.scale_array` is the NumPy twin; the two agree bit for bit.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc

import numpy as np

cnp.import_array()

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass

    const fenv_t *FE_DFL_ENV
    int fegetenv(fenv_t *)
    int fesetenv(const fenv_t *)

cdef extern from "_scale.h" nogil:
    ctypedef struct scale_column:
        const char *x
        ptrdiff_t stride
        int kind

    enum:
        SCALE_FLOAT64
        SCALE_FLOAT32
        SCALE_INT64
        SCALE_INT32

    void scale_columns(const scale_column *columns, ptrdiff_t n, ptrdiff_t d,
                       const double *center, const double *inverse, double limit,
                       double *out, ptrdiff_t out_stride)
    void scale_rows(scale_column rows, ptrdiff_t n, ptrdiff_t d, const double *center,
                    const double *inverse, double limit, double *out, ptrdiff_t out_stride)


cdef class DefaultRounding:
    """A context: round to nearest and keep subnormals, whatever others have set in this thread.

    Libraries built with -ffast-math flush subnormals to zero, for all who share the thread.
    """
    cdef fenv_t saved

    def __enter__(self):
        fegetenv(&self.saved)
        fesetenv(FE_DFL_ENV)

    def __exit__(self, *_):
        fesetenv(&self.saved)


cdef int kind_of(cnp.ndarray x):
    """Tell how to read an array in place; -1 if it must be converted."""
    cdef int kind = cnp.PyArray_TYPE(x)
    if not (cnp.PyArray_ISALIGNED(x) and cnp.PyArray_ISNOTSWAPPED(x)):
        return -1
    if kind == cnp.NPY_FLOAT64:
        return SCALE_FLOAT64
    if kind == cnp.NPY_FLOAT32:
        return SCALE_FLOAT32
    if cnp.PyArray_ISSIGNED(x) and cnp.PyArray_ISINTEGER(x):
        # By size: NumPy has two types of eight bytes.
        return {8: SCALE_INT64, 4: SCALE_INT32}.get(cnp.PyArray_ITEMSIZE(x), -1)
    return -1


def columns(
    list parts,                      # IN, d one-dimensional arrays of real numbers
    Py_ssize_t start,                # first row to take
    const double[::1] center,        # IN, (d,)
    const double[::1] inverse,       # IN, (d,)
    double limit,
    double[:, :] out,                # OUT, (n, at least d), unit stride down the columns
):
    """out[i, j] = clamp((parts[j][start + i] - center[j]) * inverse[j], -limit, limit)."""
    cdef Py_ssize_t n = out.shape[0], d = len(parts), j
    cdef cnp.ndarray part
    cdef scale_column *described
    if n == 0 or d == 0:
        return
    described = <scale_column *>PyMem_Malloc(d * sizeof(scale_column))
    if described == NULL:
        raise MemoryError
    cdef list pieces = []  # keeps them alive
    try:
        for j in range(d):
            part = parts[j]
            described[j].kind = kind_of(part)
            described[j].stride = part.strides[0]
            described[j].x = cnp.PyArray_BYTES(part) + start * part.strides[0]
            if described[j].kind < 0:
                part = part[start:start + n].astype(np.float64)
                pieces.append(part)
                described[j].kind = SCALE_FLOAT64
                described[j].stride = sizeof(double)
                described[j].x = cnp.PyArray_BYTES(part)
        with nogil:
            scale_columns(described, n, d, &center[0], &inverse[0], limit,
                          &out[0, 0], out.strides[1] // <Py_ssize_t>sizeof(double))
    finally:
        PyMem_Free(described)


def rows(
    cnp.ndarray block,               # IN, (at least start + n, d), rows of adjacent numbers
    Py_ssize_t start,
    const double[::1] center,        # IN, (d,)
    const double[::1] inverse,       # IN, (d,)
    double limit,
    double[:, :] out,                # OUT, (n, at least d), unit stride along the rows
):
    """out[i, j] = clamp((block[start + i, j] - center[j]) * inverse[j], -limit, limit)."""
    cdef Py_ssize_t n = out.shape[0], d = block.shape[1]
    cdef cnp.ndarray part = block
    cdef scale_column described
    if n == 0 or d == 0:
        return
    described.kind = kind_of(part)
    if described.kind < 0:
        part = block[start:start + n].astype(np.float64, order="C")
        described.kind = SCALE_FLOAT64
        start = 0
    described.stride = part.strides[0]
    described.x = cnp.PyArray_BYTES(part) + start * part.strides[0]
    with nogil:
        scale_rows(described, n, d, &center[0], &inverse[0], limit,
                   &out[0, 0], out.strides[0] // <Py_ssize_t>sizeof(double))
