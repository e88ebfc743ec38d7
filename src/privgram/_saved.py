"""Saved results: a header and arrays, as a NumPy archive or as JSON, with a checksum over both."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["Form", "digest"]

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


@dataclass(frozen=True)
class Form:
    """One kind of saved result.

    Attributes
    ----------
    name : str
        In the file.
    version : int
        The one written, and the only one read.
    what : str
        In messages, with its article.
    key : str
        What the file has the header under.
    arrays : tuple of str
        All that may be saved with the header.
    """

    name: str
    version: int
    what: str
    key: str
    arrays: tuple[str, ...]

    def to_npz(self, header: dict[str, Any], arrays: Arrays) -> bytes:
        """A NumPy archive of arrays, and of the header as JSON."""
        buffer = io.BytesIO()
        text = json.dumps(self._seal(header, arrays) | {self.key: header})
        np.savez(buffer, allow_pickle=False, header=np.array(text), **arrays)
        return buffer.getvalue()

    def to_json(self, header: dict[str, Any], arrays: Arrays) -> bytes:
        """JSON of both, the arrays among what the header says."""
        body = header | {name: array.tolist() for name, array in arrays.items()}
        text = json.dumps(self._seal(header, arrays) | {self.key: body}, indent=1)
        return (text + "\n").encode()

    def _seal(self, header: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
        return {"format": self.name, "version": self.version, "sha256": digest(header, arrays)}

    def read(self, path: Path) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file of this form, whichever of the two it is.

        Raises
        ------
        ValueError
            If it is no such file, of another version, truncated or altered.
        OSError
            If it cannot be read.
        """
        data = path.read_bytes()
        try:
            payload, arrays = self._parse(data)
            if payload["format"] != self.name:
                raise ValueError("another format")
            version, checksum, header = payload["version"], payload["sha256"], payload[self.key]
        except DAMAGE as error:
            raise ValueError(
                f"{path.name} is not {self.what} of privgram, or is damaged"
            ) from error
        if version != self.version:
            raise ValueError(
                f"{path.name} is {self.what} of format version {version}; this privgram reads "
                f"version {self.version}"
            )
        try:
            same = checksum == digest(header, arrays)
        except DAMAGE:  # members that are no arrays of numbers
            same = False
        if not same:
            raise ValueError(f"{path.name} is damaged: its checksum does not match its contents")
        return header, arrays

    def _parse(self, data: bytes) -> tuple[dict[str, Any], Arrays]:
        if data[:2] == b"PK":
            with _open_npz(data) as archive:
                arrays = {name: archive[name] for name in archive.files}
                return json.loads(str(arrays.pop("header"))), arrays
        payload = json.loads(data)
        body = payload[self.key]
        found = [name for name in self.arrays if name in body]
        return payload, {name: np.array(body.pop(name), dtype=np.float64) for name in found}

    @contextmanager
    def understood(self, path: Path) -> Iterator[None]:
        """Turn whatever making objects of a file's contents raises into one ValueError."""
        try:
            yield
        except DAMAGE as error:
            reason = f"{type(error).__name__}, {error}".replace("\n", " ")[:500]
            raise ValueError(
                f"{path.name} is not {self.what} that this privgram can read: {reason}"
            ) from error


@contextmanager
def _open_npz(data: bytes) -> Iterator[Any]:
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


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """SHA-256 of a header and arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape} ".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return total.hexdigest()
