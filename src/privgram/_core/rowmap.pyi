from typing import Any

import numpy as np
from numpy.typing import NDArray

def transposed(frame: NDArray[np.float64]) -> NDArray[np.float64]: ...
def apply(
    block: NDArray[Any],  # (n, d), float32 or float64
    bound: float,
    frame: NDArray[np.float64],  # of `transposed`
    out: NDArray[np.float64],  # (n, d)
) -> None: ...
