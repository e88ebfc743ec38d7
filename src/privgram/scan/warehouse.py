"""Tables in a warehouse: its engine adds up the rows by one query, and they never leave it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from privgram._base.log import log
from privgram._core.arrow import Stream
from privgram.columns import Columns
from privgram.columns.sql import DIALECTS, PROBE, Dialect, dialect_of
from privgram.columns.unit import Identifier
from privgram.columns.variables import Dates, Log, Number, Variable
from privgram.moment import SecondMoment
from privgram.scan.request import ScanRequest
from privgram.sources.arrow import check_letter, kind_of, type_name
from privgram.sources.table import is_a, positions

#: Dialects of drivers, by the modules that their connections come from.
DRIVERS = {
    "duckdb": "duckdb",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "pg8000": "postgres",
    "pyspark": "spark",
}

#: The same by what SQLAlchemy calls them.
OF_SQLALCHEMY = {"postgresql": "postgres", **{name: name for name in DIALECTS}}

#: Letters of the kinds of SQL's types, as `privgram.columns.encoding.kinds_of` has them.
_LETTERS = tuple(
    (letter, re.compile(pattern, re.IGNORECASE))
    for letter, pattern in (
        ("V", r".*\[\d*\]|(struct|map|array|list|union)\b.*"),
        ("b", "bool(ean)?"),
        ("i", "u?(tiny|small|big)?int(eger)?[248]?|byte|short|long"),
        ("f", "float[48]?|real|double( precision)?"),
        ("d", r"u?hugeint|(decimal|numeric)\b.*"),
        ("U", r"(var|bp)?char\b.*|text|string|name|uuid|jsonb?|enum\b.*"),
        ("M", "date|timestamp.*"),
        ("m", "time.*|.*interval.*"),
        ("", "null|void"),
    )
)

#: PostgreSQL's types by number, those that a column of a table may well have.
_OF_POSTGRES = {
    16: "boolean", 17: "bytea", 18: "char", 19: "name", 20: "bigint", 21: "smallint",
    23: "integer", 25: "text", 114: "json", 700: "real", 701: "double precision", 1042: "char",
    1043: "varchar", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz",
    1186: "interval", 1266: "timetz", 1700: "numeric", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip

AnswerT = TypeVar("AnswerT")

#: A column's name, the letter of its kind, None where that is not known, and its type.
Held: TypeAlias = tuple[str, str | None, str]

#: Characters of what an engine says of a query that it cannot run.
LONGEST_ERROR = 200


@dataclass(frozen=True, eq=False)
class Query:
    """A table that a warehouse computes: for `Study`, `release` and `second_moment`.

    The engine runs one query around this one, `Columns.sql` shows which, and hands over sums. A
    release of them has one round, since rows are not read again, and takes public `Columns`.

    Parameters
    ----------
    connection
        Of DuckDB, a PostgreSQL driver that follows DB-API, a Spark session, or an engine or a
        connection of SQLAlchemy; of no transaction that an error must not end.
    sql : str
        A SELECT, such as ``"select age, wage from people where year = 2020"``, with the columns by
        their names.
    dialect : str, optional
        As of `Columns.sql`; by default the connection's.

    Raises
    ------
    TypeError
        If the query is no text.
    ValueError
        If the dialect is none, or must be said.

    Examples
    --------
    >>> import duckdb
    >>> import privgram as pg
    >>> table = pg.Query(duckdb.connect(), "select range / 1000 as x from range(1000)")
    >>> pg.second_moment(table, columns={"x": (0, 1)}).n_rows
    1000
    """

    connection: Any = field(repr=False)
    sql: str
    dialect: str | None = None

    #: Why a release of it has one round.
    one_round: ClassVar[str] = "the rows stay in their engine, which hands over sums alone"

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str) or not self.sql.strip():
            raise TypeError("a query is the text of a SELECT")
        if self.dialect is None:
            known = DRIVERS.get(self._driver)
            if self._of_sqlalchemy:
                known = OF_SQLALCHEMY.get(self.connection.dialect.name)
            if known is None:
                raise ValueError(
                    "the dialect of this connection is not known: say dialect=..., one of "
                    f"{', '.join(DIALECTS)}. Of other engines, SQLite among them, pass the rows: "
                    "what pandas.read_sql makes of the query"
                )
            object.__setattr__(self, "dialect", known)
        dialect_of(self.dialect)

    @property
    def _driver(self) -> str:
        return type(self.connection).__module__.lstrip("_").partition(".")[0]

    @property
    def _of_sqlalchemy(self) -> bool:
        return any(is_a(self.connection, "sqlalchemy", name) for name in ("Engine", "Connection"))

    @property
    def _in_spark(self) -> bool:
        return self.dialect == "spark" and hasattr(self.connection, "createDataFrame")

    @property
    def engine(self) -> Dialect:
        """How the engine writes SQL."""
        return dialect_of(self.dialect)

    def rows(self, text: str) -> list[Any]:
        """Return what the engine answers to a query, its `text`: SECRET."""
        if self._in_spark:
            return [tuple(row) for row in self.connection.sql(text).collect()]
        with self._run(text) as cursor:
            return list(cursor.fetchall())

    @contextmanager
    def _run(self, text: str) -> Iterator[Any]:
        """What has the answer to a query, until it is closed."""
        if self._driver == "duckdb":
            # A cursor would not see what was registered with the connection.
            yield self.connection.execute(text)
            return
        connection = self.connection
        if is_a(connection, "sqlalchemy", "Engine"):
            connection = connection.raw_connection()  # which goes back to the pool at the end
        elif self._of_sqlalchemy:
            connection = connection.connection
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(text)
                yield cursor
        finally:
            if is_a(self.connection, "sqlalchemy", "Engine"):
                connection.close()

    def held(self, select: str) -> list[Held] | None:
        """What the columns of a SELECT hold, which no row is read for; None where none can say."""
        if self._in_spark:
            return [
                (name, _letter(kind), kind) for name, kind in self.connection.sql(select).dtypes
            ]
        if self._driver == "duckdb":
            self.rows(f"SELECT * FROM (\n{select}\n) AS t LIMIT 0")  # ends what had begun before
            fields = Stream(self.connection.sql(select).limit(0)).field.children
            return [(one.name, kind_of(one), type_name(one)) for one in fields]
        if self.dialect == "duckdb":
            return [
                (name, _letter(kind), kind) for name, kind, *_ in self.rows(f"DESCRIBE {select}")
            ]
        if self.dialect != "postgres":
            return None
        with self._run(f"SELECT * FROM (\n{select}\n) AS t WHERE 1 = 0") as cursor:
            kinds = [(column[0], _OF_POSTGRES.get(column[1])) for column in cursor.description]
        return [(name, kind and _letter(kind), kind or "") for name, kind in kinds]


def _letter(kind: str) -> str:
    """NumPy's letter for a type of SQL's; "B" for what is no number, text, date or truth value."""
    return next((letter for letter, pattern in _LETTERS if pattern.fullmatch(kind)), "B")


def total(request: ScanRequest, new: object = None) -> SecondMoment:
    """Have the engine compute the second moment; as `privgram.scan.spark.total`."""
    query, columns = request.source, request.scaling
    if new is not None:
        raise ValueError(f"this reads rows, and {Query.one_round}: pass the rows themselves")
    if columns is None:
        raise ValueError("the sums of a query are of public bounds: pass columns=pg.Columns(...)")
    if request.groups is not None:
        raise ValueError("a query has no groups: make a Query of each, and a release of each")
    if request.bound not in (None, columns.bound):
        raise ValueError("the bound of a query's rows is that of its columns: leave out bound")
    text = _text(request, columns, columns.query(request.unit).text)
    return SecondMoment.from_sql(_answer(query, text), columns, unit=request.unit)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Rows of a query by cell. SECRET: each is in one of them, or in none."""

    counts: NDArray[np.int64]
    n_rows: int
    n_dropped: int


