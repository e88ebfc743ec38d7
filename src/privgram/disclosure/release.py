"""From a table, or its second moment, to a release: the one place where a budget is spent."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, overload

from privgram._base.files import check_distinct, check_room
from privgram._base.numbers import Adjacency, check_number, check_positive
from privgram._base.saved import save_paid
from privgram._base.text import warn
from privgram.adaptive.rounds import names_of
from privgram.columns.groups import Groups
from privgram.columns.unit import Guarantee
from privgram.disclosure import generators
from privgram.disclosure.norm_bound import BoundSelection, check_size
from privgram.ledger import check_ledger
from privgram.mechanisms import (
    AdaptiveGaussian,
    AnalyzeGauss,
    Calibration,
    MatrixLaplace,
    Mechanism,
    best,
    calibrate_groups,
    check_groups,
    default,
    named,
    taken,
    true_delta,
)
from privgram.moment.grouped import SecondMoments
from privgram.moment.second_moment import SecondMoment
from privgram.moment.units import bounds_of
from privgram.releases.groups import Releases
from privgram.releases.record import RELEASE_FORMAT
from privgram.releases.release import Release
from privgram.scan.executor import accumulate, total_of
from privgram.scan.progress import Progress
from privgram.scan.request import WHOLE, ScanRequest, check_rereadable, scale_out
from privgram.sources.table import CachedSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    import numpy as np

    from privgram.columns import Columns
    from privgram.columns.unit import PrivateBound, Unit
    from privgram.disclosure.samplers import Reread
    from privgram.ledger import Ledger
    from privgram.mechanisms import Purpose
    from privgram.mechanisms.norm_bound import NormBound
    from privgram.privacy import Profile

#: Above these there is a warning: e^20 is half a billion, and nobody's row should leak as often
#: as once in a hundred releases.
LARGE_EPSILON, LARGE_DELTA = 20.0, 1e-2

#: Bytes that a saved entry of a matrix takes, at most.
BYTES_OF_ENTRY = {".json": 32, ".npz": 8}


class RunOptions(TypedDict, total=False):
    """How a table is read, and where what is made of it goes."""

    ledger: Ledger | None
    out: str | os.PathLike[str] | None
    threads: int | None
    progress: Progress
    rng: np.random.Generator | None


class CachedRunOptions(RunOptions, total=False):
    """The same, with a cap of the rows that stay in memory between passes."""

    cache_bytes: int | None


class ReleaseOptions(RunOptions, total=False):
    """What `release` takes besides a table, its columns, a guarantee and groups."""

    mechanism: Mechanism | str | None
    adjacency: Adjacency
    bound: float | PrivateBound | None
    unit: Unit | str | Any


@overload
def release(
    source: Any,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    by: None = None,
    **options: Unpack[ReleaseOptions],
) -> Release: ...
@overload
def release(
    source: Any,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    by: Groups | str,
    **options: Unpack[ReleaseOptions],
) -> Releases: ...
def release(
    source: Any,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    mechanism: Mechanism | str | None = None,
    adjacency: Adjacency = "replace",
    bound: float | PrivateBound | None = None,
    unit: Unit | str | Any = None,
    by: Groups | str | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress = False,
    rng: np.random.Generator | None = None,
) -> Release | Releases:
    """Release the second moment of a table, or of each of its groups, under differential privacy.

    Parameters
    ----------
    source : table, SecondMoment or SecondMoments
        Whatever `second_moment` reads: an array of shape (n, d), a path, a data frame, an Arrow
        stream, blocks of these. Or a second moment that was made already.
    columns : Columns, mapping or sequence of str, optional
        As in `second_moment`.
    epsilon, delta : float
        The guarantee; must be given.
    mechanism : Mechanism or str, optional
        With its parameters, or its name alone: "analyze-gauss". By default the best for the
        purpose on this table; the release says so by `method` and `reason`. That is
        `AdaptiveGaussian`, which reads the table up to five times, for regressions on rows with
        public `Columns` that can be read again. Else one round: `AnalyzeGauss`, or
        `AdditiveWishart` where publicly few rows might leave the release without a positive
        definite matrix, and `MatrixLaplace` where delta is 0. `Study.release` has other purposes
        than regressions.
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours: one row replaced (their number is public), or one row added
        or removed (it is private).
    bound : float or PrivateBound, optional
        L2 bound of a row, as in `second_moment`. `PrivateBound` has it chosen by the table, as
        `private_norm_bound` does, which reads the table once more and costs its epsilon besides;
        one bound for all groups, by the rows that are of one.
    unit : Unit or str, optional
        As in `second_moment`: whose rows are protected together. The guarantee is then for all
        rows of one unit. With ``clip="frobenius"`` for `AnalyzeGauss`; with "trace" for
        `MatrixLaplace` too, and for `AdditiveWishart` under "add-remove".
    by : Groups or str, optional
        As in `second_moment`: all groups are released at this one guarantee, which is of all of
        them together and one entry of the ledger. A `SecondMoments` has its groups.
    ledger : Ledger, optional
        Budget to enter the release in, durably, before its noise is drawn.
    out : path-like, optional
        File to save the release to, `.json` or `.npz`. That it can be written is made sure of
        before anything is spent. An existing file is replaced.
    threads, progress
        As in `second_moment`.
    rng : numpy.random.Generator, optional
        For experiments only: the release is then marked `reproducible`. By default a
        cryptographic generator, keyed by the operating system.

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

    Notes
    -----
    Rows that were decoded from files stay in memory between passes, where there are several: up to
    a gigabyte, or a quarter of the memory if that is less. `Study` has `cache_bytes` for another
    cap. They are written nowhere.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> table = np.random.default_rng(0).uniform(0, 1, (10_000, 2))
    >>> columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    >>> made = pg.release(table, columns, epsilon=1.0, delta=1e-6)
    >>> made.method, made.reason
    ('adaptive rounds', 'the table can be read again')
    """
    return release_for(
        "regression",
        source,
        columns,
        Guarantee.of(epsilon, delta, adjacency, "release(table, epsilon=1.0, delta=1e-6)"),
        mechanism=mechanism,
        bound=bound,
        unit=unit,
        by=by,
        ledger=ledger,
        out=out,
        threads=threads,
        progress=progress,
        rng=rng,
    )


def release_for(
    purpose: Purpose,
    source: Any,
    columns: Columns | Mapping[str, Any] | Sequence[str] | None,
    guarantee: Guarantee,
    *,
    mechanism: Mechanism | str | None = None,
    bound: float | PrivateBound | None = None,
    unit: Unit | str | Any = None,
    by: Groups | str | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress = False,
    cache_bytes: int | None = None,
    rng: np.random.Generator | None = None,
) -> Release | Releases:
    """Release for a purpose, by which the mechanism is chosen; else as `release`."""
    _check_order(columns)
    chosen = named(mechanism)
    path = None if out is None else Path(out)
    if path is not None:
        RELEASE_FORMAT.check_suffix(path)
        check_ledger(ledger)
        check_distinct({}, {"ledger": None if ledger is None else ledger.path, "out": path})
        check_room(path)
    moment: Any
    reread: Reread | None = None
    reason = ""
    if isinstance(source, SecondMoment | SecondMoments):
        _check_made(source, columns, bound, unit, by)
        moment = source
    else:
        asked = ScanRequest.of(
            source, columns, bound, unit, by, threads, progress, guarantee.adjacency
        )
        if asked.unit is not None:
            guarantee = replace(guarantee, unit=asked.unit.protected)
        if chosen is None:
            chosen, reason = best(source, asked.scaling, guarantee, purpose, asked.groups)
        moment, reread = _read(
            asked, _Asked(guarantee, chosen, ledger, asked.groups), rng, cache_bytes
        )
        if guarantee.size_is_public:  # and so is whether there are rows
            check_size(moment.n_rows + moment.n_dropped)
    many = isinstance(moment, SecondMoments)
    if path is not None:  # once more, after the pass, for what is spent now
        matrices = len(moment) if many else 1
        check_room(path, matrices * moment.n_columns**2 * BYTES_OF_ENTRY[path.suffix])
    if chosen is None:
        public = not many and moment.privacy_unit is None and not moment.of_group
        public = public and guarantee.adjacency == "replace"
        n_rows = moment.n_rows + moment.n_dropped if public else None
        chosen = default(guarantee, moment.n_columns, float(moment.bound), n_rows)
    made: Release | Releases
    if many:
        made = release_groups(chosen, moment, guarantee, rng, ledger=ledger)
    else:
        made = release_moment(chosen, moment, guarantee, rng, ledger=ledger, reread=reread)
    if reason and isinstance(made, Release):
        made = replace(made, parameters=made.parameters | taken(made.parameters, reason))
    if path is not None:
        save_paid(made.save, path)
    return made


def _check_order(columns: Any) -> None:
    """Refuse a mechanism, or its class, in the place of the columns."""
    kind = columns if isinstance(columns, type) else type(columns)
    if issubclass(kind, Mechanism):
        raise TypeError(
            "the second argument is the columns, and the mechanism goes by its name: "
            "release(table, columns, epsilon, delta, mechanism=AnalyzeGauss())"
        )


def _check_made(source: Any, columns: Any, bound: Any, unit: Any, by: Any) -> None:
    """Refuse what a second moment has already, or no longer knows."""
    many = isinstance(source, SecondMoments)
    has, knows = (
        ("SecondMoments have their", "SecondMoments no longer know")
        if many
        else ("a SecondMoment has its", "a SecondMoment no longer knows")
    )
    if by is not None:
        if many:
            raise TypeError(f"{has} groups: leave out by")
        raise TypeError(WHOLE)
    if columns is not None or bound is not None:
        raise TypeError(f"{has} columns and bound: leave out columns and bound")
    if unit is not None:
        raise ValueError(f"{knows} whose rows are whose: pass the table with its unit")


def _read(
    asked: ScanRequest, wanted: _Asked, rng: np.random.Generator | None, cache_bytes: int | None
) -> Any:
    """The second moment of a table, or of its groups, and what reads it again.

    What cannot be met or paid for is refused before the table is read, where its columns are known.
    """
    mechanism, ledger = wanted.chosen, wanted.ledger
    auto, unit = asked.auto, asked.unit
    choice = None
    if auto is not None:
        check_rereadable(asked.source, "PrivateBound() reads")
        choice = BoundSelection(auto, asked, wanted.guarantee.adjacency)
    if _rereads(mechanism):
        check_rereadable(asked.source, "AdaptiveGaussian() reads", ", or take AnalyzeGauss()")
    in_memory = unit is not None and unit.values is not None
    several = auto is not None or _rereads(mechanism)
    kept: CachedSource | None = None
    if several and scale_out(asked.source) is None and not in_memory:
        kept = CachedSource(asked.source, cache_bytes)
        asked = replace(asked, source=kept)
    columns = asked.scaling
    if columns is not None:  # before the pass over the table
        if isinstance(mechanism, AdaptiveGaussian):
            mechanism.check_names(columns.names)
        if choice is not None:
            wanted.check(len(columns), columns.bound, choice)
        else:
            bound = asked.row_bound if unit is None else bounds_of(unit, asked.row_bound)[1]
            wanted.check(len(columns), bound, None)
    if choice is not None:
        choice.asked = asked
        counts = choice.count()
        if kept is not None:
            kept.check_again()
        if columns is None:
            wanted.check(counts.n_columns, choice.grid[0], choice)
        found = choice.draw(counts, rng, ledger)
        if unit is None:
            asked = replace(asked, bound=found)
        else:
            asked = replace(asked, unit=unit.bounded(found))

    def again(new: Callable[[int], Any]) -> Any:
        return accumulate(asked, new)[0]

    total = total_of(asked)
    if kept is not None and _rereads(mechanism):
        kept.check_again()
    return total, again if _rereads(mechanism) else None


def release_moment(
    mechanism: Mechanism,
    moment: SecondMoment,
    guarantee: Guarantee,
    rng: np.random.Generator | None = None,
    *,
    ledger: Ledger | None = None,
    reread: Reread | None = None,
    purpose: str = "",
) -> Release:
    """Release a second moment by a mechanism: `Mechanism.release`, which documents it.

    `reread` reads the rows of it again, for mechanisms that need them; the ledger has `purpose`.
    """
    if not isinstance(moment, SecondMoment):
        raise TypeError(
            "what a mechanism releases is a SecondMoment, as second_moment(table, ...) makes it, "
            f"not {type(moment).__name__}; pg.release(table, ...) takes a table"
        )
    if reread is None and _rereads(mechanism):
        raise TypeError(
            "AdaptiveGaussian() reads the table again, and a SecondMoment has no rows to read: "
            "pass the table itself to pg.release, or take AnalyzeGauss()"
        )
    guarantee = replace(guarantee, unit=moment.privacy_unit)
    # Of a group it is private: a neighbour may have one row fewer in it.
    public = guarantee.size_is_public and not moment.of_group
    n_rows = moment.n_rows + moment.n_dropped if public else None
    [made] = _released(
        mechanism, [moment], guarantee, rng, ledger, n_rows, reread=reread, purpose=purpose
    )
    return made


def release_groups(
    mechanism: Mechanism,
    moments: SecondMoments,
    guarantee: Guarantee,
    rng: np.random.Generator | None = None,
    *,
    ledger: Ledger | None = None,
) -> Releases:
    """Release the second moments of all groups by a mechanism, at one guarantee for all together.

    As in `release_moment`. The number of rows of a group is private under either notion of
    neighbours.
    """
    guarantee = replace(guarantee, unit=moments.privacy_unit)
    check_groups(mechanism, guarantee)
    # A unit counts in each of its groups, so the sum is not the number of units.
    public = guarantee.adjacency == "replace" and guarantee.unit is None
    n_rows = moments.n_rows + moments.n_dropped if public else None
    made = _released(
        mechanism, moments.values(), guarantee, rng, ledger, n_rows, groups=moments.groups
    )
    return Releases(moments.groups, made, n_rows)


def _released(
    mechanism: Mechanism,
    moments: Sequence[SecondMoment],
    guarantee: Guarantee,
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
    from privgram.disclosure.samplers import draw

    moment, unit = moments[0], guarantee.unit
    check_ledger(ledger)
    if isinstance(mechanism, AdaptiveGaussian):
        mechanism.check_names(names_of(moment))
    chosen: NormBound | None = moment.norm_bound
    if chosen is not None:
        chosen.check(guarantee)
        check_positive(guarantee.epsilon + chosen.epsilon, "epsilon, in all,")
    generator, reproducible = generators.resolve(rng)
    mechanism.check_unit(guarantee)
    what = str(mechanism)
    noise = noise_of(mechanism, guarantee, moment, n_rows, of_groups=groups is not None)
    if groups is not None:
        what += f" for each of {len(groups)} groups by {groups.by}"
    elif unit is not None:
        what += ", for all rows of a unit"
    if not reproducible:  # those are experiments, and are marked as not private
        warn_of_weak(guarantee, n_rows)
    if ledger is not None:
        paid, known = replace(guarantee, delta=true_delta(noise)), _known(mechanism, noise, chosen)
        if chosen is not None:
            # Both, or neither: a choice that is paid for is of no use without the release.
            if chosen.id not in (entry.id for entry in ledger.entries):
                _check(ledger, chosen, paid, **known)
            chosen.charge(ledger)
        known |= {"what": what + purpose, "condition": mechanism.condition}
        ledger.spend(**paid.price, **known)
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
            epsilon=guarantee.epsilon,
            delta=mechanism.reached(noise),
            adjacency=guarantee.adjacency,
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


def noise_of(
    mechanism: Mechanism,
    guarantee: Guarantee,
    moment: SecondMoment,
    n_rows: int | None = None,
    *,
    of_groups: bool = False,
    moved: float = 1.0,
) -> Any:
    """The noise that a second moment is released with: no other calibration meets a table.

    What a row or a unit adds may be longer than the bound by a few parts in a million, since it is
    quantised: noise is for what is added. `moved` is how many times as far it moves what noise is
    added to, where that is a linear map of several second moments.
    """
    wanted = guarantee, moment.n_columns, moment.sensitivity_bound * math.sqrt(moved)
    if of_groups:
        return calibrate_groups(mechanism, *wanted)
    # Nothing in a mechanism turns on the number of units.
    return mechanism.noise_for(*wanted, n_rows if guarantee.unit is None else None)


class _Asked:
    """A guarantee that is asked for, refused before anything is read or spent if it must be."""

    def __init__(
        self,
        guarantee: Guarantee,
        mechanism: Mechanism | None,
        ledger: Ledger | None,
        groups: Groups | None,
    ) -> None:
        check_ledger(ledger)
        self.guarantee = guarantee
        self.chosen = mechanism
        # By default another may be taken in the end, which spends no more.
        by_default = AnalyzeGauss() if guarantee.delta else MatrixLaplace()
        self.mechanism = by_default if mechanism is None else mechanism
        if groups is not None:
            check_groups(self.mechanism, guarantee)
        self.mechanism.check_unit(guarantee)
        self.ledger = ledger
        self.groups = groups

    def check(self, n_columns: int, bound: Any, choice: BoundSelection | None) -> None:
        """Raise ValueError if it cannot be met, or paid for, over tables of this shape."""
        wanted = self.guarantee, n_columns, check_number(bound, "bound")
        if self.groups is not None:
            noise = calibrate_groups(self.mechanism, *wanted)
        else:
            # Not known yet, and no guarantee turns on it.
            n_rows = 10**6 if self.guarantee.adjacency == "replace" else None
            noise = self.mechanism.noise_for(*wanted, n_rows)
        if self.ledger is not None:
            _check(self.ledger, choice, self.guarantee, **_known(self.mechanism, noise, choice))


def _known(mechanism: Mechanism, noise: Calibration, choice: Any) -> dict[str, Any]:
    """The profile of a release and its delta_fp, where they are the same whatever is chosen."""
    from privgram.privacy._profile import delta_fp_of

    if choice is None or mechanism.scale_free:
        return {"privacy": noise.privacy, "delta_fp": delta_fp_of(noise)}
    return {}


def _check(
    ledger: Ledger,
    choice: BoundSelection | NormBound | None,
    guarantee: Guarantee,
    privacy: Profile | None = None,
    delta_fp: float = 0.0,
) -> None:
    """Raise BudgetExceeded unless there is room for a release, and the choice of its bound."""
    from privgram.privacy import StatedProfile, compose

    if choice is not None:
        epsilon, delta, adjacency = guarantee.epsilon, guarantee.delta, guarantee.adjacency
        own = StatedProfile(epsilon, delta, adjacency) if privacy is None else privacy
        privacy = compose([choice.privacy, own])
        guarantee = replace(guarantee, epsilon=epsilon + choice.epsilon)
    ledger.check(**guarantee.price, privacy=privacy, delta_fp=delta_fp)


def _rereads(mechanism: Mechanism | None) -> bool:
    return isinstance(mechanism, AdaptiveGaussian) and mechanism.most_rounds > 1


def warn_of_weak(guarantee: Guarantee, n_rows: int | None) -> None:
    """Say what a guarantee means that protects hardly anyone; `n_rows` only if it is public."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if epsilon > LARGE_EPSILON:
        warn(
            f"epsilon={epsilon:g} protects hardly anyone: a release may be e^{epsilon:g} times as "
            "likely with somebody's row as with another. About 1 is common, and above 10 little "
            "is left",
        )
    if delta > LARGE_DELTA or (n_rows and delta > 1 / n_rows):
        warn(
            f"delta={delta:g} promises little: with that probability the guarantee may fail "
            "altogether, and from 1 / rows on it allows publishing somebody's row as it is. Take "
            "it far below",
        )
