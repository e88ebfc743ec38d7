import numpy as np
from numpy.typing import NDArray

from privgram._core.rows import Int128

# Writes step times the whole numbers nearest to (total 2^shift + noise) / 2^exponent.
def noisy_matrix(
    total: Int128,  # the lower triangle, row by row
    above: Int128,  # noise above the diagonal, row by row
    diagonal: Int128,
    shift: int,
    exponent: int,
    step: float,
    out: NDArray[np.float64],
) -> None: ...
