"""Tables in memory as ranges: few, each row once, and small at the end."""

import numpy as np
import pytest

import privgram as pg
from privgram.sources import table as tables
from privgram.sources.table import open_array, open_mapping


def sizes(table):
    assert table.kind == "ranges"
    return [tables.n_rows_of(block) for chunk in table.chunks for block in chunk.read()]


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("n", [0, 1, 255, 257, 100_003])
def test_ranges_have_every_row_once(monkeypatch, cores, n):
    monkeypatch.setattr(tables, "cores", lambda: cores)
    monkeypatch.setattr(tables, "CHUNK_BYTES", 1 << 14)
    x = np.arange(3.0 * n).reshape(n, 3)
    for table in (open_array(x), open_mapping({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})):
        rows = [block for chunk in table.chunks for block in chunk.read()]
        blocks = [np.column_stack(block) if isinstance(block, list) else block for block in rows]
        np.testing.assert_array_equal(np.concatenate(blocks) if blocks else x, x)


def test_hand_overs_are_few_and_the_last_ranges_small(monkeypatch):
    """Of 3 GB, which took 705 chunks: by 16 cores five times fewer; none is above the largest."""
    x = np.broadcast_to(np.zeros((1, 22)), (1 << 24, 22))
    for cores, most in ((1, 40), (2, 50), (16, 180)):
        monkeypatch.setattr(tables, "cores", lambda cores=cores: cores)
        found = sizes(open_array(x))
        assert len(found) <= most
        assert sum(found) == len(x)
        assert max(found) * 176 <= tables.LARGEST_BYTES
        assert found[-1] * 176 <= tables.CHUNK_BYTES
        assert found == sorted(found, reverse=True)


def test_small_table_is_one_chunk(monkeypatch):
    monkeypatch.setattr(tables, "CHUNK_ROWS", 1 << 13)
    assert [len(sizes(open_array(np.zeros((n, 3))))) for n in (1000, 1 << 13, 1 << 14)] == [1, 1, 2]


def test_columns_that_must_be_converted_stay_small():
    n = 1 << 21
    dates = np.zeros(n, "M8[D]")
    table = open_mapping({"d": dates}, {"d": pg.Dates("1970-01-01", "2000-01-01")})
    assert max(sizes(table)) * 8 <= tables.CHUNK_BYTES
