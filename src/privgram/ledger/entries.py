"""What a ledger's file holds: its header, its entries, and the periods of streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram._base import saved
from privgram._base.numbers import check_adjacency, check_budget, check_integer, check_number
from privgram._base.saved import DAMAGE, DamagedFile, check_version

if TYPE_CHECKING:
    from privgram.privacy import Profile, ProofStatus

FORMAT = "privgram-ledger"
VERSION = 1

Composition = Literal["gaussian", "pld", "basic"]


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
    settled : Profile or None
        What was spent of it in the end, where that was less than was reserved.
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
    settled: Profile | None = None

    @property
    def charged(self) -> Profile:
        """By what it is charged: the worst mechanism where no profile is known, or takes long."""
        from privgram.privacy import StatedProfile

        if self.settled is not None:
            return self.settled
        if self.privacy is None or self.privacy._quick() is not self.privacy:
            return StatedProfile(self.epsilon, self.delta)
        return self.privacy

    @property
    def spent(self) -> float:
        """Epsilon, at its delta, that was spent of it in the end."""
        return self.epsilon if self.settled is None else self.settled.epsilon(self.delta)

    @property
    def proof_status(self) -> ProofStatus:
        """How well epsilon and delta are founded, see `privgram.privacy.Profile.proof_status`."""
        return "stated" if self.privacy is None else self.privacy.proof_status

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


@dataclass(frozen=True)
class Contents:
    """What a file holds.

    Attributes
    ----------
    header : dict
    entries : tuple of Entry
    periods : dict of str to tuple of str
        Digests of what streams published, period by period, by the streams' ids.
    chain : Chain
    """

    header: dict[str, Any]
    entries: tuple[Entry, ...]
    periods: dict[str, tuple[str, ...]]
    chain: saved.Chain


def parse_ledger(data: bytes, name: str, known: dict[str, Entry]) -> Contents:
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
    header, *records = chain.records
    check_version(header.get("version"), VERSION, name, "a ledger")
    entries: list[Entry] = []
    periods: dict[str, tuple[str, ...]] = {}
    try:
        check_header(header)
        for digest, record in zip(chain.digests[1:], records, strict=True):
            if "settles" in record:
                at = check_integer(record["settles"], "settles", 1) - 1
                if digest not in known:
                    known[digest] = settle_entry(entries[at], record["privacy"], header)
                entries[at] = known[digest]
                continue
            if "stream" in record:
                check_text(record["digest"], "digest")
                before = periods.get(record["stream"], ())
                if record["period"] != len(before) + 1:
                    raise ValueError("periods are not in their order")
                periods[record["stream"]] = (*before, record["digest"])
                continue
            if digest not in known:
                known[digest] = _entry(len(entries) + 1, record, header["adjacency"])
            entries.append(known[digest])
    except DAMAGE as error:
        raise DamagedFile(f"{name} has lines that are not entries of a ledger") from error
    return Contents(header, tuple(entries), periods, chain)


def settle_entry(entry: Entry, privacy: dict[str, Any], header: dict[str, Any]) -> Entry:
    """An entry of which less was spent than reserved; ValueError unless that can be."""
    from privgram.privacy import GaussianProfile, Profile

    profile, reserved = Profile.from_dict(privacy), entry.privacy
    if header["composition"] != "gaussian":
        raise ValueError('only a ledger of composition="gaussian" takes back what was not spent')
    if entry.id:
        raise ValueError(f"entry {entry.number} is paid once for all that rests on it")
    if entry.settled is not None:
        raise ValueError(f"entry {entry.number} was settled before")
    if not (isinstance(profile, GaussianProfile) and isinstance(reserved, GaussianProfile)):
        raise ValueError("only Gaussian noise is settled by what was drawn of it")
    if profile.adjacency != reserved.adjacency:
        raise ValueError("what was spent is for other neighbours than what was reserved")
    if profile.sensitivity_ratio > reserved.sensitivity_ratio:
        raise ValueError("more was spent than was reserved")
    return replace(entry, settled=profile)


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
        check_text(record[name], name)
    if record["condition"] is not None:
        check_text(record["condition"], "condition")
    check_text(record.get("unit", ""), "unit")
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


def check_text(value: Any, name: str) -> None:
    """Raise TypeError unless a value is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__}")


def check_header(header: dict[str, Any]) -> None:
    """Raise unless a header has a budget, or KeyError."""
    check_budget(header["epsilon"], header["delta"], zero="delta")
    check_adjacency(header["adjacency"])
    check_text(header.get("unit", ""), "unit")
    if header["composition"] not in get_args(Composition):
        raise ValueError(
            'composition must be "gaussian", "pld" or "basic", not ' + repr(header["composition"])
        )
    if header["composition"] == "gaussian" and not header["delta"]:
        raise ValueError(
            'at delta = 0 there is no Gaussian noise: take composition="basic", which adds up '
            "epsilons"
        )
