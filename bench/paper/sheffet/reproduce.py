"""`python -m bench.paper fig1 ... fig6`: runs, tables, figures and what they were made with."""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from bench.paper.sheffet import figures, headline, runner, runs, statements
from bench.paper.sheffet.results import Results
from bench.paper.sheffet.settings import SCALES
from privgram._base.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.paper.sheffet.statements import Finding, Statement

__all__ = ["Report", "reproduce"]


@dataclass(frozen=True)
class Report:
    """What `reproduce` has made.

    Attributes
    ----------
    files : list of Path
    statements : list of (Statement, Finding or None)
        None where these runs do not tell.
    seconds : float
        Wall time of this call.
    """

    files: list[Path]
    statements: list[tuple[Statement, Finding | None]]
    seconds: float


def reproduce(
    names: Sequence[str],
    out: Path,
    scale: str = "small",
    seed: int = 0,
    noise_std: float = 0.5,
    jobs: int | None = None,
    progress: runner.Progress = lambda done, total: None,
) -> Report:
    """Reproduce figures of Sheffet's second-moment paper.

    Parameters
    ----------
    names : sequence of str
        Of ``fig1`` to ``fig6``.
    out : Path
        Folder for ``figN.csv``, ``figN.png``, ``figN.json``, ``statements.md`` and the
        intermediate results, from which an interrupted call continues.
    scale : {"small", "paper"}
        The paper's grid takes some ten minutes on two cores, the small one seconds.
    seed : int
        In [0, 2^63).
    noise_std : float
        Standard deviation of the labels' noise, which the paper gives as N(0, 0.5).
    jobs : int, optional
        Processes; the results do not depend on it.
    progress : callable, optional
        Called with the work done and the whole of it.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        For an unknown figure or scale, or a folder that holds runs with other parameters or of
        another version.
    ImportError
        Without matplotlib.
    """
    wanted = {}
    for name in names:
        if name not in figures.FIGURES:
            raise ValueError(f"there is no {name}: figures are {', '.join(figures.FIGURES)}")
        wanted[name] = figures.FIGURES[name]
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")
    if not 0 <= seed < 2**63:
        raise ValueError("seed must be in [0, 2^63)")
    if not 0 < noise_std < float("inf"):
        raise ValueError(f"noise_std must be positive and finite, not {noise_std}")
    figures.require_matplotlib()  # before minutes of work, not after
    settings = {
        name: replace(setting, seed=seed, noise_std=noise_std)
        for name, setting in SCALES[scale].items()
    }
    estimators: dict[str, list[str]] = {}
    for figure in wanted.values():
        there = estimators.setdefault(figure.setting, [])
        there += [name for name in figure.estimators if name not in there]

    start, cpu = time.perf_counter(), _cpu_seconds()
    outcome = runner.run(settings, estimators, out, jobs, progress)
    results = {name: Results(settings[name], made) for name, made in outcome.runs.items()}
    used: dict[str, Any] = {
        "scale": scale,
        "tasks_done": outcome.done,
        "tasks_found": outcome.found,
        "wall_seconds": time.perf_counter() - start,
        "cpu_seconds": _cpu_seconds() - cpu,
        **_versions(),
    }

    files = []
    for name, figure in wanted.items():
        made = _in_order(outcome.runs[figure.setting], figure.estimators)
        runs.write(out / f"{name}.csv", made)
        figures.draw(figure, results[figure.setting], out / f"{name}.png")
        record = {"figure": name, "setting": settings[figure.setting].to_dict(), **used}
        record["coefficients"] = settings[figure.setting].coefficients[-1].tolist()
        write_atomically(out / f"{name}.json", (json.dumps(record, indent=2) + "\n").encode())
        files += [out / f"{name}.{suffix}" for suffix in ("csv", "png", "json")]
    if "fig5" in wanted:
        figures.draw_lasso(results["multiple"], out / "lasso.png")
        files.append(out / "lasso.png")
    if "fig4" in wanted:
        headline.draw(results["single"], out / "headline.png")
        table = headline.to_markdown(results["single"]) + "\n"
        write_atomically(out / "headline.md", table.encode())
        files += [out / "headline.png", out / "headline.md"]
    found = statements.check(results, list(wanted))
    table = statements.to_markdown(found) + "\n"
    write_atomically(out / "statements.md", table.encode())
    files.append(out / "statements.md")
    return Report(files, found, time.perf_counter() - start)


def _in_order(made: Sequence[runs.Run], estimators: Sequence[str]) -> list[runs.Run]:
    """Take a figure's runs, in an order of its own: it may have been made among others."""
    order = {name: i for i, name in enumerate(estimators)}
    chosen = [run for run in made if run.estimator in order]
    return sorted(chosen, key=lambda run: (*run[:4], order[run.estimator], *run[5:7]))


def _cpu_seconds() -> float:
    """CPU time of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _versions() -> dict[str, Any]:
    from privgram._core.rows import RowAccumulator

    packages = ("privgram", "numpy", "scipy", "matplotlib")
    return {
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "kernel": RowAccumulator(1, 1.0).simd(),
    }
