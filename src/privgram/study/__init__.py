"""One table, one protected unit, one budget: said once, and spent on whatever is asked.

It asks the library for releases, and draws no noise itself.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram._base.numbers import check_positive, edge
from privgram._base.text import facts_html, listed, shown
from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.columns.terms import parse
from privgram.columns.unit import Guarantee, Unit
from privgram.drawing.release import release_for
from privgram.ledger import BudgetExceeded, Ledger, check_ledger
from privgram.mechanisms.refined import Clipping
from privgram.privacy import GaussianProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.regression import RefusedError
from privgram.regression.families import FamilyName, LossName
from privgram.study.answer import (
    Precision,
    needed,
    offered_at,
    precision,
    protected,
    release_and_fit,
)
from privgram.study.check import Check, look, read_study, rows_of

if TYPE_CHECKING:
    import numpy as np

    from privgram.ledger import Composition, Entry
    from privgram.mechanisms import Mechanism, Purpose
    from privgram.privacy import Adjacency
    from privgram.regression.scored import CovType

__all__ = ["Check", "Precision", "Study", "regress"]

#: What a table in memory is called.
UNNAMED = "table"


def table_name(table: Any) -> str:
    """What a table is called by default: the name of its file or folder, or "table"."""
    if isinstance(table, (list, tuple)) and table and isinstance(table[0], (str, os.PathLike)):
        table = Path(table[0]).absolute().parent
    if not isinstance(table, (str, os.PathLike)):
        return UNNAMED
    path = Path(table).absolute()
    while any(sign in path.name for sign in "*?["):  # of a pattern, its folder
        path = path.parent
    return path.name.partition(".")[0] or UNNAMED


def identity(name: str, columns: Iterable[str], unit: str | None) -> str:
    """Tell one study from another by what is public: names, and never what is in the table.

    Bounds and levels are left out: they may be mended, and the rows that are protected stay.
    """
    said = json.dumps([name, sorted(columns), unit])
    return f"{name} {hashlib.sha256(said.encode()).hexdigest()[:32]}"


def open_ledger(
    given: Any,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    table: str,
    composition: Composition | None = None,
) -> tuple[Ledger, bool]:
    """The ledger that a study spends from, and whether it outlives this process.

    One that is there must have the same budget, and the table's name by `identity`.
    """
    if isinstance(given, Ledger):
        _ = given.entries  # the file is there, and lost none: one that is gone is not made anew
        given = given.path
    elif given is not None and not isinstance(given, (str, os.PathLike)):
        raise TypeError(f"ledger is a path or a pg.Ledger, not {type(given).__name__}")
    if given is not None:
        return Ledger(given, epsilon, delta, adjacency, composition, table=table), True
    folder = tempfile.mkdtemp(prefix="privgram-")
    atexit.register(_forget, folder, os.getpid())
    # A file all the same: forked children and pickled copies then spend the same budget.
    path = Path(folder) / "budget.ledger"
    return Ledger(path, epsilon, delta, adjacency, composition, table=table), False


def _forget(folder: str, owner: int) -> None:
    """Remove a budget at the end of the process that made it, and not of its children."""
    if os.getpid() == owner:
        with suppress(OSError):
            shutil.rmtree(folder)


class Study:
    """A table, its public columns, the unit that is protected, and a budget, said once.

    Whatever is asked of the study afterwards, several releases or regressions, is charged to the
    one budget before any noise is drawn, and refused beyond it.

    Parameters
    ----------
    table : table
        Whatever `privgram.release` reads: a path, a folder, a data frame, a query, a Dask or Spark
        table, an array, blocks. What can be read again gets the best estimates.
    columns : mapping, Columns or path-like
        What is publicly known of each column, as `Columns` takes it; or a TOML or JSON file of it.
    epsilon, delta : float
        The budget of all that the study will release, > 0 and in [0, 1). For a ledger that is
        there, the same as it was made with.
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    unit : str or Unit, optional
        Whose rows are protected together: a column that tells whose row a row is. By default rows
        are people.
    ledger : path-like or Ledger, optional
        File that keeps the budget. Without one the budget ends with this process: run again, the
        same lines spend it again.
    composition : {"pld", "basic"}, optional
        As of `Ledger`; "pld" for a new one.
    weights : str, optional
        Column that weights rows, a number with public bounds.
    missing : {"error", "drop"}, optional
        What a row with a missing value does, as of `Columns`.
    name : str, optional
        What the table is called; by default as its file or folder. With the names of the columns
        and the unit it tells one study from another: a ledger is of one study.
    threads : int, optional
        As in `second_moment`.

    Attributes
    ----------
    columns : Columns
    ledger : Ledger
    durable : bool
        Whether the ledger outlives this process.
    identity : str
        What the ledger calls the table: its name, with a digest of the columns' names and the
        unit's.
    adjacency, unit, name
        As given.

    Raises
    ------
    ValueError
        If the columns are not described, or the ledger has another budget, notion of neighbours,
        unit, or table. Nothing is read or spent then.
    TypeError
        If a parameter is not of its type.

    Notes
    -----
    Copies of a study, pickled or forked, share its budget, and threads may use it at once: a spend
    is entered under the lock of the ledger's file before its noise is drawn from a generator that
    is made for that release alone. A process that is killed has at most spent what nobody saw.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 50_000)
    >>> people = {"x": x, "y": 2 * x + rng.normal(0, 1, 50_000)}
    >>> study = pg.Study(people, {"x": (0, 10), "y": (-5, 30)}, epsilon=2.0, delta=1e-6)
    >>> fit = study.regress("y ~ x", epsilon=0.5, label="first")
    >>> [entry.label for entry in study.entries]
    ['first']
    """

    def __init__(
        self,
        table: Any,
        columns: Columns | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace",
        unit: Any = None,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        composition: Composition | None = None,
        weights: str | None = None,
        missing: str | None = None,
        name: str | None = None,
        threads: int | None = None,
    ) -> None:
        if hasattr(table, "sensitivity_bound"):
            raise TypeError(
                "a study reads a table, and a SecondMoment has no rows: release it by pg.release"
            )
        self.table = table
        self.columns = described(columns, weights, missing).settled(adjacency)
        self.adjacency: Adjacency = adjacency
        whose = Unit.of(unit)
        self.unit = None if whose is None else whose.settled(adjacency)
        self.name = table_name(table) if name is None else name
        self.threads = threads
        column = None if self.unit is None else self.unit.name
        if column in self.columns.selected:
            raise ValueError(
                f"{column!r} tells whose row a row is, and is no column to release: leave it out "
                "of the columns"
            )
        self._begun = False
        self.identity = identity(self.name, self.columns.variables, column)
        self.ledger, self.durable = open_ledger(
            ledger, epsilon, delta, adjacency, self.identity, composition
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Study:
        """Read a study from a TOML file, as `privgram init TABLE` writes it to be filled in.

        Parameters
        ----------
        path : path-like
            With the keys ``table``, ``ledger``, ``epsilon``, ``delta``, a table ``[columns]``, and,
            where they are wanted, ``adjacency``, ``unit`` and ``rows_per_unit``. Paths in it are
            relative to its folder.

        Raises
        ------
        ValueError
            If it is no such file, something is left to fill in, or as `Study`.
        OSError
            If it cannot be read.
        """
        table, asked = read_study(Path(path))
        return cls(table, **asked)

    def __repr__(self) -> str:
        unit = "rows" if self.unit is None else f"all rows of one {shown(self.unit.name)}"
        spent, _ = self.ledger.spent
        kept = (
            f"kept in {shown(self.ledger.path.name)}"
            if self.durable
            else "of this process alone: it ends with the process. ledger='NAME.ledger' keeps it"
        )
        return (
            f"Study of {shown(self.name)}: {listed(list(self.columns.variables))}\n"
            f"protected: {unit}, neighbours by {self.adjacency}\n"
            f"budget: epsilon={self.ledger.epsilon:g} at delta={self.ledger.delta:g}, of which "
            f"{spent:.4g} is spent in {len(self.entries)} entries; {kept}"
        )

    def _repr_html_(self) -> str:
        """The same as notebooks show it."""
        lines = (line.partition(": ")[::2] for line in repr(self).split("\n")[1:])
        facts = {"columns": listed(list(self.columns.variables))} | dict(lines)
        return facts_html(f"Study of {self.name}", facts)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was spent, in order: label, what, columns, epsilon, delta and when, of each."""
        return self.ledger.entries

    def remaining(self) -> float:
        """Largest epsilon that one more release or regression may have, at the usual delta.

        Returns
        -------
        float
            For the Gaussian noise of the default mechanisms, to a ten-thousandth of the budget, on
            the safe side; 0.0 where nothing is left.
        """
        ledger = self.ledger

        def fits(epsilon: float) -> bool:
            price = self._price(epsilon, None)
            mu = gaussian_ratio(epsilon, price.delta) if price.delta else None
            privacy = None if mu is None else GaussianProfile(mu)
            try:
                ledger.check(**price.price, privacy=privacy)
            except BudgetExceeded:
                return False
            return True

        least = 1e-4 * ledger.epsilon
        if not fits(least):
            return 0.0
        # Of sums the rest is known, but for the rounding of a difference.
        whole = ledger.epsilon
        if ledger.composition == "basic":
            whole -= ledger.spent[0]
        if whole >= least and fits(whole):
            return whole
        return edge(fits, least, ledger.epsilon, lambda a, b: abs(b - a) <= least)

    def release(
        self,
        epsilon: float | None = None,
        *,
        delta: float | None = None,
        label: str = "",
        out: str | os.PathLike[str] | None = None,
        terms: Iterable[str] | None = None,
        purpose: Purpose = "regression",
        mechanism: Mechanism | str | None = None,
        by: Any = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Release the second moment of the columns: any number of regressions, at one price.

        Parameters
        ----------
        epsilon : float
            What this release may cost of the budget.
        delta : float, optional
            By default the budget's, or with "basic" composition the same part of it as of epsilon.
        label : str, optional
            What the ledger calls it.
        out : path-like, optional
            File to save the release to, `.json` or `.npz`. That it can be written is made sure of
            before anything is spent.
        terms : iterable of str, optional
            What to release, as in `Columns`: ``["poly(age, 2)", "sex*region", "wage"]``. By
            default each column.
        purpose : {"regression", "components", "means"}
            What the mechanism is chosen for. The release's `way` says which was taken and why.
        mechanism : Mechanism or str, optional
            Instead of the choice.
        by : str or Groups, optional
            A factor among the columns, or groups of another column: a release for each of its
            levels, at one guarantee for all together.
        rng : numpy.random.Generator, optional
            For experiments only.

        Returns
        -------
        Release, or Releases of groups

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it. Nothing is spent then.
        ValueError, TypeError, OSError
            As `privgram.release`.
        """
        columns = self.columns
        if terms is not None:
            asked = [terms] if isinstance(terms, str) else list(terms)
            columns = columns.replace(terms=asked)
        price = self._price(epsilon, delta)
        request = self._request(label, columns.selected) | protected(self.unit, price)
        with self._telling():
            return release_for(
                purpose,
                self._source(columns),
                columns,
                mechanism=mechanism,
                by=by,
                out=out,
                rng=rng,
                **request,
            )

    def regress(
        self,
        formula: str,
        epsilon: float | None = None,
        *,
        delta: float | None = None,
        label: str = "",
        family: FamilyName = "gaussian",
        loss: LossName = "squared",
        cov_type: CovType | None = None,
        clipping: Clipping = "cautious",
        weights: str | None = None,
        reference: Mapping[str, Any] | None = None,
        mechanism: Mechanism | str | None = None,
        out: str | os.PathLike[str] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Fit one regression, mostly with less noise than a release of its columns has.

        Parameters
        ----------
        formula : str
            Such as ``"log(wage) ~ education + poly(experience, 2) + region"``; ``"y ~ x | firm"``
            takes effects of firms along, and ``"y ~ x | d ~ z"`` has the instrument z for d
            (extra `formula`).
        epsilon : float
            What this fit may cost of the budget.
        delta, label, mechanism, rng
            As of `release`.
        family : {"gaussian", "binomial", "poisson"}
            Least squares; logistic regression of a truth value, of 0 and 1 within bounds (0, 1), of
            a factor of two levels or of one level, "region[n]"; or regression of counts with the
            link log. Standard errors of the last two are robust too, as of statsmodels' GLM with
            ``cov_type="HC1"``.
        loss : {"squared", "huber"}
            "huber" bounds what a row says by public numbers, whatever it holds: errors count up to
            1.345 scales, and features far out weigh less. Nothing is clipped, so intervals have no
            doubt about rows that nobody saw. Where errors are symmetric the coefficients are those
            of least squares, elsewhere others. Of single rows, with an intercept.
        cov_type : {"nonrobust", "HC1", "cluster"}, optional
            What standard errors allow for, by statsmodels' names: errors of equal variance; of
            unequal variance, which is the default of single rows; or errors that go together in
            the study's unit, which is that of units. The last two are by scores: of rows that can
            be read again, and no mechanism.
        clipping : {"cautious", "assume-seen"}
            What standard errors assume of scores so long that noise hides them, and that were
            shortened: as many of them as a posterior over tails allows, or as are expected if the
            tail goes on from what is seen. With the latter intervals do not hold where a few rows
            carry a coefficient. Where there are scores; `Refined` has the same.
        weights : str, optional
            Column that weights rows of this regression, a number with public bounds that are not
            negative. Only of a study without weights of its own.
        reference : mapping of str to level, optional
            The level of a factor that is left out, where the formula does not say it; the first by
            default.
        out : path-like, optional
            File to save what was released to: the fit itself, if it is by scores.

        Returns
        -------
        ScoreFit, Fit or InstrumentalFit

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it. Nothing is spent then.
        ValueError, TypeError, OSError
            As `privgram.release`, or where the formula is not one of the columns.
        """
        columns = self._weighted(weights)
        used = needed(formula, columns)
        price = self._price(epsilon, delta)
        if family != "gaussian" and mechanism is not None:
            raise ValueError('mechanism is of family="gaussian": leave it out')
        request = self._request(label or formula, used.selected)
        asked: dict[str, Any] = {
            "family": family,
            "loss": loss,
            "cov_type": cov_type,
            "clipping": clipping,
            "reference": reference,
        }
        try:
            with self._telling():
                fit = release_and_fit(
                    self._source(used),
                    formula,
                    columns,
                    price,
                    mechanism=mechanism,
                    unit=self.unit,
                    out=out,
                    rng=rng,
                    **asked,
                    **request,
                )
        except RefusedError as error:
            if rng is not None:
                raise
            raise RefusedError(
                f"{error}. {self._advice(formula, columns, price, None, asked)}"
            ) from None
        if rng is None and getattr(fit, "refused", None):
            advice = self._advice(formula, columns, price, fit.n_rows, asked)
            fit = replace(fit, refused=f"{fit.refused}. {advice}")
        return fit

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Let what is over the budget say how much of it is left."""
        try:
            yield
        except BudgetExceeded as error:
            left = self.remaining()
            raise BudgetExceeded(f"{error}; epsilon={left:.4g} is left") from None

    def _source(self, used: Columns) -> Any:
        """The table; of an array, whose columns are those of the study, the used ones (a copy)."""
        import numpy as np

        table, names = self.table, self.columns.selected
        if not isinstance(table, np.ndarray) or table.dtype.names or table.ndim != 2:
            return table
        if table.shape[1] != len(names):
            raise ValueError(
                f"the study describes {len(names)} columns and the array has {table.shape[1]}: "
                "those of an array have no names, and are taken in the order of the description"
            )
        if used.selected == names:
            return table
        return table[:, [names.index(name) for name in used.selected]]

    def _weighted(self, weights: str | None) -> Columns:
        """The columns, with rows weighted for one answer."""
        own = self.columns.row_weights
        if weights is None or weights == own:
            return self.columns
        if own is not None:
            raise ValueError(
                f"the study weights its rows by {own!r}, and this regression asks for {weights!r}: "
                "make another study of the same ledger without weights, or leave them out here"
            )
        return described(self.columns, weights)

    def _advice(
        self,
        formula: str,
        columns: Columns,
        price: Guarantee,
        n_rows: float | None,
        asked: dict[str, Any],
    ) -> str:
        """What to ask instead of a fit that was refused, by public numbers."""
        least = None
        with suppress(ValueError):
            unit = self._planned_unit()
            if n_rows is None:
                n_rows = self._rows(formula, None)
            rows = max(round(n_rows), 1)
            least = offered_at(formula, columns, price, rows, unit, **asked)
        figure = "a larger epsilon" if least is None else f"epsilon = {least:g}"
        return (
            f"By the plan's guess it takes {figure}, or fewer terms, or more rows; what was spent "
            f"is spent, and {self.remaining():.4g} is left"
        )

    def plan(
        self,
        formula: str,
        want: Mapping[str, float] | None = None,
        *,
        epsilon: float | None = None,
        n_rows: int | None = None,
        design: Any = None,
        by: Any = None,
        family: FamilyName = "gaussian",
    ) -> Precision:
        """Say what a regression takes or gives, before anything is spent or read.

        Parameters
        ----------
        formula : str
            As of `regress`.
        want : mapping of str to float, optional
            Standard errors that are wanted, by coefficient, or by factor for all its levels. The
            plan's `epsilon` is then what they take.
        epsilon : float, optional
            Instead: the plan says what precision this gives. By default all that is left.
        n_rows : int, optional
            About how many rows there are. Where their number is public (adjacency "replace") it
            need not be said.
        design : Release, DataFrame or mapping, optional
            What the table is like, as in `privgram.plan`: an earlier release, a public table, or a
            guess of correlations, means and standard deviations.
        by : str or Groups, optional
            As of `release`: the regression in each group.
        family : {"gaussian", "binomial"}
            As of `regress`.

        Returns
        -------
        Precision
            Printed, it is one screen; as a number, its epsilon.

        Raises
        ------
        ValueError
            If the formula is not one of the columns, or a number of rows must be given.

        Notes
        -----
        Rows are made of the design, and fitted by what will fit the table, some times over: what is
        planned is the median of the standard errors that `regress` will state, and beside it those
        of a regression on a release of the same columns, of which there may be any number.
        """
        groups, _ = Groups.of(by, self.columns)
        unit = self._planned_unit()
        n_rows = self._rows(formula, n_rows)
        left = self.remaining()
        return precision(
            formula,
            self.columns,
            self._price(epsilon or left or 1.0, None),
            left=left,
            n_rows=n_rows,
            want=want,
            epsilon=epsilon,
            design=design,
            unit=unit,
            groups=groups,
            family=family,
            once=isinstance(self.table, Iterator),
        )

    def _planned_unit(self) -> Unit | None:
        """The unit, whose rows must be bounded by what is public."""
        unit = self.unit
        if unit is not None and unit.rows is None and not isinstance(unit.bound, float):
            raise ValueError(
                f"plan by the rows that a unit may have: unit=pg.Unit({unit.name!r}, rows=...)"
            )
        return unit

    def _rows(self, formula: str, n_rows: int | None) -> int:
        """The number of rows, if it is public or said."""
        if n_rows is not None:
            return n_rows
        if self.adjacency != "replace" or self.unit is not None:
            raise ValueError(
                "the number of rows is private where rows are added or removed, or a unit may have "
                "any number: say about how many there are by what is public, n_rows=..."
            )
        used = needed(formula, self.columns)
        return rows_of(self._source(used), used)

    def check(self) -> Check:
        """Look at the table beside its description: NOT PRIVATE, for its holder's eyes alone.

        Returns
        -------
        Check
            How many values are clamped, missing or not listed, which levels seem to have no rows,
            and how many rows a protected unit has. It spends nothing, and cannot be saved.

        Raises
        ------
        ValueError
            If the table can be read once only, or is on a cluster.
        """
        return look(self.table, self.columns, self.unit, self.name)

    def _price(self, epsilon: float | None, delta: float | None) -> Guarantee:
        """The guarantee of one answer."""
        if epsilon is None:
            raise TypeError(
                f"say how much of the budget this may cost: epsilon=..., of {self.remaining():.4g} "
                "that are left"
            )
        epsilon = check_positive(epsilon, "epsilon")
        if delta is None:
            delta = self.ledger.delta
            if self.ledger.composition == "basic":
                delta *= min(1.0, epsilon / self.ledger.epsilon)
        unit = None if self.unit is None else self.unit.protected
        return Guarantee(epsilon, delta, self.adjacency, unit)

    def _request(self, label: str, columns: Iterable[str]) -> dict[str, Any]:
        """What every answer is asked with."""
        ledger = self.ledger.entered_as(label, columns, self.identity)
        if isinstance(self.table, Iterator):
            if self._begun:
                raise ValueError(
                    "the table of this study can be read once, and an answer before may have read "
                    "it: make a study of a new iterator, with ledger=study.ledger"
                )
            self._begun = True
        return {"threads": self.threads, "ledger": ledger}


#: What is said of a table without columns.
DESCRIBE = (
    "describe the columns: what is publicly known of each, such as {'wage': pg.Log(50, 10_000), "
    "'age': (18, 90), 'region': ['north', 'south']}, pg.Columns, or a TOML file of them. "
    "`privgram init TABLE` writes such a file from the types, with the bounds left to fill in"
)


def described(columns: Any, weights: str | None = None, missing: str | None = None) -> Columns:
    """The description of a table's columns, or what to make one of, with a column of ones."""
    if columns is None:
        raise ValueError(DESCRIBE)
    if isinstance(columns, (str, os.PathLike)):
        columns = Columns.load(Path(columns))
    more: dict[str, Any] = {"intercept": True}
    if weights is not None:
        more["row_weights"] = weights
    if missing is not None:
        more["missing"] = missing
    if isinstance(columns, Columns):
        return columns.replace(**more)
    if not isinstance(columns, Mapping):
        raise TypeError(DESCRIBE)
    return Columns(columns, **more)


def regress(
    table: Any,
    formula: str,
    columns: Columns | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    adjacency: Adjacency = "replace",
    unit: Any = None,
    ledger: Ledger | None = None,
    family: FamilyName = "gaussian",
    label: str = "",
    **options: Any,
) -> Any:
    """Fit one regression of a table, at one price: a `Study` of one answer.

    Parameters
    ----------
    table, columns, adjacency, unit
        As of `Study`.
    formula, family, label
        As of `Study.regress`, which takes the `options`.
    epsilon, delta : float
        The guarantee.
    ledger : Ledger, optional
        Budget to enter the fit in, durably, before its noise is drawn.

    Returns
    -------
    ScoreFit, Fit or InstrumentalFit

    Raises
    ------
    ValueError, TypeError, OSError
        As `Study.regress`.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(0, 10, 50_000)
    >>> people = {"x": x, "y": 2 * x + rng.normal(0, 1, 50_000)}
    >>> fit = pg.regress(people, "y ~ x", {"x": (0, 10), "y": (-5, 30)}, epsilon=1.0, delta=1e-6)
    """
    example = "regress(table, formula, columns, epsilon=1.0, delta=1e-6)"
    asked = Guarantee.of(epsilon, delta, adjacency, example)
    parse(formula)  # before the columns, whose text is a path
    check_ledger(ledger)
    once = Study(
        table,
        columns,
        epsilon=asked.epsilon if ledger is None else ledger.epsilon,
        delta=asked.delta if ledger is None else ledger.delta,
        adjacency=adjacency,
        unit=unit,
        ledger=ledger,
    )
    try:
        return once.regress(formula, epsilon, delta=delta, label=label, family=family, **options)
    finally:
        if not once.durable:
            _forget(str(once.ledger.path.parent), os.getpid())
