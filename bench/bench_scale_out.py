"""What Dask and Spark cost: against one machine's pass over the same files, by as many cores.

Each stands beside its own limit too: Dask that reads the same blocks, and Spark that hands the same
columns to a `mapInArrow`, which do nothing with them. Partitions are files of 10^6 rows that
workers map or read themselves, in the page cache. Clusters are up before anything is timed;
Spark's start is reported by itself. `python -m bench.bench_scale_out` prints all of it.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import privgram as pg

from .common import CORES, fastest, limits, print_tracks, size

# Workers find `read` by the path, which they inherit; asv imports benchmarks without it.
sys.path.append(str(Path(__file__).parents[1]))

ROWS = size(10**6)


class Files:
    """A table in .npy files of `ROWS` rows."""

    partitions = 8
    timeout = 300

    def setup(self, d, *_):
        self.d, self.bound = d, d**0.5
        self.folder = tempfile.TemporaryDirectory()
        block = np.tile(np.random.default_rng(d).standard_normal((4096, d)), (ROWS // 4096 + 1, 1))
        self.paths = [Path(self.folder.name) / f"{i}.npy" for i in range(self.partitions)]
        for i, path in enumerate(self.paths):
            if i < 2:
                np.save(path, block[i : ROWS + i])
            else:
                os.link(self.paths[i % 2], path)

    def teardown(self, *_):
        self.folder.cleanup()

    def one_machine(self):
        return pg.second_moment([np.load(path, mmap_mode="r") for path in self.paths], self.bound)

    def array(self):
        """Build the Dask array that any user would: a file a chunk."""
        load = dask.delayed(np.load)
        return da.concatenate(
            [
                da.from_delayed(load(path, mmap_mode="r"), (ROWS, self.d), np.float64)
                for path in self.paths
            ]
        )


def read(block):
    limits().read_all(block.ctypes.data, block.size)
    return np.zeros((1, 1))


class Dask(Files):
    params = ([22, 100], ["threads", "distributed"])
    param_names = ("d", "scheduler")

    def setup(self, d, scheduler):
        super().setup(d)
        self.client = None
        if scheduler == "distributed":
            self.client = distributed.Client(
                n_workers=CORES, threads_per_worker=1, dashboard_address=":0"
            )
        self.ours()  # workers import, and map the files

    def teardown(self, *_):
        if self.client:
            self.client.close()
            self.client.cluster.close()
        super().teardown()

    def ours(self):
        with dask.config.set(num_workers=CORES):
            return pg.second_moment(self.array(), self.bound)

    def blocks(self):
        """Read every byte of the same blocks, and do nothing with them."""
        with dask.config.set(num_workers=CORES):
            self.array().map_blocks(read, chunks=(1, 1), meta=np.empty((0, 0))).compute()

    def time_second_moment(self, d, scheduler):
        self.ours()

    def track_share_of_the_speed_of_reading(self, d, scheduler):
        self.blocks()  # workers compile the reader
        reading, ours = fastest(self.blocks, self.ours)
        return reading / ours

    def track_time_against_one_machine(self, d, scheduler):
        assert self.ours().to_bytes() == self.one_machine().to_bytes()
        one, many = fastest(self.one_machine, self.ours)
        print(f"  one machine {one:.3f} s, {scheduler} {many:.3f} s")
        return many / one


class Spark:
    """What each step adds to the one before; the JVM is started by the first."""

    params = ([10, 22, 100], [0, 50])
    param_names = ("d", "levels of a factor")
    timeout = 300

    def setup(self, d, levels):
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:  # not in privgram[all]
            raise NotImplementedError('pip install "privgram[spark]"') from error
        partitions = 4 if d < 100 else 2  # a pass takes seconds
        self.bound = d**0.5
        self.folder = tempfile.TemporaryDirectory()
        rows = np.tile(np.random.default_rng(d).standard_normal((4096, d)), (ROWS // 4096 + 1, 1))
        table = {f"c{j}": np.ascontiguousarray(rows[:ROWS, j]) for j in range(d)}
        self.columns = None
        if levels:
            bounds = dict.fromkeys(table, (-3.0, 3.0))
            names = [f"level {k}" for k in range(levels)]
            self.columns = pg.Columns({**bounds, "factor": pg.Factor(names)})
            table["factor"] = pa.array(names).take(pa.array(np.arange(ROWS) * 7919 % levels))
        paths = [Path(self.folder.name) / f"{i}.parquet" for i in range(partitions)]
        options = {"compression": "none", "use_dictionary": False, "row_group_size": 2**17}
        pa.parquet.write_table(pa.table(table), paths[0], **options)
        for path in paths[1:]:
            shutil.copy(paths[0], path)  # one machine refuses a file named twice
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # which has privgram
        start = time.perf_counter()
        self.session = (
            SparkSession.builder.master(f"local[{CORES}]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "2g")
            .config("spark.sql.files.maxPartitionBytes", paths[0].stat().st_size + 2**22)
            .getOrCreate()
        )
        self.session.sparkContext.setLogLevel("ERROR")
        self.start = time.perf_counter() - start
        self.table = self.session.read.parquet(self.folder.name)
        self.first = -time.perf_counter()
        self.ours()
        self.first += time.perf_counter()

    def teardown(self, *_):
        if hasattr(self, "session"):  # not without pyspark
            self.session.stop()
            self.folder.cleanup()

    def one_machine(self):
        return pg.second_moment(self.folder.name, self.bound, columns=self.columns)

    def ours(self):
        return pg.second_moment(self.table, self.bound, columns=self.columns)

    def decode(self):
        """Read in the JVM, to nowhere."""
        self.table.write.format("noop").mode("overwrite").save()

    def nothing(self):
        """Hand the same columns to Python by Arrow, which does nothing with them."""

        def nothing(batches):
            for _ in batches:
                pass
            yield from ()

        self.table.mapInArrow(nothing, "x long").collect()

    def time_second_moment(self, d, levels):
        self.ours()

    def track_share_of_the_speed_of_nothing(self, d, levels):
        nothing, ours = fastest(self.nothing, self.ours, seconds=10)
        return nothing / ours

    def track_times_of_one_machine(self, d, levels):
        assert self.ours().to_bytes() == self.one_machine().to_bytes()
        one, decode, nothing, ours = fastest(
            self.one_machine, self.decode, self.nothing, self.ours, seconds=10
        )
        print(f"  start of the session {self.start:.1f} s, first pass {self.first:.1f} s")
        print(f"  one machine {one:.2f} s, Spark {ours:.2f} s, of which")
        print(f"  decoding in the JVM {decode:.2f} s, Arrow to Python {nothing - decode:.2f} s")
        print(f"  states and merge {ours - nothing:.2f} s")
        return ours / one


if __name__ == "__main__":
    print_tracks(Dask, Spark)
