"""Arrow columns as NumPy's: the views are the values, and nothing else is viewed."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pa = pytest.importorskip("pyarrow")

from privgram._core.arrow import views  # noqa: E402

PLAIN = [pa.float64(), pa.float32(), pa.int64(), pa.int32()]
OTHERS = [pa.uint8(), pa.int16(), pa.uint64(), pa.float16(), pa.bool_(), pa.null(), pa.string(),
          pa.decimal128(9, 2), pa.timestamp("s"), pa.duration("s"), pa.date32(),
          pa.dictionary(pa.int32(), pa.float64()), pa.list_(pa.float64())]  # fmt: skip


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_plain_columns_are_viewed(kind):
    whole = pa.record_batch({"a": pa.array(range(99), kind), "b": pa.array(range(7, 106), kind)})
    for batch in (whole, whole.slice(13), whole.slice(13, 20).slice(5)):
        found = views(batch)
        for view, column in zip(found, batch.columns, strict=True):
            assert view.dtype == kind.to_pandas_dtype()
            assert_array_equal(view, column.to_numpy())
            assert view.ctypes.data == column.to_numpy().ctypes.data
            assert not view.flags.writeable


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_columns_are_not(kind):
    batch = pa.record_batch({"a": pa.nulls(3, kind), "b": pa.array([1.0, 2.0, 3.0])})
    found = views(batch)
    assert found[0] is None
    assert_array_equal(found[1], [1.0, 2.0, 3.0])
    found = views(pa.record_batch([pa.array([], kind)], ["a"]))
    assert found == [None]


@pytest.mark.parametrize("kind", PLAIN, ids=str)
def test_a_null_anywhere_hides_the_column(kind):
    batch = pa.record_batch({"a": pa.array([1, None, 3, 4], kind)})
    assert views(batch) == [None]
    assert views(batch.slice(0, 2)) == [None]
    # Without a null in it, a part is viewed or left to be looked at again.
    part = views(batch.slice(2))[0]
    assert part is None or list(part) == [3, 4]


@pytest.mark.slow
def test_views_keep_the_memory():
    batch = pa.record_batch({"a": np.arange(100_000.0)})
    view = views(batch)[0][5:]
    del batch
    gc.collect()
    other = [np.full(100_000, np.nan) for _ in range(20)]
    assert_array_equal(view, np.arange(5, 100_000.0))
    assert len(other) == 20


def test_a_misaligned_buffer_is_called_so():
    raw = b"\0" + np.arange(4.0).tobytes()
    column = pa.Array.from_buffers(pa.float64(), 4, [None, pa.py_buffer(raw).slice(1)])
    view = views(pa.record_batch([column], ["a"]))[0]
    assert view.flags.aligned == (view.ctypes.data % 8 == 0)
    assert_array_equal(view, np.arange(4.0))
