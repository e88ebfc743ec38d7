"""Blocks of rows in every layout, made from bytes, for `SecondMoment.update`.

Data lie flush against pages that cannot be read, so that a read out of bounds ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from functools import cache
from typing import Any

import numpy as np
import oracle as reference

import privgram as pg
from privgram._core import rows

PAGE = mmap.PAGESIZE
ROOM = 64 * PAGE

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 7.4, 1e-320, 5e-324, 1e-160, 1e160, 1.7e308, -1.7e308, 3.4e38, 1e-45]
)
DTYPES = ("<f8", "<f4", ">f8", ">f4", "f2", "g", "i1", "u1", "<i2", "<i4", ">i4", "<i8", ">i8",
          "<u8", "?", "c16", "O", "S3", "U2", "M8[s]", "m8[s]", "V4", "f8,f8")  # fmt: skip
BOUNDS = (1.0, 7.4, 1e-3, 1e20, 1e-20, 2.0**100, 2.0**-100)


class Bytes:
    """Choices made by bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        part = self.data[self.at : self.at + count]
        self.at += count
        return part.ljust(count, b"\0")

    def below(self, limit: int) -> int:
        return int.from_bytes(self.take(2), "little") % limit

    def of(self, options: Any) -> Any:
        return options[self.below(len(options))]


@cache
def arena() -> np.ndarray:
    """Bytes between two pages that cannot be read, where the system has mprotect."""
    area = mmap.mmap(-1, ROOM + 2 * PAGE)
    whole = np.frombuffer(area, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for at in (0, ROOM + PAGE):
        if protect(whole.ctypes.data + at, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    return whole[PAGE : PAGE + ROOM]


def _numbers(source: Bytes, count: int) -> np.ndarray:
    kind = source.below(6)
    seeded = np.random.default_rng(source.below(1 << 16))
    if kind == 0:
        raw = np.frombuffer(source.take(8 * min(count, 64)).ljust(8, b"\0"), "<f8")
        return np.resize(raw, count)
    values = seeded.normal(size=count) * 10.0 ** source.of((0, 0, -3, 3, 30, 150, -150, -310))
    if kind == 1:
        values = seeded.choice(SPECIAL, count)
    if kind == 2 and count:
        values[seeded.integers(count)] = source.of((np.nan, np.inf, -np.inf))
    return values


def array(source: Bytes, n: int, d: int) -> np.ndarray:
    """An array of shape (n, d), or now and then of another."""
    dtype = np.dtype(source.of(DTYPES[:2] if source.below(2) else DTYPES))
    order = source.of("CF")
    steps = [source.of((1, 1, 1, 2, 3, -1, -2)) for _ in range(2)]
    if source.below(16) == 0:
        steps[source.below(2)] = 0
    shape = [n if s == 0 else n * abs(s) for s in steps[:1]] + [d * max(abs(steps[1]), 1)]
    count = shape[0] * shape[1]
    size = count * dtype.itemsize
    with np.errstate(all="ignore"):
        values = _numbers(source, count)
        if dtype.kind in "iu":
            values = np.nan_to_num(values, posinf=0, neginf=0) % 100
        values = np.zeros(count, dtype) if dtype.kind in "SUOMmV" else values.astype(dtype)
    if dtype.kind != "O" and size <= ROOM:
        room = arena()
        odd = source.of((0, 0, 0, 1, 3, 4))  # misaligned
        start = odd if source.below(2) else ROOM - size - odd
        if start >= 0 and start + size <= ROOM:
            raw = room[start : start + size]
            raw[:] = np.frombuffer(values.tobytes(), np.uint8)
            values = raw.view(dtype)
    out = values.reshape(shape, order=order)
    view = out[:: steps[0] or 1, :: steps[1] or 1]
    if 0 in steps:
        view = np.broadcast_to(view[:1] if steps[0] == 0 else view[:, :1], (len(view), d))
    if source.below(4) == 0:
        view.flags.writeable = False
    return view


def block(source: Bytes, n: int, d: int) -> Any:
    """A block in one of many containers."""
    table = array(source, n, d)
    kind = source.below(24)
    if kind == 0:
        return np.ma.MaskedArray(table, mask=source.below(2))
    if kind == 1:
        return table.tolist()
    if kind == 2:
        return table.ravel()
    if kind == 3:
        return table[..., None]
    if kind == 4:
        return table[0, 0] if table.size else table.sum if d == 7 else None
    if kind == 5:
        return {f"x{j}": table[:, j] for j in range(table.shape[1])}
    if kind == 6:
        return {f"x{j}": table[: n - j, j] for j in range(table.shape[1])}
    if kind == 7 and table.dtype.kind != "O" and table.size:
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, table.dtype, "w+", shape=table.shape)
            mapped[...] = table
            return mapped
    if kind == 8:
        return table.T
    if kind == 9:
        return np.asarray(table).view(type("Sub", (np.ndarray,), {}))
    return table


def update(data: bytes) -> None:
    """All rows of a block or none, as the plain NumPy twin has them, to the last bit."""
    if len(data) < 8:  # libFuzzer begins with nothing
        return
    source = Bytes(data)
    d = source.of((1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 17, 23, 25, 33, 41))
    n = source.of((0, 1, 2, 3, 7, 8, 9, 31, 33, 64, 65, 130))
    bound = source.of(BOUNDS)
    rows.select(source.of((*rows.available(), *rows.emulated())))
    moment = pg.SecondMoment(d, bound)
    begun = np.ones((5 * source.below(2), d))
    moment.update(begun)
    before = _state(moment)
    with np.errstate(all="ignore"):
        given = block(source, n, d)
        try:
            moment.update(given)
        except (ValueError, TypeError) as error:
            assert _state(moment) == before, "half a block was taken"
            text = str(error)
            assert len(text) > 10 and "\n" not in text, "an unclear message"  # noqa: PT018
            return
        if getattr(getattr(given, "dtype", None), "names", None):  # a structured array is a table
            given = {name: given[name] for name in given.dtype.names}
        if isinstance(given, dict):
            given = np.column_stack(list(given.values()))
        plain = np.array(given, dtype=np.float64, order="C")
    twin = reference.RowAccumulator(d, bound)
    assert twin.update(begun) == twin.update(plain) == -1
    assert _state(moment) == _state(twin), "not the plain twin's"


def _state(total: Any) -> tuple[Any, ...]:
    hi, lo = total.int128()
    return hi.tobytes(), lo.tobytes(), total.n_rows, total.n_dropped
