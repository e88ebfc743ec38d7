"""What a fork leaves to the child: no sum half-way, and no lock that nobody will release.

A forked child has a copy of the memory and one thread. A lock that another thread held stays
held in it for ever, and what it guards may be half written. So a fork waits until nobody holds a
`Guard`, and the child gets new locks.

It shares open files as well, and with a file its lock (``flock``), which then outlives a parent
that is killed. So the child gives up files that are open to be locked.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

#: Held while the process forks, so that no guard is made meanwhile.
_forking = threading.RLock()
_guards: WeakSet[Guard] = WeakSet()
_held: list[Any] = []
_unshared: set[int] = set()


class Guard:
    """Keeper of a lock that a forked child finds free.

    With `wait` a fork waits for the lock, which then must be held for a moment only, and no other
    guard's be taken under it. Without, what the lock guards must be sound at any time. The lock is
    reentrant: a thread that forks while holding it does not wait for itself.
    """

    def __init__(self, wait: bool = True) -> None:
        self.lock = threading.RLock()
        self.wait = wait
        with _forking:
            _guards.add(self)


def check_process(pid: int) -> None:
    """Refuse to go on with a pass in a child: without its workers, and with the parent's noise."""
    if os.getpid() != pid:
        raise RuntimeError(
            "the process was forked by the source, and the child has no part in the pass: "
            "it must end with os._exit, as multiprocessing does"
        )


def open_unshared(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that a forked child will not have; close it by `close_unshared`."""
    with _forking:  # no fork between opening it and noting that
        handle = os.open(path, flags)
        _unshared.add(handle)
    return handle


def close_unshared(handle: int) -> None:
    """Close what `open_unshared` opened."""
    with _forking:
        _unshared.discard(handle)
        os.close(handle)


def _before() -> None:
    _forking.acquire()
    for guard in _guards:
        if guard.wait:
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
