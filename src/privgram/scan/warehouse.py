"""Tables in a warehouse: its engine adds up the rows by one query, and they never leave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from privgram._base.log import log
from privgram.columns import Columns
from privgram.columns.sql import DIALECTS, Dialect, dialect_of
from privgram.moment import SecondMoment
from privgram.scan.request import ScanRequest

#: Dialects of drivers, by the modules that their connections come from.
DRIVERS = {
    "duckdb": "duckdb",
    "psycopg": "postgres",
    "psycopg2": "postgres",
    "pg8000": "postgres",
    "pyspark": "spark",
}

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
        Of DuckDB, a PostgreSQL driver that follows DB-API, or a Spark session; of no transaction
        that an error must not end.
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
            driver = self._driver
            if driver not in DRIVERS:
                raise ValueError(
                    "the dialect of this connection is not known: say dialect=..., one of "
                    f"{', '.join(DIALECTS)}. Of other engines, SQLite among them, pass the rows: "
                    "what pandas.read_sql makes of the query"
                )
            object.__setattr__(self, "dialect", DRIVERS[driver])
        dialect_of(self.dialect)

    @property
    def _driver(self) -> str:
        """The package that the connection comes from."""
        return type(self.connection).__module__.lstrip("_").partition(".")[0]

    @property
    def engine(self) -> Dialect:
        """How the engine writes SQL."""
        return dialect_of(self.dialect)

    def rows(self, text: str) -> list[Any]:
        """Return what the engine answers to a query, its `text`: SECRET."""
        if self.dialect == "spark" and hasattr(self.connection, "createDataFrame"):
            return [tuple(row) for row in self.connection.sql(text).collect()]
        if self._driver == "duckdb":
            # A cursor would not see what was registered with the connection.
            return list(self.connection.execute(text).fetchall())
        cursor = self.connection.cursor()
        try:
            cursor.execute(text)
            return list(cursor.fetchall())
        finally:
            cursor.close()


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
    text = _text(request, columns)
    return SecondMoment.from_sql(_answer(query, text), columns, unit=request.unit)


def _text(request: ScanRequest, columns: Columns) -> str:
    """The query of the sums, once it was run on no rows: what cannot be run says so by no data."""
    query: Query = request.source
    select = query.sql.strip().rstrip(";")
    sums = columns.query(request.unit)
    text = sums.text(f"(\n{select}\n) AS t", query.engine)
    empty = sums.text(f"(SELECT * FROM (\n{select}\n) AS t WHERE 1 = 0) AS t", query.engine)
    try:
        query.rows(empty)
        return text
    except Exception as error:
        problem = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    # Outside the handler, or the engine's error would stay behind it.
    raise ValueError(
        "the engine cannot add up these columns; they must be there and hold what is described, "
        f"numbers, texts or truth values ({problem[:LONGEST_ERROR]})"
    )


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
