"""Paths: one file, a folder or a glob of them."""

from __future__ import annotations

import glob
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from privgram.sources.csv import open_csv
from privgram.sources.npy import open_npy
from privgram.sources.parquet import open_parquet
from privgram.sources.table import Chunk, Selection, Table

_SUFFIXES = (".npy", ".csv", ".parquet")


def open_paths(paths: Sequence[Path], select: Selection = None, by_position: bool = True) -> Table:
    """Read files by their suffix, and all files of folders or globs, in the order of their names.

    A folder is read with its sub-folders; files whose name starts with a dot or an
    underscore are left out, as are those of other suffixes. What one path
    stands for must be of one kind.
    """
    files = [file for path in paths for file in find(path)]
    check_once(files)
    first = _open_file(files[0], select, by_position)
    if len(files) == 1:
        return first

    def chunks() -> Generator[Chunk]:
        for file in files:
            table = first if file is files[0] else _open_file(file, select, by_position)
            if (table.n_columns, table.names) != (first.n_columns, first.names):
                hint = "; name the columns to take" if first.names else ""
                raise ValueError(f"the columns of {file} differ from those of {files[0]}{hint}")
            for chunk in table.chunks:
                yield Chunk(chunk.read, chunk.place or f"{file}")

    return Table(first.names, first.n_columns, None, chunks(), first.decoded)


def _open_file(path: Path, select: Selection, by_position: bool) -> Table:
    if _kind(path) == ".npy":
        return open_npy(path, select, by_position)
    if _kind(path) == ".csv":
        return open_csv(path, select)
    return open_parquet(path, select)


def _kind(path: Path) -> str:
    return path.suffix.lower()  # some systems shout: TABLE.CSV


def check_once(files: Iterable[Path]) -> None:
    """Refuse a file that is there twice, by any names: its rows would count twice."""
    known: dict[tuple[int, ...], Path] = {}
    for file in files:
        status = file.stat()
        place = status.st_dev, status.st_ino
        other = known.get(place)
        known[place] = file
        if other is not None:
            same = f"{file} is given twice" if file == other else f"{other} and {file} are one file"
            raise ValueError(f"{same}: its rows would be counted twice; name each file once")


def _refuse_query(path: Path) -> None:
    """Say what to do with SQL, which is no file."""
    if str(path).split(maxsplit=1)[:1] and str(path).split()[0].lower() in (
        "select",
        "with",
        "from",
    ):
        raise ValueError(
            "this is a query and no file: pass what its connection makes of it, such as "
            "duckdb.connect(...).sql('SELECT ...'), which is run for the columns that are needed, "
            "or a data frame of it"
        )


def find(path: Path) -> list[Path]:
    """List the files of a path, a folder or a glob."""
    if path.is_dir():
        files = [file for file in path.rglob("*") if not file.name.startswith((".", "_"))]
        files = sorted(file for file in files if _kind(file) in _SUFFIXES and file.is_file())
    elif path.exists():
        files = [path]
    elif glob.has_magic(str(path)):
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    else:
        _refuse_query(path)
        raise FileNotFoundError(f"there is no file {path}")
    if not files:
        _refuse_query(path)
    kinds = sorted({_kind(file) for file in files})
    if not files:
        raise FileNotFoundError(f"{path} matches no {', '.join(_SUFFIXES)} file")
    if len(kinds) > 1:
        raise ValueError(f"{path} holds files of several kinds: {', '.join(kinds)}")
    if kinds[0] not in _SUFFIXES:
        raise ValueError(f"{files[0]} is of no known kind: {', '.join(_SUFFIXES)}")
    return files
