"""Run by test_ledger.py: processes that spend, and are killed at random points.

They are forked from this one, which has nothing but the ledger imported: hundreds of
them take seconds.
"""

import json
import os
import random
import signal
import sys
import time

from privgram._base import files
from privgram.ledger import BudgetExceeded, Ledger


def in_pieces(handle: int, data: bytes, start: int) -> None:
    """Write data a few bytes at a time, so that a kill finds it half-written."""
    os.lseek(handle, start, os.SEEK_SET)
    for at in range(0, len(data), 40):
        os.write(handle, data[at : at + 40])
        time.sleep(1e-4)


def spend(path: str, pipe: int) -> None:
    ledger = Ledger(path)
    try:
        while True:
            entry = ledger.spend(0.01, 1e-9, adjacency="replace", unit="", what=f"by {os.getpid()}")
            os.write(pipe, entry.number.to_bytes(4, "little"))
    except BudgetExceeded:
        os._exit(0)


def start(path: str) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        spend(path, write)
    os.close(write)
    return child, read


def numbers(pipe: int, data: bytes = b"") -> list[int]:
    with open(pipe, "rb") as file:
        data += file.read()
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data) // 4 * 4, 4)]


def kill(path: str, times: int) -> dict[str, int]:
    """Kill spenders, and compare what they reported with what the ledger has."""
    files._write = in_pieces
    rng = random.Random(5)
    watch = Ledger(path)
    torn = unreported = 0
    began = time.perf_counter()
    watch.spend(0.01, 1e-9, adjacency="replace", unit="")
    lasts = time.perf_counter() - began
    for _ in range(times):
        before = len(watch.entries)
        child, pipe = start(path)
        # At random within the first, second or third spend, however fast this machine is.
        seen = b"".join(os.read(pipe, 4) for _ in range(rng.randrange(3)))
        time.sleep(rng.uniform(0.0, 1.5 * lasts))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reported = numbers(pipe, seen)
        entries = watch.entries  # parses, checks every digest, and that none was lost
        assert reported == list(range(before + 1, before + 1 + len(reported))), reported
        assert 0 <= len(entries) - before - len(reported) <= 1
        unreported += len(entries) - before - len(reported)
        with open(path, "rb") as file:
            torn += not file.read().endswith(b"\n")
    return {"entries": len(watch.entries), "torn": torn, "unreported": unreported}


def race(path: str, processes: int) -> dict[str, object]:
    """Let several processes spend until nothing is left."""
    started = [start(path) for _ in range(processes)]
    reports = [numbers(pipe) for _, pipe in started]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child, _ in started]
    return {"codes": codes, "reports": reports, "entries": len(Ledger(path).entries)}


if __name__ == "__main__":
    what, path, count = sys.argv[1:]
    print(json.dumps({"kill": kill, "race": race}[what](path, int(count))))
