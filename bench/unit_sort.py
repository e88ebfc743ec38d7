"""The second moment of units in an unsorted Parquet file, beside DuckDB's sort of that file.

    python -m bench.unit_sort [--rows 1e7] [--units 1e6] [--folder DIR]

8 columns of doubles and a whole number for the unit, 72 bytes a row; the file and what is spilled
are in the folder, and are removed.  Each is a process of its own: seconds, seconds of processor,
and the most memory it held.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import pages

COLUMNS = [f"x{i}" for i in range(8)]
CHUNK = 1_000_000


def write(path: Path, rows: int, units: int) -> None:
    """Make the file, a million rows at a time."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), *((name, pa.float64()) for name in COLUMNS)])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, CHUNK):
            n = min(CHUNK, rows - start)
            values = [rng.integers(0, units, n), *(rng.random(n) for _ in COLUMNS)]
            writer.write_table(pa.table(values, schema=schema))


def by_privgram(path: Path) -> None:
    """One pass by unit."""
    import privgram as pg

    columns = pg.Columns(dict.fromkeys(COLUMNS, (0, 1)), intercept=True)
    pg.second_moment(path, columns=columns, unit=pg.Unit("id", max_rows=15))


def by_duckdb(path: Path) -> None:
    """The file sorted, batch by batch."""
    import duckdb

    duckdb.execute(f"set memory_limit = '4GB'; set temp_directory = '{path.parent}'")
    relation = duckdb.sql(f"select * from read_parquet('{path}') order by id")
    for _ in relation.to_arrow_reader(CHUNK):
        pass


WAYS = {"DuckDB sorts": by_duckdb, "privgram": by_privgram}


def main() -> None:
    """Fill the table, or run one and print its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--units", type=float, default=1e6)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        way, path = options.run
        start = time.perf_counter()
        WAYS[way](Path(path))
        wall, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
        processor = used.ru_utime + used.ru_stime
        print(f"| {way} | {wall:.1f} | {processor:.1f} | {used.ru_maxrss / 2**20:.2f} |")
        return
    lines = ["| | seconds | of processor | most memory, GiB |", "|---|--:|--:|--:|"]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, "rows.parquet")
        write(path, int(options.rows), int(options.units))
        for way in WAYS:
            command = [sys.executable, "-m", "bench.unit_sort", "--run", way, str(path)]
            run = subprocess.run(
                command, check=True, env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE
            )
            lines.append(run.stdout.decode())
    how = f"{options.rows:,.0f} rows of {options.units:,.0f} units"
    pages.fill("unsorted", [*map(str.strip, lines), "", pages.today(how)])


if __name__ == "__main__":
    main()
