r"""A budget on disk: every release is entered before it is made, and refused beyond the total.

A ledger is a file of JSON lines that form a chain (`privgram._base.saved`). The first line, the
header, has the budget; every further one is a spend with all that its privacy profile needs. A
line that was altered, removed from the middle or moved is found. No file can know that whole lines
were cut off its end: keep the ledger where those who release may append and not restore.

A spend is entered under the file's lock, after the file has been read again, and flushed to the
disk before any noise is drawn. So two processes cannot both have the last of the budget, and a
process that dies has at most entered a spend whose release nobody saw. A last line that is cut off
was being written when its process died: the release was never handed over, so it counts for nothing
and the next spend writes over it, with a warning until then; but it counts if only its digest is
cut. Any other damage is refused.
"""

from __future__ import annotations

import copy
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram._base import files, saved
from privgram._base.numbers import check_adjacency, check_budget, check_number, edge
from privgram._base.saved import DAMAGE, DamagedFile, check_version
from privgram._base.text import shown, warn

if TYPE_CHECKING:
    from privgram.privacy import Profile, Standing
    from privgram.privacy.composition import RunningLosses

FORMAT = "privgram-ledger"
VERSION = 1

Composition = Literal["pld", "basic"]

#: Deltas evaluated for the loss distribution of one spend: an eighth of the default, for an
#: eighth of the time and an excess in delta of about (49 / 512)^2 / 8, a thousandth.
_DOTS = 1 << 9

#: So many different losses are composed anew for every spend.
_ANEW = 4

#: So many entries are not composed as long as their sum will do.
_SUMMED = 24


def check_ledger(ledger: Any) -> None:
    """Refuse anything but a ledger or None, before anything is done."""
    if not isinstance(ledger, Ledger | None):
        raise TypeError(
            f"ledger must be a Ledger, such as Ledger(path), not {type(ledger).__name__}"
        )


class BudgetExceeded(ValueError):
    """A spend that would take a ledger over its budget; nothing was entered or released."""


