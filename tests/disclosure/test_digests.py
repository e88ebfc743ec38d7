"""What every mechanism and step draws from one seed, as digests: a law stays while its bits do.

``python tests/disclosure/test_digests.py`` prints them.
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
DIGESTS = {
    "symmetric, replace": "67c79d9b2615",
    "symmetric, add-remove": "f783546cfb2f",
    "triangular, replace": "560966e37549",
    "triangular, add-remove": "f901094dce6d",
    "Wishart, replace": "36d67563bb5d",
    "Wishart, add-remove": "51086f6284c3",
    "Laplace, replace": "517e50506197",
    "Laplace, add-remove": "a9ef27bae87c",
    "sketch, replace": "ead4f2060d19",
    "sketch, add-remove": "ed6e68e1acc2",
    "adaptive sketch, replace": "64eb526cb9ef",
    "adaptive sketch, add-remove": "64eb526cb9ef",
    "inverse Wishart, replace": "f46a159380f9",
    "inverse Wishart, add-remove": "5411dd1a645c",
    "adaptive inverse Wishart, replace": "15d0b1df072b",
    "adaptive inverse Wishart, add-remove": "36fa58aac089",
    "inverse Gauss, replace": "118ad0b24e6b",
    "inverse Gauss, add-remove": "60eed0ccc9fa",
    "adaptive-gaussian, replace": "66804db60225",
    "adaptive-gaussian, add-remove": "b429f547a7d8",
    "published symmetric, replace": "b54fb2d39657",
    "published symmetric, add-remove": "b54fb2d39657",
    "published Wishart, replace": "c9548dc314a4",
    "published Wishart, add-remove": "c9548dc314a4",
    "published sketch, replace": "c64fff79424a",
    "published sketch, add-remove": "c64fff79424a",
    "published adaptive sketch, replace": "09c04864fcef",
    "published adaptive sketch, add-remove": "09c04864fcef",
    "published inverse Wishart, replace": "ff8eab1a9abb",
    "published inverse Wishart, add-remove": "ff8eab1a9abb",
    "published adaptive inverse Wishart, replace": "a1a8bd931d5f",
    "published adaptive inverse Wishart, add-remove": "a1a8bd931d5f",
    "published inverse Gauss, replace": "63c0d533d9e1",
    "published inverse Gauss, add-remove": "63c0d533d9e1",
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
