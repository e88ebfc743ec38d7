"""Scores of rows, clipped or counted by their norms, in one sweep over images of the rows.

See scores.h for what is added of a row. `tests/oracle/scores.py` is the NumPy twin; the two agree
bit for bit.
"""
cimport numpy as cnp
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from privgram._core.rowmap cimport Images

import numpy as np

from privgram._core.rowmap import DefaultRounding

cnp.import_array()

cdef extern from "scores.h" nogil:
    enum:
        SCORE_ROWS
        SCORE_PLAIN
        SCORE_RESIDUAL
        SCORE_GAUSSIAN
        SCORE_BINOMIAL
        SCORE_POISSON
        SCORE_HUBER

    ctypedef struct score_model:
        int kind
        int curved
        int offset
        ptrdiff_t q
        const double *coef
        const double *ones
        double center, half, largest, bend, reach_sq

    ctypedef struct score_images:
        const double *x
        ptrdiff_t stride, n
        const int32_t *group
        int32_t n_groups

    ctypedef struct score_sink:
        int64_t *total
        double clip, scale, most_sq
        int positive
        int64_t *counts
        const double *edges
        ptrdiff_t n_edges
        double parts
        double *rows
        ptrdiff_t rows_stride
        double radius, rows_scale, rows_most_sq

    ptrdiff_t scores_take(const score_images *, const score_model *, const score_sink *, int drop,
                          int64_t *room, int64_t *n_dropped)
    void scores_center(double *x, ptrdiff_t stride, ptrdiff_t n, ptrdiff_t m, const int32_t *group,
                       const double *means, const double *one)

    ctypedef struct score_rows:
        const double *x
        ptrdiff_t stride, m, size, first

    ctypedef struct score_pair:
        ptrdiff_t i, j

    void scores_differ(const score_rows *, score_pair *next, ptrdiff_t n, double *out,
                       ptrdiff_t step, int32_t *block)
    enum:
        SCORE_BLOCK
    void scores_within(const score_rows *, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                       double most, int64_t *vectors, int64_t *triangle, uint8_t *calm,
                       double *room)
    void scores_lengths(const score_rows *, ptrdiff_t n_blocks, ptrdiff_t q, int residual,
                        const double *edges, ptrdiff_t n_edges, int64_t *counts, double *room)

cdef extern from "kept.h" nogil:
    enum:
        KEPT_ROWS
        KEPT_WIDTH
    const double KEPT_MOST
    const double KEPT_SQUARE

    ctypedef struct kept_rows:
        const int16_t *images
        ptrdiff_t n, width
        const double *beside
        ptrdiff_t m

    ctypedef struct kept_model:
        int classes
        ptrdiff_t k
        const double *coef
        double back
        const int32_t *target
        double size

    ctypedef struct kept_sink:
        int64_t *total
        double units
        int64_t *squares
        double reach
        int64_t *counts
        ptrdiff_t bins

    void kept_whole(const double *x, ptrdiff_t n, ptrdiff_t d, const double *scales, double most,
                    int bits, double *wide, int16_t *narrow, ptrdiff_t stride)
    void kept_take(const kept_rows *, const kept_model *, const kept_sink *, double *room)

cdef dict KINDS = {
    "none": SCORE_PLAIN,
    "residual": SCORE_RESIDUAL,
    "gaussian": SCORE_GAUSSIAN,
    "binomial": SCORE_BINOMIAL,
    "poisson": SCORE_POISSON,
    "huber": SCORE_HUBER,
}

# No vector of integers that a row adds is longer: sums of 2^38 rows fit 64 bits.
UNITS = 1 << 24

# None that a pair of rows adds is: sums of 2^28 fit 64 bits.
PAIR_UNITS = 1 << 34

# What a row counts is a whole number of parts.
PARTS = 32

# Scores of a unit's rows are summed as integers, up to this: the sum does not depend on order.
STEPS = 2.0**40


def scale(Py_ssize_t q, units=UNITS):
    """Norm that a vector of q entries and norm 1 is scaled to: rounding adds q^(1/2) / 2."""
    return float(UNITS - np.ceil(np.sqrt(q) / 2) - 1) * (units / UNITS)


