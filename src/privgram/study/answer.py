"""One regression of a table: what is released for it, and the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from privgram.columns import Columns
from privgram.columns.survival import Survival
from privgram.columns.unit import PrivateBound, Unit
from privgram.columns.variables import Factor
from privgram.disclosure.release import release_for
from privgram.disclosure.request import ReleaseRequest
from privgram.glm.fit import fit_problem
from privgram.glm.problem import MOST_BESIDE, MOST_LEVELS, Clusters, HighCardinalityFactor, Problem
from privgram.regression.design import AllColumns, RegressionTerms, design
from privgram.regression.families import FAMILIES
from privgram.regression.iv import Roles, fit_iv
from privgram.regression.least_squares import fit_ols
from privgram.regression.ols import OLSResults
from privgram.scan.request import check_here, scale_out
from privgram.sources.pieces import PieceSource

if TYPE_CHECKING:
    from privgram.columns.terms import Parsed
    from privgram.disclosure.request import RunOptions
    from privgram.privacy.guarantee import Guarantee
    from privgram.regression import IVResults, RegressionResults
    from privgram.regression.design import Design
    from privgram.releases.release import Release
    from privgram.sources.table import TableSource
    from privgram.study.options import RegressOptions


# Secret side: whatever `Study.regress` spends is spent here.

#: Part of the epsilon of a release that chooses the bound of a unit, where nothing public says it.
CHOOSING = 0.1

BY_SCORES = (
    'family="binomial" and "poisson" are fitted by scores, which take rows that can be read again '
    "by one machine, a unit whose bound is not chosen by the table, a positive delta, and no "
    "instruments or mechanism; and an intercept where rows have weights"
)

INSTRUMENTS = (
    'instruments are of family="gaussian", with squared loss and errors that are independent: '
    "leave out loss, family and groups"
)

BY_PIECES = (
    "Surv(time, event) is fitted by scores of pieces of time, with robust errors: of rows that can "
    "be read again by one machine, a unit whose bound is not chosen beforehand, and a positive "
    "delta; leave out family, loss, cov_type, weights and mechanism"
)

HUBER = (
    'loss="huber" is of family="gaussian", with an intercept, robust errors and rows that are '
    "protected singly, can be read again by one machine and have no weights; with a positive "
    "delta, and no instruments, absorbed factors, factors of hundreds of levels or mechanism"
)


#: Said of effects after the bar that pairs of rows cannot take off.
ALONG = (
    f"effects after | are taken along of one factor by itself, and of others with {MOST_BESIDE} "
    "levels at most together, beside a feature and an intercept: write them after a +, as in "
    "y ~ a:g + g for slopes by group"
)

#: Said of levels that are columns, and of effects after the bar that would be.
MANY_LEVELS = f"scores take {MOST_LEVELS} levels at most of what is written out"
TOO_MANY_ALONG = (
    f"beside unit=, groups= or weights effects after | are taken along of {MOST_LEVELS} levels at "
    "most of all factors together: describe coarser levels, such as regions or periods; for an "
    "effect of each protected unit take Unit(..., fixed_effects=True), which needs no levels"
)


def needed(parsed: Parsed, columns: Columns) -> Columns:
    """Of the columns of a table those that a formula needs, and ones: of own units' origin too."""
    used = Columns.from_formula(
        parsed, columns.bounds, columns.missing, row_weights=columns.row_weights
    )
    return used.replace(intercept=True)


def clusters_of(
    groups: str | None, parsed: Parsed, columns: Columns, used: Columns
) -> Clusters | None:
    """The clusters of a column of the whole table, with what is read to know them."""
    if groups is None:
        return None
    if not isinstance(columns.variables.get(groups), Factor):
        raise ValueError(
            f"groups name a factor that the columns describe, and {groups!r} is none: list its "
            "levels there"
        )
    if groups in used.variables:
        return Clusters(groups, used, used)
    read = needed(replace(parsed, features=(*parsed.features, groups)), columns)
    return Clusters(groups, read, used)


def protected(unit: Unit | None, guarantee: Guarantee) -> tuple[Unit | None, Guarantee]:
    """The unit as a release takes it, and the guarantee that is left for this."""
    epsilon = guarantee.epsilon
    if unit is not None and unit.max_rows is None and unit.bound is None:
        unit = replace(unit, bound=PrivateBound(CHOOSING * epsilon))
    if unit is not None and isinstance(unit.bound, PrivateBound):
        guarantee = replace(guarantee, epsilon=epsilon - unit.bound.epsilon)
    return unit, guarantee


