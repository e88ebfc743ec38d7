"""Whatever goes wrong, nobody reads the data in what privgram says or leaves lying about.

Tables hold sentinels, numbers and strings that occur nowhere else. Every failure is looked at as
a log would show it: message, notes, printed traceback, warnings, output, files.
"""

import contextlib
import io
import logging
import re
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import privgram as pg
from privgram.papers import hardt_roth as low_rank
from privgram.papers.zhou_ligett_wasserman import compress

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.slow

NUMBER = 7318.640529
TEXT = "Gertrude7318640529"
#: The sentinels, however they are formatted or squared.
LEAK = re.compile(r"7318[.,]?6405|7\.3186405|5356249[79]|5\.356249|Gertrude", re.IGNORECASE)


def table(rows=300, d=3):
    values = np.random.default_rng(0).uniform(-1, 1, (rows, d))
    values[:, 0] = NUMBER
    return values


def with_entry(entry):
    values = table()
    values[137, 1] = entry
    return values


def with_object(thing):
    values = table().astype(object)
    values[137, 1] = thing
    return values


def frame(thing):
    return pd.DataFrame({"a": table()[:, 0], "b": [thing, *table()[1:, 1]], "c": 1.0})


def ragged():
    return [[NUMBER, 1.0, 2.0], [NUMBER, 1.0]]


class Refuses:
    """A number that says itself when it cannot be converted."""

    def __float__(self):
        raise ValueError(f"could not convert {TEXT}")


# Tables in memory that cannot be used, as functions.
FAULTS = {
    "NaN": lambda: with_entry(np.nan),
    "infinity": lambda: with_entry(np.inf),
    "text in an array": lambda: with_object(TEXT),
    "an array of text": lambda: np.full((4, 3), TEXT),
    "None in an array": lambda: with_object(None),
    "an object that refuses": lambda: with_object(Refuses()),
    "an integer too large": lambda: with_object(10**400 + 7318640529),
    "bytes": lambda: np.full((4, 3), TEXT.encode()),
    "complex": lambda: table() + 1j,
    "dates": lambda: np.full((4, 3), "7318-12-01", "M8[D]"),
    "one dimension": lambda: table()[:, 0],
    "three dimensions": lambda: table()[None],
    "ragged": ragged,
    "ragged text": lambda: [[TEXT, TEXT], [TEXT]],
    "rows of text": lambda: [[TEXT, "1", "2"]] * 3,
    "masked": lambda: np.ma.masked_greater(table(), 1.0),
    "structured": lambda: np.array([(NUMBER, TEXT)], dtype=[("a", float), ("b", "U20")]),
    "text in a frame": lambda: frame(TEXT),
    "a date in a frame": lambda: frame(pd.Timestamp("2031-07-31")),
    "NA in a frame": lambda: frame(np.nan),
    "categories": lambda: pd.DataFrame({"a": pd.Categorical([TEXT] * 4)}),
    "strings of pandas": lambda: pd.DataFrame({"a": pd.array([TEXT] * 4, dtype="string")}),
    "text in a mapping": lambda: {"a": [NUMBER, 1.0], "b": [TEXT, TEXT]},
    "uneven mapping": lambda: {"a": [NUMBER, 1.0], "b": [NUMBER]},
    "text in Arrow": lambda: pa.table({"a": [NUMBER, 1.0], "b": [TEXT, TEXT]}),
    "null in Arrow": lambda: pa.table({"a": [NUMBER, None], "b": [NUMBER, 1.0]}),
    "dictionary of Arrow": lambda: pa.table({"a": pa.array([TEXT] * 3).dictionary_encode()}),
    "blocks of two widths": lambda: [table(), table(d=2)],
    "a block of text": lambda: [table(), np.full((4, 3), TEXT)],
    "a block that is text": lambda: iter([table(), TEXT]),
    "a block with NaN": lambda: iter([table(), with_entry(np.nan)]),
    "a number": lambda: NUMBER,
    "a set": lambda: {NUMBER, TEXT},
}


def shown(error):
    """What a program prints of an exception."""
    return "\n".join([*traceback.format_exception(error), str(error), repr(error)])


