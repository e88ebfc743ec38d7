r"""A budget on disk: every release is entered before it is made, and refused beyond the total.

A ledger is a file of JSON lines that form a chain (`privgram._chain`). The first line, the header,
has the budget; every further one is a spend with all that its privacy profile needs. A line that
was altered, removed from the middle or moved is found. That whole lines were cut off the end no
file can know: keep the ledger where those who release may append and not restore.

A spend is entered under the file's lock, after the file has been read again, and flushed to the
disk before any noise is drawn. So two processes cannot both have the last of the budget, and a
process that dies has at most entered a spend whose release nobody saw. A last line that is cut off
was being written when its process died: the release was never handed over, so it counts for nothing
and the next spend writes over it, with a warning until then; but it counts if only its digest is
cut. Any other damage is refused.
"""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram import _chain, _files
from privgram._checks import check_budget, check_number
from privgram._saved import DAMAGE, DamagedFile, check_version

if TYPE_CHECKING:
    from privgram.privacy import Profile

__all__ = ["BudgetExceeded", "Entry", "Ledger"]

FORMAT = "privgram-ledger"
VERSION = 1

Composition = Literal["pld", "basic"]

#: Deltas evaluated for the loss distribution of one spend: a quarter of the default, for a
#: quarter of the time and an excess in delta of about (49 / 1024)^2 / 8.
_DOTS = 1 << 10

#: Composition by fast Fourier transforms says nothing below.
_FLOOR = 1e-12


