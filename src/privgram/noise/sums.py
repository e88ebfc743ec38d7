"""The law of a sum of independent releases of parts of a table: a release of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privgram.noise._law import NoiseLaw
from privgram.noise.gaussian import GaussianLaw, MaskedLaw, TiedLaw
from privgram.noise.wishart import MatrixLaplaceLaw, WishartLaw


def added_up(laws: Sequence[NoiseLaw]) -> NoiseLaw:
    """Law of the sum of independent matrices: of the sum of their second moments, with noise.

    Gaussian variances add up, and so do the degrees of freedom of Wishart matrices of one scale. A
    projection on known equations is linear: the sum of the projections is that of the sum. Laws of
    different kinds, zeros, ties or scales are refused.
    """
    if not laws:
        raise ValueError("there is nothing to add up")
    first = laws[0]
    gaussian = [law for law in laws if isinstance(law, GaussianLaw)]
    wishart = [law for law in laws if isinstance(law, WishartLaw)]
    laplace = [law for law in laws if isinstance(law, MatrixLaplaceLaw)]
    masked = [law for law in laws if isinstance(law, (MaskedLaw, TiedLaw))]
    if len(gaussian) == len(laws):
        std, diagonal = ([getattr(law, n) for law in gaussian] for n in ("std", "std_diagonal"))
        return GaussianLaw(
            float(np.linalg.norm(std)),
            float(np.linalg.norm(diagonal)),
            sum(law.added for law in gaussian),
        )
    if len(masked) == len(laws) and len({_known(law) for law in masked}) == 1:
        base = added_up([law.base for law in masked])
        return replace(first, base=base)  # type: ignore[call-arg]
    if len(wishart) == len(laws) and len({law.scale for law in wishart}) == 1:
        dof, taken = (sum(getattr(law, n) for law in wishart) for n in ("dof", "subtracted"))
        return WishartLaw(wishart[0].scale, dof, taken)
    if len(laplace) == len(laws) and len({law.scale for law in laplace}) == 1:
        return MatrixLaplaceLaw(laplace[0].scale, sum(law.dof for law in laplace))
    raise ValueError(
        "releases add up if the noise of each is added to its second moment, by one mechanism: "
        "AnalyzeGauss, AdditiveWishart or MatrixLaplace"
    )


def _known(law: MaskedLaw | TiedLaw) -> tuple[object, ...]:
    """The equations that a law was projected on."""
    return (law.blocks,) if isinstance(law, MaskedLaw) else (law.ties,)
