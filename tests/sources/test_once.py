"""A table that is named twice, by any names, is refused: its rows would count twice."""

import os

import numpy as np
import pytest

import privgram as pg

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    table = pa.table({"a": np.arange(10.0), "b": np.ones(10)})
    for name in ("parts/0.parquet", "parts/1.parquet", "other.parquet"):
        pq.write_table(table, name)
    return tmp_path


def symbolic():
    os.symlink("other.parquet", "link.parquet")
    return ["other.parquet", "link.parquet"]


def hard():
    os.link("other.parquet", "link.parquet")
    return ["other.parquet", "link.parquet"]


def inside():
    os.symlink("../other.parquet", "parts/link.parquet")
    return ["parts", "other.parquet"]


def linked_folder():
    os.symlink("parts", "more")
    return ["parts", "more"]


def within_a_folder():
    os.link("parts/0.parquet", "parts/2.parquet")
    return "parts"


def datasets(names):
    from pyarrow import dataset

    return dataset.dataset([dataset.dataset(name) for name in names])


def of_dask():
    frames = pytest.importorskip("dask.dataframe")
    return frames.read_parquet(hard())[["a"]]


TWICE = {
    "same": lambda: ["other.parquet", "other.parquet"],
    "dot": lambda: ["other.parquet", "./other.parquet"],
    "absolute": lambda: ["other.parquet", os.path.abspath("other.parquet")],
    "dots": lambda: ["other.parquet", "parts/../other.parquet"],
    "symbolic link": symbolic,
    "hard link": hard,
    "folder and its file": lambda: ["parts", "parts/1.parquet"],
    "folder and a link in it": inside,
    "folder and its link": linked_folder,
    "link within a folder": within_a_folder,
    "glob and its file": lambda: ["parts/*.parquet", "parts/1.parquet"],
    "globs": lambda: ["parts/*.parquet", "parts/[01].parquet"],
    "datasets": lambda: datasets(["other.parquet", "./other.parquet"]),
    "tables": lambda: [pq.read_table("other.parquet")] * 2,
    "dask": of_dask,
}


@pytest.mark.parametrize("way", TWICE)
def test_nothing_is_counted_twice(folder, way):
    source = TWICE[way]()
    read = []
    with pytest.raises(ValueError, match=r"would be counted twice"):
        pg.second_moment(source, 2.0, columns=["a"], progress=lambda rows, total: read.append(rows))
    assert not any(read)
    ledger = pg.Ledger("study.ledger", 2.0, 1e-6)
    columns = pg.Columns({"a": (0, 10)})
    with pytest.raises(ValueError, match="twice"):
        pg.release(source, columns=columns, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert not ledger.entries


def test_copies_and_streams_are_not_suspected(folder):
    assert pg.second_moment(["parts", "other.parquet"], 2.0).n_rows == 30
    buffer = np.ones((5, 2))
    assert pg.second_moment((buffer for _ in range(3)), 2.0).n_rows == 15
    assert pg.second_moment(datasets(["parts", "other.parquet"]), 2.0).n_rows == 30
