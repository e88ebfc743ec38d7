"""A file of JSON lines in which each line holds fast the one before.

Each line ends with a SHA-256 over the digest of the line before it and the line's own text up
to there. So a line that was altered, moved, or removed from the middle is found; whole lines cut
off the end are not. A last line that is cut off was being written when its process died, and
counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from privgram._saved import parse_json

__all__ = ["Chain", "append", "line", "parse", "read"]

_LINE = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{64})"\}')


@dataclass(frozen=True)
class Chain:
    """What such a file holds.

    Attributes
    ----------
    records : list of dict
        Of the whole lines.
    digests : list of str
        Theirs.
    end : int
        Where the next line goes: after the last whole one.
    gap : bytes
        The newline that the last whole line lacks, or nothing.
    """

    records: list[dict[str, Any]]
    digests: list[str]
    end: int
    gap: bytes


class Broken(ValueError):
    """A line whose checksum does not match or which is not JSON: its number, from 1, and why."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


def parse(data: bytes) -> Chain:
    """Read lines, the last of which may be cut off.

    Raises
    ------
    Broken
        At the first line that is damaged.
    """
    *lines, rest = data.split(b"\n")
    end = len(data) - len(rest)
    gap = b""
    if _LINE.match(rest):  # all of a record but its newline: on the safe side, it counts
        lines.append(rest)
        end, gap = len(data), b"\n"
    chain = Chain([], [], end, gap)
    previous = ""
    for number, text in enumerate(lines, 1):
        match = _LINE.fullmatch(text)
        if match is None or _digest(previous, match[1]) != match[2].decode():
            raise Broken(number, "its checksum does not match")
        previous = match[2].decode()
        chain.digests.append(previous)
        try:
            chain.records.append(parse_json(text))
        except (ValueError, RecursionError):
            raise Broken(number, "it is not JSON") from None
    return chain


def line(record: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """Make the line of a record after the one with the digest `previous`, and its own digest."""
    text = json.dumps(record, allow_nan=False, default=float).encode()[:-1]
    digest = _digest(previous, text)
    return text + f', "sha256": "{digest}"}}\n'.encode(), digest


def _digest(previous: str, text: bytes) -> str:
    return hashlib.sha256(previous.encode() + text).hexdigest()


def read(handle: int) -> bytes:
    """All of an open file."""
    os.lseek(handle, 0, os.SEEK_SET)
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def append(handle: int, data: bytes, end: int) -> None:
    """Put data where the file shall end, durably, and all of it or nothing."""
    try:
        os.ftruncate(handle, end)  # a line that was never finished
        _write(handle, data, end)
        os.fsync(handle)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(handle, end)
        raise


def _write(handle: int, data: bytes, start: int) -> None:
    os.lseek(handle, start, os.SEEK_SET)
    while data:
        data = data[os.write(handle, data) :]
