"""privgram's mechanisms in OpenDP's compositors."""

import math

import numpy as np
import pytest
from support.helpers import refuses

pytest.importorskip("opendp")

import opendp.prelude as dp

import privgram as pg
from privgram.interop.opendp import make_measurement
from privgram.papers.sheffet import InverseGauss, PublishedAnalyzeGauss
from privgram.privacy import GaussianProfile

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:opendp")]


@pytest.fixture(autouse=True, scope="module")
def features():
    dp.enable_features("contrib", "honest-but-curious")


@pytest.fixture
def table():
    return np.random.default_rng(0).uniform(-1, 1, (50, 3))


def gram(mechanism, **changes):
    arguments = {"n_columns": 3, "bound": 2.0, "epsilon": 1.0, "delta": 1e-6, "n_rows": 50}
    return make_measurement(mechanism, **(arguments | changes))


@pytest.mark.parametrize(
    "mechanism", [pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace()], ids=repr
)
def test_invoking_gives_a_release(mechanism, table):
    release = gram(mechanism)(table)
    assert isinstance(release, pg.Release)
    assert release.matrix.shape == (3, 3)
    assert (release.epsilon, release.delta, release.adjacency) == (1.0, 1e-6, "replace")


def test_compositors(table):
    one, other = gram(pg.AnalyzeGauss()), gram(pg.AdditiveWishart(), epsilon=0.5, delta=1e-7)
    both = dp.c.make_composition([one, other])
    assert both.map(1) == pytest.approx((1.5, 1.1e-6))
    assert [type(r.mechanism).__name__ for r in both(table)] == ["AnalyzeGauss", "AdditiveWishart"]
    adaptive = dp.c.make_adaptive_composition(
        one.input_domain, one.input_metric, one.output_measure, 1, [(1.0, 1e-6), (0.5, 1e-7)]
    )
    queryable = adaptive(table)
    assert isinstance(queryable(one), pg.Release)
    assert isinstance(queryable(other), pg.Release)
    with pytest.raises(dp.OpenDPException):
        queryable(one)


def test_group_privacy():
    measurement = gram(pg.AnalyzeGauss(), adjacency="add-remove", n_rows=None)
    assert measurement.map(0) == (0.0, 0.0)
    assert measurement.map(1) == pytest.approx((1.0, 1e-6))
    assert measurement.map(3) == pytest.approx((3.0, 1e-6 * (1 + math.e + math.e**2)))
    # The profile for three rows, whose sensitivity is at most three times that of one.
    profile = pg.AnalyzeGauss().calibrate(3, 2.0, 1.0, 1e-6, "add-remove").privacy
    three = GaussianProfile(3 * profile.sensitivity_ratio)
    assert three.delta(3.0) <= measurement.map(3)[1]


def test_zcdp_of_gaussian_noise(table):
    measurement = gram(pg.AnalyzeGauss(), measure="zCDP")
    mu = pg.AnalyzeGauss().calibrate(3, 2.0, 1.0, 1e-6).privacy.sensitivity_ratio
    assert measurement.map(1) == pytest.approx(mu**2 / 2)
    assert measurement.map(2) == pytest.approx(2 * mu**2)
    back = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(measurement), 1e-6)
    epsilon, _ = back.map(1)
    assert 1.0 < epsilon < 1.2
    assert isinstance(measurement(table), pg.Release)
    refuses(lambda: gram(pg.AdditiveWishart(), measure="zCDP"), ValueError, "no zCDP")


@pytest.mark.parametrize("measure", ["approxDP", "zCDP"])
def test_promise_about_the_data_is_not_dropped(measure):
    """A measurement maps distances of all tables; noise on the inverse is for some of them."""
    with pytest.raises(ValueError, match=r"private only if .* at least 30; .*every table"):
        gram(InverseGauss(30.0), measure=measure)


def test_class_is_no_mechanism():
    refuses(lambda: gram(pg.AnalyzeGauss), TypeError, r"add \(\), as in AnalyzeGauss\(\)")


def test_groups_beyond_any_guarantee():
    """Many rows at once: the factor on delta overflows, and delta is 1."""
    assert gram(pg.AnalyzeGauss()).map(5000) == (5000.0, 1.0)


def test_zcdp_holds():
    # rho = mu^2/2 bounds every Renyi divergence of a Gaussian, so delta by Chernoff.
    profile = pg.AnalyzeGauss().calibrate(3, 2.0, 1.0, 1e-6).privacy
    rho = profile.sensitivity_ratio**2 / 2
    for delta in (1e-3, 1e-9):
        assert profile.epsilon(delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"n_rows": None}, "pass n_rows"),
        ({"adjacency": "add-remove"}, "leave n_rows out"),
        ({"adjacency": "swap"}, "adjacency"),
        ({"measure": "renyi"}, "measure"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_arguments_are_checked(changes, match):
    refuses(lambda: gram(pg.AnalyzeGauss(), **changes), ValueError, match)


def test_tables_of_another_shape_are_refused(table):
    measurement = gram(pg.AnalyzeGauss())
    for wrong in (table[:, :2], table[:-1]):
        with pytest.raises(dp.OpenDPException, match=r"columns|rows"):
            measurement(wrong)


def test_rows_are_clipped_inside():
    huge = np.full((50, 3), 1e6)
    matrix = gram(pg.AnalyzeGauss(), epsilon=50.0)(huge).matrix
    # 50 rows of squared norm 4, plus noise of standard deviation below one.
    assert np.trace(matrix) == pytest.approx(200, abs=15)


def test_noise_that_has_another_delta_is_refused():
    with pytest.raises(ValueError, match=r"has delta=7e-06 where 1e-06 is asked for"):
        gram(PublishedAnalyzeGauss(allow_published_erratum=True))
