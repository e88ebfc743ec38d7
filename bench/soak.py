"""10^9 rows through one process: memory over time, and the total against Python's integers.

    python bench/soak.py --rows 1e9 --columns 22
    python bench/soak.py --file --rows 1e9          # a .npy of 10^7 rows, read again and again
    python bench/soak.py --small                    # many releases, many tiny updates

Rows come as slices of one table, of varied sizes; how often each row was given is known, so
the total is a sum of products of integers, done exactly. The norms are at the bound, so entries
reach 2^40 a row: sums pass 2^63, and carry into the high half, after 2^23 rows.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import privgram as pg

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from oracle import RowAccumulator


def rss() -> float:
    """Resident memory of this process now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def integers(total: pg.SecondMoment) -> np.ndarray:
    """The matrix as Python's integers."""
    hi, lo = total.int128()
    return hi.astype(object) * 2**64 + lo.astype(object)


def expected(table: np.ndarray, times: np.ndarray, bound: float) -> np.ndarray:
    """Sum of q q^T with q from the plain NumPy twin, row i taken times[i] times."""
    q = RowAccumulator(table.shape[1], bound).quantise(table)
    total = np.zeros((table.shape[1],) * 2, dtype=object)
    for count in np.unique(times):  # rows given equally often; their sums stay below 2**63
        for part in np.array_split(q[times == count], max(1, (times == count).sum() >> 20)):
            total += int(count) * (part.T @ part).astype(object)
    return total


class Watch:
    """A line of the table now and then."""

    def __init__(self, rows: float) -> None:
        self.every, self.next, self.start = rows / 10, rows / 10, time.perf_counter()
        print(f"\n| rows | seconds | RSS, MiB |\n| ---: | ---: | ---: |\n| 0 | 0.0 | {rss():.1f} |")

    def at(self, done: int) -> None:
        if done >= self.next:
            print(f"| {done:.3g} | {time.perf_counter() - self.start:.1f} | {rss():.1f} |")
            self.next += self.every


def blocks(table: np.ndarray, rows: int, times: np.ndarray, watch: Watch) -> Iterator[np.ndarray]:
    """Slices of varied sizes, noted in `times`, `rows` rows in all."""
    rng, done = np.random.default_rng(0), 0
    edges = np.zeros(len(table) + 1, np.int64)
    while done < rows:
        size = min(int(rng.integers(1, len(table))), rows - done)
        start = int(rng.integers(0, len(table) - size + 1))
        edges[start] += 1
        edges[start + size] -= 1
        yield table[start : start + size]
        done += size
        watch.at(done)
    times += np.cumsum(edges)[:-1]


def stream(rows: int, columns: int) -> None:
    table = np.random.default_rng(1).normal(size=(1 << 16, columns)) * 100 + 50
    times, watch = np.zeros(len(table), np.int64), Watch(rows)
    moment = pg.second_moment(blocks(table, rows, times, watch), bound=7.4)
    finish(moment, expected(table, times, 7.4), rows)


def files(rows: int, columns: int) -> None:
    each = min(rows, 10**7)
    table = np.random.default_rng(1).normal(size=(each, columns)).astype(np.float32) * 100 + 50
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.npy"
        np.save(path, table)
        total, watch = expected(table, np.ones(each, np.int64), 7.4), Watch(rows)
        del table
        moment, readings = pg.SecondMoment(columns, 7.4), rows // each
        for _ in range(10):
            moment.merge(pg.second_moment([path] * max(1, readings // 10), bound=7.4))
            watch.at(moment.n_rows)
    finish(moment, total * (moment.n_rows // each), moment.n_rows)


def finish(moment: pg.SecondMoment, total: np.ndarray, rows: int) -> None:
    found = integers(moment)
    assert moment.n_rows == rows
    assert (found == total).all(), "not the closed form"
    bits = int(max(abs(x) for x in found.ravel())).bit_length()
    print(f"\n{rows:.3g} rows of {moment.n_columns} columns: equal to the closed form in all "
          f"{found.size} entries, the largest of {bits} bits.")  # fmt: skip


def small() -> None:
    moment = pg.second_moment(np.random.default_rng(1).normal(size=(10**4, 10)), bound=4.0)
    print("\n| releases | RSS, MiB |\n| ---: | ---: |")
    for number in range(10**4 + 1):
        pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
        if number % 2000 == 0:
            print(f"| {number} | {rss():.1f} |")
    print("\n| updates of one to four rows | RSS, MiB |\n| ---: | ---: |")
    row = np.ones((4, 10))
    for number in range(10**5 + 1):
        moment.update(row[: 1 + number % 4])
        if number % 20000 == 0:
            print(f"| {number} | {rss():.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e9)
    parser.add_argument("--columns", type=int, default=22)
    parser.add_argument("--file", action="store_true", help="from a .npy file, read repeatedly")
    parser.add_argument("--small", action="store_true", help="releases and tiny updates instead")
    asked = parser.parse_args()
    if asked.small:
        small()
    else:
        (files if asked.file else stream)(int(asked.rows), asked.columns)


if __name__ == "__main__":
    main()