def check_ledger(ledger: Any) -> None:
    """Refuse what is no ledger, before anything is done; None is none to be kept."""
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
    time : str
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
    """

    number: int
    time: str
    what: str
    epsilon: float
    delta: float
    delta_fp: float
    privacy: Profile | None

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
        Total budget, in (0, 1).
    adjacency : {"replace", "add-remove"}, optional
        Which tables are neighbours, for all releases; "replace" for a new ledger.
    composition : {"pld", "basic"}, optional
        How spends add up; "pld" for a new ledger.

        "pld": by their privacy loss distributions, pessimistically. The tightest. It holds for
        spends whose parameters (mechanism, epsilon, delta) do not depend on what earlier
        releases showed, and for any sizes where all are Gaussian noise (docs/theory/ledger.md).
        What is done with a release is free.

        "basic": epsilons add up, and deltas. Sound also where an analyst looks at one release
        to decide how much to spend on the next, and on which mechanism.

    Raises
    ------
    ValueError
        If the file is no ledger, is damaged, or is one of another budget.
    FileNotFoundError
        If it does not exist and no budget is given.
    OSError
        If it cannot be read or made.
    TypeError
        If epsilon or delta is no number.

    Notes
    -----
    Spends may come from several threads and processes, on file systems with working advisory
    locks (``flock``).

    "pld" needs ``pip install "privgram[accounting]"`` as soon as spends of different kinds do
    not fit by adding up epsilons and deltas.

    References
    ----------
    .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan, "Privacy odometers and filters:
       pay-as-you-go composition", NeurIPS 2016: why "basic" is sound for adaptive spends.
    .. [2] Y. Zhu, J. Dong, Y.-X. Wang, "Optimal accounting of differential privacy via
       characteristic function", AISTATS 2022, Theorem 10: composition of dominating pairs.

    Examples
    --------
    >>> ledger = Ledger("study.ledger", epsilon=1.0, delta=1e-6)  # doctest: +SKIP
    >>> pg.release(moment, pg.AnalyzeGauss(), 0.5, 1e-7, ledger=ledger)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str | None = None,
        composition: Composition | None = None,
    ) -> None:
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
            _check_header(header)
            with suppress(FileExistsError):  # another process was faster; open what it made
                _files.create(self.path, _chain.line(header, "")[0])
        #: Entries this object has seen, and the digest of the last: they may not go away.
        self._seen: tuple[int, str | None] = (0, None)
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
        if self.composition == "basic":
            epsilon, delta = _sums(entries)
            return float(epsilon), float(delta)
        if not entries:
            return 0.0, self.delta
        # The ledger never holds more than its budget.
        least = _edge(lambda at: self._total(entries, at) <= self.delta, self.epsilon, 0.0)
        return least, self.delta

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
        privacy: Profile | None = None,
        delta_fp: float = 0.0,
    ) -> None:
        """Raise `BudgetExceeded` if a spend would not be accepted now; parameters as in `spend`."""
        self._check(self.entries, Entry(0, "", "", epsilon, delta, delta_fp, privacy), adjacency)

    def spend(
        self,
        epsilon: float,
        delta: float,
        *,
        adjacency: str,
        privacy: Profile | None = None,
        delta_fp: float = 0.0,
        what: str = "",
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
        privacy : Profile, optional
            Exact privacy profile, `delta_fp` left out. Without one the worst mechanism with
            this epsilon and delta is assumed.
        delta_fp : float
            Part of delta for finite precision.
        what : str
            What the spend is for; one line.

        Returns
        -------
        Entry

        Raises
        ------
        BudgetExceeded
            If the budget has no room for it.
        ValueError
            If the adjacency is not the ledger's, or the ledger is damaged.
        OSError
            If the ledger cannot be written. Nothing was spent then.
        """
        with self._open(exclusive=True) as handle:
            file = self._read(handle)
            entry = Entry(
                len(file.entries) + 1,
                _now(),
                " ".join(what.split()),
                epsilon,
                delta,
                delta_fp,
                privacy,
            )
            # A profile's delta is good to nine digits, and never 0.
            least = 0.0 if privacy is None else privacy.delta(entry.epsilon) + entry.delta_fp
            if least > max(entry.delta * (1 + 1e-9), 1e-300):
                raise ValueError("the profile has a larger delta at epsilon than the one given")
            self._check(file.entries, entry, adjacency)
            record = vars(entry) | {"privacy": None if privacy is None else privacy.to_dict()}
            line, digest = _chain.line(record, file.chain.last)
            # If this fails, nothing was spent: nothing is released after it.
            _chain.append(handle, file.chain.gap + line, file.chain.end)
            self._seen = entry.number, digest
            return entry

    def _check(self, entries: tuple[Entry, ...], entry: Entry, adjacency: str) -> None:
        if adjacency != self.adjacency:
            raise ValueError(
                f"{self.path.name} is a ledger for adjacency {self.adjacency!r}, and this spend "
                f"is private for {adjacency!r}; the two do not compose"
            )
        total = self._total((*entries, entry), self.epsilon)
        if total > self.delta:
            raise BudgetExceeded(
                f"over the budget of {self.path.name}: with epsilon={entry.epsilon:g}, "
                f"delta={entry.delta:.3g} {_excess(total, self.epsilon)}, and the ledger "
                f"allows delta={self.delta:g}; nothing was released"
            )

    def _total(self, entries: Sequence[Entry], at: float) -> float:
        """Bound delta of all entries together at an epsilon, as the ledger composes them."""
        epsilon, delta = _sums(entries)
        added = float(delta) if epsilon <= _decimal(at) else math.inf
        # Adding up is sound either way, takes no time and loses nothing for one release.
        if self.composition == "basic" or added <= self.delta:
            return added
        from privgram.privacy import ComposedProfile

        try:
            # What alone is beyond the budget is in no honest ledger, and may take for ever.
            for profile in set(map(_profile, entries)):
                alone = 0.0 if isinstance(profile, ComposedProfile) else profile.delta(at)
                if alone > self.delta:
                    return min(added, alone)
            return min(added, _composed(entries, at, min(1e-4, 1e-4 * self.epsilon)))
        except (ArithmeticError, TypeError) as error:
            raise DamagedFile(
                f"{self.path.name} has entries whose privacy has no value: {error}"
            ) from error

    @contextmanager
    def _open(self, exclusive: bool = False) -> Iterator[int]:
        flags = os.O_RDWR if exclusive else os.O_RDONLY
        with _files.opened(self.path, flags) as handle, _files.locked(handle, not exclusive):
            if not os.path.samestat(os.fstat(handle), os.stat(self.path)):
                raise OSError(f"{self.path.name} was replaced while it was opened")
            yield handle

    def _read(self, handle: int) -> _Contents:
        contents = _parse(_chain.read(handle), self.path.name)
        count, digest = self._seen
        digests = contents.chain.digests
        if digest is not None and digest not in digests[count : count + 1]:
            raise ValueError(
                f"{self.path.name} lost entries that were there before: it was replaced by an "
                "older or another copy"
            )
        self._seen = len(contents.entries), digests[-1]
        if contents.chain.lost:
            warnings.warn(
                f"the last line of {self.path.name} is cut off: what it was to enter is not "
                "counted. That is right if a release was interrupted; else restore the file",
                stacklevel=3,
            )
        return contents


@dataclass(frozen=True)
class _Contents:
    header: dict[str, Any]
    entries: tuple[Entry, ...]
    chain: _chain.Chain


