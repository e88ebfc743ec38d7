"""The bench of intervals and tests: every statistic is asked, and the worst cell is named."""

import re

import numpy as np
import pytest

from bench import inference


@pytest.mark.long
def test_every_statistic_is_measured():
    cells = inference.measure("strong instruments", 3, 0)
    statistics = {cell["statistic"] for cell in cells}
    assert len(statistics) == 17
    assert {cell["mechanism"] for cell in cells} == {"AnalyzeGauss", "MatrixLaplace"} | {
        "AdditiveWishart"
    }
    page = inference.markdown(cells, 3)
    for statistic in statistics:
        assert page.count(f"| {statistic} |") == 1


def test_the_worst_cell_is_named():
    shares = {("a", "interval"): 0.97, ("b", "interval"): 0.91, ("c", "test"): 0.04}
    shares |= {("d", "test"): 0.08}
    cells = [
        {"table": table, "adjacency": "replace", "mechanism": "M", "statistic": statistic}
        | {"offered": 1.0, "share": share}
        for (table, statistic), share in shares.items()
    ]
    rare = {"table": "e", "statistic": "interval", "offered": 0.2, "share": 0.1}
    page = inference.markdown([*cells, cells[0] | rare], 10)
    assert re.search(r"\| interval \| 2 \| 94\.0 \| 91\.0 \| b, M, replace \|", page)
    assert re.search(r"\| test \| 2 \| 6\.0 \| 8\.0 \| d, M, replace \|", page)


@pytest.mark.slow
def test_the_truth_is_that_of_the_population():
    pop = inference.normal(np.random.default_rng(0))
    truth = inference.Truth(pop)
    assert truth.coef == pytest.approx([0.5, -0.3, 0.2, 0.0, 1.0], abs=0.02)
    assert truth.partial[0, 1] == pytest.approx(truth.partial[1, 0])
