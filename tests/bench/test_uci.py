"""The benchmark on real tasks: preparation, accounting of the comparison methods, the table."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bench.paper import uci
from bench.paper.__main__ import command as reproduce
from bench.paper.uci.accounting import sketch_and_gaussian_delta
from bench.paper.uci.adassp import AdaSSP, AdaSSPAsPrinted
from bench.paper.uci.hessian_mixing import STEPS, HessianMixing
from bench.paper.uci.linear_mixing import SQUARED_BOUND, LinearMixing
from privgram.privacy import GaussianProfile

pytestmark = pytest.mark.slow


def task(n: int = 4_000, d: int = 4, seed: int = 0) -> uci.Task:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n + 500, d)) + 3
    y = (X - 3) @ np.linspace(1, -1, d) + 0.3 * rng.standard_normal(n + 500)
    return uci.Task.prepare("made", X, y, np.arange(n + 500) >= n)


def test_preparation_scales_by_the_training_rows_alone():
    one = task()
    assert np.linalg.norm(one.X, axis=1).max() == pytest.approx(1.0)
    assert np.abs(one.y).max() == pytest.approx(1.0)
    np.testing.assert_allclose(one.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(one.X.std(axis=0), one.X.std(), rtol=1e-12)
    assert one.delta == 1 / 4_000**2
    coef = one.least_squares
    direct = np.mean((one.y_test - one.X_test @ coef) ** 2)
    assert one.test_error(coef) == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 10.0])
def test_comparison_methods_spend_their_budget(epsilon):
    made = task()
    delta, failure = made.delta, made.delta / 10
    for noise, budget in (
        (AdaSSP(made, epsilon).sigma / np.sqrt(3), (epsilon, delta)),
        (AdaSSPAsPrinted(made, epsilon).sigma, (epsilon / 3, delta / 3)),
    ):
        assert GaussianProfile(1 / noise).delta(budget[0]) == pytest.approx(budget[1], rel=1e-6)
    linear = LinearMixing(made, epsilon)
    ratio = SQUARED_BOUND / (linear.gamma - SQUARED_BOUND)
    mu = SQUARED_BOUND / linear.eigenvalue_std
    spent = sketch_and_gaussian_delta(epsilon, linear.rows, ratio, mu) + failure
    assert 0.999 * delta < spent <= delta
    hessian = HessianMixing(made, epsilon)
    mu = np.hypot(1 / hessian.eigenvalue_std, np.sqrt(STEPS) / hessian.gradient_std)
    ratio = 1 / (hessian.gamma - 1)
    spent = sketch_and_gaussian_delta(epsilon, STEPS * hessian.rows, ratio, mu) + failure
    assert 0.999 * delta < spent <= delta


@pytest.mark.parametrize("name", uci.METHODS)
def test_every_method_nears_least_squares_at_a_large_budget(name):
    made = task(n=200_000)
    rng = np.random.default_rng(2)
    error = np.median([made.test_error(uci.METHODS[name](made, 10.0)(rng)) for _ in range(5)])
    zero, best = made.test_error(np.zeros(4)), made.test_error(made.least_squares)
    # A sketch of 2.5 log(2 / rho) rows, the authors' choice, keeps linear mixing away.
    assert error - best < (0.2 if name == "linear mixing" else 0.01) * (zero - best)


def save(made: uci.Task, folder) -> None:
    saved = {"X": np.vstack([made.X, made.X_test]), "y": np.append(made.y, made.y_test)}
    test = np.arange(len(saved["y"])) >= made.n_rows
    np.savez(folder / f"{made.name}.npz", **saved, test=test)


def test_command(tmp_path, monkeypatch):
    tasks, out = tmp_path / "tasks", tmp_path / "out"
    tasks.mkdir()
    save(task(), tasks)
    monkeypatch.setattr(uci.run, "__defaults__", ((0.25, 4.0), 3, 0))
    command = ["uci", str(tasks), "--out", str(out), "--seed", "7"]
    table = CliRunner().invoke(reproduce, command)
    assert table.exit_code == 0, table.output
    assert table.stdout.startswith((out / "uci.md").read_text())
    assert "against AdaSSP" in table.stdout
    assert "made, epsilon = 0.25" in table.stderr
    cells = list(uci.run(uci.load_folder(tasks), seed=7))
    assert (out / "uci.csv").read_text() == uci.to_csv(cells)
    report = json.loads(CliRunner().invoke(reproduce, [*command, "--json"]).stdout)
    assert [cell["epsilon"] for cell in report] == [0.25, 4.0]
    for cell, expected in zip(report, cells, strict=True):
        assert cell["errors"] == {name: list(e) for name, e in expected.errors.items()}
