"""What finite precision adds to delta is in every profile that leaves a release.

The tolerance of the certificate is made so coarse here that leaving it out would show.
"""

import math

import numpy as np
import pytest

import privgram as pg
from privgram.ledger import Ledger
from privgram.mechanisms._base import _calibrate
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart, certified
from privgram.privacy import compose
from privgram.privacy.profiles import charged, delta_fp_of

EPSILON, DELTA = 1.0, 1e-6
ADDITIVE = [pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace(), InverseGauss(5.0)]
MULTIPLICATIVE = [GaussianSketch(60), InverseWishart(dof=80)]


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    _calibrate.cache_clear()
    monkeypatch.setattr(certified, "WHITENING_TOLERANCE", 2.0**-30)
    yield
    _calibrate.cache_clear()


@pytest.fixture(scope="module")
def moment():
    rows = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    return pg.second_moment(rows, bound=2.0)


def allowance(release, epsilon=EPSILON):
    """Of the theorem: none where noise meets data in integers."""
    if release.mechanism in ADDITIVE:
        return 0.0
    dof = release.parameters["dof"]
    return (1 + math.exp(epsilon)) * math.sqrt(dof) / 2 * 2.0**-30


@pytest.mark.parametrize("mechanism", ADDITIVE + MULTIPLICATIVE, ids=repr)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_nothing_that_leaves_a_release_is_below_profile_and_allowance(
    mechanism, adjacency, moment, tmp_path
):
    ledger = Ledger(tmp_path / "ledger", 5.0, 1e-4, adjacency, "basic")
    release = pg.release(
        moment, None, EPSILON, DELTA, mechanism=mechanism, adjacency=adjacency, ledger=ledger
    )
    least = release.privacy.delta(EPSILON) + allowance(release)
    n_rows = 400 if adjacency == "replace" else None
    arguments = 3, moment.sensitivity_bound, EPSILON, DELTA, adjacency
    noise = mechanism.calibrate(*arguments, n_rows=n_rows)
    path = tmp_path / "release.npz"
    release.save(path)
    shown = {
        "promise": release.delta,
        "release": release.charged.delta(EPSILON),
        "calibration": charged(noise).delta(EPSILON),
        "composed": compose([release]).delta(EPSILON),
        "ledger": ledger.spent[1],
        "file": pg.load(path).charged.delta(EPSILON),
    }
    if not isinstance(mechanism, InverseGauss):
        fit = release.regress("x2")
        shown |= {"fit": fit.privacy.delta(EPSILON), "of fit": compose([fit]).delta(EPSILON)}
    for name, delta in shown.items():
        assert delta >= least * (1 - 1e-9), name
    assert (delta_fp_of(release) > 1e-3 * DELTA) == (mechanism in MULTIPLICATIVE)


@pytest.mark.parametrize("mechanism", MULTIPLICATIVE, ids=repr)
def test_allowances_of_several_releases_add_up(mechanism, moment):
    first, second = (
        pg.release(moment, epsilon=EPSILON, delta=DELTA, mechanism=mechanism) for _ in "12"
    )
    for epsilon in (1.0, 1.9):
        least = compose([first.privacy, second.privacy]).delta(epsilon)
        least += allowance(first, epsilon) + allowance(second, epsilon)
        assert compose([first, second]).delta(epsilon) >= least * (1 - 1e-9)


@pytest.mark.parametrize("mechanism", MULTIPLICATIVE, ids=repr)
def test_bridges_have_it(mechanism, moment):
    pytest.importorskip("dp_accounting")
    from privgram.interop.dp_accounting import pld_from_profile

    release = pg.release(moment, epsilon=EPSILON, delta=DELTA, mechanism=mechanism)
    least = release.privacy.delta(EPSILON) + allowance(release)
    assert pld_from_profile(release.charged, 1e-3).get_delta_for_epsilon(EPSILON) >= least


@pytest.mark.parametrize("mechanism", MULTIPLICATIVE, ids=repr)
def test_measurement_has_it(mechanism, moment):
    dp = pytest.importorskip("opendp.prelude")
    from privgram.interop.opendp import make_measurement

    dp.enable_features("contrib", "honest-but-curious")
    gram = make_measurement(mechanism, 3, bound=2.0, epsilon=EPSILON, delta=DELTA, n_rows=400)
    release = pg.release(moment, epsilon=EPSILON, delta=DELTA, mechanism=mechanism)
    epsilon, delta = gram.map(1)
    assert delta >= release.privacy.delta(epsilon) + allowance(release)


def test_ledger_refuses_before_anything_is_read(tmp_path):
    """A budget with room for the profile, and none for what finite precision adds."""
    mechanism = GaussianSketch(60)
    columns = pg.Columns({"x": (0, 1), "y": (0, 1)})
    noise = mechanism.calibrate(2, columns.bound, EPSILON, DELTA, n_rows=1)
    room = noise.privacy.delta(EPSILON) + delta_fp_of(noise) / 2
    ledger = Ledger(tmp_path / "ledger", EPSILON, room, composition="basic")

    def rows():
        raise AssertionError("read")
        yield

    with pytest.raises(pg.BudgetExceeded):
        pg.release(rows(), columns, EPSILON, DELTA, mechanism=mechanism, ledger=ledger)
