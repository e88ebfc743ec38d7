"""Compression to few rows: `compress` beside the same projection drawn in full."""

import numpy as np
from sklearn.random_projection import GaussianRandomProjection

from privgram.papers.zhou_ligett_wasserman import compress

from .common import size

ROWS, D = 400, 50


class Compress:
    """400 random combinations of n rows of 50 columns."""

    params = ([2**14, size(2**18)], ["gram", "stream", "NumPy", "scikit-learn"])
    param_names = ("n", "method")
    timeout = 300

    def setup(self, n, method):
        if method == "scikit-learn" and n * ROWS > 2**26:
            raise NotImplementedError("holds the whole projection in memory")
        self.x = np.random.default_rng(0).standard_normal((n, D))
        self.x *= np.arange(1, D + 1) ** -0.5
        self.rng = np.random.default_rng(1)

    def compressed(self, method):
        n = len(self.x)
        if method == "scikit-learn":
            return GaussianRandomProjection(ROWS, random_state=1).fit_transform(self.x.T).T
        if method == "NumPy":  # a block of the projection at a time
            out = np.zeros((ROWS, D))
            for start in range(0, n, 4096):
                block = self.x[start : start + 4096]
                out += self.rng.standard_normal((ROWS, len(block))) @ block
            return out
        return compress(self.x, ROWS, method=method, rng=self.rng)

    def time_compress(self, n, method):
        self.compressed(method)

    def peakmem_compress(self, n, method):
        self.compressed(method)
