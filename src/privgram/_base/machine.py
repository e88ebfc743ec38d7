"""What this process may use of the machine."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: Where Linux says how much memory a container may use; "max" where that is not limited.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def zero_matrix(d: int) -> NDArray[np.float64]:
    """Zeros (d, d), of which memory is taken by the pages of a few rows' entries that are written.

    NumPy asks for pages of 2 MiB, so that a diagonal alone takes all of the matrix.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros((d, d))
    pages = mmap.mmap(-1, max(8 * d * d, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel that has no such pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.float64, d * d).reshape(d, d)


def memory() -> int:
    """Bytes of memory this process may use; 0 if the system does not say."""
    limits = []
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(Path(file).read_text(encoding="ascii")))
    return max(0, min(limits, default=0))
