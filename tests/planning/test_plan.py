"""Mechanisms compared: their numbers are the mechanisms' own."""

import json

import pytest
from support.helpers import refuses

import privgram as pg
from privgram import mechanisms
from privgram.papers import sheffet
from privgram.papers.sheffet import GaussianSketch, InverseWishart
from privgram.privacy import Guarantee

SETTING = {"n_columns": 22, "bound": 3.0, "epsilon": 0.5, "delta": 1e-6}


def test_noise_is_the_mechanisms_own():
    allowed = sheffet.published(pg.AnalyzeGauss(), allow_published_erratum=True)
    others = [pg.AdditiveWishart(), GaussianSketch(10_000), InverseWishart(10_000), allowed]
    plan = pg.plan(**SETTING, mechanisms=iter(others))
    ours = [pg.AnalyzeGauss(), pg.MatrixLaplace()]
    stds = [one.calibrate(**SETTING).noise_std for one in (*ours, *others)]
    assert [row.noise for row in plan.rows] == sorted(stds)
    # Under "replace" the printed noise is too little, and the plan says what it gives.
    (doubted,) = (row for row in plan.rows if row.remark)
    assert doubted.remark == "not private: its delta is 2.8e-06"
    assert repr(plan) == str(plan)
    assert all(row.mechanism in str(plan) and row.remark in str(plan) for row in plan.rows)
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["epsilon"] == 0.5
    refuses(lambda: pg.plan(**SETTING, mechanisms=["sketch"]), TypeError, "such as AnalyzeGauss")


def test_refusals_are_remarks():
    """Theorem 4.1 is stated for epsilon below 1; Analyze Gauss's covers a row added."""
    for mechanism, reason, setting in (
        (sheffet.PublishedAdditiveWishart(), "is for epsilon in (0, 1)", {"epsilon": 2.0}),
        (sheffet.PublishedAnalyzeGauss(), "B^4 is the squared sensitivity for adding", {}),
    ):
        plan = pg.plan(**(SETTING | setting), mechanisms=[mechanism])
        (row,) = (row for row in plan.rows if row.noise is None)
        assert reason in row.remark
        assert row.remark in str(plan)


@pytest.mark.parametrize("n_rows", [None, 40, 10**6])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_the_default_is_recommended(n_rows, adjacency):
    for n_columns, epsilon, delta in ((1, 0.5, 1e-6), (12, 4.0, 1e-3), (3, 1.0, 0.0)):
        guarantee = Guarantee(epsilon, delta, adjacency, None)
        taken = mechanisms.default(guarantee, n_columns, 1.5)
        plan = pg.plan(n_columns, 1.5, epsilon, delta, n_rows, adjacency)
        assert plan.recommended == f"{type(taken).__name__}()"
        assert [row.mechanism for row in plan.rows if not delta] in ([], ["MatrixLaplace()"])


def test_columns_are_taken_with_their_bound():
    columns = pg.Columns({"a": (0, 1), "b": (-2, 5)}, intercept=True)
    by_hand = pg.plan(3, columns.bound, 1.0, 1e-6)
    assert pg.plan(columns, epsilon=1.0, delta=1e-6) == by_hand
    assert pg.plan(columns, 1.0, 1.0, 1e-6).bound == 1.0
    refuses(lambda: pg.plan(columns, delta=1e-6), TypeError, "epsilon must be a number")
    refuses(lambda: pg.plan(columns, epsilon=1.0), TypeError, "delta must be a number")
    refuses(lambda: pg.plan(3, epsilon=1.0, delta=1e-6), TypeError, "bound must be a number")
