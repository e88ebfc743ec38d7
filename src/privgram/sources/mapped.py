"""Files read by several threads: unchanged meanwhile, and memory-mapped where that is safe.

A mapped file that another process truncates ends this one by SIGBUS. Linux can promise that
nobody does: while a lease is held on a file, whoever would write to it waits. So each chunk
takes a lease, maps, and lets go. Where no lease is to be had (another system, a file of
somebody else's, a file open for writing) the file is read.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, TypeAlias

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: Size, time and place of a file.
Stamp: TypeAlias = tuple[int, ...]


def stamp(file: IO[bytes]) -> Stamp:
    """Say how an open file is."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


@contextmanager
def opened(path: Path, found: Stamp) -> Iterator[tuple[FileIO, bool]]:
    """Open a file, tell whether it may be mapped, and check that it is the one that was found.

    OSError if it has changed, at the beginning or at the end.
    """
    with (
        path.open("rb", buffering=0) as file,
        lease(file) as leased,
        unchanged(path, file, found),
    ):
        yield file, leased


@contextmanager
def unchanged(path: Path, file: IO[bytes], found: Stamp) -> Iterator[None]:
    """Check at the beginning and at the end that an open file is the one that was found."""
    _check(path, file, found)
    yield
    _check(path, file, found)


def _check(path: Path, file: IO[bytes], found: Stamp) -> None:
    if stamp(file) != found:
        raise OSError(f"{path} changed while it was read")


@contextmanager
def lease(file: FileIO) -> Iterator[bool]:
    """Make whoever would change the file wait, if that can be had."""
    if not hasattr(fcntl, "F_SETLEASE"):
        yield False
        return
    try:
        # Linux announces the one who waits by a signal. SIGIO would end the process;
        # SIGURG is ignored. It waits for a chunk, at most for the kernel's 45 seconds.
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
