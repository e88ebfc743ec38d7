"""A study: one table, one unit, one budget; what it spends, refuses and shows."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.mechanisms import AdaptiveGaussian, AnalyzeGauss
from privgram.study.study import identity, table_name

COLUMNS = {"x": (0, 10), "y": (-5, 30), "g": ["a", "b"]}
BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def made(n=20_000):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, n)
    return {"x": x, "y": 2 * x + rng.normal(0, 1, n), "g": np.where(rng.random(n) < 0.3, "a", "b")}


@pytest.fixture
def study(tmp_path):
    return pg.Study(made(), COLUMNS, **BUDGET, ledger=tmp_path / "it.ledger")


def test_answers_are_charged_with_their_labels(study):
    fit = study.regress("y ~ x + g", epsilon=0.5, label="slope", rng=np.random.default_rng(1))
    released = study.release(epsilon=0.5, label="spring", rng=np.random.default_rng(2))
    # 40 standard errors of sampling, and 5 of both: a false alarm in a million.
    assert abs(fit.params["x"] - 2.0) < 5 * fit.bse["x"]
    assert isinstance(released.mechanism, AdaptiveGaussian)
    first, second = study.entries
    assert (first.label, first.columns, first.epsilon) == ("slope", ("x", "y", "g"), 0.5)
    assert (second.label, second.delta) == ("spring", 1e-6)
    assert first.when.endswith("+00:00")
    # Two of a half at the same delta, each Gaussian: less than one.
    assert 2.0 - 1.0 < study.remaining() < 2.0
    study.release(epsilon=study.remaining() - 1e-6)
    refuses(lambda: study.release(epsilon=0.01), pg.BudgetExceeded, r"epsilon=.* is left")
    assert len(study.entries) == 3


def test_budget_without_a_file_is_called_this_study():
    study = pg.Study({"x": np.zeros(50)}, {"x": (0, 1)}, epsilon=1.0, delta=1e-6)
    with pytest.raises(pg.BudgetExceeded, match=r"^over the budget of this study: "):
        study.release(epsilon=2.0)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_fit_for_predictions_prints_and_loads(tmp_path, family):
    """It has coefficients and no standard errors: its summary shows them, and its file is whole."""
    x = np.random.default_rng(0).uniform(0, 10, 5_000)
    table = {"x": x, "y": np.floor(x), "b": x > 5}
    study = pg.Study(table, {"x": (0, 10), "y": (0, 10), "b": bool}, **BUDGET)
    formula = "b ~ x" if family == "binomial" else "y ~ x"
    path = tmp_path / "fit.json"
    fit = study.regress(formula, epsilon=1.0, family=family, purpose="prediction", out=path)
    text = str(fit.summary())
    assert "no standard errors" in text
    assert "Standard errors cover" not in text
    assert "intervals allow" not in text
    refuses(lambda: fit.conf_int(), pg.RefusedError, r"^there is no inference: purpose")
    again = pg.load(path)
    assert str(again.summary()) == text
    assert np.array_equal(again.predict(table), fit.predict(table))


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x - 1"])
def test_predictions_are_numbers_where_standard_errors_are_refused(formula):
    """Without an intercept they come from a release, whose noise here leaves no standard errors."""
    rng = np.random.default_rng(1)
    table = {"x": rng.uniform(0, 10, 200), "y": rng.normal(size=200)}
    columns = {"x": (0, 10), "y": (-10, 10)}
    fit = pg.regress(table, formula, columns, 0.1, 1e-6, purpose="prediction", rng=rng)
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.predict(table)).all()


def test_basic_composition_shares_delta_as_it_shares_epsilon(tmp_path):
    made_so = pg.Study(
        made(), COLUMNS, **BUDGET, ledger=tmp_path / "it.ledger", composition="basic"
    )
    made_so.release(epsilon=0.5)
    assert made_so.entries[0].delta == pytest.approx(2.5e-7)
    made_so.release(epsilon=1.5)
    assert made_so.remaining() == 0.0


def test_remaining_budget_by_basic_composition_counts_delta_and_rounding(tmp_path):
    """More than that is refused; 1 - 0.7 is more than 0.3, as floats."""
    budget = {**BUDGET, "epsilon": 1.0, "composition": "basic"}
    one = pg.Study(made(), COLUMNS, **budget, ledger=tmp_path / "one.ledger")
    one.release(epsilon=0.7)
    assert 0.3 - 1e-4 <= one.remaining() <= 0.3
    one.release(epsilon=one.remaining())
    other = pg.Study(made(), COLUMNS, **budget, ledger=tmp_path / "other.ledger")
    other.release(epsilon=0.1, delta=8e-7)
    assert 0.2 - 1e-4 <= other.remaining() <= 0.2
    with pytest.raises(pg.BudgetExceeded):
        other.release(epsilon=0.201)
    other.release(epsilon=other.remaining())


def test_table_that_is_read_once_answers_once():
    """A second answer would be of the rest of the rows, where the first stopped at an error."""
    bad = {name: column[:2] for name, column in made().items()}
    bad["x"] = np.array([0.1, np.nan])
    once = pg.Study(iter([made(), bad, made()]), COLUMNS, **BUDGET, missing="error")
    refuses(lambda: once.release(epsilon=0.5), ValueError, "missing")
    refuses(lambda: once.release(epsilon=0.5), ValueError, "make a study of a new iterator")
    assert once.entries == ()
    again = pg.Study(iter([made()]), COLUMNS, **BUDGET, ledger=once.ledger)
    again.release(epsilon=0.5)
    assert len(once.entries) == 1


def test_ledger_that_is_gone_is_not_made_anew(tmp_path):
    """Its budget would be whole again."""
    study = pg.Study(made(), COLUMNS, **BUDGET, ledger=tmp_path / "it.ledger")
    study.release(epsilon=2.0)
    study.ledger.path.unlink()
    with pytest.raises(FileNotFoundError):
        pg.Study(made(), COLUMNS, **BUDGET, ledger=study.ledger)
    with pytest.raises(FileNotFoundError):
        pg.regress(made(), "y ~ x", COLUMNS, **BUDGET, ledger=study.ledger)


def test_one_regression_leaves_no_budget_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pg.regress(made(), "y ~ x", COLUMNS, **BUDGET)
    assert not list(tmp_path.iterdir())


def test_arguments_of_a_wrong_type_are_refused(study):
    refuses(lambda: study.release(epsilon=0.1, delta="small"), TypeError, "delta must be a number")
    refuses(lambda: study.plan("y ~ x", target_se=0.1), TypeError, "target_se is a mapping")
    assert study.entries == ()


def test_path_is_no_ledger_of_one_regression(tmp_path):
    with pytest.raises(TypeError, match=r"such as Ledger\(path\)"):
        pg.regress(made(), "y ~ x", COLUMNS, **BUDGET, ledger=tmp_path / "it.ledger")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"columns": {"x": (0, 10)}}, "another study"),
        ({"unit": "person"}, "another study"),
        ({"name": "else"}, "another study"),
        ({"adjacency": "add-remove"}, "adjacency"),
        ({"epsilon": 3.0}, "epsilon"),
    ],
)
def test_one_ledger_is_of_one_study(study, other, words):
    asked = {"columns": COLUMNS, **BUDGET, "ledger": study.ledger.path} | other
    columns = asked.pop("columns")
    with pytest.raises(ValueError, match=words):
        pg.Study(made() | {"person": np.arange(4)}, columns, **asked)
    assert not study.entries


def test_ledger_without_a_table_is_of_the_first_study_that_spends(tmp_path):
    ledger = pg.Ledger(tmp_path / "it.ledger", 2.0, 1e-6)
    first = pg.Study(made(), COLUMNS, **BUDGET, ledger=ledger)
    second = pg.Study(made(), COLUMNS, **BUDGET, ledger=ledger, name="else")
    first.release(epsilon=0.1)
    refuses(lambda: second.release(epsilon=0.1), ValueError, "another study")
    assert len(ledger.entries) == 1


def test_bounds_may_be_mended(study):
    again = pg.Study(made(), COLUMNS | {"x": (0, 20)}, **BUDGET, ledger=study.ledger.path)
    again.release(epsilon=0.1)
    assert len(study.entries) == 1


def test_table_name_is_public():
    assert (
        table_name("data/people.parquet") == table_name(Path("/elsewhere/people.csv")) == "people"
    )
    assert table_name("people/*.csv") == "people"
    assert table_name(made(10)) == "table"
    assert identity("t", ["b", "a"], None) == identity("t", ["a", "b"], None)
    assert identity("t", ["a"], None) != identity("t", ["a"], "a")


def test_without_a_ledger_it_says_that_the_budget_ends(study):
    alone = pg.Study(made(), COLUMNS, **BUDGET)
    assert "ends with the process" in repr(alone)
    assert "ends with the process" not in repr(study)
    assert not alone.durable


@pytest.mark.slow
def test_budget_of_a_process_is_gone_after_it():
    code = (
        "import privgram as pg\n"
        "study = pg.Study({'x': [0.5] * 9}, {'x': (0, 1)}, epsilon=1.0, delta=1e-6)\n"
        "print(study.ledger.path)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).parent.exists()


def test_one_round_where_rounds_are_worth_nothing(study):
    assert isinstance(study.release(0.1, purpose="means").mechanism, AnalyzeGauss)
    stream = pg.Study(iter([made(9000)]), COLUMNS, **BUDGET)
    assert isinstance(stream.release(1.0).mechanism, AnalyzeGauss)
    groups = study.release(0.2, by="g")
    assert list(groups) == ["a", "b"]
    assert "g[a]" not in groups["a"].names
    refuses(lambda: study.release(0.1, purpose="else"), ValueError, "purpose")


def test_bad_questions_cost_nothing(study, tmp_path):
    for ask in (
        lambda: study.regress("y ~ z", epsilon=0.1),
        lambda: study.regress("y ~ x", epsilon=0.1, family="poisson"),
        lambda: study.regress("y ~ x"),
        lambda: study.release(),
        lambda: study.release(-1.0),
        lambda: study.release(0.1, out=tmp_path / "none" / "it.json"),
        lambda: study.release(0.1, by="x"),
        lambda: study.release(5.0),
    ):
        with pytest.raises((ValueError, TypeError, OSError)):
            ask()
    assert not study.entries


def test_without_columns_it_says_what_to_do():
    refuses(lambda: pg.Study(made(9), **BUDGET), ValueError, "describe the columns")
    refuses(lambda: pg.regress(made(9), "y ~ x", **BUDGET), ValueError, "describe the columns")


# Attacks: no way to spend twice, to have an answer that was not charged, or the same noise twice.


def test_copies_spend_one_budget(study):
    for again in (pickle.loads(pickle.dumps(study)), copy.deepcopy(study), copy.copy(study)):
        again.release(epsilon=0.6)
    with pytest.raises(pg.BudgetExceeded):
        study.release(epsilon=1.8)
    assert len(study.entries) == 3


def test_release_says_which_way_and_why(study):
    paid = study.release(0.2)
    assert (paid.method, paid.reason) == ("adaptive rounds", "the table can be read again")
    assert study.release(0.1, purpose="means").reason.startswith("for means")
    stream = pg.Study(iter([made(9000)]), COLUMNS, **BUDGET)
    paid = stream.release(1.0)
    assert (paid.method, paid.reason) == ("one round", "the table can be read once only")
    asked = study.release(0.1, mechanism="analyze-gauss")
    assert asked.method.startswith("AnalyzeGauss")
    assert asked.reason == "as it was asked for"


def test_without_a_constant_a_regression_goes_through_the_origin(tmp_path):
    """Of own units, whatever the bounds are: `- 1` is answered, and never paid for in vain."""
    rng = np.random.default_rng(4)
    x = rng.uniform(10, 20, 20_000)
    table = {"x": x, "y": 3 * x + rng.normal(0, 1, len(x))}
    for upper in (20, 60):
        study = pg.Study(table, {"x": (5, upper), "y": (0, 90)}, epsilon=4.0, delta=1e-6)
        fit = study.regress("y ~ x - 1", epsilon=4.0)
        assert list(fit.params.index) == ["x"]
        assert fit.params["x"] == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("formula", ["y ~ poly(x, 2) + g*x", "g ~ x", "y ~ y", "y ~ x | y ~ x"])
@pytest.mark.parametrize("unit", [None, "who"])
def test_formula_that_no_fit_takes_is_refused_before_anything_is_spent(formula, unit):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=300), "y": rng.normal(size=300), "g": np.repeat(["a", "b"], 150)}
    bounds = {"x": (-4, 4), "y": (-4, 4), "g": ["a", "b"]}
    study = pg.Study(table | {"who": np.arange(300)}, bounds, epsilon=1, delta=1e-6, unit=unit)
    with pytest.raises(ValueError, match=r"two terms|factor|among the features|twice|own|role"):
        study.regress(formula, epsilon=0.5)
    assert study.entries == ()


@pytest.mark.parametrize("options", [{}, {"loss": "huber"}, {"mechanism": pg.AnalyzeGauss()}])
def test_array_has_the_columns_of_the_study_and_a_formula_some(options):
    """It said: zip() argument 2 is longer than argument 1."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (4000, 3))
    bounds = {"x": (0, 1), "z": (0, 1), "y": (0, 1)}
    array = pg.Study(x, bounds, epsilon=4, delta=1e-6)
    named = pg.Study(dict(zip(bounds, x.T, strict=True)), bounds, epsilon=4, delta=1e-6)
    fits = [
        study.regress("y ~ x", epsilon=1, rng=np.random.default_rng(1), **options)
        for study in (array, named)
    ]
    np.testing.assert_array_equal(*(fit.params for fit in fits))
    assert array.release(epsilon=1, terms=["z"]).names == ("z", "intercept")
    assert array.plan("y ~ z", epsilon=1)["z"].sampling > 0


