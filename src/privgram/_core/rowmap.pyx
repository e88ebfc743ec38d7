"""Numbers made of a row, each a function of its row's values alone: columns, norms and images.

Position, layout and neighbouring rows do not enter: operations are rounded one by one, in the order
of the columns, on every machine (meson.build: no contraction into FMA), and in the environment of
floating point that `DefaultRounding` sets. Twins in NumPy are in `tests/oracle`; they agree bit for
bit.
"""
import sys

cimport numpy as cnp
from libc.stdint cimport int32_t

from privgram._core._lanes cimport LANE_FLOAT64, LANE_ONES, describe_codes, kind_of, zeros

import numpy as np

cnp.import_array()

cdef extern from "_rowmap.h" nogil:
    void read_codes(const coded_codes *c, ptrdiff_t start, ptrdiff_t count, int32_t levels,
                    int32_t *code, unsigned char *missing)
    void map_rows(const map_column *columns, int scaled, ptrdiff_t first, ptrdiff_t n,
                  ptrdiff_t d, const map_block *blocks, ptrdiff_t n_blocks, double bound,
                  const double *at, ptrdiff_t width, ptrdiff_t size, double *v, ptrdiff_t *place,
                  int32_t *codes, ptrdiff_t step, double *out)
    void map_squares(const map_column *columns, ptrdiff_t n, ptrdiff_t d, int adjacent, double *out)

cdef extern from "_encode.h" nogil:
    void encode_log(const double *x, Py_ssize_t n, double lower, double upper, double *out)
    void lanes_scaled(const char *x, int kind, Py_ssize_t n, double center, double inverse,
                      double limit, double *out)
    void encode_legendre(const double *v, const double *p, const double *before, Py_ssize_t n,
                         Py_ssize_t k, double *out)
    void encode_product(const double *x, Py_ssize_t n, double *out)

cdef extern from "random_features.h" nogil:
    void features_make(const double *x, ptrdiff_t n, ptrdiff_t d, const double *weights,
                       ptrdiff_t m, double size, double *out)

cdef extern from "<fenv.h>" nogil:
    ctypedef struct fenv_t:
        pass

    const fenv_t *FE_DFL_ENV
    int fegetenv(fenv_t *)
    int fesetenv(const fenv_t *)


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


cdef inline double *data(cnp.ndarray a) noexcept nogil:
    return <double *>cnp.PyArray_DATA(a)


cdef cnp.ndarray as_column(x):
    """Float64, without gaps."""
    with DefaultRounding():
        x = np.ascontiguousarray(x, np.float64)
    if x.ndim != 1:
        raise ValueError(f"a column has one dimension, not {x.ndim}")
    return x


def log(x, double lower, double upper):
    """Natural logarithms of a column, clamped to bounds first; of NaN NaN."""
    if not sys.float_info.min <= lower <= upper <= sys.float_info.max:
        raise ValueError("bounds of a logarithm must be positive, normal and finite")
    cdef cnp.ndarray column = as_column(x), out = np.empty_like(column)
    with DefaultRounding(), nogil:
        encode_log(data(column), column.shape[0], lower, upper, data(out))
    return out


def legendre(x, double center, double inverse, Py_ssize_t degree):
    """Legendre's polynomials 1 to `degree` of a column that is scaled and clamped to [-1, 1]."""
    if degree < 1:
        raise ValueError(f"degree must be at least 1, not {degree}")
    cdef cnp.ndarray column = as_column(x), ones = np.ones_like(column)
    cdef cnp.ndarray out = np.empty((degree, len(column)))
    cdef Py_ssize_t k, n = column.shape[0]
    cdef double *v = data(out)
    with DefaultRounding(), nogil:
        lanes_scaled(<char *>data(column), LANE_FLOAT64, n, center, inverse, 1.0, v)
        for k in range(1, degree):
            encode_legendre(v, v + (k - 1) * n, data(ones) if k == 1 else v + (k - 2) * n, n, k,
                            v + k * n)
    return out


def product(columns, center, inverse):
    """Product of columns, each scaled and clamped to [-1, 1] first."""
    if not len(columns) == len(center) == len(inverse) > 0:
        raise ValueError("a product is of as many columns as there are centers and inverses")
    cdef cnp.ndarray column, scaled, total = None
    cdef double c, i
    for x, c, i in zip(columns, center, inverse, strict=True):
        column = as_column(x)
        if total is not None and len(column) != len(total):
            raise ValueError("columns must be of equal length")
        scaled = np.empty_like(column)
        with DefaultRounding(), nogil:
            lanes_scaled(<char *>data(column), LANE_FLOAT64, column.shape[0], c, i, 1.0,
                         data(scaled))
            if total is not None:
                encode_product(data(scaled), column.shape[0], data(total))
        total = scaled if total is None else total
    return total


