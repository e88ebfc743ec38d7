"""What is fuzzed: one function a loader, from bytes to None, which raises only for a defect.

A loader may refuse its input by ValueError, TypeError or OSError with one message that names the
file; anything else, a message without words, an input it takes and cannot write again, or tens
of megabytes for a small file are defects. Every kind of file has a `Form` besides: how to take a
file apart into plain JSON values and put it together again under checksums that hold, so that
mutations reach what is behind the checksums.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import random
import resource
import struct
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fuzz.blocks import update

import privgram as pg
from privgram._base.saved import chain_line, digest
from privgram.columns import _to_toml
from privgram.ledger import Ledger
from privgram.moment.grouped import SecondMoments
from privgram.papers.sheffet import GaussianSketch, InverseWishart, SketchProfile, WishartProfile
from privgram.privacy import GaussianProfile, Price, compose
from privgram.stream.state import FRAME, StreamState

REFUSED = (ValueError, TypeError, OSError)

#: What an input may add to the peak of this process's memory, in KiB; files are small.
GROWTH = 1 << 16

#: Of streams.
KEY = bytes(range(32))

#: Seconds that one may take, of this process's time.
LONGEST = 10.0


class Defect(AssertionError):
    """A loader did something that no input may make it do."""


class Form(NamedTuple):
    """A file taken apart, `open`, and put together again, `seal`; values are plain JSON."""

    open: Callable[[bytes], Any]
    seal: Callable[[Any], bytes]


class Target(NamedTuple):
    """One loader."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    form: Form | None


@cache
def folder() -> Path:
    """A folder for the file that is loaded, in memory where there is one."""
    shared = Path("/dev/shm")
    keep = tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)
    folder.keep = keep  # type: ignore[attr-defined]
    return Path(keep.name)


def _file(data: bytes, name: str) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


def _taken(load: Callable[[], Any], named: str = "") -> Any:
    """What the loader returns, or None if it refused in order."""
    try:
        return load()
    except REFUSED as error:
        text = str(error)
        if len(text) < 10 or not text.isprintable() or len(text) > 5000 or named not in text:
            raise Defect(f"an unclear message: {text!r}") from error
        return None


# --- loaders --------------------------------------------------------------------------------------


def moment(data: bytes) -> None:
    loaded = _taken(lambda: pg.SecondMoment.from_bytes(data))
    if loaded is not None:
        again = pg.SecondMoment.from_bytes(loaded.to_bytes())
        assert again.to_bytes() == loaded.to_bytes()
        assert loaded.matrix().shape == (loaded.n_columns, loaded.n_columns)
        assert loaded.n_rows >= 0 <= loaded.n_dropped
        repr(loaded)


def moments(data: bytes) -> None:
    loaded = _taken(lambda: SecondMoments.from_bytes(data))
    if loaded is not None:
        assert loaded.to_bytes() == SecondMoments.from_bytes(loaded.to_bytes()).to_bytes()
        assert all(one.matrix().shape == (one.n_columns,) * 2 for one in loaded.values())
        repr(loaded)


def _release(data: bytes, name: str) -> None:
    path = _file(data, name)
    loaded = _taken(lambda: pg.load(path), path.name)
    if loaded is not None:
        repr(loaded)
        assert loaded.matrix.shape == (loaded.n_columns,) * 2
        assert np.isfinite(loaded.matrix).all()
        size = abs(loaded.matrix).max()
        assert np.allclose(loaded.matrix, loaded.matrix.T, rtol=0, atol=1e-6 * size)
        assert loaded.n_rows is None or (type(loaded.n_rows) is int and loaded.n_rows >= 0)
        assert type(loaded.epsilon) is not bool
        loaded.save(path)
        again = pg.load(path)
        np.testing.assert_array_equal(again.matrix, loaded.matrix)
        assert again.privacy == loaded.privacy


def release_json(data: bytes) -> None:
    _release(data, "fuzz.json")


