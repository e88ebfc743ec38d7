"""What a release will give, before any data is read: its noise, by mechanism and by term.

It takes public descriptions and earlier releases, and never a table.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from privgram._base.numbers import check_integer
from privgram._base.text import Printed, aligned, number, shown
from privgram.columns import Columns
from privgram.columns.structure import by_term, share
from privgram.mechanisms import AdditiveWishart, AnalyzeGauss, MatrixLaplace, semicircle
from privgram.mechanisms._base import check_mechanism
from privgram.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram._base.saved import JsonObject
    from privgram.mechanisms import Calibration, Mechanism
    from privgram.privacy import Adjacency

__all__ = [
    "Plan",
    "PlanRow",
    "TermRow",
    "plan",
]

_LOOK_TWICE = (
    "For regressions, AdaptiveGaussian() adds far less at the same guarantee where columns are "
    "correlated, or narrow in their bounds: it reads the table several times, each time in "
    "coordinates learnt before. For means and principal components one round is best."
)


@dataclass(frozen=True)
class PlanRow:
    """One mechanism in a `Plan`.

    Attributes
    ----------
    mechanism : str
        As one would write it in Python.
    noise : float or None
        Standard deviation of the noise in an off-diagonal entry, in squared data units; None
        where the guarantee cannot be met.
    remark : str
        Why a number is missing or not to be used.
    """

    mechanism: str
    noise: float | None
    remark: str


@dataclass(frozen=True)
class TermRow:
    """One term in a `Plan`.

    Attributes
    ----------
    term : str
        As one would write it; "intercept" for the column of ones.
    columns : int
        Stored columns, 0 where they follow from those of other terms.
    weight, share, noise : float or None
        The weight, the part of the squared bound that it pays, and the standard deviation of the
        noise that the recommended mechanism adds to the sum of the products of one of its columns
        and a column of weight 1. None where nothing is stored.
    """

    term: str
    columns: int
    weight: float | None
    share: float | None
    noise: float | None


@dataclass(frozen=True, repr=False)
class Plan(Printed):
    """What `plan` returns: printed it is a table, with a recommendation below.

    Attributes
    ----------
    n_columns, bound, epsilon, delta, adjacency, n_rows
        What was asked.
    rows : tuple of PlanRow
        One a mechanism, the one with the least noise first.
    recommended : str
        The mechanism to take.
    reason : str
        Why.
    terms : tuple of TermRow
        What each term of `Columns` pays; empty for a number of columns.
    """

    n_columns: int
    bound: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_rows: int | None
    rows: tuple[PlanRow, ...]
    recommended: str
    reason: str
    terms: tuple[TermRow, ...] = ()

    def to_dict(self) -> JsonObject:
        """Return the plan as plain values, for JSON."""
        return asdict(self)

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        rows = "" if self.n_rows is None else f", {self.n_rows:,} rows"
        return (
            f"{self.n_columns} columns, rows of norm at most {self.bound:g}{rows}, "
            f"epsilon = {self.epsilon:g}, delta = {self.delta:g}, {self.adjacency}"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What belongs below the table, a paragraph each."""
        remarks = [f"{row.mechanism}: {row.remark}" for row in self.rows if row.remark]
        return (
            "Noise is the standard deviation of an off-diagonal entry. What it does to a "
            "regression turns on how far columns follow from each other: `Study.plan` says it of "
            "one regression.",
            *remarks,
            self.reason,
            *([_LOOK_TWICE] if self.delta > 0 else []),
        )

    def __str__(self) -> str:
        noise = [[row.mechanism, number(row.noise)] for row in self.rows]
        parts = [self.heading, "", *aligned(["mechanism", "noise"], noise), "", *self.notes]
        if not self.terms:
            return "\n".join(parts)
        cells = []
        for row in self.terms:
            part = "-" if row.share is None else f"{row.share:.1%}"
            line = [shown(row.term), f"{row.columns:,}", number(row.weight), part]
            cells.append([*line, number(row.noise)])
        parts += ["", *aligned(["term", "columns", "weight", "share", "noise"], cells), ""]
        parts.append(
            "Share is what a term pays of the squared bound, to which noise is in proportion: its "
            "squared weight for each of its polynomials, whatever the number of its levels. Noise "
            "is that of the sum of one of its columns times a column of weight 1."
        )
        if any(not row.columns for row in self.terms):
            parts.append("A term of 0 columns follows from the others and costs nothing.")
        return "\n".join(parts)