def release_and_fit(
    source: TableSource,
    parsed: Parsed,
    columns: Columns,
    guarantee: Guarantee,
    options: RegressOptions,
    run: RunOptions,
    *,
    unit: Unit | None = None,
) -> RegressionResults:
    """Release what one regression needs, and fit it, by what is expected to have the least noise.

    The columns are those of the whole table; what the formula does not use is not read. Without a
    mechanism scores are taken where they are possible: of a table that one machine can read again,
    for a formula without instruments, a unit whose bound the table did not choose (a release counts
    the choice in), and a positive delta. Where single rows are protected, one
    factor may then have any number of levels by itself, or absorbed. Products with
    it come from a release; of effects after the bar, what pairs of rows cannot take off is refused.
    """
    survival = Survival.of(parsed, columns, options.cuts)
    if survival is not None:
        return fit_survival(source, survival, parsed, columns, guarantee, options, run, unit=unit)
    if options.cov_type == "cluster" and unit is None and options.groups is None:
        raise ValueError(
            'cov_type="cluster" lets errors go together within clusters: name their column, '
            "groups=..., or the protected unit, unit=pg.Unit(column, max_rows=...)"
        )
    if options.groups is not None and unit is not None:
        raise ValueError(
            "errors of a protected unit go together, and in no other clusters: leave out groups"
        )
    family, factor = options.chosen_family, None
    linear = family.is_linear
    if linear:
        parsed.check_no_offset()
    used = needed(parsed, columns)
    huber = options.loss == "huber"
    clusters = clusters_of(options.groups, parsed, columns, used)
    apart = unit or parsed.endogenous or huber or clusters
    if linear and parsed.intercept and not apart:
        factor = HighCardinalityFactor.of(parsed, used)
    # Pairs are of rows that are protected singly; of others effects are columns, if not shown.
    singly = unit is None and clusters is None and used.row_weights is None
    robust = options.cov_type != "nonrobust"
    written = used if linear and factor is None else None
    not_scores = _without_scores(source, parsed, used, unit, written, options, guarantee)
    scores = not_scores is None
    if scores and unit is not None and options.cov_type not in (None, "cluster"):
        raise ValueError(
            "errors of rows of one unit may go together, and standard errors by scores allow for "
            'it: take cov_type="cluster", or leave it out'
        )
    if parsed.endogenous and (clusters is not None or huber or not linear):
        raise ValueError(INSTRUMENTS)
    if huber:
        single = unit is None and used.row_weights is None and clusters is None
        asked = linear and parsed.intercept and robust and single and not parsed.absorbed
        if not (scores and asked):
            raise ValueError(HUBER)
    if scores and parsed.absorbed and linear and singly and factor is None:
        raise ValueError(ALONG)
    if parsed.absorbed and not_scores == MANY_LEVELS:
        raise ValueError(TOO_MANY_ALONG)
    if scores and not (linear and singly):
        parsed = replace(parsed, features=(*parsed.features, *parsed.absorbed))
    if not linear:
        if not scores or (used.row_weights is not None and not parsed.intercept):
            raise ValueError(BY_SCORES)
        target, used = family.explained(parsed.targets[0], used)
        clusters = clusters and replace(clusters, others=used)
        parsed = replace(parsed, targets=(target,))
    if scores and not parsed.intercept and linear:
        not_scores = "scores of least squares take an intercept"
    if not linear or not_scores is None:
        question = RegressionTerms.of(parsed, reference=options.reference)
        terms = question
        if parsed.endogenous:
            _check_design(question, used)
            features = (*parsed.endogenous, *parsed.features)
            terms = replace(question, features=features, endogenous=(), instruments=())
        problem = Problem(
            terms,
            used,
            family=family,
            loss=options.loss,
            robust=robust,
            purpose=options.purpose,
            offset=parsed.offset,
            unit=unit,
            factor=factor,
            clusters=clusters,
            question=question if parsed.endogenous else None,
        )
        return fit_problem(source, problem, guarantee, **vars(run))
    if options.cov_type in ("HC1", "cluster"):
        raise ValueError(
            "robust standard errors come with scores, which take rows that can be read again, "
            "no instruments, no second factor of hundreds of levels, no mechanism, and a unit "
            "whose bound is not chosen by the table: leave out cov_type"
        )
    question = RegressionTerms.of(parsed, reference=options.reference)
    _check_design(question, used)
    unit, guarantee = protected(unit, guarantee)
    request = ReleaseRequest(
        source, guarantee, used, mechanism=options.mechanism, unit=unit, **vars(run)
    )

    def answer(release: Any) -> OLSResults | IVResults:
        fit = fit_release(release, question)
        reason = fit.refusal if options.purpose == "prediction" else fit.without
        if isinstance(fit, OLSResults) and reason is not None:
            # What was paid for is not lost: shrunk, and without standard errors.
            shrunk = fit_release(release, question, ridge="auto")
            assert isinstance(shrunk, OLSResults)
            without = f"{reason}. What is shown is shrunk by ridge='auto', for predictions"
            fit = replace(shrunk, without=without)
        return replace(fit, not_scores=not_scores)

    return release_for(request, answer)


