"""What a study is made of: its table's name and identity, its ledger, its columns."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram.columns import Columns
from privgram.ledger import Ledger

if TYPE_CHECKING:
    from privgram.ledger import Composition
    from privgram.privacy import Adjacency

#: What a table in memory is called.
UNNAMED = "table"


def table_name(table: Any) -> str:
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


#: Linux's folder of files that are in memory alone.
MEMORY = "/dev/shm"


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
        _ = given.entries  # the file is there, and lost none: one that is gone is not made anew
        given = given.path
    elif given is not None and not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"ledger is a path or a pg.Ledger, not {type(given).__name__}")
    if given is not None:
        return Ledger(given, epsilon, delta, adjacency, composition, table=table), True
    # In memory where the system has such a folder: to wait for a disk is for what outlives this.
    in_memory = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK | os.X_OK)
    folder = tempfile.mkdtemp(prefix="privgram-", dir=MEMORY if in_memory else None)
    atexit.register(forget, folder, os.getpid())
    # A file all the same: forked children and pickled copies then spend the same budget.
    path = Path(folder) / "budget.ledger"
    return Ledger(path, epsilon, delta, adjacency, composition, table=table), False


def forget(folder: str, owner: int) -> None:
    """Remove a budget at the end of the process that made it, and not of its children."""
    if os.getpid() == owner:
        with suppress(OSError):
            shutil.rmtree(folder)


#: What is said of a table without columns.
DESCRIBE = (
    "describe the columns: what is publicly known of each, such as {'wage': pg.Log(50, 10_000), "
    "'age': (18, 90), 'region': ['north', 'south']}, pg.Columns, or a TOML file of them. "
    "`privgram init TABLE` writes such a file from the types, with the bounds left to fill in"
)


def described(columns: Any, weights: str | None = None, missing: str | None = None) -> Columns:
    """The description of a table's columns, or what to make one of, with a column of ones."""
    if columns is None:
        raise ValueError(DESCRIBE)
    if isinstance(columns, (str, os.PathLike)):
        columns = Columns.load(Path(columns))
    more: dict[str, Any] = {"intercept": True}
    if weights is not None:
        more["row_weights"] = weights
    if missing is not None:
        more["missing"] = missing
    if isinstance(columns, Columns):
        return columns.replace(**more)
    if not isinstance(columns, Mapping):
        raise TypeError(DESCRIBE)
    return Columns(columns, **more)
