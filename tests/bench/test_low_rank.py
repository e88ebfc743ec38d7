"""The experiments on low rank and compression: their own formulas, and that they run."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from bench.paper import compression
from bench.paper import low_rank as experiment
from bench.paper.__main__ import command
from privgram.papers import hardt_roth as low_rank
from privgram.privacy import calibration

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("shape", [(150, 600), (600, 150)])
def test_input_perturbation_is_predicted(shape):
    """Against noise that is drawn, with spikes on both sides of the threshold: within 2 %."""
    rng = np.random.default_rng(2)
    m, n = shape
    u, _ = np.linalg.qr(rng.standard_normal((m, 4)))
    v, _ = np.linalg.qr(rng.standard_normal((n, 4)))
    s = np.array([300.0, 80.0, 50.0, 5.0])
    A = (u * s) @ v.T
    std, r = 1.5, 4
    errors = []
    for _ in range(3):
        p, y, q = np.linalg.svd(A + std * rng.standard_normal(shape), full_matrices=False)
        errors.append(np.linalg.norm(A - (p[:, :r] * y[:r]) @ q[:r]))
    predicted = experiment.input_perturbation_error(s, float(np.linalg.norm(s)), shape, std, r)
    assert predicted == pytest.approx(np.mean(errors), rel=0.02)


def test_compare():
    """What the paper says: find-and-project wins for few long rows, and loses to one spike."""
    rng = np.random.default_rng(6)
    flat = experiment.compare("n", experiment.incoherent(150, 8000, 5, 3.0, rng), 1, 1e-6, rng, 1)
    assert flat.best < 1e-6
    assert flat.pfp < flat.randomised_response < flat.theorem_6_3
    spike = experiment.incoherent(60, 4000, 5, 3.0, rng, spike=0.7)
    spiked = experiment.compare("spike", spike, 1, 1e-6, rng, 1)
    assert spiked.pfp > spiked.randomised_response
    assert spiked.C > flat.C


def test_signs():
    """Corollary 3.7: alpha vanishes with n. So does the exact epsilon, much below it."""
    few, many, *growing = compression.signs((10_000, 100_000), rows=400)
    # p and m grow with n, and alpha still falls.
    assert growing[1].n_columns > growing[0].n_columns
    assert growing[1].rows > growing[0].rows
    assert growing[1].alpha < 0.5 * growing[0].alpha
    assert many.alpha < 0.2 * few.alpha
    assert many.epsilon < few.epsilon < few.alpha
    # X flipped in half of the row: 2 (p/2)^2 entries change by 2/n.
    assert few.difference == pytest.approx(math.sqrt(50) * 2 / 10_000)


def test_commands(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "SETTINGS", {"m": (20, 30)})
    monkeypatch.setattr(experiment, "BASE", {**experiment.BASE, "n": 60})
    settings = (100, 1000), (5,), 2, 200, 2
    monkeypatch.setattr(compression.pca_error, "__defaults__", (*settings, 0))
    monkeypatch.setattr(compression.signs, "__defaults__", ((10_000,), 4, 300, 0.5, 1e-6, 0))
    for name, files in (
        ("low-rank", {"low-rank.csv": 2}),
        ("compression", {"compression.csv": 2, "compression-signs.csv": 2}),
    ):
        for arguments in ([], ["--json"]):
            result = CliRunner().invoke(command, [name, "--out", str(tmp_path), *arguments])
            assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        for file, rows in files.items():
            assert len((tmp_path / file).read_text().splitlines()) == rows + 1
            assert len(report[file.removesuffix(".csv")]) == rows


def test_netflix_sized_noise_is_below_randomised_response():
    """The projection's noise at the paper's size, for a basis as flat as noise."""
    shape, k = (17_770, 480_189), 41
    noise = low_rank.calibrate(shape, 20, 21, epsilon=1.0, delta=1e-6)
    std = 1 / calibration.gaussian_ratio(1.0, 1e-6)
    flat = math.sqrt(k / shape[0])
    assert math.sqrt(k * shape[1]) * flat / noise.projection_ratio < std * math.sqrt(
        20 * sum(shape)
    )
