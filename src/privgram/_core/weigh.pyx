"""Rows weighed by what public coefficients say of them, for Newton steps.

`privgram.moment.reference_weigh.weigh` is the NumPy twin; the two agree bit for bit.
"""

cdef extern from "_weigh.h" nogil:
    enum:
        WEIGH_LOGISTIC
        WEIGH_POISSON

    void weigh_rows(int family, const double *z, ptrdiff_t n, ptrdiff_t d, ptrdiff_t p,
                    const double *coef, double center, double half_width, double clip,
                    double *curved, double *pulled, ptrdiff_t width)

cdef dict FAMILIES = {"logistic": WEIGH_LOGISTIC, "poisson": WEIGH_POISSON}


def weigh(
    str family,
    const double[:, ::1] rows,       # IN, (n, d): p features, the target, and more
    const double[::1] coef,          # IN, (p,)
    (double, double) target,         # center and half-width of its own units
    double clip,
    double[:, ::1] curved,           # OUT, (n, p)
    double[:, ::1] pulled,           # OUT, (n, p), or (n, p + 1) with the clip last
):
    """curved[i] = sqrt(w) z and pulled[i] = e z shortened to the clip, for rows z."""
    cdef Py_ssize_t n = rows.shape[0], p = coef.shape[0], width = pulled.shape[1]
    cdef int code = FAMILIES[family]
    if not (0 < p < rows.shape[1] and curved.shape[0] == pulled.shape[0] == n
            and curved.shape[1] == p and p <= width <= p + 1):
        raise ValueError(f"of {p} features and {n} rows the images have other shapes")
    if n == 0:
        return
    with nogil:
        weigh_rows(code, &rows[0, 0], n, rows.shape[1], p, &coef[0], target[0], target[1], clip,
                   &curved[0, 0], &pulled[0, 0], width)
