"""Where noise comes from: the generator, and the exponential mechanism.

Every call makes a new generator with a key of its own from the operating system, so there is no
state that a fork could copy, two threads could share, or a long-lived process could leak. The
exponential mechanism is made of integers alone: what is proved over the reals holds of the program
as it is.

References
----------
.. [1] C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
.. [2] F. McSherry and K. Talwar, "Mechanism design via differential privacy", FOCS 2007.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from privgram._core.draws import ChaCha20


def default_bit_generator() -> ChaCha20:
    """Make a ChaCha20 bit generator with a fresh 256-bit key of the operating system.

    Do not keep the result: its memory holds the key, and who has the key can take the noise off
    again. When it is dropped, the key is overwritten.
    """
    return ChaCha20()


class _OfProcess(np.random.Generator):
    """A generator that a forked child cannot draw from: its noise would be the parent's."""

    def __init__(self, bit_generator: np.random.BitGenerator) -> None:
        super().__init__(bit_generator)
        self._process = os.getpid()

    def __getattribute__(self, name: str) -> Any:
        # Every draw asks for a method or for the bit generator.
        attribute = super().__getattribute__
        if not name.startswith("_") and attribute("_process") != os.getpid():
            raise RuntimeError(
                "this process was forked in the middle of a release, whose noise is the parent's: "
                "release in one of the two, from the beginning"
            )
        return attribute(name)


def resolve(rng: np.random.Generator | None) -> tuple[np.random.Generator, bool]:
    """Turn the argument `rng` of a public function into a generator, and say if it is reproducible.

    None makes a new cryptographic one. Of a generator that the caller brought, whoever knows its
    seed can take the noise off. A seed is refused rather than wrapped: drawing reproducible noise
    should be spelled out where it is done.
    """
    if rng is None:
        return _OfProcess(default_bit_generator()), False
    if isinstance(rng, np.random.Generator):
        return rng, True
    # The type only: a seed is a secret too.
    raise TypeError(
        f"rng must be None or a numpy.random.Generator, not {type(rng).__name__}; for an"
        " experiment that can be repeated pass numpy.random.default_rng(seed)"
    )


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
