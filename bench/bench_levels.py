"""What factors of thousands of levels cost, wide and small tables, streams, units and regressions.

Each is a ratio to something in the same run: to one pass over the table, or to NumPy on as many
numbers. `python -m bench.bench_levels` prints all of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import privgram as pg

from .common import fastest, print_tracks, size

BUDGET = {"epsilon": 1.0, "delta": 1e-8}
ROWS = size(500_000)


def of_levels(levels, rows=ROWS):
    """Two features, a target and a factor, as Arrow has them, and their description."""
    import pyarrow as pa

    rng = np.random.default_rng(levels)
    x, codes = rng.uniform(-1, 1, (3, rows)), rng.integers(0, levels, rows, np.int32)
    names = [f"l{i:06d}" for i in range(levels)]
    table = dict(zip(("x0", "x1", "y"), x, strict=True))
    table["f"] = pa.DictionaryArray.from_arrays(codes, names)
    return pa.table(table), dict.fromkeys(("x0", "x1", "y"), (-1.0, 1.0)) | {"f": names}


def regress(table, columns, formula, unit=None):
    with tempfile.TemporaryDirectory() as folder:
        study = pg.Study(
            table, columns, epsilon=2.0, delta=1e-6, unit=unit, ledger=Path(folder, "it.ledger")
        )
        study.regress(formula, epsilon=1.0)


class Levels:
    """A factor of many levels, beside one pass over the rows."""

    params = ([1000, 3000, 10_000, 32_000],)
    param_names = ("levels",)
    timeout = 600

    def setup(self, levels):
        self.table, bounds = of_levels(levels)
        self.columns = pg.Columns(bounds)
        self.moment = self.one_pass()
        self.release = pg.release(self.moment, mechanism="analyze-gauss", **BUDGET)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "release.json")
        self.release.save(self.path)

    def teardown(self, levels):
        self.folder.cleanup()

    def one_pass(self):
        return pg.second_moment(self.table, columns=self.columns)

    def passes(self, call):
        ours, one = fastest(call, self.one_pass)
        return ours / one

    def track_passes_of_saving(self, levels):
        return self.passes(lambda: self.release.save(self.path))

    def track_passes_of_loading(self, levels):
        return self.passes(lambda: pg.load(self.path))

    def track_bytes_of_a_level(self, levels):
        return os.path.getsize(self.path) / levels

    def track_passes_of_analyze_gauss(self, levels):
        return self.passes(lambda: pg.release(self.moment, mechanism="analyze-gauss", **BUDGET))

    def track_passes_of_the_default(self, levels):
        return self.passes(lambda: pg.release(self.table, self.columns, **BUDGET))

    def track_passes_of_effects(self, levels):
        """By `+ f`, of text that is not coded, on fewer rows: each as if of all of them."""
        rows = ROWS // 4
        table = {name: self.table[name].to_numpy()[:rows] for name in ("x0", "x1", "y")}
        table["f"] = np.array(self.table["f"].to_pylist()[:rows], object)
        part = {name: self.table[name][:rows] for name in self.table.column_names}

        def effects():
            regress(table, self.columns, "y ~ x0 + x1 + f")

        ours, one = fastest(effects, lambda: pg.second_moment(part, columns=self.columns))
        return ours / one

    def track_inverses_of_a_regression(self, levels):
        if levels > 1000:
            raise NotImplementedError("a dense regression")
        matrix = self.moment.matrix() + np.eye(self.moment.n_columns)
        ours, inverse = fastest(
            lambda: self.release.regress("y", ["x0", "x1", "f"]), lambda: np.linalg.inv(matrix)
        )
        return ours / inverse


class Answers:
    """`Study.regress` in memory, in passes over the rows; of units too."""

    params = (["numbers", "two factors", "500 levels", "units"],)
    param_names = ("table",)
    timeout = 600

    def setup(self, table):
        import pyarrow as pa

        rows, rng = 4 * ROWS, np.random.default_rng(0)
        names = [f"x{i}" for i in range(8)]
        made = dict(zip(names, rng.uniform(-1, 1, (8, rows)), strict=True))
        self.bounds = dict.fromkeys(names, (-1.0, 1.0))
        sizes = {"two factors": (10, 20), "500 levels": (500,)}.get(table, ())
        for i, levels in enumerate(sizes):
            labels, codes = (
                [f"l{j}" for j in range(levels)],
                rng.integers(0, levels, rows, np.int32),
            )
            made[f"f{i}"] = pa.DictionaryArray.from_arrays(codes, labels)
            self.bounds[f"f{i}"] = labels
        self.unit = None
        if table == "units":
            made["id"], self.unit = rng.integers(0, rows // 10, rows), pg.Unit("id", max_rows=15)
        self.table = pa.table(made)
        self.columns = pg.Columns(self.bounds, intercept=True)

    def one_pass(self):
        pg.second_moment(self.table, columns=self.columns)

    def regress(self, unit=None):
        features = " + ".join(name for name in self.bounds if name != "x0")
        regress(self.table, self.bounds, f"x0 ~ {features}", unit)

    def track_passes(self, table):
        ours, one = fastest(lambda: self.regress(self.unit), self.one_pass)
        return ours / one

    def track_passes_of_a_default_release(self, table):
        if self.unit is not None:
            raise NotImplementedError("its units are of one answer")
        ours, one = fastest(lambda: pg.release(self.table, self.columns, **BUDGET), self.one_pass)
        return ours / one

    def track_times_of_as_many_rows(self, table):
        if self.unit is None:
            raise NotImplementedError("nobody has several rows")
        ours, rows = fastest(lambda: self.regress(self.unit), self.regress)
        return ours / rows


class Wide:
    """Tables of many columns, beside NumPy's product of as many numbers."""

    params = (["release of 500", "release of 1000", "release of 2000", "regression on 200",
               "regression on 499"],)  # fmt: skip
    param_names = ("answer",)
    timeout = 600

    def setup(self, answer):
        what, _, d = answer.split()
        self.d = int(d) + (what == "regression")
        rows = 4096 if what == "release" else size(100_000)
        self.x = np.random.default_rng(0).uniform(-1, 1, (rows, self.d))
        self.columns = {f"x{i}": (-1, 1) for i in range(self.d)}
        self.table = dict(zip(self.columns, self.x.T.copy(), strict=True))

    def track_products(self, answer):
        columns = pg.Columns(self.columns)

        def ours():
            if answer.startswith("release"):
                pg.release(self.table, columns, **BUDGET)
            else:
                regress(self.table, columns, f"x0 ~ {' + '.join(list(columns.selected)[1:])}")

        return np.divide(*fastest(ours, lambda: self.x.T @ self.x, seconds=0.0))


