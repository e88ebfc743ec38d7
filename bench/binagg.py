"""Linear regression beside BinAgg, AdaSSP and the mixing methods: python -m bench.binagg.

The simulation of Lin, Slavkovic and Bhoomireddy (AISTATS 2026, arXiv 2510.16974): features uniform
on (0, 10), errors normal with deviation 1, no intercept, Gaussian differential privacy with mu = 1.
Fills the table of docs/results.md; with `--check` it fails where the page says
something else. BinAgg's own numbers are those that its authors print. Two minutes.
"""

from __future__ import annotations

import sys

import numpy as np

import privgram as pg
from bench.pages import fill
from bench.paper.uci.adassp import AdaSSP
from bench.paper.uci.hessian_mixing import HessianMixing
from bench.paper.uci.linear_mixing import LinearMixing
from bench.paper.uci.tasks import Task
from privgram.privacy import GaussianProfile

DRAWS = 200
DELTA = 1e-6
EPSILON = GaussianProfile(1.0).epsilon(DELTA)

#: Rows and features, and of BinAgg the error and the width of its intervals, as printed.
CELLS = {
    (500, 3): (0.252, 0.68),
    (2_000, 3): (0.106, 0.24),
    (10_000, 3): (0.048, 0.09),
    (10_000, 8): (0.233, 0.28),
}


class Scaled(Task):
    """A made table, its rows and target within one by their public bounds."""

    delta = DELTA


def fitted(fit, truth):
    """Error of the slopes, mean width of their intervals, and the share that hold the truth."""
    if fit.refusal is not None:
        return np.inf, np.inf, np.nan
    low, high = np.asarray(fit.conf_int())[: len(truth)].T
    error = np.linalg.norm(np.asarray(fit.params)[: len(truth)] - truth)
    return error, np.mean(high - low), np.mean((low <= truth) & (truth <= high))


def ours(how):
    """A method of privgram on a table: `how` takes the table, its bounds, formula and generator."""

    def run(x, y, truth, rng):
        names = [f"x{i}" for i in range(len(truth))]
        table = dict(zip(names, x.T, strict=True)) | {"y": y}
        bounds = dict.fromkeys(names, (0, 10)) | {"y": (-5, 10 * len(truth) + 5)}
        return fitted(how(table, bounds, "y ~ " + " + ".join(names), rng), truth)

    return run


GIVEN = {"epsilon": EPSILON, "delta": DELTA, "adjacency": "add-remove"}


def released(mechanism):
    def how(table, bounds, formula, rng):
        columns = pg.Columns(bounds, intercept=True)
        made = pg.release(table, columns, mechanism=mechanism, rng=rng, **GIVEN)
        return made.regress(formula + " - 1")

    return how


def regressed(table, bounds, formula, rng):
    return pg.regress(table, formula, bounds, rng=rng, **GIVEN)


def theirs(method):
    """A method without intervals, on rows within the unit ball."""

    def run(x, y, truth, rng):
        length, most = 10 * np.sqrt(len(truth)), 10 * len(truth) + 5
        scaled = Scaled("made", x / length, np.clip(y, -most, most) / most, x[:1], y[:1])
        coef = method(scaled, EPSILON)(rng) * most / length
        return np.linalg.norm(coef - truth), np.nan, np.nan

    return run


def without(x, y, truth, _):
    """Least squares."""
    coef = np.linalg.lstsq(x, y)[0]
    variance = np.sum((y - x @ coef) ** 2) / (len(y) - len(truth))
    stderr = np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
    near = np.mean(np.abs(coef - truth) < 1.96 * stderr)
    return np.linalg.norm(coef - truth), np.mean(3.92 * stderr), near


METHODS = {
    "least squares, not private": without,
    "`regress`, with an intercept": ours(regressed),
    "adaptive rounds, `AdaptiveGaussian`": ours(released(pg.AdaptiveGaussian())),
    "one round, `AnalyzeGauss`": ours(released(pg.AnalyzeGauss())),
    "AdaSSP": theirs(AdaSSP),
    "linear mixing": theirs(LinearMixing),
    "Hessian mixing": theirs(HessianMixing),
}


def measured(run, rows, features):
    """Medians of error and width, and the share held, over the draws."""
    found = []
    for draw in range(DRAWS):
        rng = np.random.default_rng([draw, rows, features])
        x, truth = rng.uniform(0, 10, (rows, features)), np.ones(features)
        found.append(run(x, x @ truth + rng.standard_normal(rows), truth, rng))
    error, width, held = np.array(found).T
    text = f"{np.median(error):.2g}"
    if np.isnan(width).all():
        return text
    refused = np.sum(~np.isfinite(width))
    text = f"{text} / {np.median(width):.2g} / {np.nanmean(held):.0%}"
    return text + f" ({refused} refused)" * bool(refused)


def table():
    """The table, as lines of Markdown."""
    lines = [
        "| | " + " | ".join(f"n = {n:,}, d = {d}" for n, d in CELLS) + " |",
        "|---|" + "--:|" * len(CELLS),
        "| BinAgg, as printed | " + " | ".join(f"{e} / {w}" for e, w in CELLS.values()) + " |",
    ]
    for name, run in METHODS.items():
        lines.append(f"| {name} | " + " | ".join(measured(run, *cell) for cell in CELLS) + " |")
    return lines


def main():
    fill("binagg", table(), check="--check" in sys.argv)


if __name__ == "__main__":
    main()
