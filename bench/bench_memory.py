"""Peak memory of reading a file into a second moment, beside loading it whole.

The files hold the same 256 MiB of float64; the CSV is longer. `setup_cache` makes them in a
process of its own, so that what is measured is a process which only reads.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import privgram as pg

from .common import size

D = 32
N = size(2**20)
ROUTES = {
    ".npy": np.load,
    ".parquet": lambda path: as_array(pyarrow.parquet.read_table(path)),
    ".csv": lambda path: as_array(pyarrow.csv.read_csv(path)),
}


def as_array(table):
    return np.column_stack([column.to_numpy() for column in table.columns])


class FromFile:
    """privgram, or a loader, NumPy's clipping of rows and X^T X."""

    params = (list(ROUTES), ["privgram", "loaded whole, NumPy"])
    param_names = ("file", "method")
    timeout = 300

    def setup_cache(self):
        x = np.tile(np.random.default_rng(0).standard_normal((4096, D)).round(6), (N // 4096, 1))
        table = pa.table({f"c{j}": np.ascontiguousarray(x[:, j]) for j in range(D)})
        np.save("table.npy", x)
        pyarrow.parquet.write_table(table, "table.parquet", row_group_size=N // 8)
        pyarrow.csv.write_csv(table, "table.csv")
        return Path.cwd()

    def setup(self, folder, file, method):
        self.path = folder / f"table{file}"
        self.bound = D**0.5

    def second_moment(self, file, method):
        if method == "privgram":
            return pg.second_moment(self.path, self.bound).matrix()
        x = ROUTES[file](self.path)
        norm = np.sqrt(np.einsum("ij,ij->i", x, x))
        x = x * np.minimum(1.0, self.bound / np.maximum(norm, 1e-300))[:, None]
        return x.T @ x

    def time_second_moment(self, folder, file, method):
        self.second_moment(file, method)

    def peakmem_second_moment(self, folder, file, method):
        self.second_moment(file, method)
