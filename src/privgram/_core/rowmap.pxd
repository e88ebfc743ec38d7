"""The images of rows, for what takes them as they are made."""
from libc.stdint cimport int32_t

from privgram._core._lanes cimport coded_codes


cdef extern from "_rowmap.h" nogil:
    enum:
        MAP_ROWS
        MAP_COLUMNS
        MAP_CODES

    ctypedef struct map_column:
        const char *x
        ptrdiff_t step
        int kind
        double center, inverse, limit

    ctypedef struct map_block:
        coded_codes codes
        int32_t levels
        ptrdiff_t first


cdef class Images:
    cdef readonly Py_ssize_t n_rows, n_columns
    cdef map_column *described
    cdef map_block *coded
    cdef double *room
    cdef ptrdiff_t *place
    cdef int32_t *codes
    cdef Py_ssize_t d, n_blocks, width
    cdef bint scaled
    cdef double bound
    cdef const double[:, ::1] frame
    cdef list held

    cdef void write(
        self, Py_ssize_t first, Py_ssize_t n, double *out, Py_ssize_t step
    ) noexcept nogil
