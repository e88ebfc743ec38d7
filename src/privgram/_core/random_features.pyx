"""Random features of rows: cosines and sines of projections, or their signs.

See random_features.h. `tests/core/test_random_features.py` has the NumPy twin.
"""
cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "random_features.h" nogil:
    void features_make(const double *x, ptrdiff_t n, ptrdiff_t d, const double *weights,
                       ptrdiff_t m, int signs, double size, double *out)

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass

    const fenv_t *FE_DFL_ENV
    int fegetenv(fenv_t *)
    int fesetenv(const fenv_t *)


def make(const double[:, ::1] x, const double[:, ::1] weights, bint signs):
    """Features of rows (n, d) by weights (d, m): (n, 2 m) in pairs, or (n, m) signs.

    Every row has length 1, but for rounding.
    """
    cdef Py_ssize_t n = x.shape[0], d = x.shape[1], m = weights.shape[1]
    cdef fenv_t saved
    if weights.shape[0] != d or d < 1 or m < 1:
        raise ValueError(f"weights must have {d} rows, and a column at least")
    cdef double size = 1 / np.sqrt(m)
    cdef cnp.ndarray out = np.empty((n, m if signs else 2 * m))
    cdef double *at = <double *>cnp.PyArray_DATA(out)
    if n == 0:
        return out
    with nogil:
        # Round to nearest and keep subnormals, whatever others have set in this thread.
        fegetenv(&saved)
        fesetenv(FE_DFL_ENV)
        features_make(&x[0, 0], n, d, &weights[0, 0], m, signs, size, at)
        fesetenv(&saved)
    return out
