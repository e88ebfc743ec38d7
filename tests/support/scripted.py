"""A bit generator whose words a test chooses, and the C of discrete noise with a fault planted."""

from __future__ import annotations

import ctypes
import functools
import itertools
import random
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgram._core.draws import BLOCKS, Words
from privgram.exact import discrete

ROOT = Path(__file__).parents[2]


class BitGen(ctypes.Structure):
    """NumPy's bitgen_t."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
        ("next_uint32", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)),
        ("next_double", ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)),
        ("next_raw", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)),
    )


class Script:
    """Gives the words of an iterable, and where they end 2^40, and counts them.

    Of these a zero is made, and nothing waits for ever for a bit that is set.
    """

    def __init__(self, words: Iterable[int]) -> None:
        self.words = iter(words)
        self.taken = 0
        self.lock = threading.Lock()
        fields = dict(BitGen._fields_)
        nothing = {name: fields[name]() for name in ("next_uint32", "next_double")}
        word = fields["next_uint64"](lambda _: self.word())
        self.bitgen = BitGen(None, word, **nothing, next_raw=word)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = (
            ctypes.py_object,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
        )
        self._name = b"BitGenerator"
        self.capsule = new(ctypes.addressof(self.bitgen), self._name, None)

    def word(self) -> int:
        self.taken += 1
        return next(self.words, 2**40)

    def random_raw(self, size: int | None = None) -> Any:
        """As NumPy's bit generators."""
        return self.word() if size is None else np.array([self.word() for _ in range(size)], "u8")

    @property
    def bit_generator(self) -> Script:
        """As a generator has it."""
        return self


class _Proposal(ctypes.Structure):
    _fields_ = (
        ("negative", ctypes.c_int),
        ("block", ctypes.c_int),
        ("offset", ctypes.c_uint64 * 2),
        ("first", ctypes.c_uint64),
    )


class _Table(ctypes.Structure):
    _fields_ = (
        ("shift", ctypes.c_int),
        ("whole", ctypes.c_int),
        ("rate67", ctypes.c_uint64),
        ("margin", ctypes.c_uint64),
        ("scale", ctypes.c_uint64),
        ("weight", ctypes.c_uint64 * (BLOCKS + 1)),
        ("cumulative", ctypes.c_uint64 * (BLOCKS + 2)),
        ("start", ctypes.c_uint64 * (BLOCKS + 1)),
        ("sure", ctypes.c_uint64 * (BLOCKS + 1)),
        ("guide", ctypes.c_uint8 * 1024),
    )


def compiled_law(folder: Path, fault: tuple[str, str]) -> type:
    """`privgram._core.draws.Law` with one passage of its C replaced by another."""
    core = ROOT / "src" / "privgram" / "_core"
    text = (core / "discrete.c").read_text()
    assert text.count(fault[0]) == 1
    source, library = folder / "discrete.c", folder / "discrete.so"
    source.write_text(text.replace(*fault))
    include = [f"-I{core}", f"-I{np.get_include()}"]
    command = ["cc", "-O2", "-shared", "-fPIC", *include, str(source), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    code = ctypes.CDLL(str(library))
    code.discrete_fill.restype = ctypes.c_ssize_t
    code.discrete_fill.argtypes = (
        *(ctypes.c_void_p,) * 4, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_void_p
    )  # fmt: skip
    code.discrete_prepare.argtypes = (
        ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p,
        ctypes.c_uint64,
    )  # fmt: skip

    class Law:
        def __init__(
            self, shift: int, rate67: int, decay: int, margin: int, whole: bool = True
        ) -> None:
            self.table = _Table()
            words = (ctypes.c_uint64 * 2)(decay >> 64, decay & (2**64 - 1))
            table = ctypes.byref(self.table)
            code.discrete_prepare(table, shift, whole, rate67, words, margin)
            self.scale = self.table.scale
            self.weights = np.array(self.table.weight, np.uint64)

        def fill(self, words: Words, high: Any, low: Any, start: int) -> Any:
            left = _Proposal()
            table = ctypes.byref(self.table)
            arrays = words.address, high.ctypes.data, low.ctypes.data
            at = code.discrete_fill(table, *arrays, start, len(high), ctypes.byref(left))
            if at == len(high):
                return None
            offset = left.offset[0] << 64 | left.offset[1]
            return at, bool(left.negative), left.block, offset, left.first

    return Law


def words(seed: Any, awkward: Any = ()) -> Iterator[int]:
    """Random words, half of them awkward if there are such."""
    source = random.Random(seed)
    while True:
        if awkward and source.random() < 0.5:
            yield source.choice(awkward)
        else:
            yield source.getrandbits(64)


def awkward_words(law: Any) -> list[int]:
    """Words at which the block changes, beyond all of them, and the ends of all numbers."""
    edges = itertools.accumulate(law.weights)
    near = [2 * edge + side for edge in edges for side in (-2, -1, 0, 1)]
    return [*near, *[0, 1, 2**63, 2**64 - 2, 2**64 - 1] * 50]


def first_false(holds: Callable[[int], bool], stop: int) -> int:
    """The least number below `stop` of which it does not hold; it holds below and not above."""
    low, high = -1, stop
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


FAULTS = {
    "none": ("return at;", "return at;"),
    "a biased Bernoulli": ("law->rate67 >> 58);", "law->rate67 >> 58) * 0;"),
    "a bound from below that is none": ("(threshold, UINT64_MAX - x);", "(threshold, ~(x / 8));"),
    "a bound from above that is none": ("least + high_of(x, x) / 2;", "least - 4 * x;"),
    "acceptance that is too sure": (": least - margin", ": law->start[b]"),
    "a dropped retry": ("if (verdict == REJECTED)\n                continue;", ""),
    "zero twice": ("if (law->whole && negative && !size)", "if (0)"),
}


@functools.cache
def faulty(fault: str, folder: Path) -> Any:
    """The law of the C with this fault, compiled once."""
    folder = folder / fault.replace(" ", "_")
    folder.mkdir()
    return functools.cache(compiled_law(folder, FAULTS[fault]))


def check_finds(fault: str, route: Callable[[], None], folder: Path, patch: Any) -> None:
    """A route of tests fails with the fault, and not without one."""
    patch.setattr(discrete.draws, "Law", faulty(fault, folder))
    kept = discrete.law, discrete._table
    for one in kept:
        one.cache_clear()
    try:
        with nullcontext() if fault == "none" else pytest.raises(AssertionError):
            route()
    finally:
        for one in kept:
            one.cache_clear()
