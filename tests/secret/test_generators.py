import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.helpers import refuses

from privgram.secret.generators import ChaCha20, resolve

pytestmark = pytest.mark.os_entropy

# RFC 8439, appendix A.1, vector 1: the first 64 bytes under the key of zeros.
ZERO_KEY_STREAM = bytes.fromhex(
    "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
)


def test_is_chacha20_under_the_operating_systems_key(monkeypatch):
    monkeypatch.setattr("os.urandom", lambda size: bytes(bytearray(size)))
    words = ChaCha20().random_raw(len(ZERO_KEY_STREAM) // 8)
    assert words.astype("<u8").tobytes() == ZERO_KEY_STREAM


def first_words(_=None):
    return tuple(ChaCha20().random_raw(4).tolist())


def test_every_call_has_a_key_of_its_own():
    assert len({first_words() for _ in range(100)}) == 100


def test_threads_have_keys_of_their_own():
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(first_words, range(100)))) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # from Python 3.12
def test_forked_processes_have_keys_of_their_own():
    ChaCha20()  # anything there is to inherit, the children inherit
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert len({first_words(), *pool.map(first_words, range(20), chunksize=1)}) == 21


def test_default_is_fresh_and_not_reproducible():
    generator, reproducible = resolve(None)
    assert isinstance(generator, np.random.Generator)
    assert reproducible is False
    assert generator.random() != resolve(None)[0].random()


def test_callers_generator_is_used_as_it_is():
    mine = np.random.default_rng(1)
    generator, reproducible = resolve(mine)
    assert generator is mine
    assert reproducible is True


@pytest.mark.parametrize(
    "rng", [987654321, np.int64(987654321), np.random.PCG64(1), np.random, "seed", True]
)
def test_anything_else_is_refused_with_the_remedy(rng):
    with pytest.raises(TypeError, match=r"numpy\.random\.default_rng\(seed\)") as caught:
        resolve(rng)
    assert "987654321" not in str(caught.value)


def test_legacy_state_is_refused():
    refuses(lambda: resolve(np.random.RandomState(1)), TypeError, "not RandomState")


@pytest.mark.slow
def test_import_leaves_scipy_unloaded():
    code = "import sys, privgram.secret.generators\nprint('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_generator_of_a_release_draws_nothing_in_a_forked_child(monkeypatch):
    """Its noise would be the parent's; here the process is another by its number."""
    rng, _ = resolve(None)
    rng.random()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for draw in (lambda: rng.random(), lambda: rng.bit_generator):
        refuses(draw, RuntimeError, "forked in the middle of a release")
