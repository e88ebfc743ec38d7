"""The choice of a quantile, of integers alone: what is proved over the reals holds as it is.

References
----------
.. [1] C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
.. [2] F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from privgram._base.numbers import Adjacency


def quantile_losses(
    counts: list[int], quantile: float, adjacency: Adjacency
) -> tuple[list[int], int]:
    """By how many rows each grid point misses the quantile, and how much one row can change it.

    Both in units of the quantile's denominator, which makes them integers.
    """
    # As it was written: 0.95 is 19/20, not the float next to it.
    part = Fraction(repr(quantile))
    total, below, losses = sum(counts), 0, []
    target = part.numerator * total
    for count in counts:
        above = below + count
        losses.append(max(0, part.denominator * below - target, target - part.denominator * above))
        below = above
    if adjacency == "replace":
        return losses, part.denominator
    return losses, max(part.numerator, part.denominator - part.numerator)


def exponential_mechanism(losses: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Draw an index i with probability in proportion to exp(-rate losses[i]), exactly [2].

    With losses of which each changes by at most s between neighbours, the draw is 2 s rate
    differentially private (docs/theory/norm-bound.md). By rejection from the uniform law,
    len(losses) tries at most on average. How many there were is secret: like all timing, it is not
    to be shown to an adversary.
    """
    least = min(losses)
    while True:
        index = randbelow(len(losses), rng)
        if bernoulli_exp(rate * (losses[index] - least), rng):
            return index


def bernoulli_exp(exponent: Fraction, rng: np.random.Generator) -> bool:
    """Draw True with probability exp(-exponent), exactly: Algorithm 1 of [1], exponent >= 0."""
    while exponent > 1:
        if not _bernoulli_exp_of_one_or_less(Fraction(1), rng):
            return False
        exponent -= 1
    return _bernoulli_exp_of_one_or_less(exponent, rng)


def _bernoulli_exp_of_one_or_less(exponent: Fraction, rng: np.random.Generator) -> bool:
    # P(k or more heads in a row) = exponent^k / k!, so that an even number of them has
    # probability 1 - exponent + exponent^2 / 2 - ... = exp(-exponent).
    heads = 0
    while randbelow(exponent.denominator * (heads + 1), rng) < exponent.numerator:
        heads += 1
    return heads % 2 == 0


def randbelow(stop: int, rng: np.random.Generator) -> int:
    """Draw an integer from 0 to stop - 1, all equally likely; `stop` may be of any size."""
    bits = stop.bit_length()
    size = -(-bits // 8)
    while True:
        drawn = int.from_bytes(rng.bytes(size), "little") >> (8 * size - bits)
        if drawn < stop:
            return drawn
