"""Noise on the inverse: its sensitivity, attained; the law of what is released."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.papers.sheffet import InverseGauss, PublishedInverseGauss

EPSILON, DELTA = 1.0, 1e-6


@pytest.fixture
def moment():
    rows = np.vstack([np.eye(3)] * 400 + [[[0.6, 0.8, 0.0]]] * 300)
    return pg.SecondMoment(3, bound=1.0).update(rows)


def inverse_distance(common, v, w):
    a, b = (np.linalg.inv(common + np.outer(x, x)) for x in (v, w))
    return np.linalg.norm(a - b)


@pytest.mark.parametrize("rho", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("bound", [0.1, 1.0, 7.0])
def test_sensitivity_is_attained_and_never_exceeded(rho, bound):
    mechanism = InverseGauss((1 + rho) * bound**2)
    add, replace = (
        mechanism.calibrate(3, bound, EPSILON, DELTA, a).sensitivity
        for a in ("add-remove", "replace")
    )
    common = rho * bound**2 * np.eye(3)
    e1, e2 = bound * np.eye(3)[:2]
    # The rounding of the inverse takes a millionth.
    assert inverse_distance(common, e1, 0 * e1) == pytest.approx(add, rel=2e-6)
    assert inverse_distance(common, e1, e2) == pytest.approx(replace, rel=2e-6)
    rng = np.random.default_rng(1)
    for _ in range(300):
        root = rng.standard_normal((3, 3)) * rng.choice([0.0, 0.1, 1.0, 30.0])
        v, w = (bound * x / np.linalg.norm(x) for x in rng.standard_normal((2, 3)))
        other = common + bound**2 * root @ root.T
        assert inverse_distance(other, v, 0 * v) <= add
        assert inverse_distance(other, v, w) <= replace


def test_calibration_is_tight_and_safe():
    noise = InverseGauss(20.0).calibrate(3, 1.0, EPSILON, DELTA)
    assert 0.999 * DELTA <= noise.privacy.delta(EPSILON) <= DELTA
    assert noise.sigma == pytest.approx(noise.sensitivity / noise.privacy.sensitivity_ratio)


def test_published_constant_and_its_erratum():
    # The theorem is for epsilon < 1.
    noise = PublishedInverseGauss(11.0).calibrate(3, 1.0, 0.99, DELTA)
    assert noise.sigma == pytest.approx(math.sqrt(8 * math.log(2 / DELTA)) / 10 / 0.99, rel=1e-9)
    mechanism = PublishedInverseGauss(2 * 0.01)
    refuses(lambda: mechanism.calibrate(3, 0.1, 0.99, DELTA), ValueError, "allow_published_erratum")
    mechanism = replace(mechanism, allow_published_erratum=True)
    noise = mechanism.calibrate(3, 0.1, 0.99, DELTA, "add-remove")
    assert noise.privacy.delta(0.99) == pytest.approx(0.97, abs=0.005)


# Entries of the inverse of the release against Gaussians, 2000 releases, 5 standard errors.
@pytest.mark.long
def test_law_of_the_inverse(moment):
    mechanism, rng = InverseGauss(300.0), np.random.default_rng(2)
    releases = [
        pg.release(moment, None, EPSILON, DELTA, rng=rng, mechanism=mechanism) for _ in range(2000)
    ]
    noise = np.linalg.inv([r.matrix for r in releases]) - np.linalg.inv(moment.matrix())
    law = releases[0].noise
    std = np.where(np.eye(3), law.std_diagonal, law.std)
    assert np.all(np.abs(noise.mean(axis=0)) < 5 * std / np.sqrt(2000))
    np.testing.assert_allclose(noise.std(axis=0), std, rtol=5 / np.sqrt(4000))


def test_inverse_lies_on_its_public_grid(moment):
    mechanism, bound, unit = InverseGauss(300.0), moment.sensitivity_bound, moment.resolution
    noise = mechanism.calibrate(3, bound, EPSILON, DELTA)
    fine = 2.0 ** (math.floor(math.log2(noise.sensitivity * unit / 3)) - 20) / unit
    std = noise.sigma / math.sqrt(2)
    grid = fine * 2.0 ** (math.floor(math.log2(std / fine)) - 10)
    steps = (
        np.linalg.inv(pg.release(moment, None, EPSILON, DELTA, mechanism=mechanism).matrix) / grid
    )
    assert np.abs(steps).max() > 1000
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-6)


def test_release_states_its_condition(moment, tmp_path):
    release = pg.release(moment, None, EPSILON, DELTA, mechanism=InverseGauss(300.0))
    assert "eigenvalues are at least 300" in release.condition
    assert "only if" in repr(release)
    release.save(tmp_path / "gram.npz")
    assert pg.load(tmp_path / "gram.npz").condition == release.condition


def test_release_is_symmetric(rng):
    x = rng.standard_normal((4000, 7))
    moment = pg.second_moment(x, bound=float(np.linalg.norm(x, axis=1).max()))
    for _ in range(5):
        released = pg.release(moment, None, EPSILON, DELTA, mechanism=InverseGauss(3000.0)).matrix
        assert (released == released.T).all()


def test_singular_moment_breaks_the_promise_and_is_paid_for(tmp_path):
    ledger = pg.Ledger(tmp_path / "it.ledger", EPSILON, DELTA)
    given = {"mechanism": InverseGauss(300.0), "ledger": ledger}
    with pytest.raises(ValueError, match=f"promise.* epsilon={EPSILON:g} counts as spent"):
        pg.release(pg.SecondMoment(3, bound=1.0), None, EPSILON, DELTA, **given)
    assert len(ledger.entries) == 1


def test_floor_must_exceed_one_row():
    refuses(lambda: InverseGauss(4.0).calibrate(3, 2.0, EPSILON, DELTA), ValueError, "must exceed")
