"""What this process may use of the machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: Where Linux says how much memory a container may use; "max" where that is not limited.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory this process may use; 0 if the system does not say."""
    limits = []
    with suppress(AttributeError, OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(Path(file).read_text(encoding="ascii")))
    return max(0, min(limits, default=0))
