"""The door of a regression by scores: checks, the first pass, the spend, the fit and its record.

Secret side: the budget of `Study.regress` is spent here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_distinct, check_room
from privgram.columns.unit import Auto
from privgram.drawing import random
from privgram.drawing.draws import CHANGED
from privgram.drawing.norm_bound import Choice, check_size
from privgram.drawing.release import warn_of_weak
from privgram.engines import Pass
from privgram.engines.threads import accumulate, accumulate_units, second_moment
from privgram.glm.clipping import CLIPPING
from privgram.glm.huber import HuberEstimator
from privgram.glm.levels import LevelEstimator
from privgram.glm.link import GLMEstimator
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.problem import FitParts, Problem
from privgram.glm.rounds import Rounds, UnitRounds
from privgram.ledger import check_ledger
from privgram.mechanisms.refined import Refined
from privgram.moment.groups import bounds_of
from privgram.regression.scored import FORM, ScoreFit
from privgram.sources.table import Kept

if TYPE_CHECKING:
    import os

    from privgram.columns.unit import Guarantee, Unit
    from privgram.ledger import Ledger
    from privgram.mechanisms.refined import RefinedCalibration

#: Said where arithmetic ends in what is no number: what was paid for is a refused fit.
NOT_FINITE = (
    "the arithmetic did not end in finite numbers: columns may be constant, copies of each other "
    "or clamped to one value, or the noise too large for so few rows"
)


def fit_problem(
    source: Any,
    problem: Problem,
    guarantee: Guarantee,
    *,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
) -> ScoreFit:
    """Fit a regression of a table by scores, or by what is predicted to be better.

    The table is one that can be read again, by one machine. The bound of a unit that says neither
    it nor rows is chosen here. All that can be refused is refused before anything is spent; what
    goes wrong in the arithmetic after that ends in a refused fit.
    """
    path = _checked_path(out, ledger)
    _check_design(problem)
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:
        source = dict(zip(problem.columns.selected, source.T, strict=True))
    generator, reproducible = random.resolve(rng)
    unit = problem.unit
    kept = source if unit is not None and unit.values is not None else Kept(source)
    scan = Pass(kept, problem.columns, unit=unit, threads=threads)
    bound = problem.scanned.bound
    chosen = unit is not None and unit.rows is None and unit.bound is None
    if unit is not None and not chosen:
        bound = bounds_of(unit, bound)[1]
    noise = Refined().noise_for(guarantee, len(problem.scanned), bound)
    if ledger is not None:  # before the pass
        ledger.check(**guarantee.price, privacy=noise.privacy)
    choice = None
    first: Any
    level_counts: Any = None
    if problem.factor is not None:
        first, level_counts = problem.factor.first(scan)
    elif chosen:
        bins = CLIPPING.per_octave
        choice = Choice(Auto(1.0), scan, guarantee.adjacency, bins_per_octave=bins)
        first = choice.count()
    else:
        first = second_moment(kept, columns=problem.columns, unit=unit, threads=threads)
    known = first.n_rows + (first.n_dropped if unit is None else 0)
    public = known if guarantee.size_is_public else None
    check_size(public)
    if not reproducible:
        warn_of_weak(guarantee, public)
    if ledger is not None:
        what = f"regress({problem.target})"
        ledger.spend(**guarantee.price, privacy=noise.privacy, what=what)
    if unit is None:
        rounds = Rounds(first, noise, generator, lambda new: accumulate(scan, new)[0])
    else:
        rounds = UnitRounds(first, noise, generator, lambda new: accumulate_units(scan, new)[0])
        if choice is not None:
            _bound_units(rounds, unit, problem, scan, choice, guarantee)
    if problem.factor is not None:
        estimator: Any = LevelEstimator(rounds, problem, public, level_counts, scan)
    elif problem.loss == "huber":
        estimator = HuberEstimator(rounds, problem, public)
    elif problem.family != "gaussian":
        estimator = GLMEstimator(rounds, problem, public)
    else:
        estimator = OneStepEstimator(rounds, problem, public)
    try:
        with np.errstate(all="ignore"):
            parts = estimator.fit()
    except (ArithmeticError, np.linalg.LinAlgError):
        parts = _no_parts(estimator.n_written)
    fitted = _recorded(problem, parts, rounds, guarantee, noise, public, reproducible)
    if path is not None:
        fitted.save(path)
    return fitted


def _check_design(problem: Problem) -> None:
    """Refuse a formula that its columns have no design for, before anything is spent."""
    for one in (problem, problem.written):
        _ = one.design  # which is made once


def _checked_path(out: str | os.PathLike[str] | None, ledger: Ledger | None) -> Path | None:
    """Where the fit is to be written; refused here if it cannot be, before anything is spent."""
    check_ledger(ledger)
    if out is None:
        return None
    path = Path(out)
    FORM.check_suffix(path)
    check_distinct({}, {"ledger": None if ledger is None else ledger.path, "out": path})
    check_room(path)
    return path


def _bound_units(
    rounds: UnitRounds,
    unit: Unit,
    problem: Problem,
    scan: Pass,
    choice: Choice,
    guarantee: Guarantee,
) -> None:
    """Choose the bound of units by a released histogram, and read their second moment within it."""
    counted = rounds.moment
    unit = rounds.bounded(unit, choice.grid)
    columns = problem.columns
    rounds.moment = second_moment(scan.source, columns=columns, unit=unit, threads=scan.threads)
    if rounds.moment.n_rows != counted.n_rows:
        raise OSError(CHANGED)
    bound = bounds_of(unit, columns.bound)[1]
    rounds.noise = Refined().noise_for(guarantee, len(columns), bound)


def _no_parts(q: int) -> FitParts:
    """A refused fit of no numbers."""
    none = np.zeros((q, q))
    return FitParts(np.zeros(q), none, none, none, 1.0, 1.0, "scores", refusal=NOT_FINITE)


def _recorded(
    problem: Problem,
    parts: FitParts,
    rounds: Rounds,
    guarantee: Guarantee,
    noise: RefinedCalibration,
    public: int | None,
    reproducible: bool,
) -> ScoreFit:
    """The public record of a fit."""
    if not parts.is_finite:
        parts = _no_parts(len(parts.coef))
    elif problem.purpose == "prediction":  # a ridge by the noise's edge always answers
        parts = replace(parts, refusal=None)
    unit = problem.unit
    parameters: dict[str, Any] = {"rows_std": 0.0, "units": None if unit is None else public}
    parameters |= rounds.record["parameters"]
    parameters |= {
        "method": parts.method,
        "reason": parts.reason,
        "scale": parts.scale,
        "clipped_rows": parts.clipped_rows,
        "purpose": problem.purpose,
    }
    parameters |= parts.facts
    rows = parts.rows
    weighted = problem.columns.row_weights is not None
    if weighted and public is not None and unit is None:
        rows = float(public)  # the ones have the sum of weights alone
        parameters["rows_std"] = 0.0
    written = problem.written
    return ScoreFit(
        target=problem.target,
        terms=written.terms,
        columns=written.columns,
        reference=written.references,
        with_intercept=problem.intercept or problem.factor is not None,
        solution=parts.coef,
        sampling=parts.sampling,
        noise=parts.noise,
        unidentified=parts.unidentified,
        robust=problem.robust and parts.method == "scores",
        n_rows=rows,
        refusal=parts.refusal,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=guarantee.adjacency,
        privacy=noise.privacy,
        parameters=parameters,
        reproducible=reproducible,
        unit=None if unit is None else unit.name,
        family=problem.family,
    )
