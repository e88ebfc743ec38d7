"""How one regression spends its budget: shares of mu^2, and when a round is worth its share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BudgetShares:
    """Shares of mu^2, the squared ratio of sensitivity to noise that the whole answer has.

    They were chosen on the tables that docs/results.md is measured on, and on made
    ones.
    """

    #: The first second moment, in the scaled columns; and that of units, which are clipped more.
    first: float = 0.08
    first_of_units: float = 0.15
    #: The histogram of units' norms that chooses their bound, where nothing public says it.
    unit_bound: float = 0.03
    #: The histogram of times of events that places cuts, where nothing public does.
    cuts: float = 0.02
    #: Events and times in pieces of time, each; and the most share of a middle score there.
    hazards: float = 0.02
    middle_of_pieces: float = 0.1
    #: The number of rows, where nothing else says it.
    number: float = 0.01
    #: Counts of the target's values, where it has a link.
    targets: float = 0.03
    #: Second moments in frames, one after the other while the Hessian is hidden or noisy; after
    #: how many of them it must be hidden; and what they leave.
    middle: tuple[float, ...] = (0.1, 0.1, 0.2, 0.4)
    if_hidden: int = 3
    kept: float = 0.2
    #: Counts of scores by norm, from which the clip is chosen.
    counts: float = 0.10
    #: Of what is left then: a score before all others, where the initial estimate is noisy, and
    #: how many of them there are at most; and the first of the two last scores.
    ahead: float = 0.04
    most_ahead: int = 3
    early: float = 0.3
    #: And the sum of squared errors by itself, where the counts of scores contradict the scale.
    errors: float = 0.15
    #: The score of a constant alone along the coefficients, where a family is not linear.
    explained: float = 0.01
    #: The least and most share of the second moment of scores, and that of the score by a shorter
    #: clip: where tails are heavy there is one, and the former has the most.
    meat: tuple[float, float] = (0.02, 0.12)
    tail: float = 0.15
    #: Where the Hessian depends on the coefficients: the least and most share of a score at the
    #: middle, and at most so many; and of a round for the Hessian.
    middle_score: tuple[float, float] = (0.01, 0.06)
    most_middles: int = 10
    #: A score after a far step, and how many times the step goes back by it at most.
    back: float = 0.01
    most_back: int = 3
    most_hessians: int = 3
    hessian: tuple[float, float] = (0.01, 0.06)
    #: Counts of the norms that a Hessian is of; and a second moment of rows that others clipped.
    norms: float = 0.03
    long_rows: float = 0.1
    #: What is kept for the last scores there, before and after hidden directions were looked for.
    reserved: float = 0.5
    reserved_at_last: float = 0.3
    #: Of Huber's loss: a round for the Hessian, and, of the rest, the scores before the last two.
    huber_hessian: float = 0.03
    huber_ahead: tuple[float, ...] = (0.05, 0.1)


BUDGET = BudgetShares()
