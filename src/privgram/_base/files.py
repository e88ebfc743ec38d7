"""Files that are whole or not there, durable, and used by one process at a time; also by forks."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import threading
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from privgram._base.text import shown

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# What a fork leaves to the child: no sum half-way, and no lock that nobody will release.
#
# A forked child has a copy of the memory and one thread. A lock that another thread held stays
# held in it for ever, and what it guards may be half written. So a fork waits until nobody holds a
# `Guard`, and the child gets new locks.
#
# It shares open files as well, and with a file its lock (`flock`), which then outlives a parent
# that is killed. So the child gives up files that are open to be locked.

#: Held while the process forks, so that no guard is made meanwhile.
_forking = threading.RLock()
_guards: WeakSet[Guard] = WeakSet()
_held: list[Any] = []
_unshared: set[int] = set()

#: Flag that keeps Windows from translating line ends; 0 elsewhere.
_BINARY = getattr(os, "O_BINARY", 0)

#: Flag that keeps a name from leading to another file; 0 on Windows.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


class Guard:
    """Keeper of a lock that a forked child finds free.

    A fork waits for the lock, which must be held for a moment only, and no other guard's be taken
    under it. The lock is reentrant: a thread that forks while holding it does not wait for itself.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        with _forking:
            _guards.add(self)


def check_process(pid: int) -> None:
    """Refuse to go on with a pass in a child: without its workers, and with the parent's noise."""
    if os.getpid() != pid:
        raise RuntimeError(
            "the process was forked by the source, and the child has no part in the pass: "
            "it must end with os._exit, as multiprocessing does"
        )


@contextmanager
def open_locked(path: Path, flags: int) -> Iterator[int]:
    """Open a file to lock it, for this process alone: a child forked meanwhile has it no more."""
    with _forking:  # no fork between opening it and noting that
        handle = os.open(path, flags | _BINARY)
        _unshared.add(handle)
    try:
        yield handle
    finally:
        with _forking:
            _unshared.discard(handle)
            os.close(handle)


def _before() -> None:
    _forking.acquire()
    for guard in _guards:
        guard.lock.acquire()
        _held.append(guard.lock)


def _after_in_parent() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


def _after_in_child() -> None:
    # New locks, and none released: it is not known who else was waiting for them.
    global _forking
    _forking = threading.RLock()
    _held.clear()
    for guard in _guards:
        guard.lock = threading.RLock()
    if _unshared:
        # Their numbers stay taken, by what cannot be written. A thread that forked under the lock
        # goes on in the child, and must not write to the file or to another of its number.
        nothing = os.open(os.devnull, os.O_RDONLY)
        for handle in _unshared:
            os.dup2(nothing, handle, inheritable=False)
        os.close(nothing)
        _unshared.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )


#: Permissions of a new file, before the umask: a release is public, a moment is not.
PUBLIC, SECRET = 0o666, 0o600

#: How a ledger begins.
LEDGER = b'{"format": "privgram-ledger"'


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, durable once this returns.

    An existing file is replaced, but a ledger never: nothing takes the place of what says how much
    was spent. On failure it stays as it was.
    """
    _check_replaceable(path)
    with _beside(path, data, PUBLIC) as temporary:
        os.replace(temporary, path)
    _sync_folder(path.parent)


def create_file(path: Path, data: bytes, mode: int = PUBLIC) -> None:
    """Write a file that does not exist yet, whole or not at all, durable once this returns.

    FileExistsError also if another process was faster. From `mode` the umask is taken.
    """
    with _beside(path, data, mode) as temporary:
        os.link(temporary, path)
    _sync_folder(path.parent)


def check_distinct(reads: Mapping[str, Iterable[Path]], writes: Mapping[str, Path | None]) -> None:
    """Refuse file arguments, by their names, if one would take another's place.

    Files that are only read may be the same. One of `writes` must be no other one and none of
    `reads`: by any path, through links, and, for files that do not exist yet, also where only the
    case of their letters differs.
    """
    seen = {_identity(path): name for name, paths in reads.items() for path in paths}
    for name, path in writes.items():
        if path is not None and (other := seen.setdefault(_identity(path), name)) != name:
            raise ValueError(
                f"{other} and {name} are one file, {shown(path)}: one would take the other's "
                "place. Give each a file of its own"
            )


def _identity(path: Path) -> object:
    """What two paths of one file have in common, whether it exists or will."""
    real = Path(os.path.realpath(path))
    with suppress(OSError):
        status = os.stat(real)
        return status.st_dev, status.st_ino
    # Some systems take names of either case for one, and letters of one or of two code points.
    name = unicodedata.normalize("NFC", real.name).casefold()
    return (_identity(real.parent) if real.name else real), name


def check_folder(path: Path) -> None:
    """Raise FileNotFoundError, in a sentence, unless the folder of a file is there."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {shown(folder)}: make it, or name another")


