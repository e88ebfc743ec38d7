"""One table in any order, cut, engine, file or number of threads: the same answer, to the last bit.

A design and a form of its table are drawn; what is answered is that of the table as it is. Rows
that miss a value are as rows that are not there, and a saved answer is the answer.
"""

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import privgram as pg
from privgram.scan import units

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.slow

N = 900
BOUNDS = {"a": (-3, 3), "b": (0, 5), "y": (-9, 9), "k": (0, 9), "d": bool, "g": list("uvw")}
LEVELS = [f"f{i}" for i in range(5)]
VARIABLES = BOUNDS | {"firm": LEVELS}
UNIT, GROUPS = pg.Unit("who", max_rows=3), pg.Groups("g", list("uvw"))


def made():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=N), rng.uniform(-1, 6, N)
    y = a + 0.2 * b + rng.standard_t(3, N)
    table = {"a": a, "b": b, "y": y, "k": rng.poisson(np.exp(0.3 * a.clip(-3, 3))).astype(float)}
    table |= {"d": rng.random(N) < 1 / (1 + np.exp(-a)), "g": rng.choice(list("uvw"), N)}
    return pd.DataFrame(table | {"firm": rng.choice(LEVELS, N), "who": rng.integers(0, 400, N)})


TABLE = made()

#: What is asked, with the columns that it is asked of.
NUMBERS = ["a", "b", "y"]
MOMENTS = {
    "numbers": (NUMBERS, {}),
    "factors": (["a", "g", "y"], {}),
    "units": (NUMBERS, {"unit": UNIT}),
    "groups": (NUMBERS, {"by": GROUPS}),
    "groups of units": (NUMBERS, {"by": GROUPS, "unit": UNIT}),
}
RELEASES = {
    "adaptive rounds": (NUMBERS, {}),
    "adaptive rounds, factor": (["a", "g", "y"], {}),
    "towards a target": (NUMBERS, {"mechanism": pg.AdaptiveGaussian(target="y")}),
    "one round": (NUMBERS, {"mechanism": pg.AnalyzeGauss()}),
    "units": (NUMBERS, {"unit": UNIT}),
    "private bound": (NUMBERS, {"bound": pg.PrivateBound(0.5)}),
}
FITS = {
    "least squares": ("y ~ a + b", {}),
    "least squares, factor": ("y ~ a + g", {}),
    "Huber": ("y ~ a + b", {"loss": "huber"}),
    "logistic": ("d ~ a + b", {"family": "binomial"}),
    "Poisson": ("k ~ a + b", {"family": "poisson"}),
    "absorbed": ("y ~ a + b | firm", {}),
    "units": ("y ~ a + b", {"unit": UNIT}),
}
KINDS = {"moment": MOMENTS, "release": RELEASES, "fit": FITS}
DOORS = [(kind, name) for kind in KINDS for name in KINDS[kind]]


def asked(kind, name, source, adjacency, **more):
    """What a door answers, by one seed."""
    missing = "drop" if adjacency == "add-remove" else "error"
    given = {"epsilon": 9.0, "delta": 1e-6, "adjacency": adjacency}
    given |= {"rng": np.random.default_rng(7)} | more
    if kind == "fit":
        formula, options = FITS[name]
        return pg.regress(source, formula, VARIABLES, **given, **options)
    names, options = KINDS[kind][name]
    columns = pg.Columns({name: BOUNDS[name] for name in names}, intercept=True, missing=missing)
    if kind == "moment":
        return pg.second_moment(source, columns=columns, **options, **more)
    return pg.release(source, columns, **given, **options)


def told(answer):
    """Its numbers, and all else that it shows."""
    if isinstance(answer, pg.Release):
        parameters = answer.parameters | {"bound_id": None}  # which each choice of a bound has anew
        shown = answer.noise, answer.privacy, answer.mechanism, parameters
        return answer.matrix.tobytes(), repr(answer), *shown
    if hasattr(answer, "params"):
        numbers = answer.params, answer.bse, answer.conf_int(estimand="sample")
        return *(np.asarray(x).tobytes() for x in numbers), str(answer.summary()), answer.privacy
    moments = answer.values() if hasattr(answer, "values") else [answer]
    return [[limb.tolist() for limb in moment.int128()] for moment in moments]


