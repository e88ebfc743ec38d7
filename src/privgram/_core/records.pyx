"""Where the records of a CSV text end: at the ends of lines outside quoted cells.

As Arrow's parser sees it, which then parses them: a quote opens a quoted cell at the
beginning of a cell and is an ordinary character elsewhere, and two in a quoted cell are one.
"""
from libc.string cimport memchr


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
    """Find the end of the last whole record of a text that begins with one, or of the `first`.

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
