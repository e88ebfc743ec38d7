"""Find-and-project on a matrix of the size and margins of the Netflix prize: time, memory, error.

17,770 movies, 480,189 users and 100,480,507 ratings from 1 to 5, the most rated movie with
227,715 and the second with 216,233 (Hardt and Roth, Appendix C). The ratings are synthetic:
a mean, effects of movies and users, tastes of 20 dimensions, noise, rounded. The matrix takes
about a minute to make; --cache keeps it.

    python bench/netflix.py --cache netflix.npz
"""

import argparse
import json
import math
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from bench.paper.low_rank import input_perturbation_error
from privgram import privacy
from privgram.papers import hardt_roth as low_rank

MOVIES, USERS, RATINGS = 17_770, 480_189, 100_480_507
FIRST, SECOND = 227_715, 216_233
TASTES = 20


def popularity(scale):
    """Ratings of each movie, falling: a stretched exponential with the published margins."""
    movies, total = MOVIES // scale, RATINGS // scale**2
    rank = np.arange(movies) / movies

    def counts(rate):
        tail = SECOND / scale * np.exp(-rate * (np.sqrt(rank + 1e-3) - math.sqrt(1e-3)))
        return np.concatenate([[FIRST / scale], tail[: movies - 1]])

    low, high = 0.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if counts(middle).sum() > total else (low, middle)
    exact = np.maximum(np.floor(counts(high)), 1).astype(np.int64)
    exact[2:][: total - exact.sum()] += 1  # the rest, one each
    return exact


def make(scale=1, seed=0):
    """Matrix of ratings, int8 in CSR, a row for a movie."""
    rng = np.random.default_rng(seed)
    users, counts = USERS // scale, popularity(scale)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(indptr[-1], np.int32)
    ratings = np.empty(indptr[-1], np.int8)
    activity = rng.lognormal(0.0, 1.1, users)
    # Users by activity, as a table to draw from.
    size = 1 << 23
    table = np.searchsorted(np.cumsum(activity) / activity.sum(), (np.arange(size) + 0.5) / size)
    table = table.astype(np.int32)
    movie_effect = rng.normal(0.0, 0.4, len(counts)).astype(np.float32)
    movie_effect += 0.3 * (counts / counts[0] - 0.1).astype(np.float32)
    user_effect = rng.normal(0.0, 0.4, users).astype(np.float32)
    strength = np.linspace(0.35, 0.05, TASTES, dtype=np.float32)
    movie_taste = rng.standard_normal((len(counts), TASTES), dtype=np.float32) * strength
    user_taste = rng.standard_normal((users, TASTES), dtype=np.float32)
    for i, count in enumerate(counts):
        seen = np.unique(table[rng.integers(0, size, int(count * 1.1) + 4)])
        while len(seen) < count:
            more = table[rng.integers(0, size, int(2 * (count - len(seen))) + 64)]
            seen = np.union1d(seen, more)
        if len(seen) > count:
            seen = np.delete(seen, rng.choice(len(seen), len(seen) - count, replace=False))
        part = slice(indptr[i], indptr[i + 1])
        value = user_taste[seen] @ movie_taste[i] + user_effect[seen]
        value += 3.6 + movie_effect[i] + 0.7 * rng.standard_normal(count, dtype=np.float32)
        indices[part] = seen
        ratings[part] = np.clip(np.rint(value), 1, 5)
    return sp.csr_array((ratings, indices, indptr), (len(counts), users))


def load(cache, scale):
    if cache and cache.exists():
        with np.load(cache) as saved:
            return sp.csr_array((saved["data"], saved["indices"], saved["indptr"]), saved["shape"])
    A = make(scale)
    if cache:
        np.savez(cache, data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape)
    return A


def clock(function):
    """Result, and seconds on the clock and of all cores: on a busy machine the second counts."""
    start, used = time.perf_counter(), time.process_time()
    result = function()
    return result, [round(time.perf_counter() - start, 1), round(time.process_time() - used, 1)]


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cache", type=Path)
    arguments.add_argument("--scale", type=int, default=1, help="divide both sides by this")
    arguments.add_argument("--sklearn", action="store_true", help="time randomized_svd as well")
    arguments.add_argument("--epsilon", type=float, default=1.0)
    options = arguments.parse_args()
    rank, oversample, delta = 20, 21, 1e-6
    A = load(options.cache, options.scale)
    shape, k = A.shape, rank + oversample
    report = {"shape": shape, "ratings": A.nnz, "largest row": int(np.diff(A.indptr).max())}
    report["matrix GiB"] = (A.data.nbytes + A.indices.nbytes + A.indptr.nbytes) / 2**30
    low, report["PFP seconds"] = clock(
        lambda: low_rank.approximate(A, rank, oversample, epsilon=options.epsilon, delta=delta)
    )
    report["peak GiB, matrix included"] = peak()
    report["largest row of W"] = float(np.linalg.norm(low.left, axis=1).max())
    report["||A - B||_F"] = low_rank.frobenius_error(A, low)
    print(json.dumps(report, indent=1), file=sys.stderr)

    about = low_rank.coherence(A, rank)
    report["||A||_F"] = about.frobenius
    report["C"], report["mu0 at rank 20"] = about.C, about.mu0
    report["||A - A_20||_F"] = about.tail(rank)
    report["singular values"] = [round(float(s), 1) for s in about.singular_values]
    std = 1 / privacy.calibration.gaussian_ratio(options.epsilon, delta)
    report["randomised response, best rank 20"] = input_perturbation_error(
        about.singular_values, about.frobenius, shape, std, rank
    )
    report["randomised response, every entry"] = std * math.sqrt(math.prod(shape))
    report["theorem 6.2"] = about.promise_6_2(rank, oversample, options.epsilon, delta)
    level = low_rank.prune_level(shape, k, about.C, about.frobenius, options.epsilon, delta)
    pruned = low_rank.approximate(A, rank, oversample, level, epsilon=options.epsilon, delta=delta)
    report["prune level"] = level
    report["||A - B||_F pruned"] = low_rank.frobenius_error(A, pruned)
    _, report["HMT seconds, no noise"] = clock(
        lambda: low_rank.halko_martinsson_tropp(A, rank, oversample)
    )
    if options.sklearn:
        from sklearn.utils.extmath import randomized_svd

        A = A.astype(np.float64)
        for iterations in ("auto", 0):
            _, report[f"randomized_svd seconds, n_iter={iterations}"] = clock(
                lambda n=iterations: randomized_svd(
                    A, rank, n_oversamples=oversample, n_iter=n, random_state=0
                )
            )
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
