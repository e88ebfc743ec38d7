"""What reading costs: each source against the same table in memory, or against its decoder.

Ratios are of calls taken in turn in one run, the least disturbed of each. Files lie in the
page cache. `python -m bench.bench_sources` prints all of them.
"""

import contextlib
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

import privgram as pg
from privgram.sources import files

from .common import fastest, print_tracks, size

MIB = 2**20


def normal_rows(n, d):
    return np.tile(np.random.default_rng(d).standard_normal((4096, d)), (n // 4096, 1))


def as_table(x):
    return pa.table({f"c{j}": np.ascontiguousarray(x[:, j]) for j in range(x.shape[1])})


class Files:
    """A table of `mebibytes`, in memory and in a folder for the files made of it."""

    mebibytes = size(256)
    timeout = 300

    def setup(self, d, *_):
        self.d, self.bound = d, d**0.5
        self.x = normal_rows(self.mebibytes * MIB // (8 * d) // 4096 * 4096, d)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "table"

    def teardown(self, *_):
        self.folder.cleanup()

    def run(self, source, **options):
        return lambda: pg.second_moment(source, self.bound, **options)


class Npy(Files):
    params = ([22, 42, 100], ["C", "F"])
    param_names = ("d", "order")

    def setup(self, d, order):
        super().setup(d)
        self.x = np.asarray(self.x, order=order)
        self.path = self.path.with_suffix(".npy")
        np.save(self.path, self.x)

    def time_second_moment(self, d, order):
        self.run(self.path)()

    def track_share_of_rate_in_memory(self, d, order):
        memory, file = fastest(self.run(self.x), self.run(self.path))
        return memory / file

    def track_share_of_rate_in_memory_without_lease(self, d, order):
        @contextlib.contextmanager
        def no_lease(file):
            yield False

        lease, files.lease = files.lease, no_lease
        try:
            return self.track_share_of_rate_in_memory(d, order)
        finally:
            files.lease = lease


def settled(call):
    """Time a call that follows itself: another's freed memory would help or hinder it."""

    def twice():
        call()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return twice


class Parquet(Files):
    params = ([22, 100], ["none", "snappy", "zstd", "snappy and dictionary"])
    param_names = ("d", "encoding")
    mebibytes = 192
    groups = 16

    def setup(self, d, encoding):
        super().setup(d)
        self.path = self.path.with_suffix(".parquet")
        pa.parquet.write_table(
            as_table(self.x),
            self.path,
            compression=encoding.split()[0],
            use_dictionary="dictionary" in encoding,
            row_group_size=len(self.x) // self.groups,
        )

    def read_table(self):
        pa.parquet.read_table(self.path)

    def read_table_from_a_map(self):
        pa.parquet.read_table(self.path, memory_map=True)

    def iter_batches(self):
        with pa.parquet.ParquetFile(self.path) as file:
            for _ in file.iter_batches():
                pass

    def scanner(self):
        for _ in pa.dataset.dataset(self.path).scanner().to_batches():
            pass

    def decode(self, threads=2):
        """Decode as `second_moment` does, and do nothing with it."""
        table = files.open_parquet(self.path)
        chunks, lock = iter(table.chunks), threading.Lock()

        def work():
            while True:
                with lock:
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                for _ in chunk.read():
                    pass

        pool = [threading.Thread(target=work) for _ in range(threads)]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()

    def parts(self):
        """Milliseconds of each way to decode all columns, and of `second_moment`."""
        ways = (self.read_table, self.iter_batches, self.scanner, self.read_table_from_a_map)
        calls = {way.__name__: way for way in (*ways, self.decode)}
        calls["second_moment"] = self.run(self.path)
        taken = fastest(*map(settled, calls.values()), seconds=8.0)
        return dict(zip(calls, (1e3 * t for t in taken), strict=True))

    def time_second_moment(self, d, encoding):
        self.run(self.path)()

    def track_share_of_same_decoding_alone(self, d, encoding):
        decoding, ours = fastest(settled(self.decode), settled(self.run(self.path)))
        return decoding / ours

    def track_share_of_pyarrow(self, d, encoding):
        """Of the fastest way of its own, by default arguments."""
        ways = (self.read_table, self.iter_batches, self.scanner, self.run(self.path))
        *decoding, ours = fastest(*map(settled, ways), seconds=4.0)
        return min(decoding) / ours

    def track_share_of_pyarrow_from_a_map(self, d, encoding):
        decoding, ours = fastest(settled(self.read_table_from_a_map), settled(self.run(self.path)))
        return decoding / ours


class PeakMemory:
    """Resident memory beyond that of a small pass, in a process of its own."""

    params = ([".npy", ".parquet"], [size(1024, 4), size(4096, 4)])
    param_names = ("source", "mebibytes")
    timeout = 600
    unit = "MiB"

    script = """
import sys
import numpy as np, pyarrow.parquet
import privgram as pg

def peak():  # not ru_maxrss, which starts from the parent's
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))

pg.second_moment(np.ones((10_000, 32)), 9.0, threads=2)
before = peak()
pg.second_moment(sys.argv[1], 9.0)
print(peak() - before)
"""

    def setup(self, source, mebibytes):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / f"table{source}"
        n = mebibytes * MIB // (8 * 32)
        if source == ".npy":
            x = np.lib.format.open_memmap(self.path, "w+", "f8", (n, 32))
            del x  # sparse: zeros
            return
        part = as_table(normal_rows(2**18, 32))
        with pa.parquet.ParquetWriter(
            self.path, part.schema, compression="none", use_dictionary=False
        ) as file:
            for _ in range(n // 2**20):
                file.write_table(pa.concat_tables([part] * 4), row_group_size=2**20)

    def teardown(self, *_):
        self.folder.cleanup()

    def track_extra(self, source, mebibytes):
        done = subprocess.run(
            [sys.executable, "-c", self.script, str(self.path)],
            capture_output=True,
            check=True,
            text=True,
        )
        return float(done.stdout)


if __name__ == "__main__":
    print_tracks(Npy, Parquet, PeakMemory)
