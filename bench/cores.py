"""Shares of this machine's limits by numbers of threads: read bandwidth, and linearity.

python -m bench.cores [seconds]    75 s and 7 GB by default, less where there are fewer cores

Read bandwidth is that of dot products, the best of three turns with as many threads. A figure is
the best of its turns; turns of all thread counts alternate, so that a slow minute hurts all.
"""

import os
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import privgram as pg
from privgram._core.rows import RowAccumulator
from privgram.moment.accumulators import BlockReader
from privgram.scan.executor import ScanExecutor
from privgram.sources import open_source

BUDGET = float(sys.argv[1]) if __name__ == "__main__" and len(sys.argv) > 1 else 75.0
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
COUNTS = [k for k in (1, 2, 4, 8, 16, 32) if k <= CORES]
START = time.perf_counter()


def left():
    return BUDGET - (time.perf_counter() - START)


def filled(n, d):
    """Numbers without a generator's time: pages of all cores, values of one row's size."""
    x = np.empty((n, d))
    row = np.random.default_rng(0).standard_normal((1024, d))

    def fill(start):
        part = x[start : start + 1024]
        part[:] = row[: len(part)]

    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(fill, range(0, n, 1024)))
    return x


def read(x, k):
    """GB/s of k threads that read all of a table."""
    flat = x.reshape(-1)
    parts = np.array_split(flat, 64 * k)
    with ThreadPoolExecutor(k) as pool:
        list(pool.map(lambda part: part[:1000].dot(part[:1000]), parts))
        start = time.perf_counter()
        list(pool.map(lambda part: part.dot(part), parts))
        return x.nbytes / (time.perf_counter() - start) / 1e9


def turn(x, k, columns=None):
    """Seconds of time and of processors of one pass."""
    bound = None if columns is not None else float(np.sqrt(x.shape[1]))
    start, used = time.perf_counter(), time.process_time()
    pg.second_moment(x, bound, columns=columns, threads=k)
    return time.perf_counter() - start, time.process_time() - used


def passes(x, seconds, columns=None):
    best = dict.fromkeys(COUNTS, (1000000000.0, 1000000000.0))
    turn(x[: len(x) // 8], COUNTS[-1], columns)
    end = time.perf_counter() + seconds
    first = True
    while first or time.perf_counter() < end:
        for k in COUNTS:
            best[k] = min(best[k], turn(x, k, columns))
            if not first and time.perf_counter() > end:
                break
        first = False
    return best


class Idle:
    """An accumulator that does nothing."""

    def update(self, block, drop, scaling):
        return -1

    def merge(self, other):
        pass


def of_python(x):
    """CPU time of a pass by two threads without its kernel, over that of the whole."""
    table = partial(open_source, x, None, by_position=False)

    def least(new, turns):
        seconds = []
        for _ in range(turns):
            start = time.process_time()
            ScanExecutor(table(), lambda: BlockReader(new()), lambda _: None).run(2)
            seconds.append(time.process_time() - start)
        return min(seconds)

    d = x.shape[1]
    return least(Idle, 12) / least(lambda: RowAccumulator(d, float(np.sqrt(d))), 3)


def beside_numpy(d):
    """Times as fast as an unclipped product of one thread, in CPU time, the least of four turns."""
    x = np.random.default_rng(0).uniform(-1, 1, (max(4096, 25_000_000 // d), d))

    def least(call):
        seconds = []
        for _ in range(4):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
        return min(seconds)

    ours = least(lambda: pg.second_moment(x, float(np.sqrt(d)), threads=1))
    return least(lambda: x.T @ x) / ours


def main():
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
    model = names[0].split(":")[1].strip() if names else "?"
    print(f"{model}; {CORES} cores; privgram {pg.__version__}; Python {sys.version.split()[0]}")
    x = filled(2**24 if CORES > 4 else 2**22, 22)
    best = {k: max(read(x, k) for _ in range(3)) for k in COUNTS}
    got = passes(x, 0.2 * BUDGET)
    described = pg.Columns({f"x{j}": (-4.0, 4.0) for j in range(22)})
    scaled = passes(x, 0.1 * BUDGET, described)
    print(f"\nd = 22, {len(x):,} rows, {x.nbytes / 1e9:.1f} GB in memory")
    print("threads   read GB/s   pass GB/s   share   busy cores   with Columns GB/s   over bare")
    for k in COUNTS:
        wall, used = got[k]
        rate, over = x.nbytes / wall / 1e9, wall / scaled[k][0]
        print(
            f"{k:7d} {best[k]:11.1f} {rate:11.1f} {rate / best[k]:7.2f} {used / wall:12.2f}"
            f" {rate * over:19.1f} {over:11.2f}"
        )
    del x
    for d, n in ((500, 2**19), (2000, 2**16)):
        x = filled(n if CORES > 4 else n // 4, d)
        got = passes(x, min(0.28 * BUDGET, left() - (2 if d == 2000 else 0.3 * BUDGET)))
        print(f"\nd = {d}, {len(x):,} rows, {x.nbytes / 1e9:.1f} GB in memory")
        print("threads    Gflop/s   of linear   busy cores   CPU over one thread's")
        flops = len(x) * d * (d + 1) / 1e9
        for k in COUNTS:
            wall, used = got[k]
            linear = got[1][0] / (k * wall)
            print(
                f"{k:7d} {flops / wall:10.1f} {linear:11.2f} {used / wall:12.2f}"
                f" {used / got[1][1]:15.2f}"
            )
        del x
    print("\nd, share of a pass by two threads that is Python, under the GIL")
    for d in (10, 22, 100, 500):
        print(f"{d:5d} {of_python(filled(2**26 // d, d)):7.2%}", flush=True)
    print("\nd, times as fast as x.T @ x; with OPENBLAS_NUM_THREADS=1")
    for d in (10, 22, 42, 100, 200, 500, 1000, 2000):
        print(f"{d:5d} {beside_numpy(d):6.2f}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{time.perf_counter() - START:.0f} s, largest memory {peak:.1f} GiB")


if __name__ == "__main__":
    main()
