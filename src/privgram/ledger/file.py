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
import hashlib
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from privgram import privacy
from privgram._base import files, saved
from privgram._base.numbers import Adjacency, bisect_boundary, check_number
from privgram._base.saved import DamagedFile, JsonObject
from privgram._base.text import shown, warn
from privgram.ledger.entries import (
    Budget,
    Composition,
    Contents,
    Entry,
    check_text,
    parse_ledger,
    settle_entry,
)
from privgram.privacy.guarantee import Price

if TYPE_CHECKING:
    from privgram.ledger.accountant import Accountant
    from privgram.privacy import Profile


def check_ledger(ledger: object) -> None:
    """Refuse anything but a ledger or None, before anything is done."""
    if not isinstance(ledger, Ledger | None):
        raise TypeError(
            f"ledger must be a Ledger, such as Ledger(path), not {type(ledger).__name__}"
        )


class BudgetExceeded(ValueError):
    """A spend that would take a ledger over its budget; nothing was entered or released."""


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
    composition : {"gaussian", "basic"}, optional
        How spends add up; "gaussian" for a new ledger, or "basic" where delta is 0.

        "gaussian": as Gaussian noise. The budget is one sensitivity ratio mu, and a spend takes
        the mu^2 of the least Gaussian noise that shows as much: of its own where it is Gaussian.
        Sound also where an analyst looks at one release to decide what to spend on the next, and
        on which mechanism [1]_. What no Gaussian noise dominates, such as a spend of which only
        epsilon and a positive delta are known, is refused.

        "basic": epsilons add up, and deltas. It takes any mechanism, whatever was seen before [2]_.
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
    .. [1] A. Smith, A. Thakurta, "Fully adaptive composition for Gaussian differential privacy",
       2022, arXiv 2210.17520.
    .. [2] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters:
       pay-as-you-go composition", NeurIPS 2016.

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
        for name, text in {"table": table, "unit": unit}.items():
            if text is not None:
                check_text(text, name)
        self.path = Path(path).absolute()
        epsilon = None if epsilon is None else check_number(epsilon, "epsilon")
        delta = None if delta is None else check_number(delta, "delta")
        if self.path.is_dir():
            raise IsADirectoryError(f"{path} is a folder and no ledger")
        if not self.path.exists():
            if epsilon is None or delta is None:
                raise FileNotFoundError(
                    f"there is no ledger {path}; epsilon and delta, its total budget, make one: "
                    "Ledger(path, epsilon, delta), or a study with ledger="
                )
            new = Budget(
                epsilon,
                delta,
                adjacency or "replace",
                composition or ("gaussian" if delta else "basic"),
                table,
                unit,
            )
            _accountant(new)
            with suppress(FileExistsError):  # another process was faster; open what it made
                files.create_file(self.path, saved.chain_line(new.header(_now()), "")[0])
        #: Lines after the header that this object, or a copy by `entered_as`, has seen, and the
        #: digest of the last: they may not go away.
        self._seen: list[tuple[int, str | None]] = [(0, None)]
        self._known: dict[str, Entry] = {}
        with self._open() as handle:
            budget = self._read(handle).budget
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.adjacency, self.composition = budget.adjacency, budget.composition
        self.table, self._unit = budget.table, budget.unit
        wanted = {"epsilon": epsilon, "delta": delta}
        for name, value in {**wanted, "adjacency": adjacency, "composition": composition}.items():
            if value is not None and value != getattr(self, name):
                raise ValueError(
                    f"{self._name} is a ledger with {name}={getattr(self, name)!r}, not {value!r}; "
                    "a ledger's budget cannot be changed"
                )
        if unit is not None:
            self._check_unit(unit, self.entries)
        #: What `entered_as` says of spends: the label, the columns and the table.
        self._entered_as: tuple[str, tuple[str, ...], str] = "", (), ""
        if table is not None:
            self._check_table(table, self.entries)

    @cached_property
    def _accountant(self) -> Accountant:
        return _accountant(self)

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
        check_text(label, "label")
        check_text(table, "table")
        if isinstance(columns, str):
            raise TypeError(f"columns are a list of names, such as [{columns!r}]")
        same = copy.copy(self)
        same._entered_as = " ".join(label.split()), tuple(map(str, columns)), table
        return same

    def _check_table(self, table: str, entries: Iterable[Entry]) -> None:
        if {self.table, *(entry.table for entry in entries)} - {None, "", table}:
            raise ValueError(
                f"{self._name} is the ledger of another study: of a table of another name, "
                "other columns or another protected unit. One ledger counts what is released of "
                "one table; give this study a ledger of its own. Nothing was spent"
            )

    @property
    def unit(self) -> str | None:
        """Whom it protects, as the parameter says; None before anything has said it."""
        return next((entry.unit for entry in self.entries), self._unit)

    def _check_unit(self, unit: str, entries: Iterable[Entry]) -> None:
        others = {self._unit, *(entry.unit for entry in entries)} - {None, unit}
        if others:
            pair = min(map(str, others)), unit
            old, new = (f"all rows of a unit by {x!r}" if x else "single rows" for x in pair)
            raise ValueError(
                f"{self._name} is a ledger that protects {old}, and this protects {new}: the "
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

        Delta is the ledger's, and epsilon the least at which it holds, 0.0 before the first spend;
        with composition "basic" both are sums. Beyond the budget too, if a file has such entries.
        """
        return self._accountant.spent(self.entries)

    def usual_delta(self, epsilon: float) -> float:
        """The delta of an answer that says none: the ledger's, or with "basic" its part of it."""
        if self.composition == "basic":
            return self.delta * min(1.0, epsilon / self.epsilon)
        return self.delta

    def remaining(self, delta: float | None = None) -> float:
        """Largest epsilon that one more release by Gaussian noise may have.

        Parameters
        ----------
        delta : float, optional
            In [0, 1); at 0 of a pure mechanism. By default `usual_delta`.

        Returns
        -------
        float
            To a ten-thousandth of the budget, on the safe side; 0.0 if there is no room.
        """
        entries = self.entries

        def fits(epsilon: float) -> bool:
            at = self.usual_delta(epsilon) if delta is None else delta
            ratio = privacy.calibration.gaussian_ratio(epsilon, at) if at else None
            profile = None if ratio is None else privacy.GaussianProfile(ratio)
            entry = Entry(0, "", "", epsilon, at, 0.0, profile)
            return self._excess((*entries, entry)) is None

        least = max(1e-4 * self.epsilon, math.ulp(0.0))
        if not fits(least):
            return 0.0
        # Of sums the rest is known, but for the rounding of a difference.
        whole = self.epsilon
        if self.composition == "basic":
            whole -= self._accountant.spent(entries)[0]
        if whole >= least and fits(whole):
            return whole
        return bisect_boundary(fits, least, self.epsilon, lambda a, b: abs(b - a) <= least)

    def check(self, *prices: Price) -> None:
        """Refuse, as `spend` would, prices that could not be entered now, in turn; none is."""
        held = self.entries
        for price in prices:
            self._check_price(price)
            self._check_unit(price.unit, held)
            entry = self._entry(len(held) + 1, "", price)
            self._check(held, entry)
            held = (*held, entry)

    def spend(
        self,
        epsilon: float,
        delta: float,
        *,
        adjacency: Adjacency,
        unit: str,
        privacy: Profile | None = None,
        delta_fp: float = 0.0,
        what: str = "",
        condition: str | None = None,
        id: str = "",
    ) -> Entry:
        """Enter a spend, durably, before anything private is made with it.

        `privgram.release` and the mechanisms do so for their `ledger` argument. Call it
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
            Name of one thing that is paid for once, however many releases are made of it: of a
            stream. If the ledger has an entry with it, nothing is entered.

        Returns
        -------
        Entry
            The new one, or the one that is there.

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it.
        ValueError
            If the adjacency, or the profile's, or the unit is not the ledger's, the ledger is
            damaged, or it does not add up mechanisms of this kind.
        TypeError
            If a parameter is not of its type.
        OSError
            If the ledger cannot be written. Nothing was spent then.
        """
        price = Price(epsilon, delta, adjacency, unit, privacy, delta_fp, what, condition, id)
        return self.reserve(price)

    def reserve(self, price: Price) -> Entry:
        """Enter a price, as `spend`."""
        return self._enter(price)

    def hold(self, price: Price, floor: Profile) -> Reservation:
        """Enter the most that an answer in stages may cost; who holds this alone may settle it.

        `floor` is what its first stage spends, which is written down: no settlement may say less.
        """
        key = secrets.token_bytes(32)
        if price.id:
            raise ValueError("an answer in stages is one of its own, and has no id")
        staged: JsonObject = {}
        if self._accountant.settles and isinstance(price.privacy, privacy.GaussianProfile):
            assert isinstance(floor, privacy.GaussianProfile)
            lock = hashlib.sha256(key).hexdigest()
            staged = {"floor": floor.sensitivity_ratio, "lock": lock}
        return Reservation(self, self._enter(price, **staged), key)

    def _enter(self, price: Price, **staged: Any) -> Entry:
        self._check_price(price)
        with self._open(exclusive=True) as handle:
            file = self._read(handle)
            entries = file.entries
            self._check_unit(price.unit, entries)
            known = self._entered(price, entries)
            if known is not None:
                return known
            entry = replace(self._entry(len(entries) + 1, _now(), price), **staged)
            self._check(entries, entry)
            profile = entry.privacy
            record = vars(entry) | {"privacy": None if profile is None else profile.to_dict()}
            for name in ("id", "label", "columns", "table", "unit", "settled", "floor", "lock"):
                if not record[name]:
                    del record[name]
            # If this fails, nothing is released after it.
            self._append(handle, file, record)
            return entry

    def _entered(self, price: Price, entries: Iterable[Entry]) -> Entry | None:
        for known in entries if price.id else ():
            if known.id == price.id:
                if (known.epsilon, known.delta) != (price.epsilon, price.delta):
                    raise ValueError(f"{self._name} has another spend with the id {price.id!r}")
                return known
        return None

    def _entry(self, number: int, when: str, price: Price) -> Entry:
        condition = price.condition
        if condition is None:
            condition = getattr(price.privacy, "condition", None)
        label, columns, table = self._entered_as
        return Entry(
            number,
            when,
            " ".join(price.what.split()),
            price.epsilon,
            price.delta,
            price.delta_fp,
            price.privacy,
            None if condition is None else " ".join(condition.split()),
            price.id,
            label,
            columns,
            table,
            price.unit,
        )

    def periods(self, id: str) -> tuple[str, ...]:
        """Digests of the periods of a stream that were entered, in order; see `enter_period`."""
        with self._open() as handle:
            return self._read(handle).periods.get(id, ())

    def enter_period(self, id: str, number: int, digest: str) -> None:
        """Enter, durably and at no price, what a stream published of its next period, from 1.

        By its digest, and the id of the entry that paid for all. ValueError if that is not in the
        ledger, or the period is not the next one; where it is there with this digest, nothing is
        entered. TypeError if either is no text.
        """
        check_text(id, "id")
        check_text(digest, "digest")
        with self._open(exclusive=True) as handle:
            file = self._read(handle)
            known = file.periods.get(id, ())
            if known[number - 1 : number] == (digest,):
                return
            if not any(entry.id == id for entry in file.entries):
                raise ValueError(f"{self._name} has no entry that paid for this stream")
            if number <= len(known):
                raise ValueError(
                    f"{self._name} has period {number} of this stream from another copy of "
                    "it: go on with that copy. What this one has of the period was not published"
                )
            if number > len(known) + 1:
                raise ValueError(
                    f"{self._name} has {len(known)} periods of this stream, so the next one "
                    f"is not {number}"
                )
            self._append(handle, file, {"stream": id, "period": number, "digest": digest})

    def _append(self, handle: int, file: Contents, record: JsonObject) -> None:
        """Enter a line, durably; if this fails, the file is as it was."""
        line, digest = saved.chain_line(record, file.chain.last)
        files.append_durably(handle, file.chain.gap + line, file.chain.end)
        self._seen[0] = len(file.chain.digests), digest

    def _check_price(self, price: Price) -> None:
        for name in ("what", "unit", "id"):
            check_text(getattr(price, name), name)
        if price.condition is not None:
            check_text(price.condition, "condition")
        profile = price.privacy
        if not isinstance(profile, privacy.Profile | None):
            raise TypeError(
                "privacy must be a privacy profile, such as release.privacy, not "
                f"{type(profile).__name__}"
            )
        profiled = set() if profile is None else privacy.composition.adjacencies(profile)
        for other in (price.adjacency, *profiled):
            if other != self.adjacency:
                raise ValueError(
                    f"{self._name} is a ledger for adjacency {self.adjacency!r}, and this "
                    f"spend is private for {other!r}; the two do not compose"
                )

    def _check(self, entries: tuple[Entry, ...], entry: Entry) -> None:
        # A profile's delta is good to nine digits, and never 0.
        profile = entry.privacy
        least = 0.0 if profile is None else profile.delta(entry.epsilon) + entry.delta_fp
        if least > max(entry.delta * (1 + 1e-9), 1e-300):
            raise ValueError("the profile has a larger delta at epsilon than the one given")
        if entry.table:
            self._check_table(entry.table, entries)
        if (refusal := self._accountant.refusal(entry)) is not None:
            raise ValueError(f"{self._name} {refusal}. Nothing was released")
        if (excess := self._excess((*entries, entry))) is not None:
            raise BudgetExceeded(
                f"over the budget of {self._name}: with epsilon={entry.epsilon:g}, "
                f"delta={entry.delta:.3g} {excess}; nothing was released"
            )

    @property
    def _name(self) -> str:
        return shown(self.path.name)

    def _excess(self, entries: Sequence[Entry]) -> str | None:
        try:
            return self._accountant.excess(entries)
        except (ArithmeticError, TypeError) as error:
            raise DamagedFile(
                f"{self._name} has entries whose privacy has no value: {error}"
            ) from error

    @contextmanager
    def _open(self, exclusive: bool = False) -> Iterator[int]:
        flags = os.O_RDWR if exclusive else os.O_RDONLY
        with files.open_locked(self.path, flags) as handle, files.locked(handle, not exclusive):
            if not os.path.samestat(os.fstat(handle), os.stat(self.path)):
                raise OSError(f"{self._name} was replaced while it was opened")
            yield handle

    def _read(self, handle: int) -> Contents:
        contents = parse_ledger(files.read_all(handle), self._name, self._known)
        count, digest = self._seen[0]
        digests = contents.chain.digests
        if digest is not None and digest not in digests[count : count + 1]:
            raise ValueError(
                f"{self._name} lost entries that were there before: it was replaced by an "
                "older or another copy"
            )
        self._seen[0] = len(digests) - 1, digests[-1]
        if contents.chain.lost:
            warn(
                f"the last line of {self._name} is cut off: what it was to enter is not "
                "counted. That is right if a release was interrupted; else restore the file",
            )
        return contents


class Reservation:
    """What was reserved of a ledger: an object of one process, which no file and no entry makes."""

    def __init__(self, ledger: Ledger, entry: Entry, key: bytes) -> None:
        self._ledger, self._key, self._pid = ledger, key, os.getpid()
        self.entry = entry

    def settle(self, privacy: Profile) -> Entry:
        """Enter, durably and once, what was spent in the end; no noise comes after it.

        In a ledger of composition "gaussian" the rest is free again: stages of Gaussian noise add
        up in mu^2 whatever decides that one is the last (docs/theory/composition.md). In others
        nothing is entered, and the whole stays spent.
        """
        ledger, entry = self._ledger, self.entry
        files.check_process(self._pid)
        with ledger._open(exclusive=True) as handle:
            file = ledger._read(handle)
            entered = file.entries[entry.number - 1]
            if replace(entered, settled=None) != entry:
                raise ValueError(f"entry {entry.number} of {ledger._name} is not this one")
            if not ledger._accountant.settles:
                return entered
            key = self._key.hex()
            new = settle_entry(entered, privacy, key, file.budget)
            line = {"settles": entry.number, "privacy": privacy.to_dict(), "key": key}
            ledger._append(handle, file, line)
            return new

    def __repr__(self) -> str:
        return f"<a reservation of entry {self.entry.number}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation does not travel")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _accountant(budget: Budget | Ledger) -> Accountant:
    # Not before it is needed: what it imports takes longer than all the rest.
    from privgram.ledger.accountant import ACCOUNTANTS

    return ACCOUNTANTS[budget.composition](budget.epsilon, budget.delta)
