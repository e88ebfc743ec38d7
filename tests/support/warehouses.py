"""Warehouses to run queries on: PostgreSQL on a socket of its own, and tables for all of them."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

#: What PostgreSQL calls the types of pandas.
TYPES = {
    "float64": "float8",
    "float32": "float4",
    "int64": "bigint",
    "int32": "integer",
    "bool": "boolean",
    "datetime64[us]": "timestamp",
}


def _binaries():
    """Where PostgreSQL's server is, as Debian has it or on the path; None without one."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    some = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return some[-1].parent if some else None


@contextmanager
def server():
    """A connection to a PostgreSQL that is started for it, and gone with all of it afterwards.

    PostgreSQL does not run as root: root starts it as another user.
    """
    psycopg = pytest.importorskip("psycopg")
    if (binaries := _binaries()) is None:
        pytest.skip("no PostgreSQL server: apt-get install postgresql")
    as_user = {}
    folder = Path(tempfile.mkdtemp(prefix="privgram-pg-"))  # a socket's path is short
    if os.geteuid() == 0:
        names = {user.pw_name for user in pwd.getpwall()}
        user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def run(program, *arguments):
        command = [str(binaries / program), "-D", str(folder / "data"), *arguments]
        done = subprocess.run(
            command, **as_user, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert done.returncode == 0, done.stderr.decode()

    try:
        run("initdb", "-A", "trust", "-U", "tester", "--no-sync", "--no-locale", "-E", "UTF8")
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            with psycopg.connect(
                host=str(folder), user="tester", dbname="postgres", autocommit=True
            ) as connection:
                yield connection
        finally:
            run("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def load(connection, name, frame):
    """Make a table of a data frame, in place of an earlier one of the name."""
    if type(connection).__module__.lstrip("_").startswith("duckdb"):
        import pyarrow as pa

        # As it is: by pandas, a NaN would be a NULL.
        columns = {
            c: pa.array(x.to_numpy(), from_pandas=False) if x.dtype.kind == "f" else pa.array(x)
            for c, x in frame.items()
        }
        connection.register("frame", pa.table(columns))
        connection.execute(f"create or replace table {quoted(name)} as select * from frame")
        connection.unregister("frame")
        return
    if type(connection).__module__.startswith("pyspark"):
        connection.createDataFrame(frame).createOrReplaceTempView(name)
        return
    kinds = (f"{quoted(c)} {TYPES.get(str(d), 'text')}" for c, d in frame.dtypes.items())
    connection.execute(f"drop table if exists {quoted(name)}")
    connection.execute(f"create table {quoted(name)} ({', '.join(kinds)})")
    texts = [c for c, d in frame.dtypes.items() if str(d) not in TYPES]
    plain = frame.astype(dict.fromkeys(frame.columns, object))
    plain[texts] = plain[texts].where(frame[texts].notna(), None)
    times = [c for c, d in frame.dtypes.items() if str(d).startswith("datetime")]
    plain[times] = plain[times].where(frame[times].notna(), None)
    with connection.cursor().copy(f"copy {quoted(name)} from stdin") as copy:
        for row in plain.itertuples(index=False):
            copy.write_row(row)
