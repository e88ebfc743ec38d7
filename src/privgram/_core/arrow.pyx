"""Arrow's C stream and C data interface: columns of batches as NumPy's views of their buffers.

https://arrow.apache.org/docs/format/CDataInterface.html. What values mean is for Python
to say (`privgram.sources.arrow`); here are pointers, who frees them, and two loops over texts:
their codes, and where the records of CSV end.
"""
cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp, memcpy

import numpy as np

cnp.import_array()

cdef extern from *:
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
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
        int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
        const char *(*get_last_error)(struct ArrowArrayStream *);
        void (*release)(struct ArrowArrayStream *);
        void *private_data;
    };
    """
    struct ArrowSchema:
        const char *format
        const char *name
        const char *metadata
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept

    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void **buffers
        ArrowArray **children
        ArrowArray *dictionary
        void (*release)(ArrowArray *) noexcept

    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
        void (*release)(ArrowArrayStream *) noexcept

cdef extern from "Python.h":
    ctypedef struct PyHash_FuncDef:
        Py_hash_t (*hash)(const void *, Py_ssize_t) noexcept nogil
    PyHash_FuncDef *PyHash_GetFuncDef()
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *)

# Keyed by a secret of the process: nobody can choose texts whose hashes are equal.
cdef PyHash_FuncDef *hashing = PyHash_GetFuncDef()


cdef class Field:
    """Name and type of a column: Arrow's format, the extension it is of, and types within."""

    cdef readonly str name, format
    cdef readonly object extension, dictionary
    cdef readonly tuple children


cdef Field field_of(const ArrowSchema *schema):
    cdef Field field = Field.__new__(Field)
    cdef int64_t i
    field.format = schema.format.decode("utf-8", "replace")
    field.name = "" if schema.name == NULL else schema.name.decode("utf-8", "replace")
    field.extension = extension_of(schema.metadata)
    children = []
    for i in range(schema.n_children):
        children.append(field_of(schema.children[i]))
    field.children = tuple(children)
    field.dictionary = None if schema.dictionary == NULL else field_of(schema.dictionary)
    return field


cdef object extension_of(const char *metadata):
    """The name of an extension type among pairs of keys and values, each after its length."""
    cdef int32_t n, size, i
    if metadata == NULL:
        return None
    memcpy(&n, metadata, 4)
    metadata += 4
    found, key = None, b""
    for i in range(2 * n):
        memcpy(&size, metadata, 4)
        text = metadata[4:4 + size]
        metadata += 4 + size
        if i % 2 and key == b"ARROW:extension:name":
            found = text.decode("utf-8", "replace")
        key = text
    return found


