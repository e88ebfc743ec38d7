"""Plots: what is drawn is what was released, on the Axes given, with names and units."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.exact_fits import CASES, logistic
from support.helpers import make_release, refuses, slopes

from privgram import privacy
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


DRAWN = {
    "spectrum": lambda release, fit, ax: release.pca().plot(ax),
    "scree": lambda release, fit, ax: release.pca(standardize=True).plot(ax),
    "profile": lambda release, fit, ax: release.privacy.plot(ax),
    "coefficients": lambda release, fit, ax: fit.plot(ax),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_draws_on_the_axes_given_or_on_its_own(release, fit, name, style):
    with pyplot.style.context(style):
        figure = Figure()
        ax = figure.add_subplot()
        assert DRAWN[name](release, fit, ax) is ax
        assert not pyplot.get_fignums()
        empty = rendered(Figure().add_subplot())
        assert (rendered(ax) != empty).any()
        drawn = DRAWN[name](release, fit, None)
        assert pyplot.get_fignums()
        assert drawn.get_title(loc="left") or name == "profile"
        rendered(drawn)


@pytest.mark.slow
def test_many_columns_stay_legible():
    d = 120
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((d, d))
    release = make_release(noise + noise.T + 1000 * np.eye(d), [f"column {j}" for j in range(d)],
                           GaussianLaw(1.4, 2.0), n_rows=5000)  # fmt: skip
    for ax in (release.pca().plot(), release.regress("column 3").plot()):
        assert not any("column 1" in word for word in words(ax))
        assert max(ax.figure.get_size_inches()) < 15
        rendered(ax)


def test_spectrum_counts_what_is_above_the_noise(release):
    ax = release.pca().plot()
    values = np.linalg.eigvalsh(release.matrix)
    edge = release.pca().edge[0]
    drawn = np.concatenate([line.get_ydata() for line in ax.lines if line.get_marker() == "o"])
    np.testing.assert_allclose(np.sort(drawn), values)
    assert (values > edge).sum() == 2
    assert "2 of 3 eigenvalues above" in ax.get_title(loc="left")


def test_spectrum_is_about_the_mean_where_there_is_one():
    rows = np.random.default_rng(3).standard_normal((500, 2)) * [3.0, 1.0] + [40.0, 0.0]
    table = np.column_stack([rows, np.ones(500)])
    release = make_release(table.T @ table, ("a", "b", "intercept"), GaussianLaw(0.1, 0.1))
    ax = release.pca().plot()
    drawn = np.concatenate([line.get_ydata() for line in ax.lines if line.get_marker() == "o"])
    np.testing.assert_allclose(
        np.sort(drawn), np.sort(500 * np.linalg.eigvalsh(np.cov(rows.T, ddof=0)))
    )
    assert "about the mean" in ax.get_ylabel()
    plain = release.pca(center=False).plot()
    assert "about the mean" not in plain.get_ylabel()
    assert "2 of 2" in plain.get_title(loc="left")


def test_edge_of_symmetric_noise():
    """Within the Tracy-Widom fluctuations of 2 sqrt(d)."""
    d = 100
    release = make_release(np.eye(d), [f"x{i}" for i in range(d)], GaussianLaw(1.0, 2**0.5))
    assert release.pca(alpha=0.5).edge[0] == pytest.approx(2 * np.sqrt(d), rel=0.05)
    refuses(lambda: release.pca(alpha=1.0), ValueError, "alpha")


def test_profile_is_drawn_as_it_is():
    profile = privacy.GaussianProfile(0.5)
    ax = profile.plot(label="mine")
    epsilon, delta = ax.lines[0].get_data()
    np.testing.assert_allclose(delta, profile.delta(epsilon))
    assert ax.get_yscale() == "log"
    assert (epsilon[0], delta[-1] < 1e-9) == (0.0, True)
    # Pure differential privacy: delta is 0 from there on, and not drawn.
    pure = privacy.LaplaceProfile(1.0).plot(limits=(0, 2))
    assert np.isnan(pure.lines[0].get_ydata()[-1])


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
for draw in (release.pca().plot, release.privacy.plot):
    try:
        draw()
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


def test_scree_counts_what_is_above_uncorrelated_columns(release):
    pca = release.pca(standardize=True)
    assert f"{pca.n_clear} of 3" in pca.plot().get_title(loc="left")
    one = release.pca(columns=["age"])
    assert "1 of 1" in one.plot().get_title(loc="left")
