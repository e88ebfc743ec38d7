"""The rules by which adaptive rounds are decided: plain numbers in, plain numbers out."""

import json
import math

import numpy as np
import pytest

from privgram import AdaptiveGaussian

MU = 0.2


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_histogram_has_the_noise_that_a_row_needs(adjacency):
    """A row replaced takes one from a count and adds it to another."""
    moved = np.array([1.0, -1.0]) if adjacency == "replace" else np.array([1.0, 0.0])
    record = AdaptiveGaussian().calibrate(3, 2.0, 0.5, 1e-6, adjacency)
    assert record.counts_std(MU) == pytest.approx(np.linalg.norm(moved) / MU)


@pytest.mark.parametrize(
    ("rate", "rounds", "most"),
    [(14.0, "auto", 1), (16.0, "auto", 4), (16.0, 3, 3), (1e9, "auto", 4)],
)
def test_looks_that_are_worth_it(rate, rounds, most):
    assert AdaptiveGaussian(rounds=rounds).rounds_worth(rate) == most


def test_noise_of_one_round_is_analyze_gauss_s():
    record = AdaptiveGaussian().calibrate(3, 2.0, 0.5, 1e-6, "add-remove")
    assert record.mu == record.privacy.sensitivity_ratio
    assert record.law.std == record.noise_std
    assert record.std(2.0, record.mu) == pytest.approx(math.sqrt(2) * record.noise_std)


def test_rounds_of_any_integer_type_can_be_saved():
    """What cannot be saved after it was paid for is lost."""
    mechanism = AdaptiveGaussian(rounds=np.int64(3))
    assert json.dumps(mechanism.to_dict()) == json.dumps(AdaptiveGaussian(rounds=3).to_dict())
