"""When the disk, the source or the user says no: one line, a status, nothing half-written.

Faults are put into a process of its own, at the call that would meet them.
"""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base import files as _files
from privgram.papers import hardt_roth as low_rank

pytestmark = pytest.mark.slow

# What is run before the command line, by the name of the fault.
FAULTS = {
    # The kernel's own refusal, after some bytes of a file.
    "full": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n",
    "flush": (
        "import os\ndef fsync(handle): raise OSError(28, 'No space left on device')\n"
        "os.fsync = fsync\n"
    ),
    "permission": (
        "import os\nreal = os.open\n"
        "def opened(path, flags, *more, **options):\n"
        "    if flags & (os.O_CREAT | os.O_RDWR):\n"
        "        raise PermissionError(13, 'Permission denied', path)\n"
        "    return real(path, flags, *more, **options)\n"
        "os.open = opened\n"
    ),
    "late": (
        "import sys, privgram._base.saved\ndef full(path, data):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "sys.modules['privgram._base.saved'].write_atomically = full\n"
    ),
    # Between the bytes of a file and its name.
    "interrupt": (
        "import os, signal\nreal = os.fsync\n"
        "def fsync(handle): real(handle); os.kill(os.getpid(), signal.SIGINT)\n"
        "os.fsync = fsync\n"
    ),
    "terminate": (
        "import os, signal\nreal = os.fsync\n"
        "def fsync(handle): real(handle); os.kill(os.getpid(), signal.SIGTERM)\n"
        "os.fsync = fsync\n"
    ),
}
SAYS = {
    "late": "No space left on device",
    "full": "File too large",
    "flush": "No space left on device",
    "permission": "Permission denied",
    "interrupt": "interrupted",
    "terminate": "terminated",
}
ANYWHERE = [fault for fault in FAULTS if fault != "late"]
GUARANTEE = ["--epsilon", "0.5", "--delta", "1e-7"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", np.random.default_rng(0).uniform(-1, 1, (3000, 3)))
    pg.Columns(dict.fromkeys("abc", (-1, 1)), intercept=True).save("columns.toml")
    study("table.npy")
    return tmp_path


def study(table, columns="columns.toml", ledger="study.ledger", out="study.toml"):
    """A study and its ledger."""
    Path(out).write_text(
        f'table = "{table}"\nledger = "{ledger}"\nepsilon = 2.0\ndelta = 1e-6\n'
        f'columns = "{columns}"\n'
    )
    return pg.Study.load(out).ledger


def run(*arguments, fault=""):
    code = FAULTS.get(fault, "") + "from privgram.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600
    )


def release(*more, fault=""):
    table = ["study.toml", *GUARANTEE, "--mechanism", "analyze-gauss"]
    return run("release", *table, "--out", "gram.json", *more, fault=fault)


#: By what is said; else the input is bad, which a disk that is full is not.
STATUS = {"interrupted": 130, "terminated": 143, "No space left on device": 1, "File too large": 1}


def failed(done, says):
    assert done.returncode == STATUS.get(says.rpartition(": ")[2], 2), done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("fault", FAULTS)
def test_release_is_whole_or_not_there(folder, fault):
    before = names(folder)
    if fault == "late":  # it is paid for, and shown
        done = release(fault=fault)
        assert done.returncode == 1
        assert "release" in done.stdout
        assert done.stderr.count("\n") == 1
        assert "gram.json: No space left on device. What was paid for is not lost" in done.stderr
        assert names(folder) == before
        return
    if fault != "full":
        failed(release(fault=fault), SAYS[fault])
        assert names(folder) == before
        return
    # One that is there stays as it was.
    (folder / "gram.json").write_text("an older release")
    failed(release("--force", fault=fault), SAYS[fault])
    assert (folder / "gram.json").read_text() == "an older release"
    assert names(folder) == sorted([*before, "gram.json"])


