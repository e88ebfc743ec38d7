"""The planner: its numbers are the mechanisms', its sample sizes hold."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import privgram as pg
from privgram import mechanisms
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart
from privgram.planning.plan import _candidates, _coefficients, _correlated, _error, _name, _rows_for
from privgram.privacy import Guarantee

SETTING = {"n_columns": 22, "bound": 3.0, "epsilon": 0.5, "delta": 1e-6}


@pytest.fixture(scope="module")
def plan():
    return pg.plan(**SETTING)


@pytest.mark.slow
def test_noise_is_the_mechanisms_own(plan):
    for mechanism in _candidates(1e-6):
        (row,) = (row for row in plan.rows if row.mechanism == _name(mechanism))
        assert row.noise == mechanism.calibrate(**SETTING).noise_std


def test_others_are_compared_when_asked_for(plan):
    allowed = sheffet.published(pg.AnalyzeGauss(), allow_published_erratum=True)
    others = [GaussianSketch(10_000), InverseWishart(10_000), allowed]
    more = pg.plan(**SETTING, mechanisms=iter(others))
    found = {row.mechanism: row for row in more.rows}
    assert [row for row in more.rows if row in plan.rows] == list(plan.rows)
    for mechanism in others:
        assert found[_name(mechanism)].noise == mechanism.calibrate(**SETTING).noise_std
        assert _name(mechanism) in str(more)
    # Under "replace" the printed noise is too little, and the plan says what it gives.
    assert found[_name(allowed)].remark == "not private: its delta is 2.8e-06"
    assert f"{_name(allowed)}: not private" in str(more)
    # What is recommended does not change: the others are the papers'.
    assert more.recommended == plan.recommended
    with pytest.raises(TypeError, match="such as AnalyzeGauss"):
        pg.plan(**SETTING, mechanisms=["sketch"])


@pytest.mark.parametrize("error", [0.1, 0.01, 1e-3])
def test_rows_are_the_fewest(error):
    """The level is reached at that number, and not at one 0.2 % below it."""
    rows = round(1 / error**2)  # a sketch of r rows errs by sqrt(1 / (2 r)) by itself
    for mechanism in (*_candidates(1e-6), GaussianSketch(rows), InverseWishart(rows)):
        record = mechanism.calibrate(**SETTING)
        n = _rows_for(record, error)
        assert _error(record, n) <= error < _error(record, math.floor(n * 0.998) - 1)


@pytest.mark.slow
def test_error_is_that_of_simulated_regressions():
    """First order against 2,000 regressions of 5 coefficients; 5 sigma of their spread is 4 %."""
    rng = np.random.default_rng(20261)
    d, n = 6, 40_000
    coef = _coefficients(d)
    gram = n * _correlated(coef)
    for mechanism in (*_candidates(1e-6), GaussianSketch(1112), InverseWishart(1112)):
        record = mechanism.calibrate(d, 2.0, 1.0, 1e-6)
        errors = []
        for _ in range(2000):
            released = record.law.draw(gram + record.law.shift * np.eye(d), rng)
            estimate = released - record.law.shift * np.eye(d)
            errors.append(np.linalg.solve(estimate[:-1, :-1], estimate[:-1, -1]) - coef)
        simulated = np.sqrt(np.mean(np.square(errors)))
        assert simulated == pytest.approx(_error(record, n), rel=0.04)


@pytest.mark.slow
def test_noise_and_rows_scale_with_the_squared_bound():
    small, large = (pg.plan(10, bound, 1.0, 1e-6) for bound in (1.0, 2.0))
    for a, b in zip(small.rows, large.rows, strict=True):
        assert b.noise == pytest.approx(4 * a.noise, rel=1e-9)
        assert b.needed == pytest.approx(4 * a.needed, rel=3e-3)


def test_sketch_of_few_rows_never_reaches_the_level():
    record = GaussianSketch(100).calibrate(**SETTING)
    assert _rows_for(record, 0.5 / math.sqrt(100)) is None


@pytest.mark.slow
@pytest.mark.parametrize(("times", "pays"), [(0.3, False), (3.0, True)])
def test_adaptive_sketch_pays_where_it_says(times, pays):
    """A real release of G = n/3 I, with the eigenvalue below and above what it says."""
    setting = {"bound": 1.0, "epsilon": 1.0, "delta": 1e-6}
    eigenvalue = sheffet.adaptive_pays(400, 3, **setting)
    moment = pg.second_moment(np.tile(np.eye(3), (round(times * eigenvalue), 1)), bound=1.0)
    sketch = GaussianSketch(400, adaptive=True)
    released = pg.release(moment, None, 1.0, 1e-6, rng=np.random.default_rng(5), mechanism=sketch)
    plain = GaussianSketch(400).calibrate(3, **setting).regulariser
    assert (released.parameters["adjusted_regulariser"] < plain) is pays


def test_one_column():
    assert all(row.noise > 0 for row in pg.plan(1, 1.0, 1.0, 1e-6).rows)


@pytest.mark.slow
def test_few_rows_call_for_a_positive_definite_release():
    assert pg.plan(**SETTING, n_rows=100).recommended == "AdditiveWishart()"
    assert pg.plan(**SETTING, n_rows=10**8).recommended == "AnalyzeGauss()"
    assert "positive definite" in pg.plan(**SETTING, n_rows=100).reason


@pytest.mark.slow
def test_published_refusals_are_remarks():
    """Theorem 4.1 is stated for epsilon below 1."""
    plan = pg.plan(22, 3.0, 2.0, 1e-6, mechanisms=[sheffet.PublishedAdditiveWishart()])
    (row,) = (row for row in plan.rows if row.mechanism == "PublishedAdditiveWishart()")
    assert row.noise is None
    assert "the theorem is for epsilon in (0, 1)" in row.remark
    assert row.remark in str(plan)


@pytest.mark.slow
def test_published_constants_that_are_not_private_are_remarks():
    """Analyze Gauss's covers a row added, and a row replaced only where it has room to spare."""
    for adjacency, private in (("replace", False), ("add-remove", True)):
        plan = pg.plan(**SETTING, adjacency=adjacency, mechanisms=[sheffet.PublishedAnalyzeGauss()])
        rows = {row.mechanism: row for row in plan.rows}
        printed = rows["PublishedAnalyzeGauss()"]
        if private:
            assert printed.noise > rows["AnalyzeGauss()"].noise
        else:
            assert printed.noise is None
            assert "B^4 is the squared sensitivity for adding" in printed.remark
            assert printed.remark in str(plan)