cdef class Score:
    """What the features z of an image (z, y, ...) are multiplied by to be the row's score.

    By `kind`: nothing ("none"); y, which is a residual ("residual"); by what the linear predictor
    coef . z of a family leaves of center + half y, for `target` = (center, half); by Huber's loss.
    Rows may have been clipped by the factor ones . z, where `ones` are given. With `offset` the
    image has one more number, which the linear predictor goes up by. `largest` is the largest
    linear predictor of a Poisson mean. With Huber's loss residuals count up to `bend`, and rows in
    full up to the squared norm `reach_sq` of z. With `curved` the multiplier is the root of the
    row's weight in the Hessian instead.
    """

    cdef score_model m
    cdef double[::1] coef, ones
    cdef tuple parameters

    def __cinit__(self, str kind, Py_ssize_t q, coef=None, ones=None, tuple target=(0.0, 1.0),
                  double largest=0.0, double bend=0.0, double reach_sq=0.0, bint offset=False,
                  bint curved=False):
        if q < 1:
            raise ValueError(f"q must be at least 1, got {q}")
        self.parameters = (kind, q, coef, ones, target, largest, bend, reach_sq, offset, curved)
        self.m.kind = KINDS[kind]
        self.m.q = q
        self.m.coef = self.m.ones = NULL
        self.m.center, self.m.half = target
        self.m.largest, self.m.bend, self.m.reach_sq = largest, bend, reach_sq
        self.m.offset, self.m.curved = offset, curved
        of_family = self.m.kind in (SCORE_GAUSSIAN, SCORE_BINOMIAL, SCORE_POISSON)
        if of_family != (coef is not None) or not of_family and (ones is not None or offset):
            raise ValueError("a family has coefficients, and nothing else has")
        if curved and not (of_family or self.m.kind == SCORE_HUBER):
            raise ValueError("only a family and Huber's loss have weights")
        if coef is not None:
            self.coef = self._vector(coef)
            self.m.coef = &self.coef[0]
        if ones is not None:
            self.ones = self._vector(ones)
            self.m.ones = &self.ones[0]

    def _vector(self, values):
        copy = np.array(values, np.float64)
        if copy.shape != (self.m.q,):
            raise ValueError(f"coefficients must have shape ({self.m.q},)")
        return copy

    @property
    def n_columns(self):
        return self.m.q + (self.m.kind != SCORE_PLAIN) + self.m.offset

    @property
    def q(self):
        return self.m.q

    @property
    def kind(self):
        return self.parameters[0]

    def __reduce__(self):
        return Score, self.parameters


# Images that are made where they are taken: so many numbers at a time, which stay in the cache.
cdef enum:
    STRIP = 1 << 12


cdef class Pairs:
    """rows[i] - rows[j] of i in [first, last) and all later j of its block, made where it is taken.

    Rows (n, m) lie by columns, and blocks of `size` of them follow each other; those of pairs are
    counted from that of the first row. A number is made of its two by one rounded operation. One
    thread at a time uses pairs.
    """

    cdef readonly Py_ssize_t n_columns, n_blocks
    cdef Py_ssize_t n_pairs
    cdef score_rows rows
    cdef score_pair next
    cdef object held

    def __cinit__(self, rows, Py_ssize_t size, Py_ssize_t first, Py_ssize_t last):
        cdef score_images x
        cdef Py_ssize_t i, m = rows.shape[1]
        self.held = described(rows, m, &x)
        if size < 1 or x.n % size or not 0 <= first <= last <= x.n:
            raise ValueError("rows are of whole blocks")
        self.n_columns, self.n_blocks = m, (last + size - 1) // size - first // size
        if self.n_blocks >= 2**31:
            raise ValueError("there are too many blocks")
        self.n_pairs = 0
        for i in range(first, last):
            self.n_pairs += size - 1 - i % size
        self.rows.x, self.rows.stride, self.rows.m = x.x, x.stride, m
        self.rows.size, self.rows.first = size, first

    def __len__(self):
        return self.n_pairs


cdef object described(images, Py_ssize_t width, score_images *found):
    """Say how images are read, by columns, and return what holds them."""
    found.group, found.n_groups = NULL, 0
    if isinstance(images, Images):
        if images.n_columns < width:
            raise ValueError(f"images must have {width} columns")
        found.x, found.n, found.stride = NULL, images.n_rows, 0
        return images
    if isinstance(images, Pairs):
        if images.n_columns < width:
            raise ValueError(f"pairs must have {width} columns")
        found.x, found.n, found.stride = NULL, len(images), 0
        return images
    if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] < width:
        raise ValueError(f"images must be an array of {width} columns")
    if images.dtype != np.float64 or not (
        images.flags.aligned and (images.strides[0] == 8 or images.shape[0] == 1)
        and images.strides[1] % 8 == 0
    ):
        images = np.asfortranarray(images, np.float64)
    cdef cnp.ndarray held = images
    found.x = <const double *>cnp.PyArray_DATA(held)
    found.n = held.shape[0]
    # The stride of an axis of length one means nothing.
    found.stride = held.strides[1] // 8 if width > 1 else found.n
    return held


