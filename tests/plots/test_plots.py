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


def test_every_group_is_in_the_legend_and_the_level_is_not_rounded():
    """Matplotlib leaves out names that begin with an underscore; 97.5 % were 98 %."""
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib.figure import Figure

    levels = ["_u", "v"]
    rows = {"x": np.linspace(0, 1, 2000), "g": np.resize(levels, 2000)}
    study = pg.Study(rows, {"x": (0, 1), "g": levels}, epsilon=4.0, delta=1e-6)
    found = study.histogram("x", bins=4, by="g", epsilon=4.0)
    ax = found.plot(Figure().add_subplot(), alpha=0.025)
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == levels
    assert ax.get_title(loc="left") == "x with 97.5% intervals"
    assert "97.5% intervals" in found.text(0.025)
    assert "99.9% intervals" in found.text(0.001)
    assert "93% intervals" in found.text(0.07)


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
