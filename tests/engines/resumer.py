"""Run by test_checkpoint.py: a pass that is killed at random points until it gets through."""

import hashlib
import json
import os
import random
import signal
import sys
import time

from privgram.engines import checkpoint
from privgram.engines.threads import second_moment
from privgram.sources import csv, npy, table

checkpoint.INTERVAL = 0.003
csv.CHUNK_BYTES = npy.CHUNK_BYTES = table.CHUNK_BYTES = 1 << 14


def run(path: str, threads: int, kept: str | None) -> str:
    moment = second_moment(path, bound=3.0, threads=threads, checkpoint=kept)
    return hashlib.sha256(moment.to_bytes()).hexdigest()


def until_done(path: str, threads: int, kept: str) -> dict[str, object]:
    whole = run(path, threads, None)
    began = time.perf_counter()
    run(path, threads, None)
    lasts = time.perf_counter() - began
    rng = random.Random(7)
    kills = resumed = 0
    while True:
        resumed += os.path.exists(kept)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, run(path, threads, kept).encode())
            os._exit(0)
        os.close(write)
        time.sleep(lasts * rng.uniform(0.0, min(0.2 + 0.05 * resumed, 1.0)))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with open(read) as file:
            digest = file.read()
        kills += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        if digest:
            break
    left = sorted(os.listdir(os.path.dirname(kept)))
    return {"same": digest == whole, "kills": kills, "resumed": resumed, "left": left}


if __name__ == "__main__":
    print(json.dumps(until_done(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
