"""What is asked of a study: each option with what it does, said once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_args

from privgram._base.numbers import check_one_of

if TYPE_CHECKING:
    import numpy as np

    from privgram._base.numbers import Adjacency
    from privgram.columns import Columns
    from privgram.columns.groups import Groups
    from privgram.columns.unit import Missing, Unit
    from privgram.ledger import Composition, Ledger
    from privgram.mechanisms import Mechanism, Purpose
    from privgram.multivariate.distribution import StatisticName
    from privgram.planning.designs import DesignInput
    from privgram.regression.families import Family, FamilyName, LossName
    from privgram.regression.glm import CovType, FitPurpose
    from privgram.scan.progress import Progress
    from privgram.sources.table import TableSource

#: What a table's columns are described by.
StudyColumns: TypeAlias = "Columns | Mapping[str, Any] | str | os.PathLike[str] | None"

_OFFSET_IS_A_TERM = (
    "an offset is a term of the formula, such as 'claims ~ age + offset(log(years))', of a column "
    "that is described, by pg.Log for its logarithm"
)


@dataclass(frozen=True, eq=False)
class StudyRequest:
    """What `Study` takes, from its arguments or its file.

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
    composition : {"gaussian", "basic"}, optional
        As of `Ledger`: by default answers may be chosen by what earlier ones showed.
    weights : str, optional
        Column that weights rows, a number with public bounds.
    missing : {"error", "drop"}, optional
        What a row with a missing value does, as of `Columns`.
    name : str, optional
        What the table is called; by default as its file or folder. With the names of the columns
        and the unit it tells one study from another: a ledger is of one study.
    threads : int, optional
        As in `second_moment`: of every pass over the table.
    progress : bool or callable, default False
        As in `second_moment`: of every pass over the table.
    cache_bytes : int, optional
        How many bytes of decoded rows may stay in memory between passes, where there are several; 0
        decodes them again for each. By default a gigabyte, or a quarter of the memory if that is
        less.
    """

    table: TableSource = field(repr=False)
    columns: StudyColumns = None
    _: KW_ONLY
    epsilon: float
    delta: float
    adjacency: Adjacency = "replace"
    unit: Unit | str | None = None
    ledger: Ledger | str | os.PathLike[str] | None = None
    composition: Composition | None = None
    weights: str | None = None
    missing: Missing | None = None
    name: str | None = None
    threads: int | None = None
    progress: Progress = False
    cache_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class ReleaseOfStudy:
    """What `Study.release` takes.

    Parameters
    ----------
    epsilon : float
        What this release may cost of the budget.
    delta : float, optional
        By default the budget's, or with "basic" composition the same part of it as of epsilon.
    label : str
        What the ledger calls it.
    out : path-like, optional
        File to save the release to, `.json` or `.npz`. That it can be written is made sure of
        before anything is spent.
    terms : iterable of str, optional
        What to release, as in `Columns`: ``["poly(age, 2)", "sex*region", "wage"]``. By default
        each column.
    purpose : {"regression", "components", "means"}
        What the mechanism is chosen for. The release's `method` and `reason` say which was taken
        and why.
    mechanism : Mechanism or str, optional
        Instead of the choice.
    by : str or Groups, optional
        A factor among the columns, or groups of another column: a release for each of its levels,
        at one guarantee for all together.
    rng : numpy.random.Generator, optional
        For experiments only: the release is then marked `reproducible`.
    """

    epsilon: float | None = None
    _: KW_ONLY
    delta: float | None = None
    label: str = ""
    out: str | os.PathLike[str] | None = None
    terms: Iterable[str] | None = None
    purpose: Purpose = "regression"
    mechanism: Mechanism | str | None = None
    by: Groups | str | None = None
    rng: np.random.Generator | None = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What changes the answer of a regression, and its plan.

    Parameters
    ----------
    family : {"gaussian", "binomial", "poisson"}
        Least squares; logistic regression of a truth value, of 0 and 1 within bounds (0, 1), of a
        factor of two levels or of one level, "region[n]"; or regression of counts with the link
        log. Standard errors of the last two are robust too, as of statsmodels' GLM with
        ``cov_type="HC1"``.
    loss : {"squared", "huber"}
        "huber" bounds what a row says by public numbers, whatever it holds: errors count up to
        1.345 scales, and features far out weigh less. Nothing is clipped, so intervals have no
        doubt about rows that nobody saw. Where errors are symmetric the coefficients are those of
        least squares, elsewhere others. The equation is not that of statsmodels' `RLM`. Of single
        rows, with an intercept.
    cov_type : {"nonrobust", "HC1", "cluster"}, optional
        What standard errors allow for, by statsmodels' names: errors of equal variance; of unequal
        variance, which is the default of single rows; or errors that go together in the study's
        unit, which is that of units, or in `groups`. The last two are by scores: of rows that can
        be read again, and no mechanism.
    weights : str, optional
        Column that weights rows of this regression, a number with public bounds that are not
        negative. Only of a study without weights of its own.
    reference : mapping of str to level, optional
        The level of a factor that is left out, where the formula does not say it; the first by
        default.
    mechanism : Mechanism or str, optional
        Of least squares: a release of the columns by this mechanism, and no scores.
    cuts : sequence of float or int, optional
        Of ``Surv(time, event)``: the public ends of pieces of time in which the hazard is constant,
        the first where times count from and the last where all are censored; or how many pieces
        there are, which 2 % of the budget place so that events are spread evenly. 4 to 6 pay.
    """

    family: FamilyName = "gaussian"
    loss: LossName = "squared"
    cov_type: CovType | None = None
    weights: str | None = None
    reference: Mapping[str, Any] | None = None
    mechanism: Mechanism | str | None = None
    cuts: Sequence[float] | int | None = None

    #: What to write in the place of options that others have.
    instead: ClassVar[Mapping[str, str]] = {
        "offset": _OFFSET_IS_A_TERM,
        "exposure": _OFFSET_IS_A_TERM,
        "data": "the table is the study's, and the first argument of pg.regress",
        "alpha": "the level is that of fit.conf_int(alpha)",
    }

    def __post_init__(self) -> None:
        # With SciPy, which a study does not wait for.
        from privgram.regression.families import FAMILIES, LossName
        from privgram.regression.glm import CovType

        check_one_of(self.family, "family", FAMILIES)
        check_one_of(self.loss, "loss", get_args(LossName))
        if self.cov_type is not None:
            check_one_of(self.cov_type, "cov_type", get_args(CovType))
        if self.mechanism is not None and not self.chosen_family.is_linear:
            raise ValueError('mechanism is of family="gaussian": leave it out')

    @property
    def options(self) -> RegressOptions:
        """These alone, of what more is asked."""
        kept = (each.name for each in fields(RegressOptions) if hasattr(self, each.name))
        return RegressOptions(**{name: getattr(self, name) for name in kept})

    @property
    def chosen_family(self) -> Family:
        """The family by its name."""
        from privgram.regression.families import FAMILIES

        return FAMILIES[self.family]

    @property
    def given_beside_cuts(self) -> bool:
        """Whether something else than cuts says what a regression of times is."""
        names = ("family", "loss", "cov_type", "weights", "mechanism", "groups")
        return any(getattr(self, name, None) != getattr(ModelOptions, name, None) for name in names)

    @property
    def by_release(self) -> bool:
        """Whether a regression on a release of the columns answers the same question."""
        plain = (self.loss, self.mechanism, self.cuts) == ("squared", None, None)
        return self.chosen_family.is_linear and plain


