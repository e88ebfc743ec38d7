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
    of = "" if total is None else f" of {total:,}"

    def show(rows: int) -> None:
        if callable(progress):
            progress(rows, total)
        else:
            print(f"\r{rows:,}{of} rows", end="", file=sys.stderr, flush=True)

    with _throttled(show) as report:
        yield report
    if progress is True:
        print(file=sys.stderr)


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
