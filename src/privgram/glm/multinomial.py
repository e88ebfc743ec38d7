"""A classifier by scores: the rounds at the table, and the door where its budget is spent.

Secret side: of what is read only the noisy sums leave. The page is docs/theory/learning.md.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_process
from privgram.disclosure.norm_bound import check_size
from privgram.disclosure.release import warn_of_weak
from privgram.glm.fit import NO_NUMBER, lost
from privgram.glm.score_steps import ScoreSteps, StepRules, first_pass, moment_share
from privgram.ledger import Ledger, check_ledger
from privgram.mechanisms.adaptive import AdaptiveGaussian
from privgram.regression.classes import ClassFit, HeldOutCounts
from privgram.scan.request import ScanRequest
from privgram.secret import generators
from privgram.secret.gate import Gate
from privgram.secret.kinds import HeldOut, Learner

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.glm.rounds import Rounds
    from privgram.privacy.guarantee import Guarantee
    from privgram.sources.labelled import LabelledRows


@dataclass(frozen=True)
class ClassRules(StepRules):
    """How a classifier spends its budget, by public and released numbers.

    Chosen on made tables (`bench/learning/choices.py`); that coefficients are averaged, also on
    training rows of Fashion-MNIST.
    """

    #: The number of rows, where nothing else says it.
    number: float = 0.01
    #: Coefficients are the mean of those after this last part of the steps: it has less noise.
    averaged: float = 0.25
    #: Bins of a reliability curve.
    bins: int = 10


RULES = ClassRules()


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
    rules: ClassRules = RULES


@dataclass(frozen=True, eq=False)
class ClassParts:
    """What the rounds of a classifier found: all of it was released."""

    coef: Matrix  # of the columns and classes, (d, K)
    rows: float = 1.0
    held_out: HeldOutCounts | None = None
    #: How steps were taken; `seen`, directions of the second moment beyond the edge of its noise.
    parameters: dict[str, float] = field(default_factory=lambda: {"seen": 0})


class ClassEstimator:
    """The rounds of a classifier: each release decides the next, and nothing else of the table."""

    def __init__(self, rounds: Rounds, problem: ClassProblem, public: int | None) -> None:
        self.rounds = rounds
        self.problem = problem
        self.public = public

    def fit(self) -> ClassParts:
        """Spend the whole budget, round by round."""
        rounds, rules = self.rounds, self.problem.rules
        n_classes = len(self.problem.classes)
        share = moment_share(rounds, rules, self.public)
        moment = rounds.take(rounds.moment, share)
        rows = self._rows(moment)
        learnt = rows * (1 - self.problem.holdout)
        steps = ScoreSteps(rounds, rules, moment, rows, self.problem.bound)
        mean = coef = np.zeros((self.problem.n_columns, n_classes))
        left = 1 - rounds.spent
        clip, length = steps.sizes(left, learnt, n_classes)
        last = max(round(rules.averaged * rules.steps), 1)
        for step in range(rules.steps):
            score = steps.score(Learner(coef), clip, left / rules.steps)
            coef = coef + length * n_classes / learnt * score
            coef -= coef.mean(axis=1, keepdims=True)
            if step >= rules.steps - last:
                mean = mean + coef / last
        held = None
        if self.problem.holdout:
            [counts] = steps.read(HeldOut(Learner(mean), rules.bins))
            noisy = rounds.gate.release(counts, left)  # of rows that no score had
            rounds.parameters["held_out_mu"] = noisy.mu
            held = HeldOutCounts(noisy.values[:, 1], noisy.values[:, 0], noisy.std)
        taken = {"steps": rules.steps, "length": length, "clip": clip, "seen": steps.seen}
        return ClassParts(steps.of_columns(mean), rows, held, taken)

    def _rows(self, moment: Matrix) -> float:
        """The number of rows: public, or as the constant says, or for a share."""
        if self.public is not None:
            return max(float(self.public), 1.0)
        if self.problem.constant:
            return max(float(moment[-1, -1]) / self.problem.constant**2, 1.0)
        return max(self.rounds.number(self.problem.rules.number), 1.0)


def fit_classes(
    source: LabelledRows,
    problem: ClassProblem,
    *,
    ledger: Ledger | None = None,
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
        ledger.check(noise.price)
    if problem.holdout:
        source.key = generator.bytes(32)
    gate = Gate(noise, generator, ledger=ledger, price=replace(noise.price, what="classifier"))
    rounds = first_pass(ScanRequest(source), noise, problem.bound, gate)
    public = rounds.moment.n_rows if guarantee.size_is_public and not problem.drops else None
    check_size(public)
    if not reproducible:
        warn_of_weak(guarantee, public)
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
        if not rounds.spent:
            raise
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
        parameters=rounds.parameters | parts.parameters,
        refusal=refusal,
        held_out=parts.held_out,
        reproducible=reproducible,
    )
