"""Estimate delta from releases of two neighbours, and compare it with the profile's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_integer, check_within
from privgram.mechanisms import AdaptiveGaussian

from . import adaptive, low_rank, moments, together
from .cases import Case, Estimate, Pair, Together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Profile

    Array = NDArray[np.float64]

__all__ = ["CASES", "leading", "measure", "worst_pairs"]

#: What `privgram audit` runs.
CASES: tuple[Case, ...] = moments.CASES + adaptive.CASES + low_rank.CASES + together.CASES

#: Draws of each table with one seed, so that results do not depend on the processes.
CHUNK = 1000


def _room(case: Case) -> ModuleType:
    """Where the pairs, the profile and the scores of a case are made."""
    if isinstance(case.mechanism, Together):
        return together
    if isinstance(case.mechanism, AdaptiveGaussian):
        return adaptive
    return low_rank if isinstance(case.mechanism, low_rank.Step) else moments


def worst_pairs(case: Case) -> list[Pair]:
    """Tables on which a mechanism attains its profile, or comes near (docs/theory).

    Returns
    -------
    list of Pair
        Several where which is worst depends on epsilon or on the kind of noise.
    """
    pairs: list[Pair] = _room(case).worst_pairs(case)
    return pairs


def measure(
    case: Case,
    draws: int,
    *,
    confidence: float = 0.999,
    released: Any = None,
    seed: int = 0,
    processes: int = 1,
    progress: Callable[[int], object] | None = None,
) -> list[Estimate]:
    """Estimate delta from releases of the worst-case pairs.

    Parameters
    ----------
    case : Case
    draws : int
        Releases of each table.
    confidence : float
        Of all limits at once, in (0, 1): an honest mechanism shows any violation with
        probability at most ``1 - confidence``.
    released : optional
        What to run in place of the mechanism, to see a broken one caught; in place of several,
        a `Together`.
    seed : int
        The tables are made up, so that releases may be repeated.
    processes : int
        Processes to share the draws. Results do not depend on it.
    progress : callable, optional
        Called with the number of draws just done.

    Returns
    -------
    list of Estimate
        For each pair, each order of its tables, and each epsilon.

    Raises
    ------
    ValueError
        If a parameter is out of its range.
    """
    draws = check_integer(draws, "draws", 1)
    confidence = check_within(confidence, "confidence", 0, 1)
    seed = check_integer(seed, "seed", 0)
    processes = check_integer(processes, "processes", 1)
    pairs = worst_pairs(case)
    # Each row has two limits, each made of one for P and one for Q.
    tail = (1 - confidence) / (len(pairs) * 2 * len(case.at) * 4)
    sizes = [min(CHUNK, draws - start) for start in range(0, draws, CHUNK)]
    rows = []
    with _mapper(processes) as run:
        for i, pair in enumerate(pairs):
            work = partial(_room(case).scores, case, released or case.mechanism, pair)
            seeds = np.random.SeedSequence([seed, i]).spawn(len(sizes))
            parts = []
            for part in run(work, sizes, seeds):
                parts.append(part)
                if progress is not None:
                    progress(part.shape[1])
            p, q = np.concatenate(parts, axis=1)
            claimed: Profile = _room(case).claimed(case, pair)
            one, other = pair.names
            for name, x, y in ((f"{one} / {other}", p, q), (f"{other} / {one}", -q, -p)):
                rows += [_estimate(name, e, float(claimed.delta(e)), x, y, tail) for e in case.at]
    return rows


def leading(rows: Iterable[Estimate]) -> list[Estimate]:
    """Return, for each epsilon, the pair that shows most: the profile claims as much.

    Chosen by `Estimate.by_law`, hence with little bias towards lucky draws.
    """
    best: dict[float, Estimate] = {}
    for row in rows:
        if row.epsilon not in best or row.by_law > best[row.epsilon].by_law:
            best[row.epsilon] = row
    return list(best.values())


@contextmanager
def _mapper(processes: int) -> Iterator[Callable[..., Iterable[Array]]]:
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield pool.map


def _estimate(
    name: str, epsilon: float, claimed: float, p: Array, q: Array, tail: float
) -> Estimate:
    n = p.size
    growth = math.exp(epsilon)
    p_hits, q_hits = int((p > epsilon).sum()), int((q > epsilon).sum())
    (p_low, p_high), (q_low, q_high) = _limits(p_hits, n, tail), _limits(q_hits, n, tail)
    excess = -np.expm1(-np.maximum(p - epsilon, 0.0))
    return Estimate(
        name,
        epsilon,
        claimed,
        measured=(p_hits - growth * q_hits) / n,
        lower=p_low - growth * q_high,
        upper=p_high - growth * q_low,
        by_law=float(excess.mean()),
        by_law_error=float(excess.std() / math.sqrt(n)),
    )


def _limits(hits: int, trials: int, tail: float) -> tuple[float, float]:
    """Clopper-Pearson limits of a probability, each exceeded with probability at most `tail`."""
    from scipy.special import betaincinv

    low = betaincinv(hits, trials - hits + 1, tail) if hits else 0.0
    high = betaincinv(hits + 1, trials - hits, 1 - tail) if hits < trials else 1.0
    return float(low), float(high)