def release_npz(data: bytes) -> None:
    _release(data, "fuzz.npz")


def result(data: bytes) -> None:
    """Of any kind but a release and a low-rank approximation."""
    path = _file(data, "fuzz.npz")
    loaded = _taken(lambda: pg.load(path), path.name)
    if loaded is not None:
        repr(loaded)
        loaded.save(path)
        again = pg.load(path)
        assert type(again) is type(loaded)
        assert repr(again) == repr(loaded)
        if hasattr(loaded, "summary"):
            assert loaded.epsilon > 0 < loaded.delta
            assert str(again.summary()) == str(loaded.summary())


def low_rank(data: bytes) -> None:
    path = _file(data, "fuzz.npz")
    loaded = _taken(lambda: pg.papers.hardt_roth.load_low_rank(path), path.name)
    if loaded is not None:
        repr(loaded)
        m, n = loaded.shape
        assert loaded.left.shape[1] == loaded.right.shape[0]
        with np.errstate(all="ignore"):  # infinities are numbers
            assert (loaded @ np.zeros(n)).shape == (m,)
        loaded.save(path)
        pg.papers.hardt_roth.load_low_rank(path)


def ledger(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the last line of .* is cut off")
        _ledger(data)


def _ledger(data: bytes) -> None:
    path = _file(data, "fuzz.ledger")
    loaded = _taken(lambda: Ledger(path), path.name)
    if loaded is not None:
        repr(loaded)
        entries = loaded.entries
        assert all(0 < e.epsilon < math.inf and 0 <= e.delta < 1 for e in entries)
        before = path.read_bytes()
        if loaded.composition == "basic":
            _taken(lambda: loaded.remaining(1e-9))
            _taken(lambda: loaded.spent)
        delta = 0.0 if loaded.composition == "gaussian" else 1e-9
        _taken(lambda: loaded.spend(1e-6, delta, adjacency=loaded.adjacency, unit=""))
        assert len(Ledger(path).entries) - len(entries) in (0, 1)
        assert path.read_bytes().startswith(before[: before.rfind(b"\n") + 1])


def stream(data: bytes) -> None:
    path = _file(data, "fuzz.stream")
    loaded = _taken(lambda: StreamState.read(path, KEY), path.name)
    if loaded is not None:
        repr(loaded)
        path.unlink()
        StreamState(loaded.terms).create(path, KEY)
        for one in loaded.past:
            StreamState.read(path, KEY).append(path, KEY, one)
        again = StreamState.read(path, KEY)
        assert json.dumps(vars(again.terms)) == json.dumps(vars(loaded.terms))
        assert [one.digest for one in again.past] == [one.digest for one in loaded.past]
        assert [one.mark for one in again.past] == [one.mark for one in loaded.past]


def _columns(data: bytes, name: str) -> None:
    path = _file(data, name)
    loaded = _taken(lambda: pg.Columns.load(path), path.name)
    if loaded is not None:
        assert len(loaded) == len(loaded.names) >= 1
        if loaded.plain:
            assert np.isfinite(loaded.encode({key: [0.0] for key in loaded.selected})).all()
        assert pg.Columns.from_dict(loaded.to_dict()) == loaded
        try:
            repr(loaded).encode()
        except UnicodeEncodeError:
            return  # half a surrogate pair, which JSON can name a column and no file can hold
        loaded.save(path)
        assert pg.Columns.load(path) == loaded


def columns_json(data: bytes) -> None:
    _columns(data, "fuzz.json")


def columns_toml(data: bytes) -> None:
    _columns(data, "fuzz.toml")


# --- seeds: files as they should be ---------------------------------------------------------------


def _rows() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(40, 3))


def _moments() -> list[pg.SecondMoment]:
    columns = pg.Columns({"a": (-3, 3), "b": (-4, 2)}, intercept=True, missing="drop")
    return [
        pg.SecondMoment(1, 1.0),
        pg.SecondMoment(3, 2.0).update(_rows()),
        pg.SecondMoment(3, 2.0, names=("a", "b", "c")).update(_rows()),
        pg.SecondMoment(3, columns.bound, columns=columns).update(_rows()[:, :2]),
    ]


