"""Where randomness comes from.

Every call makes a new generator with a key of its own from the operating system, so there is no
state that a fork could copy, two threads could share, or a long-lived process could leak. Do not
keep one: its memory holds the key, which takes the noise off again, until it is dropped.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from privgram._core.draws import ChaCha20


class _OfProcess(np.random.Generator):
    """A generator that a forked child cannot draw from: its noise would be the parent's."""

    def __init__(self, bit_generator: np.random.BitGenerator) -> None:
        super().__init__(bit_generator)
        self._process = os.getpid()

    def __getattribute__(self, name: str) -> Any:  # which every draw asks
        attribute = super().__getattribute__
        if not name.startswith("_") and attribute("_process") != os.getpid():
            raise RuntimeError(
                "this process was forked in the middle of a release, whose noise is the parent's: "
                "release in one of the two, from the beginning"
            )
        return attribute(name)


def resolve(rng: np.random.Generator | None) -> tuple[np.random.Generator, bool]:
    """Turn the argument `rng` of a public function into a generator, and say if it is reproducible.

    None makes a new cryptographic one. Whoever knows the seed of another can take its noise off, so
    a seed is refused: drawing reproducible noise is spelled out where it is done.
    """
    if rng is None:
        return _OfProcess(ChaCha20()), False
    if isinstance(rng, np.random.Generator):
        return rng, True
    # The type only: a seed is a secret too.
    raise TypeError(
        f"rng must be None or a numpy.random.Generator, not {type(rng).__name__}; for an"
        " experiment that can be repeated pass numpy.random.default_rng(seed)"
    )
