"""Rows mapped into a frame, each image a function of its row's values alone.

`tests/oracle/rowmap.py` is the NumPy twin; the two agree bit for bit.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t

import numpy as np

cnp.import_array()

cdef extern from "_rowmap.h" nogil:
    enum:
        MAP_ROWS
        MAP_COLUMNS
        MAP_CODES
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

    ctypedef struct coded_codes:
        const char *x
        int size
        int is_signed
        const int32_t *lut
        int64_t n_lut

    ctypedef struct map_block:
        coded_codes codes
        int32_t levels
        ptrdiff_t first

    void map_rows(const map_column *columns, int scaled, ptrdiff_t n, ptrdiff_t d,
                  const map_block *blocks, ptrdiff_t n_blocks, double bound, const double *at,
                  ptrdiff_t width, ptrdiff_t size, double *v, ptrdiff_t *place, int32_t *codes,
                  ptrdiff_t step, double *out)


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


cdef object describe(cnp.ndarray column, Py_ssize_t n, map_column *described):
    """Say how the n numbers of a column are read, and return what holds them."""
    if kind_of(column) < 0:
        if column.dtype.kind != "f" or cnp.PyArray_ITEMSIZE(column) not in (4, 8):
            raise TypeError(f"block must hold floats or signed integers, not {column.dtype}")
        column = column.astype(column.dtype.newbyteorder("="))
    if column.ndim != 1 or column.shape[0] != n:
        raise ValueError(f"columns must have {n} rows, as the images")
    described.x, described.step = cnp.PyArray_BYTES(column), column.strides[0]
    described.kind = kind_of(column)
    return column


cdef object describe_codes(indices, lut, Py_ssize_t n, coded_codes *described):
    """Say how the n codes of a factor are read, and return what holds them."""
    if indices.dtype.kind not in "iu" or indices.shape != (n,):
        raise TypeError(f"codes must be integers of {n} rows, as the images")
    cdef cnp.ndarray codes = np.ascontiguousarray(indices, indices.dtype.newbyteorder("=")), table
    described.x, described.size = cnp.PyArray_BYTES(codes), cnp.PyArray_ITEMSIZE(codes)
    described.is_signed = cnp.PyArray_ISSIGNED(codes)
    described.lut = NULL
    if lut is None:
        return codes
    table = np.ascontiguousarray(lut, np.int32)
    described.lut, described.n_lut = <const int32_t *>cnp.PyArray_BYTES(table), table.shape[0]
    return codes, table


def transposed(const double[:, :] frame):
    """A^T, (d, width) for A of shape (k, d), padded with zeros: the form `apply` takes it in."""
    cdef Py_ssize_t k = frame.shape[0], width = (k + MAP_COLUMNS - 1) // MAP_COLUMNS * MAP_COLUMNS
    out = np.zeros((frame.shape[1], width))
    out[:, :k] = np.asarray(frame).T
    return out


def apply(
    block,                           # IN, (n, d) or a list of columns, floats or signed integers
    double bound,
    const double[:, ::1] frame,      # IN, (d + levels, width), of `transposed`
    double[:, :] out,                # OUT, (n, k) with k <= width, by columns
    scaling=None,                    # IN, centers, inverses and limits of d columns and the values
    blocks=(),                       # IN, (indices, lut, levels, value or None, weight)
):
    """out[i] = A (min(1, bound / |u|) u), u = block[i], scaled and clamped first if asked to.

    A row goes on with an entry for each block: at the level that lut[indices[i]] is, or indices[i],
    the value, scaled, or the weight. With blocks there is scaling. With it, the last of the d
    columns may be left out: it is ones times its limit.
    """
    cdef Py_ssize_t width = frame.shape[1], n = out.shape[0], j, b, n_blocks = len(blocks), first
    cdef Py_ssize_t d = frame.shape[0] - sum([levels for _, _, levels, _, _ in blocks])
    cdef Py_ssize_t value = d
    if not isinstance(block, list) and (block.ndim != 2 or block.shape[0] != n):
        raise ValueError(f"block must have shape ({n}, {d}), as its images")
    cdef list columns = block if isinstance(block, list) else list(block.T)
    if len(columns) != d and not (scaling is not None and len(columns) == d - 1):
        raise ValueError(f"block must have shape (n, {d}), and its images as many rows")
    if width % MAP_COLUMNS or not width - MAP_COLUMNS < out.shape[1] <= width:
        raise ValueError(f"the frame must be padded, and images have {width} columns or just less")
    cdef const double[::1] center, inverse, limit
    cdef bint scaled = scaling is not None
    cdef Py_ssize_t n_values = sum([given is not None for _, _, _, given, _ in blocks])
    if scaled:
        center, inverse, limit = scaling
        if not center.shape[0] == inverse.shape[0] == limit.shape[0] == d + n_values:
            raise ValueError(f"scaling must be three arrays of shape ({d + n_values},)")
    elif n_blocks:
        raise ValueError("columns of levels must be scaled")
    if n == 0 or width == 0:
        return
    if out.strides[0] != sizeof(double) and n > 1 or out.strides[1] % sizeof(double):
        raise ValueError("images lie by columns")
    cdef ptrdiff_t step = out.strides[1] // <ptrdiff_t>sizeof(double)
    cdef Py_ssize_t parts = d + n_blocks
    cdef map_column *described = <map_column *>PyMem_Malloc((parts + 1) * sizeof(map_column))
    cdef map_block *coded = <map_block *>PyMem_Malloc((n_blocks + 1) * sizeof(map_block))
    cdef double *room = <double *>PyMem_Malloc(parts * MAP_ROWS * sizeof(double))
    cdef ptrdiff_t *place = <ptrdiff_t *>PyMem_Malloc((n_blocks * MAP_ROWS + 1) * sizeof(ptrdiff_t))
    cdef int32_t *codes = <int32_t *>PyMem_Malloc((n_blocks * MAP_CODES + 1) * sizeof(int32_t))
    held = []
    try:
        if described == NULL or coded == NULL or room == NULL or place == NULL or codes == NULL:
            raise MemoryError
        for j in range(d):
            described[j].kind, described[j].x, described[j].step = MAP_ONES, NULL, 0
            if scaled:
                described[j].center, described[j].inverse = center[j], inverse[j]
                described[j].limit = limit[j]
            if j < len(columns):
                held.append(describe(columns[j], n, &described[j]))
        first = d
        for b in range(n_blocks):
            indices, lut, levels, given, weight = blocks[b]
            held.append(describe_codes(indices, lut, n, &coded[b].codes))
            coded[b].levels, coded[b].first = levels, first
            first += levels
            j = d + b
            described[j].kind, described[j].x, described[j].step = MAP_ONES, NULL, 0
            described[j].limit = weight
            if given is not None:
                described[j].center, described[j].inverse = center[value], inverse[value]
                described[j].limit = limit[value]
                held.append(describe(given, n, &described[j]))
                value += 1
        with nogil:
            map_rows(described, scaled, n, d, coded, n_blocks, bound, &frame[0, 0], width,
                     out.shape[1], room, place, codes, step, &out[0, 0])
    finally:
        PyMem_Free(described)
        PyMem_Free(coded)
        PyMem_Free(room)
        PyMem_Free(place)
        PyMem_Free(codes)
