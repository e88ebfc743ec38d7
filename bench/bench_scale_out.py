"""What Dask and Spark cost: against one machine's pass over the same files, by as many cores.

Partitions are files of 10^6 rows that workers map or read themselves, half of them links to
the others, in the page cache. Clusters are up before anything is timed; Spark's start is
reported by itself. `python -m bench.bench_scale_out` prints all of it.
"""

import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import privgram as pg
from privgram.engines import spark
from privgram.engines.parts import Plan

from .common import CORES, fastest, print_tracks, size

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
        return pg.second_moment(self.folder.name, self.bound)

    def array(self):
        """Build the Dask array that any user would: a file a chunk."""
        load = dask.delayed(np.load)
        return da.concatenate(
            [
                da.from_delayed(load(path, mmap_mode="r"), (ROWS, self.d), np.float64)
                for path in self.paths
            ]
        )


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

    def time_second_moment(self, d, scheduler):
        self.ours()

    def track_time_against_one_machine(self, d, scheduler):
        assert self.ours().to_bytes() == self.one_machine().to_bytes()
        one, many = fastest(self.one_machine, self.ours)
        print(f"  one machine {one:.3f} s, {scheduler} {many:.3f} s")
        return many / one


class Spark:
    """What each step adds to the one before; the JVM is started by the first."""

    params = ([22, 100],)
    param_names = ("d",)
    timeout = 300

    def setup(self, d):
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:  # not in privgram[all]
            raise NotImplementedError('pip install "privgram[spark]"') from error
        partitions = 4 if d < 100 else 2  # a pass takes seconds
        self.bound = d**0.5
        self.folder = tempfile.TemporaryDirectory()
        rows = np.tile(np.random.default_rng(d).standard_normal((4096, d)), (ROWS // 4096 + 1, 1))
        table = pa.table({f"c{j}": np.ascontiguousarray(rows[:ROWS, j]) for j in range(d)})
        paths = [Path(self.folder.name) / f"{i}.parquet" for i in range(partitions)]
        options = {"compression": "none", "use_dictionary": False, "row_group_size": 2**17}
        pa.parquet.write_table(table, paths[0], **options)
        for path in paths[1:]:
            os.link(paths[0], path)
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
        return pg.second_moment(self.folder.name, self.bound)

    def ours(self):
        return pg.second_moment(self.table, self.bound)

    def decode(self):
        """Read in the JVM, to nowhere."""
        self.table.write.format("noop").mode("overwrite").save()

    def transfer(self):
        """Hand it to Python by Arrow, which does nothing with it."""

        def nothing(batches):
            for _ in batches:
                pass
            yield from ()

        self.table.mapInArrow(nothing, "x long").collect()

    def plan(self):
        return Plan.check({name: np.empty(0) for name in self.table.columns}, self.bound, None)

    def states(self):
        """Make a state of each partition, and merge none."""
        states = partial(spark._states, self.plan(), self.table.columns)
        self.table.mapInArrow(states, "state binary").collect()

    def rows(self):
        """The whole of it, where the table is more than a scan of files."""
        return spark._of_rows(self.table, self.plan())

    def time_second_moment(self, d):
        self.ours()

    def track_parts(self, d):
        assert self.ours().to_bytes() == self.one_machine().to_bytes()
        steps = (self.one_machine, self.ours, self.decode, self.transfer, self.states, self.rows)
        one, ours, *times = fastest(*steps, seconds=10)
        print(f"  start of the session {self.start:.1f} s, first pass {self.first:.1f} s")
        print(f"  one machine {one:.2f} s, files read by the workers {ours:.2f} s; rows by Spark:")
        names = ("decoding in the JVM", "Arrow to Python", "states", "merge")
        for name, step, before in zip(names, times, [0.0, *times], strict=False):
            print(f"  {name} {step - before:.2f} s")
        return ours / one


if __name__ == "__main__":
    print_tracks(Dask, Spark)
