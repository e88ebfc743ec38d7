from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram._core.rows import Scaling

def transposed(frame: NDArray[np.float64]) -> NDArray[np.float64]: ...
def apply(
    block: NDArray[Any] | list[NDArray[Any]],  # (n, d), or columns
    bound: float,
    frame: NDArray[np.float64],  # of `transposed`
    out: NDArray[np.float64],  # (n, k)
    scaling: Scaling | None = None,
    blocks: Sequence[
        tuple[NDArray[Any], NDArray[np.int32] | None, int, NDArray[Any] | None, float]
    ] = (),
) -> None: ...