@pytest.mark.parametrize("fault", ANYWHERE)
def test_ledger_spends_once_or_not_at_all(folder, fault):
    ledger = pg.Study.load("study.toml").ledger
    before = names(folder)
    failed(release(fault=fault), SAYS[fault])
    assert names(folder) == before
    assert ledger.entries == ()
    if fault in ("full", "terminate"):
        text = Path("study.toml").read_text()
        Path("study.toml").write_text(text.replace("study.ledger", "new.ledger"))
        failed(release(fault=fault), SAYS[fault])
        assert names(folder) == before


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says when the table is open")
@pytest.mark.parametrize(
    ("number", "says"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_long_pass_is_ended_at_once(folder, number, says):
    # Zeros that take no room on the disk and seconds to read.
    np.lib.format.open_memmap("long.npy", "w+", "f8", (1 << 30, 3)).flush()
    study("long.npy", ledger="long.ledger")
    before = names(folder)
    command = ["release", "study.toml", *GUARANTEE, "--out", "gram.json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "privgram", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while Path(f"/proc/{process.pid}/maps").read_text().count("long.npy") == 0:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(number)
    out, error = process.communicate(timeout=600)
    assert (process.returncode, out) == (STATUS[says], "")
    assert error.startswith(f"privgram: {says}")
    assert error.count("\n") == 1
    assert names(folder) == before
    assert pg.Ledger("long.ledger").entries == ()


@pytest.mark.parametrize("kind", ["truncated", "not finite", "gone"])
def test_source_that_fails_half_way_releases_and_spends_nothing(folder, kind):
    parts = folder / "parts"
    parts.mkdir()
    x = np.load("table.npy")
    for number in range(4):
        np.save(parts / f"{number}.npy", x)
    if kind == "truncated":
        os.truncate(parts / "2.npy", 5000)
    elif kind == "gone":
        (parts / "2.npy").unlink()
        (parts / "2.npy").symlink_to(parts / "nowhere.npy")
    else:
        x[7, 1] = np.nan
        np.save(parts / "2.npy", x)
    ledger = study("parts/*.npy", ledger="parts.ledger")
    says = {"truncated": "2.npy is truncated", "gone": "2.npy", "not finite": "row 6007 "}[kind]
    done = release()
    failed(done, says)
    assert not (folder / "gram.json").exists()
    assert ledger.entries == ()
    assert not [name for name in names(folder) if name.startswith(".")]


def test_file_for_which_there_is_no_room_is_named(folder):
    assert release(fault="flush").stderr == "privgram: gram.json: No space left on device\n"


def test_page_is_whole_or_not_there(folder):
    columns = pg.Columns(dict.fromkeys("abc", (-1, 1)), intercept=True)
    noise = {"mechanism": pg.AnalyzeGauss(), "rng": np.random.default_rng(0)}
    pg.release("table.npy", columns, 1e4, 1e-6, **noise).save("earlier.json")
    before = names(folder)
    page = ["earlier.json", "--out", "noise.html"]
    failed(run("page", *page, fault="flush"), "noise.html: No space left on device")
    assert names(folder) == before


def test_bounds_that_cannot_be_saved_stay_as_they_were(folder, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    before = (folder / "columns.toml").read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"columns\.toml"):
        pg.Columns({"a": (0, 1)}).save(folder / "columns.toml")
    assert (folder / "columns.toml").read_bytes() == before
    assert not [name for name in names(folder) if name.startswith(".")]


@pytest.mark.parametrize("step", ["fsync", "replace", "link", "write"])
def test_files_are_whole_or_not_there(tmp_path, monkeypatch, step):
    """Every step of writing fails in turn, for files that are there and that are not."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"as it was")
    low = low_rank.approximate(np.eye(6, 5), 2, oversample=2, epsilon=1.0, delta=1e-5)
    low.save(tmp_path / "low.npz")
    whole = (tmp_path / "low.npz").read_bytes()

    class Fails:
        def __getattr__(self, name):
            if name != step:
                return getattr(os, name)

            def fail(*arguments):
                raise KeyboardInterrupt

            return fail

    class File:
        def __init__(self, handle, mode):
            self.file = open(handle, mode)  # noqa: SIM115

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def read(self, size):
            return self.file.read(size)

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            raise KeyboardInterrupt

    monkeypatch.setattr(_files, "os", Fails())
    if step == "write":
        monkeypatch.setattr(_files, "open", File, raising=False)
    if step != "link":
        for path in (old, new):
            with pytest.raises(KeyboardInterrupt):
                _files.write_atomically(path, b"something else")
        with pytest.raises(KeyboardInterrupt):
            low.save(tmp_path / "low.npz")
    if step != "replace":
        with pytest.raises(KeyboardInterrupt):
            _files.create_file(new, b"something else")
    assert names(tmp_path) == ["low.npz", "old"]
    assert old.read_bytes() == b"as it was"
    assert (tmp_path / "low.npz").read_bytes() == whole


def test_permissions_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        _files.write_atomically(tmp_path / "public", b"")
        _files.create_file(tmp_path / "secret", b"", _files.SECRET)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("public", "secret")]
    assert modes == [0o640, 0o600]
    refuses(lambda: _files.create_file(tmp_path / "public", b"more"), FileExistsError, "public")


@pytest.mark.parametrize("link", ["", "symlink", "hard link", "dots", "folder"])
@pytest.mark.parametrize(
    ("first", "second"),
    [("its ledger", "--out"), ("its columns", "--out"), ("its table", "its ledger")],
)
def test_one_file_for_two_purposes_is_refused(folder, link, first, second):
    """Else a release took the ledger's place."""
    keys = {"its ledger": "ledger", "its columns": "columns", "its table": "table"}
    file = "table.npy" if first == "its table" else "one.json"
    if first == "its columns":
        pg.Columns(dict.fromkeys("abc", (-1, 1))).save(file)
    if first != "its table":
        study("table.npy", **{keys[first]: file}, out="one.toml")
    other = Path(file)
    if link == "symlink":
        other = Path("other.json")
        other.symlink_to(file)
    elif link == "hard link":
        other = Path("other.json")
        os.link(file, other)
    elif link == "dots":
        other = Path("..", folder.name, file)
    elif link == "folder":
        Path("elsewhere").symlink_to(".")
        other = Path("elsewhere", file)
    if second == "its ledger":
        text = Path("study.toml").read_text()
        Path("one.toml").write_text(text.replace("study.ledger", str(other)))
    before = {name: Path(name).read_bytes() for name in names(folder) if Path(name).is_file()}
    out = other if second == "--out" else "gram.json"
    done = invoke("release", "one.toml", *GUARANTEE, "--force", "--out", out)
    assert done.exit_code == 2
    assert f"{first} and {second} are one file" in done.stderr
    assert {name: Path(name).read_bytes() for name in before} == before


def invoke(*arguments):
    from click.testing import CliRunner

    from privgram.cli._program import program

    return CliRunner().invoke(program, list(map(str, arguments)))


def test_names_that_differ_in_case_are_one_file_somewhere(folder):
    text = Path("study.toml").read_text()
    Path("study.toml").write_text(text.replace("study.ledger", "Gram.json"))
    done = invoke("release", "study.toml", *GUARANTEE, "--out", "gram.json")
    assert "its ledger and --out are one file" in done.stderr
    Path("Gram.json").touch()
    if not Path("gram.json").exists():  # here they are two
        _files.check_distinct({}, {"a": Path("Gram.json"), "b": Path("gram.json")})


def test_input_is_not_written_over(folder):
    done = invoke("release", "study.toml", *GUARANTEE, "--out", "gram.json")
    assert done.exit_code == 0
    os.link("gram.json", "page.html")
    whole = Path("gram.json").read_bytes()
    done = invoke("page", "gram.json", "--out", "page.html")
    assert "RESULT and --out are one file" in done.stderr
    assert Path("page.html").read_bytes() == whole


def test_nothing_takes_the_place_of_a_ledger(folder):
    ledger = pg.Ledger("study.json", 2.0, 1e-6)
    columns = pg.Columns(dict.fromkeys("abc", (-1, 1)))
    moment = pg.second_moment("table.npy", columns=columns)
    release = pg.release(moment, None, 0.5, 1e-7, mechanism=pg.AnalyzeGauss(), ledger=ledger)
    Path("link.json").symlink_to("study.json")
    for path in ("study.json", "link.json"):
        with pytest.raises(ValueError, match=r"is a ledger.*nothing is written over it"):
            release.save(path)
        with pytest.raises(ValueError, match="is a ledger"):
            columns.save(path)
    assert len(ledger.entries) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.name != "posix", reason="POSIX's modes")
@pytest.mark.parametrize("fault", ["folder", "room"])
def test_where_nothing_can_be_written_nothing_is_spent(folder, monkeypatch, fault):
    ledger = pg.Study.load("study.toml").ledger
    Path("out").mkdir()
    before = names(folder / "out")
    real = os.open
    if fault == "folder":  # whoever runs the tests may write anywhere

        def opened(path, flags, *more, **options):
            if flags & os.O_CREAT and Path(path).parent.name == "out":
                raise PermissionError(13, "Permission denied", path)
            return real(path, flags, *more, **options)

        monkeypatch.setattr(os, "open", opened)
    else:

        def full(handle, start, size):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
    done = invoke("release", "study.toml", *GUARANTEE, "--out", "out/gram.json")
    assert done.exit_code == (2 if fault == "folder" else 1)
    assert "out/gram.json: " in done.stderr
    assert names(folder / "out") == before
    assert ledger.entries == ()


def test_release_is_not_sent_to_its_own_ledger(tmp_path):
    """Refused before anything is spent, not when it is saved."""
    ledger = pg.Ledger(tmp_path / "study.json", 2.0, 1e-5)
    with pytest.raises(ValueError, match="one file"):
        pg.release(np.eye(3), epsilon=1.0, delta=1e-6, bound=1.0, ledger=ledger, out=ledger.path)
    assert not ledger.entries
