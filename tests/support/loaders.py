"""What workers in processes of their own call to make a partition, so it must be importable."""

import os
import time
from pathlib import Path

import numpy as np


class Stays(np.ndarray):
    """An array that cannot leave its process."""

    def __reduce__(self):
        raise AssertionError("a block was sent away")


def noted(path, folder, seconds=0.0):
    """Load a block, and note that and where it was done."""
    time.sleep(seconds)
    with (Path(folder) / f"{Path(path).name}-{os.getpid()}").open("a") as file:
        file.write("loaded\n")
    return np.load(path).view(Stays)


def loads(folder):
    """Count the calls of `noted`."""
    return sum(len(file.read_text().splitlines()) for file in Path(folder).iterdir())
