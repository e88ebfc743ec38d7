"""Mechanisms, their public half: parameters, calibration and names, and which of them to take.

None of them sees data. What they draw from a second moment is in `privgram.disclosure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from privgram._base.numbers import check_one_of
from privgram.mechanisms._base import Calibration, Mechanism, from_dict, named, true_delta
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.mechanisms.additive import AnalyzeGauss, MatrixLaplace

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.privacy.guarantee import Guarantee

__all__ = [
    "AdaptiveGaussian",
    "AnalyzeGauss",
    "Calibration",
    "MatrixLaplace",
    "Mechanism",
    "best",
    "default",
    "from_dict",
    "named",
    "taken",
    "true_delta",
]

#: What a release is for.
Purpose = Literal["regression", "components", "means"]


def default(guarantee: Guarantee, n_columns: int, bound: float) -> Mechanism:
    """The mechanism of one round: `AnalyzeGauss`, or at delta = 0 `MatrixLaplace`.

    Parameters
    ----------
    guarantee : Guarantee
    n_columns, bound
        As in `Mechanism.calibrate`.

    Raises
    ------
    ValueError
        If the guarantee cannot be met.
    """
    mechanism = AnalyzeGauss() if guarantee.delta else MatrixLaplace()
    mechanism.noise_for(guarantee, n_columns, bound)
    return mechanism


def one_round(table: object) -> str:
    """Why a table is looked at once, if its class says so: a frame's columns are attributes."""
    why: str = getattr(type(table), "one_round", "")
    return why


#: Frames of more columns take half a minute, and eight times as long for twice as many.
MOST_COLUMNS = 2048


def best(
    table: object,
    columns: Columns | None,
    guarantee: Guarantee,
    purpose: Purpose = "regression",
    groups: object = None,
) -> tuple[Mechanism | None, str]:
    """The mechanism that serves a purpose best on a table, by what is public, and why.

    Parameters
    ----------
    table : table
        Only whether it can be read again matters.
    columns : Columns or None
    guarantee : Guarantee
    purpose : {"regression", "components", "means"}
    groups : object
        Whether there are releases of groups: not None.

    Returns
    -------
    mechanism : Mechanism or None
        `AdaptiveGaussian`, or None for one round by `default`.
    reason : str
    """
    check_one_of(purpose, "purpose", get_args(Purpose))
    reasons = {
        "for means and components further rounds gain nothing": purpose != "regression",
        "at delta = 0 there are no further rounds": guarantee.delta == 0,
        "the table can be read once only": isinstance(table, Iterator),
        one_round(table): bool(one_round(table)),
        "each group is looked at once": groups is not None,
        "all rows of a unit are looked at once": guarantee.unit is not None,
        "further rounds need public columns": columns is None,
        "one column leaves nothing to learn": columns is not None and len(columns) < 3,
        "so many columns take too long to learn": columns is not None
        and len(columns) > MOST_COLUMNS,
    }
    for reason, holds in reasons.items():
        if holds:
            return None, reason
    return AdaptiveGaussian(), "the table can be read again"


def taken(parameters: Mapping[str, Any], reason: str) -> dict[str, str]:
    """What a release that was chosen by `best` says of itself: its method, and the reason."""
    if parameters.get("rounds", 1) == 1:
        return {"method": "one round", "reason": reason}
    if parameters.get("unread"):
        return {"method": "one round", "reason": "the table could not be read again"}
    if "clipped_rows" not in parameters:
        return {"method": "one round", "reason": "the first one showed that others gain nothing"}
    return {"method": "adaptive rounds", "reason": reason}


def check_groups(mechanism: Mechanism, guarantee: Guarantee) -> None:
    """Raise ValueError if a mechanism has no proof for the groups of a table, or of units."""
    if isinstance(mechanism, AdaptiveGaussian):
        raise ValueError(
            "AdaptiveGaussian() reads one table several times, and not at its groups: take "
            "AnalyzeGauss()"
        )
    if guarantee.unit is not None and not isinstance(mechanism, AnalyzeGauss):
        raise ValueError(
            "groups of units, which may have rows in several, have a proof for Gaussian noise "
            "alone: take AnalyzeGauss(), and a positive delta"
        )
    if guarantee.adjacency == "replace" and not mechanism.of_groups:
        raise ValueError(
            f"{type(mechanism).__name__}() has no proof for groups under 'replace', where one row "
            "may leave a group and enter another: take adjacency='add-remove', or AnalyzeGauss()"
        )


def release_noise(
    mechanism: Mechanism,
    guarantee: Guarantee,
    n_columns: int,
    bound: float,
    n_rows: int | None,
    of_groups: bool,
) -> Any:
    """The noise of a release, or of each of its groups."""
    if of_groups:
        return calibrate_groups(mechanism, guarantee, n_columns, bound)
    # Nothing in a mechanism turns on the number of units.
    known = n_rows if guarantee.unit is None else None
    return mechanism.noise_for(guarantee, n_columns, bound, known)


def calibrate_groups(
    mechanism: Mechanism, guarantee: Guarantee, n_columns: int, bound: float
) -> Any:
    """Calibration of each group that makes the releases of all groups together private.

    Under "add-remove" a row is in one group: parallel composition. Under "replace" it may change
    its group. Two of the matrices then are the diagonal blocks of the second moment of a table of
    twice as many columns, and the noise is that of this table: docs/theory/composition.md,
    "Groups of a table".
    """
    check_groups(mechanism, guarantee)
    width = 2 * n_columns if guarantee.adjacency == "replace" else n_columns
    return replace(mechanism.noise_for(guarantee, width, bound), n_columns=n_columns)