@dataclass(frozen=True, kw_only=True)
class RegressOptions(ModelOptions):
    """What changes the answer of a regression.

    Parameters
    ----------
    groups : str, optional
        With ``cov_type="cluster"``, of single rows: the column of clusters in which errors go
        together, a factor that the study describes. It need not be in the formula. About .2 of the
        budget goes to sums by cluster; 20 to 60 large ones are best.
    purpose : {"inference", "prediction"}
        What the fit is for: for predictions it always answers. Directions that the noise hides are
        shrunk, and coefficients have no intervals.
    """

    groups: str | None = None
    purpose: FitPurpose = "inference"

    def __post_init__(self) -> None:
        from privgram.regression.glm import FitPurpose

        super().__post_init__()
        if self.groups is not None and self.cov_type != "cluster":
            raise ValueError('groups are the clusters of cov_type="cluster": say it too')
        check_one_of(self.purpose, "purpose", get_args(FitPurpose))


@dataclass(frozen=True, kw_only=True)
class AnswerOptions(RegressOptions):
    """What becomes of the answer.

    Parameters
    ----------
    label : str
        What the ledger calls it; by default the formula.
    out : path-like, optional
        File to save the answer to, `.json` or `.npz`. That it can be written is made sure of before
        anything is spent.
    rng : numpy.random.Generator, optional
        For experiments only: the fit is then marked `reproducible`.
    """

    label: str = ""
    out: str | os.PathLike[str] | None = None
    rng: np.random.Generator | None = None


@dataclass(frozen=True)
class RegressRequest(AnswerOptions):
    """What `Study.regress` takes.

    Parameters
    ----------
    formula : str
        Such as ``"log(wage) ~ education + poly(experience, 2) + region"``; ``"y ~ x | firm"``
        takes effects of firms along, ``"y ~ x | d ~ z"`` has the instrument z for d, and
        ``"claims ~ age + offset(log(years))"`` adds a column to the linear predictor.
    epsilon : float
        What this answer may cost of the budget.
    delta : float, optional
        By default the budget's, or with "basic" composition the same part of it as of epsilon.
    """

    formula: str
    epsilon: float | None = None
    _: KW_ONLY
    delta: float | None = None


