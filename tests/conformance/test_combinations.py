"""What can be asked of what: every cell of docs/project/combinations.txt, answered or refused.

`python tests/conformance/test_combinations.py` writes the tables of the page. A refusal is one
sentence of the page and spends nothing, and a file is whole or not there.
"""

import contextlib
import re
import tempfile
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import privgram as pg

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
xp = pytest.importorskip("array_api_strict")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator  # noqa: E402

from privgram.estimators import PrivateClassifier, PrivateRidge  # noqa: E402

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "project" / "combinations.txt"

N = 2000
BUDGET = {"epsilon": 4.0, "delta": 1e-6}
VARIABLES = {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)}
COLUMNS = pg.Columns(VARIABLES, intercept=True)
UNIT = pg.Unit("who", max_rows=2)
GROUPS = pg.Groups("g", [0, 1])
FEATURES = pg.RandomFeatures(n=20, scale=1.0)
BOXES = {"columns": (-1, 1)}


@cache
def table():
    """Rows of two numbers and whether they are large, persons of two rows, and two groups."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, N))
    y = (a - 0.5 * b + rng.normal(0, 0.5, N) > 0).astype(float)
    return {"a": a, "b": b, "y": y, "who": np.arange(N) // 2, "g": (a > 0).astype(int)}


def frame():
    return pd.DataFrame(table())


def rows():
    return np.column_stack([table()[name] for name in VARIABLES])


@cache
def connection():
    connected = duckdb.connect()
    connected.register("rows", frame())
    connected.execute("create table people as select * from rows")
    return connected


def parquet(folder):
    frame().to_parquet(folder / "table.parquet")
    return folder / "table.parquet"


def answer(unit=None):
    """A second moment that DuckDB added up."""
    query = COLUMNS.sql("people", "duckdb", unit=unit)
    return pg.SecondMoment.from_sql(connection().execute(query).fetchall(), COLUMNS, unit=unit)


#: Tables, each made anew in a folder, by what they have in common.
SOURCES = {
    "tables with names": {
        "mapping": lambda _: table(),
        "pandas": lambda _: frame(),
        "polars": lambda _: pl.DataFrame(table()).lazy(),
        "Arrow": lambda _: pa.table(table()),
        "Parquet": parquet,
        "DuckDB": lambda _: connection().sql("select * from people"),
        "list": lambda _: [frame()[:900], frame()[900:]],
    },
    "mappings of arrays elsewhere": {
        "array API": lambda _: {k: xp.asarray(v) for k, v in table().items()}
    },
    "arrays without names": {"NumPy": lambda _: rows(), "array API": lambda _: xp.asarray(rows())},
    "what is read once": {
        "iterator": lambda _: iter([frame()[:900], frame()[900:]]),
        "Arrow reader": lambda _: pa.table(table()).to_reader(),
    },
    "`pg.Query`": {"DuckDB": lambda _: pg.Query(connection(), "select * from people")},
    "second moments": {
        "of a pass": lambda _: pg.second_moment(frame(), columns=COLUMNS),
        "of SQL": lambda _: answer(),
    },
    "second moments of units": {
        "of a pass": lambda _: pg.second_moment(frame(), columns=COLUMNS, unit=UNIT),
        "of SQL": lambda _: answer(UNIT),
    },
}


def release(source, ledger, out, **options):
    given = {} if isinstance(source, pg.SecondMoment) else {"columns": COLUMNS}
    rng = np.random.default_rng(1)
    return pg.release(source, **given, **BUDGET | options, ledger=ledger, out=out, rng=rng)


def regress(source, ledger, out, formula="y ~ a + b", **options):
    rng = np.random.default_rng(1)
    return pg.regress(
        source, formula, VARIABLES, **BUDGET | options, ledger=ledger, out=out, rng=rng
    )


def stream(source, ledger, out, unit=None, columns=VARIABLES):
    """A period of a stream, whose ledger has its price from the beginning."""
    study = pg.Study(frame(), columns, epsilon=8.0, delta=1e-5, unit=unit)
    begun = pg.Stream(study, 2, **BUDGET, path=out.with_suffix(".stream"))
    try:
        return begun.release(source, out=out)
    except Exception:
        assert begun.periods == 0
        assert len(study.ledger.entries) == 1
        raise


#: What is asked of a table.
DOORS = {
    "one round": partial(release, mechanism=pg.AnalyzeGauss()),
    "adaptive rounds": partial(release, mechanism=pg.AdaptiveGaussian()),
    "pure noise": partial(release, mechanism=pg.MatrixLaplace(), delta=0.0),
    "Wishart noise": partial(release, mechanism=pg.AdditiveWishart()),
    "units": partial(release, unit=UNIT),
    "adaptive rounds of units": partial(release, unit=UNIT, mechanism=pg.AdaptiveGaussian()),
    "groups": partial(release, by=GROUPS),
    "groups of units": partial(release, by=GROUPS, unit=UNIT),
    "private bound": partial(release, bound=pg.PrivateBound(0.5)),
    "regression": regress,
    "logistic regression": partial(regress, family="binomial"),
    "regression of units": partial(regress, unit=UNIT),
    "stream": stream,
    "stream of units": partial(stream, unit=UNIT),
}


def refused(error):
    """The words of a refusal, which is no other error."""
    assert isinstance(error, (ValueError, TypeError)), repr(error)
    where = error.__traceback__
    while where.tb_next is not None:
        where = where.tb_next
    assert "privgram" in where.tb_frame.f_code.co_filename, repr(error)  # not from the inside
    return general(str(error))


def general(words):
    """A sentence without the numbers and the type that it was said of."""
    words = re.sub(r"\b(epsilon|delta)=[0-9][0-9.e-]*(?<!\.)", r"\1=...", " ".join(words.split()))
    return re.sub(r"\bnot \w+$", "not ...", words)


@contextlib.contextmanager
def in_folder():
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield Path(name)


def asked(source, door, composition="gaussian", epsilon=8.0, delta=1e-5):
    """None where a door answers, or the words of its refusal, which spends and leaves nothing."""
    with in_folder() as folder:
        made = source(folder)
        ledger = pg.Ledger(folder / "study.ledger", epsilon, delta, composition=composition)
        out = folder / "out.json"
        before = ledger.path.read_bytes()
        try:
            found = door(made, ledger, out)
        except Exception as error:
            assert ledger.path.read_bytes() == before
            assert not out.exists()
            return refused(error)
        assert getattr(found, "refusal", None) is None, found.refusal
        if not isinstance(found, BaseEstimator):
            pg.load(out)
        return None


LEARNERS = {
    "least squares": partial(PrivateRidge, 0.0, **BOXES),
    "ridge": partial(PrivateRidge, **BOXES),
    "ridge, random features": partial(PrivateRidge, **BOXES, features=FEATURES),
    "classifier": partial(PrivateClassifier, bound=1.5, classes=[0, 1]),
    "classifier, random features": partial(
        PrivateClassifier, bound=1.5, classes=[0, 1], features=FEATURES
    ),
}

#: What is learnt from, with the target.
LEARNT_FROM = {
    "frames, arrays": {
        "pandas": lambda _: (frame()[["a", "b"]], frame()["y"]),
        "polars": lambda _: (pl.DataFrame(table()).select("a", "b"), table()["y"]),
        "Arrow": lambda _: (pa.table(table()).select(["a", "b"]), table()["y"]),
        "NumPy": lambda _: (rows()[:, :2], rows()[:, 2]),
        "array API": lambda _: (xp.asarray(rows()[:, :2]), xp.asarray(rows()[:, 2])),
    },
    "mappings": {"NumPy": lambda _: (table(), table()["y"])},
    "paths": {"Parquet": lambda folder: (parquet(folder), table()["y"])},
    "iterators": {"frames": lambda _: (iter([frame()]), table()["y"])},
    "lazy frames": {"polars": lambda _: (pl.DataFrame(table()).lazy(), table()["y"])},
    "`pg.Query`": {
        "DuckDB": lambda _: (pg.Query(connection(), "select a, b from people"), table()["y"])
    },
    "second moments": {
        "of a pass": lambda _: (pg.second_moment(frame(), columns=COLUMNS), table()["y"])
    },
}


def learn(source, ledger, _, learner):
    return learner(**BUDGET, random_state=0, ledger=ledger).fit(*source)


LEARNING = {name: partial(learn, learner=learner) for name, learner in LEARNERS.items()}


HALF = {"epsilon": 0.5}


def stated(_, ledger, out, delta):
    """What is entered by hand."""
    ledger.spend(1.0, delta, adjacency="replace", unit="", what="a table")
    return PrivateRidge()


ENTERED = {
    **{
        name: DOORS[name]
        for name in (
            "one round", "adaptive rounds", "pure noise", "Wishart noise", "units", "groups",
            "groups of units", "private bound", "regression", "logistic regression",
            "regression of units",
        )
    },
    **{name: lambda source, *a, f=f: f((rows()[:, :2], rows()[:, 2]), *a)
       for name, f in LEARNING.items()},
    "epsilon alone, by hand": partial(stated, delta=0.0),
    "epsilon and delta, by hand": partial(stated, delta=1e-7),
}  # fmt: skip

LEDGERS = {
    '"gaussian"': {},
    '"basic"': {"composition": "basic"},
    "of delta 0": {"composition": "basic", "delta": 0.0},
    "with too little left": {"epsilon": 0.01},
}


@cache
def results(seed=1):
    """What may leave, by its kind."""
    source, rng = frame(), lambda: np.random.default_rng(seed)
    noise = {"one round": pg.AnalyzeGauss(), "adaptive rounds": pg.AdaptiveGaussian(),
             "Wishart noise": pg.AdditiveWishart()}  # fmt: skip
    made = {
        name: pg.release(source, COLUMNS, **BUDGET, mechanism=mechanism, rng=rng())
        for name, mechanism in noise.items()
    }
    pure = {"mechanism": pg.MatrixLaplace(), "epsilon": 4.0, "delta": 0.0}
    made["pure noise"] = pg.release(source, COLUMNS, **pure, rng=rng())
    made["units"] = pg.release(source, COLUMNS, **BUDGET, unit=UNIT, rng=rng())
    with tempfile.TemporaryDirectory() as folder:
        study = pg.Study(source, VARIABLES, epsilon=8.0, delta=1e-5)
        begun = pg.Stream(study, 2, **BUDGET, path=Path(folder, "a.stream"))
        made["stream"] = begun.release(source[:1000])
        begun.release(source[1000:])
        made["window of a stream"] = begun.window()
    made["groups"] = pg.release(source, COLUMNS, **BUDGET, by=GROUPS, rng=rng())
    made["regression"] = pg.regress(source, "y ~ a + b", VARIABLES, **BUDGET, rng=rng())
    few, weak = source[:40], BUDGET | HALF
    made["refused regression"] = pg.regress(few, "y ~ a + b", VARIABLES, **weak, rng=rng())
    assert made["refused regression"].refusal is not None
    for name in RESULTS[len(made) :]:
        learner = LEARNERS[name](**BUDGET, random_state=seed)
        made[name] = learner.fit(rows()[:, :2], rows()[:, 2]).result_
    assert tuple(made) == RESULTS
    return made


#: Of these.
RESULTS = (
    "one round", "adaptive rounds", "Wishart noise", "pure noise", "units",
    "stream", "window of a stream", "groups", "regression", "refused regression",
    "ridge, random features", "classifier", "classifier, random features",
)  # fmt: skip


def saved(name, suffix):
    """What is loaded is what was saved: to the last bit, the noise and its price too."""
    result = results()[name]
    with in_folder() as folder:
        path, again = folder / f"out{suffix}", folder / "again.json"
        result.save(path)
        found = pg.load(path)
        assert type(found) is type(result)
        assert repr(found) == repr(result)
        if isinstance(result, pg.Release):
            np.testing.assert_array_equal(found.matrix, result.matrix)
            assert found.noise == result.noise
            assert found.privacy == result.privacy
        found.save(again)
        result.save(folder / "out.json")
        assert again.read_bytes() == (folder / "out.json").read_bytes()


USES = {
    "saved as .json": partial(saved, suffix=".json"),
    "saved as .npz": partial(saved, suffix=".npz"),
    "pooled with one round": lambda name: pg.pool([results()[name], results(2)["one round"]]),
    "pooled with another of its kind": lambda name: pg.pool([results()[name], results(2)[name]]),
    "pooled with itself": lambda name: pg.pool([results()[name]] * 2),
}


def used(name, use):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            use(name)
        except Exception as error:
            return refused(error)
    return None


#: Rows and columns of the page's tables.
PARTS = {
    "tables": (DOORS, SOURCES),
    "learning": (LEARNING, LEARNT_FROM),
    "ledgers": (ENTERED, LEDGERS),
    "results": (RESULTS, USES),
}


def outcomes(part, row, column):
    """What the sources of a cell say: None where they answer, else one sentence each."""
    if part == "results":
        return {used(row, USES[column])}
    if part == "ledgers":
        source = SOURCES["tables with names"]["pandas"]
        return {asked(source, ENTERED[row], **LEDGERS[column])}
    sources, doors = (SOURCES, DOORS) if part == "tables" else (LEARNT_FROM, LEARNING)
    return {asked(source, doors[row]) for source in sources[column].values()}


def on_page(text):
    """The cells of the page's tables, by part, row and column, as sets of outcomes."""
    words = dict(re.findall(r"^(\d+)\. (.*)$", text, re.M))
    cells, numbers = {}, set()
    for part in PARTS:
        lines = text.split(f"<!-- {part} -->")[1].split("<!-- end -->")[0].strip().splitlines()
        head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        for row, *found in body:
            for column, cell in zip(head[1:], found, strict=True):
                each = cell.split(", ")
                cells[part, row, column] = {None if one == "yes" else words[one] for one in each}
                numbers |= set(each)
    assert numbers - {"yes"} == set(words)
    return cells


