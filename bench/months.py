"""What a stream costs: python -m bench.months.

Noise of running sums in that of one release, time of a month beside the plain pass over it, size
of the file of 1,000 months and the time to read it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import privgram as pg
from privgram.stream import StreamState
from privgram.stream.factors import Epoch, RunningSums

ROWS, COLUMNS, MONTHS = 10**6, 50, 1000


def least(call, times=5):
    """Least processor and wall seconds of some calls."""
    found = []
    for _ in range(times):
        start = time.process_time(), time.perf_counter()
        call()
        found.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return np.min(found, axis=0)


def main() -> None:
    """Print the figures."""
    for periods in (12, 60, 240, 1000):
        sums = RunningSums((Epoch(periods),))
        noise = np.array([np.linalg.norm(sums.between(0, t)) for t in range(1, periods + 1)])
        print(
            f"{periods:5d} periods: noise {noise.max():.3f}, {np.sqrt((noise**2).mean()):.3f} rms"
        )
    table = np.random.default_rng(0).uniform(-1, 1, (ROWS, COLUMNS))
    columns = pg.Columns({f"x{i}": (-1, 1) for i in range(COLUMNS)})
    folder = Path(tempfile.mkdtemp())
    study = pg.Study(table[:10], columns, epsilon=1.0, delta=1e-6)
    stream = pg.Stream(study, MONTHS, 1.0, 1e-6, path=folder / "it.stream")
    plain = least(lambda: pg.second_moment(table, columns=study.columns))
    month = least(lambda: stream.release(table, stream.periods + 1))
    print("a month beside the plain pass: cpu {:.3f}, wall {:.3f}".format(*month / plain))
    state = StreamState.read(stream.path, stream._secret)
    full = replace(state, months=tuple(state.past[i % 5] for i in range(MONTHS)))
    full.save(stream.path, stream._secret)
    print(f"file of {MONTHS} months: {stream.path.stat().st_size / 1e6:.1f} MB")
    print("read in {1:.3f} s".format(*least(lambda: StreamState.read(stream.path, stream._secret))))
    print("last sum in {1:.3f} s".format(*least(lambda: stream.upto(MONTHS))))
    print("saved in {1:.3f} s".format(*least(lambda: full.save(stream.path, stream._secret))))


if __name__ == "__main__":
    main()
