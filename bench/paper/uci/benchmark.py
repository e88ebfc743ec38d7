"""The comparison: every method on every task at every epsilon, and its table."""

from __future__ import annotations

import csv
import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bench.paper.uci.adaptive import AdaptiveRelease
from bench.paper.uci.adassp import AdaSSP, AdaSSPAsPrinted
from bench.paper.uci.hessian_mixing import HessianMixing
from bench.paper.uci.linear_mixing import LinearMixing
from bench.paper.uci.second_moment import SecondMomentRelease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from bench.paper.uci.tasks import Task

EPSILONS = (0.1, 0.25, 0.63, 1.58, 4.0, 10.0)
REPETITIONS = 20


class Method(Protocol):
    """A private regression, calibrated to one task and epsilon."""

    def __call__(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Coefficients of one private run, shape (d,)."""


OURS, ONE, ADASSP, PRINTED = "privgram", "one round", "AdaSSP", "AdaSSP as printed"
LINEAR, HESSIAN = "linear mixing", "Hessian mixing"
METHODS: dict[str, Callable[[Task, float], Method]] = {
    OURS: AdaptiveRelease,
    ONE: SecondMomentRelease,
    ADASSP: AdaSSP,
    PRINTED: AdaSSPAsPrinted,
    LINEAR: LinearMixing,
    HESSIAN: HessianMixing,
}
#: Share of cells in which the median must be the lower one.
TARGETS = {ONE: 0.5, ADASSP: 0.95, PRINTED: 0.95, LINEAR: 0.9, HESSIAN: 0.9}


@dataclass(frozen=True)
class Cell:
    """Test errors of every method on one task at one epsilon.

    Attributes
    ----------
    task : str
    n_rows, n_features : int
    epsilon : float
    zero, least_squares : float
        Test errors of predicting zero, and of least squares without privacy.
    errors : dict of str to ndarray of shape (repetitions,)
        By method.
    """

    task: str
    n_rows: int
    n_features: int
    epsilon: float
    zero: float
    least_squares: float
    errors: dict[str, NDArray[np.float64]]

    def median(self, method: str) -> float:
        """Median test error of a method."""
        return float(np.median(self.errors[method]))

    def beats(self, other: str) -> bool:
        """Whether ours has the strictly lower median."""
        return self.median(OURS) < self.median(other)


def run(
    tasks: Iterable[Task],
    epsilons: Sequence[float] = EPSILONS,
    repetitions: int = REPETITIONS,
    seed: int = 0,
) -> Iterator[Cell]:
    """Run every method on every task at every epsilon, delta = 1 / n^2, add-remove.

    Every run has a generator of its own, fixed by seed, task, epsilon and method, so that a
    cell comes out the same whatever else is run.  Such releases are for experiments: they are
    not private against anyone who knows the seed.
    """
    for task in tasks:
        for epsilon in epsilons:
            errors = {}
            for name, method in METHODS.items():
                words = [zlib.crc32(f"{part}".encode()) for part in (task.name, epsilon, name)]
                rng = np.random.default_rng([seed, *words])
                fit = method(task, epsilon)
                errors[name] = np.array([task.test_error(fit(rng)) for _ in range(repetitions)])
            yield Cell(
                task=task.name,
                n_rows=task.n_rows,
                n_features=task.n_features,
                epsilon=epsilon,
                zero=task.test_error(np.zeros(task.n_features)),
                least_squares=task.test_error(task.least_squares),
                errors=errors,
            )


def summary(cells: Sequence[Cell]) -> str:
    """How often ours has the lower median, against each method and its target."""
    lines = []
    for name, target in TARGETS.items():
        wins = sum(cell.beats(name) for cell in cells)
        share = wins / len(cells)
        verdict = "met" if share >= target else "MISSED"
        lines.append(
            f"against {name}: lower median in {wins} of {len(cells)} cells "
            f"({share:.0%}; target {target:.0%}, {verdict})"
        )
    return "\n".join(lines)


def to_csv(cells: Iterable[Cell]) -> str:
    """One line per task, epsilon and method, with median and quartiles."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(
        ["task", "n_rows", "n_features", "epsilon", "method", "median", "lower_quartile",
         "upper_quartile", "predict_zero", "least_squares"]
    )  # fmt: skip
    for cell in cells:
        common = [cell.task, cell.n_rows, cell.n_features, f"{cell.epsilon:g}"]
        for name, errors in cell.errors.items():
            middle = [f"{q:.8g}" for q in np.quantile(errors, [0.5, 0.25, 0.75])]
            write([*common, name, *middle, f"{cell.zero:.8g}", f"{cell.least_squares:.8g}"])
    return out.getvalue()


def to_markdown(cells: Iterable[Cell]) -> str:
    """Medians as a table: the lowest bold, those of ours above another's marked by a dagger."""
    lines = [
        f"| task (n, d) | zero | OLS | epsilon | {' | '.join(METHODS)} |",
        "|---|--:|--:|--:|" + "--:|" * len(METHODS),
    ]
    seen = ""
    for cell in cells:
        head = ["", "", ""]
        if cell.task != seen:
            seen = cell.task
            head = [
                f"{cell.task} ({cell.n_rows}, {cell.n_features})",
                f"{cell.zero:.6f}",
                f"{cell.least_squares:.6f}",
            ]
        medians = {name: cell.median(name) for name in METHODS}
        lowest = min(medians.values())
        row = []
        for name, value in medians.items():
            text = f"**{value:.6f}**" if value == lowest else f"{value:.6f}"
            lost = name != OURS and not cell.beats(name)
            row.append(text + (" †" if lost else ""))
        lines.append(f"| {' | '.join([*head, f'{cell.epsilon:g}', *row])} |")
    return "\n".join(lines)
