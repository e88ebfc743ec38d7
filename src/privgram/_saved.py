"""Saved results: their form, with a checksum over everything they say."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

#: What parsing a damaged or foreign file raises, or making objects of what it says.
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    RuntimeError,
    EOFError,
    zipfile.BadZipFile,
    struct.error,
    TokenError,
    OSError,
    MemoryError,
)


def to_npz(header: dict[str, Any], arrays: Arrays, kind: str, version: int) -> bytes:
    """A NumPy archive of arrays, and of a header as JSON."""
    meta = {"format": kind, "version": version, "sha256": digest(header, arrays)}
    buffer = io.BytesIO()
    text = json.dumps(meta | {"contents": header})
    np.savez(buffer, allow_pickle=False, header=np.array(text), **arrays)
    return buffer.getvalue()


@contextmanager
def open_npz(data: bytes) -> Iterator[Any]:
    """Open a NumPy archive that takes no more memory than its file has bytes, about.

    Ours are not compressed. So one that is, or whose members overlap, is not ours, and might
    grow to anything.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > len(data):
        raise ValueError("not an archive of this program's")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        yield archive


@contextmanager
def understood(path: Path, what: str) -> Iterator[None]:
    """Turn whatever making objects of a file's contents raises into one ValueError."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(
            f"{path.name} is not {what} that this privgram can read: {_reason(error)}"
        ) from error


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}, {error}".replace("\n", " ")[:500]


def from_npz(
    path: Path, kind: str, version: int, names: tuple[str, ...], what: str
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file written by `to_npz`; ValueError if it is no such file."""
    data = path.read_bytes()
    try:
        with open_npz(data) as archive:
            meta = json.loads(str(archive["header"]))
            if meta["format"] != kind:
                raise ValueError("another format")
            found, checksum, header = meta["version"], meta["sha256"], meta["contents"]
            arrays = {name: archive[name] for name in names}
    except DAMAGE as error:
        raise ValueError(f"{path.name} is not {what} of privgram, or is damaged") from error
    verify(path, what, (found, version), checksum, header, arrays)
    return header, arrays


def verify(
    path: Path,
    what: str,
    versions: tuple[object, int],
    checksum: object,
    header: dict[str, Any],
    arrays: Arrays,
) -> None:
    """Raise ValueError for a version that is not the one read, or contents that were altered."""
    found, read = versions
    if found != read:
        raise ValueError(
            f"{path.name} is {what} of format version {found}; this privgram reads version {read}"
        )
    try:
        same = checksum == digest(header, arrays)
    except DAMAGE:  # members that are no arrays of numbers
        same = False
    if not same:
        raise ValueError(f"{path.name} is damaged: its checksum does not match its contents")


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """SHA-256 of a header and arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape} ".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return total.hexdigest()
