import numpy as np
from numpy.typing import NDArray

def make(
    x: NDArray[np.float64], weights: NDArray[np.float64], signs: bool
) -> NDArray[np.float64]: ...
