"""Huber's regression by scores of rows: no row's is long, so nothing is clipped.

Secret side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import Accumulator
from privgram.drawing.links import UNSETTLED, curvature_of, scores_of
from privgram.drawing.scores import Steps
from privgram.moment import SecondMoment
from privgram.regression import scoring as rules
from privgram.regression.huber import Bounded

if TYPE_CHECKING:
    from privgram.drawing.refined import Looks
    from privgram.mechanisms.refined import Frame
    from privgram.regression.design import Design
    from privgram.regression.scoring import Start


class Huber(Steps):
    """The looks of one regression by Huber's loss with bounded leverage; as `Steps`."""

    def __init__(self, looks: Looks, design: Design, public: int | None, robust: bool) -> None:
        super().__init__(looks, design, public, robust)
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
            found["refused"] = UNSETTLED
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
        new = partial(_second, q=self.q, radius=self.bounded.longest)
        model = partial(curvature_of, new=new, expected=self.bounded)
        found = looks.read(self._at(start), model)
        moment = SecondMoment.from_accumulator(found.inner, None, None)
        curved = looks.take(moment, rules.HUBER_CURVED)
        return rules.by_curvature(start, self.white, curved, looks.std[-1])

    def _at(self, start: Start) -> Frame:
        """The map to (z, r) at a start, z in the frame of leverage."""
        return super()._at(replace(start, white=self.white))

    def _read(self, start: Start, new: Any) -> Any:
        """What an accumulator makes of the scores at a start."""
        model = partial(scores_of, new=new, expected=self.bounded)
        return self.looks.read(self._at(start), model).inner


def _second(_: int, q: int, radius: float) -> Accumulator:
    return Accumulator(q, radius)
