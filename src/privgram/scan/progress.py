"""Progress of a scan: told to a function, or drawn on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeAlias

from privgram._base.log import log

#: Whether to show progress, or what to tell it: rows done, and all of them if that is known.
Progress: TypeAlias = bool | Callable[[int, int | None], object]

Report: TypeAlias = Callable[[int], None]

#: Seconds between two reports.
INTERVAL = 0.1


def _nothing(rows: int) -> None:
    pass


_SILENT: AbstractContextManager[Report] = nullcontext(_nothing)


def reporter(progress: Progress, total: int | None) -> AbstractContextManager[Report]:
    """Give a function to call with the number of rows done, as often as one likes.

    It passes on one call in `INTERVAL`, and the last one when the pass has succeeded.
    """
    log.info("reading the table")
    return _SILENT if progress is False else _reported(progress, total)


@contextmanager
def _reported(progress: Progress, total: int | None) -> Iterator[Report]:
    if progress is True:
        with _on_stderr(total) as show, _throttled(show) as report:
            yield report
    elif progress:
        with _throttled(lambda rows: progress(rows, total)) as report:
            yield report


@contextmanager
def _throttled(show: Callable[[int], object]) -> Iterator[Report]:
    last, reported = 0, -1
    due = time.monotonic() + INTERVAL

    def report(rows: int) -> None:
        nonlocal last, reported, due
        last = rows
        now = time.monotonic()
        if now >= due:
            show(rows)
            reported, due = rows, now + INTERVAL

    yield report
    if reported != last:
        show(last)


@contextmanager
def _on_stderr(total: int | None) -> Iterator[Callable[[int], object]]:
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        of = "" if total is None else f" of {total:,}"
        yield lambda rows: print(f"\r{rows:,}{of} rows", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        return
    bar = progress.Progress(
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f} rows"),
        progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        auto_refresh=False,  # by a thread of its own
    )
    with bar:
        task = bar.add_task("", total=total)
        yield lambda rows: bar.update(task, completed=rows, refresh=True)
