"""ChaCha20 as one of NumPy's bit generators, noise in whole numbers by it, and its adding.

Discrete Gaussian and Laplace noise, and normal variates, are exact but for what is left to
`privgram.exact.discrete`, which decides it; see docs/theory/finite-precision.md. Sums of 128 bits
with noise are rounded to a grid as `privgram.exact.int128` does it.
"""
import os

import numpy as np
from numpy.random.bit_generator import SeedlessSeedSequence

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from numpy.random cimport bitgen_t
from numpy.random.bit_generator cimport BitGenerator

from privgram._core._bitgen cimport bitgen_of


cdef extern from "chacha.h":
    ctypedef struct chacha:
        pass
    void chacha_init(chacha*, const uint8_t*, const uint8_t*) nogil
    void chacha_wipe(void*, size_t) nogil
    uint32_t chacha_next32(void*) nogil
    uint64_t chacha_next64(void*) nogil
    double chacha_next_double(void*) nogil
    void chacha_fill(void*, uint64_t*, Py_ssize_t) noexcept nogil


cdef class ChaCha20(BitGenerator):
    """The stream of ChaCha20 [1]_, of twenty rounds and a 64-bit counter, under a key of 256 bits.

    The stream's bytes are read in their order as little-endian numbers of four or eight bytes,
    and the upper 53 bits of eight as a float64. The key is overwritten when the generator is
    dropped, and is not to be had from it: it has no state to read and is not pickled.

    Parameters
    ----------
    key : bytes of length 32, optional
        By default from the operating system. Who has the key can take the noise off.
    last : bytes of length 16
        Bytes 48 to 63 of the first block's input: the counter, of eight bytes, and a nonce.

    References
    ----------
    .. [1] Y. Nir and A. Langley, "ChaCha20 and Poly1305 for IETF protocols", RFC 8439, 2018.
    """

    cdef chacha _chacha

    def __init__(self, bytes key=None, bytes last=bytes(16)):
        fresh = key is None
        if fresh:
            key = os.urandom(32)
        if len(key) != 32 or last is None or len(last) != 16:
            raise ValueError("a key has 32 bytes, and the end of an input 16")
        BitGenerator.__init__(self, SeedlessSeedSequence())
        chacha_init(&self._chacha, <const uint8_t*>key, <const uint8_t*>last)
        if fresh:
            chacha_wipe(PyBytes_AS_STRING(key), 32)  # nobody else has it
        self._bitgen.state = &self._chacha
        self._bitgen.next_uint64 = chacha_next64
        self._bitgen.next_uint32 = chacha_next32
        self._bitgen.next_double = chacha_next_double
        self._bitgen.next_raw = chacha_next64

    def __dealloc__(self):
        chacha_wipe(&self._chacha, sizeof(chacha))

    def __reduce__(self):
        raise TypeError("a generator of noise is not copied or pickled: its key is secret")


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
        discrete_law* law, int shift, bint whole, uint64_t rate67,
        const uint64_t* decay, uint64_t margin,
    ) nogil
    Py_ssize_t discrete_fill(
        const discrete_law* law, discrete_words* words, int64_t* high, uint64_t* low,
        Py_ssize_t at, Py_ssize_t n, discrete_proposal* undecided,
    ) nogil
    uint64_t discrete_word(discrete_words* words) nogil

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
    """Integers y with probability in proportion to exp(-A (y / 2^shift)^2).

    Parameters
    ----------
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
        self, int shift, uint64_t rate67, decay, uint64_t margin=MARGIN, bint whole=True
    ):
        cdef uint64_t[2] words = [decay >> 64, decay & (2**64 - 1)]
        discrete_prepare(&self._law, shift, whole, rate67, words, margin)

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


cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    typedef unsigned __int128 u128;

    static inline u128 joined(int64_t high, uint64_t low)
    {
        return (u128)(uint64_t)high << 64 | low;
    }

    /* The multiple of 2^exponent nearest to total 2^shift + noise, counted in grid steps: as
     * int128.round_to_grid does it, to the last bit. */
    static inline double grid_steps(u128 total, u128 noise, int shift, int exponent)
    {
        u128 value = (total << shift) + noise;
        if (exponent)
            value += (u128)1 << (exponent - 1);
        value = (u128)((__int128)value >> exponent);
        const int64_t low = (int64_t)(uint64_t)value;
        const uint64_t high = (uint64_t)(value >> 64) + (low < 0);
        return (double)(int64_t)high * 0x1p64 + (double)low;
    }

    enum { SIDE = 32 }; /* rows of noise: as many lines of cache are written at once */

    static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b)
    {
        return a < b ? a : b;
    }

    /* Entries of total: the lower triangle, row by row; of noise: those right of the diagonal in
     * the rows from `first` to `stop`, row by row. */
    static void noisy_rows(ptrdiff_t d, ptrdiff_t first, ptrdiff_t stop, const int64_t *high,
                           const uint64_t *low, const int64_t *noise_high,
                           const uint64_t *noise_low, int shift, int exponent, double step,
                           double *out)
    {
        const ptrdiff_t before = first * (2 * d - first - 1) / 2;
        for (ptrdiff_t j0 = first; j0 < stop; j0 += SIDE)
            for (ptrdiff_t i = j0 + 1; i < d; i++)
                for (ptrdiff_t j = j0; j < least(least(j0 + SIDE, stop), i); j++) {
                    const ptrdiff_t at = i * (i + 1) / 2 + j;
                    const ptrdiff_t of = j * (2 * d - j - 1) / 2 - before + i - j - 1;
                    out[i * d + j] = out[j * d + i] =
                        step * grid_steps(joined(high[at], low[at]),
                                          joined(noise_high[of], noise_low[of]), shift, exponent);
                }
    }
    """
    void c_noisy_rows "noisy_rows"(
        Py_ssize_t d, Py_ssize_t first, Py_ssize_t stop, const int64_t* high, const uint64_t* low,
        const int64_t* noise_high, const uint64_t* noise_low,
        int shift, int exponent, double step, double* out,
    ) nogil