def check_room(path: Path, size: int = 0) -> None:
    """Make a file of a size beside another and remove it, before the real one is paid for."""
    _check_replaceable(path)
    with _beside(path, b"", SECRET) as temporary:
        if size and hasattr(os, "posix_fallocate"):
            handle = os.open(temporary, os.O_WRONLY | _NO_LINK)
            try:
                os.posix_fallocate(handle, 0, size)
            finally:
                os.close(handle)


def _check_replaceable(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):  # replaced, it would be gone
        raise ValueError(f"{shown(path)} is a device or a pipe: give the path of a file")
    with suppress(OSError), open(path, "rb") as file:
        if file.read(len(LEDGER)) == LEDGER:
            raise ValueError(
                f"{shown(path.name)} is a ledger, the record of a budget: nothing is written over "
                "it. Give another path"
            )


@contextmanager
def _beside(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write data to a file in the same folder, which is gone afterwards."""
    check_folder(path)
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _BINARY, mode)
        with open(handle, "wb") as file, _claimed(handle):
            file.write(data)
            file.flush()
            os.fsync(handle)
            if sys.platform == "win32":  # where nothing that is open is renamed
                file.close()
            yield temporary
    except OSError as error:
        if error.errno is None:
            raise
        # The name that the caller knows; a write that fails for want of room has none.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        while True:
            try:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                break
            except KeyboardInterrupt:  # a second one: the first, or the write, is done with
                continue


#: Seconds after which what nobody has locked is taken for left behind. A write takes less, also
#: by a computer or a version whose locks are not seen here.
LEFT = 60.0


def _sweep(path: Path) -> None:
    """Remove what writers of this file left behind that were killed."""
    if sys.platform == "win32":  # which has no such locks
        return
    left = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with suppress(OSError):  # a write that cannot be done says so itself
        for name in filter(left.fullmatch, os.listdir(path.parent)):
            with suppress(OSError):  # somebody's, or gone meanwhile
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                with open_locked(path.with_name(name), flags) as handle:
                    status = os.fstat(handle)
                    if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > LEFT:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        try:
                            os.unlink(path.with_name(name))
                        finally:
                            fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def _claimed(handle: int) -> Iterator[None]:
    """Hold the lock by which `_sweep` knows that a new file's writer lives."""
    if sys.platform == "win32":
        yield
        return
    with suppress(OSError):  # no locks here: none to be had by `_sweep` either
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        with suppress(OSError):  # not left to close, as in `locked`
            fcntl.flock(handle, fcntl.LOCK_UN)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where folders can be opened."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(handle: int, shared: bool = False) -> Iterator[None]:
    """Hold the advisory lock of an open file; wait for it.

    It excludes other processes, and threads that opened the file themselves. The system
    lets go of it when the process ends, however it ends, and its forked children that still have
    the file open: see `open_locked`.
    """
    if sys.platform == "win32":
        # A byte far beyond the end stands for the file; locks are never shared here.
        os.lseek(handle, 1 << 62, os.SEEK_SET)
        while True:
            with suppress(OSError):  # gives up after ten seconds
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                break
        try:
            yield
        finally:
            os.lseek(handle, 1 << 62, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            yield
        finally:
            # Not left to close: a child that C code forked meanwhile shares the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)


def read_all(handle: int) -> bytes:
    """All of an open file."""
    os.lseek(handle, 0, os.SEEK_SET)
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def append_durably(handle: int, data: bytes, end: int) -> None:
    """Put data where the file shall end, durably, and all of it or nothing."""
    try:
        os.ftruncate(handle, end)  # a line that was never finished
        _write(handle, data, end)
        os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(handle, end)
        raise


def _write(handle: int, data: bytes, start: int) -> None:
    os.lseek(handle, start, os.SEEK_SET)
    while data:
        data = data[os.write(handle, data) :]
