"""What does the pass: threads here; Dask and Spark where one machine is not enough."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any


def scale_out(source: Any) -> ModuleType | None:
    """Find the engine of a table that lives on a cluster; None for all others.

    Neither Dask nor Spark is imported to tell: who holds such a table has done so.
    """
    # Half-way through its import in another thread, Dask may lack the function.
    is_dask_collection = getattr(sys.modules.get("dask"), "is_dask_collection", None)
    if is_dask_collection is not None and is_dask_collection(source):
        return import_module("privgram.engines.dask")
    if type(source).__module__.partition(".")[0] == "pyspark":
        return import_module("privgram.engines.spark")
    return None


def check_rereadable(source: Any, what: str, instead: str = "") -> None:
    """Refuse a table that is read once by what reads it several times: "Refined() reads".

    `instead` says what to do other than to pass a table of another form.
    """
    if isinstance(source, Iterator):
        raise ValueError(
            f"{what} the table several times, and an iterator or a stream is read once: pass a "
            f"path, a data frame or a list of blocks{instead}"
        )


def check_here(source: Any, what: str) -> None:
    """Refuse what has no rows that one machine can read again; `what` as in `check_rereadable`."""
    if hasattr(source, "sensitivity_bound"):
        raise TypeError(
            f"{what} the rows of the table, and a SecondMoment has none: pass the table itself"
        )
    if scale_out(source) is not None:
        raise ValueError(
            f"{what} tables by one machine, and this one is on a cluster: pass its files"
        )
    check_rereadable(source, what)