def test_array_of_other_columns_is_refused_before_anything_is_spent():
    bounds = {"x": (0, 1), "z": (0, 1), "y": (0, 1)}
    for width in (2, 4):
        study = pg.Study(np.zeros((100, width)), bounds, epsilon=4, delta=1e-6)
        for ask in (study.regress, study.plan):
            with pytest.raises(ValueError, match=f"describes 3 columns and the array has {width}"):
                ask("y ~ x", epsilon=1)
        assert study.entries == ()


def test_column_may_be_called_as_an_attribute_of_a_moment_is():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"sensitivity_bound": np.linspace(0, 1, 1000)})
    columns = {"sensitivity_bound": (0, 1)}
    study = pg.Study(table, columns, epsilon=1.0, delta=1e-6)
    assert study.release(1.0).n_rows == 1000
    assert pg.release(table, columns, epsilon=1.0, delta=1e-6).n_rows == 1000


def test_misspelt_column_of_a_frame_is_refused_when_the_study_is_made():
    pandas, polars, pa = map(pytest.importorskip, ("pandas", "polars", "pyarrow"))
    table = {"age": [30.0, 40.0], "who": [1, 2]}
    for make in (dict, pandas.DataFrame, polars.DataFrame, pa.table):
        given = {"epsilon": 1.0, "delta": 1e-6}
        pg.Study(make(table), {"age": (0, 99)}, unit=pg.Unit("who", max_rows=1), **given)
        with pytest.raises(ValueError, match=r"no column named 'agee'; did you mean 'age'\?"):
            pg.Study(make(table), {"agee": (0, 99)}, **given)
        with pytest.raises(ValueError, match="no column named 'whose'; did you mean 'who'"):
            pg.Study(make(table), {"age": (0, 99)}, unit=pg.Unit("whose", max_rows=1), **given)
