"""Columns of an Arrow record batch as NumPy arrays, through Arrow's C data interface.

One call a batch instead of several a column: these, under the lock of the interpreter,
would take as long as decoding.
"""
cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t

cnp.import_array()

cdef extern from *:
    # https://arrow.apache.org/docs/format/CDataInterface.html
    """
    #include <stdint.h>
    struct ArrowSchema {
        const char *format, *name, *metadata;
        int64_t flags, n_children;
        struct ArrowSchema **children, *dictionary;
        void (*release)(struct ArrowSchema *);
        void *private_data;
    };
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void **buffers;
        struct ArrowArray **children, *dictionary;
        void (*release)(struct ArrowArray *);
        void *private_data;
    };
    """
    struct ArrowSchema:
        const char *format
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_children
        const void **buffers
        ArrowArray **children


cdef int type_of(const ArrowSchema *field):
    """Tell NumPy's type for values that lie there as NumPy has them; -1 for others."""
    if field.dictionary != NULL or field.format[0] == 0 or field.format[1] != 0:
        return -1
    cdef char kind = field.format[0]
    if kind == b"g":
        return cnp.NPY_FLOAT64
    if kind == b"f":
        return cnp.NPY_FLOAT32
    if kind == b"l":
        return cnp.NPY_INT64
    if kind == b"i":
        return cnp.NPY_INT32
    return -1


def views(batch):
    """List the columns of a batch: a read-only view, or None where there are nulls or other types.

    Views keep the batch's memory alive.
    """
    cdef object schema_capsule, array_capsule
    schema_capsule, array_capsule = batch.__arrow_c_array__()
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
    cdef ArrowArray *column
    cdef cnp.npy_intp n = array.length
    cdef cnp.ndarray view
    cdef const char *values
    cdef Py_ssize_t j, size
    cdef int kind
    cdef list found = []
    for j in range(array.n_children):
        column = array.children[j]
        kind = type_of(schema.children[j])
        if n == 0 or kind < 0 or (column.null_count != 0 and column.buffers[0] != NULL):
            found.append(None)
            continue
        size = 8 if kind == cnp.NPY_FLOAT64 or kind == cnp.NPY_INT64 else 4
        values = <const char *>column.buffers[1] + (array.offset + column.offset) * size
        view = cnp.PyArray_SimpleNewFromData(1, &n, kind, <void *>values)
        cnp.PyArray_CLEARFLAGS(view, cnp.NPY_ARRAY_WRITEABLE)
        cnp.set_array_base(view, array_capsule)
        found.append(view)
    return found
