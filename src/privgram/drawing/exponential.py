"""The exponential mechanism on integer scores, sampled without any rounding.

Every draw is made of uniform random integers and comparisons of integers, so that what is
proved over the reals holds of the program as it is (docs/theory/norm-bound.md).

References
----------
.. [1] F. McSherry and K. Talwar, "Mechanism Design via Differential Privacy", FOCS 2007.
.. [2] C. Canonne, G. Kamath and T. Steinke, "The Discrete Gaussian for Differential
   Privacy", NeurIPS 2020: Algorithm 1 draws a Bernoulli(exp(-g)).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def exponential_mechanism(losses: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Draw an index i with probability in proportion to exp(-rate losses[i]), exactly.

    With losses of which each changes by at most s between neighbours, the draw is 2 s rate
    differentially private. By rejection from the uniform law, len(losses) tries at most on average.
    How many there were is secret: like all timing, it is not to be shown to an adversary.
    """
    least = min(losses)
    while True:
        index = randbelow(len(losses), rng)
        if bernoulli_exp(rate * (losses[index] - least), rng):
            return index


def bernoulli_exp(exponent: Fraction, rng: np.random.Generator) -> bool:
    """Draw True with probability exp(-exponent), exactly; `exponent` is not negative."""
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
