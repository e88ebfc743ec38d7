"""The noise that each mechanism would add to a release, before any data is read."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from privgram._base.numbers import check_integer
from privgram._base.text import Printed, aligned, number
from privgram.columns import Columns
from privgram.mechanisms import AnalyzeGauss, MatrixLaplace, default
from privgram.mechanisms._base import check_mechanism
from privgram.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from collections.abc import Iterable

    from privgram._base.saved import JsonObject
    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency

__all__ = ["Plan", "PlanRow", "plan"]


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


@dataclass(frozen=True, repr=False)
class Plan(Printed):
    """What `plan` returns: printed it is a table.

    Attributes
    ----------
    n_columns, bound, epsilon, delta, adjacency, n_rows
        What was asked.
    rows : tuple of PlanRow
        One a mechanism, the one with the least noise first.
    recommended : str
        The mechanism that one round takes by default.
    """

    n_columns: int
    bound: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_rows: int | None
    rows: tuple[PlanRow, ...]
    recommended: str

    def to_dict(self) -> JsonObject:
        """Return the plan as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = "" if self.n_rows is None else f", {self.n_rows:,} rows"
        return "\n".join(
            [
                f"{self.n_columns} columns, rows of norm at most {self.bound:g}{rows}, "
                f"epsilon = {self.epsilon:g}, delta = {self.delta:g}, {self.adjacency}",
                "",
                *aligned(
                    ["mechanism", "noise"],
                    [[row.mechanism, number(row.noise)] for row in self.rows],
                ),
                "",
                "Noise is the standard deviation of an off-diagonal entry. What it does to one "
                "regression `Study.plan` says.",
                *(f"{row.mechanism}: {row.remark}" for row in self.rows if row.remark),
                f"One round takes {self.recommended}.",
            ]
        )


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
    """Compare the noise of the mechanisms that a release could take.

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
        If a parameter is out of its range, or the guarantee cannot be met.
    TypeError
        If epsilon, delta, or the bound of a number of columns is missing.

    Examples
    --------
    >>> import privgram as pg
    >>> pg.plan(22, bound=4.7, epsilon=0.5, delta=1e-6).recommended
    'AnalyzeGauss()'
    """
    if isinstance(n_columns, Columns):
        columns = n_columns.settled(adjacency)
        n_columns, bound = len(columns), columns.bound if bound is None else bound
    if bound is None:
        raise TypeError("bound must be a number, not missing, where columns are a number")
    guarantee = Guarantee(epsilon, delta, adjacency, None)  # type: ignore[arg-type]
    n_columns = check_integer(n_columns, "n_columns", 1)
    n_rows = None if n_rows is None else check_integer(n_rows, "n_rows", 1)
    taken = default(guarantee, n_columns, bound)
    ours = AnalyzeGauss(), MatrixLaplace()
    compared = [one for one in ours if guarantee.delta or one.pure]
    rows = []
    for mechanism in (*compared, *map(check_mechanism, mechanisms)):
        std, remark = None, ""
        try:
            noise = mechanism.noise_for(guarantee, n_columns, bound, n_rows)
        except ValueError as refusal:
            remark = str(refusal)
        else:
            std, reached = noise.noise_std, mechanism.reached(noise)
            if reached > guarantee.delta:
                remark = f"not private: its delta is {reached:.2g}"
        rows.append(PlanRow(_name(mechanism), std, remark))
    rows.sort(key=lambda row: math.inf if row.noise is None else row.noise)
    return Plan(
        n_columns=n_columns,
        bound=bound,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=adjacency,
        n_rows=n_rows,
        rows=tuple(rows),
        recommended=_name(taken),
    )


def _name(mechanism: Mechanism) -> str:
    """Write the mechanism as one would in Python, defaults left out."""
    settings = [
        f"{field.name}={getattr(mechanism, field.name)!r}"
        for field in fields(mechanism)
        if getattr(mechanism, field.name) != field.default
    ]
    return f"{type(mechanism).__name__}({', '.join(settings)})"
