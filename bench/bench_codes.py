"""Dense columns and factors by their codes, as ratios in one run.

The anchor is tabmat's SplitMatrix.sandwich, the engine of glum, on the same numbers and codes
with as many threads: floating-point sums, neither clamped nor clipped. The dense pass takes the
table with a column for each level. `python -m bench.bench_codes` prints all of it.
"""

import itertools
import os
from functools import cache

import numpy as np

from privgram._core import rows

from .common import CORES, fastest, in_threads, print_tracks, size

DENSE = 10
LEVELS = {"5, 50, 500": (5, 50, 500), "10000": (10_000,)}
STEP = 768 * 64
SHARES = {"at the norm": 1.0, "below": 0.9}


@cache
def table(levels):
    """Standard normal columns and codes, all levels equally often."""
    rng = np.random.default_rng(1)
    n = size(2**22)
    dense = np.asfortranarray(rng.standard_normal((n, DENSE)))
    return dense, [rng.integers(0, k, n).astype(np.int32) for k in levels]


def accumulator(levels, share):
    firsts = np.cumsum([DENSE, *levels])
    blocks = [(k, int(first), -1, 1.0) for k, first in enumerate(firsts[:-1])]
    bound = share * (DENSE + len(levels)) ** 0.5
    return rows.Accumulator(range(DENSE), levels, blocks, bound)


SCALING = np.zeros(DENSE), np.full(DENSE, 1 / 3), np.ones(DENSE)


def accumulate(dense, codes, levels, share):
    """Seconds of a pass by CORES threads."""
    accumulators = [accumulator(levels, share) for _ in range(CORES)]
    counter = itertools.count()
    columns = [dense[:, j] for j in range(DENSE)]

    def work(i):
        for c in counter:
            part = slice(c * STEP, (c + 1) * STEP)
            if part.start >= len(dense):
                return
            bad = accumulators[i].update(
                [x[part] for x in columns], False, SCALING, [(c[part], None) for c in codes]
            )
            if bad != -1:
                raise AssertionError("nothing is missing")

    return in_threads(work, CORES)


class Codes:
    """One pass over ten columns and factors."""

    params = (tuple(LEVELS), tuple(SHARES))
    param_names = ("levels", "bound")
    timeout = 600

    def setup(self, levels, bound):
        self.levels, self.share = LEVELS[levels], SHARES[bound]
        self.dense, self.codes = table(self.levels)

    def teardown(self, levels, bound):
        table.cache_clear()

    def ours(self):
        return accumulate(self.dense, self.codes, self.levels, self.share)

    def track_million_rows_per_second(self, levels, bound):
        return len(self.dense) / fastest(self.ours)[0] / 1e6

    def track_times_as_fast_as_tabmat(self, levels, bound):
        os.environ.setdefault("OMP_NUM_THREADS", str(CORES))
        try:
            import pandas as pd
            import tabmat
        except ImportError:
            raise NotImplementedError("tabmat is not installed") from None
        parts = [tabmat.DenseMatrix(self.dense)]
        for codes, k in zip(self.codes, self.levels, strict=True):
            parts.append(
                tabmat.CategoricalMatrix(pd.Categorical.from_codes(codes, categories=range(k)))
            )
        split, ones = tabmat.SplitMatrix(parts), np.ones(len(self.dense))
        ours, theirs = fastest(self.ours, lambda: split.sandwich(ones))
        return theirs / ours

    def track_times_as_fast_as_dummies(self, levels, bound):
        """The dense kernel over a column for each level, on fewer rows."""
        if sum(self.levels) > 1000:
            raise NotImplementedError("too wide")
        n = 2**14
        x = np.zeros((n, DENSE + sum(self.levels)))
        x[:, :DENSE] = np.clip(self.dense[:n] / 3, -1, 1)
        firsts = np.cumsum([DENSE, *self.levels])
        for codes, first in zip(self.codes, firsts[:-1], strict=True):
            x[np.arange(n), first + codes[:n]] = 1
        norm = self.share * (DENSE + len(self.levels)) ** 0.5
        made = [rows.RowAccumulator(x.shape[1], norm) for _ in range(CORES)]
        half = n // CORES

        def part(i):
            made[i].update(x[i * half : (i + 1) * half])

        ours, dense = fastest(self.ours, lambda: in_threads(part, CORES))
        return dense / n / (ours / len(self.dense))

    def track_cost_of_factors(self, levels, bound):
        """Against the dense columns alone, scaled as well."""
        ours, dense = fastest(self.ours, lambda: accumulate(self.dense, [], (), self.share))
        return ours / dense


if __name__ == "__main__":
    print_tracks(Codes)