def moment_seeds() -> list[bytes]:
    return [m.to_bytes() for m in _moments()]


def moments_seeds() -> list[bytes]:
    table = {"a": _rows()[:, 0], "g": np.arange(40) % 3, "who": np.arange(40) // 2}
    columns = pg.Columns({"a": (-3, 3)}, intercept=True)
    by = pg.Groups("g", [0, 1], unknown="other")
    units = (None, pg.Unit("who", max_rows=2))
    made = [pg.second_moment(table, columns=columns, by=by, unit=unit) for unit in units]
    return [one.to_bytes() for one in made]


def _release_seeds(name: str) -> list[bytes]:
    seeds, path = [], folder() / name
    mechanisms = (
        pg.AnalyzeGauss(repair="shift"),
        pg.AdditiveWishart(),
        pg.MatrixLaplace(),
        GaussianSketch(rows=20),
        InverseWishart(),
    )
    for mechanism in mechanisms:
        for moment in _moments()[1:4:2]:
            rng = np.random.default_rng(2)
            pg.release(moment, epsilon=2.0, delta=1e-6, mechanism=mechanism, rng=rng).save(path)
            seeds.append(path.read_bytes())
    return seeds


def regression_seeds() -> list[bytes]:
    seeds, path = [], folder() / "seed.npz"
    rng = np.random.default_rng(4)
    table = {"a": rng.uniform(-1, 1, 300), "r": rng.choice(["n", "s"], 300)}
    table["y"] = table["a"] + rng.normal(size=300) > 0
    columns = pg.Columns({"a": (-1, 1), "r": ["n", "s"], "y": bool})
    for epsilon, adjacency in ((50.0, "replace"), (0.5, "add-remove")):
        setting = {"epsilon": epsilon, "delta": 1e-3, "adjacency": adjacency, "rng": rng}
        setting |= {"family": "binomial"}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pg.regress(table, "y ~ a + r", columns, **setting).save(path)
        pg.load(path)  # imports what it needs, whose memory is no input's
        seeds.append(path.read_bytes())
    return seeds


def groups_seeds() -> list[bytes]:
    seeds, path = [], folder() / "seed.npz"
    table = {"a": _rows()[:, 0], "g": np.arange(40) % 2}
    for mechanism in (pg.AnalyzeGauss(), pg.AdditiveWishart()):
        by, rng = pg.Groups("g", [0, 1]), np.random.default_rng(5)
        columns = pg.Columns({"a": (-3, 3)}, intercept=True)
        pg.release(table, columns, 2.0, 1e-6, by=by, mechanism=mechanism, rng=rng).save(path)
        seeds.append(path.read_bytes())
    return seeds


def _learnt_seeds(name: str, options: list[dict[str, Any]]) -> list[bytes]:
    from privgram import estimators

    seeds, path = [], folder() / "seed.npz"
    given = {"epsilon": 50.0, "delta": 1e-3, "random_state": 0}
    for more in options:
        model = getattr(estimators, name)(**given, **more)
        model.fit(_rows()[:, :2], np.arange(40) % len(more.get("classes", [0, 1])))
        model.result_.save(path)
        pg.load(path)
        seeds.append(path.read_bytes())
    return seeds


def features_seeds() -> list[bytes]:
    boxes = {"columns": (-3, 3)}
    kernels = [pg.RandomFeatures(n=4, scale=1.0), pg.RandomFeatures(n=6, scale=2.0, seed=3)]
    return _learnt_seeds("PrivateRidge", [boxes | {"features": one} for one in kernels])


def classes_seeds() -> list[bytes]:
    few, many = {"bound": 2.0, "classes": [0, 1]}, {"bound": 2.0, "classes": [0, 1, 2]}
    return _learnt_seeds("PrivateClassifier", [few, many, many | {"holdout": 0.3}])


def low_rank_seeds() -> list[bytes]:
    seeds, path = [], folder() / "seed.npz"
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6, 5))
    pg.papers.hardt_roth.approximate(x, 2, oversample=2, epsilon=1.0, delta=1e-6, rng=rng).save(
        path
    )
    seeds.append(path.read_bytes())
    pg.papers.hardt_roth.LowRank(x[:, :2], x[:2]).save(path)
    return [*seeds, path.read_bytes()]


