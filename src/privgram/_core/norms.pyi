from typing import Any

import numpy as np
from numpy.typing import NDArray

def squared_norms(
    block: NDArray[Any],  # (n, d), float32 or float64
    out: NDArray[np.float64],  # (n,)
) -> None: ...
