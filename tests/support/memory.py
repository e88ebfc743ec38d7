"""How much memory a pass over a table takes."""

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np, pyarrow.parquet
import privgram as pg

def peak():  # not ru_maxrss, which starts from the parent's
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))

path = sys.argv[1]
{before}
pg.second_moment(np.ones((10_000, 32)), 9.0, threads=2)
start = peak()
assert pg.second_moment({source}, 9.0).n_rows == {n}
print(peak() - start)
"""


def of_a_pass(path, n, source="path", before=""):
    """MiB by which the peak of a process grows in a pass over n rows of a file."""
    script = SCRIPT.format(before=before, source=source, n=n)
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)