@dataclass(frozen=True)
class Entry:
    """One spend.

    Attributes
    ----------
    number : int
        Position in the ledger, from 1.
    when : str
        When it was entered, UTC, ISO 8601.
    what : str
        What for; free text.
    epsilon : float
        Positive.
    delta : float
        In [0, 1), with `delta_fp`; under an erratum of a published calibration the true one.
    delta_fp : float
        Part of delta that is for finite precision.
    privacy : Profile or None
        Its profile, without `delta_fp`; None if only epsilon and delta are known.
    condition : str or None
        A promise about the data on which its guarantee depends and which nothing enforces.
    id : str
        By which it is entered once; empty where every spend is one of its own.
    label : str
        What the user calls it; may be empty.
    columns : tuple of str
        The columns that were released, where they are known.
    table : str
        Of which table, as `Ledger` says it; may be empty.
    unit : str
        Whose rows are protected together: the column that tells; empty for single rows.
    """

    number: int
    when: str
    what: str
    epsilon: float
    delta: float
    delta_fp: float
    privacy: Profile | None
    condition: str | None = None
    id: str = ""
    label: str = ""
    columns: tuple[str, ...] = ()
    table: str = ""
    unit: str = ""

    @property
    def standing(self) -> Standing:
        """How well epsilon and delta are founded, see `privgram.privacy.Profile.standing`."""
        return "stated" if self.privacy is None else self.privacy.standing

    def __post_init__(self) -> None:
        epsilon, delta = check_budget(self.epsilon, self.delta, zero="delta")
        checked = {
            "epsilon": epsilon,
            "delta": delta,
            "delta_fp": check_number(self.delta_fp, "delta_fp"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not 0 <= self.delta_fp <= self.delta:
            raise ValueError(f"delta_fp must lie in [0, delta], not {self.delta_fp!r}")


class Ledger:
    """A privacy budget for one table, in a file that releases are entered in.

    Parameters
    ----------
    path : path-like
        Made if it does not exist, which takes epsilon and delta.
    epsilon : float, optional
        Total budget, positive. For an existing ledger it may be left out, or must be the same.
    delta : float, optional
        Total budget, in (0, 1), or 0 for releases that are private at delta = 0.
    adjacency : {"replace", "add-remove"}, optional
        Which tables are neighbours, for all releases; "replace" for a new ledger.
    composition : {"pld", "basic"}, optional
        How spends add up; "pld" for a new ledger.

        "pld": by their privacy loss distributions, pessimistically. The tightest. It holds for
        spends whose parameters (mechanism, epsilon, delta) do not depend on what earlier
        releases showed, and for any sizes where all are Gaussian noise
        (docs/theory/composition.md). What is done with a release is free.

        "basic": epsilons add up, and deltas. Sound also where an analyst looks at one release
        to decide how much to spend on the next, and on which mechanism.
    table : str, optional
        Of which table, by what is public of it; `Study` gives it. A new ledger is of this table
        alone, and one that says none is of any.
    unit : str, optional
        Whom it protects, for all releases: the column by which rows of one unit are told, or ""
        for single rows. By default the first spend says it. A unit of many rows has more than
        the epsilon of a release of rows, so the two are never added up.

    Raises
    ------
    ValueError
        If the file is not a ledger, is damaged, or has another budget or table.
    FileNotFoundError
        If it does not exist and no budget is given.
    OSError
        If it cannot be read or made.
    TypeError
        If epsilon or delta is not a number.

    Notes
    -----
    Spends may come from several threads and processes, on file systems with working advisory
    locks (``flock``).

    References
    ----------
    .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters:
       pay-as-you-go composition", NeurIPS 2016: why "basic" is sound for adaptive spends.
    .. [2] Y. Zhu, J. Dong, Y.-X. Wang, "Optimal accounting of differential privacy via
       characteristic function", AISTATS 2022, Theorem 10: composition of dominating pairs.

    Examples
    --------
    >>> ledger = Ledger("study.ledger", epsilon=1.0, delta=1e-6)  # doctest: +SKIP
    >>> pg.release(moment, epsilon=0.5, delta=1e-7, ledger=ledger)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        composition: Composition | None = None,
        table: str | None = None,
        unit: str | None = None,
    ) -> None:
        if unit is not None:
            _check_text(unit, "unit")
        self.path = Path(path).absolute()
        epsilon = None if epsilon is None else check_number(epsilon, "epsilon")
        delta = None if delta is None else check_number(delta, "delta")
        asked: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "adjacency": adjacency,
            "composition": composition,
        }
        if self.path.is_dir():
            raise IsADirectoryError(f"{path} is a folder and no ledger")
        if not self.path.exists():
            if epsilon is None or delta is None:
                raise FileNotFoundError(
                    f"there is no ledger {path}; epsilon and delta, its total budget, make one: "
                    "Ledger(path, epsilon, delta), or privgram ledger create"
                )
            header: dict[str, Any] = {
                "format": FORMAT,
                "version": VERSION,
                "epsilon": epsilon,
                "delta": delta,
                "adjacency": adjacency or "replace",
                "composition": composition or "pld",
                "created": _now(),
            }
            if table is not None:
                header["table"] = table
            if unit is not None:
                header["unit"] = unit
            _check_header(header)
            with suppress(FileExistsError):  # another process was faster; open what it made
                files.create(self.path, saved.chain_line(header, "")[0])
        #: Entries this object has seen, and the digest of the last: they may not go away.
        self._seen: tuple[int, str | None] = (0, None)
        self._known: dict[str, Entry] = {}
        with self._open() as handle:
            header = self._read(handle).header
        for name, value in asked.items():
            if value is not None and value != header[name]:
                raise ValueError(
                    f"{self.path.name} is a ledger with {name}={header[name]!r}, not {value!r}; "
                    "a ledger's budget cannot be changed"
                )
        self.epsilon: float = header["epsilon"]
        self.delta: float = header["delta"]
        self.adjacency: str = header["adjacency"]
        self.composition: Composition = header["composition"]
        self.table: str | None = header.get("table")
        self._unit: str | None = header.get("unit")
        if unit is not None:
            self._check_unit(unit, self.entries)
        #: What `entered_as` says of spends.
        self._as: dict[str, Any] = {}
        if table is not None:
            self._check_table(table, self.entries)

    def entered_as(self, label: str, columns: Iterable[str] = (), table: str = "") -> Ledger:
        """The same ledger, whose spends are entered with a label and what they release.

        Parameters
        ----------
        label : str
            One line.
        columns : iterable of str
        table : str
            As of `Ledger`: spends of another one are refused from then on.
        """
        _check_text(label, "label")
        found = copy.copy(self)
        said = {"label": " ".join(label.split()), "columns": tuple(map(str, columns))}
        found._as = said | {"table": table}
        return found

    def _check_table(self, table: str, entries: Iterable[Entry]) -> None:
        if {self.table, *(entry.table for entry in entries)} - {None, "", table}:
            raise ValueError(
                f"{self.path.name} is the ledger of another study: of a table of another name, "
                "other columns or another protected unit. One ledger counts what is released of "
                "one table; give this study a ledger of its own. Nothing was spent"
            )

    @property
    def unit(self) -> str | None:
        """Whom it protects, as the parameter says; None before anything has said it."""
        return next((entry.unit for entry in self.entries), self._unit)

    def _check_unit(self, unit: str, entries: Iterable[Entry]) -> None:
        _check_text(unit, "unit")
        others = {self._unit, *(entry.unit for entry in entries)} - {None, unit}
        if others:
            pair = min(map(str, others)), unit
            old, new = (f"all rows of a unit by {x!r}" if x else "single rows" for x in pair)
            raise ValueError(
                f"{self.path.name} is a ledger that protects {old}, and this protects {new}: the "
                "epsilons of the two do not add up. Release by the ledger's unit, or enter this in "
                "a ledger of its own. Nothing was spent"
            )

    def __repr__(self) -> str:
        return (
            f"Ledger({str(self.path)!r}, epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"adjacency={self.adjacency!r}, composition={self.composition!r})"
        )

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All spends so far, as the file has them now."""
        with self._open() as handle:
            return self._read(handle).entries

    @property
    def spent(self) -> tuple[float, float]:
        """Privacy of all releases together, as (epsilon, delta).

        Delta is the ledger's, and epsilon the least at which it holds, 0.0 before the
        first spend; with composition "basic" both are sums.
        """
        entries = self.entries
        epsilon, delta = _sums(entries)
        if self.composition == "basic":
            return _written(epsilon), _written(delta)
        if not entries:
            return 0.0, self.delta
        limit = _written(epsilon) if delta <= _exact(self.delta) else math.inf
        composed = self._composed(entries)

        def holds(at: float) -> bool:
            return at >= limit or composed(at) <= self.delta

        return _edge(holds, self.epsilon, 0.0), self.delta

    def remaining(self, delta: float) -> float:
        """Largest epsilon of one more spend at this delta that the budget has room for.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        float
            To a ten-thousandth of the budget, on the safe side; 0.0 if there is no room. It
            holds for every mechanism and, with composition "pld", is an understatement for
            most: a release is charged by its own profile.
        """
        entries = self.entries

        def fits(epsilon: float) -> bool:
            entry = Entry(0, "", "", epsilon, delta, 0.0, None)
            return self._total((*entries, entry), self.epsilon) <= self.delta

        return _edge(fits, 0.0, self.epsilon)

    def check(
        self,
        epsilon: float,
        delta: float,
        *,
        adjacency: str,
        unit: str,
        privacy: Profile | None = None,
        delta_fp: float = 0.0,
    ) -> None:
        """Raise as `spend` for want of room or another unit or table; parameters as there."""
        self._check_spend(adjacency, privacy, "")
        entries = self.entries
        self._check_unit(unit, entries)
        self._check(entries, Entry(0, "", "", epsilon, delta, delta_fp, privacy, **self._as))

    def spend(
        self,
        epsilon: float,
        delta: float,
        *,
        adjacency: str,
        unit: str,
        privacy: Profile | None = None,
        delta_fp: float = 0.0,
        what: str = "",
        condition: str | None = None,
        id: str = "",
    ) -> Entry:
        """Enter a spend, durably, before anything private is made with it.

        `privgram.release` and the mechanisms call this for their `ledger` argument. Call it
        for whatever else is released from the same table.

        Parameters
        ----------
        epsilon : float
            Positive.
        delta : float
            In [0, 1), the true one of the release at this epsilon, `delta_fp` included.
        adjacency : {"replace", "add-remove"}
            Which tables the guarantee is for; must be the ledger's.
        unit : str
            Whose rows are protected together: the column that tells; "" for single rows. Must be
            the ledger's.
        privacy : Profile, optional
            Exact privacy profile, `delta_fp` left out. Without one the worst mechanism with
            this epsilon and delta is assumed.
        delta_fp : float
            Part of delta for finite precision.
        what : str
            What the spend is for; one line.
        condition : str, optional
            A promise about the data without which the guarantee does not hold, in one line; by
            default the profile's, where it has one. It is kept and shown: the budget holds only
            if all of them do.
        id : str
            Name of one thing that is paid for once, however many releases rest on it: of a
            privately chosen bound. If the ledger has an entry with it, nothing is entered.

        Returns
        -------
        Entry
            The new one, or the one that is there.

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it.
        ValueError
            If the adjacency, or the profile's, or the unit is not the ledger's, or the ledger is
            damaged.
        TypeError
            If a parameter is not of its type.
        OSError
            If the ledger cannot be written. Nothing was spent then.
        """
        self._check_spend(adjacency, privacy, what)
        if condition is None:
            condition = getattr(privacy, "condition", None)
        with self._open(exclusive=True) as handle:
            file = self._read(handle)
            self._check_unit(unit, file.entries)
            for known in file.entries if id else ():
                if known.id == id:
                    if (known.epsilon, known.delta) != (epsilon, delta):
                        raise ValueError(f"{self.path.name} has another spend with the id {id!r}")
                    return known
            entry = Entry(
                len(file.entries) + 1,
                _now(),
                " ".join(what.split()),
                epsilon,
                delta,
                delta_fp,
                privacy,
                None if condition is None else " ".join(condition.split()),
                id,
                unit=unit,
                **self._as,
            )
            # A profile's delta is good to nine digits, and never 0.
            least = 0.0 if privacy is None else privacy.delta(entry.epsilon) + entry.delta_fp
            if least > max(entry.delta * (1 + 1e-9), 1e-300):
                raise ValueError("the profile has a larger delta at epsilon than the one given")
            self._check(file.entries, entry)
            record = vars(entry) | {"privacy": None if privacy is None else privacy.to_dict()}
            for name in ("id", "label", "columns", "table", "unit"):
                if not record[name]:
                    del record[name]
            line, digest = saved.chain_line(record, file.chain.last)
            # If this fails, nothing was spent: nothing is released after it.
            saved.append_durably(handle, file.chain.gap + line, file.chain.end)
            self._seen = entry.number, digest
            if self.composition == "pld":
                self._keep()
            return entry

    def _check_spend(self, adjacency: str, privacy: Profile | None, what: str) -> None:
        from privgram.privacy import Profile
        from privgram.privacy.composition import adjacencies

        _check_text(what, "what")
        if not isinstance(privacy, Profile | None):
            raise TypeError(
                "privacy must be a privacy profile, such as release.privacy, not "
                f"{type(privacy).__name__}"
            )
        profiled = set() if privacy is None else adjacencies(privacy)
        for other in (adjacency, *profiled):
            if other != self.adjacency:
                raise ValueError(
                    f"{self.path.name} is a ledger for adjacency {self.adjacency!r}, and this "
                    f"spend is private for {other!r}; the two do not compose"
                )

    def _check(self, entries: tuple[Entry, ...], entry: Entry) -> None:
        if entry.table:
            self._check_table(entry.table, entries)
        total = self._total((*entries, entry), self.epsilon)
        if total > self.delta:
            raise BudgetExceeded(
                f"over the budget of {shown(self.path.name)}: with epsilon={entry.epsilon:g}, "
                f"delta={entry.delta:.3g} {_excess(total, self.epsilon)}, and the ledger "
                f"allows delta={self.delta:g}; nothing was released"
            )

    def _total(self, entries: Sequence[Entry], at: float) -> float:
        """Bound delta of all entries together at an epsilon, as the ledger composes them."""
        epsilon, delta = _sums(entries)
        added = _written(delta) if epsilon <= _exact(at) else math.inf
        # Adding up is sound either way, takes no time and loses nothing for one release.
        # Of many entries losses are composed one by one all the same, and not all in the end.
        if self.composition == "basic" or (added <= self.delta and len(entries) <= _SUMMED):
            return added
        try:
            # What alone is beyond the budget is in no honest ledger, and may take for ever.
            for profile in map(_profile, entries):
                if (alone := _alone(profile, at)) > self.delta:
                    return min(added, alone)
            return min(added, self._composed(entries)(at))
        except (ArithmeticError, TypeError) as error:
            raise DamagedFile(
                f"{self.path.name} has entries whose privacy has no value: {error}"
            ) from error

    @cached_property
    def _losses(self) -> RunningLosses:
        from privgram.privacy.composition import RunningLosses

        step = min(1e-4, 1e-4 * self.epsilon)
        top = min(self.epsilon + 30.0, step * 2**21)
        return RunningLosses(step, top, _DOTS, self._kept)

    @property
    def _beside(self) -> Path:
        """File for losses that took long to compose. Without it, nothing but time is lost."""
        return self.path.with_name(self.path.name + ".losses")

    def _kept(self) -> bytes | None:
        with suppress(OSError):
            return self._beside.read_bytes()
        return None

    def _keep(self) -> None:
        data = self._losses.dump()
        if data is not None:
            with suppress(OSError):
                # Whole or not at all, and one at a time, under the ledger's lock; what a crash
                # leaves of it fails its checksum.
                temporary = self._beside.with_name(self._beside.name + ".new")
                temporary.write_bytes(data)
                os.replace(temporary, self._beside)

    def _composed(self, entries: Sequence[Entry]) -> Callable[[float], float]:
        """Bound delta of entries together as a function of epsilon, by composing their losses."""
        from privgram.privacy.composition import FLOOR, ONE_GAUSSIAN, flatten, merge

        flat, chance = flatten(map(_profile, entries))
        merged = merge(flat)

        def bound(delta: Callable[[float], float]) -> Callable[[float], float]:
            return lambda at: delta(at) + _slack(entries, at) + _grown(chance, _log1pexp(at))

        if len(merged) == 1:
            return bound(merged[0].delta)
        if len(merged) > _ANEW:
            # Gaussian mechanisms are one, however many; the rest go on from what is composed.
            gaussian = [p for p in flat if isinstance(p, ONE_GAUSSIAN)]
            rest = tuple(p for p in flat if not isinstance(p, ONE_GAUSSIAN))
            losses = self._losses.of(rest)
            merged = merge(gaussian)
        else:
            losses = self._losses.nothing
        for profile in merged:
            losses = losses.compose(self._losses.one(profile))

        return bound(lambda at: max(losses.delta(at), FLOOR))

    @contextmanager
    def _open(self, exclusive: bool = False) -> Iterator[int]:
        flags = os.O_RDWR if exclusive else os.O_RDONLY
        with files.opened(self.path, flags) as handle, files.locked(handle, not exclusive):
            if not os.path.samestat(os.fstat(handle), os.stat(self.path)):
                raise OSError(f"{self.path.name} was replaced while it was opened")
            yield handle

    def _read(self, handle: int) -> _Contents:
        contents = _parse(saved.read_all(handle), self.path.name, self._known)
        count, digest = self._seen
        digests = contents.chain.digests
        if digest is not None and digest not in digests[count : count + 1]:
            raise ValueError(
                f"{self.path.name} lost entries that were there before: it was replaced by an "
                "older or another copy"
            )
        self._seen = len(contents.entries), digests[-1]
        if contents.chain.lost:
            warn(
                f"the last line of {self.path.name} is cut off: what it was to enter is not "
                "counted. That is right if a release was interrupted; else restore the file",
            )
        return contents


@dataclass(frozen=True)
class _Contents:
    header: dict[str, Any]
    entries: tuple[Entry, ...]
    chain: saved.Chain


def _parse(data: bytes, name: str, known: dict[str, Entry]) -> _Contents:
    """Read a ledger; entries are added to those known by the digests of their lines."""
    try:
        chain = saved.Chain.parse(data)
    except saved.BrokenLine as error:
        if error.number > 1:
            raise DamagedFile(
                f"{name} is damaged at line {error.number}: {error.problem}. Restore the file; a "
                "budget whose spends are not known cannot be spent"
            ) from None
        chain = None
    if chain is None or not chain.records or chain.records[0].get("format") != FORMAT:
        raise DamagedFile(f"{name} is not a ledger of privgram, or its header is damaged")
    header, *spends = chain.records
    check_version(header.get("version"), VERSION, name, "a ledger")
    try:
        _check_header(header)
        for number, (digest, record) in enumerate(zip(chain.digests[1:], spends, strict=True), 1):
            if digest not in known:
                known[digest] = _entry(number, record, header["adjacency"])
        entries = tuple(known[digest] for digest in chain.digests[1:])
    except DAMAGE as error:
        raise DamagedFile(f"{name} has lines that are not entries of a ledger") from error
    return _Contents(header, entries, chain)


def _entry(number: int, record: dict[str, Any], adjacency: str) -> Entry:
    from privgram import privacy
    from privgram.privacy.composition import adjacencies

    if record["number"] != number:
        raise ValueError("entries are not in their order")
    profile = record["privacy"]
    if profile is not None:
        try:
            profile = privacy.Profile.from_dict(profile)
        except ValueError:  # of a later version, say
            profile = None
        # For other neighbours than the spend, which has its epsilon and delta all the same.
        if profile is not None and not adjacencies(profile) <= {adjacency}:
            profile = None
    for name in ("when", "what"):
        _check_text(record[name], name)
    if record["condition"] is not None:
        _check_text(record["condition"], "condition")
    _check_text(record.get("unit", ""), "unit")
    told: dict[str, Any] = {name: str(record.get(name, "")) for name in ("id", "label", "table")}
    return Entry(
        number,
        **{name: record[name] for name in ("when", "what", "epsilon", "delta", "condition")},
        **told,
        unit=record.get("unit", ""),
        delta_fp=record["delta_fp"] if profile is not None else 0.0,
        privacy=profile,
        columns=tuple(map(str, record.get("columns", ()))),
    )


def _check_text(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_header(header: dict[str, Any]) -> None:
    check_budget(header["epsilon"], header["delta"], zero="delta")
    check_adjacency(header["adjacency"])
    _check_text(header.get("unit", ""), "unit")
    if header["composition"] not in get_args(Composition):
        raise ValueError(f'composition must be "pld" or "basic", not {header["composition"]!r}')


@lru_cache(maxsize=4096)
def _exact(value: float) -> Fraction:
    # As it is written: ten times 0.1 is 1. Not by decimal, which rounds as its caller pleases.
    return Fraction(repr(float(value)))


def _written(value: Fraction) -> float:
    """Least number that is written as `value` or more."""
    if value > _exact(sys.float_info.max):
        return math.inf
    nearest = float(value)
    return nearest if _exact(nearest) >= value else math.nextafter(nearest, math.inf)


def _sums(entries: Sequence[Entry]) -> tuple[Fraction, Fraction]:
    return _sum(e.epsilon for e in entries), _sum(e.delta for e in entries)


def _sum(values: Iterable[float]) -> Fraction:
    # Each different number once: fractions are slow to add.
    return sum((n * _exact(x) for x, n in Counter(values).items()), Fraction(0))


def _excess(total: float, epsilon: float) -> str:
    if total == math.inf:
        return f"the epsilons add up to more than {epsilon:g}"
    return f"the total would be delta={total:.3g} at epsilon={epsilon:g}"


def _slack(entries: Sequence[Entry], at: float) -> float:
    # An output that is off with chance h under either table adds h (1 + e^epsilon).
    spread = (_log1pexp(at) - _log1pexp(e.epsilon) for e in entries)
    return math.fsum(_grown(e.delta_fp, x) for e, x in zip(entries, spread, strict=True))


def _grown(delta: float, by: float) -> float:
    return delta * math.exp(by) if by < 700.0 else math.inf if delta else 0.0


@lru_cache(maxsize=4096)
def _alone(profile: Profile, at: float) -> float:
    """Delta of one profile, where that takes no composing."""
    from privgram.privacy import ComposedProfile

    return 0.0 if isinstance(profile, ComposedProfile) else profile.delta(at)


def _log1pexp(x: float) -> float:
    return x + math.log1p(math.exp(-x))


def _profile(entry: Entry) -> Profile:
    from privgram.privacy import StatedProfile

    # Also where a delta takes long: the search asks for many.
    if entry.privacy is None or entry.privacy._quick() is not entry.privacy:
        return StatedProfile(entry.epsilon, entry.delta)
    return entry.privacy


def _edge(good: Callable[[float], bool], inside: float, outside: float) -> float:
    """Last good number on the way out from a good one, to a ten-thousandth of the way."""
    tolerance = 1e-4 * abs(outside - inside)
    if good(outside):
        return outside
    return edge(good, inside, outside, lambda a, b: abs(b - a) <= tolerance)
