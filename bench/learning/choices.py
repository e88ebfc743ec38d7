"""The tables on which constants were chosen: `python -m bench.learning.choices [CHOICES]`.

None is a table of the results page. For the classifier they are features with a spectrum that falls
as a power, and labels of a multinomial model; every line is a choice, with the accuracy on new rows
by table and epsilon. For regressions on random features they are lines and bends, of which some
columns have long tails; a line has test errors over the target's variance, and first the mean of
their logarithms.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privgram.columns.features import RandomFeatures
from privgram.estimators import PrivateRidge
from privgram.glm.multinomial import RULES, ClassProblem, ClassRules, fit_classes
from privgram.glm.targets import TARGET_RULES, TargetRules
from privgram.privacy.guarantee import Guarantee
from privgram.sources.labelled import LabelledRows, pieces

CONSTANT = 0.25


@dataclass(frozen=True)
class Made:
    """A table: rows, features, classes, the power of the spectrum, and how clear labels are."""

    rows: int
    features: int
    classes: int
    power: float
    signal: float
    seed: int

    def draw(self, new_rows: int = 5000) -> tuple[Any, Any, Any, Any]:
        """Features and labels of the table, and of new rows."""
        rng = np.random.default_rng(self.seed)
        sizes = np.arange(1, self.features + 1) ** -self.power
        x = (rng.standard_normal((self.rows + new_rows, self.features)) * sizes).astype(np.float32)
        k = min(self.features, 200)
        weights = rng.standard_normal((k, self.classes)) / sizes[:k, None]
        eta = x[:, :k] @ (weights * np.arange(1, k + 1)[:, None] ** -0.5)
        eta *= self.signal * 4 / eta.std()
        labels = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
        x /= np.float32(np.sqrt((sizes**2).sum()))
        return x[: self.rows], labels[: self.rows], x[self.rows :], labels[self.rows :]


TABLES = (
    Made(20_000, 300, 10, 0.5, 1.0, 0),
    Made(20_000, 1000, 10, 0.7, 1.0, 1),
    Made(60_000, 300, 10, 0.3, 2.0, 2),
    Made(20_000, 50, 3, 0.5, 1.0, 3),
    Made(5_000, 100, 2, 0.5, 1.0, 4),
    Made(20_000, 30, 20, 0.3, 2.0, 5),
    Made(60_000, 100, 10, 0.5, 3.0, 11),
    Made(30_000, 20, 10, 0.5, 4.0, 12),
    Made(60_000, 400, 10, 1.0, 4.0, 13),
)

CHOICES: dict[str, dict[str, Any]] = {
    "as they are": {},
    "steps 20": {"steps": 20},
    "steps 60": {"steps": 60},
    "no average": {"averaged": 0.0},
    "average of half": {"averaged": 0.5},
    "lengths up to 30": {"length": (2.0, 30.0)},
    "lengths up to 100": {"length": (2.0, 100.0)},
    "noise of .5": {"predictor_noise": 0.5},
    "noise of 2": {"predictor_noise": 2.0},
    "clip .35": {"clip": (0.35, 2.0)},
    "clip 1": {"clip": (1.0, 2.0)},
    "ridge .1": {"ridge": 0.1},
    "ridge .5": {"ridge": 0.5},
    "second moment up to .06": {"moment": (0.01, 0.06)},
    "second moment up to .2": {"moment": (0.01, 0.2)},
}


@dataclass(frozen=True)
class MadeTarget:
    """A table: rows, columns, the parts of its target, how many columns bend, and their tails."""

    rows: int
    columns: int
    line: float
    bend: float
    noise: float
    bent: int
    long_tails: bool
    seed: int

    def draw(self, new_rows: int = 4000) -> tuple[Any, Any, Any, Any]:
        """Columns and target of the table, and of new rows, in deviations of the table's."""
        rng = np.random.default_rng(self.seed)
        d, k, total = self.columns, self.bent, self.rows + new_rows
        x = rng.standard_normal((total, d))
        x = x @ (rng.standard_normal((d, d)) * np.exp(-2 * np.arange(d) / d)[:, None])
        if self.long_tails:
            x = np.sinh(0.8 * x / x.std(axis=0))
        x /= x.std(axis=0)
        line = x @ (rng.standard_normal(d) / np.arange(1, d + 1) ** 0.5)
        turns = 1.3 * np.arctan(x[:, :k]) @ rng.standard_normal((k, 40)) * 1.2 / np.sqrt(k)
        bend = np.cos(turns + rng.uniform(0, 2 * np.pi, 40)) @ rng.standard_normal(40)
        y = self.line * line / line.std() + self.bend * (bend - bend.mean()) / bend.std()
        y += self.noise * rng.standard_normal(total)
        x = (x - x[: self.rows].mean(axis=0)) / x[: self.rows].std(axis=0)
        y = (y - y[: self.rows].mean()) / y[: self.rows].std()
        return x[: self.rows], y[: self.rows], x[self.rows :], y[self.rows :]


