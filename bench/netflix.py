"""Find-and-project on a matrix of the size and margins of the Netflix prize: time, memory, error.

17,770 movies, 480,189 users and 100,480,507 ratings from 1 to 5, the most rated movie with
227,715 and the second with 216,233 (Hardt and Roth, Appendix C). The ratings are synthetic:
a mean, effects of movies and users, tastes of 20 dimensions, noise, rounded. The matrix takes
about a minute to make; --cache keeps it. The table is that of docs/experiments.md.

    python -m bench.netflix --cache netflix.npz
"""

import argparse
import math
import resource
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.utils.extmath import randomized_svd

from bench import pages
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
    return result, time.perf_counter() - start, time.process_time() - used


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cache", type=Path)
    arguments.add_argument("--scale", type=int, default=1, help="divide both sides by this")
    options = arguments.parse_args()
    rank, oversample, budget = 20, 21, (1.0, 1e-6)
    A = load(options.cache, options.scale)
    k = rank + oversample

    def private(level=None):
        return low_rank.approximate(A, rank, oversample, level, epsilon=budget[0], delta=budget[1])

    found, *own = clock(private)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    about = low_rank.coherence(A, rank)
    level = low_rank.prune_level(A.shape, k, about.C, about.frobenius, *budget)
    std = 1 / privacy.calibration.gaussian_ratio(*budget)
    errors = {
        "B = 0": about.frobenius,
        "best rank 20, not private": about.tail(rank),
        "find-and-project": low_rank.frobenius_error(A, found),
        f"the same, pruned at the level of Theorem 6.2 ({level:.2f})": (
            low_rank.frobenius_error(A, private(level))
        ),
        "randomised response, best rank 20 (estimated)": input_perturbation_error(
            about.singular_values, about.frobenius, A.shape, std, rank
        ),
        "Theorem 6.2, its constant taken as 1": about.promise_6_2(rank, oversample, *budget),
    }
    _, *hmt = clock(lambda: low_rank.halko_martinsson_tropp(A, rank, oversample))
    times = {"find-and-project": own, "the same without noise (`halko_martinsson_tropp`)": hmt}
    A = A.astype(np.float64)
    for iterations in ("0", '"auto"'):
        _, *times[f"scikit-learn's `randomized_svd`, `n_iter={iterations}`"] = clock(
            lambda n=iterations: randomized_svd(
                A, rank, n_oversamples=oversample, n_iter=n.strip('"') if n != "0" else 0
            )
        )
    lines = [
        f"| C = {about.C:.1f} | norm of A - B, Frobenius |",
        "|---|--:|",
        *(f"| {name} | {error:,.0f} |" for name, error in errors.items()),
        "",
        "| | seconds | of all cores |",
        "|---|--:|--:|",
        *(f"| {name} | {wall:.1f} | {used:.1f} |" for name, (wall, used) in times.items()),
        "",
        pages.today(f"find-and-project held {memory:.1f} GiB, the matrix included"),
    ]
    print("\n".join(lines))
    if options.scale == 1:
        pages.fill("netflix", lines)


if __name__ == "__main__":
    main()