def fit_survival(
    source: TableSource,
    survival: Survival,
    parsed: Parsed,
    columns: Columns,
    guarantee: Guarantee,
    options: RegressOptions,
    run: RunOptions,
    *,
    unit: Unit | None = None,
) -> RegressionResults:
    """Fit Cox's regression by pieces of time: of events, by Poisson's law.

    Of a row there are as many pieces as there are cuts, and all are its own: what is protected is
    the row, or the unit whose rows follow one another in time.
    """
    check_here(source, "Surv(time, event) takes")
    pieces = survival.n_pieces
    if unit is None:
        unit = Unit.of_row(pieces)
        guarantee = replace(guarantee, unit=unit.protected)
    elif unit.max_rows is not None:  # spells, each of which ends within a piece
        unit = replace(unit, max_rows=unit.max_rows + pieces - 1)
    parsed, columns = survival.terms(parsed), survival.columns(columns)
    used = needed(parsed, columns)
    others = options.given_beside_cuts or used.row_weights is not None
    if others or _without_scores(source, parsed, used, unit, None, options, guarantee):
        raise ValueError(BY_PIECES)
    features = (*parsed.features, *parsed.absorbed)
    problem = Problem(
        RegressionTerms.of(replace(parsed, features=features), reference=options.reference),
        used,
        family=FAMILIES["poisson"],
        purpose=options.purpose,
        offset=parsed.offset,
        unit=unit,
        survival=survival,
    )
    rows = PieceSource(source, survival.placed(), used.missing == "drop", run.cache_bytes)
    return fit_problem(rows, problem, guarantee, **vars(run))


def _check_design(question: RegressionTerms, used: Columns) -> None:
    """Refuse before anything is spent what a fit would refuse."""
    described = AllColumns(used)

    def design_for(terms: RegressionTerms) -> Design:
        features = (*(terms.features or ()), *terms.absorbed)
        return design(described, replace(terms, features=features))

    roles = question.endogenous + question.instruments
    if roles:
        Roles.of(described, design_for, question)
    design_for(replace(question, features=(*(question.features or ()), *roles)))


def fit_release(
    release: Release, question: RegressionTerms, ridge: float | Literal["auto"] = 0.0
) -> OLSResults | IVResults:
    """The regression of a question on a release of its columns, and nothing spent."""
    if question.endogenous:
        return fit_iv(release, question)
    return fit_ols(release, question, ridge)


def _without_scores(
    source: TableSource,
    parsed: Parsed,
    columns: Columns,
    unit: Unit | None,
    written: Columns | None,  # columns whose levels are written out
    options: RegressOptions,
    guarantee: Guarantee,
) -> str | None:
    """Why a regression is on a release of the columns, and not by scores; None where it is."""
    if parsed.endogenous and (parsed.absorbed or unit is not None or columns.row_weights):
        return "scores take instruments of single rows without absorbed factors or weights"
    if options.mechanism is not None:
        return "a mechanism was asked for"
    if not guarantee.delta:
        return "scores take a positive delta"
    if isinstance(source, Iterator) or scale_out(source) is not None:
        return "scores take rows that one machine can read again"
    plain = written is not None and parsed.intercept and columns.row_weights is None
    plain = plain and options.loss != "huber" and not (parsed.absorbed or parsed.endogenous)
    if unit is not None and (unit.clip != "frobenius" or (unit.fixed_effects and not plain)):
        return "scores take units without another clip, and effects of each in least squares"
    if unit is not None and isinstance(unit.bound, PrivateBound):
        return "scores take units whose bound the table does not choose"
    if written is None:
        return None
    single = unit is None and columns.row_weights is None and options.groups is None
    if parsed.absorbed and single:
        return None
    levels = sum(len(x) for x in written.variables.values() if isinstance(x, Factor))
    return None if levels <= MOST_LEVELS else MANY_LEVELS
