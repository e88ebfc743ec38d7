"""Saved results: a header and arrays under a checksum, and ledgers as chains of lines.

JSON and NumPy archives are for what is public (`ArchiveFormat`), bytes for what is secret
(`BinaryFormat`). In a `Chain` each line holds fast the one before. Whatever is wrong with a file is
a `DamagedFile`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from privgram._base.files import check_distinct, check_room, write_atomically
from privgram._base.installed import ROOMS
from privgram._base.text import excerpt, shown, warn

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

#: An object of JSON, whose values have the types that the class made of them asks for.
JsonObject: TypeAlias = dict[str, Any]


class Registry:
    """Base of a family of dataclasses that are saved as plain values.

    The head of a family is ``class Head(Registry, key=..., what=...)``; each class under it
    registers itself under its name.
    """

    #: Every class of the family, by name.
    kinds: ClassVar[dict[str, type[Any]]]
    #: Parameters that are of the family themselves.
    nested: ClassVar[tuple[str, ...]] = ()
    #: The key of the name in a file, and the family's name in messages.
    _key: ClassVar[str]
    _what: ClassVar[str]

    def __init_subclass__(cls, key: str = "", what: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if key:
            cls.kinds, cls._key, cls._what = {}, key, what
        else:
            cls.kinds[cls.__name__] = cls

    @classmethod
    def all_kinds(cls) -> dict[str, type[Any]]:
        """Every class of the family, those of further rooms imported."""
        for room in ROOMS:
            import_module(room)
        return cls.kinds

    def to_dict(self) -> JsonObject:
        """The kind's name and the parameters, as plain values for a file."""
        parameters = {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        }
        return {self._key: type(self).__name__, **parameters}

    @classmethod
    def from_dict(cls, values: JsonObject) -> Self:
        """Rebuild an object of the family from what `to_dict` gave, or raise ValueError."""
        try:
            parameters = dict(values)
            name = parameters.pop(cls._key)
            kind: type[Self] = (cls.kinds if name in cls.kinds else cls.all_kinds())[name]
            return kind._rebuild(parameters)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"unknown {cls._what}, or not its parameters") from error

    @classmethod
    def _rebuild(cls, parameters: JsonObject) -> Self:
        nested = {name: cls.from_dict(parameters[name]) for name in cls.nested}
        return cls(**parameters | nested)


def _plain(value: object) -> object:
    """A parameter as JSON has it: those of a kind, or the lists of an array."""
    if isinstance(value, Registry):
        return value.to_dict()
    return value.tolist() if isinstance(value, np.ndarray) else value


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


class DamagedFile(ValueError):
    """A saved file, or bytes, that are damaged, of another kind or of a later version."""


@contextmanager
def understood(name: str, what: str) -> Iterator[None]:
    """Turn whatever making objects of a file's contents raises into one `DamagedFile`."""
    try:
        yield
    except DAMAGE as error:
        reason = excerpt(f"{type(error).__name__}, {error}")
        raise DamagedFile(
            f"{shown(name)} is not {what} that this privgram can read: {reason}"
        ) from error


def parse_json(text: str | bytes) -> Any:
    """Read JSON in which no object has a key twice: readers would disagree on what it says."""
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> JsonObject:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key appears twice")
    return unique


def check_version(of_file: object, version: int, name: str, what: str) -> None:
    """Raise `DamagedFile` unless a file has the version that is read."""
    if type(of_file) is not int or of_file != version:
        raise DamagedFile(
            f"{shown(name)} is {what} of format version {of_file!r:.50}; this privgram reads "
            f"version {version}"
        )


@dataclass(frozen=True)
class BinaryFormat:
    """Bytes: a magic line, the version, a JSON header, more bytes, and SHA-256 over all of it."""

    magic: bytes
    version: int  # the one written, and the only one read
    what: str  # in messages, with its article

    def seal(self, header: JsonObject, *parts: bytes) -> bytes:
        """Put together a header and what follows it."""
        text = json.dumps(header).encode()
        body = b"".join((self.magic, struct.pack("<II", self.version, len(text)), text, *parts))
        return body + hashlib.sha256(body).digest()

    def open(self, data: bytes, name: str) -> tuple[JsonObject, bytes]:
        """Header and what follows it; DamagedFile if it is something else, truncated or altered."""
        start = len(self.magic) + 8
        if data[: len(self.magic)] != self.magic:
            raise DamagedFile(f"{name} is not {self.what} of privgram")
        body, checksum = memoryview(data)[:-32], data[-32:]
        if len(body) < start or hashlib.sha256(body).digest() != checksum:
            raise DamagedFile(f"{name} is damaged: its checksum does not match its contents")
        version, length = struct.unpack_from("<II", body, len(self.magic))
        check_version(version, self.version, name, self.what)
        with understood(name, self.what):
            header = parse_json(bytes(body[start : start + length]))
            if not isinstance(header, dict):
                raise TypeError("its header is not a table")
        return header, bytes(body[start + length :])