def ledger_seeds() -> list[bytes]:
    # Imports what composes, whose memory is no input's.
    compose([SketchProfile(20, 1e-3), SketchProfile(20, 2e-3)]).delta(1.0)
    seeds = []
    for composition in ("basic", "gaussian"):
        path = folder() / "seed.ledger"
        path.unlink(missing_ok=True)
        budget = Ledger(path, 10.0, 1e-5, composition=composition)
        seeds.append(path.read_bytes())
        stated = 0.0 if composition == "gaussian" else 1e-7
        budget.spend(0.5, stated, adjacency="replace", unit="", what="a")
        for profile in (
            GaussianProfile(0.1),
            WishartProfile(40, 3, 0.01, "replace"),
            SketchProfile(20, 1e-3, "replace"),
        ):
            delta = max(profile.delta(1.0), 1e-12) * 1.1
            price = Price(1.0, delta, "replace", "", profile, what="b")
            if isinstance(profile, GaussianProfile):
                budget.hold(price, GaussianProfile(0.05)).settle(GaussianProfile(0.05))
            else:
                budget.reserve(price)
        budget.spend(0.1, 0.0, adjacency="replace", unit="", id="c")
        budget.enter_period("c", 1, "0" * 64)
        seeds.append(path.read_bytes())
    return seeds


def stream_seeds() -> list[bytes]:
    seeds, path = [], folder() / "seed.stream"
    path.with_name("seed.stream.key").write_text(KEY.hex())
    for periods in (2, None):
        path.unlink(missing_ok=True)
        study = pg.Study({"a": _rows()[:, 0]}, {"a": (-3, 3)}, epsilon=2.0, delta=1e-5)
        begun = pg.Stream(study, periods, epsilon=1.0, delta=1e-6, path=path)
        seeds.append(path.read_bytes())
        for column in (1, 2):
            begun.release({"a": _rows()[:, column]})
        seeds.append(path.read_bytes())
    return seeds


def _columns_seeds(suffix: str) -> list[bytes]:
    path = folder() / f"seed{suffix}"
    seeds = []
    for columns in (
        pg.Columns({"a": (0, 1)}),
        pg.Columns({"a b": (-1e300, 2.5), "\u00e9": (0, 1e-300)}, intercept=True, missing="drop"),
    ):
        columns.save(path)
        seeds.append(path.read_bytes())
    return seeds


# --- forms ----------------------------------------------------------------------------------------


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()


def _framed(magic: bytes, header: Any, rest: bytes, version: int = 1) -> bytes:
    text = _text(header)
    body = magic + struct.pack("<II", version, len(text)) + text + rest
    return body + hashlib.sha256(body).digest()


def _unframed(magic: bytes, data: bytes) -> tuple[Any, bytes]:
    start = len(magic) + 8
    (length,) = struct.unpack_from("<I", data, start - 4)
    return json.loads(data[start : start + length]), data[start + length : -32]


_STREAM = b"privgram.stream\n"


def _binary_form(magic: bytes) -> Form:
    def open_binary(data: bytes) -> Any:
        header, body = _unframed(magic, data)
        return [header, body.hex()]

    return Form(open_binary, lambda parts: _framed(magic, parts[0], bytes.fromhex(parts[1])))


