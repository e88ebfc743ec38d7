"""What fuzzing found, each by the smallest change of a saved file that showed it.

The files have checksums that hold and say nonsense. They were taken, or ended in an error that no
loader may raise: `targets.run` fails for either.
"""

import hashlib
import io
import json
import os
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fuzz import targets
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.ledger import Ledger

pytestmark = pytest.mark.skipif(os.name != "posix", reason="resource is POSIX's")

HUGE = 10**400  # JSON has it, and float64 has not


@cache
def seeds(name):
    return targets.TARGETS[name].seeds()


def changed(name, number, where, value):
    """A file of `targets` in which one field is another; None to delete it."""
    form = targets.TARGETS[name].form
    parts = form.open(seeds(name)[number])
    *path, key = where
    inner = parts
    for step in path:
        inner = inner[step]
    if value is None:
        del inner[key]
    else:
        inner[key] = value
    return form.seal(parts)


def load(name, data):
    """Load as the target does, without its leave to refuse."""
    path = targets._file(data, f"regression.{name}")
    return {
        "moment": lambda: pg.SecondMoment.from_bytes(data),
        "release_json": lambda: pg.load(path),
        "release_npz": lambda: pg.load(path),
        "regression": lambda: pg.load(path),
        "low_rank": lambda: pg.papers.hardt_roth.load_low_rank(path),
        "ledger": lambda: Ledger(path),
        "columns_json": lambda: pg.Columns.load(path.rename(path.with_suffix(".json"))),
        "columns_toml": lambda: pg.Columns.load(path.rename(path.with_suffix(".toml"))),
    }[name]()


#: Lines of JSON: target, its seed, the field, what it became, a part of the refusal; what it did.
LINES = Path(__file__).with_name("fields.txt").read_text().splitlines()
FIELDS = [json.loads(line)[:5] for line in LINES]


def title(parameter):
    return ".".join(map(str, parameter)) if isinstance(parameter, list) else str(parameter)[:20]


@pytest.mark.parametrize(("name", "number", "where", "value", "refusal"), FIELDS, ids=title)
def test_nonsense_under_a_checksum_that_holds(name, number, where, value, refusal):
    data = changed(name, number, where, HUGE if value == "HUGE" else value)
    kind = ValueError if name.startswith("columns") else DamagedFile
    refuses(lambda: load(name, data), kind, refusal)
    targets.run(name, data)  # in one line, which names the file


def test_key_that_is_there_twice():
    """Two readers would take two releases from it: the checksum is over the last one only."""
    whole = seeds("release_json")[0].decode()
    again = whole.replace('"release": {', '"release": {"epsilon": 0.001}, "release": {', 1)
    inside = whole.replace('"epsilon":', '"epsilon": 0.001, "epsilon":', 1)
    beside = whole.replace('"version"', '"note": "checked", "version"', 1)
    for data in (again, inside, beside):
        with pytest.raises(ValueError, match="damaged"):
            load("release_json", data.encode())
    head, first, *_ = seeds("ledger")[1].splitlines()
    text = b'{"number": 1, "epsilon": 1e-9, ' + first[len(b'{"number": 1, ') :]
    text = text[: text.rindex(b', "sha256"')]
    before = json.loads(head)["sha256"].encode()
    seal = hashlib.sha256(before + text).hexdigest().encode()
    with pytest.raises(ValueError, match="line 2: it is not JSON"):
        load("ledger", b"\n".join([head, text + b', "sha256": "' + seal + b'"}', b""]))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("columns_json", b'{"bounds": ' + b"[" * 100_000),
        ("columns_toml", b"bounds = " + b"[" * 100_000),
    ],
)
def test_columns_nested_too_deeply(name, data):
    with pytest.raises(ValueError, match="nested too deeply"):  # RecursionError
        load(name, data)
    targets.run(name, data)


@pytest.mark.parametrize(
    "text",
    [
        'missing = "%s"\n[bounds]\nx = [0, 1]',
        '[bounds]\nd = {dates = ["2020-01-01", "2021-01-01"], unit = "%s"}',
        '"%s" = 1\n[bounds]\nx = [0, 1]',
        '[bounds]\nx = {levels = ["%s", "%s"]}',
    ],
)
def test_words_of_any_length_are_refused_in_a_sentence(text):
    data = text.replace("%s", "drop" * 5000).encode()
    refuses(lambda: load("columns_toml", data), ValueError, r"dropdrop.*\.\.\.")
    targets.run("columns_toml", data)


def archive(name, **members):
    """An archive of `targets` in which some members are other bytes."""
    with zipfile.ZipFile(io.BytesIO(seeds(name)[0])) as old:
        kept = {m.filename: old.read(m) for m in old.infolist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for member, data in (kept | {f"{m}.npy": d for m, d in members.items()}).items():
            new.writestr(member, data)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["release_npz", "low_rank"])
@pytest.mark.parametrize(
    "member",
    [
        b"no array",  # read as bytes, which have no checksum: AttributeError
        b"",
        npy(np.array(["words"])),
        npy(np.array([(1, 2.0)], dtype="i4,f8")),
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',(",  # TokenError
        b"\x93NUMPY\x01",  # cut off
    ],
    ids=["bytes", "nothing", "words", "records", "tokens", "cut"],
)
def test_members_that_are_no_arrays_of_numbers(name, member):
    which = "matrix" if name == "release_npz" else "left"
    data = archive(name, **{which: member})
    refuses(lambda: load(name, data), ValueError, r"damaged|is not a")
    targets.run(name, data)


def test_smallest_budget_there_is(tmp_path):
    """Halving an interval of subnormal numbers went on for ever."""
    ledger = Ledger(tmp_path / "budget", 1e-323, 1e-6, composition="basic")
    ledger.spend(5e-324, 1e-9, adjacency="replace", unit="")
    assert ledger.remaining(1e-9) == 5e-324


@pytest.mark.parametrize("columns", [300, 10**12, 2.0, None])
def test_stream_whose_header_promises_more_than_there_is(columns):
    """Of as many columns it has no period that is whole; and no memory is taken for one."""
    pytest.importorskip("cryptography")
    targets.stream(changed("stream", 1, (0, "n_columns"), columns))
