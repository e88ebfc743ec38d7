"""Files that are whole or not there: what a killed writer leaves behind."""

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from privgram._base import files

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs flock")

WRITER = """
import os, sys, time
from pathlib import Path
from privgram._base import files

def never(*_):
    print("written", flush=True)
    time.sleep(600)

os.replace = never
files.write_atomically(Path(sys.argv[1]), b"secret")
"""


def test_file_left_by_a_killed_writer_is_swept(tmp_path):
    path = tmp_path / "a.ledger"
    others = [
        tmp_path / name
        for name in (
            ".a.ledger.0123456789abcde",
            ".a.ledger.0123456789abcdef0",
            ".b.ledger.0123456789abcdef",
            ".aXledger.0123456789abcdef",
            "a.ledger.0123456789abcdef",
        )
    ]
    for other in others:
        other.touch()
    (tmp_path / ".a.ledger.000000000000000f").symlink_to(others[0])
    (tmp_path / ".a.ledger.000000000000000d").mkdir()
    known = set(os.listdir(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            assert writer.stdout.readline() == "written\n"
            (left,) = set(os.listdir(tmp_path)) - known
            assert (tmp_path / left).read_bytes() == b"secret"
            for name in (left, *(x.name for x in others)):
                os.utime(tmp_path / name, (0, 0))
            # As long as it lives, its file is its own.
            files.write_atomically(path, b"")
            assert (tmp_path / left).exists()
        finally:
            writer.send_signal(signal.SIGKILL)
    now = time.time()
    os.utime(tmp_path / left, (now, now))
    files.write_atomically(path, b"")
    assert (tmp_path / left).exists()  # perhaps of a writer whose lock is not seen here
    os.utime(tmp_path / left, (0, 0))
    files.write_atomically(path, b"1")
    assert set(os.listdir(tmp_path)) == known | {path.name}
    assert path.read_bytes() == b"1"


def test_write_locks_nothing_for_longer(tmp_path, monkeypatch):
    """A child forked meanwhile has the handle too, and would keep a ledger locked."""
    import fcntl

    path = tmp_path / "a"
    children = []
    link = os.link

    def forking(*arguments):
        link(*arguments)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
        children.append((child, write))

    monkeypatch.setattr(os, "link", forking)
    try:
        files.create_file(path, b"")
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        for child, write in children:
            os.close(write)
            os.waitpid(child, 0)


@pytest.mark.parametrize("write", [files.write_atomically, files.check_room])
def test_pipe_or_device_is_not_replaced_by_a_file(tmp_path, write):
    """As `--out /dev/null` would do for root, to every process of the machine."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is a device or a pipe"):
        write(pipe, *([b"x"] if write is files.write_atomically else []))
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe.json"]
