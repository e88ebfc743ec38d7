"""Discrete Gaussian and Laplace noise, and normal variates, exactly but for what it leaves.

See `privgram.exact.discrete`, which decides what is left, and docs/theory/finite-precision.md.
"""
import numpy as np

from libc.stdint cimport int64_t, uint64_t, uintptr_t
from numpy.random cimport bitgen_t

from privgram._core._bitgen cimport bitgen_of

from privgram._core.chacha import ChaCha20


cdef extern from "discrete.h":
    const int DISCRETE_BLOCKS
    const uint64_t DISCRETE_MARGIN
    ctypedef struct discrete_law:
        uint64_t scale
        uint64_t weight[257]
    ctypedef struct discrete_words:
        bitgen_t* bits
        void (*read)(void*, uint64_t*, Py_ssize_t) noexcept nogil
        int next
        int end
    ctypedef struct discrete_proposal:
        int negative
        int block
        uint64_t offset[2]
        uint64_t first
    void discrete_prepare(
        discrete_law* law, int power, int shift, bint whole, uint64_t rate67,
        const uint64_t* decay, uint64_t margin,
    ) nogil
    Py_ssize_t discrete_fill(
        const discrete_law* law, discrete_words* words, int64_t* high, uint64_t* low,
        Py_ssize_t at, Py_ssize_t n, discrete_proposal* undecided,
    ) nogil
    uint64_t discrete_word(discrete_words* words) nogil

cdef extern from "chacha.h":
    void chacha_fill(void*, uint64_t*, Py_ssize_t) noexcept nogil

BLOCKS = DISCRETE_BLOCKS
MARGIN = DISCRETE_MARGIN


cdef class Words:
    """The words of a bit generator, in their order: a call gives the next one as an integer.

    Laws read ahead, and use up what they have read: between draws nobody sees that.
    """

    cdef discrete_words _words
    cdef object _generator

    def __init__(self, bit_generator):
        self._words.bits = bitgen_of(bit_generator)
        self._words.read = NULL
        if isinstance(bit_generator, ChaCha20):
            self._words.read = chacha_fill
        self._words.next = self._words.end = 0
        self._generator = bit_generator

    def __call__(self):
        with self._generator.lock:
            return discrete_word(&self._words)

    @property
    def address(self):
        """Where they are, for the same code compiled elsewhere."""
        return <uintptr_t>&self._words


cdef class Law:
    """Integers y with probability in proportion to exp(-A (|y| / 2^shift)^power).

    Parameters
    ----------
    power : 1 or 2
    shift : int
    rate67 : int
        floor(2^67 A), or 0 where `shift` is.
    decay : int
        floor(2^127 e^-A).
    margin : int
        Bound of the errors of a threshold, in 2^-64. A larger one leaves more to the caller and
        draws the same.
    whole : bool
        Integers; else real numbers y, of which floor(y) is drawn. `shift` is 64 then.
    """

    cdef discrete_law _law

    def __init__(
        self, int power, int shift, uint64_t rate67, decay, uint64_t margin=MARGIN, bint whole=True
    ):
        cdef uint64_t[2] words = [decay >> 64, decay & (2**64 - 1)]
        discrete_prepare(&self._law, power, shift, whole, rate67, words, margin)

    @property
    def scale(self):
        """K of docs/theory/finite-precision.md."""
        return self._law.scale

    @property
    def weights(self):
        """Of 2^63, how often each block is proposed, and at last all beyond; shape (257,)."""
        return np.array(<uint64_t[:257]>self._law.weight)

    def fill(
        self,
        Words words not None,
        int64_t[::1] high,  # OUT
        uint64_t[::1] low,  # OUT
        Py_ssize_t start,
    ):
        """Draw high * 2**64 + low from index `start` on.

        Returns None, or what the caller has to decide: index, whether y is negative, block, offset
        in it, and the first word of the uniform number; of what is beyond all blocks the index and
        the sign.
        """
        cdef discrete_proposal left
        cdef Py_ssize_t size = high.shape[0], at
        with words._generator.lock, nogil:
            at = discrete_fill(&self._law, &words._words, &high[0], &low[0], start, size, &left)
        if at == size:
            return None
        offset = int(left.offset[0]) << 64 | left.offset[1]
        return at, bool(left.negative), left.block, offset, left.first
