"""Each mechanism's draw, by its class: the secret half of `privgram.mechanisms`.

A mechanism of another room registers its draw there.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

from privgram.drawing import additive
from privgram.drawing.refined import refined
from privgram.mechanisms import AdditiveWishart, AnalyzeGauss, MatrixLaplace, Mechanism, Refined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privgram.moment import SecondMoment
    from privgram.noise import NoiseLaw


@singledispatch
def draw(
    mechanism: Mechanism, moment: SecondMoment, noise: Any, rng: np.random.Generator, **more: Any
) -> tuple[NDArray[np.float64], NoiseLaw, dict[str, Any]]:
    """Draw the released matrix: with its law, and further fields of the release.

    `more` is ``reread`` for `Refined`, which reads the rows again:
    `privgram.drawing.refined.Reread`.
    """
    raise TypeError(f"there is no draw for {type(mechanism).__name__}")


draw.register(AnalyzeGauss, additive.analyze_gauss)
draw.register(AdditiveWishart, additive.additive_wishart)
draw.register(MatrixLaplace, additive.matrix_laplace)
draw.register(Refined, refined)
