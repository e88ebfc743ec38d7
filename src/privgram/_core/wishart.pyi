from typing import Any

import numpy as np
from numpy.typing import NDArray

def wishart(
    bit_generator: Any,
    k: float,
    cholesky: NDArray[np.float64] | None,
    out: NDArray[np.float64],
) -> None: ...
def is_product(w: NDArray[np.float64], u: NDArray[np.float64]) -> bool: ...