def parquet(frame, folder, size):
    pq.write_table(pa.Table.from_pandas(frame), folder / "t.parquet", row_group_size=size)
    return folder / "t.parquet"


def dask(frame, folder, size):
    frames = pytest.importorskip("dask.dataframe")
    return frames.from_pandas(frame, npartitions=max(2, N // size))


def csv(frame, folder, _):
    frame.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def elsewhere(frame, *_):
    """Numbers on a device that NumPy cannot read."""
    xp = pytest.importorskip("array_api_strict")
    numbers = frame.select_dtypes("number")
    return {
        name: xp.asarray(numbers[name].to_numpy(), device=xp.Device("device1")) for name in numbers
    }


def duckdb(frame, *_):
    return pytest.importorskip("duckdb").from_arrow(pa.Table.from_pandas(frame))


FORMS = {
    "mapping": lambda frame, *_: {name: frame[name].to_numpy() for name in frame},
    "pandas": lambda frame, *_: frame,
    "texts for units": lambda frame, *_: frame.assign(who=frame["who"].astype(str)),
    "polars": lambda frame, *_: pl.from_pandas(frame).lazy(),
    "Arrow": lambda frame, *_: pa.Table.from_pandas(frame),
    "Parquet": parquet,
    "CSV": csv,
    "DuckDB": duckdb,
    "device": elsewhere,
    "Dask": dask,
    "blocks": lambda frame, _, size: [frame[i : i + size] for i in range(0, len(frame), size)],
}


def with_holes(frame, column, rng):
    """Rows more, each of which misses a value, among those that are there."""
    holes = frame.iloc[rng.integers(0, N, 30)].copy()
    holes[column] = np.nan if column == "a" else None
    return pd.concat([frame, holes]).iloc[rng.permutation(N + 30)]


#: Asked of columns that are no numbers.
OF_TEXTS = {"groups", "groups of units", "logistic", "absorbed"}


def takes_clusters(kind, name):
    return kind == "release" or (kind == "moment" and name != "groups of units")


@settings(
    max_examples=72, database=None, derandomize=True,
    suppress_health_check=list(HealthCheck), phases=[Phase.generate],
)  # fmt: skip
@given(
    door=st.sampled_from(DOORS),
    form=st.sampled_from(sorted(FORMS)),
    order=st.integers(0, 2**32),
    size=st.integers(60, N),
    threads=st.sampled_from([None, 1, 3]),
    missing=st.sampled_from([None, "a", "g"]),
    suffix=st.sampled_from([".json", ".npz"]),
    room=st.sampled_from([(1 << 30, 1 << 12), (1 << 14, 5)]),
)
def test_form_of_a_table_changes_no_bit(door, form, order, size, threads, missing, suffix, room):
    assume(form != "Dask" or takes_clusters(*door))
    assume(missing != "g" or "factor" in door[1])
    texts = "factor" in door[1] or door[1] in OF_TEXTS or (door[0] == "fit" and missing)
    assume(form != "device" or not texts)  # where values are missing, a fit reads all columns
    adjacency, rng = "add-remove" if missing else "replace", np.random.default_rng(order)
    frame = TABLE.iloc[rng.permutation(N)]
    frame = with_holes(frame, missing, rng) if missing else frame
    expected = told(asked(*door, TABLE, adjacency))
    more = {"threads": threads} if threads and form != "Dask" and door[0] != "fit" else {}
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.multiple(units, MEMORY_BUDGET=room[0], KERNEL_ROWS=room[1]),
    ):
        folder = Path(name)
        found = asked(*door, FORMS[form](frame, folder, size), adjacency, **more)
        assert told(found) == expected
        if door[0] != "moment":
            found.save(folder / f"out{suffix}")
            assert told(pg.load(folder / f"out{suffix}")) == expected
