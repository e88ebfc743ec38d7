"""What the machine can do at most, measured in the run whose other numbers are held against it."""

import numpy as np
import scipy.linalg.blas

from .common import fastest, fma_flops, read_seconds, table


class Limits:
    """The roofline: reading, and multiplying in registers."""

    timeout = 120

    def track_read_bandwidth(self):
        x = table(22)
        return x.nbytes / min(read_seconds(x) for _ in range(5)) / 1e9

    track_read_bandwidth.unit = "GB/s"

    def track_fma_peak(self):
        return max(fma_flops() for _ in range(5)) / 1e9

    track_fma_peak.unit = "Gflop/s"


class Symmetric:
    """X^T X of a table by BLAS, symmetric or general: d (d + 1) flops a row counted in both."""

    params = ([22, 100, 500, 2000], ["dsyrk", "NumPy"])
    param_names = ("d", "implementation")
    timeout = 120

    def setup(self, d, implementation):
        self.x = table(d, shrink=4)

    def track_rate(self, d, implementation):
        calls = {
            "dsyrk": lambda: scipy.linalg.blas.dsyrk(1.0, self.x.T),
            # NumPy knows a matrix times its own transpose, and calls dsyrk too.
            "NumPy": lambda: np.matmul(self.x.T, self.x),
        }
        (seconds,) = fastest(calls[implementation])
        return len(self.x) * d * (d + 1) / seconds / 1e9

    track_rate.unit = "Gflop/s"
