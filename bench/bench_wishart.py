"""Wishart draws against SciPy's, on one thread.

Each ratio is of calls taken in turn in one run, so that both sides see the same machine.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.stats

from privgram._core.blas import wishart

from .common import fastest, print_tracks, size


class Wishart:
    """W_d(V, k) with V = I (as the additive mechanism draws it) and general V."""

    params = ([22, 100, 500, size(2000, 2)], ["identity", "general"])
    param_names = ("d", "scale")
    timeout = 300

    def setup(self, d, scale):
        self.k = d + 0.5
        self.rng = np.random.default_rng(1)
        self.out = np.empty((d, d))
        self.v, self.cholesky = np.eye(d), None
        if scale == "general":
            self.cholesky = np.linalg.cholesky(np.cov(self.rng.normal(size=(d, 2 * d))))
            self.v = self.cholesky @ self.cholesky.T
        self.frozen = scipy.stats.wishart(self.k, self.v)
        self.time_draw()

    def draw(self, k):
        wishart(self.rng.bit_generator, k, self.cholesky, self.out)

    def time_draw(self, d=0, scale=""):
        self.draw(self.k)

    def track_times_as_fast_as_scipy(self, d, scale):
        ours, theirs = fastest(
            self.time_draw,
            lambda: scipy.stats.wishart.rvs(self.k, self.v, random_state=self.rng),
        )
        return theirs / ours

    def track_times_as_fast_as_scipy_frozen(self, d, scale):
        """SciPy has factored V before the clock starts."""
        ours, theirs = fastest(self.time_draw, lambda: self.frozen.rvs(random_state=self.rng))
        return theirs / ours

    def track_time_for_a_billion_degrees_of_freedom(self, d, scale):
        """As a multiple of the time for d + 1/2 of them."""
        few, many = fastest(self.time_draw, lambda: self.draw(1e9))
        return many / few

    def track_speedup_of_two_threads(self, d, scale):
        """Two generators, two draws at once, each with the GIL released."""
        outs = np.empty((2, d, d))
        generators = [np.random.PCG64(1), np.random.PCG64(2)]
        repeats = max(1, 10_000_000 // d**2)

        def work(i):
            for _ in range(repeats):
                wishart(generators[i], self.k, self.cholesky, outs[i])

        with ThreadPoolExecutor(2) as pool:
            alone, both = fastest(lambda: work(0), lambda: list(pool.map(work, (0, 1))))
        return 2 * alone / both


if __name__ == "__main__":
    print_tracks(Wishart)
