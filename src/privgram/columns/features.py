"""Random features: public functions of a few columns, of a known length, for predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.numbers import check_integer, check_positive, set_fields
from privgram._core.rowmap import random_features

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram._base.saved import JsonObject

#: Lengths of a kernel over the root of the number of columns, by default from the first to the
#: second: columns fill a tenth of their bounds, or all of them.
SHORTEST, LONGEST = 0.06, 0.5


@dataclass(frozen=True)
class RandomFeatures:
    """Random features of columns, by which a linear fit is one of the Gaussian kernel.

    Columns are mapped to [-1, 1] by their public bounds and projected on random directions. The
    features are cosines and sines of the projections, so that every row has length 1 whatever it
    holds. The draws are public: the features cost no privacy by themselves.

    Parameters
    ----------
    columns : sequence of str, optional
        Which columns of a frame; by default all that an estimator learns from.
    n : int, default 512
        How many features; even, since cosines and sines are pairs.
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
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError("columns is a list of names, such as ['x1', 'x2']")
        if self.columns is not None:
            set_fields(self, columns=tuple(self.columns))
            if not self.columns or len(set(self.columns)) < len(self.columns):
                raise ValueError("columns names each column once, and one at least")
        n = check_integer(self.n, "n", 2, 8192)
        seed = check_integer(self.seed, "seed", 0, 2**63 - 1)
        if n % 2:
            raise ValueError(f"n must be even: cosines and sines are pairs, not {n}")
        scale = None if self.scale is None else check_positive(self.scale, "scale")
        set_fields(self, n=n, seed=seed, scale=scale)

    def rows(self, x: Matrix) -> Matrix:
        """The features of rows (m, d) within [-1, 1], shape (m, n); each row has length 1."""
        x = np.ascontiguousarray(x, np.float64)
        return random_features(x, self._weights(x.shape[1]))

    def _weights(self, d: int) -> Matrix:
        drawn = self.__dict__.get("_drawn")
        if drawn is None or len(drawn) != d:
            drawn = self._draw(d)
            self.__dict__["_drawn"] = drawn
        return drawn

    def _draw(self, d: int) -> Matrix:
        """Directions (d, m), the same for the same seed."""
        rng = np.random.Generator(np.random.PCG64([self.seed, d]))
        m = self.n // 2
        weights = rng.standard_normal((d, m))
        if self.scale is not None:
            return np.ascontiguousarray(weights / self.scale)
        return np.ascontiguousarray(weights / (math.sqrt(d) * np.geomspace(SHORTEST, LONGEST, m)))

    def to_dict(self) -> JsonObject:
        """The parameters as plain values."""
        return asdict(self) | {"columns": None if self.columns is None else list(self.columns)}
