"""The file of a stream: what was published, and the exact sums of its periods, encrypted.

Periods that follow need the sums, which are secret: they are on disk under a key that is kept in a
file of its own. A period is put at the end, under a seal that holds fast all before it. One that
is cut off was being written when its process died: it counts for nothing, and the next takes its
place.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import SECRET, append_durably, create_file, open_locked
from privgram._base.installed import extra
from privgram._base.saved import BinaryFormat, JsonObject, understood
from privgram.columns.unit import PrivacyUnit
from privgram.privacy.guarantee import Guarantee
from privgram.stream.factors import FIRST_PERIODS, Epoch, RunningSums

if TYPE_CHECKING:
    from privgram._base.numbers import Adjacency, Vector
    from privgram.exact.int128 import Int128

FRAME = BinaryFormat(b"privgram.stream\n", 3, "a stream")

#: Bytes of the key, of what makes two encryptions with it differ, of a seal and of a digest.
_KEY, _NONCE, _SEAL, _DIGEST = 32, 12, 16, 32


class WrongKey(ValueError):
    """A key that is not the one of a stream."""


@dataclass(frozen=True)
class Period:
    """One period: what was published of it and of those before it, and its secret sums."""

    n_rows: int | None  # where it is public
    published: Vector  # (d (d + 1) / 2,), upper triangle of the period's part of C X + W
    # SECRET: lower triangle of the exact second moment, row by row, in its unit
    exact: Int128 = field(repr=False)
    digest: bytes = field(repr=False)  # SECRET: SHA-256 of the period's exact second moment

    @cached_property
    def mark(self) -> str:
        """SHA-256 of what was published: by it a ledger knows the period."""
        return hashlib.sha256(self.published.astype("<f8").tobytes()).hexdigest()


@dataclass(frozen=True)
class StreamTerms:
    """What is public of a stream and what it publishes: the header of its file."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    periods: int | None
    months: int
    apart: int
    columns: JsonObject
    n_columns: int
    bound: float
    unit: JsonObject | None
    id: str = ""

    def sums(self, period: int = 1) -> RunningSums:
        """The factors, up to the epoch of a period where nobody knows how many there will be."""
        first = FIRST_PERIODS if self.periods is None else self.periods
        sums = RunningSums((Epoch(first, self.months, self.apart),))
        while self.periods is None and period > sums.periods:
            sums = sums.doubled()
        return sums

    @property
    def guarantee(self) -> Guarantee:
        """That of all periods together."""
        unit = None if self.unit is None else PrivacyUnit.from_dict(self.unit)
        return Guarantee(self.epsilon, self.delta, self.adjacency, unit)

    @property
    def condition(self) -> str | None:
        """The promise on which the guarantee depends, or None."""
        periods = self.periods or math.inf
        if self.unit is None:
            # Then it is public how many rows a period has.
            replaced = self.adjacency == "replace" and periods > 1
            return "the row that takes another's place is of the same period" if replaced else None
        if self.apart == 1 and self.months >= periods:
            return None
        most = "one period" if self.months == 1 else f"{self.months} periods"
        between = f", at least {self.apart} apart" if self.apart > 1 and self.months > 1 else ""
        return f"nobody has rows in more than {most}{between}"


@dataclass(frozen=True)
class StreamState:
    """All that a stream is, under public terms."""

    terms: StreamTerms
    past: tuple[Period, ...] = ()
    #: Of which file, as it was, and under which key: what is read once is not read again.
    of: tuple[object, ...] = field(default=(), repr=False)  # SECRET
    end: int = 0  # of what the file has whole
    seal: bytes = b""  # of the last period, or of the terms

    def create(self, path: Path, key: bytes) -> None:
        """Write the file of a stream that begins, which must not be there."""
        frame = FRAME.seal(vars(self.terms))
        create_file(path, frame + _sealed(key, b"", frame), SECRET)

    def append(self, path: Path, key: bytes, period: Period) -> StreamState:
        """Put a period at the end of the file that was read, durably, whole or not at all."""
        count = -1 if period.n_rows is None else period.n_rows
        public = count.to_bytes(8, "little", signed=True)
        public += period.published.astype("<f8").tobytes()
        words = (word.astype(f"<{word.dtype.kind}8").tobytes() for word in period.exact)
        sealed = _sealed(key, b"".join((period.digest, *words)), self.seal + public)
        with open_locked(path, os.O_RDWR) as handle:
            append_durably(handle, public + sealed, self.end)
        end = self.end + len(public) + len(sealed)
        return StreamState(self.terms, (*self.past, period), (), end, sealed[-_SEAL:])

    @classmethod
    def read(cls, path: Path, key: bytes, known: StreamState | None = None) -> StreamState:
        """Read the file; WrongKey if it was written, or altered, without the key."""
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            of = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, key
            if known is not None and known.of == of:
                return known
            frame = file.read(len(FRAME.magic) + 8)
            frame += file.read(int.from_bytes(frame[-4:], "little") + _DIGEST)
            header, _ = FRAME.open(frame, path.name)
            sealed = file.read(_NONCE + _SEAL)
            _opened(path.name, key, sealed, frame)
            with understood(path.name, FRAME.what):
                terms = StreamTerms(**header)
                entries = index(terms.n_columns * (terms.n_columns + 1) // 2)
            public, periods, end = 8 + 8 * entries, [], len(frame) + len(sealed)
            size = public + _NONCE + _DIGEST + 16 * entries + _SEAL
            while len(record := file.read(min(size, status.st_size))) == size:
                shown = record[:public]
                secret = _opened(path.name, key, record[public:], sealed[-_SEAL:] + shown)
                count = int.from_bytes(shown[:8], "little", signed=True)
                published = np.frombuffer(shown, "<f8", offset=8).astype(np.float64, copy=False)
                words = np.frombuffer(secret, "<u8", offset=_DIGEST).reshape(2, entries)
                high, low = words.astype(np.uint64, copy=False)
                exact, digest = (high.view(np.int64), low), secret[:_DIGEST]
                periods.append(Period(None if count < 0 else count, published, exact, digest))
                sealed, end = record[-_SEAL:], end + size
        return cls(terms, tuple(periods), of, end, sealed[-_SEAL:])


def create_key(path: Path) -> bytes:
    """Write a new key to a file that is not there yet, for its owner alone."""
    key = secrets.token_bytes(_KEY)
    create_file(path, key.hex().encode() + b"\n", SECRET)
    return key


def read_key(path: Path) -> bytes:
    """Read a key; WrongKey if the file holds none."""
    try:
        key = bytes.fromhex(path.read_text("ascii"))
    except ValueError:
        key = b""
    if len(key) != _KEY:
        raise WrongKey(f"{path.name} holds no key of a stream: {_KEY} bytes, in hexadecimal")
    return key


def _cipher(key: bytes) -> Any:
    with extra("stream", "a stream's sums on disk are encrypted, which needs"):
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    return ChaCha20Poly1305(key)


def _sealed(key: bytes, secret: bytes, public: bytes) -> bytes:
    """Encrypt what is secret, under a seal that vouches for what is public as well."""
    nonce = secrets.token_bytes(_NONCE)
    return nonce + bytes(_cipher(key).encrypt(nonce, secret, public))


def _opened(name: str, key: bytes, sealed: bytes, public: bytes) -> bytes:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], public))
    except (InvalidTag, ValueError):  # also of a nonce that is cut off
        raise WrongKey(
            f"{name} was written under another key, or was altered: pass the key file that was "
            "made with it"
        ) from None
