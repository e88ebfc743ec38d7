"""Clip + exact Gram against the machine's limits and against NumPy, as ratios in one run.

Every ratio is of calls taken in turn, the least disturbed of each, on tables of some 700 MB.
NumPy keeps as many BLAS threads as it likes, in blocks of the size that suits it best.
`python -m bench.bench_rows` prints all of them. A forced BLAS core type would handicap
NumPy: unset OPENBLAS_CORETYPE first, as `make bench` does.
"""

import ctypes

import numpy as np
import scipy.linalg.blas

from privgram._core import rows

from .common import (
    BOUND_PER_SQRT_D,
    SHAPES,
    accumulate,
    compiled,
    fastest,
    fma_flops,
    print_tracks,
    read_seconds,
    table,
)

PTR = ctypes.c_void_p
BLOCKS = (256, 1024, 4096, 16384)


def numpy_clipping(x, size):
    """Clip rows and add up X^T X in blocks, as well as NumPy can."""
    d = x.shape[1]
    bound, gram = BOUND_PER_SQRT_D * d**0.5, np.zeros((d, d))
    for start in range(0, len(x), size):
        block = x[start : start + size]
        norm = np.sqrt(np.einsum("ij,ij->i", block, block))
        clipped = block * np.minimum(1.0, bound / np.maximum(norm, 1e-300))[:, None]
        gram += clipped.T @ clipped
    return gram


class Unquantised:
    """An accumulator without rounding and integers (AVX-512 only); see unquantised.c."""

    lib = None

    def __init__(self, d):
        if Unquantised.lib is None:
            lib = compiled("unquantised.c", "-mprefer-vector-width=512", "-mfma")
            lib.bench_new.argtypes, lib.bench_new.restype = [ctypes.c_ssize_t, ctypes.c_double], PTR
            lib.bench_update.argtypes = [PTR, PTR, ctypes.c_ssize_t]
            lib.bench_update.restype = lib.bench_free.restype = None
            lib.bench_free.argtypes = [PTR]
            Unquantised.lib = lib
        self.sums = self.lib.bench_new(d, BOUND_PER_SQRT_D * d**0.5)

    def __del__(self):
        self.lib.bench_free(self.sums)

    def update(self, block):
        self.lib.bench_update(self.sums, block.ctypes.data, len(block))
        return -1

    def merge(self, other):
        pass


class Rows:
    """One pass over a table."""

    params = (tuple(SHAPES),)
    param_names = ("d",)
    timeout = 600

    def setup(self, d):
        self.x = table(d)

    def time_pass(self, d):
        accumulate(self.x)

    def track_gigabytes_per_second(self, d):
        return self.x.nbytes / fastest(lambda: accumulate(self.x)[0])[0] / 1e9

    def track_share_of_read_bandwidth(self, d):
        ours, read = fastest(lambda: accumulate(self.x)[0], lambda: read_seconds(self.x))
        return read / ours

    def track_share_of_fma_peak(self, d):
        peak = max(fma_flops() for _ in range(3))
        (ours,) = fastest(lambda: accumulate(self.x)[0])
        return len(self.x) * d * (d + 1) / ours / max(peak, fma_flops())

    def track_times_as_fast_as_numpy_that_clips(self, d):
        part = self.x[: len(self.x) // 8]
        best = min(
            BLOCKS, key=lambda rows: fastest(lambda: numpy_clipping(part, rows), seconds=0)[0]
        )
        ours, numpy = fastest(lambda: accumulate(self.x)[0], lambda: numpy_clipping(self.x, best))
        return numpy / ours

    def track_times_as_fast_as_unclipped_numpy(self, d):
        ours, numpy = fastest(lambda: accumulate(self.x)[0], lambda: self.x.T @ self.x)
        return numpy / ours

    def track_times_as_fast_as_dsyrk(self, d):
        """BLAS on the whole table, without clipping, with its own threads."""
        ours, dsyrk = fastest(
            lambda: accumulate(self.x)[0], lambda: scipy.linalg.blas.dsyrk(1.0, self.x.T)
        )
        return dsyrk / ours

    def track_cost_of_exactness(self, d):
        if "avx512" not in rows.available():
            raise NotImplementedError("the kernel to compare with is AVX-512's")
        rows.select("avx512")
        try:
            ours, float_sums = fastest(
                lambda: accumulate(self.x)[0],
                lambda: accumulate(self.x, make=lambda: Unquantised(d))[0],
            )
        finally:
            rows.select(rows.available()[0])
        return ours / float_sums

    def track_two_threads_over_one(self, d):
        one, two = fastest(lambda: accumulate(self.x, 1)[0], lambda: accumulate(self.x, 2)[0])
        return one / two


class Layouts:
    """Other layouts and types against row-major float64, in rows per second."""

    params = (tuple(SHAPES), ("float32, rows", "float64, columns", "float32, columns"))
    param_names = ("d", "layout")
    timeout = 600

    def track_rate(self, d, layout):
        dtype, order = layout.split(", ")
        plain = table(d, shrink=4)
        other = table(d, dtype, "C" if order == "rows" else "F", shrink=4)
        ours, base = fastest(lambda: accumulate(other)[0], lambda: accumulate(plain)[0])
        return base / ours


if __name__ == "__main__":
    print_tracks(Rows, Layouts)
