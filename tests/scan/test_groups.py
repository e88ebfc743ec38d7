"""Groups on a cluster: the bits of one machine."""

import numpy as np
import pytest

import privgram as pg

pd = pytest.importorskip("pandas")

COLUMNS = pg.Columns({"x": (-3, 3), "s": ["f", "m"], "y": (-3, 3)}, intercept=True)
ASK = {"by": pg.Groups("g", ["a", "b", "c", "d"])}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(42)
    frame = pd.DataFrame(rng.standard_normal((900, 2)), columns=["x", "y"])
    return frame.assign(s=rng.choice(["f", "m"], 900), g=rng.choice(["a", "b", "c"], 900))


CASES = [(COLUMNS, None), (["y", "x"], 2.0)]


@pytest.mark.slow
def test_dask(frame):
    dd, da = pytest.importorskip("dask.dataframe"), pytest.importorskip("dask.array")
    table = dd.from_pandas(frame, npartitions=20)  # more than are merged at once
    for columns, bound in CASES:
        made = pg.second_moment(table, bound, columns=columns, **ASK)
        assert made.to_bytes() == pg.second_moment(frame, bound, columns=columns, **ASK).to_bytes()
    array = np.column_stack([frame[["x", "y"]], np.arange(900) % 3])
    ask = {"bound": 2.0, "by": pg.Groups("g", [0, 1, 2])}
    made = pg.second_moment(da.from_array(array, chunks=(200, 3)), **ask)
    assert made.to_bytes() == pg.second_moment(array, **ask).to_bytes()
    with pytest.raises(ValueError, match=r"partition \d+: row \d+ is of a group"):
        pg.second_moment(table, columns=COLUMNS, by=pg.Groups("g", ["a", "b"], "error"))
    with pytest.raises(ValueError, match="threads"):
        pg.second_moment(table, columns=COLUMNS, threads=2, **ASK)


@pytest.mark.slow
@pytest.mark.long
def test_spark(spark, frame, tmp_path):
    frame.to_parquet(tmp_path / "t.parquet")
    for columns, bound in CASES:
        expected = pg.second_moment(frame, bound, columns=columns, **ASK).to_bytes()
        for table in (
            spark.createDataFrame(frame),
            spark.read.parquet(str(tmp_path / "t.parquet")),
        ):
            assert pg.second_moment(table, bound, columns=columns, **ASK).to_bytes() == expected
    made = pg.release(table, columns=COLUMNS, epsilon=1.0, delta=1e-6, **ASK)
    assert list(made) == ["a", "b", "c", "d"]
