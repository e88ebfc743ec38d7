"""Rows mapped into a frame, each image a function of its row's values alone.

`privgram.moment.reference_map.map_rows` is the NumPy twin; the two agree bit for bit.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc

import numpy as np

cnp.import_array()

cdef extern from "_rowmap.h" nogil:
    enum:
        MAP_ROWS
        MAP_COLUMNS

    void map_rows(const char *u, ptrdiff_t row_step, ptrdiff_t step, ptrdiff_t n, ptrdiff_t d,
                  int is_float32, double bound, const double *at, ptrdiff_t width, double *v,
                  double *z, double *out)


def transposed(const double[:, :] frame):
    """A^T, (d, width) with width >= d, padded with zeros: the form `apply` takes it in."""
    cdef Py_ssize_t d = frame.shape[0], width = (d + MAP_COLUMNS - 1) // MAP_COLUMNS * MAP_COLUMNS
    if frame.shape[1] != d:
        raise ValueError(f"a frame is square, not of shape ({d}, {frame.shape[1]})")
    out = np.zeros((d, width))
    out[:, :d] = np.asarray(frame).T
    return out


def apply(
    cnp.ndarray block,               # IN, (n, d), float32 or float64 of any layout
    double bound,
    const double[:, ::1] frame,      # IN, (d, width), of `transposed`
    double[:, ::1] out,              # OUT, (n, d)
):
    """out[i] = A (min(1, bound / |block[i]|) block[i])."""
    cdef int kind = cnp.PyArray_TYPE(block)
    if kind not in (cnp.NPY_FLOAT64, cnp.NPY_FLOAT32) or not cnp.PyArray_ISNOTSWAPPED(block):
        raise TypeError(f"block must be float32 or float64 in native byte order, got {block.dtype}")
    cdef Py_ssize_t d = frame.shape[0], width = frame.shape[1]
    if block.ndim != 2 or block.shape[1] != d or out.shape[0] != block.shape[0]:
        raise ValueError(f"block must have shape (n, {d}), and its images as many rows")
    if width % MAP_COLUMNS or width < d or out.shape[1] != d:
        raise ValueError(f"the frame and the images must have {d} columns, the frame's padded")
    if not cnp.PyArray_ISALIGNED(block):
        block = block.copy()
    cdef Py_ssize_t n = block.shape[0]
    cdef double *room
    if n == 0:
        return
    room = <double *>PyMem_Malloc((d + width) * MAP_ROWS * sizeof(double))
    if room == NULL:
        raise MemoryError
    try:
        with nogil:
            map_rows(cnp.PyArray_BYTES(block), block.strides[0], block.strides[1], n, d,
                     kind == cnp.NPY_FLOAT32, bound, &frame[0, 0], width, room,
                     room + d * MAP_ROWS, &out[0, 0])
    finally:
        PyMem_Free(room)
