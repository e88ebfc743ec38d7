"""The C side of rows.pyx; see gram.h."""
from libc.stdint cimport int32_t, int64_t, uint64_t


cdef extern from "gram.h" nogil:
    enum:
        GRAM_FLOAT64
        GRAM_FLOAT32
        GRAM_INT64
        GRAM_INT32
        GRAM_MIXED

    ctypedef struct gram_column:
        const char *x
        int kind

    ctypedef struct gram_table:
        Py_ssize_t n
        Py_ssize_t width
        int kind
        const char *rows
        Py_ssize_t row_stride
        const gram_column *columns
        const double *center
        const double *inverse
        const double *limit

    ctypedef struct gram_kernel:
        const char *name
        int (*is_permitted)()

    ctypedef struct gram:
        const gram_kernel *kernel
        Py_ssize_t d
        int bits
        double bound
        double target
        double scale
        int64_t flush_rows
        int64_t n_rows
        int64_t n_dropped

    enum:
        GRAM_KERNELS
        GRAM_SHARERS

    int gram_kernels(const gram_kernel **out, int *with_plain)
    double gram_target(Py_ssize_t d, int bits)
    void gram_settle(gram *)
    void gram_merge(gram *, gram *)
    void gram_get(gram *, int64_t *hi, uint64_t *lo)
    void gram_add_rows(gram *, const int64_t *sums, int64_t rows)
    void gram_get_triangle(gram *, int64_t *hi, uint64_t *lo)
    void gram_add_triangle(gram *, const int64_t *hi, const uint64_t *lo)


cdef extern from "coded.h" nogil:
    ctypedef struct coded_codes:
        const char *x
        int size
        int is_signed
        const int32_t *lut
        int64_t n_lut

    ctypedef struct coded_table:
        int is_short
        gram_table dense
        const coded_codes *codes
        const gram_column *values
        const double *center
        const double *inverse
        const double *limit

    ctypedef struct coded_block:
        Py_ssize_t factor
        Py_ssize_t first
        Py_ssize_t value
        double weight

    ctypedef struct coded:
        gram g
        Py_ssize_t d
        Py_ssize_t n_factors
        Py_ssize_t n_blocks
        Py_ssize_t n_values
        const Py_ssize_t *position
        const Py_ssize_t *order
        const Py_ssize_t *levels
        coded_block *blocks
        Py_ssize_t groups
        Py_ssize_t slots
        int64_t *n_rows
        int64_t *n_dropped
        Py_ssize_t size
        int64_t *hi
        uint64_t *lo

    int coded_init(coded *, const gram_kernel *, double bound, int bits)
    int coded_init_beside(coded *, coded *)
    void coded_free(coded *)
    void coded_reset(coded *)
    void coded_flush(coded *)
    void coded_merge(coded *, coded *)
    Py_ssize_t coded_update(coded *, const coded_table *, int drop, int leave_out)