def random_features(const double[:, ::1] x, const double[:, ::1] weights):
    """Features of rows (n, d) by weights (d, m): (n, 2 m), cosines and then sines.

    Every row has length 1, but for rounding.
    """
    cdef Py_ssize_t n = x.shape[0], d = x.shape[1], m = weights.shape[1]
    if weights.shape[0] != d or d < 1 or m < 1:
        raise ValueError(f"weights must have {d} rows, and a column at least")
    cdef double size = 1 / np.sqrt(m)
    cdef cnp.ndarray out = np.empty((n, 2 * m))
    if n > 0:
        with DefaultRounding(), nogil:
            features_make(&x[0, 0], n, d, &weights[0, 0], m, size, data(out))
    return out


cdef object describe(cnp.ndarray column, Py_ssize_t n, map_column *described):
    """Say how the n numbers of a column are read, and return what holds them."""
    if kind_of(column) < 0 or not cnp.PyArray_ISALIGNED(column):
        column = column.astype(column.dtype.newbyteorder("="))
    if kind_of(column) < 0:
        raise TypeError(f"block must hold floats or signed integers, not {column.dtype}")
    if column.ndim != 1 or column.shape[0] != n:
        raise ValueError(f"columns must have {n} rows, as the images")
    described.x, described.step = cnp.PyArray_BYTES(column), column.strides[0]
    described.kind = kind_of(column)
    return column


def looked_up(indices, lut):
    """lut[indices], int32, and -1 where an index is not in the table."""
    cdef coded_codes described
    cdef Py_ssize_t i, n = len(indices)
    cdef int32_t none = 2147483647
    held = describe_codes(indices, lut, &described)
    codes = np.empty(n, np.int32)
    cdef int32_t[::1] out = codes
    if n:
        with nogil:
            read_codes(&described, 0, n, none, &out[0], NULL)
            for i in range(n):
                out[i] = -1 if out[i] == none else out[i]
    del held
    return codes


def squared_norms(block, double[::1] out):
    """out[i] = sum_j block[i, j]**2, of floats or signed integers of any layout."""
    if block.ndim != 2 or out.shape[0] != block.shape[0]:
        raise ValueError("a block of shape (n, d) has n norms")
    cdef Py_ssize_t j, n = out.shape[0], d = block.shape[1]
    cdef bint adjacent
    held = []
    cdef map_column *columns = <map_column *>zeros(held, d * sizeof(map_column))
    held += [describe(block[:, j], n, &columns[j]) for j in range(d)]
    adjacent = (
        kind_of(block) >= 0 and cnp.PyArray_ISALIGNED(block)
        and block.strides[1] == block.itemsize < block.strides[0]
    )
    if n:
        with nogil:
            map_squares(columns, n, d, adjacent, &out[0])
    del held  # till now


def transposed(const double[:, :] frame):
    """A^T, (d, width) for A of shape (k, d), padded with zeros: the form `Images` takes it in."""
    cdef Py_ssize_t k = frame.shape[0], width = (k + MAP_COLUMNS - 1) // MAP_COLUMNS * MAP_COLUMNS
    out = np.zeros((frame.shape[1], width))
    out[:, :k] = np.asarray(frame).T
    return out


