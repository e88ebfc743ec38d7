"""Rows weighed by what public coefficients say of them, for Newton steps of logistic regressions.

`tests/oracle/weigh.py` is the NumPy twin; the two agree bit for bit.
"""

cdef extern from "_weigh.h" nogil:
    void weigh_rows(const double *z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *coef,
                    double center, double half_width, double clip, double *curved, double *pulled)
    void weigh_reach(const double *z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p, const double *coef,
                     double *reach)


def weigh(
    const double[:, ::1] rows,       # IN, (n, d): p features, the target, and more
    const double[::1] coef,          # IN, (p,)
    (double, double) target,         # center and half-width of its own units
    double clip,
    double[:, ::1] curved,           # OUT, (n, p)
    double[:, ::1] pulled,           # OUT, (n, p + 1)
):
    """The rows whose squares are the curvature, and those whose last column sums to the score."""
    cdef Py_ssize_t n = rows.shape[0], p = coef.shape[0]
    _check(rows, p, curved, p)
    _check(rows, p, pulled, p + 1)
    if n:
        with nogil:
            weigh_rows(&rows[0, 0], n, rows.shape[1], p, &coef[0], target[0], target[1], clip,
                       &curved[0, 0], &pulled[0, 0])


def reach(
    const double[:, ::1] rows,       # IN, (n, d)
    const double[::1] coef,          # IN, (p,)
    double[:, ::1] out,              # OUT, (n, p)
):
    """The largest scores that rows can have, whatever their targets."""
    cdef Py_ssize_t n = rows.shape[0], p = coef.shape[0]
    _check(rows, p, out, p)
    if n:
        with nogil:
            weigh_reach(&rows[0, 0], n, rows.shape[1], p, &coef[0], &out[0, 0])


cdef _check(const double[:, ::1] rows, Py_ssize_t p, double[:, ::1] out, Py_ssize_t width):
    if not (0 < p < rows.shape[1] and out.shape[0] == rows.shape[0] and out.shape[1] == width):
        raise ValueError(f"of {p} features and {rows.shape[0]} rows, images have another shape")
