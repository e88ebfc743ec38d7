from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram._core.rowmap import Images

UNITS: int
PAIR_UNITS: int
PARTS: int
STEPS: float
KEPT_UNITS: float
SQUARE_UNITS: float
ROW_BITS: int
IMAGE_BITS: int
BLOCK: int

ROW_UNITS: int

def scale(q: int, units: int = ...) -> float: ...
def row_scale(q: int) -> float: ...

class Score:
    def __init__(
        self,
        kind: str,
        q: int,
        coef: NDArray[np.float64] | None = None,
        ones: NDArray[np.float64] | None = None,
        target: tuple[float, float] = (0.0, 1.0),
        largest: float = 0.0,
        bend: float = 0.0,
        reach_sq: float = 0.0,
        offset: bool = False,
        curved: bool = False,
    ) -> None: ...
    @property
    def q(self) -> int: ...
    @property
    def n_columns(self) -> int: ...
    @property
    def kind(self) -> str: ...

class Pairs:
    n_columns: int
    n_blocks: int
    def __init__(self, rows: NDArray[np.float64], size: int, first: int, last: int) -> None: ...
    def __len__(self) -> int: ...

# Of these each returns the first row whose score is not finite, or -1; with `drop` such rows are
# left out, and their number is returned too.

def clipped_sum(
    images: Images | Pairs | NDArray[np.float64],
    score: Score,
    clip: float,
    total: NDArray[np.int64],
    drop: bool = False,
    rows: NDArray[np.float64] | None = None,
    groups: NDArray[np.int32] | None = None,
    positive: bool = False,
    radius: float = 0.0,
    units: int = ...,
) -> tuple[int, int]: ...
def pair_counts(
    rows: NDArray[np.float64],
    size: int,
    score: Score,
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None: ...
def within(
    rows: NDArray[np.float64],
    size: int,
    score: Score,
    most: float,
    vectors: NDArray[np.int64] | None = None,
    triangle: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]: ...
def norm_counts(
    images: Images | Pairs | NDArray[np.float64],
    score: Score,
    edges: NDArray[np.float64],
    counts: NDArray[np.int64],
    drop: bool = False,
) -> tuple[int, int]: ...
def write(
    images: Images | Pairs | NDArray[np.float64],
    score: Score,
    rows: NDArray[np.float64],
    drop: bool = False,
    radius: float = 0.0,
) -> tuple[int, int]: ...
def of_units(
    images: Images | NDArray[np.float64], score: Score, starts: NDArray[Any], largest: float
) -> NDArray[np.float64]: ...
def center(
    images: NDArray[np.float64],
    groups: NDArray[np.int32],
    means: NDArray[np.float64],
    one: NDArray[np.float64],
) -> None: ...
def whole_length(bits: int, d: int) -> float: ...
def whole_rows(x: NDArray[np.float64], most: float) -> NDArray[np.float64]: ...
def whole_images(
    products: NDArray[np.float64], scales: NDArray[np.float64], radius: float
) -> NDArray[np.int16]: ...
def take_images(
    images: NDArray[np.int16],
    beside: NDArray[np.float64],
    coef: NDArray[np.float64],
    back: float,
    classes: bool,
    target: NDArray[np.int32] | None = None,
    size: float = 1.0,
    total: NDArray[np.int64] | None = None,
    units: float = 1.0,
    squares: NDArray[np.int64] | None = None,
    reach: float = 1.0,
    counts: NDArray[np.int64] | None = None,
) -> None: ...
