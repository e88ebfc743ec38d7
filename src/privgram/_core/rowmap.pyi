from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privgram._core.rows import Scaling

def looked_up(indices: NDArray[Any], lut: NDArray[np.int32]) -> NDArray[np.int32]: ...
def transposed(frame: NDArray[np.float64]) -> NDArray[np.float64]: ...

class Images:
    n_rows: int
    n_columns: int
    def __init__(
        self,
        block: NDArray[Any] | list[NDArray[Any]],
        bound: float,
        frame: NDArray[np.float64],
        n_columns: int,
        scaling: Scaling | None = None,
        blocks: Sequence[
            tuple[NDArray[Any], NDArray[np.int32] | None, int, NDArray[Any] | None, float]
        ] = (),
    ) -> None: ...
    def __len__(self) -> int: ...
    def into(self, out: NDArray[np.float64], first: int = 0) -> None: ...

class DefaultRounding:
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...

def log(x: ArrayLike, lower: float, upper: float) -> NDArray[np.float64]: ...
def legendre(x: ArrayLike, center: float, inverse: float, degree: int) -> NDArray[np.float64]: ...
def product(
    columns: Sequence[ArrayLike], center: Sequence[float], inverse: Sequence[float]
) -> NDArray[np.float64]: ...
def squared_norms(
    block: NDArray[Any],  # (n, d), floats or signed integers
    out: NDArray[np.float64],  # (n,)
) -> None: ...
def random_features(
    x: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]: ...
