"""Random features: the same bits as a twin in NumPy, unit rows, and their kernels."""

import numpy as np
import pytest

import privgram as pg
from privgram._core.rowmap import random_features

QUARTERS = tuple(
    map(float.fromhex, ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69"))
)
SIN = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
    -1.66666666666666324348e-01,
)
COS = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)


def twin(x, weights):
    """One rounded operation after the other."""
    t = np.zeros((len(x), weights.shape[1]))
    for j in range(x.shape[1]):
        t += x[:, j, None] * weights[j]
    t = np.clip(t, -(2.0**20), 2.0**20)
    q = np.rint(t * float.fromhex("0x1.45f306dc9c883p-1"))
    r = ((t - q * QUARTERS[0]) - q * QUARTERS[1]) - q * QUARTERS[2]
    z = r * r
    s, c = np.full_like(z, SIN[0]), np.full_like(z, COS[0])
    for a, b in zip(SIN[1:], COS[1:], strict=True):
        s, c = a + z * s, b + z * c
    s, c = r + r * z * s, 1.0 - (0.5 * z - z * z * c)
    k = q.astype(np.int64)
    one, other = np.where(k & 1, s, c), np.where(k & 1, c, s)
    size = 1 / np.sqrt(weights.shape[1])
    return size * np.hstack([np.where((k + 1) & 2, -one, one), np.where(k & 2, -other, other)])


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0, 1e5])
@pytest.mark.parametrize("m", [1, 7, 64])
def test_bits_are_those_of_the_twin(scale, m):
    rng = np.random.default_rng(m)
    x, weights = rng.uniform(-1, 1, (100, 5)), rng.standard_normal((5, m)) * scale
    made = random_features(x, weights)
    np.testing.assert_array_equal(made, twin(x, weights))
    t = np.clip(x @ weights, -(2.0**20), 2.0**20)
    exact = np.hstack([np.cos(t), np.sin(t)]) / np.sqrt(m)
    np.testing.assert_allclose(made, exact, atol=1e-15 + 1e-15 * scale)


def test_row_has_its_features_wherever_it_stands():
    features = pg.RandomFeatures(n=62)
    x = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    whole = features.rows(x)
    np.testing.assert_array_equal(features.rows(x[13::7]), whole[13::7])
    np.testing.assert_array_equal(pg.RandomFeatures(n=62).rows(np.asfortranarray(x)), whole)


def test_rows_have_length_one():
    x = np.random.default_rng(0).uniform(-1, 1, (500, 4))
    x[0], x[1] = 1e300, -1e9  # beyond their bounds
    rows = pg.RandomFeatures(n=256).rows(x)
    assert rows.shape == (500, 256)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-14)


def test_products_of_rows_are_the_kernel():
    """Within five deviations of 4,000 draws: false alarms below 1e-5."""
    x = np.random.default_rng(0).uniform(-1, 1, (12, 3))
    rows = pg.RandomFeatures(n=8000, scale=0.8, seed=1).rows(x)
    far = np.linalg.norm(x[:, None] - x, axis=2) / 0.8
    np.testing.assert_allclose(rows @ rows.T, np.exp(-(far**2) / 2), atol=5 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"columns": "x"}, TypeError),
        ({"columns": []}, ValueError),
        ({"columns": ["x", "x"]}, ValueError),
        ({"n": 7}, ValueError),
        ({"n": 0}, ValueError),
        ({"scale": 0.0}, ValueError),
        ({"seed": -1}, ValueError),
    ],
)
def test_bad_parameters_are_refused(params, error):
    with pytest.raises(error):
        pg.RandomFeatures(**params)
