"""Wishart draws against SciPy's, orthonormalisation against LAPACK's QR and against dsyrk.

Each ratio is of calls taken in turn in one run, so that both sides see the same machine. Others
keep their BLAS pools with as many threads as they like; privgram's calls run on one thread.
"""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.linalg.blas
import scipy.stats
from threadpoolctl import threadpool_limits

from privgram._core.orthonormal import noisy_orthonormalise
from privgram._core.wishart import wishart

from .common import fastest, size


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


class Orthonormal:
    """The range finder's step at the size of the Netflix table: 480,189 rows."""

    params = ([(size(480_189), 41), (size(20_000), 200)],)
    param_names = ("shape",)
    timeout = 300

    def setup(self, shape):
        self.rng = np.random.default_rng(1)
        self.y = self.rng.normal(size=shape)
        self.dependent = self.y.copy()
        self.dependent[:, -1] = self.y[:, 0]

    def plain(self):
        noisy_orthonormalise(None, self.y, 0.0)

    def noisy(self):
        noisy_orthonormalise(self.rng.bit_generator, self.y, 1.0)

    def gram_schmidt(self):
        noisy_orthonormalise(None, self.dependent, 0.0)

    def normals(self):
        self.rng.standard_normal(self.y.shape)

    def qr(self):
        np.linalg.qr(self.y)

    def dsyrk(self):
        scipy.linalg.blas.dsyrk(1.0, self.y.T)

    def time_plain(self, shape):
        self.plain()

    def time_noisy(self, shape):
        self.noisy()

    def time_dependent(self, shape):
        """A dependent column: Gram-Schmidt instead of CholeskyQR2."""
        self.gram_schmidt()

    def peakmem_noisy(self, shape):
        self.noisy()

    def track_times_as_fast_as_qr(self, shape):
        ours, theirs = fastest(self.plain, self.qr)
        return theirs / ours

    def track_gram_schmidt_times_as_fast_as_qr(self, shape):
        ours, theirs = fastest(self.gram_schmidt, self.qr)
        return theirs / ours

    def track_time_in_dsyrks(self, shape):
        """Flops alone make it 4: two Gram matrices and two triangular solves."""
        with threadpool_limits(1, "blas"):
            ours, theirs = fastest(self.plain, self.dsyrk)
        return ours / theirs

    def track_time_over_that_of_its_normals(self, shape):
        ours, normals = fastest(self.noisy, self.normals)
        return ours / normals


if __name__ == "__main__":  # every ratio, without asv
    for suite in (Wishart, Orthonormal):
        for values in itertools.product(*suite.params):
            case = suite()
            case.setup(*values)
            for name in filter(re.compile("track_").match, dir(case)):
                print(*values, name[6:], round(getattr(case, name)(*values), 2))