def noisy_rows(total, noise, Py_ssize_t first, Py_ssize_t stop, int shift, int exponent,
               double step, double[:, ::1] out):  # OUT
    """Add noise to entries of a symmetric matrix right of its diagonal, in some rows, and round.

    Written are step times the whole numbers nearest to (total 2^shift + noise) / 2^exponent. Of the
    total there is the lower triangle, and of noise what is right of the diagonal in the rows from
    `first` to `stop`, both row by row.
    """
    cdef const int64_t[::1] high = total[0], noise_high = noise[0]
    cdef const uint64_t[::1] low = total[1], noise_low = noise[1]
    cdef Py_ssize_t d = out.shape[0]
    if not 0 <= first < stop < d:
        raise ValueError(f"no rows from {first} to {stop} have noise right of the diagonal")
    _check([high.shape[0], low.shape[0], noise_high.shape[0], noise_low.shape[0], out.shape[1]],
           d, (stop - first) * (2 * d - first - stop - 1) // 2, shift, exponent)
    with nogil:
        c_noisy_rows(d, first, stop, &high[0], &low[0], &noise_high[0], &noise_low[0], shift,
                     exponent, step, &out[0, 0])


def _check(sizes, Py_ssize_t d, Py_ssize_t drawn, int shift, int exponent):
    cdef Py_ssize_t triangle = d * (d + 1) // 2
    if d < 1 or sizes != [triangle, triangle, drawn, drawn, d]:
        raise ValueError("the parts must be those of one symmetric matrix")
    if not (0 <= shift < 64 and 0 <= exponent < 127):
        raise ValueError(f"shift {shift} or exponent {exponent} beyond 128 bits")
