"""The paper's utility statements against hand-evaluated values and small simulations."""

import math

import numpy as np
import pytest
from support.helpers import refuses

from privgram.papers import sheffet


def test_values_by_hand():
    # eta = C / rho with rho = 4000 / (2 * 10 * sqrt(4) * ln(10)) = 43.429...
    bound = sheffet.theorem_c_1(3.0, 4000.0, 10.0, 4, 0.1)
    eta = 40 * math.log(10) / 4000
    assert bound.accuracy == pytest.approx(eta, rel=1e-12)
    assert bound.error == pytest.approx(7 * eta, rel=1e-12)
    assert sheffet.corollary_c_2(3.0, 4000.0, 10.0, 4, 0.1) == pytest.approx(7 * eta, rel=1e-12)
    assert sheffet.theorem_3_2(0.1, 60.0, 4.0, 16.0) == pytest.approx(0.2)
    assert sheffet.theorem_3_2_rows(10, 0.5, 0.1) == math.ceil(10 * math.log(10) ** 2 / 0.25)
    norm = (10 + 2 + math.sqrt(2 * math.log(40))) ** 2
    c = 1e5 / (2 * norm)
    expected = 3 / (c - 1) + 2 * min(2 * math.sqrt(800 * math.log(160)), norm) / 1e5
    assert sheffet.theorem_c_3(3.0, 1e5, 2.0, 100, 4, 0.1) == pytest.approx(expected)


def test_theorem_c_1_holds_with_a_generous_constant():
    rng = np.random.default_rng(1)
    p, sigma, failure = 5, 20.0, 0.05
    rows = rng.standard_normal((4000, p + 1))
    gram, cross = rows[:, :p].T @ rows[:, :p], rows[:, :p].T @ rows[:, p]
    exact = np.linalg.solve(gram, cross)
    bound = sheffet.theorem_c_1(
        float(np.linalg.norm(exact)), float(np.linalg.eigvalsh(gram)[0]), sigma, p, failure
    )
    misses = 0
    for _ in range(300):
        noisy = np.linalg.solve(
            gram + sigma * rng.standard_normal((p, p)), cross + sigma * rng.standard_normal(p)
        )
        misses += np.linalg.norm(noisy - exact) > bound.error
    assert misses <= 300 * failure


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_theorem_c_3_holds_where_its_eigenvalue_is_the_least(size):
    """At C = 2; the printed bound is the size itself there."""
    rng = np.random.default_rng(2)
    p, k, failure = 4, 30, 0.1
    least = 2.0 * (math.sqrt(k) + math.sqrt(p) + math.sqrt(2 * math.log(4 / failure))) ** 2
    gram, exact = least * np.eye(p), size * np.eye(p)[0]
    bound = sheffet.theorem_c_3(size, least * (1 + 1e-12), 1.0, k, p, failure)
    misses = 0
    for _ in range(300):
        noise = rng.standard_normal((k, p + 1))
        noise = noise.T @ noise
        noisy = np.linalg.solve(gram + noise[:p, :p], gram @ exact + noise[:p, p])
        misses += np.linalg.norm(noisy - exact) > bound
    assert misses <= 300 * failure


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sheffet.theorem_c_1(1.0, 1.0, 10.0, 4, 0.1), "too small"),
        (lambda: sheffet.theorem_c_1(1.0, 1e6, 10.0, 4, 0.5), "failure"),
        (lambda: sheffet.theorem_c_1(1.0, 1e6, 10.0, 4, 0.1, constant=0.5), "constant"),
        (lambda: sheffet.theorem_c_1(1.0, 1e6, 10.0, 0, 0.1), "n_features"),
        (lambda: sheffet.corollary_c_2(1.0, 1.0, 10.0, 4, 0.1), "rho"),
        (lambda: sheffet.theorem_c_3(1.0, 1.0, 2.0, 100, 4, 0.1), "smallest eigenvalue"),
        (lambda: sheffet.theorem_3_2(0.0, 1.0, 1.0, 1.0), "accuracy"),
        (lambda: sheffet.theorem_3_2(0.1, 0.0, 0.0, 1.0), "not determined"),
        (lambda: sheffet.theorem_3_2_rows(1, 0.1, 0.1), "n_columns"),
        (lambda: sheffet.theorem_3_2_rows(4, 0.1, 0.6), "failure"),
    ],
)
def test_domains(call, message):
    refuses(call, ValueError, message)
