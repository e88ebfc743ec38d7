"""The floating-point environment of the caller: -ffast-math libraries change it for all."""

import ctypes
import ctypes.util
import platform
import struct
from contextlib import contextmanager

import numpy as np
import pytest

from privgram import Columns, SecondMoment, Unit, second_moment

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux", reason="sets MXCSR"
)

FLUSH, DOWN, UP = 0x8040, 0x2000, 0x4000


@contextmanager
def environment(bits):
    """Set bits of MXCSR in this thread, as the start-up code of such a library does."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    saved = ctypes.create_string_buffer(32)
    libm.fegetenv(saved)
    (mxcsr,) = struct.unpack_from("<I", saved, 28)
    changed = ctypes.create_string_buffer(saved.raw, 32)
    struct.pack_into("<I", changed, 28, mxcsr | bits)
    libm.fesetenv(changed)
    try:
        yield
    finally:
        libm.fesetenv(saved)


@pytest.mark.parametrize("bits", [FLUSH, DOWN, UP])
@pytest.mark.parametrize("dtype", ["f8", ">f8", "i8", "u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_scaling(rng, bits, dtype, order):
    """Subnormal bounds and values, and integers beyond 2**53, which are rounded."""
    integers = dtype in ("i8", "u8")
    width = 3e17 if integers else 3e-308
    bounds = {f"c{j}": (0 if integers else -width / 3, width * (1 + j / 7)) for j in range(5)}
    x = np.asarray((rng.random((500, 5)) * width).astype(dtype), order=order)
    moments = [second_moment(x, columns=Columns(bounds))]
    with environment(bits):
        columns = Columns(bounds)
        moments.append(second_moment(x, columns=columns, threads=1))
        moments.append(second_moment(x, columns=columns, threads=2))
        moments.append(SecondMoment(5, columns.bound, columns=columns).update(x))
        assert (np.float64(1e-300) * 1e-10 == 0.0) == (bits == FLUSH), "left as it was"
    # Written down here: Python itself misspells subnormal numbers while they are flushed.
    assert len({moment.to_bytes() for moment in moments}) == 1


@pytest.mark.parametrize("bits", [FLUSH, DOWN, UP])
@pytest.mark.parametrize("threads", [1, 2])
def test_units(rng, bits, threads):
    """Their rows are scaled after they were brought together, by whichever thread."""
    table = {f"c{j}": rng.uniform(-3, 3, 2000) for j in range(3)}
    table["person"] = rng.integers(0, 300, 2000)
    columns = Columns({f"c{j}": (-1.0 / 3, 2.0 / (j + 7)) for j in range(3)})
    unit = Unit("person", bound=2.0)
    whole = second_moment(table, columns=columns, unit=unit, threads=threads)
    with environment(bits):
        other = second_moment(table, columns=columns, unit=unit, threads=threads)
    assert whole.to_bytes() == other.to_bytes()
