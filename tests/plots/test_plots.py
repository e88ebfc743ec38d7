"""Plots: what is drawn is what was released, on the Axes given, with names and units."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.exact_fits import CASES, logistic
from support.helpers import make_release, slopes

from privgram.noise import GaussianLaw
from privgram.plots import _axes

pytest.importorskip("matplotlib")
import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

NAMES = ("age", "blood $pressure$", "cost")


@pytest.fixture
def release():
    """Three columns in which noise of standard deviation 1 hides one entry and one eigenvalue."""
    matrix = np.array([[100.0, 30.0, 1.5], [30.0, 50.0, -2.5], [1.5, -2.5, 1.0]])
    return make_release(matrix, NAMES, GaussianLaw(1.0, 1.0), n_rows=100)


@pytest.fixture
def fit():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4000, 3)) * [1.0, 2.0, 1.0]
    y = x @ [0.0, 0.5, -2.0] + rng.standard_normal(4000)
    table = np.column_stack([x, y, np.ones(4000)])
    names = ["a", "b", "c", "y", "intercept"]
    return make_release(table.T @ table, names, GaussianLaw(1.0, 1.0), n_rows=4000).regress("y")


def rendered(ax):
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def words(ax):
    return [text.get_text() for text in [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_draws_on_the_axes_given_or_on_its_own(fit, style):
    with pyplot.style.context(style):
        ax = Figure().add_subplot()
        assert fit.plot(ax) is ax
        assert not pyplot.get_fignums()
        empty = rendered(Figure().add_subplot())
        assert (rendered(ax) != empty).any()
        drawn = fit.plot()
        assert pyplot.get_fignums()
        assert drawn.get_title(loc="left")
        rendered(drawn)


@pytest.mark.slow
def test_many_columns_stay_legible():
    d = 120
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((d, d))
    release = make_release(noise + noise.T + 1000 * np.eye(d), [f"column {j}" for j in range(d)],
                           GaussianLaw(1.4, 2.0), n_rows=5000)  # fmt: skip
    ax = release.regress("column 3").plot()
    assert not any("column 1" in word for word in words(ax))
    assert max(ax.figure.get_size_inches()) < 15
    rendered(ax)


def test_coefficients_are_ordered_and_greyed(fit):
    ax = fit.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c", "b", "a"]
    ends = slopes(fit, fit.conf_int())
    bars = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_linewidth() > 2]
    for bar, j in zip(bars, [2, 1, 0], strict=True):
        np.testing.assert_allclose(bar.get_xdata(), ends[j])
        assert (bar.get_color() == _axes.GREY) == (ends[j, 0] <= 0 <= ends[j, 1])
    assert f"{fit.used[:-1][2]:.3g}" in words(ax)[0]


def test_refused_inference_draws_points_only(release):
    refused = replace(release, n_rows=2).regress("cost")  # fewer rows than columns
    assert refused.refusal is not None
    ax = refused.plot()
    assert "no intervals" in ax.get_title(loc="left")
    rendered(ax)


@pytest.mark.parametrize(
    ("family", "of"),
    [("gaussian", ""), ("binomial", "the log odds of "), ("poisson", "the log of the mean of ")],
)
def test_coefficients_by_scores(family, of):
    fit = replace(logistic(next(iter(CASES.values())))[0], family=family)
    ax = fit.plot(alpha=0.1)
    assert ax.get_xlabel() == f"change of {of}b per unit of the feature"
    p = len(fit.design.names)
    bars = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_linewidth() > 2]
    np.testing.assert_allclose(
        sorted(bar.get_xdata()[0] for bar in bars), sorted(fit.conf_int(0.1).to_numpy()[:p, 0])
    )
    with pytest.raises(ValueError, match="no coefficients to draw: the steps"):
        replace(fit, refusal="the steps do not settle").plot()


def test_bad_arguments(fit):
    with pytest.raises(ValueError, match="alpha"):
        fit.plot(alpha=0.95)


@pytest.mark.slow
def test_without_matplotlib_the_extra_is_named():
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, privgram as pg
release = pg.release(pg.second_moment(np.eye(3), bound=1.0), None, 1.0, 1e-6)
try:
    release.regress(0, ridge="auto").plot()
except ImportError as error:
    assert "privgram[plot]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lists_take_as_many_lines_as_they_need():
    assert _axes.lines_of("from", ["a b", "c"]) == "from a b, c"
    lines = _axes.lines_of("from", [f"factor{i} level" for i in range(9)]).split("\n")
    assert max(map(len, lines)) <= 72
    assert " ".join(lines).count("level,") == 8