def _open_stream(data: bytes) -> Any:
    """With what is encrypted, so that changes of it are under a key that holds too."""
    start = len(_STREAM) + 8
    start += int.from_bytes(data[start - 4 : start], "little")
    header = json.loads(data[len(_STREAM) + 8 : start])
    entries = header["n_columns"] * (header["n_columns"] + 1) // 2
    parts, seal, start = [header], data[start + 44 : start + 60], start + 60
    public, secret = 8 + 8 * entries, 12 + 32 + 16 * entries + 16
    while start < len(data):
        shown, start = data[start : start + public], start + public
        sealed, start = data[start : start + secret], start + secret
        opened = ChaCha20Poly1305(KEY).decrypt(sealed[:12], sealed[12:], seal + shown)
        parts.append([shown.hex(), opened.hex()])
        seal = sealed[-16:]
    return parts


def _seal_stream(parts: Any) -> bytes:
    def sealed(secret: bytes, public: bytes) -> bytes:
        return bytes(12) + ChaCha20Poly1305(KEY).encrypt(bytes(12), secret, public)

    header, *periods = parts
    data = _framed(_STREAM, header, b"", FRAME.version)
    data += sealed(b"", data)
    for period in periods:
        shown, secret = map(bytes.fromhex, period)
        data += shown + sealed(secret, data[-16:] + shown)
    return data


def _open_ledger(data: bytes) -> Any:
    records = [json.loads(line) for line in data.splitlines()]
    return [{k: v for k, v in record.items() if k != "sha256"} for record in records]


def _seal_ledger(records: Any) -> bytes:
    lines, previous = [], ""
    for record in records:
        text, previous = chain_line(record, previous)
        lines.append(text)
    return b"".join(lines)


def _arrays(values: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(values[name], dtype=np.float64) for name in values}


def _open_release_json(data: bytes) -> Any:
    return json.loads(data)


def _seal_release_json(payload: Any) -> bytes:
    header = dict(payload["release"])
    arrays = _arrays({n: header.pop(n) for n in ("matrix", "sketch") if n in header})
    return _text(payload | {"sha256": digest(header, arrays)})


def _npz_form(key: str) -> Form:
    def open_npz(data: bytes) -> Any:
        with np.load(io.BytesIO(data)) as archive:
            payload = json.loads(str(archive["header"]))
            arrays = {name: archive[name].tolist() for name in archive.files if name != "header"}
        return [payload, arrays]

    def seal(parts: Any) -> bytes:
        payload, arrays = parts[0], _arrays(parts[1])
        payload = payload | {"sha256": digest(payload[key], arrays)}
        buffer = io.BytesIO()
        np.savez(buffer, header=np.array(json.dumps(payload)), **arrays)
        return buffer.getvalue()

    return Form(open_npz, seal)


TARGETS = {
    "update": Target(update, lambda: [bytes(range(i, i + 200)) for i in range(8)], None),
    "moment": Target(moment, moment_seeds, _binary_form(b"privgram.moment\n")),
    "moments": Target(moments, moments_seeds, _binary_form(b"privgram.moments\n")),
    "release_json": Target(
        release_json,
        lambda: _release_seeds("seed.json"),
        Form(_open_release_json, _seal_release_json),
    ),
    "release_npz": Target(release_npz, lambda: _release_seeds("seed.npz"), _npz_form("release")),
    "regression": Target(result, regression_seeds, _npz_form("fit")),
    "groups": Target(result, groups_seeds, _npz_form("releases")),
    "low_rank": Target(low_rank, low_rank_seeds, _npz_form("contents")),
    "ledger": Target(ledger, ledger_seeds, Form(_open_ledger, _seal_ledger)),
    "columns_json": Target(columns_json, lambda: _columns_seeds(".json"), Form(json.loads, _text)),
    "columns_toml": Target(
        columns_toml,
        lambda: _columns_seeds(".toml"),
        Form(lambda data: tomllib.loads(data.decode()), lambda value: _to_toml(value).encode()),
    ),
}

