"""The one accumulator of kernels, as tests of rows and of tables have called its two forms."""

import numpy as np

from privgram._core import rows


class RowAccumulator(rows.Accumulator):
    def __new__(cls, n_columns, bound, bits=20):
        return super().__new__(cls, range(n_columns), (), (), bound, bits)

    def __init__(self, *_, **__):
        pass

    @classmethod
    def from_totals(cls, n_columns, bound, bits, hi, lo, n_rows, n_dropped):
        layout = range(n_columns), (), (), bound, bits, 0, False
        return rows.Accumulator.from_totals(layout, hi, lo, np.array([[n_rows], [n_dropped]]))


class TableAccumulator(rows.Accumulator):
    def update(self, dense, codes, values, drop, scaling, group=None, leave_out=False, short=False):
        return super().update(dense, drop, scaling, codes, values, group, leave_out, short)

    def counts(self):
        return super().counts() if self.layout[5] + self.layout[6] else np.zeros((2, 0), np.int64)

    groups = property(lambda self: self.layout[5])
    other = property(lambda self: self.layout[6])

    @classmethod
    def from_totals(cls, positions, factors, blocks, bound, bits, hi, lo, n_rows, n_dropped):
        layout = positions, factors, blocks, bound, bits, 0, False
        return rows.Accumulator.from_totals(layout, hi, lo, np.array([[n_rows], [n_dropped]]))

    @classmethod
    def from_groups(cls, *parts):
        *layout, hi, lo, counts = parts
        return rows.Accumulator.from_totals(layout, hi, lo, counts)


rows.RowAccumulator, rows.TableAccumulator = RowAccumulator, TableAccumulator
