from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCKS: int
MARGIN: int

class Words:
    def __init__(self, bit_generator: Any) -> None: ...
    def __call__(self) -> int: ...
    @property
    def address(self) -> int: ...

class Law:
    def __init__(
        self,
        power: int,
        shift: int,
        rate67: int,
        decay: int,
        margin: int = ...,
        whole: bool = ...,
    ) -> None: ...
    @property
    def scale(self) -> int: ...
    @property
    def weights(self) -> NDArray[np.uint64]: ...
    def fill(
        self, words: Words, high: NDArray[np.int64], low: NDArray[np.uint64], start: int
    ) -> tuple[int, bool, int, int, int] | None: ...
