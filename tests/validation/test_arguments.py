"""What callers pass by mistake: one clear error, before anything is spent or written."""

import copy
import pickle
from dataclasses import astuple
from decimal import Decimal
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
from support.helpers import make_release, refuses

import privgram as pg
from privgram._base.numbers import check_number
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart

NUMBERS = [2, 2.0, True + 1, np.float32(2), np.int8(2), np.array(2.0), Fraction(2), Decimal(2)]
OTHERS = ["2", b"2", None, [2.0], np.array([2.0]), 2j, object()]


@pytest.fixture(scope="module")
def moment():
    return pg.second_moment(np.random.default_rng(1).uniform(-1, 1, (500, 3)), bound=2.0)


def test_order_of_what_is_asked():
    """By position what comes first in a sentence; all else by its name."""
    given = signature(pg.release).parameters
    assert list(given)[:4] == ["source", "columns", "epsilon", "delta"]
    assert all(one.kind is one.KEYWORD_ONLY for one in list(given.values())[4:])
    assert len(given) <= 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (lambda: GaussianSketch(np.int64(100), np.True_), GaussianSketch(100, True)),
        (lambda: pg.AdditiveWishart(np.int64(3000)), pg.AdditiveWishart(3000)),
        (lambda: pg.AdditiveWishart(scale=np.float32(8)), pg.AdditiveWishart(scale=8.0)),
        (lambda: InverseWishart(np.array(100.0)), InverseWishart(100.0)),
        (lambda: InverseGauss(Fraction(50)), InverseGauss(50.0)),
    ],
)
def test_release_can_be_saved_whatever_numbers_made_its_mechanism(moment, tmp_path, make, plain):
    """Found out after the release, it would be budget lost."""
    path = tmp_path / "release.json"
    pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=make()).save(path)
    assert pg.load(path).mechanism == plain
    assert all(type(a) is type(b) for a, b in zip(astuple(make()), astuple(plain), strict=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pg.AdditiveWishart(debias="no"),
        lambda: GaussianSketch(100, adaptive="false"),
        lambda: GaussianSketch(100, keep_rows=1),
        lambda: InverseWishart(100, adaptive=None),
    ],
)
def test_argument_that_is_no_truth_value_is_named(make):
    refuses(make, TypeError, "must be True or False, not")


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_numbers_of_any_type(value):
    assert check_number(value, "epsilon") == 2.0
    assert type(check_number(value, "epsilon")) is float


def test_numbers_too_large_for_a_float():
    assert check_number(10**400, "epsilon") == np.inf
    assert check_number(-(10**400), "epsilon") == -np.inf


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_argument_that_is_no_number_is_named(moment, tmp_path, name, value):
    wrong = {"epsilon": 1.0, "delta": 1e-6} | {name: value}
    with pytest.raises(TypeError, match=f"{name} must be a number, not"):
        pg.release(moment, mechanism=pg.AnalyzeGauss(), **wrong)
    if value is not None:
        path = tmp_path / "study.ledger"
        refuses(lambda: pg.Ledger(path, **wrong), TypeError, f"{name} must be a number, not")
        assert not path.exists()


def test_guarantee_given_as_arrays_of_one_number(moment):
    release = pg.release(moment, None, np.array(1.0), np.float32(0.5), mechanism=pg.AnalyzeGauss())
    assert (type(release.epsilon), type(release.delta)) == (float, float)
    assert release.epsilon == 1.0


@pytest.mark.parametrize("call", ["save", "ledger"])
def test_folder_that_is_not_there_is_named_alone(tmp_path, call):
    path = tmp_path / "none" / "x.json"
    with pytest.raises(FileNotFoundError) as caught:
        make_release(np.eye(2), ("a", "b")).save(path) if call == "save" else pg.Ledger(
            path, 1, 0.5
        )
    assert str(caught.value) == f"there is no folder {path.parent}: make it, or name another"


def test_columns_by_numbers_that_are_no_positions():
    release = make_release(np.eye(2), ("a", "b"))
    assert release.index(np.int64(1)) == 1
    for wrong in (0.0, 1.5, None):
        with pytest.raises(TypeError, match="name or position"):
            release.index(wrong)
    assert release.marginal("b").names == ("b",)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_copies_are_read_only_too(again):
    release = again(make_release(np.eye(2), ("a", "b")))
    assert not release.matrix.flags.writeable


def test_prediction_names_the_column_it_lacks():
    pandas = pytest.importorskip("pandas")
    fit = make_release(np.eye(3) * 1000 + 1, ("a", "b", "y")).regress("y", ["a", "b"])
    with pytest.raises(ValueError, match="no column 'b'"):
        fit.predict(pandas.DataFrame({"a": [1.0], "c": [1.0]}))
