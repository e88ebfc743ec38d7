from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Int128: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint64]]
Scaling: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

#: Accumulators of the same sums, at most.
MOST_SHARERS: int

def available() -> tuple[str, ...]: ...
def emulated() -> tuple[str, ...]: ...
def select(name: str) -> None: ...
def readable(block: NDArray[Any] | list[NDArray[Any]]) -> bool: ...
def is_column(column: object) -> bool: ...
def stored(
    positions_dense: Sequence[int],
    factors: Sequence[int],
    blocks: Sequence[tuple[int, int, int, float]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def check_groups(groups: int, other: bool, factors: Sequence[int]) -> None: ...
def check_layout(
    positions_dense: Sequence[int],
    factors: Sequence[int],
    blocks: Sequence[tuple[int, int, int, float]],
) -> int: ...

#: Positions of numbers, levels of factors, blocks, bound, bits, groups, and whether others are one.
Layout: TypeAlias = tuple[
    Sequence[int], Sequence[int], Sequence[tuple[int, int, int, float]], float, int, int, bool
]

class Accumulator:
    def __init__(
        self,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int = 20,
        groups: int = 0,
        other: bool = False,
        sharer: Accumulator | None = None,
    ) -> None: ...
    layout: Layout
    blocks: tuple[tuple[int, int, int, float], ...]
    n_columns: int
    bound: float
    bits: int
    scale: float
    target: float
    n_rows: int
    n_dropped: int
    def simd(self) -> str: ...
    def beside(self) -> Accumulator: ...
    def settle(self) -> None: ...
    def update(
        self,
        dense: NDArray[Any] | list[NDArray[Any]],
        drop: bool = False,
        scaling: Scaling | None = None,
        codes: Sequence[tuple[NDArray[Any], NDArray[np.int32] | None]] = (),
        values: Sequence[NDArray[Any]] = (),
        group: tuple[NDArray[Any], NDArray[np.int32] | None] | None = None,
        leave_out: bool = False,
        short: bool = False,  # rows are clipped, to less than the bound by their rounding
    ) -> int: ...
    def merge(self, other: Self) -> None: ...
    def copy(self) -> Self: ...
    def counts(self) -> NDArray[np.int64]: ...
    def stored(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    def totals(self) -> Int128: ...
    def int128(self) -> Int128: ...
    @classmethod
    def from_totals(
        cls, layout: Layout, hi: NDArray[np.int64], lo: NDArray[np.uint64], counts: Any
    ) -> Self: ...
    def reset(self) -> None: ...

def RowAccumulator(n_columns: int, bound: float, bits: int = 20) -> Accumulator: ...

class UnitAccumulator:
    def __init__(
        self,
        n_columns: int,
        bound: float,
        row_bound: float,
        bits: int = 20,
        trace: bool = False,
        centred: Sequence[int] = (),
        groups: int = 0,
    ) -> None: ...
    n_columns: int
    bound: float
    row_bound: float
    centred: tuple[int, ...]
    bits: int
    scale: float
    most_rows: int
    n_units: int
    groups: int
    def update(
        self,
        x: NDArray[np.float64],
        starts: NDArray[np.intp],
        drop: bool = False,
        norms: NDArray[np.float64] | None = None,
        codes: NDArray[np.int32] | None = None,
    ) -> int: ...
    def counts(self) -> NDArray[np.int64]: ...
    def merge(self, other: Self) -> None: ...
    def int128(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]: ...
