"""What is printed of statistics of many columns, and their data frames."""

import numpy as np
import pytest
from support.helpers import make_release

from privgram.noise import GaussianLaw

NAMES = ("alpha", "b\u202e", "c", "d", "intercept")


@pytest.fixture
def release():
    rng = np.random.default_rng(1)
    common = rng.standard_normal((2000, 1))
    rows = np.hstack([common + 0.7 * rng.standard_normal((2000, 4)), np.ones((2000, 1))])
    return make_release(rows.T @ rows, NAMES, GaussianLaw(1.0, 1.4), n_rows=2000)


def test_numbers_are_printed_under_names(release):
    pca = release.pca(2, standardize=True)
    lines = str(pca).splitlines()
    assert lines[0].split() == ["component", "1", "component", "2"]
    assert [line.split()[0] for line in lines[1:5]] == ["alpha", "b\\u202e", "c", "d"]
    assert float(lines[1].split()[1]) == pytest.approx(pca.components_[0, 0], rel=1e-3)
    assert lines[-1] == "1 of 4 eigenvalues exceed what noise and sampling may make (95%)."


def test_frames_have_the_names(release):
    pytest.importorskip("pandas")
    pca = release.pca(2)
    assert pca.frame().loc["c", "component 2"] == pca.components_[1, 2]
