"""What was paid for is never lost: refused before it, or an answer or a refused fit after it."""

import math
import os
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import NotSavedWarning

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, 6000)
TABLE = {"x": X, "y": 2 * X + RNG.normal(0, 1, 6000), "b": X > 5, "who": np.arange(6000) // 3}
COLUMNS = {"x": (0, 10), "y": (-5, 30), "b": bool}


def blocks(n=6000):
    return [{name: v[i : i + 1500] for name, v in TABLE.items()} for i in range(0, n, 1500)]


class Iterable:
    """Blocks, in as many passes as there are lengths; the last goes on."""

    def __init__(self, *lengths):
        self.lengths = list(lengths)

    def __iter__(self):
        return iter(blocks(self.lengths.pop(0) if len(self.lengths) > 1 else self.lengths[0]))


class OneIterator:
    """Iterable, and no iterator: each time the same one comes."""

    def __init__(self):
        self.only = iter(blocks())

    def __iter__(self):
        return self.only


class Breaking(Iterable):
    """A table that cannot be read any more from some pass on."""

    def __init__(self, after, error):
        self.after, self.error = after, error

    def __iter__(self):
        self.after -= 1
        if self.after < 0:
            raise self.error
        return iter(blocks())


def stream():
    pa = pytest.importorskip("pyarrow")

    class Stream:
        """An Arrow stream that is consumed, without being an iterator."""

        def __init__(self):
            arrays = {name: pa.array(value) for name, value in TABLE.items()}
            self.reader = pa.table(arrays).to_reader(1500)

        def __arrow_c_stream__(self, requested_schema=None):
            return self.reader.__arrow_c_stream__(requested_schema)

    return Stream()


ASK = {
    "scores": lambda study: study.regress("y ~ x", 0.5),
    "logistic": lambda study, **out: study.regress("b ~ x", 0.5, family="binomial", **out),
    "huber": lambda study: study.regress("y ~ x", 0.5, loss="huber"),
    "release": lambda study: study.release(0.5),
    "rounds": lambda study: study.release(0.5, mechanism="adaptive-gaussian"),
}
ONCE = {
    "one iterator": OneIterator,
    "a generator that is spent": lambda: Iterable(6000, 0),
    "an Arrow stream": stream,
    "a list of streams": lambda: [stream()],
}


@pytest.mark.parametrize("source", ONCE)
@pytest.mark.parametrize("ask", ASK)
def test_source_read_once_that_is_no_iterator_is_refused_before_the_spend(ask, source):
    study = pg.Study(ONCE[source](), COLUMNS, epsilon=2.0, delta=1e-6)
    refuses(lambda: ASK[ask](study), ValueError, r"no rows when it was opened again.*an iterator")
    assert study.entries == ()


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_empty_table_is_refused_where_its_size_is_public_alone(adjacency):
    """Where it is not, a table of one row would be told from it with certainty."""
    pandas = pytest.importorskip("pandas")
    empty = pandas.DataFrame({"x": [], "y": []})
    study = pg.Study(
        empty, {"x": (0, 1), "y": (0, 1)}, epsilon=2.0, delta=1e-6, adjacency=adjacency
    )
    for answer in (partial(study.release, 0.5), partial(study.regress, "y ~ x", 0.5)):
        if adjacency == "replace":
            refuses(answer, ValueError, "the table has no rows")
        else:
            answer()
    assert bool(study.entries) == (adjacency == "add-remove")


def test_bound_is_not_chosen_by_a_table_that_is_read_once(tmp_path):
    ledger = pg.Ledger(tmp_path / "it.ledger", 2.0, 1e-6)
    auto = pg.PrivateBound(epsilon=0.1)
    given = {"epsilon": 0.5, "delta": 1e-7, "bound": auto, "ledger": ledger}
    with pytest.raises(ValueError, match="no rows when it was opened again"):
        pg.release(OneIterator(), ["x", "y"], mechanism=pg.AnalyzeGauss(), **given)
    assert ledger.entries == ()


def test_bound_is_not_chosen_for_a_target_that_is_no_column(tmp_path):
    ledger = pg.Ledger(tmp_path / "it.ledger", 2.0, 1e-6)
    given = {"epsilon": 0.5, "delta": 1e-7, "bound": pg.PrivateBound(0.1), "ledger": ledger}
    mechanism = pg.AdaptiveGaussian(target="z")
    with pytest.raises(ValueError, match="'z' is no column of the release, which are x, y;"):
        pg.release(TABLE, ["x", "y"], mechanism=mechanism, **given)
    assert ledger.entries == ()


@pytest.mark.parametrize("columns", [None, pg.Columns({"x": (0, 10), "y": (-5, 30)})])
def test_bound_is_not_chosen_for_a_release_that_finds_no_room(columns, tmp_path, monkeypatch):
    def full(handle, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    ledger = pg.Ledger(tmp_path / "it.ledger", 2.0, 1e-6)
    given = {"epsilon": 0.5, "delta": 1e-7, "bound": pg.PrivateBound(0.1), "ledger": ledger}
    table = {"x": TABLE["x"], "y": TABLE["y"]}
    refuses(lambda: pg.release(table, columns, out=tmp_path / "it.json", **given), OSError, "space")
    assert ledger.entries == ()


@pytest.mark.parametrize(
    ("fault", "error"),
    [("table", OSError), ("room", OSError), ("ledger", pg.BudgetExceeded)],
)
def test_error_after_the_choice_of_a_bound_says_what_was_paid_and_chosen(
    fault, error, tmp_path, monkeypatch
):
    from privgram.ledger import Ledger

    real = Ledger.reserve
    ledger = pg.Ledger(tmp_path / "it.ledger", 2.0, 1e-6, composition="basic")

    def broken(*_):
        raise OSError(28, "No space left on device")

    def reserve(self, price):
        """Enter the choice; and then the disk is full, or somebody else has the rest."""
        entry = real(self, price)
        if fault == "room":
            monkeypatch.setattr("privgram.disclosure.release.check_room", broken)
        elif fault == "ledger":
            profile = pg.privacy.BoundedRangeProfile(1.5, "replace")
            real(self, replace(price, epsilon=1.5, privacy=profile))
        return entry

    monkeypatch.setattr(Ledger, "reserve", reserve)
    table = Breaking(2, OSError(5, "Input/output error")) if fault == "table" else TABLE
    given = {"epsilon": 0.5, "delta": 1e-7, "bound": pg.PrivateBound(0.1), "ledger": ledger}
    given |= {"cache_bytes": 0, "mechanism": "analyze-gauss", "out": tmp_path / "it.json"}
    with pytest.raises(error) as caught:
        pg.release(table, ["x", "y"], **given)
    assert ledger.entries[0].epsilon == 0.1
    [note] = caught.value.__notes__
    said, _, bound = note.partition("which is ")
    assert said == "epsilon=0.1 is spent on the choice of the bound, "
    monkeypatch.undo()
    again = pg.release(TABLE, ["x", "y"], 0.5, 1e-7, bound=float(bound.partition(":")[0]))
    assert 1 < again.bound < 40


CHANGES = {
    "fewer rows": lambda: Iterable(6000, 6000, 3000),
    "a disk that fails": lambda: Breaking(2, OSError(5, "Input/output error")),
    "a driver that fails": lambda: Breaking(2, RuntimeError("secret 17.25")),
    "memory": lambda: Breaking(2, MemoryError()),
}


@pytest.mark.parametrize("source", CHANGES)
@pytest.mark.parametrize("ask", ASK)
def test_table_that_is_gone_after_the_spend_leaves_an_answer_or_a_refused_fit(ask, source):
    study = pg.Study(CHANGES[source](), COLUMNS, epsilon=2.0, delta=1e-6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = ASK[ask](study)
    assert len(study.entries) == 1
    said = [str(one.message) for one in caught]
    if isinstance(made, pg.Release):
        assert made.parameters["unread"]
        assert np.isfinite(made.regress("y ~ x").bse).all()
        assert any("could not be read again" in text for text in said)
    else:
        said.append(made.refusal)
        assert "could not be read again" in made.refusal
    assert "17.25" not in " ".join(said)


def test_release_that_ended_early_says_so_and_spent_no_more_than_its_budget(tmp_path):
    study = pg.Study(Iterable(6000, 6000, 3000), COLUMNS, epsilon=2.0, delta=1e-6)
    with pytest.warns(UserWarning, match="could not be read again"):
        made = study.release(0.5, out=tmp_path / "it.json")
    assert (made.method, made.reason) == ("one round", "the table could not be read again")
    parameters = pg.load(tmp_path / "it.json").parameters
    spent = math.hypot(*parameters["round_mu"], *parameters["counts_mu"])
    whole = pg.AdaptiveGaussian().calibrate(len(study.columns), 1.0, 0.5, 1e-6, "replace").mu
    assert whole * (1 - 1e-9) < spent < whole


@pytest.mark.parametrize("choose", [False, True])
def test_people_whose_rows_are_gone_after_the_spend_leave_a_refused_fit(choose):
    unit = "who" if choose else pg.Unit("who", max_rows=3)
    source = Iterable(6000, 6000, 3000)
    # Where rows fit, none are read again.
    budget = {"epsilon": 8.0, "delta": 1e-6, "cache_bytes": 0}
    study = pg.Study(source, COLUMNS, **budget, unit=unit, adjacency="add-remove")
    fit = study.regress("y ~ x", 4.0, rng=np.random.default_rng(1))
    assert len(study.entries) == 1
    assert "could not be read again" in fit.refusal


def test_arithmetic_that_fails_after_the_spend_leaves_a_refused_fit(monkeypatch, tmp_path):
    from privgram.glm.one_step import OneStepEstimator

    def fails(self):
        self.rounds.take(self.rounds.moment, 0.01)
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(OneStepEstimator, "fit", fails)
    study = pg.Study(TABLE, COLUMNS, epsilon=2.0, delta=1e-6)
    fit = study.regress("y ~ x + b", 0.5, out=tmp_path / "it.json", rng=np.random.default_rng(0))
    assert "did not end in finite numbers" in fit.refusal
    assert np.isnan(fit.params).all()
    assert pg.load(tmp_path / "it.json").refusal == fit.refusal


@pytest.mark.parametrize("full", [False, True])
def test_fit_that_stopped_early_is_there_though_the_ledger_cannot_be_written(
    full, monkeypatch, tmp_path
):
    """Sixty rows at an epsilon that hides them: a refused fit, and the rest is back or is not."""
    study = pg.Study(
        {name: column[:60] for name, column in TABLE.items()}, COLUMNS, epsilon=2.0, delta=1e-6,
        ledger=tmp_path / "it.ledger",
    )  # fmt: skip
    real = pg.Ledger._append

    def append(ledger, handle, file, line):
        if full and "settles" in line:
            raise OSError(28, os.strerror(28))
        real(ledger, handle, file, line)

    monkeypatch.setattr(pg.Ledger, "_append", append)
    out = tmp_path / "it.json"
    fit = ASK["logistic"](study, out=out)
    [entry] = study.entries
    assert (entry.settled is None) == full
    said = "counts the whole epsilon as spent (OSError)" if full else "the rest is back"
    assert fit.refusal.endswith(said)
    assert pg.load(out).refusal == fit.refusal


@pytest.fixture
def full(monkeypatch, tmp_path):
    """A disk that has room until the budget is spent, and elsewhere."""
    from privgram._base import saved

    real, there = saved.write_atomically, tmp_path / "full"
    there.mkdir()

    def write(path, data, *more):
        if path.parent == there:
            raise OSError(28, os.strerror(28))
        real(path, data, *more)

    monkeypatch.setattr(saved, "write_atomically", write)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return there


@pytest.mark.parametrize("ask", ["scores", "release", "groups"])
def test_release_that_cannot_be_saved_is_returned_and_saved_elsewhere(full, ask):
    study = pg.Study(TABLE, COLUMNS, epsilon=8.0, delta=1e-6)
    out = full / "it.json"
    by = pg.Groups("who", [1, 2]) if ask == "groups" else None
    with pytest.warns(NotSavedWarning, match="No space left on device") as caught:
        made = (
            study.regress("y ~ x", 4.0, out=out)
            if ask == "scores"
            else study.release(4.0, out=out, by=by)
        )
    assert len(study.entries) == 1
    assert not out.exists()
    [said] = [str(one.message) for one in caught]
    other = said.partition("It is in ")[2].removesuffix(" instead")
    again = pg.load(other)
    if ask == "scores":
        np.testing.assert_array_equal(again.params, made.params)
    elif ask == "release":
        np.testing.assert_array_equal(again.matrix, made.matrix)


def test_fit_that_can_be_saved_nowhere_is_returned(full, monkeypatch):
    from privgram._base import saved

    def nowhere(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(saved, "write_atomically", nowhere)
    study = pg.Study(TABLE, COLUMNS, epsilon=8.0, delta=1e-6)
    with pytest.warns(NotSavedWarning, match="save what this call returns"):
        fit = study.regress("y ~ x", 4.0, out=full / "it.json")
    assert fit.refusal is None


@pytest.mark.parametrize("fault", ["full", "unread"])
def test_warning_that_is_an_error_loses_nothing_after_the_spend(full, fault):
    if fault == "full":
        table, out, shows = TABLE, full / "it.json", NotSavedWarning
    else:
        table, out, shows = Breaking(2, OSError("gone")), None, UserWarning
    study = pg.Study(table, COLUMNS, epsilon=8.0, delta=1e-6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        released = study.release(4.0, out=out)
    assert [one.category for one in caught] == [shows]
    assert released.epsilon == 4.0
    assert len(study.entries) == 1


def test_room_for_a_fit_is_made_sure_of_before_the_spend(tmp_path, monkeypatch):
    def full(handle, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    study = pg.Study(TABLE, COLUMNS, epsilon=8.0, delta=1e-6)
    refuses(lambda: study.regress("y ~ x", 4.0, out=tmp_path / "it.json"), OSError, "No space")
    assert study.entries == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("epsilon", [1e-300, 5e-324, 1e-160])
@pytest.mark.parametrize("ask", ["release", "regress"])
def test_epsilon_whose_noise_leaves_float64_is_refused_before_the_spend(ask, epsilon):
    study = pg.Study(TABLE, COLUMNS, epsilon=1.0, delta=0.0)
    with pytest.raises(ValueError, match="so small that squares of the noise leave float64"):
        study.release(epsilon) if ask == "release" else study.regress("y ~ x", epsilon)
    assert study.entries == ()


def test_epsilon_of_next_to_nothing_is_answered_by_a_refused_fit():
    study = pg.Study(TABLE, COLUMNS, epsilon=1.0, delta=0.0)
    fit = study.regress("y ~ x", 1e-120, rng=np.random.default_rng(0))
    assert fit.refusal is not None
    assert fit.summary().as_text()
