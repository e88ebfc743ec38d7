"""What every peer's process does: load a table, fit it, report results, seconds and memory.

A job comes on stdin and its answer goes to stdout, as JSON: peers live in environments of their
own. Imports NumPy and the standard library only.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def status(name: str) -> int:
    """Bytes of memory in use now (VmRSS) or at most so far (VmHWM).

    getrusage's maximum would not do: a child begins with its parent's.
    """
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.partition(name + ":")[2].split()[0])


def serve(version: str, **tasks) -> None:
    """Answer one job by ``tasks[job["task"]](table, job, seed) -> array``, once for each seed.

    The table is loaded and touched before the clock and the memory are read, and a small fit has
    brought the libraries in: what is reported is the fit's own.
    """
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    if job["task"] not in tasks:
        json.dump({"version": version, "offered": False}, sys.stdout)
        return
    fit, table = tasks[job["task"]], np.load(job["path"])
    with contextlib.suppress(ValueError):  # too few rows for this budget, it may say
        fit(table[:5000].copy(), job, 0)
    before, results, seconds = status("VmRSS"), [], []
    for seed in range(job["seeds"]):
        start = time.perf_counter()
        try:
            result = np.asarray(fit(table, job, seed), dtype=float)
        except ValueError:  # the fit refuses what noise left
            result = np.array(np.nan)
        results.append(result.tolist() if np.isfinite(result).all() else None)
        seconds.append(time.perf_counter() - start)
        if seconds[0] * len(seconds) > job.get("patience", 240):
            break
    answer = {
        "version": version,
        "offered": True,
        "results": results,
        "seconds": min(seconds),
        "memory": max(0, status("VmHWM") - before),
    }
    json.dump(answer, sys.stdout)
