"""`regress(ridge="auto")` on releases of every noise law."""

import numpy as np
import pytest

import privgram as pg
from privgram.regression import OLSResults


def rows(n: int, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 5)) * np.array([1, 1, 1, 0.3, 0.1])
    y = X @ np.array([0.5, -0.4, 0.3, 0.2, -0.1]) + 0.1 * rng.standard_normal(n)
    return np.column_stack([X, y])


def release(n: int, mechanism: object, epsilon: float) -> pg.Release:
    moment = pg.SecondMoment(6, bound=1.5).update(rows(n))
    rng = np.random.default_rng(4)
    return pg.release(moment, None, epsilon, 1e-6, rng=rng, mechanism=mechanism)  # type: ignore[attr-defined]


MECHANISMS = [
    pg.AnalyzeGauss(),
    pg.AnalyzeGauss(noise="triangular"),
    pg.AnalyzeGauss(repair="shift"),
    pg.AnalyzeGauss(repair="project"),
    pg.AdditiveWishart(),
    pg.AdditiveWishart(debias=False),
    pg.MatrixLaplace(),
]


def errors(n: int, mechanism: object) -> tuple[float, float, float]:
    """Squared errors of the automatic ridge, of no penalty (inf if refused) and of zero."""
    out = release(n, mechanism, epsilon=0.5)
    table = rows(20_000, seed=5)

    def error(fit: OLSResults) -> float:
        return float(np.mean((table[:, 5] - fit.predict(table[:, :5])) ** 2))

    try:
        plain = error(out.regress(5))
    except ValueError:
        plain = np.inf
    return error(out.regress(5, ridge="auto")), plain, float(np.mean(table[:, 5] ** 2))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("n", [3_000, 100_000])
def test_predicts_better_than_zero_and_no_worse_than_no_penalty(mechanism: object, n: int) -> None:
    auto, plain, zero = errors(n, mechanism)
    assert auto < 0.95 * zero
    assert auto < 1.001 * plain


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_predicts_no_worse_than_zero_where_noise_swamps_all(mechanism: object) -> None:
    auto, _, zero = errors(100, mechanism)
    assert auto < 1.05 * zero


def test_part_of_the_columns_is_its_marginal() -> None:
    out = release(3_000, pg.AnalyzeGauss(), epsilon=0.5)
    part = out.regress(5, [0, 2], ridge="auto")
    marginal = out.marginal([0, 2, 5]).regress(2, ridge="auto")
    np.testing.assert_allclose(part.used, marginal.used, rtol=1e-10)


def test_intercept_is_found_in_the_columns_own_units() -> None:
    rng = np.random.default_rng(6)
    x = rng.uniform(10, 20, (50_000, 2))
    y = 3.0 + x @ [1.0, -0.5] + rng.normal(scale=0.5, size=len(x))
    columns = pg.Columns({"a": (0, 30), "b": (0, 30), "y": (0, 30)}, intercept=True)
    moment = pg.SecondMoment(4, bound=columns.bound, columns=columns)
    moment.update(np.column_stack([x, y]))
    out = pg.release(
        moment, None, 4.0, 1e-6, rng=np.random.default_rng(7), mechanism=pg.AnalyzeGauss()
    )
    fit = out.regress("y", ridge="auto")
    np.testing.assert_allclose(fit.used[:-1], [1.0, -0.5], atol=0.1)
    assert fit.predict([[15.0, 15.0]])[0] == pytest.approx(10.5, abs=0.2)
