from typing import Any

import numpy as np
from numpy.typing import NDArray

def noisy_orthonormalise(
    bit_generator: Any, y: NDArray[np.float64], noise_std: float
) -> tuple[NDArray[np.float64], int]: ...
