"""Memory that somebody writes to during a pass: whatever was read, no row counts for too much."""

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from privgram import Columns, second_moment

BOUND, D = 1.0, 22
#: Rows far beyond the bound, and rows so close below it that one wrong factor shows in the trace.
LARGE, SMALL = 60.0, 0.2132


def check(moment, n):
    """The trace is at most n B^2, in integers: nobody has more than the bound."""
    hi, lo = moment.int128()
    trace = sum(int(h) * 2**64 + int(v) for h, v in zip(hi.diagonal(), lo.diagonal(), strict=True))
    assert moment.n_rows + moment.n_dropped == n
    assert 0 <= trace <= n * 4**20


@pytest.fixture
def alternate():
    """Let a thread fill an array with one value and another, in turn, as long as the test lasts."""
    over = threading.Event()
    threads = []

    def start(x, large, small):
        def write():
            while not over.is_set():
                x[:] = large
                x[:] = small

        threads.append(threading.Thread(target=write))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


ARRAYS = {
    "float64": lambda n: np.zeros((n, D)),
    "float32": lambda n: np.zeros((n, D), np.float32),
    "Fortran": lambda n: np.zeros((n, D), order="F"),
    "gaps": lambda n: np.zeros((n, D + 3))[:, 1:-2],
    "strided": lambda n: np.zeros((2 * n, 2 * D))[::2, ::2],
    "big-endian": lambda n: np.zeros((n, D), ">f8"),
    "integers": lambda n: np.zeros((n, D), np.int64),
    "misaligned": lambda n: np.zeros(8 * n * D + 1, np.uint8)[1:].view("f8").reshape(n, D),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ARRAYS)
def test_thread_that_writes(impl, alternate, kind):
    """Rows of norm 280 whose factor would be that of rows within the bound."""
    x = ARRAYS[kind](2000)
    acc = impl(D, BOUND)
    scaled = kind in ("big-endian", "integers")
    large, small = (60, 0) if kind == "integers" else (LARGE, SMALL)
    alternate(x, large, small)
    n = 0
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        # What BlockReader converts is private by then.
        assert acc.update(x.astype(float) if scaled else x) == -1
        n += len(x)
    check(acc, n)


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("scaled", [False, True])
def test_whole_pass(alternate, kind, scaled):
    x = ARRAYS[kind](20_000)
    large, small = (60, 0) if kind == "integers" else (LARGE, SMALL)
    columns = Columns({f"c{j}": (-1, 1) for j in range(D)}) if scaled else None
    alternate(x, large, small)
    for _ in range(5):
        check(second_moment(x, BOUND, columns=columns, threads=2), len(x))


def test_arrow_columns(alternate):
    pa = pytest.importorskip("pyarrow")
    x = np.zeros((D, 2000))
    table = pa.table({f"c{j}": pa.array(x[j]) for j in range(D)})  # in place
    alternate(x, LARGE, SMALL)
    for _ in range(10):
        check(second_moment(table, BOUND), 2000)


@pytest.mark.skipif("QEMU_CPU" in os.environ, reason="it starts a process that QEMU does not run")
def test_process_that_writes_to_the_mapped_file(tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.zeros((5000, D)))
    script = """
import sys
import numpy as np
x = np.load(sys.argv[1], mmap_mode="r+")
print("writing", flush=True)
while True:
    x[:] = 60.0
    x[:] = 0.03
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout.readline() == "writing\n"
            x = np.load(path, mmap_mode="r")
            for _ in range(40):
                check(second_moment(x, BOUND, threads=1), len(x))
            # By its path it is read through a buffer, as no lease is to be had; mtime may stand.
            with suppress(OSError):
                check(second_moment(path, BOUND), len(x))
        finally:
            writer.kill()
