"""Columns computed from columns, and the floating-point environment that results are defined in.

A value depends on that of its row alone, on every machine and at every place in a block. The
NumPy twins, equal bit for bit, and the contracts are in `tests/oracle`.
"""
import sys

import numpy as np

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass

    const fenv_t *FE_DFL_ENV
    int fegetenv(fenv_t *)
    int fesetenv(const fenv_t *)


cdef extern from "_encode.h" nogil:
    void encode_log(const double *x, Py_ssize_t n, double lower, double upper, double *out)
    void encode_scaled(const double *x, Py_ssize_t n, double center, double inverse,
                       double limit, double *out)
    void encode_legendre(const double *v, const double *p, const double *before, Py_ssize_t n,
                         Py_ssize_t k, double *out)
    void encode_product(const double *x, Py_ssize_t n, double *out)


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


def log(x, double lower, double upper):
    if not sys.float_info.min <= lower <= upper <= sys.float_info.max:
        raise ValueError("bounds of a logarithm must be positive, normal and finite")
    with DefaultRounding():
        x = _column(x)
        out = np.empty(len(x))
        _log(x, lower, upper, out)
    return out


def legendre(x, double center, double inverse, Py_ssize_t degree):
    if degree < 1:
        raise ValueError(f"degree must be at least 1, not {degree}")
    with DefaultRounding():
        x = _column(x)
        out = np.empty((degree, len(x)))
        _scaled(x, center, inverse, 1.0, out[0])
        before = np.ones(len(x))
        for k in range(1, degree):
            _legendre(out[0], out[k - 1], before, k, out[k])
            before = out[k - 1]
    return out


def product(columns, center, inverse):
    if not len(columns) == len(center) == len(inverse) > 0:
        raise ValueError("a product is of as many columns as there are centers and inverses")
    with DefaultRounding():
        total = None
        for x, c, i in zip(columns, center, inverse, strict=True):
            x = _column(x)
            scaled = np.empty(len(x))
            _scaled(x, c, i, 1.0, scaled)
            if total is None:
                total = scaled
            elif total.shape != scaled.shape:
                raise ValueError("columns must be of equal length")
            else:
                _product(scaled, total)
    return total


def _column(x):
    """Float64, without gaps."""
    x = np.ascontiguousarray(x, np.float64)
    if x.ndim != 1:
        raise ValueError(f"a column has one dimension, not {x.ndim}")
    return x


cdef _log(const double[::1] x, double lower, double upper, double[::1] out):
    with nogil:
        encode_log(&x[0], x.shape[0], lower, upper, &out[0])


cdef _scaled(const double[::1] x, double center, double inverse, double limit, double[::1] out):
    with nogil:
        encode_scaled(&x[0], x.shape[0], center, inverse, limit, &out[0])


cdef _legendre(const double[::1] v, const double[::1] p, const double[::1] before, Py_ssize_t k,
               double[::1] out):
    with nogil:
        encode_legendre(&v[0], &p[0], &before[0], v.shape[0], k, &out[0])


cdef _product(const double[::1] x, double[::1] out):
    with nogil:
        encode_product(&x[0], x.shape[0], &out[0])