TARGETS = (
    MadeTarget(4_000, 20, 1.0, 0.3, 0.2, 3, False, 700),
    MadeTarget(5_000, 25, 0.9, 0.5, 0.3, 4, True, 701),
    MadeTarget(8_000, 10, 1.0, 0.0, 0.05, 1, True, 702),
    MadeTarget(7_000, 30, 0.0, 0.2, 1.0, 30, False, 703),
    MadeTarget(15_000, 18, 0.8, 0.6, 0.4, 6, True, 704),
    MadeTarget(14_000, 25, 0.5, 1.0, 0.3, 5, False, 705),
    MadeTarget(36_000, 8, 0.1, 1.0, 0.1, 8, False, 706),
    MadeTarget(40_000, 9, 0.5, 0.6, 0.8, 6, True, 707),
)

TARGET_CHOICES: dict[str, dict[str, Any]] = {
    "features as they are": {},
    "features, columns .3": {"linear": 0.3},
    "features, columns .7": {"linear": 0.7},
    "features, second moment .05": {"moment": (0.05, 0.05)},
    "features, second moment .2": {"moment": (0.2, 0.2)},
    "features, second moment .4": {"moment": (0.4, 0.4)},
    "features, ridge .1": {"ridge": 0.1},
    "features, ridge .4": {"ridge": 0.4},
    "features, noise .2": {"predictor_noise": 0.2},
    "features, noise .45": {"predictor_noise": 0.45},
    "features, clip .35": {"clip": (0.35, 2.0)},
    "features, clip .7": {"clip": (0.7, 2.0)},
    "features, steps 45": {"steps": 45},
    "features, steps 15": {"steps": 15},
}


def target_error(drawn: tuple[Any, ...], rules: TargetRules) -> float:
    """Of new rows over the target's variance, by a fit with a fixed seed at epsilon = 1."""
    x, y, new, truth = drawn
    given = {"epsilon": 1.0, "delta": 1 / len(x) ** 2, "adjacency": "add-remove"}
    features = RandomFeatures(n=512)
    model = PrivateRidge(columns=(-3, 3), features=features, random_state=0, **given)
    model._rules = rules
    return float(np.mean((truth - model.fit(x, y).predict(new)) ** 2))


def accuracy(table: tuple[Any, ...], made: Made, epsilon: float, rules: ClassRules) -> float:
    """Of new rows, by a fit with a fixed seed."""
    x, labels, new, truth = table
    problem = ClassProblem(
        classes=tuple(range(made.classes)),
        n_columns=made.features + 1,
        bound=float(np.hypot(1, CONSTANT)),
        constant=CONSTANT,
        guarantee=Guarantee(epsilon, 1e-5, "add-remove", None),
        rules=rules,
    )
    rows = LabelledRows(lambda: pieces(x.__getitem__, labels), problem.classes, CONSTANT)
    fit = fit_classes(rows, problem, rng=np.random.default_rng(0))
    return float((fit.decision(new).argmax(axis=1) == truth).mean())


def main() -> None:
    """Print what choices named on the command line are worth, or all."""
    names = sys.argv[1:] or [*CHOICES, *TARGET_CHOICES]
    targets = [made.draw() for made in TARGETS]
    for name in names:
        if name in TARGET_CHOICES:
            chosen = replace(TARGET_RULES, **TARGET_CHOICES[name])
            each = [target_error(drawn, chosen) for drawn in targets]
            print(f"{name:28} {np.mean(np.log(each)):.4f}  {np.round(each, 3)}", flush=True)
    names = [name for name in names if name in CHOICES]
    drawn = [(made, made.draw()) for made in TABLES] if names else []
    for name in names:
        rules = replace(RULES, **CHOICES[name])
        each = [
            accuracy(table, made, epsilon, rules) for made, table in drawn for epsilon in (1.0, 3.0)
        ]
        print(f"{name:28} {np.mean(each):.4f}  " + " ".join(f"{a:.3f}" for a in each), flush=True)


if __name__ == "__main__":
    main()
