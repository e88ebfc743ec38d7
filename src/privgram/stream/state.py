"""The file of a stream: what was published, and the noises of its months, encrypted.

Who has the noises can take them off, so they are on disk under a key that is kept in a file of its
own. Months that follow need them: what they share cancels.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import SECRET, create, write_atomically
from privgram._base.optional import extra
from privgram._base.saved import Frame, understood

if TYPE_CHECKING:
    from privgram._base.arrays import Matrix, Vector


_FRAME = Frame(b"privgram.stream\n", 1, "a stream")

#: Bytes of the key, and of what makes two encryptions with it differ.
_KEY, _NONCE = 32, 12


class WrongKey(ValueError):
    """A key that is not the one of a stream."""


@dataclass(frozen=True)
class Month:
    """One period: what was published of it, and its secret noise."""

    n_rows: int | None  # or units, where they are public
    total: Vector  # (d (d + 1) / 2,), upper triangle of the running sum as published
    # SECRET: upper triangle of the noise that is this period's own
    noise: Vector = field(repr=False)
    digest: bytes = field(repr=False)  # SECRET: SHA-256 of the period's exact second moment


@dataclass(frozen=True)
class State:
    """All that a stream is, under a public header."""

    header: dict[str, Any]
    months: tuple[Month, ...] = ()

    def with_month(self, month: Month) -> State:
        """The state after one more period."""
        return replace(self, months=(*self.months, month))

    @property
    def noises(self) -> Matrix:
        """SECRET: the noises of all periods, shape (t, d (d + 1) / 2)."""
        return np.array([month.noise for month in self.months])

    def save(self, path: Path, key: bytes, new: bool = False) -> None:
        """Write the file, whole or not at all; a new one must not be there."""
        header = self.header | {"n_rows": [month.n_rows for month in self.months]}
        totals = b"".join(month.total.astype("<f8").tobytes() for month in self.months)
        noises = b"".join(month.noise.astype("<f8").tobytes() for month in self.months)
        digests = b"".join(month.digest for month in self.months)
        nonce = secrets.token_bytes(_NONCE)
        sealed = _cipher(key).encrypt(nonce, digests + noises, _bound(header, totals))
        data = _FRAME.seal(header, totals, nonce, sealed)
        if new:
            create(path, data, SECRET)
        else:
            write_atomically(path, data, SECRET)

    @classmethod
    def read(cls, path: Path, key: bytes) -> State:
        """Read the file; WrongKey if it was written, or altered, without the key."""
        header, body = _FRAME.open(path.read_bytes(), path.name)
        with understood(path.name, _FRAME.what):
            counts = header.pop("n_rows")
            n, width = len(counts), 4 * header["n_columns"] * (header["n_columns"] + 1)
            totals, nonce = body[: n * width], body[n * width : n * width + _NONCE]
            bound = _bound(header | {"n_rows": counts}, totals)
        secret = _opened(path.name, key, nonce, body[n * width + _NONCE :], bound)
        with understood(path.name, _FRAME.what):
            published = np.frombuffer(totals, "<f8").reshape(n, width // 8).astype(np.float64)
            own = np.frombuffer(secret[32 * n :], "<f8").reshape(published.shape)
            months = tuple(
                Month(count, published[i], own[i].astype(np.float64), secret[32 * i : 32 * i + 32])
                for i, count in enumerate(counts)
            )
        return cls(header, months)


def create_key(path: Path) -> bytes:
    """Write a new key to a file that is not there yet, for its owner alone."""
    key = secrets.token_bytes(_KEY)
    create(path, key.hex().encode() + b"\n", SECRET)
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


def _bound(header: dict[str, Any], totals: bytes) -> bytes:
    """What the encryption vouches for besides the noises: all that is public."""
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + totals).digest()


def _cipher(key: bytes) -> Any:
    with extra("stream", "a stream's noise on disk is encrypted, which needs"):
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    return ChaCha20Poly1305(key)


def _opened(name: str, key: bytes, nonce: bytes, sealed: bytes, bound: bytes) -> bytes:
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        return bytes(cipher.decrypt(nonce, sealed, bound))
    except InvalidTag:
        raise WrongKey(
            f"{name} was written under another key, or was altered: pass the key file that was "
            "made with it"
        ) from None