@cache
def page():
    return on_page(PAGE.read_text(encoding="utf-8"))


def test_no_cell_is_unknown():
    assert set(page()) == {
        (part, row, column)
        for part, (rows, columns) in PARTS.items()
        for row in rows
        for column in columns
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "row"), [(part, row) for part, (rows, _) in PARTS.items() for row in rows]
)
def test_cell_is_as_the_page_says(part, row):
    for column in PARTS[part][1]:
        assert outcomes(part, row, column) == page()[part, row, column], column


def written(text):
    """The page with its tables and its list of refusals made anew."""
    numbers = {}
    for part, (rows, columns) in PARTS.items():
        lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
        for row in rows:
            cells = []
            for column in columns:
                said = sorted(outcomes(part, row, column), key=lambda words: words or "")
                each = ["yes" if one is None else str(numbers.setdefault(one, len(numbers) + 1))
                        for one in said]  # fmt: skip
                cells.append(", ".join(each))
            lines.append(f"| {row} | {' | '.join(cells)} |")
        old = text.split(f"<!-- {part} -->")[1].split("<!-- end -->")[0]
        text = text.replace(
            f"<!-- {part} -->{old}<!-- end -->",
            f"<!-- {part} -->\n" + "\n".join(lines) + "\n<!-- end -->",
        )
    listed = "".join(f"{number}. {words}\n" for words, number in numbers.items())
    return text.split("<!-- refusals -->")[0] + f"<!-- refusals -->\n{listed}<!-- end -->\n"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