def test_adjacency_matters():
    replace, add = (pg.plan(**SETTING, adjacency=a) for a in ("replace", "add-remove"))
    exact = [{row.mechanism: row.noise for row in p.rows}["AnalyzeGauss()"] for p in (replace, add)]
    assert exact[0] == pytest.approx(math.sqrt(2) * exact[1], rel=1e-9)


def test_text_and_dict(plan):
    assert repr(plan) == str(plan)
    for row in plan.rows:
        assert row.mechanism in str(plan)
    assert plan.reason in str(plan)
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["epsilon"] == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_columns": 0}, "n_columns"),
        ({"bound": -1.0}, "bound"),
        ({"bound": math.inf}, "bound"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"adjacency": "neighbours"}, "adjacency"),
        ({"n_rows": 0}, "n_rows"),
        ({"error": 0.0}, "error"),
    ],
)
def test_bad_parameters_raise(change, message):
    with pytest.raises(ValueError, match=message):
        pg.plan(**SETTING | change)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [None, 40, 400, 10**6])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_default_of_a_release_is_what_the_plan_says(n_rows, adjacency):
    for n_columns, epsilon, delta in ((1, 0.5, 1e-6), (4, 1.0, 1e-9), (12, 4.0, 1e-3)):
        guarantee = Guarantee(epsilon, delta, adjacency, None)
        taken = mechanisms.default(guarantee, n_columns, 1.5, n_rows)
        planned = pg.plan(n_columns, 1.5, epsilon, delta, n_rows, adjacency)
        assert _name(taken) == planned.recommended


