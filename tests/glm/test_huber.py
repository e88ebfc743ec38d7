"""Huber's regression by scores: the equation that it solves, and what a row can move."""

import math

import numpy as np
import pytest

import privgram as pg
from privgram._core import scores
from privgram.regression.families import ERROR, Bounded

#: So large a budget that noise is nothing.
SURE = {"epsilon": 1e9, "delta": 0.5}

COLUMNS = {"a": (-5, 5), "b": (0, 40), "g": list("uvw"), "y": (-60, 60)}
TRUE = np.array([0.8, -0.3, 0.5, 1.0, 1.0])


def made(n=20_000, seed=0, tail=3):
    """Features with long tails on one side, errors on both."""
    rng = np.random.default_rng(seed)
    a, b, g = rng.normal(size=n).clip(-5, 5), np.exp(rng.normal(size=n)), rng.integers(0, 3, n)
    b = b.clip(0, 40)
    y = 0.8 * a - 0.3 * b + 0.5 * g + 1 + rng.standard_t(tail, n) * (0.5 + 0.1 * b)
    return {"a": a, "b": b, "g": np.array(list("uvw"))[g], "y": y.clip(-60, 60)}


def rows_of(table):
    levels = [table["g"] == level for level in "vw"]
    return np.column_stack([table["a"], table["b"], *levels, np.ones(len(table["a"]))]).astype(
        float
    )


def solved(table, fit):
    """The root of the equation that a fit states, and its robust errors, by textbook operations."""
    optimize = pytest.importorskip("scipy.optimize")
    X, y = rows_of(table), np.asarray(table["y"])
    n, q = X.shape
    first, scale = np.linalg.lstsq(X, y)[0], fit.parameters["scale"] * fit.design.spread[-1]
    square = ((X @ np.array(fit.parameters["huber"]["frame"]).T) ** 2).sum(axis=1)
    weight = np.minimum(1, (q + 2 * math.sqrt(2 * q)) / square)

    def score(b):
        return X.T @ (weight * np.clip((y - X @ b) / scale, -1.345, 1.345)) / n

    def slope(b):
        inside = np.abs(y - X @ b) <= 1.345 * scale
        return -(X * (weight * inside)[:, None]).T @ X / (n * scale)

    found = optimize.root(score, first, jac=slope, tol=1e-13)
    assert np.abs(score(found.x)).max() < 1e-12
    each = X * (weight * np.clip((y - X @ found.x) / scale, -1.345, 1.345))[:, None]
    inverse = np.linalg.inv(slope(found.x) * n)
    covariance = inverse @ each.T @ each @ inverse * n / (n - q)
    return found.x, np.sqrt(np.diag(covariance))


def fitted(source=None, columns=COLUMNS, formula="y ~ a + b + g", seed=1, **options):
    setting = {"epsilon": 1.0, "delta": 1e-6, "rng": np.random.default_rng(seed)} | options
    return pg.regress(
        made() if source is None else source, formula, columns, loss="huber", **setting
    )


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("tail", [3, 200])
def test_without_noise_it_solves_the_equation(adjacency, tail):
    """But for what the last step leaves out: two parts of 100,000 of a standard error."""
    table = made(tail=tail)
    fit = fitted(table, adjacency=adjacency, **SURE)
    coef, errors = solved(table, fit)
    assert fit.param_names == ("a", "b", "g[v]", "g[w]", "Intercept")
    np.testing.assert_allclose(fit.params, coef, rtol=0, atol=2e-5 * errors.min())
    np.testing.assert_allclose(fit.bse, errors, rtol=1e-3)
    # Frame and scale are those of the start: of all rows, or shorter ones.
    residual = table["y"] - rows_of(table) @ np.linalg.lstsq(rows_of(table), table["y"])[0]
    assert 0.7 * residual.std() < math.sqrt(fit.scale) < 1.01 * residual.std()
    assert (fit.cov_type, fit.family) == ("HC1", "gaussian")
    np.testing.assert_allclose(fit.predict(table), rows_of(table) @ coef, atol=1e-4)


