"""A file of JSON lines in which each line holds fast the one before.

Each line ends with a SHA-256 over the digest of the line before it and the line's own text up
to there. So a line that was altered, moved, or removed from the middle is found; whole lines cut
off the end are not. A last line that is cut off was being written when its process died. If the
record is whole, and only its digest is cut, it counts; else it counts for nothing, and that is
said.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from privgram._base.saved import parse_json

_LINE = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{64})"\}')
_CUT = re.compile(rb'(\{.*), "sha256": "([0-9a-f]{0,64})"?\}?')


@dataclass(frozen=True)
class Chain:
    """What such a file holds: the records of the whole lines, and their digests."""

    records: list[dict[str, Any]]
    digests: list[str]
    end: int  # where the next line goes: after the last whole one
    gap: bytes  # what the last line lacks, its newline at least, or nothing
    lost: int  # bytes of a last line too short to know its record

    @property
    def last(self) -> str:
        """Digest of the last line, which the next one holds fast."""
        return self.digests[-1] if self.digests else ""


class Broken(ValueError):
    """A line whose checksum does not match or which is not JSON: its number, from 1, and why."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem


def parse(data: bytes) -> Chain:
    """Read lines, the last of which may be cut off; Broken at the first that is damaged."""
    *lines, rest = data.split(b"\n")
    chain = Chain([], [], len(data), b"", 0)
    for text in lines:
        _add(chain, text)
    last = _completed(rest, chain)
    if last is None:
        return replace(chain, end=len(data) - len(rest), lost=len(rest))
    _add(chain, last)
    return replace(chain, gap=last[len(rest) :] + b"\n")


def _add(chain: Chain, text: bytes) -> None:
    number = len(chain.records) + 1
    match = _LINE.fullmatch(text)
    if match is None or _digest(chain.last, match[1]) != match[2].decode():
        raise Broken(number, "its checksum does not match")
    chain.digests.append(match[2].decode())
    try:
        chain.records.append(parse_json(text))
    except (ValueError, RecursionError):
        raise Broken(number, "it is not JSON") from None


def _completed(text: bytes, chain: Chain) -> bytes | None:
    """Give a last line whose end may be cut off, or None if its record is."""
    if _LINE.match(text):  # whole, or with something after it
        return text
    match = _CUT.fullmatch(text)
    if match is None:
        return None
    digest = _digest(chain.last, match[1]).encode()
    # Another beginning of a digest is damage, and is left to be found.
    return match[1] + b', "sha256": "' + digest + b'"}' if digest.startswith(match[2]) else text


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
