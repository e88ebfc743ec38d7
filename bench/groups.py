"""What a pass over the groups of a table costs.

    python -m bench.groups [--rows 10_000_000] [--groups 3000]

In processor seconds of one thread, as a ratio to the pass without groups in the same run: from
columns in memory and from Parquet.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import privgram as pg

from . import pages

COLUMNS = pg.Columns({f"x{i}": (-1, 1) for i in range(10)})


def seconds(run: Callable[[], object]) -> float:
    """Processor seconds, the least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def passes(n_rows: int, n_groups: int) -> None:
    """Fill the table of a pass by group beside one without."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = {name: rng.uniform(-1, 1, n_rows) for name in COLUMNS}
    group = rng.integers(0, n_groups, n_rows)
    names = [f"tract {i:06d}" for i in range(n_groups)]
    lines = [f"| {n_rows:,} rows, {n_groups:,} groups | seconds without groups | with | ratio |"]
    lines.append("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        column = pa.array(names).take(pa.array(group))
        pq.write_table(pa.table({**table, "g": column}), path, row_group_size=1 << 19)
        for what, source, groups in (
            ("columns in memory", {**table, "g": group.astype(np.int32)}, list(range(n_groups))),
            ("Parquet", path, names),
        ):

            def plain(source: object = source) -> object:
                return pg.second_moment(source, columns=COLUMNS, threads=1)

            def by_group(source: object = source, groups: list[object] = groups) -> object:
                return pg.second_moment(
                    source, columns=COLUMNS, threads=1, by=pg.Groups("g", groups)
                )

            alone, grouped = seconds(plain), seconds(by_group)
            lines.append(f"| {what} | {alone:.2f} | {grouped:.2f} | {grouped / alone:.2f} |")
    pages.fill("groups", [*lines, "", pages.today()])


def main() -> None:
    """Measure it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=3000)
    asked = parser.parse_args()
    passes(asked.rows, asked.groups)


if __name__ == "__main__":
    main()
