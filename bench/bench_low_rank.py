"""Low-rank approximation: find-and-project beside decompositions without privacy."""

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.extmath import randomized_svd

from bench.paper.low_rank import incoherent
from privgram.papers import hardt_roth as low_rank

from .common import size

RANK = 5
PRIVATE = "privgram, epsilon = 1"


def dense(rng):
    return incoherent(200, size(20_000), RANK, 3.0, rng)


def sparse(rng):
    """Ratings: one in a hundred of a table of 2,000 by 50,000."""
    return sp.random_array((2000, size(50_000)), density=0.01, format="csr", rng=rng)


def product(factors):
    left, right = factors
    return left @ right


class Approximation:
    """Rank 5 of a dense incoherent matrix, or of a sparse one."""

    params = (["dense", "sparse"], [PRIVATE, "scikit-learn randomized_svd", "scikit-learn ARPACK"])
    param_names = ("matrix", "method")
    timeout = 300

    def setup(self, matrix, method):
        self.a = {"dense": dense, "sparse": sparse}[matrix](np.random.default_rng(0))

    def factors(self, method):
        if method == PRIVATE:
            rng = np.random.default_rng(1)
            low = low_rank.approximate(self.a, RANK, epsilon=1.0, delta=1e-6, rng=rng)
            return low.left, low.right
        if "randomized" in method:
            u, s, v = randomized_svd(self.a, RANK, random_state=1)
            return u * s, v
        svd = TruncatedSVD(RANK, algorithm="arpack", random_state=1)
        return svd.fit_transform(self.a), svd.components_

    def time_approximate(self, matrix, method):
        self.factors(method)

    def peakmem_approximate(self, matrix, method):
        self.factors(method)

    def track_relative_error(self, matrix, method):
        """Frobenius distance over the norm of the matrix."""
        left, right = self.factors(method)
        squared = sp.linalg.norm(self.a) ** 2 if sp.issparse(self.a) else np.sum(self.a**2)
        cross = np.sum((self.a.T @ left).T * right)
        own = np.sum((left.T @ left) * (right @ right.T))
        return np.sqrt(max(squared - 2 * cross + own, 0.0) / squared)
