"""The bench of intervals and tests: every statistic is asked, and the worst cell is named."""

import re

import numpy as np
import pytest

from bench import inference


@pytest.mark.long
def test_every_statistic_is_measured():
    cells = inference.measure("strong instruments", 3, 0, [label for _, label in inference.CELLS])
    statistics = {cell["statistic"] for cell in cells}
    assert len(statistics) == 17
    assert {cell["mechanism"] for cell in cells} == {label for _, label in inference.CELLS}
    page = inference.markdown(cells)
    for statistic in statistics:
        assert page.count(f"| {statistic} |") == 1


def test_doubtful_cell_is_measured_again(monkeypatch):
    """Once more, by other draws, which count for it alone."""
    asked = []

    def measure(name, draws, seed, mechanisms, wanted=None):
        asked.append((draws, seed, mechanisms, wanted))
        cell = {"adjacency": "replace", "mechanism": "M", "kind": "k", "statistic": "interval"}
        shares = [0.95, 0.90] if wanted is None else [0.90, 0.94]
        return [cell | {"number": i, "offered": 1.0, "share": x} for i, x in enumerate(shares)]

    monkeypatch.setattr(inference, "measure", measure)
    found = inference.measure_twice("t", 20, 30, ["M"])
    assert [cell["share"] for cell in found] == [0.95, 0.94]
    assert asked == [(20, 1, ["M"], None), (30, 2, ["M"], {("replace", "M", "k")})]


def test_worst_cell_is_named():
    shares = {("a", "interval"): 0.97, ("b", "interval"): 0.91, ("c", "test"): 0.04}
    shares |= {("d", "test"): 0.08}
    cells = [
        {"table": table, "adjacency": "replace", "mechanism": "M", "statistic": statistic}
        | {"offered": 1.0, "share": share}
        for (table, statistic), share in shares.items()
    ]
    rare = {"table": "e", "statistic": "interval", "offered": 0.2, "share": 0.1}
    page = inference.markdown([*cells, cells[0] | rare])
    assert re.search(r"\| interval \| 2 \| 94\.0 \| 91\.0 \| b, M, replace \|", page)
    assert re.search(r"\| test \| 2 \| 6\.0 \| 8\.0 \| d, M, replace \|", page)


@pytest.mark.slow
def test_truth_is_that_of_the_population():
    pop = inference.normal(np.random.default_rng(0))
    truth = inference.Truth.all(pop)
    coef = truth.least_squares("y", ("a", "b", "c", "d", "Intercept"))
    assert coef == pytest.approx([0.5, -0.3, 0.2, 0.0, 1.0], abs=0.02)
    assert abs(coef[3]) < 1e-12  # what is without effect has none
