import numpy as np
from numpy.typing import NDArray

def weigh(
    rows: NDArray[np.float64],  # (n, d)
    coef: NDArray[np.float64],  # (p,)
    target: tuple[float, float],
    clip: float,
    curved: NDArray[np.float64],  # (n, p)
    pulled: NDArray[np.float64],  # (n, p + 1)
) -> None: ...
def reach(
    rows: NDArray[np.float64],  # (n, d)
    coef: NDArray[np.float64],  # (p,)
    out: NDArray[np.float64],  # (n, p)
) -> None: ...
