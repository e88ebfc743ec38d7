"""Which mechanism a release takes where none is named, and by which names one is."""

import numpy as np
import pytest

import privgram as pg
from privgram import mechanisms
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart
from privgram.privacy import Guarantee


@pytest.mark.parametrize("n_rows", [50, 5000])
def test_one_round_is_of_gaussian_noise(rng, n_rows):
    moment = pg.second_moment(rng.uniform(-1, 1, (n_rows, 3)), bound=2.0)
    release = pg.release(moment, epsilon=1.0, delta=1e-6)
    guarantee = Guarantee(1.0, 1e-6, "replace", None)
    assert release.mechanism == mechanisms.default(guarantee, 3, 2.0) == pg.AnalyzeGauss()
    with pytest.raises(TypeError, match="epsilon must be a number, not missing"):
        pg.release(moment, mechanism=pg.AnalyzeGauss())


@pytest.mark.parametrize(
    ("names", "mechanism"),
    [
        (("AnalyzeGauss", "analyze-gauss", "analyzegauss", "analyze_gauss"), pg.AnalyzeGauss()),
        (("AdditiveWishart", "additive-wishart", "ADDITIVE-WISHART"), pg.AdditiveWishart()),
        (("InverseWishart", "inverse-wishart"), InverseWishart()),
    ],
)
def test_one_name_for_one_mechanism(rng, names, mechanism):
    moment = pg.second_moment(rng.uniform(-1, 1, (500, 3)), bound=2.0)
    for name in names:
        assert mechanisms.named(name) == mechanism
        assert pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=name).mechanism == mechanism
    for wrong, error, message in (
        ("magic", ValueError, "there is no mechanism 'magic'; there are analyze-gauss"),
        ("gaussian-sketch", ValueError, r"needs a parameter: GaussianSketch\(rows=...\)"),
        (type(mechanism), TypeError, r"add \(\)"),
        (3, TypeError, "such as AnalyzeGauss"),
    ):
        with pytest.raises(error, match=message):
            pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "pays"), [(0.3, False), (3.0, True)])
def test_adaptive_sketch_pays_where_it_says(times, pays):
    """A real release of G = n/3 I, with the eigenvalue below and above what it says."""
    setting = {"bound": 1.0, "epsilon": 1.0, "delta": 1e-6}
    eigenvalue = sheffet.adaptive_pays(400, 3, **setting)
    moment = pg.second_moment(np.tile(np.eye(3), (round(times * eigenvalue), 1)), bound=1.0)
    sketch = GaussianSketch(400, adaptive=True)
    released = pg.release(moment, None, 1.0, 1e-6, rng=np.random.default_rng(5), mechanism=sketch)
    plain = GaussianSketch(400).calibrate(3, **setting).regulariser
    assert (released.parameters["adjusted_regulariser"] < plain) is pays