cdef class Images:
    """Images z[i] = A (min(1, bound / |u|) u), u = block[i], made where they are taken.

    `block` is (n, d) or a list of columns, floats or signed integers, scaled and clamped first by
    the centers, inverses and limits of `scaling`. A row goes on with an entry for each of `blocks`,
    (indices, lut, levels, value or None, weight): at the level that lut[indices[i]] is, or
    indices[i], the value, scaled, or the weight. With blocks there is scaling, of the d columns and
    the values. With it, the last of the d columns may be left out: it is ones times its limit.
    `frame` is A as `transposed` makes it, of `n_columns` rows. One thread at a time uses images.
    """

    def __cinit__(self, block, double bound, const double[:, ::1] frame, Py_ssize_t n_columns,
                  scaling=None, blocks=()):
        cdef Py_ssize_t width = frame.shape[1], n, j, b, n_blocks = len(blocks), first
        cdef Py_ssize_t d = frame.shape[0] - sum([levels for _, _, levels, _, _ in blocks])
        cdef Py_ssize_t value = d, parts = d + n_blocks
        if not isinstance(block, list) and block.ndim != 2:
            raise ValueError(f"block must have shape (n, {d})")
        cdef list columns = block if isinstance(block, list) else list(block.T)
        if len(columns) != d and not (scaling is not None and len(columns) == d - 1):
            raise ValueError(f"block must have shape (n, {d})")
        if width % MAP_COLUMNS or not width - MAP_COLUMNS < n_columns <= width:
            raise ValueError(
                f"the frame must be padded, and images have {width} columns or just less"
            )
        lengths = [len(column) for column in columns]
        lengths += [len(indices) for indices, *_ in blocks]
        if isinstance(block, np.ndarray):
            lengths.append(len(block))
        n = lengths[0] if lengths else 0
        self.n_rows, self.n_columns, self.n_blocks = n, n_columns, n_blocks
        self.d, self.width, self.bound, self.frame = d, width, bound, frame
        cdef const double[::1] center, inverse, limit
        cdef bint scaled = scaling is not None
        self.scaled = scaled
        cdef Py_ssize_t n_values = sum([given is not None for _, _, _, given, _ in blocks])
        if scaled:
            center, inverse, limit = scaling
            if not center.shape[0] == inverse.shape[0] == limit.shape[0] == d + n_values:
                raise ValueError(f"scaling must be three arrays of shape ({d + n_values},)")
        elif n_blocks:
            raise ValueError("columns of levels must be scaled")
        self.held = []
        self.described = <map_column *>zeros(self.held, parts * sizeof(map_column))
        self.coded = <map_block *>zeros(self.held, n_blocks * sizeof(map_block))
        self.room = <double *>zeros(self.held, parts * MAP_ROWS * sizeof(double))
        self.place = <ptrdiff_t *>zeros(self.held, n_blocks * MAP_ROWS * sizeof(ptrdiff_t))
        self.codes = <int32_t *>zeros(self.held, n_blocks * MAP_CODES * sizeof(int32_t))
        for j in range(d):
            self.described[j].kind, self.described[j].x, self.described[j].step = LANE_ONES, NULL, 0
            if scaled:
                self.described[j].center, self.described[j].inverse = center[j], inverse[j]
                self.described[j].limit = limit[j]
            if j < len(columns):
                self.held.append(describe(columns[j], n, &self.described[j]))
        first = d
        for b in range(n_blocks):
            indices, lut, levels, given, weight = blocks[b]
            self.held.append(describe_codes(indices, lut, &self.coded[b].codes))
            if len(indices) != n:
                raise ValueError(f"columns must have {n} rows, as the images")
            self.coded[b].levels, self.coded[b].first = levels, first
            first += levels
            j = d + b
            self.described[j].kind, self.described[j].x, self.described[j].step = LANE_ONES, NULL, 0
            self.described[j].limit = weight
            if given is not None:
                self.described[j].center, self.described[j].inverse = center[value], inverse[value]
                self.described[j].limit = limit[value]
                self.held.append(describe(given, n, &self.described[j]))
                value += 1

    def __len__(self):
        return self.n_rows

    cdef void write(
        self, Py_ssize_t first, Py_ssize_t n, double *out, Py_ssize_t step
    ) noexcept nogil:
        """Images of n rows from a first one, to columns that begin `step` numbers apart."""
        map_rows(self.described, self.scaled, first, n, self.d, self.coded, self.n_blocks,
                 self.bound, &self.frame[0, 0], self.width, self.n_columns, self.room, self.place,
                 self.codes, step, out)

    def into(self, double[:, :] out, Py_ssize_t first=0):
        """Write the images of rows from a first one to an array (n, k), by columns."""
        cdef Py_ssize_t n = out.shape[0]
        if not 0 <= first <= first + n <= self.n_rows or out.shape[1] != self.n_columns:
            raise ValueError(f"there are {self.n_rows} images, of {self.n_columns} columns")
        if n == 0 or self.n_columns == 0:
            return
        if out.strides[0] != sizeof(double) and n > 1 or out.strides[1] % sizeof(double):
            raise ValueError("images lie by columns")
        with nogil:
            self.write(first, n, &out[0, 0], out.strides[1] // <Py_ssize_t>sizeof(double))
