"""The page of peers says what was recorded, and its measures measure."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from bench.peers import page, tasks


def test_page_is_what_was_recorded():
    page.fill(page.TABLES, check=True)  # exits where the page says something else


def test_regression_error_is_zero_at_least_squares_and_one_at_zero():
    table = tasks.regression_table(2000)
    measure = tasks.RegressionError(table, [-1.0] * 21, [1.0] * 21)
    fitted = tasks.least_squares(table)
    x, y = table[:, :-1], table[:, -1]
    r2 = 1 - np.var(y - x @ fitted[:-1]) / np.var(y)
    assert measure(list(fitted)) == pytest.approx((0, r2))
    flat = [0.0] * 20 + [float(y.mean())]
    assert measure(flat) == pytest.approx((1, 0), abs=1e-12)


def test_pca_error_is_the_part_of_the_best_variance_missed():
    table = tasks.pca_table(2000)
    values, vectors = np.linalg.eigh(table.T @ table)
    measure = tasks.PCAError(table)
    assert measure(vectors.T[-3:].tolist()) == pytest.approx(0, abs=1e-12)
    best, worst = values[-3:].sum(), values[:3].sum()
    assert measure(vectors.T[:3].tolist()) == pytest.approx(1 - worst / best)
    assert np.linalg.norm(table, axis=1).max() <= tasks.NORM
