"""Passes that go on where they were interrupted: same bits, nothing read twice, nothing taken
for what it is not."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from privgram import Columns, SecondMoment, second_moment
from privgram._core.rows import Accumulator
from privgram.engines import checkpoint as module
from privgram.engines import threads as engine
from privgram.moment.rows import Feeder
from privgram.sources import csv, npy, table

pa = pytest.importorskip("pyarrow")
pacsv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.slow


@pytest.fixture
def x(rng):
    return rng.standard_normal((4000, 5))


@pytest.fixture
def kept(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder / "pass.checkpoint"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    for source in (csv, npy, table):
        monkeypatch.setattr(source, "CHUNK_BYTES", 1 << 12)


def arrow(x):
    return pa.table({name: x[:, j] for j, name in enumerate("abcde")})


def written(x, folder):
    """The same table in every kind of file."""
    half = len(x) // 2
    np.save(folder / "t.npy", x)
    np.save(folder / "f.npy", np.asfortranarray(x))
    pacsv.write_csv(arrow(x), folder / "t.csv")
    parquet.write_table(arrow(x), folder / "t.parquet", row_group_size=200)
    parts = folder / "parts"
    parts.mkdir()
    np.save(parts / "1.npy", x[:half])
    np.save(parts / "2.npy", x[half:])
    return {
        "npy": folder / "t.npy",
        "npy, Fortran": folder / "f.npy",
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "folder": parts,
        "glob": parts / "*.npy",
        "list of paths": [parts / "1.npy", parts / "2.npy"],
        "array": x,
        "arrow": pa.Table.from_batches(arrow(x).to_batches(200)),
        "list of arrays": [x[:half], x[half:]],
    }


KINDS = [
    *("npy", "npy, Fortran", "csv", "parquet", "folder", "glob", "list of paths"),
    *("array", "arrow", "list of arrays"),
]


class Stop(Exception):
    pass


@pytest.fixture
def fed(monkeypatch):
    """Count the rows that are fed, and stop after so many."""

    class Fed:
        rows, limit = 0, 1 << 60

    feed = Feeder.feed

    def count(self, block):
        if Fed.rows >= Fed.limit:
            raise Stop
        n = feed(self, block)
        Fed.rows += n
        return n

    monkeypatch.setattr(Feeder, "feed", count)
    return Fed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_goes_on_where_it_was_interrupted(x, tmp_path, kept, fed, kind, threads):
    source = written(x, tmp_path)[kind]
    whole = second_moment(source, 3.0).to_bytes()
    for limit in (700, 900, 1500):
        fed.rows, fed.limit = 0, limit
        with pytest.raises(Stop):
            second_moment(source, 3.0, threads=threads, checkpoint=kept)
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    fed.rows, fed.limit = 0, 1 << 60
    moment = second_moment(source, 3.0, threads=threads, checkpoint=kept)
    assert moment.to_bytes() == whole
    assert not list(kept.parent.iterdir())
    # What is fed again is at most a chunk a thread and interruption.
    handed_in = len(x) - fed.rows
    assert 700 + 900 + 1500 - handed_in <= 3 * threads * 450


def test_with_columns(x, kept, fed):
    x[::7, 2] = np.nan
    columns = Columns(dict.fromkeys("abcde", (-2, 2)), intercept=True, missing="drop")
    whole = second_moment(x, columns=columns).to_bytes()
    fed.limit = fed.rows + 2000
    with pytest.raises(Stop):
        second_moment(x, columns=columns, checkpoint=kept)
    fed.limit = 1 << 60
    assert second_moment(x, columns=columns, checkpoint=kept).to_bytes() == whole


def interrupted(source, kept, fed, **options):
    fed.rows, fed.limit = 0, 2000
    with pytest.raises(Stop):
        second_moment(source, checkpoint=kept, threads=1, **options)
    fed.limit = 1 << 60


def test_a_bad_row_has_its_place_also_after_an_interruption(x, kept, fed, tmp_path):
    x[3456, 1] = np.nan
    path = tmp_path / "t.npy"
    np.save(path, x)
    interrupted(path, kept, fed, bound=3.0)
    for threads in (1, 3):
        with pytest.raises(ValueError, match="row 3456 "):
            second_moment(path, 3.0, threads=threads, checkpoint=kept)


def test_progress_goes_on_too(x, kept, fed):
    interrupted(x, kept, fed, bound=3.0)
    seen = []
    second_moment(x, 3.0, checkpoint=kept, progress=lambda rows, total: seen.append(rows))
    assert seen[-1] == len(x)


def test_other_passes_are_refused(x, kept, fed, tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, x)
    interrupted(path, kept, fed, bound=3.0)
    before = kept.read_bytes()
    columns = Columns(dict.fromkeys("abcde", (-2, 2)))
    other = tmp_path / "other.npy"
    np.save(other, x)
    for source, options, what in (
        (path, {"bound": 3.5}, "bound"),
        (path, {"columns": columns, "bound": 3.0}, "columns"),
        (other, {"bound": 3.0}, "files or table"),
        (x, {"bound": 3.0}, "files or table"),
    ):
        with pytest.raises(ValueError, match=f"another pass: its {what} differ"):
            second_moment(source, checkpoint=kept, **options)
    assert kept.read_bytes() == before
    # A file that was touched may have changed.
    os.utime(path, ns=(1, 1))
    with pytest.raises(ValueError, match="another pass"):
        second_moment(path, 3.0, checkpoint=kept)


def test_chunks_of_another_size_are_another_pass(x, kept, fed, monkeypatch):
    interrupted(x, kept, fed, bound=3.0)
    monkeypatch.setattr(table, "CHUNK_BYTES", 1 << 13)
    with pytest.raises(ValueError, match="another pass: its privgram differ"):
        second_moment(x, 3.0, checkpoint=kept)


def test_every_damage_is_found_and_the_file_left_alone(x, kept, fed):
    interrupted(x, kept, fed, bound=3.0)
    whole = kept.read_bytes()
    rng = np.random.default_rng(4)
    damaged = [whole[:size] for size in (0, 5, 20, 27, 28, 60, len(whole) - 1)]
    for at in rng.integers(0, len(whole), 200):
        changed = bytearray(whole)
        changed[at] ^= 1 << rng.integers(8)
        damaged.append(bytes(changed))
    for data in damaged:
        kept.write_bytes(data)
        with pytest.raises(ValueError, match=r"damaged|not a checkpoint"):
            second_moment(x, 3.0, checkpoint=kept)
        assert kept.read_bytes() == data
    kept.write_bytes(whole)
    second_moment(x, 3.0, checkpoint=kept)


def test_what_can_be_read_once_is_refused(x, kept):
    streams = [iter([x, x]), (block for block in [x]), pa.RecordBatchReader.from_stream(arrow(x))]
    for source in streams:
        with pytest.raises(ValueError, match="can be read again"):
            second_moment(source, 3.0, checkpoint=kept)
    assert not kept.exists()


def test_a_bad_place_is_found_before_the_pass(x, tmp_path, fed):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        second_moment(x, 3.0, checkpoint=tmp_path / "nowhere" / "c")
    with pytest.raises(OSError):
        second_moment(x, 3.0, checkpoint=tmp_path)
    assert fed.rows == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_a_disk_that_fills_up_ends_the_pass_and_keeps_the_last_one(
    x, kept, fed, monkeypatch, threads
):
    interrupted(x, kept, fed, bound=3.0)
    before = kept.read_bytes()
    write = module._files.write_atomically
    calls = []

    def full(path, data, mode):
        calls.append(path)
        if len(calls) > 1:
            monkeypatch.setattr(module._files.os, "fsync", fail)
        write(path, data, mode)

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module._files, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        second_moment(x, 3.0, threads=threads, checkpoint=kept)
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]
    assert len(kept.read_bytes()) == len(before)
    monkeypatch.undo()


def test_a_cluster_has_no_checkpoint(kept):
    dask = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="checkpoint is for one machine"):
        second_moment(dask.ones((10, 2)), 1.0, checkpoint=kept)


@pytest.mark.parametrize(
    ("kind", "threads"), [("npy", 1), ("csv", 2), ("parquet", 2), ("folder", 3)]
)
def test_kill_minus_nine_until_it_is_through(x, tmp_path, kept, kind, threads):
    path = written(np.tile(x, (60, 1)), tmp_path)[kind]
    script = Path(__file__).with_name("resumer.py")
    done = subprocess.run(
        [sys.executable, script, path, str(threads), kept], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["same"]
    assert result["kills"] > 0
    assert result["resumed"] > 0
    assert kept.name not in result["left"]


def test_a_thread_that_met_a_failure_hands_nothing_in(x, kept):
    """It may go on to earlier chunks, with part of a chunk in its sum."""
    x[450, 0] = np.nan
    opened = table.Table(None, 5, None, (chunk for chunk in ()))
    mark = module.Checkpoint(kept, SecondMoment(5, 3.0), "a test")
    run = engine._Pass(opened, lambda: Feeder(Accumulator(5, 3.0)), lambda rows: None, mark)
    feeder = run.new_feeder()
    run.process(feeder, 4, table.Chunk(lambda: iter((x[400:420], x[420:500]))))
    run.process(feeder, 0, table.Chunk(lambda: iter((x[:100],))))
    assert run.failure
    assert run.failure[0] == 4
    assert mark.rows == mark.moment.n_rows == 0
