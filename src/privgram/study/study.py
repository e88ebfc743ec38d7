"""One table, one protected unit, one budget: said once, and spent on whatever is asked.

It asks the library for releases, and draws no noise itself. What releases, fits and plans is
imported with the first question.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from privgram._base.log import log
from privgram._base.numbers import check_integer, check_positive
from privgram._base.options import described_by, function_takes, takes
from privgram._base.text import facts_html, listed, shown
from privgram.columns import Columns
from privgram.columns.groups import Groups
from privgram.columns.survival import FEW_PIECES
from privgram.columns.terms import parse_one
from privgram.columns.unit import Unit
from privgram.ledger import BudgetExceeded, check_ledger
from privgram.moment import SecondMoment
from privgram.privacy.guarantee import Guarantee
from privgram.scan.request import scale_out
from privgram.sources.table import check_names
from privgram.study.check import Check, check_table, count_rows
from privgram.study.config import (
    described,
    forget,
    identity,
    open_ledger,
    read_study,
    table_name,
)
from privgram.study.options import (
    HistogramRequest,
    PlanRequest,
    RegressRequest,
    ReleaseOfStudy,
    StudyRequest,
    SummarizeRequest,
    TableRegressRequest,
    TableRequest,
)

if TYPE_CHECKING:
    import numpy as np

    from privgram.disclosure.request import RunOptions
    from privgram.ledger import Entry
    from privgram.multivariate.distribution import DistributionResults, HistogramResults
    from privgram.planning.precision import Precision
    from privgram.privacy import Adjacency
    from privgram.regression import RegressionResults
    from privgram.releases.groups import Releases
    from privgram.releases.release import Release
    from privgram.scan.progress import Progress
    from privgram.study.tables import Asked


@described_by(StudyRequest)
class Study:
    """A table, its public columns, the unit that is protected, and a budget, said once.

    Whatever is asked of the study afterwards, several releases or regressions, is charged to the
    one budget before any noise is drawn, and refused beyond it.

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

    @takes(StudyRequest)
    def __init__(self, request: StudyRequest) -> None:
        table, adjacency = request.table, request.adjacency
        if isinstance(table, SecondMoment):
            raise TypeError(
                "a study reads a table, and a SecondMoment has no rows: release it by pg.release"
            )
        self.table = table
        columns = described(request.columns, request.weights, request.missing)
        self.columns = columns.settled(adjacency)
        self.adjacency: Adjacency = adjacency
        protects = Unit.of(request.unit)
        self.unit = None if protects is None else protects.settled(adjacency)
        self.name = table_name(table) if request.name is None else request.name
        if not isinstance(self.name, str):
            raise TypeError(f"name says what the table is called, not {type(self.name).__name__}")
        self.threads, self.progress = request.threads, request.progress
        cache_bytes = request.cache_bytes
        self.cache_bytes = (
            None if cache_bytes is None else check_integer(cache_bytes, "cache_bytes", 0)
        )
        column = None if self.unit is None else self.unit.name
        if column in self.columns.selected:
            raise ValueError(
                f"{column!r} tells whose row a row is, and is no column to release: leave it out "
                f"of the columns. Unit({column!r}, fixed_effects=True) takes off an effect of each"
            )
        check_names(table, (*self.columns.reads, *(() if protects is None else (protects.name,))))
        self._begun = False
        self.identity = identity(self.name, self.columns.variables, column)
        self.ledger, self.durable = open_ledger(
            request.ledger,
            request.epsilon,
            request.delta,
            adjacency,
            self.identity,
            request.composition,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, progress: Progress = False) -> Study:
        """Read a study from a TOML file, as `privgram init TABLE` writes it to be filled in.

        Parameters
        ----------
        path : path-like
            With the keys ``table``, ``ledger``, ``epsilon``, ``delta``, a table ``[columns]``, and,
            where they are wanted, ``adjacency``, ``unit``, ``max_rows`` and ``cache_bytes``.
            Paths in it are relative to its folder.
        progress
            As of `Study`.

        Raises
        ------
        ValueError
            If it is no such file, something is left to fill in, or as `Study`.
        OSError
            If it cannot be read.
        """
        return cls(**vars(read_study(Path(path))) | {"progress": progress})

    def __repr__(self) -> str:
        unit = "rows" if self.unit is None else f"all rows of one {shown(self.unit.name)}"
        spent, _ = self.ledger.spent
        lifetime = (
            f"kept in {shown(self.ledger.path.name)}"
            if self.durable
            else "of this process alone: it ends with the process. ledger='NAME.ledger' keeps it"
        )
        return (
            f"Study of {shown(self.name)}: {listed(list(self.columns.variables))}\n"
            f"protected: {unit}, neighbours by {self.adjacency}\n"
            f"budget: epsilon={self.ledger.epsilon:g} at delta={self.ledger.delta:g}, of which "
            f"{spent:.4g} is spent in {len(self.entries)} entries; {lifetime}"
        )

    def _repr_html_(self) -> str:
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
        return self.ledger.remaining()

    @overload
    def release(
        self, epsilon: float | None = None, *, by: None = None, **options: Any
    ) -> Release: ...
    @overload
    def release(
        self, epsilon: float | None = None, *, by: Groups | str, **options: Any
    ) -> Releases: ...
    @takes(ReleaseOfStudy)  # type: ignore[misc]
    def release(self, request: ReleaseOfStudy) -> Release | Releases:
        """Release the second moment of the columns: any number of regressions, at one price.

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
        from privgram.disclosure.release import release_for
        from privgram.disclosure.request import ReleaseRequest
        from privgram.study.answer import protected

        columns, terms = self.columns, request.terms
        if terms is not None:
            columns = columns.replace(terms=[terms] if isinstance(terms, str) else list(terms))
        price = self._price(request.epsilon, request.delta)
        run = self._run_options(request.label, columns.selected, request.out, request.rng)
        unit, guarantee = protected(self.unit, price)
        log.info("release at epsilon=%g", price.epsilon)
        with self._saying_what_is_left():
            whole = ReleaseRequest(
                self._source(columns),
                guarantee,
                columns,
                request.purpose,
                mechanism=request.mechanism,
                unit=unit,
                by=request.by,
                **vars(run),
            )
            release = release_for(whole)
        log.info("released")
        return release

    @takes(RegressRequest)
    def regress(self, request: RegressRequest) -> RegressionResults:
        """Fit one regression, mostly with less noise than a release of its columns has.

        Returns
        -------
        RegressionResults
            A `GLMResults` where it is by scores, and an `IVResults` with instruments. Of weak
            instruments and whatever else scores do not take it is on a release of the columns,
            whose errors assume equal variance; its notes say why.

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it. Nothing is spent then.
        ValueError, TypeError, OSError
            As `privgram.release`, or where the formula is not one of the columns.
        """
        from privgram.study.answer import clusters_of, needed, release_and_fit
        from privgram.study.planning import Advice

        formula, options = request.formula, request.options
        parsed = parse_one(formula)
        columns = self._weighted(options.weights)
        used = needed(parsed, columns)
        if (clusters := clusters_of(options.groups, parsed, columns, used)) is not None:
            used = clusters.read
        price = self._price(request.epsilon, request.delta)
        run = self._run_options(request.label or formula, used.selected, request.out, request.rng)
        log.info("regress %s at epsilon=%g", shown(formula), price.epsilon)
        with self._saying_what_is_left():
            source = self._source(used, named=bool(parsed.survival))
            fit = release_and_fit(source, parsed, columns, price, options, run, unit=self.unit)
        log.info("answered" if fit.refusal is None else "refused")
        if fit.refusal is not None:
            mean = fit.parameters.get("target_mean"), fit.parameters.get("target_mean_std", 0.0)
            n_rows = fit.nobs if parsed.survival else fit.n_rows
            advice = Advice(parsed, columns, price, n_rows, self.unit, options, *mean)
            fit._advised_by(advice)
        return fit

    @takes(SummarizeRequest)
    def summarize(self, request: SummarizeRequest) -> DistributionResults:
        """Count rows, and give means, deviations and quantiles of one column, in groups.

        Returns
        -------
        DistributionResults
            Any other quantile, histogram and value of the distribution function follows from it at
            no further cost.

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it. Nothing is spent then.
        ValueError, TypeError, OSError
            As `regress`; of units where nothing says how many rows one has at most.
        """
        from privgram.multivariate.distribution import check_quantiles, check_statistics
        from privgram.study.tables import summarize_table

        how = check_statistics(request.statistics), check_quantiles(request.q)
        with self._asking(request, "summarize") as asked:
            return summarize_table(asked, *how)

    @takes(HistogramRequest)
    def histogram(self, request: HistogramRequest) -> HistogramResults:
        """Count the rows in bins of one column, in groups, and nothing else.

        Returns
        -------
        HistogramResults
            With a confidence interval for each count.

        Raises
        ------
        BudgetExceeded, ValueError, TypeError, OSError
            As `summarize`.

        Notes
        -----
        `summarize` has a histogram too, with bins that can be chosen afterwards and more noise.
        """
        from privgram.study.tables import histogram_of_table

        with self._asking(request, "histogram") as asked:
            return histogram_of_table(asked, request.bins)

    @contextmanager
    def _asking(self, request: TableRequest, what: str) -> Iterator[Asked]:
        """What is asked of one column, with its price and what is said of it."""
        from privgram.study.tables import Asked, column_and_groups

        column, by = request.column, request.factors
        used = column_and_groups(self.columns, column, by)
        label = request.label or " by ".join([column, *([", ".join(by)] if by else [])])
        price = self._price(request.epsilon, request.delta)
        run = self._run_options(label, used.selected, request.out, request.rng)
        log.info("%s %s at epsilon=%g", what, shown(label), price.epsilon)
        with self._saying_what_is_left():
            yield Asked(self._source(used), used, column, by, price, run, self.unit)
        log.info("answered")

    @contextmanager
    def _saying_what_is_left(self) -> Iterator[None]:
        """Let what is over the budget say how much of it is left."""
        try:
            yield
        except BudgetExceeded as error:
            left = self.remaining()
            raise BudgetExceeded(f"{error}; epsilon={left:.4g} is left") from None

    def _source(self, used: Columns, named: bool = False) -> Any:
        """The table; of an array, whose columns are those of the study, the used ones (a copy)."""
        import numpy as np

        from privgram.sources.arrays import is_array

        table, names = self.table, self.columns.selected
        plain = isinstance(table, np.ndarray) and not table.dtype.names
        if not (plain or is_array(table)) or table.ndim != 2:
            return table
        if table.shape[1] != len(names):
            raise ValueError(
                f"the study describes {len(names)} columns and the array has {table.shape[1]}: "
                "those of an array have no names, and are taken in the order of the description"
            )
        if used.selected == names and not named:
            return table
        if named or is_array(table):  # on a GPU, perhaps
            return {name: table[:, names.index(name)] for name in used.selected}
        return table[:, [names.index(name) for name in used.selected]]

    def _weighted(self, weights: str | None) -> Columns:
        by_study = self.columns.row_weights
        if weights is None or weights == by_study:
            return self.columns
        if by_study is not None:
            raise ValueError(
                f"the study weights its rows by {by_study!r}, and this regression asks for "
                f"{weights!r}: make another study of the same ledger without weights, or leave "
                "them out here"
            )
        return described(self.columns, weights)

    @takes(PlanRequest)
    def plan(self, request: PlanRequest) -> Precision:
        """Say what a regression takes or gives, before anything is spent or read.

        Returns
        -------
        Precision
            Printed, it is one screen; as a number, its epsilon.

        Raises
        ------
        ValueError
            If the formula is not one of the columns, `regress` would not take the options, or a
            number of rows must be given.

        Notes
        -----
        Rows are simulated by the design, and fitted by what will fit the table, some times over.
        First is said which part of these fits is answered, and not refused for noise. Then come the
        medians of the standard errors that `regress` will state, and beside them those of a
        regression on a release of the same columns, of which there may be any number.

        What no design says is guessed, and the notes say what: numbers are normal about the middle
        of their bounds, truth values and numbers within (0, 1) are 0 or 1 as often, counts vary
        about a tenth of their upper bound by about as much as that is, instruments explain a
        quarter of what they stand in for, and a unit of which nothing is said has five rows. Fits
        of counts, of rare levels and by weak instruments may be refused where this is not: so they
        are simulated a second time with a hundredth of the upper bound, a hundredth of the rows and
        a two hundredth of the variance, which is what "if rare" says.
        """
        from privgram.planning.precision import plan_precision
        from privgram.study.answer import needed
        from privgram.study.planning import fits_of, summaries_of
        from privgram.study.tables import column_and_groups

        options, design = request.options, request.design
        price = partial(self._price, delta=request.delta)
        columns, n_rows = self._weighted(options.weights), request.n_rows
        if "~" not in request.formula:
            column, by = request.formula, request.by or ()
            factors = (by,) if isinstance(by, str) else tuple(by)  # type: ignore[arg-type]
            used = column_and_groups(columns, column, factors)
            n_rows = self._rows(used) if n_rows is None else check_integer(n_rows, "n_rows", 1)
            asked = column, factors, columns, price, design, n_rows, self.unit
            fits, each = summaries_of(*asked)
        else:
            parsed = parse_one(request.formula)
            groups, _ = Groups.of(request.by, columns)  # type: ignore[arg-type]
            used = needed(parsed, self.columns)
            n_rows = self._rows(used) if n_rows is None else check_integer(n_rows, "n_rows", 1)
            each = max(n_rows // (1 if groups is None else len(groups)), 1)
            once = isinstance(self.table, Iterator) or scale_out(self.table) is not None
            guessed = parsed, columns, price, options, design, each, self.unit, groups, once
            fits = fits_of(*guessed)
        plan = plan_precision(
            request.formula,
            fits,
            left=self.remaining(),
            n_rows=each,
            target_se=request.target_se,
            epsilon=request.epsilon,
        )
        return plan if options.cuts is None else replace(plan, notes=(*plan.notes, FEW_PIECES))

    def _rows(self, used: Columns) -> int:
        if self.adjacency != "replace" or self.unit is not None:
            raise ValueError(
                "the number of rows is private where rows are added or removed, or a unit may have "
                "any number: say about how many there are by what is public, n_rows=... (on the "
                "command line, --rows)"
            )
        return count_rows(self._source(used), used)

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
        return check_table(self.table, self.columns, self.unit, self.name)

    def _price(self, epsilon: float | None, delta: float | None) -> Guarantee:
        if epsilon is None:
            raise TypeError(
                f"say how much of the budget this may cost: epsilon=..., of {self.remaining():.4g} "
                "that are left"
            )
        epsilon = check_positive(epsilon, "epsilon")
        if delta is None:
            delta = self.ledger.usual_delta(epsilon)
        unit = None if self.unit is None else self.unit.protected
        return Guarantee(epsilon, delta, self.adjacency, unit)

    def _run_options(
        self,
        label: str,
        columns: Iterable[str],
        out: str | os.PathLike[str] | None,
        rng: np.random.Generator | None,
    ) -> RunOptions:
        """How an answer is entered, saved and run. From here on a table may have been read."""
        from privgram.disclosure.request import RunOptions

        if isinstance(self.table, Iterator):
            if self._begun:
                raise ValueError(
                    "the table of this study can be read once, and an answer before may have read "
                    "it: make a study of a new iterator, with ledger=study.ledger"
                )
            self._begun = True
        return RunOptions(
            threads=self.threads,
            progress=self.progress,
            cache_bytes=self.cache_bytes,
            ledger=self.ledger.entered_as(label, columns, self.identity),
            out=out,
            rng=rng,
        )


@function_takes(TableRegressRequest)
def regress(request: TableRegressRequest) -> RegressionResults:
    """Fit one regression of a table, at one price: a `Study` of one answer.

    Returns
    -------
    RegressionResults
        As of `Study.regress`.

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
    parse_one(request.formula)  # before the columns, whose text is a path
    ledger, adjacency = request.ledger, request.adjacency
    guarantee = Guarantee.of(request.epsilon, request.delta, adjacency, example)
    check_ledger(ledger)
    owner = os.getpid()  # a child that the source forks comes to the end of this too
    once = Study(
        request.table,
        request.columns,
        epsilon=guarantee.epsilon if ledger is None else ledger.epsilon,
        delta=guarantee.delta if ledger is None else ledger.delta,
        adjacency=adjacency,
        unit=request.unit,
        ledger=ledger,
    )
    try:
        return once.regress(**request.of_study)
    finally:
        if not once.durable:
            forget(str(once.ledger.path.parent), owner)
