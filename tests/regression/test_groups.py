"""Regressions of groups: as of each alone; differences between two."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from support.helpers import make_release, refuses

import privgram as pg
from privgram.noise import GaussianLaw
from privgram.regression import RefusedError
from privgram.regression.groups import regress_groups

NAMES = ("x", "y", "intercept")
COLUMNS = pg.Columns({"x": (-4, 4), "y": (-8, 8)}, intercept=True)


def tables(rng, slopes, n=2000, error=1.0):
    """Rows x, y for each slope, in own units."""
    parts = []
    for slope in slopes:
        x = rng.standard_normal(n).clip(-4, 4)
        parts.append(np.column_stack([x, 0.5 + slope * x + error * rng.standard_normal(n)]))
    return parts


def released(rng, parts, std, columns=COLUMNS):
    """Releases of parts with Gaussian noise of a deviation we choose."""
    law = GaussianLaw(std, np.sqrt(2) * std) if std else None
    releases = {}
    for group, part in enumerate(parts):
        z = np.column_stack([part / [4, 8], np.ones(len(part))])
        matrix = z.T @ z
        if std:
            matrix = law.draw(matrix, rng)
        releases[group] = make_release(matrix, columns.names, law, columns=columns, bound=2.0)
    return releases


@pytest.fixture
def fits(rng):
    slopes = 1 + 0.5 * rng.standard_normal(8)
    return regress_groups(released(rng, tables(rng, slopes), 5.0), "y", ["x"])


def test_frame(fits):
    pytest.importorskip("pandas")
    frame = fits.frame()
    assert frame.index.name == "group"
    assert_allclose(frame["params"]["x"], fits.params["x"])
    assert_allclose(frame["bse"], fits.bse)
    assert frame["fit"]["refusal"].isna().all()
    assert_allclose(frame["fit"]["n_rows"], 2000, atol=60)


def test_groups_by_two_columns_keep_their_tuples(fits):
    pytest.importorskip("pandas")
    pairs = {("a", group): fit.release for group, fit in fits.items()}
    frame = regress_groups(pairs, "y", ["x"]).frame()
    assert list(frame.index) == list(pairs)


def test_difference(fits):
    pytest.importorskip("pandas")
    one = fits.difference(3, 5)
    assert_allclose(one.effect, fits.params.loc[3] - fits.params.loc[5])
    assert_allclose(one.sd, np.hypot(fits.bse.loc[3], fits.bse.loc[5]))
    # Welch's degrees of freedom: those of the two variances, by their fourth powers.
    each = [fits[group].inference.df for group in (3, 5)]
    fourth = fits.bse.loc[3] ** 4 / each[0] + fits.bse.loc[5] ** 4 / each[1]
    assert_allclose(one.df_denom, one.sd**4 / fourth)
    assert_allclose(one.pvalue, 2 * stats.t.sf(np.abs(one.effect / one.sd), one.df_denom))
    half = stats.t.ppf(0.95, one.df_denom) * one.sd
    assert_allclose(one.conf_int(0.1), np.transpose([one.effect - half, one.effect + half]))
    assert "3 less 5" in str(one)
    with pytest.raises(KeyError):
        fits.difference(3, 99)


def test_groups_that_are_refused(rng):
    """A group of noise alone has a refused fit, without numbers."""
    pytest.importorskip("pandas")
    releases = released(rng, tables(rng, [1.0, 1.2, 0.8]), 5.0)
    law = GaussianLaw(50.0, 70.0)
    releases["empty"] = make_release(-np.eye(3), NAMES, law, columns=COLUMNS, bound=2.0)
    fits = regress_groups(releases, "y", ["x"])
    assert "refused in 1" in str(fits).splitlines()[0]
    assert fits.groups[-1] == "empty"
    assert list(fits.refusals) == ["empty"]
    assert np.isnan(fits.params.loc["empty"]).all()
    assert fits["empty"].refusal == fits.refusals["empty"]
    refuses(lambda: fits.difference(0, 0), ValueError, "between two groups")
    refuses(lambda: fits.difference(0, "empty"), RefusedError, "no inference in one of the two")
    assert fits.get("unknown") is None
    assert fits.get(0) is fits[0]
    nothing = regress_groups({"empty": releases["empty"]}, "y", ["x"])
    assert list(nothing.refusals) == ["empty"]
    assert np.isnan(nothing.params).all(axis=None)


def test_no_group_has_no_fit():
    refuses(lambda: regress_groups({}, "y"), ValueError, "there is no group")
