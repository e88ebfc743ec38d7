"""The planner: its numbers are the mechanisms'."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram import mechanisms
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart
from privgram.planning.plan import _candidates, _name
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
    by_name = {row.mechanism: row for row in more.rows}
    assert [row for row in more.rows if row in plan.rows] == list(plan.rows)
    for mechanism in others:
        assert by_name[_name(mechanism)].noise == mechanism.calibrate(**SETTING).noise_std
        assert _name(mechanism) in str(more)
    # Under "replace" the printed noise is too little, and the plan says what it gives.
    assert by_name[_name(allowed)].remark == "not private: its delta is 2.8e-06"
    assert f"{_name(allowed)}: not private" in str(more)
    # What is recommended does not change: the others are the papers'.
    assert more.recommended == plan.recommended
    refuses(lambda: pg.plan(**SETTING, mechanisms=["sketch"]), TypeError, "such as AnalyzeGauss")


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


def test_text_and_dict(plan):
    assert repr(plan) == str(plan)
    for row in plan.rows:
        assert row.mechanism in str(plan)
    assert plan.reason in str(plan)
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["epsilon"] == 0.5


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


@pytest.mark.slow
def test_planning_reads_no_data():
    code = (
        "import sys, privgram as pg; pg.plan(5, 1.0, 1.0, 1e-6);"
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.split() == ["False", "False"]