def chained(error):
    """The exception, and those that a logging tool finds behind it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def calls(source):
    """Everything in the library that reads tables of this kind."""
    columns = pg.Columns({"a": (0, 1), "b": (0, 1)})
    described = {
        "texts": {"a": (0, 1), "b": ["f", "m"]},
        "whole numbers": {"a": pg.Factor([1, 2]), "b": (0, 1)},
        "dates": {"b": pg.Dates("1990-01-01", "2020-01-01"), "a": bool},
        "logarithm": {"a": pg.Log(1, 2), "b": bool},
    }

    def update():
        moment = pg.SecondMoment(3, bound=2.0)
        return moment.update(source())

    yield "second_moment", lambda: pg.second_moment(source(), bound=2.0)
    yield "second_moment, threads", lambda: pg.second_moment(source(), bound=2.0, threads=2)
    yield "columns", lambda: pg.second_moment(source(), columns=columns)
    for name, bounds in described.items():
        some = pg.Columns(bounds)
        yield name, lambda some=some: pg.second_moment(source(), columns=some)
        yield f"encode {name}", lambda some=some: some.encode(source())
    yield "names", lambda: pg.second_moment(source(), bound=2.0, columns=["a", "b"])
    yield "update", update
    bound = pg.PrivateBound(1.0)
    yield "chosen bound", lambda: pg.release(source(), bound=bound, epsilon=1.0, delta=1e-6)
    yield "compress", lambda: compress(source(), 3)
    yield ("approximate", lambda: low_rank.approximate(source(), 2, epsilon=1.0, delta=1e-6))


@contextlib.contextmanager
def quiet():
    """Everything that is printed, warned or logged, in the end as one string."""
    said, log = io.StringIO(), logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(log)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            result = []
            yield result
    finally:
        logging.getLogger().removeHandler(log)
    result.append(said.getvalue() + log.stream.getvalue() + "".join(str(w.message) for w in caught))


@pytest.mark.parametrize("fault", FAULTS)
def test_no_failure_shows_a_value(fault):
    failed = 0
    for name, call in calls(FAULTS[fault]):
        with quiet() as said:
            try:
                call()
            except (ValueError, TypeError, OSError, ImportError) as error:
                failed += 1
                text = shown(error)
                behind = [str(e) for e in chained(error)]
            else:
                text, behind = "", []
        assert not LEAK.search(text), (name, text)
        assert not any(map(LEAK.search, behind)), (name, behind)
        assert not LEAK.search(said[0]), (name, said)
    assert failed


def test_search_finds_sentinels():
    for text in (f"{NUMBER}", f"{NUMBER:.3g}", f"{NUMBER:.8e}", repr(np.float64(NUMBER)), TEXT):
        assert LEAK.search(text) or text == "7.32e+03"
    assert LEAK.search(str(NUMBER**2))
    assert LEAK.search(str(pa.array([NUMBER])))


# --- Estimators ---------------------------------------------------------------------------


def test_no_estimator_shows_a_value():
    estimators = pytest.importorskip("privgram.estimators")
    failed = 0
    for fault, source in FAULTS.items():
        for X, y in ((source, lambda: np.ones(300)), (table, source)):
            model = estimators.PrivateRidge(epsilon=1.0, delta=1e-6)
            with quiet() as said:
                try:
                    model.fit(X(), y())
                except (ValueError, TypeError, OSError, OverflowError) as error:
                    failed += 1
                    text = shown(error)
                else:
                    text = repr(model)
            assert not LEAK.search(text + said[0]), (fault, text, said)
    assert failed > 25


def csv(header, *rows):
    good = [f"{NUMBER},0.5,0.25"] * 50
    return "\n".join([header, *good, *rows, *good]) + "\n"


def write_csv(text):
    return lambda path: path.with_suffix(".csv").write_text(text)


def write_parquet(columns):
    def write(path):
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path.with_suffix(".parquet"))

    return write


def damaged_parquet(path):
    write_parquet({"a": [NUMBER] * 500, "b": [TEXT] * 500, "c": [1.0] * 500})(path)
    path = path.with_suffix(".parquet")
    data = bytearray(path.read_bytes())
    data[4:60] = TEXT.encode() * 3 + b"xx"
    path.write_bytes(data)


def truncated_npy(path):
    np.save(path.with_suffix(".npy"), table())
    data = path.with_suffix(".npy").read_bytes()
    path.with_suffix(".npy").write_bytes(data[: len(data) // 2])


FILES = {
    "a cell of text": write_csv(csv("a,b,c", f"{NUMBER},{TEXT},1")),
    "a cell of half a number": write_csv(csv("a,b,c", f"{NUMBER},7318.6405x,1")),
    "a cell too many": write_csv(csv("a,b,c", f"{NUMBER},{NUMBER},1,{TEXT}")),
    "a cell too few": write_csv(csv("a,b,c", f"{NUMBER},{TEXT}")),
    "a quote that does not end": write_csv(csv("a,b,c", f'{NUMBER},"{TEXT},1')),
    "an empty cell": write_csv(csv("a,b,c", f"{NUMBER},,1")),
    "a number too large": write_csv(csv("a,b,c", f"{NUMBER}e999,{TEXT},1")),
    "no header": write_csv(csv(f"{NUMBER},0.5,0.25")),
    "no header, with text": write_csv(csv(f"{TEXT},{NUMBER},0.25")),
    "not UTF-8": lambda path: path.with_suffix(".csv").write_bytes(
        b"a,b,c\n" + f"{NUMBER},1,".encode() + b"\xff\xfe" + TEXT.encode() + b"\n"
    ),
    "text in Parquet": write_parquet({"a": [NUMBER], "b": [TEXT], "c": [1.0]}),
    "null in Parquet": write_parquet({"a": [NUMBER, None], "b": [1.0, NUMBER], "c": [1.0, 1.0]}),
    "damaged Parquet": damaged_parquet,
    "NaN in npy": lambda path: np.save(path.with_suffix(".npy"), with_entry(np.nan)),
    "text in npy": lambda path: np.save(path.with_suffix(".npy"), np.full((4, 3), TEXT)),
    "objects in npy": lambda path: np.save(
        path.with_suffix(".npy"), with_object(TEXT), allow_pickle=True
    ),
    "truncated npy": truncated_npy,
}
OUT = ["--epsilon", "1", "--out", "gram.json", "--force"]
COMMANDS = {
    "release": ["release", "study.toml", *OUT],
    "one round": ["release", "study.toml", *OUT, "--mechanism", "analyze-gauss"],
    "regress": ["regress", "study.toml", "a ~ b", *OUT],
    "check": ["check", "study.toml"],
    "threads": ["release", "threads.toml", *OUT],
}


def privgram(*arguments):
    """Run a command in this process: status, and all it said."""
    from privgram.cli._program import program

    with quiet() as said:
        try:
            program.main(list(map(str, arguments)), prog_name="privgram")
            status = 0
        except SystemExit as done:
            status = done.code
        except Exception as error:  # PRIVGRAM_TRACEBACK
            status, text = 2, shown(error)
            print(text)
    return status, said[0]


@pytest.mark.parametrize("loud", [False, True], ids=["line", "traceback"])
@pytest.mark.parametrize("fault", FILES)
def test_no_command_shows_a_value(fault, loud, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if loud:
        monkeypatch.setenv("PRIVGRAM_TRACEBACK", "1")
    pg.Columns(dict.fromkeys("abc", (-1, 1))).save("columns.toml")
    FILES[fault](Path("table"))
    source = next(Path().glob("table.*"))
    for name, more in (("study", ""), ("threads", "threads = 2\n")):
        Path(f"{name}.toml").write_text(
            f'table = "{source}"\nledger = "study.ledger"\nepsilon = 100.0\ndelta = 1e-3\n'
            f'{more}columns = "columns.toml"\n'
        )
    pg.Study.load("study.toml")
    inputs = {path.name for path in tmp_path.iterdir()}
    failed = 0
    for name, options in COMMANDS.items():
        status, said = privgram(*options)
        failed += status == 2
        assert not LEAK.search(said), (name, said)
        left = {path.name for path in tmp_path.iterdir()} - inputs
        assert left <= {"gram.json"}, name
        for path in (Path("study.ledger"), Path("gram.json")):
            assert not path.exists() or not LEAK.search(path.read_text())
    assert failed


def test_moments_and_progress_show_no_value():
    with quiet() as said:
        moment = pg.second_moment(table(), bound=NUMBER * 2, progress=True)
        text = repr(pg.SecondMoment(3, bound=2.0).update(table())) + repr(moment.copy())
    assert "300 rows" in said[0]
    assert not LEAK.search(said[0] + text.replace(repr(moment.bound), ""))
    for name in vars(moment).values():  # what a debugger's locals would show
        assert not LEAK.search(repr(name).replace(repr(moment.bound), ""))


def test_users_own_exception_is_handed_on_as_it_is():
    """Its text is the user's; none of ours is added to it."""

    class Broken(Exception):
        pass

    own = Broken("lost the connection")

    def blocks():
        yield table()
        raise own

    for threads in (1, 2):
        with pytest.raises(Broken) as caught:
            pg.second_moment(blocks(), bound=2.0, threads=threads)
        assert caught.value is own
        assert not LEAK.search(shown(own))
