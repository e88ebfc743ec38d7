"""Discrete Gaussian noise, exact to the last bit, by OpenDP's sampler.

The draws are integers whose law is the discrete Gaussian's itself [1]_: rational arithmetic on
bits of the operating system's generator. No float is rounded on the way.

References
----------
.. [1] C. Canonne, G. Kamath and T. Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020, Algorithm 3.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.forks import Guard
from privgram._base.optional import extra

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_turn = Guard()


def opendp() -> Any:
    """OpenDP's prelude, or ImportError."""
    with extra("opendp", "noise='discrete' needs"):
        import opendp.prelude as dp
    return dp


def symmetric(n_columns: int, std: float, std_diagonal: float) -> NDArray[np.int64]:
    """Symmetric (d, d) matrix of independent discrete Gaussians; deviations in integer steps."""
    above = np.triu_indices(n_columns, 1)
    noise = np.zeros((n_columns, n_columns), np.int64)
    noise[above] = _draw(len(above[0]), std)
    noise += noise.T
    np.fill_diagonal(noise, _draw(n_columns, std_diagonal))
    return noise


def _draw(size: int, std: float) -> NDArray[np.int64]:
    if not size:
        return np.zeros(0, np.int64)
    dp = opendp()
    with _consent(dp):
        noise = dp.m.make_gaussian(
            dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=std
        )
    return np.asarray(noise([0] * size), np.int64)


@contextmanager
def _consent(dp: Any) -> Iterator[None]:
    """Consent to OpenDP's contributed parts here, and not on behalf of the whole process.

    OpenDP keeps consent in one set: threads take turns, or one would withdraw another's.
    """
    with _turn.lock:
        given = "contrib" in dp.GLOBAL_FEATURES
        dp.enable_features("contrib")
        try:
            yield
        finally:
            if not given:
                dp.disable_features("contrib")
