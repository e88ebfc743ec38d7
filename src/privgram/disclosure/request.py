"""What is asked of a release: checked when it is made, read once, and priced before any noise."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privgram._base.numbers import check_integer, set_fields
from privgram.adaptive.rounds import names_of
from privgram.columns.groups import Groups
from privgram.disclosure.norm_bound import BoundSelection, check_size
from privgram.ledger import check_ledger
from privgram.mechanisms import (
    AdaptiveGaussian,
    AnalyzeGauss,
    Calibration,
    MatrixLaplace,
    Mechanism,
    best,
    check_groups,
    default,
    named,
    release_noise,
)
from privgram.mechanisms._base import release_price
from privgram.moment.grouped import SecondMoments
from privgram.moment.second_moment import SecondMoment
from privgram.moment.units import bounds_of
from privgram.releases.record import RELEASE_FORMAT
from privgram.scan.progress import Progress
from privgram.scan.request import IS_A_SUM, ScanRequest, check_rereadable, scale_out
from privgram.sources.table import CachedSource, TableSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from privgram._base.numbers import Adjacency
    from privgram.columns import Columns
    from privgram.columns.unit import PrivateBound, Unit
    from privgram.ledger import Ledger
    from privgram.mechanisms import Purpose
    from privgram.mechanisms.norm_bound import ChosenBound
    from privgram.privacy.guarantee import Guarantee, Price

#: Bytes that a saved entry of a matrix takes, at most.
BYTES_OF_ENTRY = {".json": 32, ".npz": 8}


@dataclass(frozen=True, eq=False, kw_only=True)
class RunOptions:
    """How a table is read, and where what is made of it goes.

    Parameters
    ----------
    ledger : Ledger, optional
        Budget to enter the release in, durably, before its noise is drawn.
    out : path-like, optional
        File to save the release to, `.json` or `.npz`. That it can be written is made sure of
        before anything is spent. An existing file is replaced.
    threads : int, optional
        As in `second_moment`.
    progress : bool or callable, default False
        As in `second_moment`.
    cache_bytes : int, optional
        How many bytes of decoded rows may stay in memory between passes, where there are several;
        0 decodes them again for each. By default a gigabyte, or a quarter of the memory if that is
        less. They are written nowhere.
    rng : numpy.random.Generator, optional
        For experiments only: the release is then marked `reproducible`. By default a
        cryptographic generator, keyed by the operating system.
    """

    ledger: Ledger | None = None
    out: str | os.PathLike[str] | None = None
    threads: int | None = None
    progress: Progress = False
    cache_bytes: int | None = None
    rng: np.random.Generator | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseOptions(RunOptions):
    """By what a table is released, and what of it together.

    Parameters
    ----------
    mechanism : Mechanism or str, optional
        With its parameters, or its name alone: "analyze-gauss". By default the best for the
        purpose on this table; the release says so by `method` and `reason`. That is
        `AdaptiveGaussian`, which reads the table up to five times, for regressions on rows with
        public `Columns` that can be read again. Else one round: `AnalyzeGauss`, or `MatrixLaplace`
        where delta is 0. `Study.release` has other purposes than regressions.
    bound : float or PrivateBound, optional
        L2 bound of a row, as in `second_moment`. `PrivateBound` has it chosen by the table, which
        is read once more, and costs its epsilon besides; one bound for all groups, by the rows that
        are of one.
    unit : Unit or str, optional
        As in `second_moment`: whose rows are protected together. The guarantee is then for all
        rows of one unit. With ``clip="frobenius"`` for `AnalyzeGauss`; with "trace" for
        `MatrixLaplace` too.
    by : Groups or str, optional
        As in `second_moment`: all groups are released at this one guarantee, which is of all of
        them together and one entry of the ledger. A `SecondMoments` has its groups.
    """

    mechanism: Mechanism | str | None = None
    bound: float | PrivateBound | None = None
    unit: Unit | str | Any = None
    by: Groups | str | None = None


@dataclass(frozen=True, eq=False)
class TableRelease(ReleaseOptions):
    """What `privgram.release` takes.

    Parameters
    ----------
    source : table, SecondMoment or SecondMoments
        Whatever `second_moment` reads: an array of shape (n, d), a path, a data frame, an Arrow
        stream, blocks of these. Or a second moment that was made already.
    columns : Columns, mapping or sequence of str, optional
        As in `second_moment`.
    epsilon, delta : float
        The guarantee; must be given.
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours: one row replaced (their number is public), or one row added
        or removed (it is private).
    """

    source: TableSource = field(repr=False)  # SECRET
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None
    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    adjacency: Adjacency = "replace"


@dataclass(frozen=True, eq=False)
class ReleaseRequest(ReleaseOptions):
    """What is to be released, at which guarantee, and by what.

    A request that cannot be met, by what is public of it, is refused when it is made.
    """

    source: object = field(repr=False)  # SECRET
    guarantee: Guarantee
    columns: Columns | Mapping[str, Any] | Sequence[str] | None = None
    purpose: Purpose = "regression"
    #: How the table is read, rows that are read again from memory; None of a second moment.
    scan: ScanRequest | None = field(init=False, default=None, repr=False)
    #: The choice of a bound by the table, where that is asked for.
    choice: BoundSelection | None = field(init=False, default=None, repr=False)
    #: The mechanism, where it is one before the table is read, and why this one.
    chosen: Mechanism | None = field(init=False, default=None)
    reason: str = field(init=False, default="")

    def __post_init__(self) -> None:
        kind = self.columns if isinstance(self.columns, type) else type(self.columns)
        if issubclass(kind, Mechanism):
            raise TypeError(
                "the second argument is the columns, and the mechanism goes by its name: "
                "release(table, columns, epsilon, delta, mechanism=AnalyzeGauss())"
            )
        set_fields(self, chosen=named(self.mechanism))
        if self.cache_bytes is not None:
            set_fields(self, cache_bytes=check_integer(self.cache_bytes, "cache_bytes", 0))
        check_ledger(self.ledger)
        ledger = None if self.ledger is None else self.ledger.path
        RELEASE_FORMAT.check_out(self.path, ledger=ledger)
        if isinstance(self.source, SecondMoment | SecondMoments):
            self._check_made()
        else:
            self._set_scan()
        if isinstance(self.source, SecondMoment) and self.rereads:
            raise TypeError(
                "AdaptiveGaussian() reads the table again, and a SecondMoment has no rows to read: "
                "pass the table itself to pg.release, or take AnalyzeGauss()"
            )

    @property
    def path(self) -> Path | None:
        """Where the release is saved."""
        return None if self.out is None else Path(self.out)

    def _set_scan(self) -> None:
        scan = ScanRequest.of(
            self.source,
            self.columns,
            self.bound,
            self.unit,
            self.by,
            self.threads,
            self.progress,
            self.guarantee.adjacency,
        )
        if scan.unit is not None:
            set_fields(self, guarantee=replace(self.guarantee, unit=scan.unit.protected))
        if self.chosen is None:
            chosen, reason = best(
                self.source, scan.scaling, self.guarantee, self.purpose, scan.groups
            )
            set_fields(self, chosen=chosen, reason=reason)
        if scan.groups is not None:
            check_groups(self.planned, self.guarantee)
        self.planned.check_unit(self.guarantee)
        if scan.auto is not None:
            check_rereadable(scan.source, "PrivateBound() reads")
        if self.rereads:
            check_rereadable(scan.source, "AdaptiveGaussian() reads", ", or take AnalyzeGauss()")
        several = scan.auto is not None or self.rereads
        if several and scale_out(scan.source) is None:
            scan = replace(scan, source=CachedSource(scan.source, self.cache_bytes))
        set_fields(self, scan=scan)
        if scan.auto is not None:
            set_fields(self, choice=BoundSelection(scan.auto, scan, self.guarantee.adjacency))
        if scan.scaling is not None:
            self.check_names(scan.scaling.names)
            bound = scan.scaling.bound
            if scan.auto is None:
                bound = scan.row_bound
                if scan.unit is not None:
                    bound = bounds_of(scan.unit, bound)[1]
            self.check_price(len(scan.scaling), bound)

    def _check_made(self) -> None:
        """Refuse what a second moment has already, or no longer knows."""
        many = isinstance(self.source, SecondMoments)
        has = "SecondMoments have their" if many else "a SecondMoment has its"
        if self.by is not None:
            raise TypeError(f"{has} groups: leave out by" if many else IS_A_SUM)
        if self.columns is not None or self.bound is not None:
            raise TypeError(f"{has} columns and bound: leave out columns and bound")
        if self.unit is not None:
            knows = "SecondMoments no longer know" if many else "a SecondMoment no longer knows"
            raise ValueError(f"{knows} whose rows are whose: pass the table with its unit")

    @property
    def planned(self) -> Mechanism:
        """The mechanism; by default one that spends no less than what is taken in the end."""
        if self.chosen is not None:
            return self.chosen
        return AnalyzeGauss() if self.guarantee.delta else MatrixLaplace()

    @property
    def rereads(self) -> bool:
        """Whether the mechanism reads the table again."""
        return isinstance(self.chosen, AdaptiveGaussian)

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless the mechanism's target is among the columns of the release."""
        if isinstance(self.chosen, AdaptiveGaussian):
            self.chosen.check_names(names)

    def check_price(self, n_columns: int, bound: float) -> None:
        """Raise ValueError if it cannot be met, or paid for, over tables of this shape."""
        of_groups = self.scan is not None and self.scan.groups is not None
        # Not known yet, and no guarantee turns on it.
        n_rows = 10**6 if self.guarantee.adjacency == "replace" else None
        noise = release_noise(self.planned, self.guarantee, n_columns, bound, n_rows, of_groups)
        if self.ledger is not None:
            before = () if self.choice is None else (self.choice.price,)
            self.ledger.check(*before, release_price(self.planned, noise, bool(before)))

    def priced(
        self, moment: SecondMoment | SecondMoments, choice: ChosenBound | None = None
    ) -> PricedRelease:
        """What is drawn next of this second moment; ValueError if there is no proof for it."""
        if self.scan is not None and self.guarantee.size_is_public:
            check_size(moment.n_rows + moment.n_dropped)  # whether there are rows is public too
        guarantee = replace(self.guarantee, unit=moment.privacy_unit)
        groups = moment.groups if isinstance(moment, SecondMoments) else None
        first = moment if isinstance(moment, SecondMoment) else moment.values()[0]
        if groups is None:  # of a group it is private: a neighbour may have one row fewer in it
            public = guarantee.size_is_public and not first.of_group
        else:  # a unit counts in each of its groups, so the sum is not the number of units
            public = guarantee.adjacency == "replace" and guarantee.unit is None
        n_rows = moment.n_rows + moment.n_dropped if public else None
        mechanism = self.chosen
        if mechanism is None:
            mechanism = default(guarantee, first.n_columns, float(first.bound))
        what = str(mechanism)
        if groups is not None:
            check_groups(mechanism, guarantee)
            what += f" for each of {len(groups)} groups by {groups.by}"
        elif guarantee.unit is not None:
            what += ", for all rows of a unit"
        self.check_names(names_of(first))
        mechanism.check_unit(guarantee)
        shape = first.n_columns, first.sensitivity_bound, n_rows
        noise = release_noise(mechanism, guarantee, *shape, of_groups=groups is not None)
        price: Price | None = None
        if self.ledger is not None:  # the true delta of some laws takes long
            price = replace(release_price(mechanism, noise, choice is not None), what=what)
        return PricedRelease(mechanism, noise, price, n_rows, groups, choice)


@dataclass(frozen=True)
class PricedRelease:
    """What is drawn next: by which mechanism, with which noise, and at which price."""

    mechanism: Mechanism
    noise: Calibration  # which is a guarantee
    price: Price | None  # None where there is no ledger
    n_rows: int | None  # of the table, where they are public
    groups: Groups | None
    choice: ChosenBound | None  # of the bound
