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

class _Total:
    @property
    def n_columns(self) -> int: ...
    @property
    def bound(self) -> float: ...
    @property
    def bits(self) -> int: ...
    @property
    def scale(self) -> float: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_dropped(self) -> int: ...
    def simd(self) -> str: ...
    def merge(self, other: Self) -> None: ...
    def copy(self) -> Self: ...
    def totals(self) -> Int128: ...
    def int128(self) -> Int128: ...
    def reset(self) -> None: ...

class RowAccumulator(_Total):
    def __init__(
        self, n_columns: int, bound: float, bits: int = 20, sharer: RowAccumulator | None = None
    ) -> None: ...
    def beside(self) -> RowAccumulator: ...
    def settle(self) -> None: ...
    def update(
        self,
        block: NDArray[Any] | list[NDArray[Any]],
        drop: bool = False,
        scaling: Scaling | None = None,
    ) -> int: ...
    @property
    def target(self) -> float: ...
    def add_rows(self, sums: NDArray[np.int64], n_rows: int) -> None: ...
    @classmethod
    def from_totals(
        cls,
        n_columns: int,
        bound: float,
        bits: int,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        n_rows: int,
        n_dropped: int,
    ) -> Self: ...

class TableAccumulator(_Total):
    def __init__(
        self,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int = 20,
        groups: int = 0,
        other: bool = False,
    ) -> None: ...
    @property
    def positions_dense(self) -> tuple[int, ...]: ...
    @property
    def factors(self) -> tuple[int, ...]: ...
    @property
    def blocks(self) -> tuple[tuple[int, int, int, float], ...]: ...
    @property
    def groups(self) -> int: ...
    @property
    def other(self) -> bool: ...
    def update(
        self,
        dense: NDArray[Any] | list[NDArray[Any]],
        codes: list[tuple[NDArray[Any], NDArray[np.int32] | None]],
        values: list[NDArray[Any]],
        drop: bool,
        scaling: Scaling | None,
        group: tuple[NDArray[Any], NDArray[np.int32] | None] | None = None,
        leave_out: bool = False,
        short: bool = False,  # rows are clipped, to less than the bound by their rounding
    ) -> int: ...
    def counts(self) -> NDArray[np.int64]: ...
    def stored(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
    @classmethod
    def from_totals(
        cls,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        n_rows: int,
        n_dropped: int,
    ) -> Self: ...
    @classmethod
    def from_groups(
        cls,
        positions_dense: Sequence[int],
        factors: Sequence[int],
        blocks: Sequence[tuple[int, int, int, float]],
        bound: float,
        bits: int,
        groups: int,
        other: bool,
        hi: NDArray[np.int64],
        lo: NDArray[np.uint64],
        counts: NDArray[np.int64],
    ) -> Self: ...