cdef object taken(images, score_images *x, Score score, score_sink *sink, bint drop):
    """The first row that may not be used or -1, and how many were left out."""
    cdef Py_ssize_t q = score.m.q, bad = -1, first, rows, n = x.n, strip = n, i
    cdef int64_t n_dropped = 0, more = 0
    cdef Images made = images if isinstance(images, Images) else None
    cdef Pairs pairs = images if isinstance(images, Pairs) else None
    cdef size_t words = SCORE_ROWS * (2 * q + 2) + 8 * q, images_at = words
    cdef double *out
    cdef int32_t *blocks = NULL
    if made is not None or pairs is not None:
        strip = max(1, STRIP // (SCORE_ROWS * images.n_columns)) * SCORE_ROWS
        words += (strip + 8) * images.n_columns + strip
    cdef int64_t *room = <int64_t *>PyMem_Malloc(words * sizeof(int64_t))
    if room == NULL:
        raise MemoryError
    for i in range(SCORE_ROWS * q, (SCORE_ROWS + 8) * q):
        room[i] = 0
    out = <double *>(room + images_at)
    if pairs is not None:
        blocks = <int32_t *>(room + words - strip)
        pairs.next.i, pairs.next.j = pairs.rows.first, pairs.rows.first + 1
    with DefaultRounding(), nogil:
        first = 0
        while first < n and bad < 0:
            rows = min(strip, n - first)
            x.n = rows
            if made is not None:
                made.write(first, rows, out, strip + 8)
                x.x, x.stride = out, strip + 8
            if pairs is not None:
                scores_differ(&pairs.rows, &pairs.next, rows, out, strip + 8, blocks)
                x.x, x.stride = out, strip + 8
                if sink.total != NULL:
                    x.group, x.n_groups = blocks, <int32_t>pairs.n_blocks
            bad = scores_take(x, &score.m, sink, drop, room, &more)
            n_dropped += more
            if bad >= 0:
                bad += first
            if x.group != NULL and pairs is None:
                x.group += rows
            if sink.rows != NULL:
                sink.rows += rows
            first += rows
    PyMem_Free(room)
    return bad, n_dropped


cdef int sum_into(score_sink *sink, Score score, double clip, double most_sq,
                  cnp.ndarray total, Py_ssize_t n_groups, units=UNITS) except -1:
    """Have scores added to an array."""
    cdef Py_ssize_t q = score.m.q
    if total.dtype != np.int64 or not total.flags.c_contiguous or total.size != n_groups * q:
        raise ValueError("a total is of int64, without gaps, a row of q for each group")
    sink.total = <int64_t *>cnp.PyArray_DATA(total)
    sink.clip, sink.scale, sink.most_sq, sink.positive = clip, scale(q, units), most_sq, False
    return 0


# No row that is written in whole numbers is longer.
ROW_UNITS = 1 << 20


def row_scale(Py_ssize_t q):
    """Norm that a row of q whole numbers and norm 1 is scaled to: see `scale`."""
    return float(ROW_UNITS - np.ceil(np.sqrt(q)) - 2)


cdef int write_into(
    score_sink *sink, rows, Py_ssize_t n, Py_ssize_t q, double radius=0.0
) except -1:
    """Have scores written to an array, or with a radius as whole numbers."""
    sink.radius = radius
    if radius != 0:
        check_clip(radius)
        sink.rows_scale = row_scale(q)
        sink.rows_most_sq = (sink.rows_scale + np.ceil(np.sqrt(q) / 2) + 1) ** 2
    if rows.dtype != np.float64 or rows.shape != (n, q) or rows.strides[0] != 8 and n > 1:
        raise ValueError(f"rows must have shape ({n}, {q}), by columns")
    cdef cnp.ndarray held = rows
    sink.rows = <double *>cnp.PyArray_DATA(held)
    sink.rows_stride = held.strides[1] // 8 if q > 1 else n
    return 0


cdef int check_clip(double clip) except -1:
    if not 0 < clip < float("inf"):
        raise ValueError(f"a clip must be positive and finite, got {clip}")
    return 0


cdef int group_by(score_images *images, const int32_t[::1] groups, Py_ssize_t n_groups) except -1:
    if groups.shape[0] != images.n:
        raise ValueError(f"there must be {images.n} groups, as there are images")
    if not 0 < n_groups < 2**31:
        raise ValueError("there are too many groups")
    if images.n:
        images.group, images.n_groups = &groups[0], n_groups
    return 0


def clipped_sum(images, Score score, double clip, cnp.ndarray total, bint drop=False, rows=None,
                const int32_t[::1] groups=None, bint positive=False, double radius=0.0,
                units=UNITS):
    """total (q,) += sum of s min(1, clip / |s|) / clip, in units of 1 / scale(q, units).

    With `groups` total (n_groups, q), for each of them; of pairs, for each block. A `positive` s
    that has an integer below 0 adds nothing. `rows` get the scores, clipped by their public sizes,
    as `write` does.
    """
    cdef score_images x
    cdef score_sink sink
    cdef Py_ssize_t n_groups = 1 if groups is None else total.shape[0]
    check_clip(clip)
    held = described(images, score.n_columns, &x)
    if isinstance(images, Pairs):
        n_groups = images.n_blocks
    sink.total, sink.counts, sink.rows, sink.radius = NULL, NULL, NULL, 0.0
    sum_into(&sink, score, clip, <double>units * units, total, n_groups, units)
    sink.positive = positive
    if groups is not None:
        group_by(&x, groups, n_groups)
    if rows is not None:
        write_into(&sink, rows, x.n, score.m.q, radius)
    return taken(held, &x, score, &sink, drop)


def norm_counts(images, Score score, const double[::1] edges, int64_t[::1] counts,
                bint drop=False):
    """counts (m,) += PARTS for each score, by norm: bin i ends at edges[i], the last one nowhere.

    A score whose norm is bounded by a public size counts by that size, and what part of it it has.
    """
    cdef score_images x
    cdef score_sink sink
    cdef Py_ssize_t i
    held = described(images, score.n_columns, &x)
    if counts.shape[0] != edges.shape[0] or counts.shape[0] < 1:
        raise ValueError("there is a count for each edge")
    for i in range(1, edges.shape[0]):
        if not edges[i - 1] <= edges[i]:
            raise ValueError("edges must ascend")
    sink.total, sink.rows, sink.radius = NULL, NULL, 0.0
    sink.counts, sink.edges, sink.n_edges = &counts[0], &edges[0], edges.shape[0] - 1
    sink.parts = PARTS
    return taken(held, &x, score, &sink, drop)


def write(images, Score score, rows, bint drop=False, double radius=0.0):
    """rows (n, q) = scores, by columns; of those that are left out NaN.

    With a radius rows s min(1, radius / |s|) / radius in whole numbers, in units of 1 /
    row_scale(q), none longer than `ROW_UNITS`; zeros of those that are left out.
    """
    cdef score_images x
    cdef score_sink sink
    held = described(images, score.n_columns, &x)
    sink.total, sink.counts = NULL, NULL
    sink.clip = sink.scale = 0.0
    write_into(&sink, rows, x.n, score.m.q, radius)
    return taken(held, &x, score, &sink, drop)


def of_units(images, Score score, const Py_ssize_t[::1] starts, double largest):
    """Sums of scores over units, (n_units, q) by columns, of rows that begin at starts[i].

    No entry of a score is larger than `largest`: they are summed as integers of this / STEPS.
    """
    cdef score_images x
    cdef score_sink sink
    cdef Py_ssize_t i, k, end, n_units = starts.shape[0]
    held = described(images, score.n_columns, &x)
    if (n_units == 0) != (x.n == 0) or (n_units > 0 and starts[0] != 0):
        raise ValueError("starts must begin at 0, and there are rows if there are units")
    cdef int32_t[::1] units = np.empty(x.n, np.int32)
    for k in range(n_units):
        end = starts[k + 1] if k + 1 < n_units else x.n
        if not starts[k] < end <= x.n:
            raise ValueError("starts must increase")
        for i in range(starts[k], end):
            units[i] = k
    total = np.zeros((n_units, score.m.q), np.int64)
    if n_units and largest > 0:
        sink.total, sink.counts, sink.rows, sink.radius = NULL, NULL, NULL, 0.0
        sum_into(&sink, score, -1.0, 2.0**100, total, n_units)
        sink.scale = STEPS / largest
        group_by(&x, units, n_units)
        taken(held, &x, score, &sink, True)
    return np.asfortranarray(total * (largest / STEPS))


cdef object blocks_of(rows, Py_ssize_t size, Score score, score_rows *found, Py_ssize_t *n):
    """Say how blocks lie, of whose pairs a score is a product of differences, or these."""
    cdef score_images x
    held = described(rows, score.n_columns, &x)
    if size < 1 or x.n % size or score.m.kind not in (SCORE_PLAIN, SCORE_RESIDUAL):
        raise ValueError("rows are of whole blocks, and scores are products or rows")
    found.x, found.stride, found.m = x.x, x.stride, score.n_columns
    found.size, found.first, n[0] = size, 0, x.n // size
    return held


def pair_counts(rows, Py_ssize_t size, Score score, const double[::1] edges, int64_t[::1] counts):
    """counts (m,) += 1 for each pair of rows of a block by its score's length, as `norm_counts`."""
    cdef score_rows some
    cdef Py_ssize_t q = score.m.q, m = edges.shape[0], n
    _held = blocks_of(rows, size, score, &some, &n)
    if counts.shape[0] != m or m < 1:
        raise ValueError("there is a count for each edge")
    cdef double[::1] room = np.empty((SCORE_BLOCK + 8) * (q + 1) + 8 * m)
    with DefaultRounding(), nogil:
        scores_lengths(&some, n, q, score.m.kind == SCORE_RESIDUAL, &edges[0], m - 1, &counts[0],
                       &room[0])


# Most rows of a block that `within` takes.
BLOCK = SCORE_BLOCK


def within(rows, Py_ssize_t size, Score score, double most, int64_t[:, ::1] vectors=None,
           int64_t[::1] triangle=None):
    """Sums over all pairs of rows of blocks of which no score is longer than `most`; and of which.

    Rows (n, m) are whole numbers and lie by columns. `vectors` (n / size, q) become sums of scores,
    and those of their products are added to a `triangle`. Of other blocks nothing is taken.
    """
    cdef score_rows some
    cdef Py_ssize_t q = score.m.q, n
    _held = blocks_of(rows, size, score, &some, &n)
    if size > BLOCK or not 0 < most <= PAIR_UNITS:
        raise ValueError("blocks are of a few rows")
    if vectors is not None and score.m.kind == SCORE_PLAIN:
        raise ValueError("sums are of products")
    if vectors is not None and (vectors.shape[0] != n or vectors.shape[1] != q):
        raise ValueError(f"sums have shape ({n}, {q})")
    if triangle is not None and triangle.shape[0] != q * (q + 1) // 2:
        raise ValueError("a triangle has the products of q numbers")
    calm = np.zeros(n, np.bool_)
    if n == 0:
        return calm
    cdef uint8_t[::1] marks = calm.view(np.uint8)
    cdef double[::1] room = np.empty((SCORE_BLOCK + 1) * (3 * q + 4))
    with DefaultRounding(), nogil:
        scores_within(&some, n, q, score.m.kind == SCORE_RESIDUAL, most * most,
                      NULL if vectors is None else &vectors[0, 0],
                      NULL if triangle is None else &triangle[0], <uint8_t *>&marks[0], &room[0])
    return calm


def center(images, const int32_t[::1] groups, const double[:, ::1] means, const double[::1] one):
    """images (n, m) -= means[groups] * one, by columns."""
    cdef score_images x
    cdef Py_ssize_t n = images.shape[0], m = means.shape[1], i
    if described(images, m, &x) is not images or images.shape[1] != m:
        raise ValueError(f"images must have {m} columns, and lie by columns")
    if groups.shape[0] != n or one.shape[0] != n:
        raise ValueError(f"there must be {n} groups and entries, as there are images")
    for i in range(n):
        if not 0 <= groups[i] < means.shape[0]:
            raise ValueError("there is a mean for each group")
    if n == 0:
        return
    with DefaultRounding(), nogil:
        scores_center(<double *>x.x, x.stride, n, m, &groups[0], &means[0, 0], &one[0])


# Whole images of rows: see kept.h.

# What no row adds a longer vector than, in integers of a sum of scores; and the largest square.
KEPT_UNITS = KEPT_MOST
SQUARE_UNITS = KEPT_SQUARE

# Lengths of rows as whole numbers: of a row, and of its image.
ROW_BITS, IMAGE_BITS = 24, 15


def whole_length(int bits, Py_ssize_t d):
    """What a length is scaled to, so that rounding makes no row of d numbers 2^bits long."""
    return 2.0**bits * (1 - 2.0**-36) - np.sqrt(d) / 2 - 1


def whole_rows(const double[:, ::1] x, double most):
    """Rows (n, d) shortened to `most`, as whole numbers shorter than 2^ROW_BITS; or zeros."""
    cdef Py_ssize_t n = x.shape[0], d = x.shape[1]
    cdef int bits = ROW_BITS
    check_clip(most)
    found = np.empty((n, d))
    cdef double[:, ::1] out = found
    if n and d:
        with DefaultRounding(), nogil:
            kept_whole(&x[0, 0], n, d, NULL, most, bits, &out[0, 0], NULL, d)
    return found


def whole_images(const double[:, ::1] products, const double[::1] scales, double radius):
    """Images (n, r) = products * scales, shortened to a radius, below 2^IMAGE_BITS; or zeros.

    Each is filled up with zeros to a multiple of `KEPT_WIDTH` numbers.
    """
    cdef Py_ssize_t n = products.shape[0], r = products.shape[1]
    cdef int bits = IMAGE_BITS
    check_clip(radius)
    if scales.shape[0] != r or r < 1:
        raise ValueError("there is a scale for each number of an image")
    found = np.zeros((n, (r + KEPT_WIDTH - 1) // KEPT_WIDTH * KEPT_WIDTH), np.int16)
    cdef int16_t[:, ::1] out = found
    cdef double[::1] room = np.empty(r)
    if n:
        with DefaultRounding(), nogil:
            kept_whole(&products[0, 0], n, r, &scales[0], radius, bits, &room[0], &out[0, 0],
                       out.shape[1])
    return found


def take_images(const int16_t[:, ::1] images, const double[:, ::1] beside,
                const double[:, ::1] coef, double back, bint classes,
                const int32_t[::1] target=None, double size=1.0,
                int64_t[:, ::1] total=None, double units=1.0,
                int64_t[::1] squares=None, double reach=1.0,
                int64_t[:, ::1] counts=None):
    """Feed images and what is beside them to sums of a model of classes or of fits: see kept.h."""
    cdef kept_rows rows
    cdef kept_model model
    cdef kept_sink sink
    cdef Py_ssize_t k = coef.shape[0], width = images.shape[1], i
    if width % KEPT_WIDTH or coef.shape[1] != width or k < 1 or width < 1:
        raise ValueError("coefficients are of images, filled up with zeros as these are")
    if beside.shape[0] != images.shape[0] or beside.shape[1] < 1:
        raise ValueError("there is a number beside each image")
    if classes != (target is None):
        raise ValueError("fits are of targets, and classes have none")
    if target is not None and target.shape[0] != k:
        raise ValueError("each fit has a target")
    if target is not None:
        for i in range(k):
            if not 0 <= target[i] < beside.shape[1]:
                raise ValueError("targets are beside images")
    if total is not None and (total.shape[0] != k or total.shape[1] != width):
        raise ValueError(f"a total has shape ({k}, {width})")
    if squares is not None and (classes or squares.shape[0] != 1 or k > 2):
        raise ValueError("squares are of one fit, or of two")
    if counts is not None and (not classes or counts.shape[0] < 1 or counts.shape[1] != 2):
        raise ValueError("counts are of classes, by bins")
    if images.shape[0] == 0:
        return
    rows.images, rows.n, rows.width = &images[0, 0], images.shape[0], width
    rows.beside, rows.m = &beside[0, 0], beside.shape[1]
    model.classes, model.k, model.coef, model.back = classes, k, &coef[0, 0], back
    model.target, model.size = NULL if target is None else &target[0], size
    sink.total, sink.units = NULL if total is None else &total[0, 0], units
    sink.squares = NULL if squares is None else &squares[0]
    sink.reach = reach
    sink.counts, sink.bins = NULL, 0
    if counts is not None:
        sink.counts, sink.bins = &counts[0, 0], counts.shape[0]
    cdef double[::1] room = np.empty(KEPT_ROWS * (width + 9 * k) + k * width)
    with DefaultRounding(), nogil:
        kept_take(&rows, &model, &sink, &room[0])
