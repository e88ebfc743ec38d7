"""The door of a regression by scores: checks, the first pass, the spend, the fit and its record.

Secret side: the budget of `Study.regress` is spent here.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_process, check_room
from privgram._base.saved import save_paid
from privgram.adaptive.rules import UnreadError
from privgram.columns.unit import PrivateBound, Unit
from privgram.disclosure.norm_bound import BoundSelection, check_size
from privgram.disclosure.release import warn_of_weak
from privgram.disclosure.request import BYTES_OF_ENTRY
from privgram.glm.clipping import CLIPPING
from privgram.glm.instruments import InstrumentEstimator
from privgram.glm.levels import LevelEstimator
from privgram.glm.link import GLMEstimator, HuberEstimator
from privgram.glm.one_step import OneStepEstimator
from privgram.glm.pairs import PairEstimator, UnitEffectsEstimator
from privgram.glm.problem import FitParts, Problem, first_by_level, refused_parts
from privgram.glm.rounds import Rounds, UnitRounds
from privgram.glm.survival import SurvivalEstimator
from privgram.ledger import check_ledger
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.moment.units import bounds_of
from privgram.regression.glm import GLMResults
from privgram.regression.iv import IVResults
from privgram.regression.survival import SurvivalResults
from privgram.scan.executor import accumulate, accumulate_units, second_moment
from privgram.scan.request import ScanRequest
from privgram.secret import generators
from privgram.secret.gate import UNREADABLE, Gate
from privgram.sources.table import CachedSource

if TYPE_CHECKING:
    from privgram.ledger import Ledger
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.moment import SecondMoment
    from privgram.privacy.guarantee import Guarantee
    from privgram.scan.progress import Progress

#: Said where arithmetic ends in what is no number: what was paid for is a refused fit.
NO_NUMBER = (
    "the arithmetic did not end in finite numbers: columns may be constant, copies of each other "
    "or clamped to one value, or the noise too large for so few rows. Leave such columns out, "
    "describe wider bounds, or take a larger epsilon"
)

#: Said of a fit that was stopped early, where the ledger did not take back the rest.
KEPT = "the ledger could not be written again, and counts the whole epsilon as spent"


def fit_problem(
    source: Any,
    problem: Problem,
    guarantee: Guarantee,
    *,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress = False,
    cache_bytes: int | None = None,
    rng: np.random.Generator | None = None,
) -> GLMResults | IVResults:
    """Fit a regression of a table by scores, or by what is predicted to be better.

    The table is one that can be read again, by one machine. The bound of a unit that says neither
    it nor rows is chosen here. All that can be refused is refused before anything is spent; what
    goes wrong in the arithmetic after that ends in a refused fit.
    """
    check_ledger(ledger)
    beside = None if ledger is None else ledger.path
    path, pid = GLMResults._format.check_out(out, ledger=beside), os.getpid()
    problem.check()
    generator, reproducible = generators.resolve(rng)
    unit = problem.unit
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:
        source = dict(zip(problem.read.selected, source.T, strict=True))
    table = CachedSource(source, cache_bytes)
    scan = ScanRequest(table, problem.read, unit=unit, threads=threads, progress=progress)
    noise = AdaptiveGaussian().noise_for(guarantee, len(problem.scanned), problem.bound)
    if ledger is not None:  # before the pass
        ledger.check(noise.price)
    selection = None
    first: Any  # SECRET: the second moment, or counts of units by norm that choose their bound
    if (of := problem.factor or problem.clusters) is not None:
        first = first_by_level(of, scan)
    elif problem.chooses_bound:
        bins = CLIPPING.per_octave
        selection = BoundSelection(
            PrivateBound(1.0), scan, guarantee.adjacency, bins_per_octave=bins
        )
        first = selection.count()
    else:
        first = _second_moment(scan)
    known = first.n_rows + (first.n_dropped if unit is None else 0)
    public = known if guarantee.size_is_public else None
    check_size(public)
    if not reproducible:
        warn_of_weak(guarantee, public)
    if isinstance(table, CachedSource):
        table.check_again(first.n_rows + first.n_dropped)
    if path is not None:  # once more, after the pass, for what is spent now
        check_room(
            path, 3 * problem.n_written * (problem.n_written + 1) * BYTES_OF_ENTRY[path.suffix]
        )
    price = replace(noise.price, what=f"regress({problem.terms.target})")
    read, rounds_of = (accumulate, Rounds) if unit is None else (accumulate_units, UnitRounds)
    gate = Gate(
        noise,
        generator,
        lambda new: read(scan, new)[0],
        ledger=ledger,
        price=price,
    )
    rounds = rounds_of(first, noise, gate)
    rounds.clusters = problem.clusters
    estimator = None
    try:
        if problem.survival is not None and isinstance(problem.survival.cuts, int):
            assert isinstance(rounds, UnitRounds)
            problem = replace(problem, survival=rounds.cuts(source, problem.survival, scan))
            if selection is None:
                rounds.moment = _second_moment(scan)
        if selection is not None and isinstance(rounds, UnitRounds) and unit is not None:
            _bound_units(rounds, unit, problem, scan, selection, guarantee)
        with np.errstate(all="ignore"):
            estimator = _estimator(rounds, problem, public)
            parts = estimator.fit()
        if problem.purpose == "prediction" and not parts.stopped:  # a ridge always answers
            parts = replace(parts, refusal=None)
    except Exception as error:  # after the spend: a refused fit, whatever it is
        check_process(pid)
        if not rounds.spent:
            raise
        parts = refused_parts(problem.n_written, lost(error))
    if parts.stopped and ledger is not None:
        try:
            parts = _settled(parts, rounds, noise)
        except Exception as error:  # the ledger cannot be written, and keeps the whole
            check_process(pid)
            unsettled = f"{parts.refusal}; {KEPT} ({type(error).__name__})"
            parts = replace(parts, refusal=unsettled)
    fitted: GLMResults | IVResults
    if isinstance(estimator, InstrumentEstimator) and estimator.looked is not None:
        fitted = estimator.recorded(parts, reproducible)
    else:
        fitted = _recorded(problem, parts, rounds, guarantee, noise, public, reproducible)
    if path is not None:
        save_paid(fitted.save, path)
    return fitted


def _second_moment(scan: ScanRequest, unit: Unit | None = None) -> SecondMoment:
    """The exact second moment of a table, of its rows or of its units."""
    return second_moment(
        scan.source,
        columns=scan.columns,
        unit=unit or scan.unit,
        threads=scan.threads,
        progress=scan.progress,
    )


def _estimator(rounds: Rounds, problem: Problem, public: int | None) -> OneStepEstimator:
    """What goes through the rounds of a problem."""
    if problem.question is not None:
        return InstrumentEstimator(rounds, problem, public)
    if problem.factor is not None:
        absorbed = problem.factor.absorbed
        return (PairEstimator if absorbed else LevelEstimator)(rounds, problem, public)
    if problem.unit is not None and problem.unit.fixed_effects:
        return UnitEffectsEstimator(rounds, problem, public)
    if problem.survival is not None:
        return SurvivalEstimator(rounds, problem, public)
    estimator = OneStepEstimator if problem.family.is_linear else GLMEstimator
    return (HuberEstimator if problem.loss == "huber" else estimator)(rounds, problem, public)


def _settled(parts: FitParts, rounds: Rounds, noise: AdaptiveGaussianCalibration) -> FitParts:
    """Give back what a fit that was stopped did not spend, and say so."""
    spent = rounds.gate.stop()
    if spent is None:  # in a ledger that keeps the whole
        return parts
    epsilon = spent.epsilon(noise.delta)
    back = f"epsilon={epsilon:.2g} of {noise.epsilon:g} was spent, and the rest is back"
    return replace(parts, refusal=f"{parts.refusal}; {back}")


def lost(error: Exception) -> str:
    """Why there is no answer, where something failed after the spend."""
    if isinstance(error, (ArithmeticError, np.linalg.LinAlgError)):
        return NO_NUMBER
    if isinstance(error, UnreadError):
        return (
            f"the table could not be read again ({error}): ask once more, of a table that nobody "
            "writes to"
        )
    return (
        f"an error ended the computation ({type(error).__name__}), which is a defect of privgram: "
        "report it, with the formula and the described columns"
    )


def _bound_units(
    rounds: UnitRounds,
    unit: Unit,
    problem: Problem,
    scan: ScanRequest,
    selection: BoundSelection,
    guarantee: Guarantee,
) -> None:
    """Choose the bound of units by a released histogram, and read their second moment within it."""
    counted = rounds.moment
    unit = rounds.bounded(unit, selection.grid)
    columns = problem.columns
    rounds.moment = _second_moment(scan, unit)
    if rounds.moment.n_rows != counted.n_rows:
        raise UnreadError(UNREADABLE)
    bound = bounds_of(unit, columns.bound)[1]
    rounds.noise = AdaptiveGaussian().noise_for(guarantee, len(columns), bound)


def _recorded(
    problem: Problem,
    parts: FitParts,
    rounds: Rounds,
    guarantee: Guarantee,
    noise: AdaptiveGaussianCalibration,
    public: int | None,
    reproducible: bool,
) -> GLMResults:
    if not parts.is_finite:
        parts = refused_parts(problem.n_written, NO_NUMBER)
    unit = problem.unit
    parameters: dict[str, object] = {"rows_std": 0.0, "units": None if unit is None else public}
    parameters |= rounds.parameters
    parameters |= {
        "method": parts.method,
        "reason": parts.reason,
        "scale": parts.scale,
        "clipped_rows": parts.clipped_rows,
        "purpose": problem.purpose,
    }
    if problem.offset is not None:
        parameters["offset"] = problem.offset
    parameters |= {k: v for k, v in asdict(parts.facts).items() if v is not None}
    rows = parts.rows
    columns = problem.columns
    weighted = columns.row_weights is not None
    if weighted and public is not None and unit is None and columns.missing != "drop":
        rows = float(public)  # the ones have the sum of weights alone
        parameters["rows_std"] = 0.0
    written, survival = problem.written, problem.survival
    if survival is not None:
        parameters["survival"] = {
            "cuts": survival.placed().cuts,
            "strata": list(survival.strata),
            "chosen": survival.chosen,
        }
    fitted = (GLMResults if survival is None else SurvivalResults)(
        target=written.terms.target_text,
        terms=written.terms.texts or (),
        columns=written.columns,
        reference=dict(written.terms.references),
        with_intercept=written.terms.intercept,
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
        unit=None if unit is None else unit.name or None,
        family=problem.family.name,
        absorbed=tuple(x for x in written.terms.absorbed if x in (written.terms.texts or ())),
        by_level=parts.by_level,
    )
    if parts.refusal is None and problem.purpose == "inference":
        fitted = replace(fitted, refusal=fitted.inference.refusal)
    return fitted
