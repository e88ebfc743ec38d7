"""Plots: on the Axes given, or on those of a new figure, with names and units."""

import subprocess
import sys

import numpy as np
import pytest

import privgram as pg

NAME = "blood $pressure$ at the age of forty"


@pytest.fixture(scope="module")
def table():
    rows = {NAME: np.random.default_rng(0).uniform(0, 1, 2000)}
    return pg.Study(rows, {NAME: (0, 1)}, epsilon=4.0, delta=1e-6).summarize(NAME, epsilon=4.0)


@pytest.mark.slow
@pytest.mark.parametrize("of", ["quantiles", "histogram"])
def test_draws_on_the_axes_given_or_on_its_own(table, of):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    found = table if of == "quantiles" else table.histogram(8)
    ax = Figure().add_subplot()
    assert found.plot(ax) is ax
    assert not pyplot.get_fignums()
    drawn = found.plot()
    assert pyplot.get_fignums()
    assert drawn.get_title(loc="left")
    assert drawn.get_xlabel() == r"blood \$pressure\$ at the…"
    drawn.figure.canvas.draw()
    pyplot.close("all")


@pytest.mark.slow
def test_without_matplotlib_the_extra_is_named():
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, privgram as pg
study = pg.Study({"x": np.linspace(0, 1, 2000)}, {"x": (0, 1)}, epsilon=4.0, delta=1e-6)
try:
    study.summarize("x", epsilon=4.0).plot()
except ImportError as error:
    assert "privgram[plot]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