cdef class Memory:
    """The memory of a batch, taken over from who made it."""

    cdef ArrowArray array

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef class Array:
    """Values of a column, some rows of it, as they lie in memory that this keeps.

    ``len`` counts its rows. `part`, `values` and `flags` cost nothing by row but the last.
    """

    cdef Memory memory
    cdef const ArrowArray *array
    cdef readonly Field field
    cdef int64_t start, n

    def __len__(self):
        return self.n

    def part(self, int64_t start, int64_t stop):
        """Rows from `start` to `stop`."""
        if not 0 <= start <= stop <= self.n:
            raise IndexError("these rows are not there")
        return new(self.memory, self.array, self.field, self.start + start, stop - start)

    @property
    def dictionary(self):
        """The values that the column's numbers stand for, or None."""
        if self.array.dictionary == NULL:
            return None
        return new(self.memory, self.array.dictionary, self.field.dictionary, 0,
                   self.array.dictionary.length)

    def child(self, int64_t i):
        """A column of these rows."""
        if not 0 <= i < min(self.array.n_children, len(self.field.children)):
            raise ValueError("a column is not there")
        cdef const ArrowArray *child = self.array.children[i]
        return new(self.memory, child, self.field.children[i], self.array.offset + self.start,
                   self.n)

    def values(self, dtype, int which=1):
        """View the items of a buffer, read-only, as so many of a type."""
        cdef cnp.dtype kind = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        return self.buffer(which, kind, self.array.offset + self.start, self.n)

    cdef buffer(self, int which, cnp.dtype kind, int64_t first, int64_t n):
        cdef cnp.npy_intp size = n * kind.itemsize
        if n == 0:
            return np.empty(0, kind)
        if which >= self.array.n_buffers or self.array.buffers[which] == NULL:
            raise ValueError("a buffer is not there")
        cdef char *at = <char *>self.array.buffers[which] + first * kind.itemsize
        cdef bint plain = kind.type_num < cnp.NPY_OBJECT
        if plain:
            size = n
        cdef int number = kind.type_num if plain else cnp.NPY_UINT8
        cdef cnp.ndarray view = cnp.PyArray_SimpleNewFromData(1, &size, number, at)
        cnp.PyArray_CLEARFLAGS(view, cnp.NPY_ARRAY_WRITEABLE)
        cnp.set_array_base(view, self.memory)
        return view if plain else view.view(kind)

    def flags(self, int which=1):
        """Bits of a buffer as truth values."""
        cdef int64_t first = self.array.offset + self.start
        cdef int64_t shift = first % 8
        packed = self.buffer(which, np.dtype(np.uint8), first // 8, (shift + self.n + 7) // 8)
        return np.unpackbits(packed, count=shift + self.n, bitorder="little")[shift:].view(bool)

    def missing(self):
        """Where values are missing, or None if nowhere."""
        cdef bint all_there = self.array.null_count == 0 or self.array.n_buffers == 0
        if self.n == 0 or all_there or self.array.buffers[0] == NULL:
            return None
        there = self.flags(0)
        return None if there.all() else ~there

    def encode(self):
        """Texts as codes, int32, -1 where one is missing, and the list of texts they stand for."""
        missing = self.missing()
        cdef const uint8_t[::1] gone = np.zeros(1, np.uint8) if missing is None else missing
        cdef const uint8_t *is_gone = NULL if missing is None else &gone[0]
        codes = np.empty(max(self.n, 1), np.int32)
        cdef int32_t[::1] codes_view = codes
        cdef Texts texts = Texts(self)
        cdef Table table
        cdef int32_t[::1] slots
        cdef int64_t[::1] firsts = np.empty(0, np.int64)
        cdef Py_hash_t[::1] hashes = np.empty(0, np.intp)
        cdef int64_t at = 0, code, k
        cdef const char *text
        cdef Py_ssize_t size
        table.count, table.capacity = 0, 256
        while True:
            table.capacity *= 4
            slots = np.full(table.capacity, -1, np.int32)
            firsts = np.resize(firsts, table.capacity)
            hashes = np.resize(hashes, table.capacity)
            table.slots, table.firsts, table.hashes = &slots[0], &firsts[0], &hashes[0]
            for code in range(table.count):
                k = hashes[code] & (table.capacity - 1)
                while slots[k] >= 0:
                    k = (k + 1) & (table.capacity - 1)
                slots[k] = <int32_t>code
            with nogil:
                at = encode_from(texts, at, self.n, is_gone, &codes_view[0], &table)
            if at == self.n:
                break
        found = []
        for code in range(table.count):
            text = texts.get(firsts[code], &size)
            found.append(PyUnicode_DecodeUTF8(text, size, "surrogateescape"))
        return codes[:self.n], found


cdef struct Table:
    # Of codes by the hashes of their texts: open addressing, at most half full.
    int64_t count
    int64_t capacity
    int32_t *slots
    int64_t *firsts
    Py_hash_t *hashes


cdef int64_t encode_from(Texts texts, int64_t i, int64_t n, const uint8_t *is_gone,
                         int32_t *codes, Table *table) noexcept nogil:
    """Encode texts from one on; how far it came, to the end or until the table is full."""
    cdef int64_t mask = table.capacity - 1, k, code
    cdef Py_ssize_t size
    cdef Py_hash_t hashed
    cdef const char *text
    while i < n and 2 * table.count < table.capacity:
        if is_gone != NULL and is_gone[i]:
            codes[i] = -1
            i += 1
            continue
        text = texts.get(i, &size)
        hashed = hashing.hash(text, size)
        k = hashed & mask
        while True:
            code = table.slots[k]
            if code < 0:
                code = table.count
                table.slots[k] = <int32_t>code
                table.firsts[code] = i
                table.hashes[code] = hashed
                table.count += 1
                break
            if table.hashes[code] == hashed and texts.equal(table.firsts[code], text, size):
                break
            k = (k + 1) & mask
        codes[i] = <int32_t>code
        i += 1
    return i


cdef Array new(Memory memory, const ArrowArray *array, Field field, int64_t start, int64_t n):
    cdef bint there = array.length >= 0 and array.offset >= 0 and start >= 0 and n >= 0
    if not there or start + n > array.length:
        raise ValueError("an array is shorter than its table")
    cdef Array found = Array.__new__(Array)
    found.memory, found.field, found.start, found.n = memory, field, start, n
    found.array = array
    return found


cdef class Texts:
    """Where each text of a column lies: of Arrow's strings, large strings and string views."""

    cdef Array column
    cdef const ArrowArray *array
    cdef int kind
    cdef const int32_t *short_ends
    cdef const int64_t *long_ends
    cdef const char *data
    cdef const char *views

    def __cinit__(self, Array column):
        cdef const ArrowArray *array = column.array
        cdef int64_t first = array.offset + column.start
        self.column, self.array = column, array
        self.kind = {"u": 0, "U": 1, "vu": 2}[column.field.format]
        if column.n == 0:
            return
        if array.n_buffers < 3 or array.buffers[1] == NULL:
            raise ValueError("a buffer is not there")
        self.short_ends = <const int32_t *>array.buffers[1] + first
        self.long_ends = <const int64_t *>array.buffers[1] + first
        self.views = <const char *>array.buffers[1] + 16 * first
        self.data = <const char *>array.buffers[2]

    cdef const char *get(self, int64_t i, Py_ssize_t *size) noexcept nogil:
        cdef int32_t length, buffer, offset
        cdef const char *view
        if self.kind == 0:
            size[0] = self.short_ends[i + 1] - self.short_ends[i]
            return self.data + self.short_ends[i]
        if self.kind == 1:
            size[0] = self.long_ends[i + 1] - self.long_ends[i]
            return self.data + self.long_ends[i]
        view = self.views + 16 * i
        memcpy(&length, view, 4)
        size[0] = length
        if length <= 12:
            return view + 4
        memcpy(&buffer, view + 8, 4)
        memcpy(&offset, view + 12, 4)
        return <const char *>self.array.buffers[2 + buffer] + offset

    cdef bint equal(self, int64_t i, const char *other, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t length
        cdef const char *at = self.get(i, &length)
        return length == size and memcmp(at, other, size) == 0


cdef Array taken_over(ArrowArray *array, Field field):
    """An array whose memory is ours from now on."""
    cdef Memory memory = Memory.__new__(Memory)
    memcpy(&memory.array, array, sizeof(ArrowArray))
    array.release = NULL
    return new(memory, &memory.array, field, 0, memory.array.length)


def array_of(source):
    """Take over what an object with ``__arrow_c_array__`` exports: a column, or a batch."""
    schema, array = source.__arrow_c_array__()
    cdef Field field = field_of(<ArrowSchema *>PyCapsule_GetPointer(schema, "arrow_schema"))
    return taken_over(<ArrowArray *>PyCapsule_GetPointer(array, "arrow_array"), field)


def field_of_schema(source):
    """What an object with ``__arrow_c_schema__`` exports: of a table, a struct of its columns."""
    capsule = source.__arrow_c_schema__()
    return field_of(<ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema"))


cdef class Stream:
    """Arrays of an object with ``__arrow_c_stream__``, one after another.

    A producer that fails raises an OSError, without its own text, which may quote the data.
    """

    cdef object capsule
    cdef ArrowArrayStream *stream
    cdef readonly Field field

    def __init__(self, source):
        cdef ArrowSchema schema
        failed = ""
        try:
            self.capsule = source.__arrow_c_stream__()
        except ImportError:  # of what the producer needs
            raise
        except Exception as error:
            failed = type(error).__name__
        if failed:  # out of the handler: the producer's own error would stay behind ours
            raise OSError(f"the Arrow stream failed before its first row ({failed})")
        self.stream = <ArrowArrayStream *>PyCapsule_GetPointer(self.capsule, "arrow_array_stream")
        if self.stream.release == NULL:
            raise ValueError("the stream was read before; it can be read once")
        if self.stream.get_schema(self.stream, &schema) != 0:
            raise OSError("the Arrow stream does not say what its columns are")
        try:
            self.field = field_of(&schema)
        finally:
            schema.release(&schema)

    def __iter__(self):
        return self

    def __next__(self):
        cdef ArrowArray array
        if self.capsule is None:
            raise StopIteration
        if self.stream.get_next(self.stream, &array) != 0:
            raise OSError("the Arrow stream failed")
        if array.release == NULL:
            self.close()
            raise StopIteration
        return taken_over(&array, self.field)

    def close(self):
        """Give back what the stream holds; arrays that were read stay."""
        if self.capsule is not None and self.stream.release != NULL:
            self.stream.release(self.stream)
        self.capsule = None


cdef Py_ssize_t last_end(const char *text, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Position after the last end of a line in text[start:stop]; -1 if there is none."""
    while stop > start:
        if text[stop - 1] == b"\n" or text[stop - 1] == b"\r":
            return stop
        stop -= 1
    return -1


cdef Py_ssize_t first_end(const char *text, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Position after the first end of a line in text[start:stop]; -1 if there is none."""
    for start in range(start, stop):
        if text[start] == b"\n":
            return start + 1
        if text[start] == b"\r":
            return start + (2 if start + 1 < stop and text[start + 1] == b"\n" else 1)
    return -1


def scan(bytes text, Py_ssize_t start, bint quoted, bint final, bint first=False):
    """Find the end of the last whole record of a CSV text that begins with one, or of the `first`.

    A record ends at the end of a line outside quoted cells, as Arrow's parser sees it, which then
    parses them: a quote opens a quoted cell at the beginning of a cell and is an ordinary character
    elsewhere, and two in a quoted cell are one.

    Begins at `start`, `quoted` if that is inside a quoted cell; `final` says that nothing follows.
    Gives the position after the record, beyond `start`, or -1 if none ends there; and the `start`
    and `quoted` to go on from when more text has been appended.
    """
    cdef const char *at = text
    cdef const char *quote
    # The end of a line may be the half of "\r\n", and a quote the half of two.
    cdef Py_ssize_t n = len(text), i = start, end = -1, here, stop
    with nogil:
        while i < n:
            quote = <const char *>memchr(at + i, b'"', n - i)
            stop = n if quote == NULL else quote - at
            if not quoted:
                if quote == NULL and not final and at[n - 1] == b"\r":
                    stop = n - 1
                here = first_end(at, i, stop) if first else last_end(at, i, stop)
                if here >= 0:
                    end = here
                    if first:
                        break
                if quote == NULL:
                    i = stop
                    break
                quoted = stop == 0 or at[stop - 1] in (b",", b"\n", b"\r")
                i = stop + 1
            elif quote == NULL:
                i = n
            elif stop + 1 < n and at[stop + 1] == b'"':
                i = stop + 2
            elif stop + 1 == n and not final:
                i = stop
                break
            else:
                quoted = False
                i = stop + 1
    return end, i, quoted
