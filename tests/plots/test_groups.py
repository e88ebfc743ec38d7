"""The forest plot: every group has its place, noise has none."""

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram.noise import GaussianLaw
from privgram.plots import plot_forest
from privgram.regression.groups import regress_groups

pytest.importorskip("matplotlib")

COLUMNS = pg.Columns({"x": (-1, 1), "y": (-1, 1)}, intercept=True)


def fits_of(n, refused=0):
    rng = np.random.default_rng(0)
    releases = {}
    for group in range(n):
        slope = 0.5 + 0.01 * group
        matrix = 1000 * np.array([[1, slope, 0], [slope, slope**2 + 0.1, 0], [0, 0, 3.0]])
        law = GaussianLaw(5.0, 7.0)
        releases[f"group {group}"] = make_release(
            law.draw(matrix, rng), COLUMNS.names, law, columns=COLUMNS, bound=2.0
        )
    for group in range(refused):
        releases[f"none {group}"] = make_release(
            -np.eye(3), COLUMNS.names, GaussianLaw(5.0, 7.0), columns=COLUMNS, bound=2.0
        )
    return regress_groups(releases, "y", ["x"])


def test_place_for_every_group():
    fits = fits_of(5, refused=1)
    ax = fits.plot("x")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == sorted(fits.groups)
    assert names[-1] == "none 0"
    points = next(line for line in ax.lines if line.get_label() == "own")
    assert np.isnan(points.get_xdata()[-1])
    assert (np.diff(points.get_xdata()[:-1]) >= 0).all()
    assert "6 groups by group" in ax.get_title(loc="left")


def test_many_groups_are_not_named():
    ax = fits_of(60).plot("x")
    assert "group" in ax.get_ylabel()


def test_refusals():
    fits = fits_of(3)
    refuses(lambda: fits.plot("z"), ValueError, "no coefficient 'z'")
    refuses(lambda: plot_forest(fits, "x", alpha=2), ValueError, "alpha")