class NotSavedWarning(UserWarning):
    """What a budget was spent on could not be saved where it was to be."""


def save_paid(save: Callable[[Path], None], path: Path) -> None:
    """Save what a budget was spent on: where that fails somewhere else, and never by an error.

    What can be checked of the path was checked before the spend.
    """
    try:
        save(path)
        return
    except Exception as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
    try:
        other = Path(tempfile.mkdtemp(prefix="privgram-"), path.name)
        save(other)
        whereabouts = f"It is in {other} instead"
    except Exception:
        whereabouts = "It is in no file: save what this call returns"
    message = f"{path}: {reason}. What was paid for is not lost. {whereabouts}"
    warn(message, NotSavedWarning, paid=True)


@dataclass(frozen=True)
class ArchiveFormat:
    """One kind of saved result, as a NumPy archive or as JSON."""

    name: str  # in the file
    version: int  # the one written, and the only one read
    what: str  # in messages, with its article
    key: str  # what the file has the header under
    arrays: tuple[str, ...]  # all that may be saved with the header

    def check_suffix(self, path: Path) -> None:
        """Raise ValueError unless a path ends in `.json` or `.npz`."""
        if path.suffix not in (".json", ".npz"):
            raise ValueError(f"{path.name!r} must end in .json or .npz, to hold {self.what}")

    def check_out(self, out: str | os.PathLike[str] | None, **beside: Path | None) -> Path | None:
        """Where a result is to be written; refused here if it cannot be, before a row is read."""
        if out is None:
            return None
        path = Path(os.fspath(out))
        self.check_suffix(path)
        check_distinct({}, {**beside, "out": path})
        check_room(path)
        return path

    def save(self, path: Path, header: JsonObject, arrays: Arrays) -> None:
        """Write a file of the kind that its suffix says, whole or not at all."""
        self.check_suffix(path)
        write = self.to_json if path.suffix == ".json" else self.to_npz
        write_atomically(path, write(header, arrays))

    def to_npz(self, header: JsonObject, arrays: Arrays) -> bytes:
        """A NumPy archive of arrays, and of the header as JSON."""
        buffer = io.BytesIO()
        text = json.dumps(self._seal(header, arrays) | {self.key: header})
        np.savez(buffer, header=np.array(text), **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    def to_json(self, header: JsonObject, arrays: Arrays) -> bytes:
        """JSON of both, the arrays among what the header says."""
        body = header | {name: array.tolist() for name, array in arrays.items()}
        text = json.dumps(self._seal(header, arrays) | {self.key: body})
        return (text + "\n").encode()

    def _seal(self, header: JsonObject, arrays: Arrays) -> JsonObject:
        return {"format": self.name, "version": self.version, "sha256": digest(header, arrays)}

    def read(self, path: Path) -> tuple[JsonObject, Arrays]:
        """Header and arrays of a file of this form, whichever of the two it is, or DamagedFile."""
        data = path.read_bytes()
        try:
            payload, arrays = self._parse(data)
            if payload["format"] != self.name:
                raise ValueError("another format")
            version, checksum, header = payload["version"], payload["sha256"], payload[self.key]
        except DAMAGE as error:
            raise DamagedFile(
                f"{shown(path.name)} is not {self.what} of privgram, or is damaged"
            ) from error
        check_version(version, self.version, path.name, self.what)
        # What is not under the checksum says nothing.
        if checksum != digest(header, arrays) or len(payload) != 4:
            raise DamagedFile(
                f"{shown(path.name)} is damaged: its checksum does not match its contents"
            )
        return header, arrays

    def _parse(self, data: bytes) -> tuple[JsonObject, Arrays]:
        payload, arrays = _payload(data)
        if not _is_npz(data):
            body = payload[self.key]
            arrays = {name: np.array(body.pop(name)) for name in self.arrays if name in body}
        arrays.pop("allow_pickle", None)  # NumPy before 2.1 took the argument for an array
        for name, array in arrays.items():
            if name not in self.arrays or array.dtype.kind not in "fiu":
                raise ValueError(f"{name} is no array of numbers that is known")
        floats = {name: array.astype(np.float64, copy=False) for name, array in arrays.items()}
        return payload, floats

    def understood(self, path: Path) -> AbstractContextManager[None]:
        """Turn whatever making objects of a file's contents raises into one `DamagedFile`."""
        return understood(path.name, self.what)


def format_of(path: Path) -> str | None:
    """The name of the format that a file says it has; None where it says none."""
    data = path.read_bytes()
    try:
        name = _payload(data, wanted=())[0]["format"]
    except DAMAGE:
        return None
    return name if isinstance(name, str) else None


def _is_npz(data: bytes) -> bool:
    return data[:2] == b"PK"


def _payload(
    data: bytes, wanted: tuple[str, ...] | None = None
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What JSON says, or the header of a NumPy archive, and all of its other arrays, or the wanted.

    Archives take about as much memory as their file has bytes, at most. Ours are not compressed. So
    one that is, or whose members overlap, is not ours, and might grow to anything.
    """
    if not _is_npz(data):
        return parse_json(data), {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > len(data):
        raise ValueError("not an archive of this program's")
    if len({member.filename for member in members}) < len(members):
        raise ValueError("a member appears twice")
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        header = archive["header"]
        others = [name for name in archive.files if name != "header"]
        arrays = {name: archive[name] for name in others if wanted is None or name in wanted}
    return parse_json(str(header)), arrays


def digest(header: JsonObject, arrays: Arrays) -> str:
    """SHA-256 of a header and arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape} ".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").reshape(-1).data)
    return total.hexdigest()