if find_spec("sklearn") is not None:  # estimators make them
    TARGETS |= {
        "features": Target(result, features_seeds, _npz_form("fit")),
        "classes": Target(result, classes_seeds, _npz_form("fit")),
    }
if find_spec("cryptography") is not None:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    TARGETS["stream"] = Target(stream, stream_seeds, Form(_open_stream, _seal_stream))


def run(name: str, data: bytes) -> None:
    """Give one input to one target; AssertionError, or what the loader raised, is a defect."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    TARGETS[name].check(data)
    lasted = time.process_time() - began
    if lasted > LONGEST:
        raise Defect(f"{lasted:.1f} s for {len(data)} bytes")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > GROWTH:
        raise Defect(f"{grown} KiB of memory for {len(data)} bytes")


# --- mutations behind the checksum ----------------------------------------------------------------

#: What a field may turn into.
ODD = [
    None, True, False, 0, 1, -1, 2, 3, 32768, 2**31, 2**63 - 1, 2**63, 10**400, 0.5, -0.0, 1e308,
    5e-324, math.inf, -math.inf, math.nan, "", "0x1p+1", "a", "intercept", "x" * 300, "\ud800",
    [], {}, [[]], [1, 2], [None], {"a": [0, 1]}, "GaussianProfile", "replace", "basic", 10**30,
    1e15, 2**53, 1e-300, "\x1b[2J\x00\n",
    {"profile": "GaussianProfile", "sensitivity_ratio": 100.0},
    {"profile": "ComposedProfile", "profiles": [], "discretization": 1e-4},
    {"profile": "ComposedProfile", "profiles": [
        {"profile": "StatedProfile", "at_epsilon": 1.0, "at_delta": 1e-9},
        {"profile": "BoundedRangeProfile", "at_epsilon": 0.1}], "discretization": 1e-4},
    {"profile": "ChiGaussianProfile", "k": 5, "ratio": 100.0, "offset": 0.0},
    {"profile": "AdaptiveLadderProfile", "rows": 25, "regulariser": 1e3, "shift": 500.0,
     "scale": 100.0, "adjacency": "replace", "at_epsilon": 1e9, "at_delta": 1e-6},
]  # fmt: skip


def _deep(kind: int) -> Any:
    value: Any = 1
    for _ in range(600):
        value = [value] if kind else {"a": value}
    return value


def _places(value: Any, found: list[tuple[Any, Any]]) -> None:
    if isinstance(value, (list, dict)) and len(found) < 300:
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            _places(value[key], found)


def mutate(name: str, data: bytes, seed: int) -> bytes:
    """Change a few fields of a file and put it together again; as it is, if it is no file."""
    form = TARGETS[name].form
    rng = random.Random(seed)
    if form is None:  # bytes are choices, and any will do
        return rng.randbytes(200)
    try:
        parts = form.open(data)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            places: list[tuple[Any, Any]] = []
            _places(parts, places)
            where, key = rng.choice(places)
            what = rng.randrange(8)
            if what == 0:
                del where[key]
            elif what == 1 and isinstance(where, list):
                where.insert(key, where[key])
            elif what == 2 and isinstance(where[key], str):
                at = rng.randrange(len(where[key]) + 1)
                where[key] = (
                    where[key][:at]
                    + rng.choice(("0", "f", "-", "\x00", '"')) * rng.choice((0, 1, 32))
                    + where[key][at + rng.randrange(3) :]
                )
            elif what == 3:
                other, at = rng.choice(places)
                where[key] = json.loads(json.dumps(other[at]))
            elif what == 4 and isinstance(where[key], (int, float)):
                where[key] = where[key] * rng.choice((-1, 2, 0.5, 1e200)) + rng.choice((0, 1, -1))
            elif what == 5 and rng.randrange(20) == 0:
                where[key] = _deep(rng.randrange(2))
            else:
                where[key] = rng.choice(ODD)
        return form.seal(parts)
    except Exception:  # libFuzzer's bytes need not be a file
        return data
