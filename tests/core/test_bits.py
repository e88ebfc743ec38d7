"""Bits that are the same on every machine: moments, and a release of one seed, as digests.

`make test` compares them here, and `make cross` on aarch64. Run as a script, it prints
them.
"""

import hashlib
import platform

import numpy as np
import pytest

import privgram as pg

X = np.random.default_rng(1).uniform(-2, 2, (3000, 13))
X[:3] = [[1e300], [1e-320], [0.0]]  # clipped, lost and zero
PEOPLE = {
    "wage": X[3:, 0] * 500 + 1000,
    "age": X[3:, 1] * 25 + 50,
    "region": np.array(["north", "south", "west"])[(X[3:, 2] > 0) + (X[3:, 3] > 0) * 1],
}
COLUMNS = pg.Columns(
    {"wage": (100, 1900), "age": (0, 100), "region": ["north", "south", "west"]},
    terms=["age:region", "poly(age, 3)"],
)
MOMENTS = {
    "float64": lambda: pg.second_moment(X, bound=3.0, threads=2),
    "float32": lambda: pg.second_moment(X[3:].astype(np.float32), bound=3.0),
    "columns": lambda: pg.second_moment(PEOPLE, columns=COLUMNS),
}
DIGESTS = {
    "float64": ["3521cf6694a24a7d", "394e2db224247d3c", "ad412fe7d20a04df"],
    "float32": ["c5fb7455bcd1cbab", "17c02575637821bd", "af766ca038faedbd"],
    "columns": ["ede69a224bfd8a98", "0e13769fe895850a", "7250cf12733686c0"],
}


def digests(name):
    """Digests of a moment's saved form, of its matrix, and of a seeded release of it."""
    moment = MOMENTS[name]()
    rng = np.random.default_rng(7)
    release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    matrices = (a.astype("<f8").tobytes() for a in (moment.matrix(), release.matrix))
    return [hashlib.sha256(part).hexdigest()[:16] for part in (moment.to_bytes(), *matrices)]


@pytest.mark.parametrize("name", MOMENTS)
def test_bits_are_those_of_every_machine(name):
    # What noise is calibrated to calls exp and log of the C library; the draw itself does not.
    exact = 3 if platform.libc_ver()[0] == "glibc" else 2
    assert digests(name)[:exact] == DIGESTS[name][:exact]


if __name__ == "__main__":
    for kind in MOMENTS:
        print(f'    "{kind}": {digests(kind)},'.replace("'", '"'))