def _parse(data: bytes, name: str) -> _Contents:
    try:
        chain = _chain.parse(data)
    except _chain.Broken as error:
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
        entries = tuple(_entry(number, record) for number, record in enumerate(spends, 1))
    except DAMAGE as error:
        raise DamagedFile(f"{name} has lines that are no entries of a ledger") from error
    return _Contents(header, entries, chain)


def _entry(number: int, record: dict[str, Any]) -> Entry:
    from privgram import privacy

    if record["number"] != number:
        raise ValueError("entries are not in their order")
    profile = record["privacy"]
    if profile is not None:
        try:
            profile = privacy.Profile.from_dict(profile)
        except ValueError:  # of a later version, say
            profile = None
    if not (isinstance(record["time"], str) and isinstance(record["what"], str)):
        raise TypeError("time and what are text")
    return Entry(
        number,
        record["time"],
        record["what"],
        record["epsilon"],
        record["delta"],
        record["delta_fp"] if profile is not None else 0.0,
        profile,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_header(header: dict[str, Any]) -> None:
    from privgram.privacy._adjacency import check_adjacency

    check_budget(header["epsilon"], header["delta"])
    check_adjacency(header["adjacency"])
    if header["composition"] not in get_args(Composition):
        raise ValueError(f'composition must be "pld" or "basic", not {header["composition"]!r}')


def _decimal(value: float) -> Decimal:
    # As it is written: ten times 0.1 is 1.
    return Decimal(repr(float(value)))


def _sums(entries: Sequence[Entry]) -> tuple[Decimal, Decimal]:
    zero = Decimal(0)
    return (
        sum((_decimal(e.epsilon) for e in entries), zero),
        sum((_decimal(e.delta) for e in entries), zero),
    )


def _excess(total: float, epsilon: float) -> str:
    if total == math.inf:
        return f"the epsilons add up to more than {epsilon:g}"
    return f"the total would be delta={total:.3g} at epsilon={epsilon:g}"


def _composed(entries: Sequence[Entry], at: float, discretization: float) -> float:
    """Delta of entries together at an epsilon, by composing their losses."""
    from privgram.privacy import ComposedProfile, compose

    groups: dict[str, list[Profile]] = {}
    for profile in map(_profile, entries):
        # Of a table with one column, replacing a row is accounted as adding it.
        groups.setdefault(getattr(profile, "adjacency", ""), []).append(profile)
    merged: list[Profile] = []
    for profiles in groups.values():
        whole = compose(profiles)
        merged += whole.profiles if isinstance(whole, ComposedProfile) else (whole,)
    if len(merged) == 1:
        delta = merged[0].delta(at)
    else:
        losses = [_loss(p, discretization, count) for p, count in Counter(merged).items()]
        total = reduce(lambda x, y: x.compose(y), losses)
        delta = max(float(total.get_delta_for_epsilon(at)), _FLOOR)
    # An output that is off with chance h under either table adds h (1 + e^epsilon).
    spread = [_log1pexp(at) - _log1pexp(e.epsilon) for e in entries]
    slack = [e.delta_fp * math.exp(min(x, 700)) for e, x in zip(entries, spread, strict=True)]
    return delta + math.fsum(slack)


def _log1pexp(x: float) -> float:
    return x + math.log1p(math.exp(-x))


def _profile(entry: Entry) -> Profile:
    from privgram.privacy import AdaptiveLadderProfile, StatedProfile

    if entry.privacy is None:
        return StatedProfile(entry.epsilon, entry.delta)
    # A delta of the ladder takes milliseconds, and its tail hardly falls.
    if isinstance(entry.privacy, AdaptiveLadderProfile):
        return StatedProfile(entry.epsilon, entry.delta)
    return entry.privacy


@lru_cache(maxsize=1024)
def _loss(profile: Profile, discretization: float, count: int) -> Any:
    from privgram.privacy.accounting import pld_from_profile

    if count > 1:
        return _loss(profile, discretization, 1).self_compose(count)
    return pld_from_profile(profile, discretization, _DOTS)


def _edge(good: Callable[[float], bool], inside: float, outside: float) -> float:
    """Last good number on the way out from a good one, to a ten-thousandth of the way."""
    if good(outside):
        return outside
    tolerance = 1e-4 * abs(outside - inside)
    while abs(outside - inside) > tolerance:
        middle = (inside + outside) / 2
        if middle in (inside, outside):  # two subnormal numbers side by side
            break
        if good(middle):
            inside = middle
        else:
            outside = middle
    return inside
