"""What the machine can do at most, measured in the run whose other numbers are held against it."""

from .common import fma_flops, read_seconds, table


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