# A file of JSON lines in which each line holds fast the one before.
#
# Each line ends with a SHA-256 over the digest of the line before it and the line's own text up
# to there. So a line that was altered, moved, or removed from the middle is found; whole lines cut
# off the end are not. A last line that is cut off was being written when its process died. If the
# record is whole, and only its digest is cut, it counts; else it counts for nothing, and that is
# said.

_LINE = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{64})"\}')
_CUT = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{0,64})"?\}?')


@dataclass(frozen=True)
class Chain:
    """What such a file holds: the records of the whole lines, and their digests."""

    records: list[JsonObject]
    digests: list[str]
    end: int  # where the next line goes: after the last whole one
    gap: bytes  # what the last line lacks, its newline at least, or nothing
    lost: int  # bytes of a last line too short to know its record

    @property
    def last(self) -> str:
        """Digest of the last line, which the next one holds fast."""
        return self.digests[-1] if self.digests else ""

    @classmethod
    def parse(cls, data: bytes) -> Chain:
        """Read lines, the last of which may be cut off; BrokenLine at the first damaged one."""
        *lines, rest = data.split(b"\n")
        chain = cls([], [], len(data), b"", 0)
        for text in lines:
            _add(chain, text)
        last = _completed(rest, chain)
        if last is None:
            return replace(chain, end=len(data) - len(rest), lost=len(rest))
        _add(chain, last)
        return replace(chain, gap=last[len(rest) :] + b"\n")


class BrokenLine(ValueError):
    """A line whose checksum does not match or which is not JSON: its number, from 1, and why."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


def _add(chain: Chain, text: bytes) -> None:
    number = len(chain.records) + 1
    match = _LINE.fullmatch(text)
    if match is None or _link(chain.last, match[1]) != match[2].decode():
        raise BrokenLine(number, "its checksum does not match")
    chain.digests.append(match[2].decode())
    try:
        chain.records.append(parse_json(text))
    except (ValueError, RecursionError):
        raise BrokenLine(number, "it is not JSON") from None


def _completed(text: bytes, chain: Chain) -> bytes | None:
    """Give a last line whose end may be cut off, or None if its record is."""
    if _LINE.match(text):  # whole, or with something after it
        return text
    match = _CUT.fullmatch(text)
    if match is None:
        return None
    link = _link(chain.last, match[1]).encode()
    # Another beginning of a digest is damage, and is left to be found.
    return match[1] + b', "sha256": "' + link + b'"}' if link.startswith(match[2]) else text


def chain_line(record: JsonObject, previous: str) -> tuple[bytes, str]:
    """Make the line of a record after the one with the digest `previous`, and its own digest."""
    text = json.dumps(record, allow_nan=False, default=float).encode()[:-1]
    link = _link(previous, text)
    return text + f', "sha256": "{link}"}}\n'.encode(), link


def _link(previous: str, text: bytes) -> str:
    """Digest of a line after the one with the digest `previous`."""
    return hashlib.sha256(previous.encode() + text).hexdigest()
