"""Draws that are no Gaussian noise on a sum: each is registered, and trusted for its own profile.

A gate enters the price, and then asks for the draw, once. `privgram.disclosure.laws` and the papers
register them; the choice of a bin is `privgram.exact.choice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from privgram._base.numbers import Matrix
    from privgram.mechanisms import Calibration, Mechanism
    from privgram.moment import SecondMoment
    from privgram.noise import NoiseLaw


@dataclass(frozen=True, eq=False)
class Sample:
    """What a mechanism releases: the matrix, the law of its noise, and what it says of both."""

    matrix: Matrix
    law: NoiseLaw
    parameters: Mapping[str, object] = field(default_factory=dict)
    sketch: Matrix | None = None


@singledispatch
def draw(
    mechanism: Mechanism, moment: SecondMoment, noise: Calibration, rng: np.random.Generator
) -> Sample:
    """Draw what is released."""
    raise TypeError(f"there is no draw for {type(mechanism).__name__}")