@pytest.mark.parametrize("n_rows", [50, 5000])
def test_release_takes_the_default(rng, n_rows):
    moment = pg.second_moment(rng.uniform(-1, 1, (n_rows, 3)), bound=2.0)
    release = pg.release(moment, epsilon=1.0, delta=1e-6)
    recommended = pg.plan(3, 2.0, 1.0, 1e-6, n_rows).recommended
    assert _name(release.mechanism) == recommended
    assert recommended == ("AdditiveWishart()" if n_rows == 50 else "AnalyzeGauss()")
    with pytest.raises(TypeError, match="epsilon must be a number, not missing"):
        pg.release(moment, mechanism=pg.AnalyzeGauss())


@pytest.mark.parametrize(
    ("names", "mechanism"),
    [
        (("AnalyzeGauss", "analyze-gauss", "analyzegauss", "analyze_gauss"), pg.AnalyzeGauss()),
        (("AdditiveWishart", "additive-wishart", "ADDITIVE-WISHART"), pg.AdditiveWishart()),
        (("InverseWishart", "inverse-wishart"), InverseWishart()),
    ],
)
def test_one_name_for_one_mechanism(rng, names, mechanism):
    moment = pg.second_moment(rng.uniform(-1, 1, (500, 3)), bound=2.0)
    for name in names:
        assert mechanisms.named(name) == mechanism
        assert pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=name).mechanism == mechanism
    for wrong, error, message in (
        ("magic", ValueError, "there is no mechanism 'magic'; there are analyze-gauss"),
        ("gaussian-sketch", ValueError, r"needs a parameter: GaussianSketch\(rows=...\)"),
        (type(mechanism), TypeError, r"add \(\)"),
        (3, TypeError, "such as AnalyzeGauss"),
    ):
        with pytest.raises(error, match=message):
            pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=wrong)


def test_columns_are_taken_with_their_bound():
    columns = pg.Columns({"a": (0, 1), "b": (-2, 5)}, intercept=True)
    by_hand = pg.plan(3, columns.bound, 1.0, 1e-6)
    assert pg.plan(columns, epsilon=1.0, delta=1e-6) == by_hand
    assert pg.plan(columns, 1.0, 1.0, 1e-6).bound == 1.0
    for missing in ({"delta": 1e-6}, {"epsilon": 1.0}):
        with pytest.raises(TypeError, match="must be a number, not missing"):
            pg.plan(columns, **missing)
    with pytest.raises(TypeError, match="bound must be a number, not missing"):
        pg.plan(3, epsilon=1.0, delta=1e-6)


def test_rows_grow_as_what_the_others_leave_of_a_feature_shrinks():
    """1/v, as the note says: features of mean square v instead of 1, simulated to first order."""
    record = pg.AnalyzeGauss().calibrate(4, 2.0, 1.0, 1e-6)
    for v in (0.1, 0.003):
        n = _rows_for(record, 0.01)
        coef = np.full(3, math.sqrt(0.5 / 3))
        gram = n / v * np.diag([v, v, v, 1.0])
        errors = []
        rng = np.random.default_rng(7)
        for _ in range(2000):
            noise = record.law.draw(gram, rng) - gram
            errors.append(np.linalg.solve(gram[:3, :3], noise[:3, :3] @ coef - noise[:3, 3]))
        # 6,000 numbers: 5 deviations of their spread are 5 %.
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(0.01, rel=0.06)


@pytest.mark.slow
def test_plot(plan, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    # tests/cli plots those of matrix Laplace too, whose calibrations take most of the time.
    plan = replace(plan, mechanisms=plan.mechanisms[:2])
    ax = pyplot.figure().add_subplot()
    assert plan.plot(ax) is ax
    assert len(ax.get_legend().get_texts()) == 2
    assert plan.plot().get_xlabel() == "epsilon"
    pyplot.close("all")
    plan.plot(tmp_path / "noise.png")
    assert (tmp_path / "noise.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_plot_names_its_extra(plan, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"privgram\[plot\]"):
        plan.plot(tmp_path / "noise.png")


@pytest.mark.slow
def test_planning_reads_no_data():
    code = (
        "import sys, privgram as pg; pg.plan(5, 1.0, 1.0, 1e-6);"
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["False", "False"]
