"""What every mechanism and step draws from one seed, as digests: a law stays while its bits do.

``python tests/test_digests.py`` prints them.
"""

import hashlib

import numpy as np
import pytest

import privgram as pg
from privgram.disclosure.norm_bound import private_norm_bound
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
    "exact Laplace": pg.MatrixLaplace(draws="exact"),
    "Laplace in floats": pg.MatrixLaplace(draws="floats"),
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
DIGESTS = {
    "symmetric, replace": "67c79d9b2615",
    "symmetric, add-remove": "f783546cfb2f",
    "triangular, replace": "560966e37549",
    "triangular, add-remove": "f901094dce6d",
    "Wishart, replace": "28065363786e",
    "Wishart, add-remove": "ce2c7803da6b",
    "exact Laplace, replace": "b5d65302b874",
    "exact Laplace, add-remove": "c5cc6050a0c8",
    "Laplace in floats, replace": "29a8968c2994",
    "Laplace in floats, add-remove": "51d16ff0d63d",
    "sketch, replace": "dc4f87a7031a",
    "sketch, add-remove": "3ff49dbd5831",
    "adaptive sketch, replace": "9d5aef37b0e8",
    "adaptive sketch, add-remove": "9d5aef37b0e8",
    "inverse Wishart, replace": "2e919c5e868c",
    "inverse Wishart, add-remove": "a4a49334863f",
    "adaptive inverse Wishart, replace": "84d39bf14d32",
    "adaptive inverse Wishart, add-remove": "b51b511cab80",
    "inverse Gauss, replace": "97dbe352a35c",
    "inverse Gauss, add-remove": "c4e3456e2fd7",
    "adaptive-gaussian, replace": "66804db60225",
    "adaptive-gaussian, add-remove": "b429f547a7d8",
    "published symmetric, replace": "b54fb2d39657",
    "published symmetric, add-remove": "b54fb2d39657",
    "published Wishart, replace": "e8b3f4ecd4c5",
    "published Wishart, add-remove": "e8b3f4ecd4c5",
    "published sketch, replace": "a668817ef80e",
    "published sketch, add-remove": "a668817ef80e",
    "published adaptive sketch, replace": "a7f54d0d9949",
    "published adaptive sketch, add-remove": "a7f54d0d9949",
    "published inverse Wishart, replace": "3ac265902e1c",
    "published inverse Wishart, add-remove": "3ac265902e1c",
    "published adaptive inverse Wishart, replace": "6ac1f51a5165",
    "published adaptive inverse Wishart, add-remove": "6ac1f51a5165",
    "published inverse Gauss, replace": "35bc377a50de",
    "published inverse Gauss, add-remove": "35bc377a50de",
    "norm bound": "e27846da7207",
    "compress": "f8caa5f03bc5",
    "low rank": "fd2fefef8956",
}


def digest(name):
    """Twelve hexadecimal digits of what is drawn, to ten digits: BLAS may round otherwise."""
    rng = np.random.default_rng(7)
    kind, _, adjacency = name.partition(", ")
    if kind == "norm bound":
        values = float(private_norm_bound(TABLE, 1.0, lower=0.5, upper=8.0, rng=rng))
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
    [pytest.param(name, marks=[pytest.mark.slow] * ("adaptive" in name)) for name in DIGESTS],
)
def test_draws_are_those_of_before(name):
    assert digest(name) == DIGESTS[name]


def test_every_mechanism_is_here():
    ours = {kind for kind in pg.AnalyzeGauss.kinds.values() if kind.__module__[:8] == "privgram"}
    assert {type(mechanism) for mechanism in MECHANISMS.values()} == ours


if __name__ == "__main__":
    for kind in (*MECHANISMS, "norm bound", "compress", "low rank"):
        for end in (", replace", ", add-remove") if kind in MECHANISMS else ("",):
            print(f'    "{kind}{end}": "{digest(kind + end)}",')
