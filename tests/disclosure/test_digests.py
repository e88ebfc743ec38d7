"""What every mechanism and step draws from one seed, as digests: a law stays while its bits do.

``python tests/disclosure/test_digests.py`` writes `digests.txt`.
"""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import privgram as pg
from privgram.papers import hardt_roth as low_rank
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.papers.zhou_ligett_wasserman import compress

TABLE = np.random.default_rng(1).uniform(-1, 1, (600, 5))
COLUMNS = pg.Columns(dict.fromkeys("vwxyz", (-1, 1)))
MECHANISMS = {
    "symmetric": pg.AnalyzeGauss(),
    "triangular": pg.AnalyzeGauss(noise="triangular"),
    "Wishart": pg.AdditiveWishart(),
    "Laplace": pg.MatrixLaplace(),
    "sketch": GaussianSketch(rows=20),
    "adaptive sketch": GaussianSketch(rows=20, adaptive=True, keep_rows=True),
    "inverse Wishart": InverseWishart(dof=700.0),
    "adaptive inverse Wishart": InverseWishart(dof=50.0, adaptive=True),
    "inverse Gauss": InverseGauss(eigenvalue_floor=50.0),
    "adaptive-gaussian": pg.AdaptiveGaussian(),
}
# Their theorems are for epsilon below 1.
PUBLISHED = {
    "published symmetric": pg.AnalyzeGauss(),
    "published Wishart": pg.AdditiveWishart(),
    "published sketch": GaussianSketch(rows=20),
    "published adaptive sketch": GaussianSketch(rows=20, adaptive=True),
    "published inverse Wishart": InverseWishart(dof=700.0),
    "published adaptive inverse Wishart": InverseWishart(dof=50.0, adaptive=True),
    "published inverse Gauss": InverseGauss(eigenvalue_floor=50.0),
}
MECHANISMS |= {
    name: sheffet.published(mechanism, allow_published_erratum=True)
    for name, mechanism in PUBLISHED.items()
}
GOLDEN = Path(__file__).with_name("digests.txt")
DIGESTS = dict(line.split(": ") for line in GOLDEN.read_text().splitlines())


def digest(name):
    """Twelve hexadecimal digits of what is drawn, to ten digits: BLAS may round otherwise."""
    rng = np.random.default_rng(7)
    kind, _, adjacency = name.partition(", ")
    if kind == "norm bound":
        asked = {"bound": pg.PrivateBound(1.0), "mechanism": pg.AnalyzeGauss(), "rng": rng}
        values = pg.release(TABLE, epsilon=1.0, delta=1e-6, **asked).bound
    elif kind == "compress":
        values = compress(TABLE, 30, rng=rng).matrix
    elif kind == "low rank":
        values = low_rank.approximate(TABLE, 2, epsilon=1.0, delta=1e-6, rng=rng).right
    else:
        setting = TABLE, COLUMNS, 0.5 if kind in PUBLISHED else 2.0, 1e-6
        mechanism = MECHANISMS[kind]
        values = pg.release(*setting, mechanism=mechanism, adjacency=adjacency, rng=rng).matrix
    shown = " ".join(f"{value:.9e}" for value in np.ravel(values))
    return hashlib.sha256(shown.encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    "name",
    [  # an adaptive sketch or inverse is calibrated for a second
        pytest.param(name, marks=[getattr(pytest.mark, "long" if "add" in name else "slow")])
        if re.search("adaptive (sketch|inverse)", name)
        else name
        for name in DIGESTS
    ],
)
def test_draws_are_those_of_before(name):
    assert digest(name) == DIGESTS[name]


def test_every_mechanism_is_here():
    ours = {kind for kind in pg.AnalyzeGauss.kinds.values() if kind.__module__[:8] == "privgram"}
    assert {type(mechanism) for mechanism in MECHANISMS.values()} == ours


if __name__ == "__main__":
    names = [f"{kind}, {end}" for kind in MECHANISMS for end in ("replace", "add-remove")]
    names += ["norm bound", "compress", "low rank"]
    GOLDEN.write_text("".join(f"{name}: {digest(name)}\n" for name in names))
