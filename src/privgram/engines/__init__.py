"""Who does the pass: threads here; Dask and Spark where one machine is not enough."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def scale_out(source: Any) -> ModuleType | None:
    """Find the engine of a table that lives on a cluster; None for all others.

    Neither Dask nor Spark is imported to tell: who holds such a table has done so.
    """
    dask = sys.modules.get("dask")
    if dask is not None and dask.is_dask_collection(source):
        return import_module("privgram.engines.dask")
    if type(source).__module__.partition(".")[0] == "pyspark":
        return import_module("privgram.engines.spark")
    return None
