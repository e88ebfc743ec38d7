"""The file of a stream: what was published, and the exact sums of its periods, encrypted.

Periods that follow need the sums, which are secret: they are on disk under a key that is kept in a
file of its own.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import SECRET, create_file, write_atomically
from privgram._base.installed import extra
from privgram._base.saved import BinaryFormat, JsonObject, understood
from privgram.columns.unit import PrivacyUnit
from privgram.privacy.guarantee import Guarantee
from privgram.stream.factors import Epoch, RunningSums

if TYPE_CHECKING:
    from privgram._base.numbers import Adjacency, Vector
    from privgram.exact.int128 import Int128

FRAME = BinaryFormat(b"privgram.stream\n", 2, "a stream")

#: Bytes of the key, and of what makes two encryptions with it differ.
_KEY, _NONCE = 32, 12


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
    """What is public of a stream and what it publishes: the header of its file.

    It never changes, but for the epochs where nobody knows how many periods there will be.
    """

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
    epochs: Sequence[int] = ()

    @property
    def sums(self) -> RunningSums:
        """The factors."""
        who = self.months, self.apart
        return RunningSums(tuple(Epoch(periods, *who) for periods in self.epochs))

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

    def save(self, path: Path, key: bytes, new: bool = False) -> None:
        """Write the file, whole or not at all; a new one must not be there."""
        header = vars(self.terms) | {"n_rows": [period.n_rows for period in self.past]}
        totals = b"".join(period.published.astype("<f8").tobytes() for period in self.past)
        words = (word for period in self.past for word in period.exact)
        sums = b"".join(word.astype(f"<{word.dtype.kind}8").tobytes() for word in words)
        digests = b"".join(period.digest for period in self.past)
        nonce = secrets.token_bytes(_NONCE)
        sealed = _cipher(key).encrypt(nonce, digests + sums, public_digest(header, totals))
        write = create_file if new else write_atomically
        write(path, FRAME.seal(header, totals, nonce, sealed), SECRET)

    @classmethod
    def read(cls, path: Path, key: bytes, known: StreamState | None = None) -> StreamState:
        """Read the file; WrongKey if it was written, or altered, without the key.

        What is `known` of it is given back, if the file has not been written since.
        """
        status = path.stat()
        of = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, key
        if known is not None and known.of == of:
            return known
        header, body = FRAME.open(path.read_bytes(), path.name)
        with understood(path.name, FRAME.what):
            counts = header.pop("n_rows")
            n, width = len(counts), 4 * header["n_columns"] * (header["n_columns"] + 1)
            totals, nonce = body[: n * width], body[n * width : n * width + _NONCE]
            bound = public_digest(header | {"n_rows": counts}, totals)
            terms = StreamTerms(**header)
        secret = _decrypted(path.name, key, nonce, body[n * width + _NONCE :], bound)
        with understood(path.name, FRAME.what):
            published = np.frombuffer(totals, "<f8").reshape(n, width // 8)
            published = published.astype(np.float64, copy=False)
            sums = np.frombuffer(secret, "<u8", offset=32 * n).reshape(n, 2, width // 8)
            exact = sums.astype(np.uint64)
            periods = tuple(
                Period(
                    count,
                    published[i],
                    (exact[i, 0].view(np.int64), exact[i, 1]),
                    secret[32 * i : 32 * i + 32],
                )
                for i, count in enumerate(counts)
            )
        return cls(terms, periods, of)


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


def public_digest(header: JsonObject, totals: bytes) -> bytes:
    """What the encryption vouches for besides the sums: all that is public."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + totals).digest()


def _cipher(key: bytes) -> Any:
    with extra("stream", "a stream's sums on disk are encrypted, which needs"):
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    return ChaCha20Poly1305(key)


def _decrypted(name: str, key: bytes, nonce: bytes, sealed: bytes, bound: bytes) -> bytes:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(nonce, sealed, bound))
    except (InvalidTag, ValueError):  # also of a nonce that is cut off
        raise WrongKey(
            f"{name} was written under another key, or was altered: pass the key file that was "
            "made with it"
        ) from None
