"""What an adaptive release of a Parquet file costs, beside one pass over it.

    python -m bench.adaptive_rounds [--rows 2000000] [--columns 22] [--factors 24,12] [--threads 2]

Every call is in a fresh process, in turn with the others; the least of three is shown, in processor
time.  A pass is `pg.second_moment`; the release takes three or four rounds, with
the decoded rows kept in memory or not.  Imports and calibration are paid before.  The table is that
of docs/results.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import privgram as pg
from privgram.sources import table

from . import pages

CALLS = ("one pass", "adaptive-gaussian", "adaptive-gaussian, no cache")
TIMES = 3


def write(path: Path, rows: int, columns: int, factors: list[int]) -> None:
    """A table of correlated columns that one round drowns, written block by block."""
    rng = np.random.default_rng(0)
    mix = np.triu(rng.uniform(0, 0.3, (columns, columns)), 1) + np.eye(columns)
    text = pa.dictionary(pa.int32(), pa.string())
    kinds = [pa.float64()] * columns + [text] * len(factors)
    names = [f"x{j}" for j in range(columns)] + [f"f{k}" for k in range(len(factors))]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 18):
            size = min(1 << 18, rows - start)
            block = (0.05 * rng.standard_normal((size, columns)) @ mix).clip(-1, 1).round(4)
            levels = [
                pa.DictionaryArray.from_arrays(
                    rng.integers(0, size_of, size, dtype=np.int32), level_names(size_of)
                )
                for size_of in factors
            ]
            writer.write_table(pa.table([*block.T.copy(), *levels], schema=schema))


def level_names(number: int) -> list[str]:
    """Names of the levels of a factor of so many."""
    return [f"level {i}" for i in range(number)]


def call(which: str, path: Path, factors: list[int], threads: int) -> dict[str, float]:
    """Seconds of one call in this process, and the rounds that it took."""
    names = pyarrow.parquet.read_schema(path).names
    bounds: dict[str, Any] = dict.fromkeys(names, (-1.0, 1.0))
    bounds |= {f"f{k}": level_names(number) for k, number in enumerate(factors)}
    columns = pg.Columns(bounds, intercept=True)
    if which == CALLS[2]:
        table.SHARE = 0.0

    def run(source: Any) -> int:
        if which == CALLS[0]:
            pg.second_moment(source, columns=columns, threads=threads)
            return 1
        rng = np.random.default_rng(0)  # an experiment, which is not private
        how = {"mechanism": pg.AdaptiveGaussian(), "threads": threads, "rng": rng}
        release = pg.release(source, columns=columns, epsilon=1.0, delta=1e-6, **how)
        return int(release.parameters["rounds"])

    run(pyarrow.parquet.ParquetFile(path).read_row_group(0).slice(0, 1000))  # imports, calibration
    used = time.process_time()
    rounds = run(path)
    return {"cpu": time.process_time() - used, "rounds": rounds}


def main() -> None:
    """Print the table, or be one of the calls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=22)
    parser.add_argument("--factors", default="", help="their numbers of levels, with commas")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--call", choices=CALLS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    factors = [int(number) for number in options.factors.split(",") if number]
    if options.call:
        print(json.dumps(call(options.call, options.path, factors, options.threads)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write(path, options.rows, options.columns, factors)
        found: dict[str, list[dict[str, float]]] = {which: [] for which in CALLS}
        for _ in range(TIMES):
            for which in CALLS:
                again = ["--call", which, "--path", path, "--threads", str(options.threads)]
                again += ["--factors", options.factors]
                out = subprocess.run(
                    [sys.executable, "-m", "bench.adaptive_rounds", *again],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                found[which].append(json.loads(out))
    lines = ["| call | rounds | seconds of processor | times a pass |", "|---|--:|--:|--:|"]
    least = {which: min(found[which], key=lambda one: one["cpu"]) for which in CALLS}
    for which, one in least.items():
        times = one["cpu"] / least[CALLS[0]]["cpu"]
        lines.append(f"| {which} | {one['rounds']:g} | {one['cpu']:.2f} | {times:.1f} |")
    how = f"{options.rows:,} rows of {options.columns} columns"
    pages.fill("adaptive-gaussian", [*lines, "", pages.today(how)])


if __name__ == "__main__":
    main()
