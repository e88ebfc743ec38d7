"""The tables on which the classifier's constants were chosen: `python -m bench.learning.choices`.

Features with a spectrum that falls as a power, and labels of a multinomial model whose noise is
known: none is a table of the results page. Every line is a choice, with the accuracy on new rows by
table and epsilon.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privgram.columns.unit import Guarantee
from privgram.glm.multinomial import RULES, ClassProblem, ClassRules, fit_classes
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
    rows = LabelledRows(lambda: pieces(x, labels), problem.classes, CONSTANT)
    fit = fit_classes(rows, problem, rng=np.random.default_rng(0))
    return float((fit.decision(new).argmax(axis=1) == truth).mean())


def main() -> None:
    """Print what choices named on the command line are worth, or all."""
    drawn = [(made, made.draw()) for made in TABLES]
    for name in sys.argv[1:] or CHOICES:
        rules = replace(RULES, **CHOICES[name])
        each = [
            accuracy(table, made, epsilon, rules) for made, table in drawn for epsilon in (1.0, 3.0)
        ]
        print(f"{name:28} {np.mean(each):.4f}  " + " ".join(f"{a:.3f}" for a in each), flush=True)


if __name__ == "__main__":
    main()
