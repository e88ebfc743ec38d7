"""Layouts of dense columns and factors, and tables for them."""

import math

import numpy as np
from support.helpers import assert_bits

from privgram._core import rows


class Case:
    """A layout, a table for it, and its dummies."""

    def __init__(self, rng, n, dense, factors, blocks, gaps=True, weights=True):
        self.n, self.factors = n, factors
        sizes = [("dense", j, 1) for j in range(dense)]
        sizes += [("block", b, factors[f]) for b, (f, _) in enumerate(blocks)]
        if gaps:
            sizes = [sizes[i] for i in rng.permutation(len(sizes))]
        starts = np.cumsum([0, *[size for _, _, size in sizes]])
        at = {(kind, i): int(start) for (kind, i, _), start in zip(sizes, starts[:-1], strict=True)}
        self.d = int(starts[-1])
        self.positions = tuple(at["dense", j] for j in range(dense))
        values = sorted({v for _, v in blocks if v >= 0})
        self.blocks = tuple(
            (f, at["block", b], v, float(rng.choice([0.3, 1.0, 2.5])) if weights else 1.0)
            for b, (f, v) in enumerate(blocks)
        )
        k = dense + len(values)
        limit = rng.choice([0.7, 1.0], k) if weights else np.ones(k)
        self.scaling = rng.uniform(-1, 1, k), limit / rng.uniform(2, 3, k), limit
        self.dense = [self.numbers(rng) for _ in range(dense)]
        self.values = [self.numbers(rng) for _ in values]
        self.codes = [rng.integers(0, levels, n) for levels in factors]
        squares = [m * m for m in limit[:dense]]
        squares += [(w * (limit[dense + v] if v >= 0 else 1)) ** 2 for _, _, v, w in self.blocks]
        self.norm = math.sqrt(sum(squares))

    def numbers(self, rng):
        x = rng.standard_normal(self.n) * 3
        x[rng.random(self.n) < 0.05] = np.inf
        return x

    def dummies(self):
        """The full table in Python's floats, with NaN for missing values."""
        center, inverse, limit = map(list, self.scaling)
        x = np.zeros((self.n, self.d))

        def scale(v, k):
            return v if v != v else min(max((v - center[k]) * inverse[k], -limit[k]), limit[k])

        for r in range(self.n):
            for j, position in enumerate(self.positions):
                v = float(self.dense[j][r]) if j < len(self.dense) else math.inf
                x[r, position] = scale(v, j)
            for f, first, value, weight in self.blocks:
                code = int(self.codes[f][r])
                entry = weight
                if value >= 0:
                    entry = weight * scale(
                        float(self.values[value][r]), len(self.positions) + value
                    )
                if 0 <= code < self.factors[f]:
                    x[r, first + code] = entry
                else:
                    x[r] = np.nan
            if not np.isfinite(x[r]).all():
                x[r] = np.nan
        return x

    def new(self, kind, bound, bits=20):
        return kind(self.positions, self.factors, self.blocks, bound, bits)

    def feed(self, acc, part=slice(None), drop=False, codes=None):
        return acc.update(
            [column[part] for column in self.dense],
            [(c[part], None) for c in self.codes] if codes is None else codes,
            [v[part] for v in self.values],
            drop,
            self.scaling,
        )

    def check(self, acc, bound, drop=False, bits=20):
        plain = rows.RowAccumulator(self.d, bound, bits)
        assert plain.update(self.dummies(), drop) == -1
        assert (acc.n_rows, acc.n_dropped) == (plain.n_rows, plain.n_dropped)
        assert (acc.scale, acc.n_columns) == (plain.scale, self.d)
        assert_bits(acc, plain)


# dense columns, levels of the factors, blocks of (factor, value or -1)
LAYOUTS = {
    "one factor": (3, (5,), [(0, -1)]),
    "one level": (2, (1,), [(0, -1)]),
    "only a factor": (0, (7,), [(0, -1)]),
    "only values": (0, (3,), [(0, 0)]),
    "no factor": (9, (), []),
    "three factors": (10, (5, 13, 40), [(0, -1), (1, -1), (2, -1)]),
    "interactions": (4, (3, 4), [(0, -1), (0, 0), (1, 0), (1, -1), (1, 1)]),
    "one value and weights": (1, (2, 3), [(0, 0), (1, 0)]),
    "wide": (37, (300, 2), [(0, -1), (1, 0)]),
    "many lanes": (8, (2,), [(0, -1)] + [(0, v) for v in range(9)]),
}
