"""What a regression is without privacy: the root itself, and private fits beside it."""

import math
import pickle

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.reference import huber

COLUMNS = {"a": (-5, 5), "b": (0, 40), "g": list("uvw"), "y": (-60, 60)}
FORMULA = "y ~ a + b + g"


def table(n=6000, seed=0):
    """Features with long tails on one side, errors of t with three degrees of freedom."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=n).clip(-5, 5), np.exp(rng.normal(size=n)).clip(0, 40)
    g = rng.integers(0, 3, n)
    y = 0.8 * a - 0.3 * b + 0.5 * g + 1 + rng.standard_t(3, n) * (0.5 + 0.1 * b)
    return {"a": a, "b": b, "g": np.array(list("uvw"))[g], "y": y.clip(-60, 60)}


def own_rows(people):
    levels = [people["g"] == level for level in "vw"]
    return np.column_stack([people["a"], people["b"], *levels, np.ones(len(people["a"]))])


def test_it_is_the_root_of_the_equation_that_the_theory_has():
    """By textbook operations in own units, and with errors as of a sandwich."""
    people = table()
    result = huber(people, FORMULA, COLUMNS)
    X, y = own_rows(people).astype(float), people["y"]
    n, q = X.shape
    least = np.linalg.lstsq(X, y)[0]
    assert result.param_names == ("a", "b", "g[v]", "g[w]", "Intercept")
    assert result.scale == pytest.approx(np.sqrt(np.mean((y - X @ least) ** 2)), rel=1e-9)
    z = X @ result.frame.T
    np.testing.assert_allclose(z.T @ z / n, np.eye(q), atol=1e-9)
    weight = np.minimum(1, (q + 2 * math.sqrt(2 * q)) / (z**2).sum(axis=1))
    residual = (y - X @ result.params) / result.scale
    score = z * (weight * np.clip(residual, -1.345, 1.345))[:, None]
    assert np.abs(score.sum(axis=0)).max() < 1e-6 * math.sqrt(n)
    inside = weight * (np.abs(residual) <= 1.345)
    bread = np.linalg.inv((X * inside[:, None]).T @ z / result.scale)
    covariance = bread.T @ (score.T @ score) @ bread * n / (n - q)
    np.testing.assert_allclose(result.bse, np.sqrt(covariance.diagonal()), rtol=1e-9)
    low, high = result.conf_int().T
    np.testing.assert_allclose((high - low) / result.bse, 2 * 1.9604, rtol=1e-4)


def test_without_noise_a_private_fit_is_the_reference():
    people = table()
    fit = pg.regress(people, FORMULA, COLUMNS, 1e9, 0.5, loss="huber", rng=np.random.default_rng(0))
    result = huber(people, FORMULA, COLUMNS, fit=fit)
    np.testing.assert_allclose(fit.params, result.params, atol=1e-5 * result.bse.min())
    np.testing.assert_allclose(fit.bse, result.bse, rtol=1e-3)
    np.testing.assert_allclose(result.frame, fit.parameters["huber"]["frame"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_private_intervals_hold_the_root_on_the_rows_at_hand(adjacency):
    """In 20 draws of five coefficients, 97 to 99 of 100 are held, and fewer than 90 fail.

    Were each held by itself with the stated .95, that would happen in one of 87 runs; with .97, in
    one of 4,700.
    """
    held = []
    for seed in range(20):
        people = table(seed=100 + seed)
        rng = np.random.default_rng(seed)
        fit = pg.regress(
            people, FORMULA, COLUMNS, 1.0, 1e-6, loss="huber", adjacency=adjacency, rng=rng
        )
        root = huber(people, FORMULA, COLUMNS, fit=fit).params
        low, high = np.asarray(fit.conf_int(estimand="sample")).T
        held.append((low <= root) & (root <= high))
    assert np.mean(held) >= 0.9


def test_it_is_not_that_of_statsmodels():
    """Skewed errors that grow with a feature: their roots are many standard errors apart."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, 20_000)
    y = (x + (1 + x) * (rng.exponential(size=20_000) - 1)).clip(-60, 120)
    result = huber({"x": x, "y": y}, "y ~ x", {"x": (0, 10), "y": (-60, 120)})
    other = sm.RLM(y, sm.add_constant(x), M=sm.robust.norms.HuberT()).fit()
    assert abs(result.params[0] - other.params[1]) > 5 * result.bse[0]


def test_it_is_marked_and_goes_nowhere():
    result = huber(table(), FORMULA, COLUMNS)
    assert "NOT PRIVATE" in str(result)
    assert "array(" not in repr(result)
    refuses(lambda: pickle.dumps(result), TypeError, "NOT PRIVATE")


def test_sources_and_missing_values(tmp_path):
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame(table())
    whole = huber(people, FORMULA, COLUMNS)
    people.to_csv(tmp_path / "people.csv", index=False)
    np.testing.assert_allclose(
        huber(tmp_path / "people.csv", FORMULA, COLUMNS).params, whole.params
    )
    holes = pandas.concat([people, people.head(50).assign(b=np.nan)])
    dropping = pg.Columns(COLUMNS, intercept=True, missing="drop")
    np.testing.assert_allclose(huber(holes, FORMULA, dropping).params, whole.params)
    refuses(lambda: huber(holes, FORMULA, COLUMNS), ValueError, "rows have missing values")


def test_fit_without_a_root_is_refused():
    people = table()
    plain = pg.regress(people, FORMULA, COLUMNS, 1.0, 1e-6, rng=np.random.default_rng(0))
    other = pg.regress(
        people, "y ~ a", COLUMNS, 1.0, 1e-6, loss="huber", rng=np.random.default_rng(0)
    )
    for formula, words, options in (
        ("y ~ a - 1", "an intercept", {}),
        ("y ~ a | g", "absorbed", {}),
        ("y ~ b | a ~ g", "instruments", {}),
        (FORMULA, "with loss=", {"fit": plain}),
        (FORMULA, "give its formula", {"fit": other}),
    ):
        with pytest.raises(ValueError, match=words):
            huber(people, formula, COLUMNS, **options)
    constant = people | {"a": np.ones(6000)}
    refuses(lambda: huber(constant, FORMULA, COLUMNS), ValueError, "no single root")
    with pytest.raises(ValueError, match="too few rows"):
        huber({name: column[:4] for name, column in people.items()}, FORMULA, COLUMNS)
