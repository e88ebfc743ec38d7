"""ChaCha20 [1]_ as one of NumPy's bit generators.

References
----------
.. [1] Y. Nir and A. Langley, "ChaCha20 and Poly1305 for IETF protocols", RFC 8439, 2018.
"""
import os

from numpy.random.bit_generator import SeedlessSeedSequence

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from numpy.random.bit_generator cimport BitGenerator


cdef extern from "chacha.h":
    ctypedef struct chacha:
        pass
    void chacha_init(chacha*, const uint8_t*, const uint8_t*) nogil
    void chacha_wipe(void*, size_t) nogil
    uint32_t chacha_next32(void*) nogil
    uint64_t chacha_next64(void*) nogil
    double chacha_next_double(void*) nogil


cdef class ChaCha20(BitGenerator):
    """The stream of ChaCha20, of twenty rounds and a 64-bit counter, under a key of 256 bits.

    The stream's bytes are read in their order as little-endian numbers of four or eight bytes,
    and the upper 53 bits of eight as a float64. The key is overwritten when the generator is
    dropped, and is not to be had from it: it has no state to read and is not pickled.

    Parameters
    ----------
    key : bytes of length 32, optional
        By default from the operating system. Who has the key can take the noise off.
    last : bytes of length 16
        Bytes 48 to 63 of the first block's input: the counter, of eight bytes, and a nonce.
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
