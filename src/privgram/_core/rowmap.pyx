"""Rows mapped into a frame, each image a function of its row's values alone.

`tests/oracle/rowmap.py` is the NumPy twin; the two agree bit for bit.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc

import numpy as np

cnp.import_array()

cdef extern from "_rowmap.h" nogil:
    enum:
        MAP_ROWS
        MAP_COLUMNS
        MAP_FLOAT64
        MAP_FLOAT32
        MAP_INT64
        MAP_INT32
        MAP_ONES

    ctypedef struct map_column:
        const char *x
        ptrdiff_t step
        int kind
        double center, inverse, limit

    void map_rows(const map_column *columns, int scaled, ptrdiff_t n, ptrdiff_t d, double bound,
                  const double *at, ptrdiff_t width, double *v, double *z, double *out)


cdef int kind_of(cnp.ndarray a):
    """Tell how to read an array where it lies; -1 if it must be converted."""
    cdef int kind = cnp.PyArray_TYPE(a)
    if not (cnp.PyArray_ISALIGNED(a) and cnp.PyArray_ISNOTSWAPPED(a)):
        return -1
    if kind == cnp.NPY_FLOAT64:
        return MAP_FLOAT64
    if kind == cnp.NPY_FLOAT32:
        return MAP_FLOAT32
    if cnp.PyArray_ISSIGNED(a) and cnp.PyArray_ISINTEGER(a):
        # By size: NumPy has two types of eight bytes.
        return {8: MAP_INT64, 4: MAP_INT32}.get(cnp.PyArray_ITEMSIZE(a), -1)
    return -1


def transposed(const double[:, :] frame):
    """A^T, (d, width) with width >= d, padded with zeros: the form `apply` takes it in."""
    cdef Py_ssize_t d = frame.shape[0], width = (d + MAP_COLUMNS - 1) // MAP_COLUMNS * MAP_COLUMNS
    if frame.shape[1] != d:
        raise ValueError(f"a frame is square, not of shape ({d}, {frame.shape[1]})")
    out = np.zeros((d, width))
    out[:, :d] = np.asarray(frame).T
    return out


def apply(
    block,                           # IN, (n, d) or a list of columns, floats or signed integers
    double bound,
    const double[:, ::1] frame,      # IN, (d, width), of `transposed`
    double[:, ::1] out,              # OUT, (n, d)
    scaling=None,                    # IN, centers, inverses and limits of d columns
):
    """out[i] = A (min(1, bound / |u|) u), u = block[i], scaled and clamped first if asked to.

    With scaling, the last column may be left out: it is ones times its limit.
    """
    cdef Py_ssize_t d = frame.shape[0], width = frame.shape[1], n = out.shape[0], j
    if not isinstance(block, list) and (block.ndim != 2 or block.shape[0] != n):
        raise ValueError(f"block must have shape ({n}, {d}), as its images")
    cdef list columns = block if isinstance(block, list) else list(block.T)
    if len(columns) != d and not (scaling is not None and len(columns) == d - 1):
        raise ValueError(f"block must have shape (n, {d}), and its images as many rows")
    if width % MAP_COLUMNS or width < d or out.shape[1] != d:
        raise ValueError(f"the frame and the images must have {d} columns, the frame's padded")
    cdef const double[::1] center, inverse, limit
    cdef bint scaled = scaling is not None
    if scaled:
        center, inverse, limit = scaling
        if not center.shape[0] == inverse.shape[0] == limit.shape[0] == d:
            raise ValueError(f"scaling must be three arrays of shape ({d},)")
    if n == 0:
        return
    cdef cnp.ndarray column
    cdef map_column *described = <map_column *>PyMem_Malloc(d * sizeof(map_column))
    cdef double *room = <double *>PyMem_Malloc((d + width) * MAP_ROWS * sizeof(double))
    try:
        if described == NULL or room == NULL:
            raise MemoryError
        for j in range(d):
            described[j].kind = MAP_ONES
            if scaled:
                described[j].center, described[j].inverse = center[j], inverse[j]
                described[j].limit = limit[j]
            if j == len(columns):
                continue
            column = columns[j]
            if kind_of(column) < 0:
                if column.dtype.kind != "f" or cnp.PyArray_ITEMSIZE(column) not in (4, 8):
                    raise TypeError(
                        f"block must hold floats or signed integers, not {column.dtype}"
                    )
                column = columns[j] = column.astype(column.dtype.newbyteorder("="))
            if column.ndim != 1 or column.shape[0] != n:
                raise ValueError(f"columns must have {n} rows, as the images")
            described[j].x, described[j].step = cnp.PyArray_BYTES(column), column.strides[0]
            described[j].kind = kind_of(column)
        with nogil:
            map_rows(described, scaled, n, d, bound, &frame[0, 0], width, room,
                     room + d * MAP_ROWS, &out[0, 0])
    finally:
        PyMem_Free(described)
        PyMem_Free(room)