def count_cells(
    request: ScanRequest,
    column: str,
    by: tuple[str, ...],
    place: int | Sequence[float],
    each: int,
    n_cells: int,
) -> CellCounts:
    """Have the engine count rows by step or bin of a column, in groups: `MomentQuery.cells`."""
    columns = request.scaling
    assert columns is not None
    write = partial(columns.query(None).cells, column, by, place, each)
    counts, lost = np.zeros(n_cells, np.int64), 0
    for cell, n, probe in _answer(request.source, _text(request, columns, write)):
        if int(probe) != PROBE or not -1 <= int(cell) < n_cells:
            raise ValueError("the engine does not round as doubles do: pass the rows themselves")
        if int(cell) < 0:
            lost += int(n)
        else:
            counts[int(cell)] += int(n)
    return CellCounts(counts, int(counts.sum()), lost)


def _text(request: ScanRequest, columns: Columns, write: Callable[..., str]) -> str:
    """The query of the sums, once it was run on no rows: what cannot be run says so by no data."""
    query: Query = request.source
    select = query.sql.strip().rstrip(";")
    held = _asked(lambda: query.held(select))
    kinds = {} if held is None else _check_kinds(held, request, columns)
    _, empty = texts = [
        write(f"({source}) AS t", query.engine, kinds)
        for source in (f"\n{select}\n", f"SELECT * FROM (\n{select}\n) AS t WHERE 1 = 0")
    ]
    _asked(lambda: query.rows(empty))
    return texts[0]


def _asked(ask: Callable[[], AnswerT]) -> AnswerT:
    try:
        return ask()
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    # Outside the handler, or the engine's error would stay behind it.
    raise ValueError(
        "the engine cannot add up these columns; they must be there and hold what is described, "
        f"numbers, texts or truth values ({problem[:LONGEST_ERROR]})"
    )


def _check_kinds(held: Sequence[Held], request: ScanRequest, columns: Columns) -> dict[str, str]:
    """Refuse columns as a pass over the rows does, and say what the others hold."""
    wanted: dict[str, Variable] = dict(columns.reads)
    if request.unit is not None:
        wanted[request.unit.name] = Identifier()
    kinds = {}
    for at in positions([name for name, *_ in held], list(wanted)):
        name, letter, kind = held[at]
        if letter is None:
            continue
        described = wanted[name]
        check_letter(
            letter, kind, name, wanted=None if type(described) in (Number, Log) else described
        )
        if letter == "U" and isinstance(described, Dates):
            raise ValueError(
                f"column {name!r} holds texts, whose dates an engine does not read as this program "
                "does: select them as dates"
            )
        kinds[name] = letter
    return kinds


def _answer(query: Query, text: str) -> list[Any]:
    """What the engine answers, whose errors may quote a value."""
    log.info("running the query of the sums")
    try:
        return query.rows(text)
    except Exception as error:
        name = type(error).__name__
    raise OSError(
        f"the engine failed while it added up the rows ({name}), and nothing was spent; run the "
        "query itself to see why, where its values may be seen"
    )
