"""What the benchmarks share: data, the limits of the machine, threads over blocks, timing."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np

from privgram._core import rows

HERE = Path(__file__).parent
CORES = 2
BOUND_PER_SQRT_D = 1.0  # of standard normal rows about half are clipped

# `make bench BENCH_ARGS=--quick`: to see that everything runs, and about how fast.
QUICK = "PRIVGRAM_BENCH_QUICK" in os.environ


def size(full: int, shrink: int = 8) -> int:
    """A number of rows or mebibytes, smaller in a quick run."""
    return full // shrink if QUICK else full


# Tables of some 700 MB, far beyond a last-level cache; d: rows.
SHAPES = {
    d: size(n) for d, n in {22: 2**22, 42: 2**21, 100: 2**20, 500: 2**17, 2000: 2**15}.items()
}


@cache
def table(d: int, dtype: str = "float64", order: str = "C", shrink: int = 1) -> np.ndarray:
    """Standard normal rows, made of a few megabytes repeated."""
    n = SHAPES[d] // shrink
    x = np.empty((n, d), dtype, order)
    some = np.random.default_rng(d).standard_normal((4096, d))
    for start in range(0, n, 4096):
        x[start : start + 4096] = some[: n - start]
    return x


@cache
def compiled(source: str, *flags: str) -> ctypes.CDLL:
    """Compile a C file for this machine and load it."""
    out = Path(tempfile.mkdtemp(prefix="privgram-bench-")) / (Path(source).stem + ".so")
    options = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, *flags, "-o", out, HERE / source, "-lm"], check=True)
    return ctypes.CDLL(str(out))


@cache
def limits() -> ctypes.CDLL:
    lib = compiled("limits.c", "-ffp-contract=fast")
    lib.fma_peak.argtypes, lib.fma_peak.restype = [ctypes.c_int64], ctypes.c_int64
    lib.read_all.argtypes, lib.read_all.restype = (
        [ctypes.c_void_p, ctypes.c_size_t],
        ctypes.c_double,
    )
    return lib


def in_threads(work, threads: int) -> float:
    """Seconds that `threads` simultaneous calls of work(index) take."""
    if threads == 1:
        start = time.perf_counter()
        work(0)
        return time.perf_counter() - start
    gate = threading.Barrier(threads + 1)

    def run(index):
        gate.wait()
        work(index)

    pool = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for t in pool:
        t.start()
    gate.wait()
    start = time.perf_counter()
    for t in pool:
        t.join()
    return time.perf_counter() - start


def read_seconds(x: np.ndarray, threads: int = CORES) -> float:
    """Time to read a contiguous array once, doing nothing with it."""
    lib, n = limits(), x.nbytes // 8 // threads
    return in_threads(lambda i: lib.read_all(x.ctypes.data + 8 * n * i, n), threads)


def fma_flops(threads: int = CORES, steps: int = 1_000_000) -> float:
    """Flops a second of FMAs in registers."""
    lib = limits()
    flops = [0] * threads

    def work(i):
        flops[i] = lib.fma_peak(steps)

    seconds = in_threads(work, threads)
    return sum(flops) / seconds


def accumulate(x: np.ndarray, threads: int = CORES, chunk_bytes: int = 1 << 21, make=None):
    """One pass: chunks of rows from a shared counter, an accumulator for each thread.

    Chunks are whole blocks of the kernel, and many: the last one idles the other threads.
    """
    n, d = x.shape
    step = max(chunk_bytes // (d * x.itemsize) // 768 * 768, 768)
    make = make or (lambda: rows.RowAccumulator(d, BOUND_PER_SQRT_D * d**0.5))
    accumulators = [make() for _ in range(threads)]
    counter = itertools.count()

    def work(i):
        for c in counter:
            if c * step >= n:
                return
            if accumulators[i].update(x[c * step : (c + 1) * step]) != -1:
                raise AssertionError("the table is finite")

    seconds = in_threads(work, threads)
    for other in accumulators[1:]:
        accumulators[0].merge(other)
    return seconds, accumulators[0]


def fastest(*calls, seconds: float = 2.0) -> list[float]:
    """Seconds of the least disturbed run of each call, run in turn, thrice at least.

    A call that returns a float has timed itself. Quickly: one run of each.
    """
    least, seconds = (1, 0.0) if QUICK else (3, seconds)
    times = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while len(times[0]) < least or time.perf_counter() < end:
        for call, taken in zip(calls, times, strict=True):
            start = time.perf_counter()
            own = call()
            taken.append(own if isinstance(own, float) else time.perf_counter() - start)
    return [min(taken) for taken in times]


def print_tracks(*suites: type) -> None:
    """Run suites without asv, all of them or those named on the command line."""
    wanted = sys.argv[1:]

    def nothing(*values):
        pass

    for suite in suites:
        if wanted and suite.__name__ not in wanted:
            continue
        for values in itertools.product(*suite.params):
            bench = suite()
            getattr(bench, "setup", nothing)(*values)
            for name in dir(bench):
                if name.startswith("track_"):
                    try:
                        result = f"{getattr(bench, name)(*values):.2f}"
                    except NotImplementedError as error:
                        result = f"- ({error})"
                    print(suite.__name__, *values, name[6:], result, flush=True)
            for name, ms in getattr(bench, "parts", dict)().items():
                print(suite.__name__, *values, name, f"{ms:.1f} ms", flush=True)
            getattr(bench, "teardown", nothing)(*values)