def plan(
    n_columns: int | Columns,
    bound: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    n_rows: int | None = None,
    adjacency: Adjacency = "replace",
    *,
    mechanisms: Iterable[Mechanism] = (),
) -> Plan:
    """Say which mechanism to take for a release, and what its terms pay.

    Reads no secret data.

    Parameters
    ----------
    n_columns : int or Columns
        Number of columns d, an intercept counted; or the columns themselves.
    bound : float, optional
        L2 bound B of one row; by default that of the Columns.
    epsilon : float
        Privacy parameter, > 0; must be given.
    delta : float
        Privacy parameter, in [0, 1); must be given. At 0 there is one mechanism, `MatrixLaplace`.
    n_rows : int, optional
        Number of rows, if it is public.
    adjacency : {"replace", "add-remove"}
        Neighbouring tables: one row replaced, or one added or removed.
    mechanisms : iterable of Mechanism, optional
        Others to compare, such as those of `privgram.papers.sheffet`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    TypeError
        If epsilon, delta, or the bound of a number of columns is missing.

    Examples
    --------
    >>> import privgram as pg
    >>> print(pg.plan(22, bound=4.7, epsilon=0.5, delta=1e-6))  # doctest: +SKIP
    """
    columns = n_columns.settled(adjacency) if isinstance(n_columns, Columns) else None
    if isinstance(n_columns, Columns):
        bound = n_columns.bound if bound is None else bound
        n_columns = len(n_columns)
    for what, value in {"bound": bound, "epsilon": epsilon, "delta": delta}.items():
        if value is None:
            raise TypeError(
                f"{what} must be a number, not missing: plan(n_columns, bound, epsilon, delta), or "
                "plan(columns, epsilon=..., delta=...) of Columns"
            )
    assert bound is not None
    guarantee = Guarantee(epsilon, delta, adjacency, None)  # type: ignore[arg-type]
    n_columns = check_integer(n_columns, "n_columns", 1)
    n_rows = None if n_rows is None else check_integer(n_rows, "n_rows", 1)
    compared = (*_candidates(guarantee.delta), *map(check_mechanism, mechanisms))

    rows = []
    for mechanism in compared:
        noise, refusal = _calibrate(mechanism, guarantee, n_columns, bound, n_rows)
        rows.append(
            PlanRow(
                mechanism=_name(mechanism),
                noise=noise.noise_std if noise else None,
                remark=refusal,
            )
        )
    if all(row.noise is None for row in rows):
        raise ValueError(rows[0].remark)
    rows.sort(key=lambda row: math.inf if row.noise is None else row.noise)
    ours = set(map(_name, _candidates(guarantee.delta)))
    recommended, reason = _recommend([r for r in rows if r.mechanism in ours], n_columns, n_rows)
    terms: tuple[TermRow, ...] = ()
    if columns is not None and not columns.plain:
        (std,) = (row.noise for row in rows if row.mechanism == recommended)
        assert std is not None
        terms = _terms(columns, std)
    return Plan(
        n_columns=n_columns,
        bound=bound,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=adjacency,
        n_rows=n_rows,
        rows=tuple(rows),
        recommended=recommended,
        reason=reason,
        terms=terms,
    )


def _terms(columns: Columns, noise: float) -> tuple[TermRow, ...]:
    """What every term pays, at the standard deviation that the noise has without weights."""
    rows = []
    for term, stored in by_term(columns).items():
        size = sum(one.size for one in stored)
        weight = max((one.weight for one in stored), default=None)
        if weight is None:
            rows.append(TermRow(term, size, None, None, None))
        else:
            rows.append(TermRow(term, size, weight, share(columns, stored), noise / weight))
    return tuple(rows)


def _candidates(delta: float) -> list[Mechanism]:
    """Mechanisms that promise nothing about the data."""
    mechanisms: list[Mechanism] = [AnalyzeGauss(), AdditiveWishart(), MatrixLaplace()]
    return [mechanism for mechanism in mechanisms if delta or mechanism.pure]


def _calibrate(
    mechanism: Mechanism,
    guarantee: Guarantee,
    n_columns: int,
    bound: float,
    n_rows: int | None,
) -> tuple[Calibration | None, str]:
    """Calibrate, or say why not, or that it has another delta than was asked for."""
    try:
        noise = mechanism.noise_for(guarantee, n_columns, bound, n_rows)
    except ValueError as refusal:
        return None, str(refusal)
    reached = mechanism.reached(noise)
    return noise, f"not private: its delta is {reached:.2g}" if reached > guarantee.delta else ""


def _recommend(rows: list[PlanRow], n_columns: int, n_rows: int | None) -> tuple[str, str]:
    """Name the mechanism to take, with the reason; `rows` come by their noise.

    The same as `privgram.mechanisms.default`, for any order of the rows.
    """
    pure = next(row for row in rows if row.mechanism.startswith("MatrixLaplace"))
    if len(rows) == 1:
        return pure.mechanism, f"Take {pure.mechanism}: no other is private at delta = 0."
    less = ""
    rows = [row for row in rows if row is not pure]
    best = rows[0]
    if pure.noise is not None and best.noise is not None and pure.noise < best.noise:
        less = (
            f" {pure.mechanism} would add {1 - pure.noise / best.noise:.1%} less noise, with "
            "heavier tails."
        )
    positive = next((row for row in rows if row.mechanism.startswith("AdditiveWishart")), None)
    if positive is None or positive.noise is None or best.noise is None or positive is best:
        return best.mechanism, f"Take {best.mechanism}: it adds the least noise.{less}"
    spectral = semicircle(best.noise, n_columns)
    more = positive.noise / best.noise - 1
    if n_rows is not None and n_rows < 2 * spectral:
        return positive.mechanism, (
            f"Take {positive.mechanism}: its release is positive definite always, and with "
            f"{n_rows:,} rows {best.mechanism}'s may not be, whose noise has eigenvalues up to "
            f"{spectral:.3g}. It adds {more:.1%} more noise.{less}"
        )
    return best.mechanism, (
        f"Take {best.mechanism}: it adds little noise and no bias. If some direction of the "
        f"table has a sum of squares below {2 * spectral:.3g}, take {positive.mechanism}, whose "
        f"release is positive definite always, for {more:.1%} more noise.{less}"
    )


def _name(mechanism: Mechanism) -> str:
    """Write the mechanism as one would in Python, defaults left out."""
    settings = [
        f"{field.name}={getattr(mechanism, field.name)!r}"
        for field in fields(mechanism)
        if getattr(mechanism, field.name) != field.default
    ]
    return f"{type(mechanism).__name__}({', '.join(settings)})"
