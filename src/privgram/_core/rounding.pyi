import numpy as np
from numpy.typing import NDArray

from privgram._core.rows import Int128

# Both write step times the whole numbers nearest to (total 2^shift + noise) / 2^exponent to places
# of a symmetric matrix.

def noisy_rows(
    total: Int128,  # the lower triangle, row by row
    noise: Int128,  # right of the diagonal in the rows first, ..., stop - 1, row by row
    first: int,
    stop: int,
    shift: int,
    exponent: int,
    step: float,
    out: NDArray[np.float64],
) -> None: ...
def noisy_diagonal(
    total: Int128,
    noise: Int128,
    shift: int,
    exponent: int,
    step: float,
    out: NDArray[np.float64],
) -> None: ...
