"""Squared row norms, each a function of its row's values alone.

Position, layout and neighbouring rows do not enter: products and sums are rounded one by
one, in the order of the columns (meson.build: no contraction into FMA).
"""
cimport numpy as cnp

import numpy as np

cnp.import_array()

ctypedef fused real:
    float
    double

cdef enum:
    ROWS = 8  # independent sums: additions in a row would wait for one another
    STRIP = 512  # rows of a column-major strip, which stays in the cache
    COPY_BYTES = 1 << 18


cdef void across(
    const real *x,                   # IN, unit stride along the rows
    Py_ssize_t stride,               # bytes from one row to the next
    Py_ssize_t n,
    Py_ssize_t d,
    double *out,                     # OUT, (n,)
) noexcept nogil:
    cdef Py_ssize_t i, j, r, group, groups = n // ROWS
    cdef double total[ROWS]
    cdef double value
    cdef const char *first
    for group in range(groups):
        i = group * ROWS
        first = <const char *>x + i * stride
        for r in range(ROWS):
            total[r] = 0.0
        for j in range(d):
            for r in range(ROWS):
                value = (<const real *>(first + r * stride))[j]
                total[r] += value * value
        for r in range(ROWS):
            out[i + r] = total[r]
    for i in range(groups * ROWS, n):
        first = <const char *>x + i * stride
        total[0] = 0.0
        for j in range(d):
            value = (<const real *>first)[j]
            total[0] += value * value
        out[i] = total[0]


cdef void down(
    const real *x,                   # IN, unit stride down the columns
    Py_ssize_t stride,               # bytes from one column to the next
    Py_ssize_t n,
    Py_ssize_t d,
    double *out,                     # OUT, (n,)
) noexcept nogil:
    cdef Py_ssize_t i, j, strip, start, length
    cdef const real *column
    cdef double value
    for strip in range((n + STRIP - 1) // STRIP):
        start = strip * STRIP
        length = min(<Py_ssize_t>STRIP, n - start)
        for i in range(length):
            out[start + i] = 0.0
        for j in range(d):
            column = <const real *>(<const char *>x + j * stride) + start
            for i in range(length):
                value = column[i]
                out[start + i] += value * value


def squared_norms(cnp.ndarray block, double[::1] out):
    """out[i] = sum_j block[i, j]**2, for native float32 or float64 of any layout."""
    cdef int kind = cnp.PyArray_TYPE(block)
    if kind not in (cnp.NPY_FLOAT64, cnp.NPY_FLOAT32) or not cnp.PyArray_ISNOTSWAPPED(block):
        raise TypeError(f"block must be float32 or float64 in native byte order, got {block.dtype}")
    if block.ndim != 2 or out.shape[0] != block.shape[0]:
        raise ValueError("a block of shape (n, d) has n norms")
    cdef Py_ssize_t n = block.shape[0], d = block.shape[1], item = cnp.PyArray_ITEMSIZE(block)
    cdef Py_ssize_t start, step
    cdef const char *x = cnp.PyArray_BYTES(block)
    cdef Py_ssize_t row = block.strides[0], column = block.strides[1]
    cdef bint wide = kind == cnp.NPY_FLOAT64
    if n == 0 or d == 0:
        out[:] = 0.0
        return
    if cnp.PyArray_ISALIGNED(block) and (column == item or d == 1):
        with nogil:
            if wide:
                across[double](<const double *>x, row, n, d, &out[0])
            else:
                across[float](<const float *>x, row, n, d, &out[0])
    elif cnp.PyArray_ISALIGNED(block) and (row == item or n == 1):
        with nogil:
            if wide:
                down[double](<const double *>x, column, n, d, &out[0])
            else:
                down[float](<const float *>x, column, n, d, &out[0])
    else:
        step = max(1, COPY_BYTES // max(d * item, 1))
        for start in range(0, n, step):
            squared_norms(
                np.array(block[start:start + step], order="C", copy=True), out[start:start + step]
            )
