"""The query of the sums beside a pass over the same rows: python -m bench.warehouse.

A table of numbers lies in DuckDB, a file of its own, and in PostgreSQL, on a socket of its own.
Each way runs in a process of its own, whose peak of memory beyond the start is measured; the engine
of DuckDB is in that process, and PostgreSQL's is in others. With --duckreg PATH its compressed
regression of whole numbers runs beside the query of the same columns; duckreg 0.4 needs an older
DuckDB than ours: `pip install --target PATH duckreg "duckdb<1.4"`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.pages import ROOT, fill, today

COLUMNS = 10
ROWS = {"duckdb": 10_000_000, "postgres": 10_000_000}
RUNS = 3

#: Of numbers, and of whole numbers, of which few combinations are different.
TABLE = ", ".join(f"random() as x{i}" for i in range(COLUMNS))
WHOLE = "random() as y, floor(random() * 60) as age, floor(random() * 10) as a, " + (
    "floor(random() * 10) as b"
)


def described(names: list[str]) -> Any:
    """Bounds of the columns, some beyond and some within the values."""
    import privgram as pg

    tops = {"age": 60, "a": 10, "b": 10}
    return pg.Columns({name: (0, tops.get(name, 0.9)) for name in names}, intercept=True)


def ways(way: str, where: str) -> Callable[[], Any]:
    """What is timed, once its engine is connected to."""
    import privgram as pg

    names = [f"x{i}" for i in range(COLUMNS)]
    if way.startswith("postgres"):
        return of_postgres(way, where, described(names))
    if way == "duckreg":
        return duckreg(where + ".own")
    import duckdb

    connection = duckdb.connect(where, read_only=True)
    connection.execute("set threads = 2")
    connection.execute("set memory_limit = '2GB'")
    if way == "duckdb: query":
        query = pg.Query(connection, "select * from numbers")
        return lambda: pg.second_moment(query, columns=described(names))
    if way == "duckdb: rows":
        relation = connection.table("numbers")
        return lambda: pg.second_moment(relation, columns=described(names))
    if way == "duckdb: float64 sums":
        pairs = ", ".join(f"sum(x{i} * x{j})" for i in range(COLUMNS) for j in range(i + 1))
        return lambda: connection.execute(f"select {pairs} from numbers").fetchall()
    whole = ["y", "age", "a", "b"]
    if way == "duckdb: query of whole numbers":
        query = pg.Query(connection, "select * from whole")
        return lambda: pg.second_moment(query, columns=described(whole))
    table = connection.execute("select * from numbers").fetchnumpy()
    return lambda: pg.second_moment(table, columns=described(names))


def of_postgres(way: str, where: str, columns: Any) -> Callable[[], Any]:
    """The query, or rows by the driver; both by one process of the server, whose time counts."""
    import numpy as np
    import psycopg

    import privgram as pg

    connection = psycopg.connect(where)
    connection.execute("set max_parallel_workers_per_gather = 0")
    SERVERS.append(connection.info.backend_pid)
    text = "select * from numbers"
    if way == "postgres: query":
        return lambda: pg.second_moment(pg.Query(connection, text), columns=columns)

    def blocks() -> Iterator[Any]:
        with connection.cursor("rows", binary=True) as cursor:
            cursor.execute(text)
            while rows := cursor.fetchmany(50_000):
                yield np.array(rows)

    return lambda: pg.second_moment(blocks(), columns=columns, threads=1)


#: Processes of servers that work for this one.
SERVERS: list[int] = []


def processor() -> float:
    """Seconds of processor so far, of this process and the servers'."""
    ticks = 0
    for server in SERVERS:
        fields = Path(f"/proc/{server}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def duckreg(where: str) -> Callable[[], Any]:
    """Its regression, of a table that its own version of DuckDB has made."""
    import duckdb

    with duckdb.connect(where) as connection:
        connection.execute("set memory_limit = '2GB'")
        connection.execute(f"create table whole as select {WHOLE} from range({ROWS['duckdb']})")
    from duckreg.estimators import DuckRegression

    def fit() -> None:
        known = {"cluster_col": "", "n_bootstraps": 0, "seed": 0}
        one = DuckRegression(db_name=where, table_name="whole", formula="y ~ age + a + b", **known)
        one.fit()

    return fit


def peak() -> int:
    """The most bytes that this process had; what `getrusage` says begins with the parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def measure(way: str, where: str) -> None:
    """Print seconds and peak bytes of one way, in this process."""
    call = ways(way, where)
    before = peak()
    seconds = []
    for _ in range(RUNS):
        start = processor()
        call()
        seconds.append(processor() - start)
    print(json.dumps([min(seconds), peak() - before]))


def apart(way: str, where: Path | str, path: str | None = None) -> tuple[float, float]:
    """Measure one way in a process of its own."""
    more = {} if path is None else {"PYTHONPATH": path}
    out = subprocess.run(
        [sys.executable, "-m", "bench.warehouse", "--way", way, "--where", str(where)],
        check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ | more,
    ).stdout  # fmt: skip
    found: tuple[float, float] = tuple(json.loads(out.splitlines()[-1]))
    return found


def main() -> None:
    """Measure all ways, and fill the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--way")
    parser.add_argument("--where")
    parser.add_argument("--duckreg")
    asked = parser.parse_args()
    if asked.way:
        measure(asked.way, asked.where)
        return
    import duckdb

    sys.path.insert(0, str(ROOT / "tests"))
    from support.warehouses import server

    lines = [
        "| rows | how | seconds of processor | beside our pass | memory, MB |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]

    def row(rows: int, how: str, found: tuple[float, float], own: float) -> None:
        seconds, memory = found
        print(rows, how, seconds, memory, flush=True)
        lines.append(
            f"| {rows:,} | {how} | {seconds:.2f} | {seconds / own:.1f} | {memory / 1e6:,.0f} |"
        )

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "it.duckdb"
        n, fewer = ROWS["duckdb"], ROWS["postgres"]
        with duckdb.connect(str(path)) as connection:
            connection.execute("set threads = 2")
            connection.execute("set memory_limit = '2GB'")
            connection.execute(f"create table numbers as select {TABLE} from range({n})")
            if asked.duckreg:
                connection.execute(f"create table whole as select {WHOLE} from range({n})")
        own = apart("duckdb: rows", path)
        row(n, "our pass over DuckDB's rows", own, own[0])
        row(n, "our pass over arrays in memory", apart("arrays", path), own[0])
        row(n, "DuckDB: the query", apart("duckdb: query", path), own[0])
        row(n, "DuckDB: `sum(x * y)` of float64", apart("duckdb: float64 sums", path), own[0])
        if asked.duckreg:
            found = apart("duckdb: query of whole numbers", path)
            row(n, "DuckDB: the query, 4 columns of whole numbers", found, own[0])
            found = apart("duckreg", path, asked.duckreg)
            row(n, "duckreg on 4 such columns, not private", found, own[0])
    with server() as connection:
        names = ", ".join(f"x{i} float8" for i in range(COLUMNS))
        connection.execute(f"create table numbers ({names})")
        connection.execute(f"insert into numbers select {TABLE} from generate_series(1, {fewer})")
        connection.execute("vacuum analyze numbers")
        where = connection.info.dsn
        own = apart("postgres: rows", where)
        row(fewer, "our pass over PostgreSQL's rows, by psycopg", own, own[0])
        row(fewer, "PostgreSQL: the query", apart("postgres: query", where), own[0])
    fill("warehouse", [*lines, "", today("the least of three runs")])


if __name__ == "__main__":
    main()
