"""From a table, or its second moment, to a release: the one place where a budget is spent."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from privgram._base.checks import check_number, check_positive
from privgram._base.files import check_distinct, check_room
from privgram._release import Release
from privgram._release.groups import Releases
from privgram._release.record import FORM
from privgram.columns import Columns
from privgram.columns.groups import Groups, Unlisted
from privgram.columns.unit import name_of
from privgram.drawing import random
from privgram.drawing.norm_bound import Choice
from privgram.engines import check_rereadable, scale_out
from privgram.engines.threads import accumulate, asked_groups, grouped, pooled
from privgram.ledger import check_ledger
from privgram.mechanisms import (
    AnalyzeGauss,
    MatrixLaplace,
    Mechanism,
    Refined,
    default,
    named,
    true_delta,
)
from privgram.mechanisms.groups import calibrate_groups, check_groups
from privgram.mechanisms.looks import names_of
from privgram.moment.groups import SecondMoments
from privgram.moment.units import UnitPlan, by_unit
from privgram.sources.kept import Kept, room

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from privgram._base.checks import CalibrationKind
    from privgram.columns.unit import Clip
    from privgram.columns.variables import Factor, Level
    from privgram.drawing.refined import Reread
    from privgram.ledger import Ledger
    from privgram.mechanisms.norm_bound import NormBound
    from privgram.moment import SecondMoment
    from privgram.privacy import Adjacency, Profile

__all__ = ["release", "release_groups", "release_moment"]

#: Above these there is a warning: e^20 is half a billion, and nobody's row should leak as often
#: as once in a hundred releases.
LARGE_EPSILON, LARGE_DELTA = 20.0, 1e-2

#: Bytes that a saved entry of a matrix takes, at most.
BYTES = {".json": 32, ".npz": 8}


@overload
def release(
    source: Any,
    mechanism: Mechanism | str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    columns: Columns | Sequence[str] | None = None,
    bound: Any = None,
    bound_epsilon: float | None = None,
    bound_quantile: float | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    cache: bool | int = True,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    allow_published_erratum: bool = False,
    unit: Any = None,
    unit_bound: float | Literal["auto"] | None = None,
    rows_per_unit: int | None = None,
    clip: Clip = "frobenius",
    within: bool = False,
    unit_missing: Literal["error", "drop"] = "error",
    by: None = None,
) -> Release: ...
@overload
def release(
    source: Any,
    mechanism: Mechanism | str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    columns: Columns | Sequence[str] | None = None,
    bound: Any = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    cache: bool | int = True,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    allow_published_erratum: bool = False,
    by: str,
    groups: Sequence[Level] | Factor | None = None,
    unlisted: Unlisted = "drop",
) -> Releases: ...
def release(
    source: Any,
    mechanism: Mechanism | str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    columns: Columns | Sequence[str] | None = None,
    bound: Any = None,
    bound_epsilon: float | None = None,
    bound_quantile: float | None = None,
    threads: int | None = None,
    progress: bool | Callable[[int, int | None], object] = False,
    cache: bool | int = True,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    allow_published_erratum: bool = False,
    unit: Any = None,
    unit_bound: float | Literal["auto"] | None = None,
    rows_per_unit: int | None = None,
    clip: Clip = "frobenius",
    within: bool = False,
    unit_missing: Literal["error", "drop"] = "error",
    by: str | None = None,
    groups: Sequence[Level] | Factor | None = None,
    unlisted: Unlisted = "drop",
) -> Release | Releases:
    """Release the second moment of a table, or of each of its groups, under differential privacy.

    Parameters
    ----------
    source : table, SecondMoment or SecondMoments
        Whatever `second_moment` reads: an array of shape (n, d), a path, a data frame, an Arrow
        stream, blocks of these. Or a second moment that was made already.
    mechanism : Mechanism or str, optional
        With its parameters, or its name alone: "analyze-gauss". By default the one that
        `privgram.plan` says to take: `AnalyzeGauss`, or `AdditiveWishart` where publicly few
        rows might leave the release without a positive definite matrix, and `MatrixLaplace`
        where delta is 0. `Refined` reads the table up to five times, for regressions with far
        less noise.
    epsilon, delta : float
        The guarantee; must be given.
    adjacency, calibration, rng, allow_published_erratum
        As in `Mechanism.release`.
    columns, threads, progress
        As in `second_moment`.
    cache : bool or int
        Whether rows that were decoded from Parquet or CSV files stay in memory until the release
        is made, where it takes several passes: while they take less than a quarter of the
        machine's memory (of the container's, if that is limited), or than so many bytes; or
        never. They are written nowhere. The release is the same.
    bound : float or "auto", optional
        L2 bound of a row, as in `second_moment`. "auto" chooses it by the table, as
        `private_norm_bound` does, which reads the table twice and costs `bound_epsilon`; one bound
        for all groups, by the rows that are of one.
    bound_epsilon : float, optional
        With ``bound="auto"`` or ``unit_bound="auto"``: privacy parameter of the choice, > 0, spent
        besides `epsilon`. The release states both together.
    bound_quantile : float, optional
        With these: part of the rows, or units, not to be shortened, in (0, 1). By default 0.95
        of the rows, and half of the units: the factors of units leave slopes as they are where
        units are alike, and the noise is smaller.
    ledger : Ledger, optional
        Budget to enter the release in, durably, before its noise is drawn.
    out : path-like, optional
        File to save the release to, `.json` or `.npz`. That it can be written is made sure of
        before anything is spent. An existing file is replaced.
    unit, rows_per_unit, clip, within, unit_missing
        As in `second_moment`: whose rows are protected together. The guarantee is then for all
        rows of one unit. With ``clip="frobenius"`` for `AnalyzeGauss`; with "trace" for
        `MatrixLaplace` too, and for `AdditiveWishart` under "add-remove".
    unit_bound : float or "auto", optional
        As in `second_moment`; "auto" chooses it by the table, as `private_norm_bound` does.
    by, groups, unlisted
        As in `second_moment`: all groups are released at this one guarantee, which is of all of
        them together and one entry of the ledger. A `SecondMoments` has its groups.

    Returns
    -------
    Release, or Releases of groups

    Raises
    ------
    TypeError
        If epsilon or delta is missing, or as in `Mechanism.release`.
    ValueError
        If there is no mechanism of that name, a guarantee cannot be met or paid for, or as in
        `second_moment`. Nothing is spent then.
    OSError
        If the table cannot be read, or the ledger or `out` written.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> table = np.random.default_rng(0).uniform(0, 1, (10_000, 2))
    >>> columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    >>> made = pg.release(table, columns=columns, epsilon=1.0, delta=1e-6)
    >>> made.mechanism
    AnalyzeGauss(noise='symmetric', repair='none')
    """
    chosen = named(mechanism)
    if epsilon is None or delta is None:
        missing = "epsilon" if epsilon is None else "delta"
        raise TypeError(
            f"{missing} must be a number, not missing: release(table, epsilon=1.0, delta=1e-6)"
        )
    setting = epsilon, delta, adjacency, calibration
    automatic = unit_bound == "auto"
    unit_given: Any = None if automatic else unit_bound
    plan = by_unit(unit, unit_given, rows_per_unit, clip, within, unit_missing)
    if plan is not None and bound == "auto":
        raise ValueError('bound="auto" looks at single rows, not at units: take unit_bound="auto"')
    if plan is not None:
        plan.check_rows(bound)
    if automatic and plan is None:
        raise ValueError(
            'unit_bound="auto" is for a unit: say by unit which column tells whose row a row is'
        )
    of_groups = _groups(source, by, groups, unlisted, plan, chosen, adjacency)
    path = None if out is None else Path(out)
    if path is not None:
        FORM.check_suffix(path)
        check_ledger(ledger)
        taken = {
            "ledger": None if ledger is None else ledger.path,
            "out": path,
        }
        check_distinct({}, taken)
        check_room(path)
    if hasattr(source, "sensitivity_bound") or isinstance(source, SecondMoments):
        if not (columns is None and bound is None and bound_epsilon is None):
            raise TypeError(
                "a SecondMoment has its columns and bound: leave out columns, bound and "
                "bound_epsilon"
            )
        if plan is not None:
            raise ValueError(
                "a SecondMoment no longer knows whose rows are whose: pass the table with its unit"
            )
        moment, reread = source, None
    else:
        asked = _Asked(setting, chosen, ledger, allow_published_erratum, plan, of_groups)
        wanted = "auto" if automatic else bound
        of_units = (bound, plan) if automatic else (None, None)
        auto = _auto(source, wanted, bound_epsilon, bound_quantile, adjacency, columns, *of_units)
        if _rereads(chosen):
            check_rereadable(source, "Refined() reads", ", or take AnalyzeGauss()")
        in_memory = plan is not None and plan.keys is not None
        several = auto is not None or _rereads(chosen)
        if several and scale_out(source) is None and not in_memory:
            source = Kept(source, room(cache))
        reread = _reread(chosen, source, columns, threads, progress)
        selected = None if bound == "auto" else bound
        if isinstance(columns, Columns):  # before the pass over the table
            if isinstance(chosen, Refined):
                chosen.check_names(columns.names)
            given = columns.bound if selected is None else selected
            if plan is not None and auto is None:
                given = plan.bounds(given)[1]
            asked.check(len(columns), given, auto)
        if auto is not None:
            counts = auto.count(source, threads, progress, of_groups)
            if not isinstance(columns, Columns):
                asked.check(counts.n_columns, auto.grid[0], auto)
            found = auto.draw(counts, rng, ledger)
            if plan is None:
                selected = found
            else:
                plan = replace(plan, bound=found)
        if of_groups is not None:
            moments = grouped(source, selected, columns, threads, progress, of_groups)
            moment = moments
        else:
            moment = pooled(source, selected, columns, threads, progress, plan)
    if path is not None:  # once more, after the pass, for what is spent now
        matrices = 1 if of_groups is None else len(of_groups)
        check_room(path, matrices * moment.n_columns**2 * BYTES[path.suffix])
    if chosen is None:
        public = adjacency == "replace" and of_groups is None and moment.privacy_unit is None
        n_rows = moment.n_rows + moment.n_dropped if public else None
        chosen = default(moment.n_columns, float(moment.bound), epsilon, delta, n_rows, adjacency)
    made: Release | Releases
    if of_groups is not None:
        made = release_groups(
            chosen,
            moment,
            *setting,
            rng,
            allow_published_erratum=allow_published_erratum,
            ledger=ledger,
        )
    else:
        made = release_moment(
            chosen,
            moment,
            *setting,
            rng,
            allow_published_erratum=allow_published_erratum,
            ledger=ledger,
            reread=reread,
        )
    if path is not None:
        made.save(path)
    return made


def release_moment(
    mechanism: Mechanism,
    moment: SecondMoment,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    allow_published_erratum: bool = False,
    ledger: Ledger | None = None,
    reread: Reread | None = None,
    purpose: str = "",
) -> Release:
    """Release a second moment by a mechanism: `Mechanism.release`, which documents it.

    `reread` reads the rows of it again, for mechanisms that need them; the ledger has `purpose`.
    """
    if not hasattr(moment, "sensitivity_bound"):
        raise TypeError(
            "what a mechanism releases is a SecondMoment, as second_moment(table, ...) makes it, "
            f"not {type(moment).__name__}; pg.release(table, ...) takes a table"
        )
    if reread is None and _rereads(mechanism):
        raise TypeError(
            "Refined() reads the table again, and a SecondMoment has no rows to read: pass the "
            "table itself to pg.release, or take AnalyzeGauss()"
        )
    # Of a group it is private: a neighbour may have one row fewer in it.
    public = adjacency == "replace" and not getattr(moment, "of_group", False)
    n_rows = moment.n_rows + moment.n_dropped if public else None
    setting = epsilon, delta, adjacency, calibration, allow_published_erratum
    [made] = _released(
        mechanism, [moment], setting, rng, ledger, n_rows, reread=reread, purpose=purpose
    )
    return made


def release_groups(
    mechanism: Mechanism,
    moments: SecondMoments,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    calibration: CalibrationKind = "exact",
    rng: np.random.Generator | None = None,
    *,
    allow_published_erratum: bool = False,
    ledger: Ledger | None = None,
) -> Releases:
    """Release the second moments of all groups by a mechanism, at one guarantee for all together.

    As in `release_moment`. The number of rows of a group is private under either notion of
    neighbours.
    """
    check_groups(mechanism, adjacency)
    n_rows = moments.n_rows + moments.n_dropped if adjacency == "replace" else None
    setting = epsilon, delta, adjacency, calibration, allow_published_erratum
    made = _released(
        mechanism, moments.values(), setting, rng, ledger, n_rows, groups=moments.groups
    )
    return Releases(moments.groups, made, n_rows)


def _released(
    mechanism: Mechanism,
    moments: Sequence[SecondMoment],
    setting: tuple[float, float, Adjacency, CalibrationKind, bool],
    rng: np.random.Generator | None,
    ledger: Ledger | None,
    n_rows: int | None,
    *,
    groups: Groups | None = None,
    reread: Reread | None = None,
    purpose: str = "",
) -> list[Release]:
    """Release second moments, of one table or of its groups, by one entry of the ledger.

    `n_rows` are those of the table, where they are public.
    """
    from privgram.drawing.additive import check_generator
    from privgram.drawing.draws import draw
    from privgram.privacy.coupled import delta_fp_of

    epsilon, delta, adjacency, calibration, allow_published_erratum = setting
    moment = moments[0]
    check_ledger(ledger)
    if isinstance(mechanism, Refined):
        mechanism.check_names(names_of(moment))
    chosen: NormBound | None = moment.norm_bound
    unit = moment.privacy_unit
    if chosen is not None:
        chosen.check(adjacency, None if unit is None else unit.name)
        check_positive(check_number(epsilon, "epsilon") + chosen.epsilon, "epsilon, in all,")
    check_generator(mechanism, rng)
    generator, reproducible = random.resolve(rng)
    # Of rows, or of units; of these nothing in a mechanism turns on the number.
    if unit is not None:
        mechanism.check_unit(unit, adjacency)
    # Quantised rows may exceed the bound by a few parts in a million.
    wanted = moment.n_columns, moment.sensitivity_bound, epsilon, delta, adjacency, calibration
    allowed: dict[str, Any] = {"allow_published_erratum": allow_published_erratum}
    what = str(mechanism)
    if groups is None:
        noise = mechanism.calibrate(*wanted, n_rows if unit is None else None, **allowed)
        what += "" if unit is None else ", for all rows of a unit"
    else:
        noise = calibrate_groups(mechanism, *wanted, **allowed)
        what += f" for each of {len(groups)} groups by {groups.by}"
    if not reproducible:  # those are experiments, and are marked as not private
        warn_of_weak(noise.epsilon, noise.delta, n_rows)
    if ledger is not None:
        known = chosen is None or mechanism.scale_free
        privacy = noise.privacy if known else None
        delta_fp = delta_fp_of(noise) if known else 0.0
        paid = float(epsilon), true_delta(noise)
        if chosen is not None:
            # Both, or neither: a choice that is paid for is of no use without the release.
            if chosen.id not in (entry.id for entry in ledger.entries):
                whose = name_of(unit)
                _check_both(ledger, chosen, *paid, adjacency, privacy, delta_fp, unit=whose)
            chosen.charge(ledger)
        ledger.spend(
            *paid,
            adjacency=adjacency,
            privacy=privacy,
            delta_fp=delta_fp,
            what=what + purpose,
            condition=mechanism.condition,
            unit=name_of(unit),
        )
    more = {} if reread is None else {"reread": reread}
    made = []
    for moment in moments:
        matrix, law, extra = draw(mechanism, moment, noise, generator, **more)
        one = Release(
            matrix=matrix,
            names=names_of(moment),
            mechanism=mechanism,
            parameters=noise.own() | extra.pop("parameters", {}),
            noise=law,
            epsilon=float(epsilon),
            delta=float(delta if not allow_published_erratum else true_delta(noise)),
            adjacency=adjacency,
            calibration=calibration,
            privacy=noise.privacy,
            bound=float(moment.bound),
            n_rows=n_rows if groups is None and unit is None else None,
            columns=moment.columns,
            reproducible=reproducible,
            condition=mechanism.condition,
            privacy_unit=unit,
            n_units=None if unit is None else n_rows,
            **extra,
        )
        made.append(one if chosen is None else one.including(chosen))
    return made


Mechanism._release = staticmethod(release_moment)


class _Asked:
    """A guarantee that is asked for, refused before anything is read or spent if it must be."""

    def __init__(
        self,
        setting: tuple[float, float, Adjacency, CalibrationKind],
        mechanism: Mechanism | None,
        ledger: Ledger | None,
        allow_published_erratum: bool,
        plan: UnitPlan | None = None,
        groups: Groups | None = None,
    ) -> None:
        check_ledger(ledger)
        self.setting = setting
        # By default another may be taken in the end, which spends no more.
        by_default = AnalyzeGauss() if setting[1] else MatrixLaplace()
        self.mechanism = by_default if mechanism is None else mechanism
        if plan is not None:
            self.mechanism.check_unit(plan.unit, setting[2])
        self.ledger = ledger
        self.unit = name_of(None if plan is None else plan.unit)
        self.allowed: dict[str, Any] = {"allow_published_erratum": allow_published_erratum}
        self.groups = groups

    def check(self, n_columns: int, bound: Any, choice: Choice | None) -> None:
        """Raise ValueError if it cannot be met, or paid for, over tables of this shape."""
        from privgram.privacy.coupled import delta_fp_of

        epsilon, delta, adjacency, _ = self.setting
        wanted = n_columns, check_number(bound, "bound"), *self.setting
        if self.groups is not None:
            noise = calibrate_groups(self.mechanism, *wanted, **self.allowed)
        else:
            # Not known yet, and no guarantee turns on it.
            n_rows = 10**6 if adjacency == "replace" else None
            noise = self.mechanism.calibrate(*wanted, n_rows, **self.allowed)
        if self.ledger is None:
            return
        asked = epsilon, delta, adjacency
        if choice is None:
            delta_fp = delta_fp_of(noise)
            self.ledger.check(
                epsilon,
                delta,
                adjacency=adjacency,
                privacy=noise.privacy,
                delta_fp=delta_fp,
                unit=self.unit,
            )
        elif self.mechanism.scale_free:
            known = noise.privacy, delta_fp_of(noise)
            _check_both(self.ledger, choice, *asked, *known, unit=self.unit)
        else:
            _check_both(self.ledger, choice, *asked, None, unit=self.unit)


def _check_both(
    ledger: Ledger,
    choice: Choice | NormBound,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    profile: Profile | None,
    delta_fp: float = 0.0,
    unit: str = "",
) -> None:
    """Raise BudgetExceeded unless there is room for the choice of a bound and a release."""
    from privgram.privacy import StatedProfile, compose

    if profile is None:
        profile = StatedProfile(epsilon, delta, adjacency)
    ledger.check(
        choice.epsilon + epsilon,
        delta,
        adjacency=adjacency,
        privacy=compose([choice.privacy, profile]),
        delta_fp=delta_fp,
        unit=unit,
    )


def _auto(
    source: Any,
    bound: Any,
    epsilon: float | None,
    quantile: float | None,
    adjacency: Adjacency,
    columns: Columns | Sequence[str] | None,
    row_bound: float | None = None,
    plan: UnitPlan | None = None,
) -> Choice | None:
    """The choice of the bound that is asked for, if one is."""
    if bound != "auto":
        if isinstance(bound, str):
            raise ValueError(f'bound is a number or "auto", not {bound!r}')
        if epsilon is not None:
            raise ValueError('bound_epsilon is what bound="auto" spends; there is none')
        return None
    if epsilon is None:
        raise ValueError('bound="auto" spends privacy: say how much by bound_epsilon')
    check_rereadable(source, 'bound="auto" reads')
    return Choice(
        epsilon, quantile, adjacency=adjacency, columns=columns, row_bound=row_bound, plan=plan
    )


def _groups(
    source: Any,
    by: str | None,
    groups: Any,
    unlisted: str,
    plan: UnitPlan | None,
    mechanism: Mechanism | None,
    adjacency: Adjacency,
) -> Groups | None:
    """The groups that are asked for, or that second moments have; what cannot be is refused."""
    if isinstance(source, SecondMoments):
        if not (by is None and groups is None):
            raise TypeError("SecondMoments have their groups: leave out by and groups")
        found: Groups | None = source.groups
    else:
        found = asked_groups(by, groups, unlisted, plan)
        if found is not None and hasattr(source, "sensitivity_bound"):
            raise TypeError(
                "a SecondMoment is the sum of all rows and cannot be taken apart: pass the table "
                "itself"
            )
    if found is None:
        return None
    if mechanism is not None:
        check_groups(mechanism, adjacency)
    return found


def _rereads(mechanism: Mechanism | None) -> bool:
    return isinstance(mechanism, Refined) and mechanism.most_looks > 1


def _reread(
    mechanism: Mechanism | None,
    source: Any,
    columns: Columns | Sequence[str] | None,
    threads: int | None,
    progress: bool | Callable[[int, int | None], object],
) -> Reread | None:
    """What reads the rows of a source again, if the mechanism does."""
    if not _rereads(mechanism):
        return None

    def again(new: Callable[[int], Any]) -> Any:
        return accumulate(source, columns, threads, progress, new)[0]

    return again


def warn_of_weak(epsilon: float, delta: float, n_rows: int | None) -> None:
    """Say what a guarantee means that protects hardly anyone; `n_rows` only if it is public."""
    if epsilon > LARGE_EPSILON:
        warnings.warn(
            f"epsilon={epsilon:g} protects hardly anyone: a release may be e^{epsilon:g} times as "
            "likely with somebody's row as with another. About 1 is common, and above 10 little "
            "is left",
            stacklevel=5,
        )
    if delta > LARGE_DELTA or (n_rows and delta > 1 / n_rows):
        warnings.warn(
            f"delta={delta:g} promises little: with that probability the guarantee may fail "
            "altogether, and from 1 / rows on it allows publishing somebody's row as it is. Take "
            "it far below",
            stacklevel=5,
        )
