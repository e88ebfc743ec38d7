"""The rules by which released numbers decide the next round: docs/theory/glm.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdaptiveRules:
    """The constants of adaptive rounds, chosen on the zoo (docs/results.md).

    Shares are of the squared ratio mu^2, reaches of |z|^2 over the mean square of a row z in its
    frame, and gains factors by which noise falls.
    """

    #: Share of the first round.
    first: float = 0.08
    #: Share of each middle round that is taken.
    middle: float = 0.1
    #: Share of the counts before a middle round.
    trial: float = 0.02
    #: Share of the number of rows, where nothing else says it.
    number: float = 0.01
    #: Share of the counts before the last round, which has what is left.
    counts: float = 0.1
    #: The same where that round's noise is above the sampling error, and so above what clipping
    #: does: a better radius gains less there.
    counts_if_noisy: float = 0.05
    #: Gain over all columns for which the budget of a frame is spent. 5 refused frames that make
    #: wages 1.8 times more accurate.
    gain: float = 1.6
    #: The same for a middle round while noise hides some direction: the next frame gains more.
    gain_if_hidden: float = 1.0
    #: The same for the last round, for which all else is spent: it need only not lose.
    gain_of_last: float = 1.0
    #: R^2, a reach, that a frame is thought to need before lengths in it were counted.
    uncounted: float = 4.0
    #: R^2 of a middle round, a reach. Its clipping moves the next frame a little and no estimate.
    reach: float = 4.0
    #: Part of n, to which the frame before brings a direction, above which the eigenvalues of a
    #: middle round's noise teach nothing.
    taught: float = 0.5
    #: Middle rounds are taken while the least second moment is below so many f, the floor of its
    #: noise: the first one, and the second.
    clear_enough: tuple[float, float] = (8.0, 1.0)
    #: Rows that are longer than R, in deviations kappa of an entry's noise at a radius of 1. By 24,
    #: and 3 for `seen`, intervals of two tables of one feature held .3 to .5 at epsilon .25.
    beyond: float = 20.0
    #: The same in deviations of their number's own noise, where that is more: noise is not taken
    #: for long rows.
    seen: float = 2.0
    #: Bins of |z|^2, in proportion to which a round has noise, for a factor of 2.
    per_octave: int = 8
    #: gamma: what clipping may move an entry by, in deviations of its noise. With it 95 % intervals
    #: hold 96 % of the zoo's coefficients.
    allowance: float = 1.5
    #: Few rows may decide where numbers beyond |z|^2 fall by a power below this: by 2 a warning was
    #: given for 21 % of half A's tables, and for 27 to 30 by 2.5.
    told: float = 2.5
    #: Part of |z|^2 to which the square of a target's residual is lengthened, where it is less: its
    #: own tail then reaches as far as that of all other directions together. On made tasks of 20
    #: columns and more the error above least squares falls by half.
    residual: float = 1 / 6


ADAPTIVE = AdaptiveRules()


#: Longer rows, or scores, are well seen where they are more than so many deviations of their
#: counts' noise: by 1.5 noise in counts passed for long scores in one fit of eight.
SEEN = 3.0

#: The tail begins where no more than this part of lengths is beyond. By two octaves of it income in
#: `401ksubs` is told to lie far out in nine of ten draws.
TAIL = 1 / 8

#: Less than the whole budget by this part, which pays for the rounding of its shares.
SHARE_ROUNDING = 2.0**-40


class UnreadError(Exception):
    """The rows could not be read again, or are others; it says why, and nothing of them."""
