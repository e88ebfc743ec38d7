"""Models with links, and Huber's regression, by scores of rows: looks beyond least squares'.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import Accumulator
from privgram.drawing.draws import impose
from privgram.drawing.scores import Steps, counted, isotropic, summed
from privgram.moment import SecondMoment
from privgram.moment.scored import Curved, Modelled, ScoreShells
from privgram.regression import scoring as rules
from privgram.regression.design import AllColumns, intercept_of
from privgram.regression.families import Bounded, Expected

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.drawing.draws import Looks
    from privgram.mechanisms.refined import Frame
    from privgram.regression.design import Design
    from privgram.regression.families import Family
    from privgram.regression.scoring import Start

UNSETTLED = (
    "the steps have not settled: the target may be separable or near an end of its range, or the "
    "noise too large for so few rows"
)


class Links(Steps):
    """The looks of one generalised linear model; as `Steps`.

    The curvature depends on where one stands. So looks at the middle release it there, and a score
    to go on by.
    """

    def __init__(
        self,
        looks: Looks,
        design: Design,
        public: int | None,
        robust: bool,
        cautious: bool,
        family: Family,
    ) -> None:
        super().__init__(looks, design, public, robust, cautious)
        self.family = family
        columns = looks.moment.columns
        assert columns is not None
        low, high = design.ends
        self.target = ((low + high) / 2, (high - low) / 2)
        self.weighted = columns.row_weights is not None
        ones = intercept_of(AllColumns(columns))
        assert ones is not None  # `needed` has them
        self.ones = ones
        self.constant = False
        #: Of looks at the curvature, once lengths were seen.
        self.radius: float | None = None

    def take(self) -> tuple[str, str, Any]:
        """All looks: which way was taken, why, and what it found."""
        looks = self.looks
        first = looks.take(looks.moment, self.first)
        rows, spent = self._rows(first)
        left = self.left - spent
        start = self._linear(first, rows)
        # A rare level's rows would stand out.
        shown = looks.noise.counts_std(looks.mu(rules.LENGTHS)) < rules.FEW * rows
        shown = shown and not self.of_units
        wider = running = False
        for _ in range(rules.MOST_MIDDLES):
            start, left = self._clearly(start, left)
            if start.hidden:
                break
            # As much as makes its noise that of a sample.
            share = (self.moves * self.usual / looks.mu(1.0)) ** 2 / rows
            share = min(max(share, rules.MIDDLE[0]), rules.MIDDLE[1])
            left -= share
            start, moved, far = self._middle(start, share, left)
            running = self._spread(first, moved, rows) > rules.RUNAWAY
            if self.radius is None and shown:
                used = rules.curved_look(self._std_at, start, 1.0)[0]
                self.radius = self._wide(start)
                left -= rules.LENGTHS
                wider = self.radius > rules.WIDER * used  # rows of rare levels were clipped
            if not (far or running) or left <= rules.KEPT:
                break
        if start.hidden or wider or start.short > rules.STALE:  # or the step led elsewhere
            near, spent = self._curved(start, left - rules.ROOM if start.hidden else 0.0)
            left -= spent
            start = near if start.hidden or not near.hidden else start
        shells = self._shells(start, rules.LINK_COUNTS)
        left -= rules.LINK_COUNTS + rules.TURNS
        noise = self.moves / looks.mu(left * 0.92)
        clip = rules.choose_clip(*shells, noise, rows, pulls=rules.ONE_WAY, cautious=self.cautious)
        elsewhere = clip.whole < rules.LEAST_SQUARE * rows
        if not self.robust:  # as the model has it
            clip = replace(clip, whole=max(rows - self.q, 1.0))
        found = self._steps(start, clip, left)
        moved = found["coef"] - start.coef
        owed = math.sqrt(self.q * (start.behind + found["noise"] ** 2)) / rows
        runaway = float(np.linalg.norm(start.along(moved))) / rows > rules.SETTLED + 3 * owed
        runaway = runaway or running or self.constant
        runaway = runaway or self._spread(first, found["step"], rows) > rules.RUNAWAY
        if runaway or elsewhere or start.bent(found["step"], rules.MOST_BENT, found["noise"]):
            found["refusal"] = UNSETTLED
        return "scores", "", found

    def _clearly(self, start: Start, left: float) -> tuple[Start, float]:
        """Release the curvature at a start, and again in the frames that it teaches, till seen."""
        start, spent = self._curved(start)
        left -= spent
        while start.hidden and left > rules.KEPT:
            start, spent = self._curved(start)
            left -= spent
        return start, left

    def _linear(self, first: Matrix, rows: float) -> Start:
        """Least squares on the scale of the link at the mean."""
        std, features = self.looks.std[-1], self.joint[:-1]
        known, law = impose(first, isotropic(std), self.looks.moment.columns)
        center, half = self.target
        own = half * self.joint[-1] + center * self.ones
        mean = 0.5 if self.family.name == "binomial" else 1.0  # of no linear predictor
        if self.design.intercept:
            count = max(float(self.ones @ known @ self.ones), 1.0)
            mean = float(own @ known @ self.ones) / count
            doubt = 2 * std * float(np.linalg.norm(own) * np.linalg.norm(self.ones)) / count
            # All targets may be the same.
            self.constant = min(mean, center + half - mean) < doubt and not self.of_units
            low, high = rules.LEAST_MEAN, (center + half) - rules.LEAST_MEAN
            mean = min(max(mean, low), max(high, low))
        weight = mean * (1 - mean) if self.family.name == "binomial" else mean
        joint = np.vstack([features, own - mean * self.ones])
        edge = 2 * math.sqrt(self.q + 1) * std * joint @ joint.T
        if self.family.name == "binomial" and not self.of_units:
            most = max(mean, 1 - mean)
            self.usual *= rules.WIDER * math.sqrt(most / (1 - most)) / rules.USUAL
        else:
            # Of counts, by how much they vary.
            square = float(own @ known @ own) / max(float(self.ones @ known @ self.ones), 1.0)
            self.usual *= math.sqrt(max((square - mean**2) / mean, 1.0))
        found = rules.start(joint @ known @ joint.T, law.image(joint), edge, rows)
        size = float(np.linalg.norm(np.linalg.solve(found.white.T, found.coef))) / weight
        coef = found.coef * min(1.0, rules.LONGEST / max(size, 1e-300)) / weight
        if self.design.intercept:
            coef[-1] += self.family.predictor(mean)
        skew = abs(1 - 2 * mean) if self.family.name == "binomial" else 1.0
        bend = max(rules.BEND, skew / (2 * math.sqrt(weight)))
        white = found.white / math.sqrt(weight)
        return replace(found, coef=coef, scale=1.0, white=white, bend=bend)

    def _curved(self, start: Start, least: float = 0.0) -> tuple[Start, float]:
        """Release the curvature at a start, as closely as it takes; with what that costs."""
        looks, q = self.looks, self.q
        radius, share = rules.curved_look(self._std_at, start, self.each, self.radius)
        share = max(share, least)
        expected = self._expected(start)
        found = looks.read(
            self._at(start), lambda _: Curved(summed(q, radius, self.of_units), expected)
        )
        unit = looks.moment.privacy_unit
        moment = SecondMoment.from_accumulator(found.inner, None, None, unit=unit)
        curved = looks.take(moment, share)
        near = rules.turned(start, curved, looks.std[-1])
        return replace(near, short=rules.SHORT_OF_UNITS) if self.of_units else near, share

    def _std_at(self, radius: float) -> float:
        """Noise off the diagonal of a second moment that gets all of mu^2."""
        return self.looks.std_at(radius, 1.0)

    def _wide(self, start: Start) -> float:
        """The radius of looks at the curvature, by a released histogram of the lengths there."""
        expected = self._expected(start)
        longest = self._far(self._at(start).matrix[: self.q]) * expected.steepest
        grid = rules.lengths(math.sqrt(self.q), longest)[::-4][::-1]
        found = self.looks.read(
            self._at(start), lambda _: Curved(ScoreShells(self.q, grid), expected)
        )
        counts, std = counted(self.looks, found.inner, rules.LENGTHS)
        noise = np.array([self._std_at(radius) for radius in grid])
        noise /= math.sqrt(rules.CURVED[1])
        return rules.wide(counts, std, grid, noise, start.rows, self.q)

    def _middle(self, start: Start, share: float, left: float) -> tuple[Start, Vector, bool]:
        """Release a score, and go where it leads; with the step, and whether it was a far one."""
        score, std = self._score(start, self.usual, share)
        # No farther than the score stands out of its noise.
        square = float(score @ score)
        clear = max(0.0, 1 - self.q * std**2 / square)
        moved = start.step(score) * clear
        most = rules.FAR * min(1.0, self._predicted(start, self.usual, left))
        far = start.bend * clear * square / start.rows > most * math.sqrt(start.rows)
        size = float(np.linalg.norm(start.along(moved))) / start.rows
        moved *= min(1.0, rules.LONGEST / max(size, 1e-300))
        behind = std**2 + start.wrong(moved)
        # The curvature stays that of where the step began.
        short = math.hypot(start.short, 2 * start.bend * size)
        return replace(start, coef=start.coef + moved, behind=behind, short=short), moved, far

    def _spread(self, first: Matrix, moved: Vector, rows: float) -> float:
        """Root mean square over rows of what a step changes eta by; at least that, but for luck."""
        along, std = self.joint[:-1].T @ moved, self.looks.std[0]
        square = float(along @ first @ along) - 2 * math.sqrt(2.0) * std * float(along @ along)
        return math.sqrt(max(square, 0.0) / rows)

    def _expected(self, start: Start) -> Expected:
        """What the coefficients of a start expect of images there."""
        inverse = np.linalg.inv(start.white)
        ones = inverse[-1] if self.weighted else None
        return Expected(self.family, inverse.T @ start.coef, self.target, ones)

    def _at(self, start: Start) -> Frame:
        """The map to (z, target) at a start."""
        return self._whole(np.vstack([start.white @ self.joint[:-1], self.joint[-1]]))

    def _read(self, start: Start, new: Any) -> Any:
        """What an accumulator makes of the scores at a start."""
        expected = self._expected(start)
        return self.looks.read(self._at(start), lambda d: Modelled(new(d), expected)).inner

    def _longest(self, start: Start) -> float:
        """The largest score that a row can have."""
        leading = self._at(start).matrix[: self.q]
        return self._far(leading) * self._expected(start).most


class Huber(Steps):
    """The looks of one regression by Huber's loss with bounded leverage; as `Steps`.

    No row's score is long, so nothing is clipped.
    """

    def __init__(
        self, looks: Looks, design: Design, public: int | None, robust: bool, cautious: bool
    ) -> None:
        super().__init__(looks, design, public, robust, cautious)
        self.bounded = Bounded(self.q)
        #: No score is longer.
        self.usual = self.bounded.most * self.bounded.longest

    def take(self) -> tuple[str, str, Any]:
        """All looks: which way was taken, why, and what it found."""
        looks, q = self.looks, self.q
        first = looks.take(looks.moment, self.first)
        rows, spent = self._rows(first)
        start, _, left = self._start(first, rows, self.left - spent)
        hidden = start.hidden
        #: The frame of leverage, and of all scores.
        self.white = start.white
        for share in rules.HUBER_AHEAD:
            start = self._curved(start)
            score, std = self._score(start, self.usual, share * left)
            moved = start.step(score)
            size = float(np.linalg.norm(start.along(moved))) / rows
            moved *= min(1.0, rules.LONGEST / max(size, 1e-300))
            behind = std**2 + start.wrong(moved)
            start = replace(start, coef=start.coef + moved, behind=behind)
        start = self._curved(start)
        left *= 1 - sum(rules.HUBER_AHEAD)
        left -= rules.HUBER_CURVED * (len(rules.HUBER_AHEAD) + 1)
        clip = rules.unclipped(self.usual, self.moves / looks.mu(left), q)
        found = self._steps(start, clip, left)
        if hidden or start.hidden:
            found["start"] = replace(start, seen=np.zeros(q))
        elif start.bent(found["step"], rules.MOST_BENT, found["noise"]):
            found["refusal"] = UNSETTLED
        # All that says which equation it was, in own units.
        own = self.design.transform[:q] / self.design.spread[-1]
        found["huber"] = {
            "error": self.bounded.most,
            "leverage": self.bounded.longest,
            "frame": (self.white @ own.T).tolist(),
        }
        return "scores", "", found

    def _curved(self, start: Start) -> Start:
        """Release the curvature at a start, and let steps go by it."""
        looks = self.looks
        radius = self.bounded.longest
        found = looks.read(
            self._at(start), lambda _: Curved(Accumulator(self.q, radius), self.bounded)
        )
        moment = SecondMoment.from_accumulator(found.inner, None, None)
        curved = looks.take(moment, rules.HUBER_CURVED)
        return rules.by_curvature(start, self.white, curved, looks.std[-1])

    def _at(self, start: Start) -> Frame:
        """The map to (z, r) at a start, z in the frame of leverage."""
        return super()._at(replace(start, white=self.white))

    def _read(self, start: Start, new: Any) -> Any:
        """What an accumulator makes of the scores at a start."""
        return self.looks.read(self._at(start), lambda d: Modelled(new(d), self.bounded)).inner
