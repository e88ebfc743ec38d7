from typing import Any

import numpy as np
from numpy.typing import NDArray

def columns(
    parts: list[NDArray[Any]],
    start: int,
    center: NDArray[np.float64],
    inverse: NDArray[np.float64],
    limit: float,
    out: NDArray[np.float64],
) -> None: ...
def rows(
    block: NDArray[Any],
    start: int,
    center: NDArray[np.float64],
    inverse: NDArray[np.float64],
    limit: float,
    out: NDArray[np.float64],
) -> None: ...

class DefaultRounding:
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...