class Classes:
    """A classifier of ten classes by steps, beside one product of its features."""

    params = ([784, 3969],)
    param_names = ("features",)
    timeout = 900

    def setup(self, features):
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, 10, size(60_000))
        self.x = rng.uniform(0, 1, (len(self.y), features)).astype(np.float32)

    def track_products(self, features):
        from privgram.estimators import PrivateClassifier

        model = PrivateClassifier(epsilon=1.0, classes=range(10), bound=features**0.5)
        start = time.perf_counter()
        model.fit(self.x, self.y)
        taken = time.perf_counter() - start
        return taken / fastest(lambda: self.x.T @ self.x, seconds=0.0)[0]


class Start:
    """What is paid once, beside importing NumPy."""

    params = (["privgram --help", "pg.Study"],)
    param_names = ("what",)

    def track_times_of_numpy(self, what):
        code = ["-m", "privgram", "--help"]
        if "help" not in what:
            code = ["-c", f"import privgram as pg; {what}"]

        def run(*code):
            subprocess.run([sys.executable, *code], check=True, stdout=subprocess.DEVNULL)

        return np.divide(*fastest(lambda: run(*code), lambda: run("-c", "import numpy")))


class Stream:
    """The last month of a stream of 500 columns, beside the first."""

    params = ([2, 12, 24],)
    param_names = ("months",)
    timeout = 600

    def track_times_of_the_first(self, months):
        x = np.random.default_rng(0).uniform(-1, 1, (2000, 500))
        columns = dict.fromkeys((f"x{i}" for i in range(500)), (-1, 1))
        with tempfile.TemporaryDirectory() as folder:
            study = pg.Study(
                dict(zip(columns, x.T, strict=True)), columns, epsilon=2.0, delta=1e-6,
                ledger=Path(folder, "it.ledger"),
            )  # fmt: skip
            stream = pg.Stream(study, 60, 1.0, 1e-7, path=Path(folder, "it.stream"))

            taken = []
            for number in range(1, months + 1):
                table = dict(zip(columns, (x / number).T, strict=True))
                start = time.process_time()
                stream.release(table)
                taken.append(time.process_time() - start)
        return taken[-1] / taken[0]


class Small:
    """A second moment of few rows of ten columns, beside NumPy's product of as many."""

    params = (["array of 100", "columns of 100", "frame of 1000", "frame of 1000 with a text"],)
    param_names = ("table",)

    def setup(self, table):
        import pandas as pd

        rows = 1000 if "1000" in table else 100
        rng = np.random.default_rng(0)
        names = [f"x{i}" for i in range(10)]
        self.x, bounds = rng.uniform(0, 1, (rows, 10)), dict.fromkeys(names, (0, 1))
        columns = dict(zip(names, self.x.T.copy(), strict=True))
        if "text" in table:
            columns["f"], bounds["f"] = rng.choice(["a", "b", "c"], rows), ["a", "b", "c"]
        self.table = pd.DataFrame(columns) if "frame" in table else columns
        self.table = self.x if "array" in table else self.table
        self.columns = pg.Columns(bounds, intercept=True)

    def track_times_of_numpy(self, table):
        def ours():
            for _ in range(100):
                pg.second_moment(self.table, columns=self.columns)

        def numpy():
            for _ in range(100):
                self.x.T @ self.x

        both = fastest(ours, numpy)
        return both[0] / both[1]


if __name__ == "__main__":
    print_tracks(Levels, Answers, Wide, Classes, Start, Stream, Small)
