"""Saved results: whole or not at all, with a checksum over everything they say."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Profile

    Arrays = dict[str, NDArray[np.float64]]

#: What reading a damaged or foreign file raises.
DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    EOFError,
    NotImplementedError,
    zipfile.BadZipFile,
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


def from_npz(
    path: Path, kind: str, version: int, names: tuple[str, ...], what: str
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a file written by `to_npz`; ValueError if it is no such file."""
    data = path.read_bytes()
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            meta = json.loads(str(archive["header"]))
            if meta["format"] != kind:
                raise ValueError("another format")
            found, checksum, header = meta["version"], meta["sha256"], meta["contents"]
            arrays = {name: archive[name] for name in names}
    except DAMAGE as error:
        raise ValueError(f"{path.name} is not {what} of privgram, or is damaged") from error
    if found != version:
        raise ValueError(
            f"{path.name} is {what} of format version {found}; this privgram reads version"
            f" {version}"
        )
    if checksum != digest(header, arrays):
        raise ValueError(f"{path.name} is damaged: its checksum does not match its contents")
    return header, arrays


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """SHA-256 of a header and arrays."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        total.update(f"{name} {arrays[name].shape} ".encode())
        total.update(np.ascontiguousarray(arrays[name], dtype="<f8").tobytes())
    return total.hexdigest()


def profile_to_dict(profile: Profile) -> dict[str, Any]:
    """A profile's name and parameters."""
    # Fields, not vars: a composition also holds what it has computed.
    values = {f.name: getattr(profile, f.name) for f in fields(profile)}  # type: ignore[arg-type]
    if "profiles" in values:
        values["profiles"] = [profile_to_dict(part) for part in values["profiles"]]
    return {"profile": type(profile).__name__, **values}


def profile_from_dict(values: dict[str, Any]) -> Profile:
    """The profile of a name and parameters; ValueError if there is none."""
    from privgram import privacy

    values = dict(values)
    kind = getattr(privacy, values.pop("profile"), None)
    if not (isinstance(kind, type) and issubclass(kind, privacy.Profile)):
        raise ValueError("the release names an unknown privacy profile")
    if "profiles" in values:
        values["profiles"] = tuple(profile_from_dict(part) for part in values["profiles"])
    return kind(**values)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, durable once this returns."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner only; a release is public.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
