"""What does the pass: threads here; Dask and Spark where one machine is not enough."""

from __future__ import annotations

import sys
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
