"""ChaCha20 as a bit generator: the vectors of RFC 8439, streams of other programs, secrecy."""

import copy
import ctypes
import os
import pickle
import sys

import numpy as np
import pytest
from support.helpers import refuses

from privgram._core.draws import ChaCha20

COUNTING = bytes(range(32))

# RFC 8439, section 2.3.2 and appendix A.1: key, bytes 48 to 63 of the input, and the block.
VECTORS = {
    "2.3.2": (
        COUNTING,
        "01000000000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    "A.1 1": (
        bytes(32),
        "00" * 16,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "A.1 2": (
        bytes(32),
        "01" + "00" * 15,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    "A.1 5": (
        bytes(32),
        "00" * 15 + "02",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
}


def stream(key, size, last=bytes(16)):
    return ChaCha20(key, last).random_raw(size // 8).astype("<u8").tobytes()


@pytest.mark.parametrize(("key", "last", "block"), VECTORS.values(), ids=VECTORS)
def test_vectors_of_the_rfc(key, last, block):
    assert stream(key, 64, bytes.fromhex(last)).hex() == block


def test_stream_is_that_of_randomgen():
    randomgen = pytest.importorskip("randomgen")
    key = int.from_bytes(COUNTING, "little")
    ours, theirs = ChaCha20(COUNTING), randomgen.ChaCha(key=key, rounds=20)
    np.testing.assert_array_equal(ours.random_raw(10_001), theirs.random_raw(10_001))
    ours, theirs = np.random.Generator(ours), np.random.Generator(theirs)
    for draw in (
        lambda rng: rng.integers(0, 1000, 777, dtype=np.int32),  # numbers of four bytes
        lambda rng: rng.random(1001),
        lambda rng: rng.standard_normal(1001),
    ):
        np.testing.assert_array_equal(draw(ours), draw(theirs))


@pytest.mark.parametrize("start", [0, 3, 2**32 - 5, 2**64 - 5])
def test_counter_has_64_bits_and_is_carried(start):
    """OpenSSL's counter has 32, so each block is asked for by itself."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    nonce = bytes(range(100, 108))
    expected = b""
    for i in range(20):
        last = ((start + i) % 2**64).to_bytes(8, "little") + nonce
        cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(COUNTING, last), mode=None)
        expected += cipher.encryptor().update(bytes(64))
    assert stream(COUNTING, len(expected), start.to_bytes(8, "little") + nonce) == expected


def test_numbers_are_read_from_the_stream_in_order():
    words = np.frombuffer(stream(COUNTING, 4096), "<u4").astype(np.uint64)
    bits = ChaCha20(COUNTING)
    interface = bits.ctypes
    for i in range(300):  # beyond what is made at a time, from odd places
        assert interface.next_uint32(interface.state_address) == words[3 * i]
        assert interface.next_uint64(interface.state_address) == (
            words[3 * i + 1] | words[3 * i + 2] << np.uint64(32)
        )
    bits = ChaCha20(COUNTING)
    doubles = np.random.Generator(bits).random(100)
    pairs = words[:200:2] | words[1:200:2] << np.uint64(32)
    np.testing.assert_array_equal(doubles, np.ldexp((pairs >> np.uint64(11)).astype(float), -53))


@pytest.mark.os_entropy
def test_default_key_is_the_operating_systems(monkeypatch):
    assert len({ChaCha20().random_raw() for _ in range(100)}) == 100
    keys = []
    monkeypatch.setattr("os.urandom", lambda size: keys.append(bytes(bytearray(size))) or keys[-1])
    assert stream(None, 64).hex() == VECTORS["A.1 1"][2]
    assert keys == [bytes(32)]


def test_bad_keys_are_refused():
    for key, last in ((b"", bytes(16)), (bytes(31), bytes(16)), (COUNTING, bytes(15))):
        with pytest.raises(ValueError, match="32 bytes"):
            ChaCha20(key, last)
    refuses(lambda: ChaCha20(42), TypeError, "bytes")


def test_callers_key_is_left_alone():
    key = bytes(bytearray(COUNTING))
    ChaCha20(key)
    assert key == COUNTING


def test_key_is_not_to_be_had():
    bits = ChaCha20(COUNTING)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy, lambda bits: bits.state):
        with pytest.raises((TypeError, NotImplementedError)):
            leak(bits)
    refuses(lambda: pickle.dumps(np.random.Generator(bits)), TypeError, "secret")
    assert "\\x01\\x02" not in repr(bits)


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="reads memory that CPython has freed",
)
def test_key_and_stream_are_overwritten_when_the_generator_is_dropped():
    bits = ChaCha20(COUNTING)
    bits.random_raw()
    address, size = bits.ctypes.state_address, 32 + 8 + 8 + 4 + 512
    held = ctypes.string_at(address, size)
    assert held.startswith(COUNTING)
    unused = held[-400:-300]
    del bits
    left = ctypes.string_at(address, size)  # freed, and still this process's
    assert COUNTING[16:] not in left
    assert unused not in left
