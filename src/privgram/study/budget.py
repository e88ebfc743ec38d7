"""The ledger of a study: in a file, or in one of this process alone."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram.ledger import Composition
    from privgram.privacy import Adjacency

__all__ = ["identity", "name_of", "open_ledger"]

#: What a table in memory is called.
UNNAMED = "table"


def name_of(table: Any) -> str:
    """What a table is called by default: the name of its file or folder, or "table"."""
    if isinstance(table, (list, tuple)) and table and isinstance(table[0], (str, os.PathLike)):
        table = Path(table[0]).absolute().parent
    if not isinstance(table, (str, os.PathLike)):
        return UNNAMED
    path = Path(table).absolute()
    while any(sign in path.name for sign in "*?["):  # of a pattern, its folder
        path = path.parent
    return path.name.partition(".")[0] or UNNAMED


def identity(name: str, columns: Iterable[str], unit: str | None) -> str:
    """Tell one study from another by what is public: names, and never what is in the table.

    Bounds and levels are left out: they may be mended, and the rows that are protected stay.
    """
    said = json.dumps([name, sorted(columns), unit])
    return f"{name} {hashlib.sha256(said.encode()).hexdigest()[:32]}"


def open_ledger(
    given: Any,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    table: str,
    composition: Composition | None = None,
) -> tuple[Ledger, bool]:
    """The ledger that a study spends from, and whether it outlives this process.

    One that is there must have the same budget, and the table's name by `identity`.
    """
    if isinstance(given, Ledger):
        given = given.path
    elif given is not None and not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"ledger is a path or a pg.Ledger, not {type(given).__name__}")
    if given is not None:
        return Ledger(given, epsilon, delta, adjacency, composition, table=table), True
    folder = tempfile.mkdtemp(prefix="privgram-")
    atexit.register(_forget, folder, os.getpid())
    # A file all the same: forked children and pickled copies then spend the same budget.
    path = Path(folder) / "budget.ledger"
    return Ledger(path, epsilon, delta, adjacency, composition, table=table), False


def _forget(folder: str, owner: int) -> None:
    """Remove a budget at the end of the process that made it, and not of its children."""
    if os.getpid() == owner:
        with suppress(OSError):
            shutil.rmtree(folder)
