"""Times to an event, cut into pieces: what `Surv(time, event)` makes of the columns of a table.

Within a piece of time the hazard is constant. So Cox's regression is one of events by Poisson's
law, with the logarithm of each row's time in a piece added: https://doi.org/10.2307/2346901.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_integer, check_number
from privgram.columns.variables import Boolean, Factor, Log, Number

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.terms import Parsed
    from privgram.columns.variables import Variable

#: Each piece is one more row of those that are protected together.
MOST_PIECES = 30

#: What columns that are made are called: the factor of pieces, and the time in one.
PIECE, EXPOSURE = "(piece)", "(exposure)"

#: And, where cuts are to be placed, the time of a row's event.
EVENT_TIME = "(time of event)"

#: No more events are expected of a row in a piece: all but e^-5 of such rows have theirs.
MOST_EXPECTED = 5.0

#: A time in a piece counts as this part of the whole at least: its logarithm has public bounds.
LEAST_TIME = 2.0**-20

FEW_PIECES = "Of pieces 4 to 6 pay, and fewer where events are rare: each further one is noise."

NO_CUTS = (
    "Surv(time, event) is fitted by pieces of time: say where they end, by what is public, such as "
    "cuts=[0, 90, 180, 365, 730], or how many there are, cuts=5, which a part of the budget places "
    f"by the times of events. {FEW_PIECES}"
)


@dataclass(frozen=True)
class Survival:
    """Columns with times and events of rows, and the `cuts` between which pieces of time lie.

    Cuts are public numbers, or how many pieces there are. Rows count from the first cut on, and
    are censored at the last one. A row with an event that is neither 0 nor 1, or times that are
    negative, not finite or out of order, is missing.
    """

    stop: str
    strata: tuple[str, ...]
    cuts: tuple[float, ...] | int
    described: dict[str, Variable]  # what is known of the columns of a start, a time and an event
    chosen: bool = False  # whether the table placed the cuts

    @classmethod
    def of(cls, parsed: Parsed, columns: Columns, cuts: Any) -> Survival | None:
        """What a formula and cuts ask for; None where the target is no Surv()."""
        if not parsed.survival:
            if cuts is not None:
                raise ValueError("cuts are of Surv(time, event) ~ ...: leave them out")
            return None
        *start, stop, event = parsed.survival
        described = {name: columns.variables[name] for name in parsed.survival}
        for name in (*start, stop):
            of_time = described[name]
            if not isinstance(of_time, Number | Log) or of_time.lower < 0:
                raise ValueError(f"{name!r} is no time: describe it by bounds from 0 on")
        is_number = isinstance(described[event], Number)
        if not (isinstance(described[event], Boolean) or is_number) or (
            is_number and described[event].interval != (0.0, 1.0)  # type: ignore[attr-defined]
        ):
            raise ValueError(f"{event!r} is no event: describe it by bool, or by bounds (0, 1)")
        for name in parsed.strata:
            if not isinstance(columns.variables.get(name), Factor) or name in parsed.features:
                raise ValueError(
                    f"strata({name}) takes a factor that is no feature: describe {name!r} by its "
                    "levels, and leave it out of the features"
                )
        if parsed.absorbed or parsed.endogenous or parsed.offset or not parsed.intercept:
            raise ValueError(
                "Surv(time, event) is explained by features and strata(): its pieces are the "
                "effects, the offset and the intercept"
            )
        return cls(stop, parsed.strata, _checked(cuts), described)

    @property
    def target(self) -> str:
        """What the column of events in pieces is called."""
        return f"Surv({', '.join(self.described)})"

    @property
    def n_pieces(self) -> int:
        """How many pieces there are."""
        return self.cuts if isinstance(self.cuts, int) else len(self.cuts) - 1

    @property
    def end(self) -> float:
        """The public end of all times: the last cut, or the upper bound."""
        if not isinstance(self.cuts, int):
            return self.cuts[-1]
        described = self.described[self.stop]
        assert isinstance(described, Number | Log)
        return described.upper

    @property
    def shortest(self) -> float:
        """Times in pieces are no shorter."""
        return LEAST_TIME * self.end

    @cached_property
    def made(self) -> dict[str, Variable]:
        """What is publicly known of the columns that are made."""
        levels = [str(k) for k in range(1, self.n_pieces + 1)]
        times = Log(self.shortest, self.end)
        return {self.target: Number(0.0, 1.0), EXPOSURE: times, PIECE: Factor(levels)}

    def terms(self, parsed: Parsed) -> Parsed:
        """The formula of the regression by pieces."""
        return replace(
            parsed,
            targets=(self.target,),
            absorbed=("*".join((PIECE, *self.strata)),),
            offset=f"log({EXPOSURE})",
            logs=parsed.logs | {EXPOSURE},
            survival=(),
            strata=(),
        )

    def placed(self, cuts: tuple[float, ...] | None = None) -> Survival:
        """The same with cuts that the table chose, or even ones until then."""
        if cuts is not None:
            return replace(self, cuts=cuts, chosen=True)
        if not isinstance(self.cuts, int):
            return self
        return replace(self, cuts=tuple(np.linspace(0.0, self.end, self.cuts + 1).tolist()))

    def columns(self, columns: Columns) -> Columns:
        """The columns with those that are made."""
        if taken := [name for name in self.made if name in columns.variables]:
            raise ValueError(f"a column is called {taken[0]!r}, as one that is made: rename it")
        return columns.replace(bounds={**columns.variables, **self.made}, terms=None)


def _checked(cuts: Any) -> tuple[float, ...] | int:
    """Cuts that ascend from 0 on, or the number of pieces."""
    if cuts is None or isinstance(cuts, str | bool):
        raise ValueError(NO_CUTS)
    if not isinstance(cuts, Sequence | np.ndarray):
        return check_integer(cuts, "cuts", 1, MOST_PIECES)
    ends = tuple(check_number(cut, "a cut") for cut in cuts)
    ascend = all(low < high for low, high in pairwise(ends))
    if not (2 <= len(ends) <= MOST_PIECES + 1 and ascend and ends[0] >= 0):
        raise ValueError(f"cuts ascend from 0 on, 2 to {MOST_PIECES + 1} of them: {NO_CUTS}")
    return ends


def event_cuts(edges: Any, beyond: Any, pieces: int, end: float) -> tuple[float, ...]:
    """Cuts between which about as many events lie, by released counts of those beyond each edge."""
    later = np.minimum.accumulate(np.maximum(np.asarray(beyond, np.float64), 0.0))
    parts = later[0] * (1 - np.arange(1, pieces) / pieces)
    inner = np.interp(-parts, -later, np.asarray(edges, np.float64)) * end
    least = end / (64 * pieces)  # no piece is shorter, whatever noise says
    cuts = [0.0]
    for k, cut in enumerate(inner.tolist(), 1):
        cuts.append(min(max(cut, cuts[-1] + least), end - least * (pieces - k)))
    return (*cuts, end) if math.isfinite(sum(cuts)) else tuple(np.linspace(0, end, pieces + 1))
