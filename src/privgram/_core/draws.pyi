from typing import Any

import numpy as np
from numpy.random import BitGenerator
from numpy.typing import NDArray

from privgram._core.rows import Int128

class ChaCha20(BitGenerator):
    def __init__(self, key: bytes | None = None, last: bytes = ...) -> None: ...

BLOCKS: int
MARGIN: int

class Words:
    def __init__(self, bit_generator: Any) -> None: ...
    def __call__(self) -> int: ...
    address: int

class Law:
    def __init__(
        self,
        shift: int,
        rate67: int,
        decay: int,
        margin: int = ...,
        whole: bool = ...,
    ) -> None: ...
    scale: int
    weights: NDArray[np.uint64]
    def fill(
        self, words: Words, high: NDArray[np.int64], low: NDArray[np.uint64], start: int
    ) -> tuple[int, bool, int, int, int] | None: ...

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