def test_it_is_beside_that_of_statsmodels_where_no_row_is_far_out():
    """Of normal features next to none weighs less: a third of a standard error."""
    sm = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20_000, 2)).clip(-5, 5)
    y = (x @ [1.0, -0.5] + rng.standard_t(3, 20_000)).clip(-60, 60)
    X = sm.add_constant(x)
    residual = y - X @ np.linalg.lstsq(X, y)[0]
    columns = {"a": (-5, 5), "b": (-5, 5), "y": (-60, 60)}
    fit = fitted({"a": x[:, 0], "b": x[:, 1], "y": y}, columns, "y ~ a + b", **SURE)
    limit = 1.345 * math.sqrt(fit.scale) / sm.robust.scale.mad(residual, center=0)
    other = sm.RLM(y, X, M=sm.robust.norms.HuberT(limit)).fit(update_scale=False)
    errors = other.bse[[1, 2, 0]]
    np.testing.assert_allclose(fit.params, other.params[[1, 2, 0]], atol=errors.min() / 3)
    np.testing.assert_allclose(fit.bse, errors, rtol=0.03)


def test_no_row_says_more_than_is_public(rng):
    """Whatever it holds: attained, and never more but for rounding."""
    for q in (1, 3, 20):
        bounded = Bounded(q)
        images = rng.standard_normal((4000, q + 1)) * 10.0 ** rng.integers(-3, 4, (4000, 1))
        images[:, :q] *= bounded.longest / np.linalg.norm(images[:, :q], axis=1)[:, None]
        images[::2, :q] *= 10.0 ** rng.uniform(-2, 4, (2000, 1))
        images[1::7, q] *= 1e-4
        rows = np.empty((4000, q), order="F")
        for curved, most in ((False, ERROR * bounded.longest), (True, bounded.longest)):
            scores.write(images, bounded.score(curved), rows)
            assert 0.9 < np.linalg.norm(rows, axis=1).max() / most <= 1 + 1e-12


def test_far_rows_move_it_by_little():
    """Twenty rows at the ends of all bounds: least squares moves by tens of errors."""
    table = made()
    dirty = {name: column.copy() for name, column in table.items()}
    dirty["b"][:20], dirty["y"][:20] = 40.0, 60.0
    fit = fitted(table, **SURE)
    coef, errors = np.asarray(fit.params), np.asarray(fit.bse)
    moved = np.abs((np.asarray(fitted(dirty, **SURE).params) - coef) / errors).max()
    X = rows_of(dirty)
    plain = np.linalg.lstsq(X, dirty["y"])[0] - np.linalg.lstsq(rows_of(table), table["y"])[0]
    assert moved < 2
    assert np.abs(plain / errors).max() > 10


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_intervals_hold(adjacency):
    """Of 30 draws at epsilon 1, four slopes: fewer than 88 % would be in one of a thousand."""
    held = []
    for seed in range(30):
        fit = fitted(made(6000, 100 + seed), seed=seed, adjacency=adjacency)
        low, high = np.asarray(fit.conf_int())[:4].T
        held.append((low <= TRUE[:4]) & (TRUE[:4] <= high))
    assert np.mean(held) >= 0.88


def test_its_summary_and_file_say_whose_it_is(tmp_path):
    fit = fitted()
    text = str(fit.summary())
    assert "Huber Regression" in text
    assert "1.345 scales" in text
    assert "clipping" not in text
    fit.save(tmp_path / "fit.json")
    assert str(pg.load(tmp_path / "fit.json").summary()) == text


def test_few_rows_are_refused_and_not_guessed():
    fit = fitted({name: column[:100] for name, column in made().items()})
    assert fit.refusal is not None
    assert np.isnan(fit.bse).all()


def test_unanswerable_options_are_refused_before_anything_is_spent(tmp_path):
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    many = COLUMNS | {"g": [f"l{i}" for i in range(200)]}
    for options in (
        {"family": "poisson", "columns": COLUMNS | {"y": (0, 60)}},
        {"family": "binomial", "columns": COLUMNS | {"y": bool}},
        {"unit": pg.Unit("who", max_rows=2), "source": made() | {"who": np.arange(20_000) // 2}},
        {"weights": "b", "formula": "y ~ a"},
        {"cov_type": "nonrobust"},
        {"mechanism": "analyze-gauss"},
        {"columns": many},
        {"formula": "y ~ a | g"},
        {"formula": "y ~ a + b - 1"},
        {"source": iter([made()])},
    ):
        with pytest.raises(ValueError, match=r"loss=\"huber\" is of family|mechanism is of"):
            fitted(ledger=ledger, **options)
    with pytest.raises(ValueError, match="loss is"):
        pg.regress(made(), "y ~ a", COLUMNS, 1.0, 1e-6, loss="absolute", ledger=ledger)
    assert ledger.entries == ()
