"""Arrow's arrays through its C interface: views of the values as they lie, and who keeps them."""

import ctypes
import gc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.helpers import refuses

pa = pytest.importorskip("pyarrow")

from privgram._core.arrow import Stream, array_of, field_of_schema  # noqa: E402

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
NUMBERS += ["float16", "float32", "float64"]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_viewed(name):
    kind = pa.from_numpy_dtype(name)
    columns = [np.arange(99).astype(name), np.arange(7, 106).astype(name)]
    whole = pa.record_batch(columns, names=["a", "b"])
    assert whole.schema.field(0).type == kind
    for batch in (whole, whole.slice(13), whole.slice(13, 20).slice(5)):
        found = array_of(batch)
        for i, column in enumerate(batch.columns):
            view = found.child(i).values(name)
            assert_array_equal(view, column.to_numpy())
            assert view.ctypes.data == column.to_numpy().ctypes.data
            assert not view.flags.writeable
            assert found.child(i).missing() is None
            assert_array_equal(found.child(i).part(3, 9).values(name), column.to_numpy()[3:9])


def test_flags_and_missing_values():
    """Bits, wherever in their bytes a part begins."""
    values = [True, None, False, True, True, None, False, True, False, True, None]
    for start in range(len(values)):
        for stop in range(start, len(values) + 1):
            column = array_of(pa.array(values).slice(start, stop - start))
            some = values[start:stop]
            missing = column.missing()
            assert [*map(bool, some)] == (
                column.flags() & ~np.array([v is None for v in some], bool)
            ).tolist()
            gone = np.zeros(len(some), bool) if missing is None else missing
            assert gone.tolist() == [value is None for value in some]
            assert (missing is None) == (None not in some)


@pytest.mark.parametrize("kind", TEXTS, ids=str)
def test_texts_are_encoded(kind, rng):
    words = [
        None,
        "",
        "a",
        "ä",
        "twelve bytes",
        "thirteen byte",
        "a text that is far longer",
        "a\0b",
    ]
    words += [f"word {i}" for i in range(5000)]
    values = [words[i] for i in [*range(len(words)), *rng.integers(0, len(words), 9000)]]
    for start in (0, 3, 4999):
        column = pa.array(values, kind).slice(start)
        codes, texts = array_of(column).encode()
        assert [None if c < 0 else texts[c] for c in codes] == values[start:]
        assert len(texts) == len(set(texts))
    codes, texts = array_of(pa.array([], kind)).encode()
    assert (len(codes), texts) == (0, [])
    codes, texts = array_of(pa.nulls(5, kind)).encode()
    assert (codes.tolist(), texts) == ([-1] * 5, [])


def test_texts_that_are_no_utf8():
    raw = pa.array([b"\xff", b"ok", b"\xff", b"\xfe"]).view(pa.string())
    codes, texts = array_of(raw).encode()
    assert codes.tolist() == [0, 1, 0, 2]
    assert len({*texts}) == 3


def test_fields():
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), metadata={"k": "v", "ARROW:extension:name": "some.money"}),
            pa.field("ö", pa.dictionary(pa.int8(), pa.string())),
            pa.field("s", pa.struct([("x", pa.list_(pa.float64()))])),
        ]
    )
    a, b, s = field_of_schema(schema).children
    assert (a.name, a.format, a.extension, a.dictionary) == ("a", "l", "some.money", None)
    assert (b.name, b.format, b.extension, b.dictionary.format) == ("ö", "c", None, "u")
    assert [each.format for each in (s, s.children[0], s.children[0].children[0])] == [
        "+s",
        "+l",
        "g",
    ]


@pytest.mark.slow
def test_views_keep_the_memory():
    batch = pa.record_batch({"a": np.arange(100_000.0)})
    stream = Stream(pa.Table.from_batches([batch]))
    view = next(stream).child(0).part(5, 100_000).values("f8")
    stream.close()
    del batch, stream
    gc.collect()
    other = [np.full(100_000, np.nan) for _ in range(20)]
    assert_array_equal(view, np.arange(5, 100_000.0))
    assert len(other) == 20


def test_memory_is_given_back():
    gc.collect()
    before = pa.total_allocated_bytes()
    stream = Stream(pa.table({"a": pa.array(range(100_000)), "b": pa.array(["x"] * 100_000)}))
    arrays = list(stream)
    assert pa.total_allocated_bytes() > before
    del arrays, stream
    gc.collect()
    assert pa.total_allocated_bytes() == before


def test_stream_is_read_once():
    reader = pa.table({"a": [1.0, 2.0]}).to_reader()
    stream = Stream(reader)
    assert [len(array) for array in stream] == [2]
    assert list(stream) == []
    stream.close()
    stream.close()


class ArrowArray(ctypes.Structure):
    """The head of the struct, as the C data interface has it."""


ArrowArray._fields_ = [
    *(
        (name, ctypes.c_int64)
        for name in ("length", "null_count", "offset", "n_buffers", "n_children")
    ),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
]


class Damaged:
    """A batch whose arrays are changed on the way."""

    def __init__(self, change):
        self.change = change

    def __arrow_c_array__(self, requested=None):
        batch = pa.record_batch({"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]})
        schema, array = batch.__arrow_c_array__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.change(ArrowArray.from_address(pointer(array, b"arrow_array")))
        return schema, array


def short_child(array):
    array.children[0].contents.length = 2


def negative_offset(array):
    array.children[0].contents.offset = -1


def no_values(array):
    array.children[0].contents.buffers[1] = None


def no_ends(array):
    array.children[1].contents.buffers[1] = None


def longer(array):
    array.length = 4


@pytest.mark.parametrize("change", [short_child, negative_offset, no_values, no_ends, longer])
def test_damaged_arrays_are_refused(change):
    def read():
        batch = array_of(Damaged(change))
        return batch.child(0).values("f8"), batch.child(1).encode()

    refuses(read, ValueError, r"not there|shorter")


def test_parts_are_within():
    column = array_of(pa.array([1.0, 2.0, 3.0])).part(1, 3)
    for start, stop in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(IndexError):
            column.part(start, stop)
    refuses(lambda: column.child(0), ValueError, "not there")
