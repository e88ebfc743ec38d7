"""Random features: public functions of a few columns, of a known length, for predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from privgram._base.numbers import check_integer, check_one_of, check_positive
from privgram._core.rowmap import random_features

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram._base.saved import JsonObject

Kernel = Literal["rbf", "matern", "arc-cosine"]

KERNELS = "rbf", "matern", "arc-cosine"

#: Lengths of a kernel over the root of the number of columns, by default from the first to the
#: second: columns fill a tenth of their bounds, or all of them.
SHORTEST, LONGEST = 0.06, 0.5

#: Of the Matern kernel: of functions with two derivatives.
SMOOTHNESS = 2.5


@dataclass(frozen=True)
class RandomFeatures:
    """Random features of columns, by which a linear fit is one of a kernel.

    Columns are mapped to [-1, 1] by their public bounds and projected on random directions. The
    features are cosines and sines of the projections, so that every row has length 1 whatever it
    holds. The draws are public: the features cost no privacy by themselves.

    Parameters
    ----------
    columns : sequence of str, optional
        Which columns of a frame; by default all that an estimator learns from.
    n : int, default 512
        How many features; even for "rbf" and "matern".
    kernel : {"rbf", "matern", "arc-cosine"}, default "rbf"
        The Gaussian kernel; Matern's of smoothness 5/2; or the arc-cosine kernel of order 0, whose
        features are signs.
    scale : float, optional
        Length of the kernel, in columns mapped to [-1, 1]. By default features have many lengths,
        from .06 to .5 times the root of the number of columns.
    seed : int, default 0
        Of the draws; public.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> features = pg.RandomFeatures(n=6, scale=1.0)
    >>> rows = features.rows(np.zeros((1, 2)))
    >>> (rows**2).sum().round(12)
    np.float64(1.0)
    """

    columns: Sequence[str] | None = None
    n: int = 512
    kernel: Kernel = "rbf"
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError("columns is a list of names, such as ['x1', 'x2']")
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
            if not self.columns or len(set(self.columns)) < len(self.columns):
                raise ValueError("columns names each column once, and one at least")
        check_one_of(self.kernel, "kernel", KERNELS)
        check_integer(self.n, "n", 2, 8192)
        if self.kernel != "arc-cosine" and self.n % 2:
            raise ValueError(f"n must be even: cosines and sines are pairs, not {self.n}")
        check_integer(self.seed, "seed", 0, 2**63 - 1)
        if self.scale is not None:
            object.__setattr__(self, "scale", check_positive(self.scale, "scale"))
            if self.kernel == "arc-cosine":
                raise ValueError("the arc-cosine kernel has no scale")

    def rows(self, x: Matrix) -> Matrix:
        """The features of rows (m, d) within [-1, 1], shape (m, n); each row has length 1."""
        x = np.ascontiguousarray(x, np.float64)
        signs = self.kernel == "arc-cosine"
        return random_features(x, self._weights(x.shape[1]), signs)

    def _weights(self, d: int) -> Matrix:
        drawn = self.__dict__.get("_drawn")
        if drawn is None or len(drawn) != d:
            drawn = self._draw(d)
            self.__dict__["_drawn"] = drawn
        return drawn

    def _draw(self, d: int) -> Matrix:
        """Directions (d, m), the same for the same seed."""
        rng = np.random.Generator(np.random.PCG64([self.seed, d]))
        if self.kernel == "arc-cosine":
            return np.ascontiguousarray(rng.standard_normal((d, self.n)))
        m = self.n // 2
        weights = rng.standard_normal((d, m))
        if self.kernel == "matern":  # of a multivariate t
            weights /= np.sqrt(rng.chisquare(2 * SMOOTHNESS, m) / (2 * SMOOTHNESS))
        if self.scale is not None:
            return np.ascontiguousarray(weights / self.scale)
        return np.ascontiguousarray(weights / (math.sqrt(d) * np.geomspace(SHORTEST, LONGEST, m)))

    def to_dict(self) -> JsonObject:
        """The parameters as plain values."""
        return asdict(self) | {"columns": None if self.columns is None else list(self.columns)}
