"""A private fit, from rows to coefficients, against scikit-learn's own on the same rows."""

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from privgram.estimators import PrivateRidge

from .common import fastest, print_tracks, size

UNIT = {"columns": (-1, 1)}
PAIRS = {
    "linear regression": (PrivateRidge(0.0, **UNIT), LinearRegression()),
    "ridge": (PrivateRidge(1.0, **UNIT), Ridge(1.0)),
}


class Fit:
    """A million rows of 20 features."""

    params = (list(PAIRS), ["C", "F"], ["float64", "float32"])
    param_names = ("estimator", "order", "dtype")
    timeout = 300

    def setup(self, estimator, order, dtype):
        rng = np.random.default_rng(1)
        self.x = np.asarray(rng.uniform(-1, 1, (size(1_000_000), 20)), dtype, order)
        self.y = self.x @ rng.uniform(-0.1, 0.1, 20).astype(dtype)
        self.ours, self.theirs = PAIRS[estimator]

    def time_fit(self, estimator="", order="", dtype=""):
        self.ours.fit(self.x, self.y)

    def track_times_as_fast_as_scikit_learn(self, estimator, order, dtype):
        ours, theirs = fastest(self.time_fit, lambda: self.theirs.fit(self.x, self.y))
        return theirs / ours


if __name__ == "__main__":
    print_tracks(Fit)
