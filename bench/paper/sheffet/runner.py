"""Runs the experiments in processes, and takes up again where it was interrupted.

Two kinds of task. One accumulates a stretch of one repetition's rows; its second moment is a file
of a few kilobytes. The other merges the stretches of n rows and makes every estimate on them; its
results are a CSV file. A task's result is a function of the parameters alone and its file is there
whole or not at all, so a run killed at any moment continues from its files and ends with the
same bits, in any number of processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import metadata
from itertools import pairwise
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from bench.paper.sheffet import runs
from bench.paper.sheffet.stream import CHUNK, accumulate
from privgram._base.files import write_atomically
from privgram.moment import SecondMoment

if TYPE_CHECKING:
    from pathlib import Path

    from bench.paper.sheffet.settings import Setting

__all__ = ["Outcome", "run"]

#: Rows of a task: what a kill can cost is a second or two.
STRETCH = 1 << 22

Progress = Callable[[float, float], object]


@dataclass(frozen=True)
class Outcome:
    """What `run` did.

    Attributes
    ----------
    runs : dict of str to list of Run
        By setting, in the order of n, repetition, epsilon, calibration and estimator.
    done, found : int
        Tasks done, and tasks whose results were there already.
    """

    runs: dict[str, list[runs.Run]]
    done: int
    found: int


@dataclass(frozen=True)
class Stretch:
    """Accumulate rows `start` to `stop` of a repetition."""

    folder: Path
    setting: Setting
    repetition: int
    start: int
    stop: int

    @property
    def path(self) -> Path:
        """The second moment's file."""
        return self.folder / f"rows-r{self.repetition:02}-{self.start:09}-{self.stop:09}.moment"

    @property
    def cost(self) -> float:
        """Seconds, about."""
        return (self.stop - self.start) * self.setting.n_columns / 7e7

    @property
    def is_done(self) -> bool:
        """Whether its result is there."""
        return self.path.exists()

    def __call__(self) -> None:
        moment = accumulate(self.setting, self.repetition, self.start, self.stop)
        write_atomically(self.path, moment.to_bytes())


@dataclass(frozen=True)
class Evaluation:
    """Make some estimates on the first 2^exponent rows of a repetition."""

    folder: Path
    setting: Setting
    exponent: int
    repetition: int
    estimators: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The results' file, which may hold other estimators' too."""
        return self.folder / f"runs-n{self.exponent:02}-r{self.repetition:02}.csv"

    @property
    def missing(self) -> tuple[str, ...]:
        """The estimators that it does not hold."""
        if not self.path.exists():
            return self.estimators
        there = {run.estimator for run in runs.read(self.path)}
        return tuple(name for name in self.estimators if name not in there)

    @property
    def cost(self) -> float:
        """Seconds, about."""
        s = self.setting
        return 0.01 * len(self.missing) * len(s.epsilons) * (s.n_columns / 22) ** 2

    @property
    def is_done(self) -> bool:
        """Whether its results are there."""
        return not self.missing

    def __call__(self) -> None:
        parts = stretches(self.folder, self.setting, self.repetition, 2**self.exponent)
        moments = (SecondMoment.from_bytes(part.path.read_bytes()) for part in parts)
        moment = reduce(SecondMoment.merge, moments)
        missing = self.missing
        there = runs.read(self.path) if missing != self.estimators else []
        made = runs.evaluate(self.setting, self.exponent, self.repetition, moment, missing)
        runs.write(self.path, there + made)


Task = Stretch | Evaluation


def stretches(folder: Path, setting: Setting, repetition: int, n_rows: int) -> list[Stretch]:
    """Cut rows at every power of two from the smallest n on, and every `STRETCH`."""
    smallest = 2 ** setting.exponents[0]
    assert smallest % CHUNK == 0
    cuts = [0, smallest]
    while cuts[-1] < n_rows:
        cuts.append(cuts[-1] + min(cuts[-1], STRETCH))
    return [Stretch(folder, setting, repetition, a, b) for a, b in pairwise(cuts)]


def run(
    settings: Mapping[str, Setting],
    estimators: Mapping[str, Sequence[str]],
    out: Path,
    jobs: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Run experiments, or what is left of them.

    Parameters
    ----------
    settings : mapping of str to Setting
    estimators : mapping of str to sequence of str
        By the name of a setting: what to run in it.
    out : Path
        Folder that keeps the tasks' results in ``runs``.
    jobs : int, optional
        Processes; by default as many as cores this process may use.
    progress : callable, optional
        Called with the work done and the whole of it, in seconds of one core, about.

    Returns
    -------
    Outcome

    Raises
    ------
    ValueError
        If the folder holds runs with other parameters or of another version.
    """
    rows: list[Stretch] = []
    evaluations: list[Evaluation] = []
    for name, wanted in estimators.items():
        setting = settings[name]
        folder = out / "runs" / name
        _claim(folder, setting)
        for repetition in range(setting.repetitions):
            rows += stretches(folder, setting, repetition, 2 ** setting.exponents[-1])
        evaluations += [
            Evaluation(folder, setting, exponent, repetition, tuple(wanted))
            for exponent in setting.exponents
            for repetition in range(setting.repetitions)
        ]
    evaluated = [task for task in evaluations if not task.is_done]
    # Rows nobody will ask for again are not drawn.
    accumulated = [task for task in rows if evaluated and not task.is_done]
    stages: tuple[Sequence[Task], ...] = accumulated, evaluated
    total = sum(task.cost for tasks in stages for task in tasks)
    if total:
        with _pool(jobs or _cores()) as pool:
            done = 0.0
            for tasks in stages:
                for cost in _complete(pool, tasks):
                    done += cost
                    progress(done, total)
    results: dict[str, list[runs.Run]] = {name: [] for name in estimators}
    for task in evaluations:
        results[task.setting.name] += [
            run for run in runs.read(task.path) if run.estimator in task.estimators
        ]
    for name, wanted in estimators.items():
        results[name].sort(key=lambda r: (*r[:4], wanted.index(r.estimator), *r[5:7]))
    done_tasks = len(accumulated) + len(evaluated)
    return Outcome(results, done_tasks, len(rows) + len(evaluations) - done_tasks)


def _claim(folder: Path, setting: Setting) -> None:
    """Keep the parameters and the version beside the runs; refuse to mix runs of others in."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "setting.json"
    made_by = {"privgram": metadata.version("privgram")}
    text = json.dumps(setting.to_dict() | made_by, indent=2)
    if path.exists():
        if path.read_text() != text:
            raise ValueError(
                f"{folder} holds runs with other parameters or of another version of privgram; "
                "use another folder"
            )
    else:
        write_atomically(path, text.encode())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _complete(pool: ProcessPoolExecutor, tasks: Iterable[Stretch | Evaluation]) -> Iterator[float]:
    """Do tasks, and give the cost of each when it is done."""
    futures = {pool.submit(task): task.cost for task in tasks}
    for future in as_completed(futures):
        future.result()
        yield futures[future]


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes with one BLAS thread each.

    At these sizes more threads are many times slower, and might round otherwise.
    """
    single = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    before = {name: os.environ.get(name) for name in single}
    os.environ.update(single)  # a BLAS reads it when it is loaded: in the new processes
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _prepare)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        pool.shutdown()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _prepare() -> None:
    """Leave Ctrl-C to the parent, and end when it does, killed or not."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
