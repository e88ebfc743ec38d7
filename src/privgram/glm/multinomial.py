"""A classifier by scores: the rounds at the table, and the door where its budget is spent.

Secret side: of what is read only the noisy sums leave. The page is docs/theory/glm.md.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from privgram._base.files import check_process
from privgram._base.machine import memory
from privgram.disclosure import generators
from privgram.disclosure.norm_bound import check_size
from privgram.disclosure.release import warn_of_weak
from privgram.glm.coordinates import (
    ClassScores,
    Coordinates,
    FeatureMoment,
    HeldOutCounts,
    ImageStore,
    ImageStream,
)
from privgram.glm.fit import NO_NUMBER, lost
from privgram.glm.rounds import Rounds
from privgram.ledger import check_ledger
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.moment import SecondMoment
from privgram.regression.classes import ClassFit, HeldOut
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns.unit import Guarantee
    from privgram.ledger import Ledger
    from privgram.sources.labelled import LabelledRows

__all__ = ["RULES", "ClassProblem", "ClassRules", "fit_classes"]


@dataclass(frozen=True)
class ClassRules:
    """How a classifier spends its budget, by public and released numbers.

    Chosen on made tables (`bench/learning/choices.py`), and none of them on the results page's.
    """

    #: Share of the second moment: within these, as much as makes its noise this part of a typical
    #: direction.
    moment: tuple[float, float] = (0.01, 0.12)
    moment_noise: float = 0.05
    #: The number of rows, where nothing else says it.
    number: float = 0.01
    #: The ridge of the coordinates, over the edge of the noise.
    ridge: float = 0.2
    #: Steps of the score. Together they are as long as makes the noise of the linear predictor this
    #: much, and over the number of classes within these.
    steps: int = 40
    predictor_noise: float = 1.0
    length: tuple[float, float] = (2.0, 60.0)
    #: The clip of scores over the root mean square of |z|: the first, and up to the second while
    #: the longest steps leave less than `no_noise`. Rows are shortened to `radius` times it.
    clip: tuple[float, float] = (0.5, 2.0)
    no_noise: float = 0.3
    radius: float = 4.0
    #: Bins of a reliability curve.
    bins: int = 10


RULES = ClassRules()

#: What takes images of rows.
ImageSums = TypeVar("ImageSums", ClassScores, HeldOutCounts)

#: Images may take so much of the memory; beyond it they are made anew for each step.
SHARE_OF_MEMORY = 0.25


@dataclass(frozen=True, eq=False)
class ClassProblem:
    """A classifier as it is asked for: nothing of the table."""

    classes: tuple[Any, ...]
    n_columns: int  # of a row, with the constant
    bound: float  # of a row
    constant: float  # the last column, or 0 where there is none
    guarantee: Guarantee
    holdout: float = 0.0  # the part of the rows that is held out
    drops: bool = False  # rows may have been left out
    rules: ClassRules = field(default=RULES)


@dataclass(frozen=True, eq=False)
class ClassParts:
    """What the rounds of a classifier found: all of it was released."""

    coef: Matrix  # of the columns and classes, (d, K)
    rows: float = 1.0
    held_out: HeldOut | None = None
    seen: int = 0  # directions of the second moment beyond the edge of its noise
    clip: float | None = None  # None where no step was taken
    length: float | None = None  # of a step


class ClassEstimator:
    """The rounds of a classifier: each release decides the next, and nothing else of the table."""

    def __init__(self, rounds: Rounds, problem: ClassProblem, public: int | None) -> None:
        self.rounds = rounds
        self.problem = problem
        self.public = public

    def fit(self) -> ClassParts:
        """Spend the whole budget, round by round."""
        rounds, rules = self.rounds, self.problem.rules
        d, n_classes = self.problem.n_columns, len(self.problem.classes)
        moment = rounds.take(rounds.moment, self._moment_share())
        std = rounds.std[-1]
        rows = self._rows(moment)
        learnt = rows * (1 - self.problem.holdout)
        values, directions = np.linalg.eigh(moment)
        edge = 2 * math.sqrt(d) * std
        second = without_noise(values, edge, rows * self.problem.bound**2)
        deviations = np.sqrt((second + rules.ridge * edge) / rows)
        typical = math.sqrt(max(float((second / deviations**2).sum()) / rows, 1e-3))
        coordinates = Coordinates.of(
            directions, deviations, self.problem.bound, rules.radius * typical
        )
        images = self._images(coordinates)
        coef = np.zeros((d, n_classes))
        left = 1 - rounds.spent
        share = left / rules.steps
        # A clip of 1 and a length of 1 leave so much noise in the linear predictor of such a row.
        noise = rounds.moves * typical * n_classes / (rounds.mu(left) * learnt)
        quiet = rules.no_noise / (noise * rules.length[1])
        clip = float(np.clip(quiet, rules.clip[0] * typical, rules.clip[1] * typical))
        length = float(np.clip(rules.predictor_noise / (noise * clip), *rules.length)) / rules.steps
        for _ in range(rules.steps):
            sums = self._sum(images, coordinates, partial(ClassScores, coordinates, coef, clip))
            score = rounds.whole_sums(sums.total, sums.sensitivity, share) * sums.unit
            coef = coef + length * n_classes / learnt * score
            coef -= coef.mean(axis=1, keepdims=True)
        held = None
        if self.problem.holdout:
            new = partial(HeldOutCounts, coordinates, coef, rules.bins)
            counts = self._sum(images, coordinates, new).counts
            noisy, noise_std = rounds.counts_apart(counts, left)  # of rows that no score had
            held = HeldOut(noisy[:, 1], noisy[:, 0], noise_std)
        seen = int((values > edge).sum())
        return ClassParts(directions @ (coef / deviations[:, None]), rows, held, seen, clip, length)

    def _moment_share(self) -> float:
        """The share of the second moment, by d, the rows and epsilon."""
        rules, rounds = self.problem.rules, self.rounds
        least, most = rules.moment
        if self.public is None:  # the number of rows is private
            return most
        edge = 2 * math.sqrt(self.problem.n_columns) * rounds.std_at(self.problem.bound, 1.0)
        typical = self.public * self.problem.bound**2 / self.problem.n_columns
        return min(max((edge / (rules.moment_noise * typical)) ** 2, least), most)

    def _rows(self, moment: Matrix) -> float:
        """The number of rows: public, or as the constant says, or for a share."""
        if self.public is not None:
            return max(float(self.public), 1.0)
        if self.problem.constant:
            return max(float(moment[-1, -1]) / self.problem.constant**2, 1.0)
        return max(self.rounds.number(self.problem.rules.number), 1.0)

    def _images(self, coordinates: Coordinates) -> ImageStore | None:
        """Images of all rows, if they fit."""
        exact = self.rounds.moment.n_rows
        if 2 * exact * self.problem.n_columns > SHARE_OF_MEMORY * memory():
            return None
        read = self.rounds.reread_all(lambda _: ImageStream(coordinates, ImageStore()))
        store: ImageStore = read.inner
        return store

    def _sum(
        self, images: ImageStore | None, coordinates: Coordinates, new: Callable[[], ImageSums]
    ) -> ImageSums:
        """What takes images, after it took all of them."""
        if images is None:
            read: ImageSums = self.rounds.reread_all(
                lambda _: ImageStream(coordinates, new())
            ).inner
            return read
        total = new()
        for some, classes in images:
            total.take(some, classes)
        return total


def without_noise(values: Vector, edge: float, most: float) -> Vector:
    """Second moments in directions, by eigenvalues of a matrix with noise of this edge.

    Beyond the edge each is what the semicircle law makes of a spike; the others share what is left
    of the trace, whose noise is small.
    """
    seen = values > edge
    spikes = np.where(seen, (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2, 0.0)
    left = float(np.clip(values.sum() - spikes.sum(), 0.0, most))
    return np.asarray(np.where(seen, spikes, left / max(int((~seen).sum()), 1)))


def fit_classes(
    source: LabelledRows,
    problem: ClassProblem,
    *,
    ledger: Ledger | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
) -> ClassFit:
    """Fit a classifier to rows that can be read again, with their classes.

    All that can be refused is refused before anything is spent; what goes wrong after that ends in
    a refused fit, in which all classes are equally likely.
    """
    check_ledger(ledger)
    pid, guarantee = os.getpid(), problem.guarantee
    generator, reproducible = generators.resolve(rng)
    noise = AdaptiveGaussian().noise_for(guarantee, problem.n_columns, problem.bound)
    if ledger is not None:  # before the pass
        ledger.check(**guarantee.price, privacy=noise.privacy)
    if problem.holdout:
        source.seed = int(generator.integers(2**63))
    scan = ScanRequest(source, threads=threads)
    counted = accumulate(scan, lambda width: FeatureMoment(width - 1, problem.bound))[0].inner
    first = SecondMoment.from_accumulator(counted, None, None)
    public = first.n_rows if guarantee.size_is_public and not problem.drops else None
    check_size(public)
    if not reproducible:
        warn_of_weak(guarantee, public)
    if ledger is not None:
        ledger.reserve(**guarantee.price, privacy=noise.privacy, what="classifier")
    rounds = Rounds(first, noise, generator, lambda new: accumulate(scan, new)[0])
    refusal = None
    nothing = np.zeros((problem.n_columns, len(problem.classes)))
    parts = ClassParts(nothing)
    try:
        with np.errstate(all="ignore"):
            parts = ClassEstimator(rounds, problem, public).fit()
        if not np.isfinite(parts.coef).all():
            parts, refusal = replace(parts, coef=nothing), NO_NUMBER
    except Exception as error:  # after the spend: a refused fit, whatever it is
        check_process(pid)
        refusal = lost(error)
    coef = parts.coef
    last = -1 if problem.constant else problem.n_columns
    constant = coef[-1] * problem.constant if problem.constant else np.zeros(coef.shape[1])
    return ClassFit(
        classes=problem.classes,
        coef=np.ascontiguousarray(coef[:last].T),
        intercept=constant,
        n_rows=parts.rows,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=guarantee.adjacency,
        privacy=noise.privacy,
        parameters=rounds.record["parameters"] | steps_of(parts, problem.rules),
        refusal=refusal,
        held_out=parts.held_out,
        reproducible=reproducible,
    )


def steps_of(parts: ClassParts, rules: ClassRules) -> dict[str, float]:
    """What is recorded of the steps, for readers."""
    if parts.clip is None or parts.length is None:
        return {"seen": parts.seen}
    taken = {"steps": rules.steps, "length": parts.length, "clip": parts.clip}
    return taken | {"seen": parts.seen}
