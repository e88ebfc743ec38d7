from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

class UnitAccumulator:
    def __init__(
        self,
        n_columns: int,
        bound: float,
        row_bound: float,
        bits: int = 20,
        trace: bool = False,
        centred: Sequence[int] = (),
    ) -> None: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def bound(self) -> float: ...
    @property
    def row_bound(self) -> float: ...
    @property
    def centred(self) -> tuple[int, ...]: ...
    @property
    def bits(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def most_rows(self) -> int: ...
    @property
    def n_units(self) -> int: ...
    def update(
        self,
        x: NDArray[np.float64],
        starts: NDArray[np.intp],
        drop: bool = False,
        norms: NDArray[np.float64] | None = None,
    ) -> int: ...
    def merge(self, other: Self) -> None: ...
    def limbs(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]: ...
