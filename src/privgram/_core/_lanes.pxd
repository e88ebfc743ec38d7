"""How arrays are read where they lie; see lanes.h."""
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

import numpy as np


cdef extern from "lanes.h" nogil:
    enum:
        LANE_FLOAT64
        LANE_FLOAT32
        LANE_INT64
        LANE_INT32
        LANE_MIXED
        LANE_ONES

    ctypedef struct coded_codes:
        const char *x
        int size
        int is_signed
        const int32_t *lut
        int64_t n_lut


cdef inline int kind_of(cnp.ndarray a):
    """Tell how the items of an array are read; -1 if they must be converted."""
    cdef int kind = cnp.PyArray_TYPE(a)
    if not cnp.PyArray_ISNOTSWAPPED(a):
        return -1
    if kind == cnp.NPY_FLOAT64:
        return LANE_FLOAT64
    if kind == cnp.NPY_FLOAT32:
        return LANE_FLOAT32
    if cnp.PyArray_ISSIGNED(a) and cnp.PyArray_ISINTEGER(a):
        # By size: NumPy has two types of eight bytes.
        return {8: LANE_INT64, 4: LANE_INT32}.get(cnp.PyArray_ITEMSIZE(a), -1)
    return -1


cdef inline void *zeros(list held, size_t size) except NULL:
    """Bytes that Python holds; pages that are not used are not there."""
    cdef cnp.ndarray a = np.zeros(size // 8 + 1)
    held.append(a)
    return cnp.PyArray_DATA(a)


cdef inline tuple describe_codes(indices, lut, coded_codes *described):
    """Say how the codes of a factor are read, and return what holds them."""
    if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise TypeError("codes must be one-dimensional arrays of integers")
    cdef cnp.ndarray codes = np.require(indices, indices.dtype.newbyteorder("="), "CA"), table
    described.x, described.size = cnp.PyArray_BYTES(codes), cnp.PyArray_ITEMSIZE(codes)
    described.is_signed = cnp.PyArray_ISSIGNED(codes)
    described.lut = NULL
    if lut is None:
        return codes, None
    table = np.ascontiguousarray(lut, np.int32)
    described.lut, described.n_lut = <const int32_t *>cnp.PyArray_BYTES(table), table.shape[0]
    return codes, table
