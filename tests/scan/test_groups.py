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