@dataclass(frozen=True, eq=False)
class TableRegressRequest(AnswerOptions):
    """What `privgram.regress` takes.

    Parameters
    ----------
    table : table
        As of `Study`.
    formula : str
        As of `Study.regress`.
    columns : mapping, Columns or path-like
        As of `Study`.
    epsilon, delta : float
        The guarantee.
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    unit : str or Unit, optional
        As of `Study`.
    ledger : Ledger, optional
        Budget to enter the fit in, durably, before its noise is drawn.
    """

    table: TableSource = field(repr=False)
    formula: str
    columns: StudyColumns = None
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    adjacency: Adjacency = "replace"
    unit: Unit | str | None = None
    ledger: Ledger | None = None

    @property
    def of_study(self) -> dict[str, Any]:
        """The options of `Study.regress` among these."""
        return {each.name: getattr(self, each.name) for each in fields(RegressRequest)}


@dataclass(frozen=True)
class TableRequest:
    """What an answer about one column is of, and what it costs.

    Parameters
    ----------
    column : str
        A number, logarithm, date or truth value among the columns.
    by : str or sequence of str
        Factors among the columns: their levels, crossed, are the groups. By default all rows
        together.
    epsilon : float
        What this answer may cost of the budget, for all groups and statistics together.
    delta : float, optional
        By default the budget's, or with "basic" composition the same part of it as of epsilon.
    label : str
        What the ledger calls it; by default the column and the factors.
    out : path-like, optional
        File to save the answer to, `.json` or `.npz`. That it can be written is made sure of before
        anything is spent.
    rng : numpy.random.Generator, optional
        For experiments only: the answer is then marked `reproducible`.
    """

    column: str
    _: KW_ONLY
    by: str | Sequence[str] = ()
    epsilon: float | None = None
    delta: float | None = None
    label: str = ""
    out: str | os.PathLike[str] | None = None
    rng: np.random.Generator | None = None

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors by name."""
        several = (self.by,) if isinstance(self.by, str) else self.by
        if not (isinstance(several, Sequence) and all(isinstance(x, str) for x in several)):
            raise TypeError("by= has names of factors, whose public levels are the groups")
        return tuple(several)


@dataclass(frozen=True)
class SummarizeRequest(TableRequest):
    """What `Study.summarize` takes.

    Parameters
    ----------
    statistics : sequence of {"count", "mean", "sd", "quantile"}
        What is shown. Without "quantile" the budget is spent on the others, and with "count" alone
        on counts.
    q : float or sequence of float
        Which quantiles are shown, in (0, 1).
    """

    statistics: StatisticName | Sequence[StatisticName] = field(
        default=("count", "mean", "sd", "quantile"), kw_only=True
    )
    q: float | Sequence[float] = field(default=(0.25, 0.5, 0.75), kw_only=True)


@dataclass(frozen=True)
class HistogramRequest(TableRequest):
    """What `Study.histogram` takes.

    Parameters
    ----------
    bins : int or sequence of float
        How many of equal width on the column's scale, or their edges, within its bounds.
    """

    bins: int | Sequence[float] = field(default=40, kw_only=True)


@dataclass(frozen=True, eq=False)
class PlanRequest(ModelOptions):
    """What `Study.plan` takes.

    Parameters
    ----------
    formula : str
        As of `regress`, with instruments too; or the column of `summarize`, for a mean, a deviation
        and quartiles of one group.
    target_se : mapping of str to float, optional
        Standard errors that are wanted, by coefficient, or by factor for all its levels; of a
        column by "mean", "sd" and "q50". The
        plan's `epsilon` is then what they take, with nine of ten fits answered.
    epsilon : float, optional
        Instead: the plan says what precision this gives. By default all that is left.
    delta : float, optional
        As of `regress`.
    n_rows : int, optional
        About how many rows there are. It need not be said where their number is public (adjacency
        "replace") and the table tells it unread, as an array, a frame or a Parquet file does.
    design : Release, DataFrame or mapping, optional
        What the table is like: an earlier release; a public table, with the unit's column too if
        it has one; or a guess, a mapping of ``"mean"``, ``"std"`` and ``"correlation"`` to what is
        guessed of columns by name, or of correlations alone by pairs of names.
    by : str or Groups, optional
        As of `release`: the regression in each group, by least squares; of a column as of
        `summarize`.
    """

    instead: ClassVar[Mapping[str, str]] = {
        **ModelOptions.instead,
        "groups": "errors of simulated rows are independent: leave it out, and cov_type with it",
    }

    formula: str
    target_se: Mapping[str, float] | None = None
    _: KW_ONLY
    epsilon: float | None = None
    delta: float | None = None
    n_rows: int | None = None
    design: DesignInput = None
    by: Groups | str | Sequence[str] | None = None
