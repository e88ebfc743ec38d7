"""Steps of private scores in released coordinates: what classifiers and random features share.

Secret side: of what is read only the noisy sums leave. The page is docs/theory/learning.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from privgram._core.rows import RowAccumulator
from privgram.glm.rounds import Rounds
from privgram.moment import SecondMoment
from privgram.moment.accumulators import BlockAccumulator
from privgram.scan.executor import accumulate
from privgram.secret.kinds import Learner, Scores
from privgram.secret.sweep import KeptImage

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
    from privgram.scan.request import ScanRequest
    from privgram.secret.gate import Gate, Sum
    from privgram.secret.kinds import Kind


@dataclass(frozen=True)
class StepRules:
    """How a budget is spent on a second moment and steps, by public and released numbers."""

    #: Share of the second moment: within these, as much as makes its noise this part of a typical
    #: direction.
    moment: tuple[float, float] = (0.01, 0.12)
    moment_noise: float = 0.05
    #: The ridge of the coordinates, over the edge of the noise.
    ridge: float = 0.2
    #: Steps of the score. Together they are as long as makes the noise of the linear predictor this
    #: much, and over the curvature within these.
    steps: int = 40
    predictor_noise: float = 1.0
    length: tuple[float, float] = (2.0, 60.0)
    #: The clip of scores over the root mean square of |z|: the first, and up to the second while
    #: the longest steps leave less than `no_noise`. Rows are shortened to `radius` times it.
    clip: tuple[float, float] = (0.5, 2.0)
    no_noise: float = 0.3
    radius: float = 4.0


class FeatureMoment(BlockAccumulator):
    """The second moment of rows of features, without what is beside them."""

    parts: ClassVar[tuple[str, ...]] = ("inner",)

    def __init__(self, n_columns: int, bound: float) -> None:
        self.n_columns = n_columns
        self.inner = RowAccumulator(n_columns, bound)

    def update(self, block: Matrix, drop: bool = False, scaling: object = None) -> int:
        """Accumulate rows."""
        return self.inner.update(block[:, : self.n_columns], drop)


def first_pass(
    scan: ScanRequest,
    noise: AdaptiveGaussianCalibration,
    bound: float,
    gate: Gate,
    beside: int = 1,
) -> Rounds:
    """Rounds over rows of features by a gate; their second moment is summed in a first pass."""
    counted = accumulate(scan, lambda width: FeatureMoment(width - beside, bound))[0].inner
    exact = SecondMoment.from_accumulator(counted, None, None)
    return Rounds(exact, noise, gate.on(lambda new: accumulate(scan, new)[0]))


def moment_share(rounds: Rounds, rules: StepRules, public: int | None) -> float:
    """The share of the second moment, by its size, the rows and epsilon."""
    d, bound = int(rounds.moment.n_columns), float(rounds.moment.bound)
    least, most = rules.moment
    if public is None:  # the number of rows is private
        return most
    edge = 2 * math.sqrt(d) * rounds.std_at(bound, 1.0)
    typical = public * bound**2 / d
    return min(max((edge / (rules.moment_noise * typical)) ** 2, least), most)


class ScoreSteps:
    """Coordinates by a released second moment, and sums of all rows in them."""

    def __init__(
        self,
        rounds: Rounds,
        rules: StepRules,
        moment: Matrix,
        rows: float,
        bound: float,
        beside: int = 1,
    ) -> None:
        self.rounds = rounds
        self.rules = rules
        values, directions = np.linalg.eigh(moment)
        edge = 2 * math.sqrt(len(moment)) * rounds.std[-1]
        second = without_noise(values, edge, rows * bound**2)
        deviations = np.sqrt((second + rules.ridge * edge) / rows)
        self.typical = math.sqrt(max(float((second / deviations**2).sum()) / rows, 1e-3))
        self.seen = int((values > edge).sum())  # directions beyond the edge of the noise
        radius = rules.radius * self.typical
        self.image = KeptImage(directions, deviations, bound, radius, beside)

    def sizes(self, left: float, rows: float, curvature: float = 1.0) -> tuple[float, float]:
        """The clip of scores, and the length of a step over the curvature of the likelihood."""
        rules, typical = self.rules, self.typical
        # A clip of 1 and a length of 1 leave so much noise in the linear predictor of such a row.
        noise = self.rounds.moves * typical * curvature / (self.rounds.mu(left) * rows)
        quiet = rules.no_noise / (noise * rules.length[1])
        clip = float(np.clip(quiet, rules.clip[0] * typical, rules.clip[1] * typical))
        length = float(np.clip(rules.predictor_noise / (noise * clip), *rules.length))
        return clip, length / rules.steps

    def score(self, model: Learner, clip: float, share: float) -> Matrix:
        """Release a sum of clipped scores, of the shape of the model's coefficients."""
        [total] = self.read(Scores(model, clip))
        return np.asarray(self.rounds.score(total, share)[0]).T

    def read(self, *kinds: Kind) -> tuple[Sum, ...]:
        """Read sums of all rows."""
        return self.rounds.gate.read(self.image, *kinds)

    def of_columns(self, coef: Matrix) -> Matrix:
        """Coefficients of the columns of rows, by those of images."""
        return np.asarray(self.image.directions @ (coef / self.image.deviations[:, None]))


def without_noise(values: Vector, edge: float, most: float) -> Vector:
    """Second moments in directions, by eigenvalues of a matrix with noise of this edge.

    Beyond the edge each is what the semicircle law makes of a spike; the others share what is left
    of the trace, whose noise is small.
    """
    seen = values > edge
    spikes = np.where(seen, (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2, 0.0)
    left = float(np.clip(values.sum() - spikes.sum(), 0.0, most))
    return np.asarray(np.where(seen, spikes, left / max(int((~seen).sum()), 1)))
