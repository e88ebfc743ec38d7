"""Releases of several tables added up, and whatever was saved read back by one function."""

import math

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.papers.sheffet import GaussianSketch
from privgram.privacy import compose
from privgram.releases.groups import Releases
from privgram.releases.record import check_independent

COLUMNS = pg.Columns({"x": (-1, 1), "y": (-2, 2)}, intercept=True, missing="error")


def table(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.column_stack([x, np.clip(0.7 * x + rng.normal(size=n) / 3, -2, 2)])


def made(n=4000, seed=0, **options):
    settings = {"epsilon": 1.0, "delta": 1e-6, "mechanism": pg.AnalyzeGauss()} | options
    return pg.release(table(n, seed), COLUMNS, rng=np.random.default_rng(seed), **settings)


def test_sum_is_a_release_of_all_rows(tmp_path):
    january, february = made(4000, 1), made(6000, 2)
    january.save(tmp_path / "january.json")
    february.save(tmp_path / "february.npz")
    parts = [pg.load(tmp_path / name) for name in ("january.json", "february.npz")]
    both = pg.pool(parts, disjoint=True)
    np.testing.assert_array_equal(both.matrix, january.matrix + february.matrix)
    assert (both.epsilon, both.delta, both.n_rows) == (1.0, 1e-6, 10_000)
    assert both.privacy == january.privacy
    assert "nobody has rows in two of the 2 tables" in repr(both)
    np.testing.assert_allclose(
        both.noise.independent(3), january.noise.independent(3) + february.noise.independent(3)
    )
    fit, alone = both.regress("y"), january.regress("y")
    assert abs(fit.params[0] - 0.7) < 5 * fit.bse[0]
    assert fit.bse[0] < alone.bse[0]
    both.save(tmp_path / "both.json")
    again = pg.load(tmp_path / "both.json")
    assert (again.condition, again.n_rows, again.privacy) == (both.condition, 10_000, both.privacy)


@pytest.mark.parametrize(
    "mechanism", [pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace()], ids=str
)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_without_the_statement_the_guarantee_is_of_all_together(mechanism, adjacency):
    options = {"mechanism": mechanism, "adjacency": adjacency}
    options["delta"] = 0.0 if isinstance(mechanism, pg.MatrixLaplace) else 1e-6
    parts = [made(seed=i, **options) for i in (3, 4)]
    both = pg.pool(parts)
    assert (both.epsilon, both.delta) == (2.0, 2 * options["delta"])
    assert both.condition is None
    assert both.privacy == compose(parts)
    apart = pg.pool(parts, disjoint=True)
    for epsilon in (0.2, 1.0, 1.7):  # a neighbour is one of either part's
        worst = max(one.charged.delta(epsilon) for one in parts)
        assert math.isclose(apart.charged.delta(epsilon), worst, rel_tol=1e-9, abs_tol=1e-300)
        assert apart.charged.delta(epsilon) <= both.charged.delta(epsilon)


def test_worst_of_several_guarantees():
    small, large = made(seed=1, epsilon=0.5), made(seed=2, epsilon=2.0, delta=1e-8)
    for parts in ([small, large], [large, small]):
        both = pg.pool(parts, disjoint=True)
        assert (both.epsilon, both.delta) == (2.0, 1e-6)
        for epsilon in (0.1, 0.5, 2.0):
            assert both.privacy.delta(epsilon) >= small.privacy.delta(epsilon)
            assert both.privacy.delta(epsilon) >= large.privacy.delta(epsilon)
    assert both.reproducible


def test_units_add_up_where_nobody_is_in_both():
    rows = {"x": np.linspace(-1, 1, 90), "y": np.linspace(2, -2, 90), "id": np.arange(90) // 3}
    parts = [pg.release(rows, COLUMNS, 1.0, 1e-6, unit=pg.Unit("id", max_rows=3)) for _ in range(2)]
    both = pg.pool(parts, disjoint=True)
    assert (both.n_units, both.n_rows) == (60, None)
    assert "no 'id' has rows in two" in both.condition
    assert pg.pool(parts).n_units is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (lambda: made(seed=1, adjacency="add-remove"), "differ in adjacency"),
        (lambda: made(seed=1, mechanism=pg.AdditiveWishart()), "differ in mechanism"),
        (lambda: made(seed=1, bound=1.0), "differ in bound"),
        (lambda: made(), "given twice"),
    ],
)
def test_releases_that_do_not_add_up(other, said):
    refuses(lambda: pg.pool([made(), other()], disjoint=True), ValueError, said)


def test_objects_that_are_no_releases():
    refuses(lambda: pg.pool([3]), TypeError, "not int")
    refuses(lambda: pg.pool([]), ValueError, "nothing to pool")
    two = [made(seed=i, mechanism=GaussianSketch(400)) for i in (1, 2)]
    refuses(lambda: pg.pool(two), ValueError, r"releases add up.*mechanism=pg.AnalyzeGauss")
    laplace = {"delta": 0.0, "mechanism": pg.MatrixLaplace()}
    two = [made(seed=i, epsilon=float(i), **laplace) for i in (1, 2)]
    refuses(lambda: pg.pool(two), ValueError, r"noise of the releases has several scales.*at one")


def test_groups_in_one_table(tmp_path):
    pytest.importorskip("pandas")
    rows = {"x": table(400, 0)[:, 0], "y": table(400, 0)[:, 1], "g": np.arange(400) % 2}
    named = pg.Columns({"x": (-1, 1), "y": (-2, 2), "g": pg.Factor([0, 1])}, intercept=True)
    many = pg.release(rows, named, 1.0, 1e-6, by="g")  # whose levels the columns have
    assert (many.names, list(many)) == (("x", "y", "intercept"), [0, 1])
    many.save(tmp_path / "many.json")
    again = pg.load(tmp_path / "many.json")
    assert isinstance(again, Releases)
    frame = again.frame()
    assert (frame.shape, frame.index.names[0]) == ((6, 3), "g")
    np.testing.assert_array_equal(frame.loc[1], many[1].matrix)


def test_file_of_nothing_that_was_saved(tmp_path):
    path = tmp_path / "other.json"
    for text in ("{}", "[]", "not json", '{"format": 3}', '{"format": "privgram-other"}'):
        path.write_text(text)
        refuses(lambda: pg.load(path), DamagedFile, "not a release")
    refuses(lambda: pg.load(tmp_path / "nothing.json"), OSError, "nothing")


def test_part_of_a_release_has_its_noise():
    one, other = made(seed=0), made(seed=1)
    part = one.marginal(["y", "x"])
    for shares in (part, part.marginal(["x"]), pg.pool([one, other]).marginal(["x"])):
        with pytest.raises(ValueError, match="given twice"):
            check_independent([one, shares])
    check_independent([other, part])
