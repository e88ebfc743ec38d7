"""Arrays on a GPU: their bits against the CPU's, and times beside a float64 x.T @ x.

python -m bench.gpu torch    or cupy; prints a line for each shape
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import privgram as pg

SHAPES = [(1_000_000, 1024), (2_000_000, 512), (8_000_000, 128), (262_144, 4096)]
TURNS = 5


@dataclass(frozen=True)
class Library:
    """What a library of GPU arrays is asked for."""

    normal: Callable[[int, int], Any]  # float64 on the device
    wait: Callable[[], Any]
    to_numpy: Callable[[Any], Any]

    @classmethod
    def of(cls, name: str) -> Library:
        if name == "torch":
            import torch

            return cls(
                lambda n, d: torch.randn(n, d, dtype=torch.float64, device="cuda"),
                torch.cuda.synchronize,
                lambda x: x.cpu().numpy(),
            )
        import cupy

        return cls(
            lambda n, d: cupy.random.standard_normal((n, d)),
            lambda: cupy.cuda.get_current_stream().synchronize(),
            cupy.asnumpy,
        )

    def milliseconds(self, call: Callable[[], object]) -> float:
        best = np.inf
        for _ in range(TURNS):
            self.wait()
            start = time.perf_counter()
            call()
            self.wait()
            best = min(best, time.perf_counter() - start)
        return 1e3 * best


def measure(library: Library, n: int, d: int) -> str:
    x, bound = library.normal(n, d), float(np.sqrt(d))
    columns = pg.Columns({f"x{j}": (-4, 4) for j in range(d)})
    few = x[:20_000]
    here, there = (pg.second_moment(rows, bound) for rows in (library.to_numpy(few), few))
    if here.to_bytes() != there.to_bytes():
        raise SystemExit(f"{n} x {d}: other bits than the CPU's")
    product = library.milliseconds(lambda: x.T @ x)
    by_bound = library.milliseconds(lambda: pg.second_moment(x, bound))
    by_columns = library.milliseconds(lambda: pg.second_moment(x, columns=columns))
    return f"{n:>9,} x {d:<5}{by_bound:9.1f} ms, Columns {by_columns:.1f}, x.T @ x {product:.1f}"


def main() -> None:
    library = Library.of(sys.argv[1] if len(sys.argv) > 1 else "torch")
    for n, d in SHAPES:
        print(measure(library, n, d), flush=True)


if __name__ == "__main__":
    main()
