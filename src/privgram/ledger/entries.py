"""What a ledger's file holds: its header, its entries, and the periods of streams."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from privgram import privacy
from privgram._base import saved
from privgram._base.numbers import (
    check_adjacency,
    check_budget,
    check_integer,
    check_number,
    check_one_of,
    check_positive,
    set_fields,
)
from privgram._base.saved import DAMAGE, DamagedFile, JsonObject, check_version

if TYPE_CHECKING:
    from privgram.privacy import Profile, ProofStatus

FORMAT = "privgram-ledger"
VERSION = 2

#: What the first line says of the budget, always.
BUDGET_FIELDS = ("epsilon", "delta", "adjacency", "composition")

Composition = Literal["gaussian", "basic"]


@dataclass(frozen=True)
class Budget:
    """What a ledger's first line says: the total, and what it is of."""

    epsilon: float
    delta: float
    adjacency: str
    composition: Composition
    table: str | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta, zero="delta")
        check_adjacency(self.adjacency)
        if self.unit is not None:
            check_text(self.unit, "unit")
        check_one_of(self.composition, "composition", get_args(Composition))
        if self.composition == "gaussian" and not self.delta:
            raise ValueError(
                'at delta = 0 there is no Gaussian noise: take composition="basic", which adds up '
                "epsilons"
            )

    @classmethod
    def of(cls, header: JsonObject) -> Budget:
        """The budget of a file with this header; KeyError if it has none."""
        stated: JsonObject = {name: header[name] for name in BUDGET_FIELDS}
        return cls(**stated, table=header.get("table"), unit=header.get("unit"))

    def header(self, created: str) -> JsonObject:
        """The first line of a new file."""
        record = {"format": FORMAT, "version": VERSION}
        record |= {name: getattr(self, name) for name in BUDGET_FIELDS} | {"created": created}
        more = {"table": self.table, "unit": self.unit}
        return record | {name: value for name, value in more.items() if value is not None}


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
    #: Of an answer in stages, what its first one spends, as a ratio: no settlement says less. None
    #: of what is spent as it was entered.
    floor: float | None = None
    #: SHA-256 of the key that a settlement must show, which is in no file before that.
    lock: str = ""

    @property
    def charged(self) -> Profile:
        """By what it is charged: the worst mechanism where no profile is known, or takes long."""
        if self.settled is not None:
            return self.settled
        if self.privacy is None or self.privacy._quick() is not self.privacy:
            return privacy.StatedProfile(self.epsilon, self.delta)
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
        delta_fp = check_number(self.delta_fp, "delta_fp")
        set_fields(self, epsilon=epsilon, delta=delta, delta_fp=delta_fp)
        if not 0 <= self.delta_fp <= self.delta:
            raise ValueError(f"delta_fp must lie in [0, delta], not {self.delta_fp!r}")


@dataclass(frozen=True)
class Contents:
    """What a file holds, with the digests of what streams published, by the streams' ids."""

    budget: Budget
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
        budget = Budget.of(header)
        for digest, record in zip(chain.digests[1:], records, strict=True):
            if "settles" in record:
                at = check_integer(record["settles"], "settles", 1) - 1
                if digest not in known:
                    drawn = privacy.Profile.from_dict(record["privacy"])
                    known[digest] = settle_entry(entries[at], drawn, record["key"], budget)
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
                known[digest] = _entry(len(entries) + 1, record, budget.adjacency)
            entries.append(known[digest])
    except DAMAGE as error:
        raise DamagedFile(f"{name} has lines that are not entries of a ledger") from error
    return Contents(budget, tuple(entries), periods, chain)


def settle_entry(entry: Entry, spent: Profile, key: str, budget: Budget) -> Entry:
    """An entry of which less was spent than reserved; ValueError unless that can be.

    By the key that its reservation alone has: who may append lines to a file has read no key in it,
    and gives nothing back.
    """
    reserved, gaussian = entry.privacy, privacy.GaussianProfile
    if budget.composition != "gaussian":
        raise ValueError('only a ledger of composition="gaussian" takes back what was not spent')
    if entry.floor is None:
        raise ValueError(f"entry {entry.number} was not reserved in stages, and is spent as it is")
    if hashlib.sha256(bytes.fromhex(key)).hexdigest() != entry.lock:
        raise ValueError(f"entry {entry.number} is settled by what reserved it, and nothing else")
    if entry.settled is not None:
        raise ValueError(f"entry {entry.number} was settled before")
    if not (isinstance(spent, gaussian) and isinstance(reserved, gaussian)):
        raise ValueError("only Gaussian noise is settled by what was drawn of it")
    if spent.adjacency != reserved.adjacency:
        raise ValueError("what was spent is for other neighbours than what was reserved")
    if spent.sensitivity_ratio > reserved.sensitivity_ratio:
        raise ValueError("more was spent than was reserved")
    if spent.sensitivity_ratio < entry.floor:
        raise ValueError("less was spent than the first stage of the answer spends")
    return replace(entry, settled=spent)


def _entry(number: int, record: JsonObject, adjacency: str) -> Entry:
    if record["number"] != number:
        raise ValueError("entries are not in their order")
    profile = record["privacy"]
    if profile is not None:
        try:
            profile = privacy.Profile.from_dict(profile)
        except ValueError:  # of a later version, say
            profile = None
        # For other neighbours than the spend, which has its epsilon and delta all the same.
        if profile is not None and not privacy.composition.adjacencies(profile) <= {adjacency}:
            profile = None
    for name in ("when", "what"):
        check_text(record[name], name)
    if record["condition"] is not None:
        check_text(record["condition"], "condition")
    check_text(record.get("unit", ""), "unit")
    staged: JsonObject = {}
    if "floor" in record:
        staged = {"floor": check_positive(record["floor"], "floor"), "lock": record["lock"]}
        check_text(record["lock"], "lock")
    texts: JsonObject = {name: str(record.get(name, "")) for name in ("id", "label", "table")}
    return Entry(
        number,
        **{name: record[name] for name in ("when", "what", "epsilon", "delta", "condition")},
        **texts,
        unit=record.get("unit", ""),
        delta_fp=record["delta_fp"] if profile is not None else 0.0,
        privacy=profile,
        columns=tuple(map(str, record.get("columns", ()))),
        **staged,
    )


def check_text(value: object, name: str) -> None:
    """Raise TypeError unless a value is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {type(value).__name__}")
