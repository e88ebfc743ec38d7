"""The door of a regression by scores: what is spent, and that there always is an answer."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import all_pairs, refuses

import privgram as pg
from privgram.glm import fit as door
from privgram.glm.one_step import OneStepEstimator
from privgram.regression.inference import ALL_OPEN, RefusedError

N = 6000
TARGETS = {"gaussian": (-15, 15), "huber": (-15, 15), "binomial": bool, "poisson": (0, 40)}
FIRMS = [f"f{i}" for i in range(120)]
BOUNDS = {"a": (-4, 4), "b": (-4, 4), "rare": bool, "g": list("uvw"), "firm": FIRMS}


def made(family="gaussian", n=N, seed=0, n_rare=30):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n)).clip(-4, 4)
    rare = np.zeros(n, bool)
    rare[rng.choice(n, min(n_rare, n), replace=False)] = True
    eta = 0.5 * a - 0.3 * b + 0.5 * rare
    y = eta + rng.standard_t(3, n)
    if family == "binomial":
        y = rng.random(n) < 1 / (1 + np.exp(-eta))
    elif family == "poisson":
        y = rng.poisson(np.exp(eta)).clip(0, 40)
    table = {"a": a, "b": b, "rare": rare, "g": np.array(list("uvw"))[rng.integers(0, 3, n)]}
    return table | {
        "firm": np.array(FIRMS)[rng.integers(0, 120, n)],
        "y": y,
        "who": np.arange(n) // 3,
    }


def fitted(table, family="gaussian", formula="y ~ a + b", seed=1, epsilon=1.0, **options):
    kind = {"loss": "huber"} if family == "huber" else {"family": family}
    columns = BOUNDS | {"y": TARGETS[family]}
    rng = np.random.default_rng(seed)
    return pg.regress(table, formula, columns, epsilon, 1e-6, rng=rng, **kind, **options)


FORMULAS = {
    "numbers": "y ~ a + b",
    "hidden": "y ~ a + rare",
    "a factor": "y ~ a + rare + g",
    "many levels": "y ~ a + b | firm",
}


UNITS = [{}, {"unit": pg.Unit("who", max_rows=3)}, {"unit": "who"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("many levels", "gaussian"),
        *(  # each formula and each family with one other; all of them at length
            pytest.param(name, family, marks=[pytest.mark.long] * (i % 3 != j % 3))
            for i, name in enumerate(list(FORMULAS)[:3])
            for j, family in enumerate(TARGETS)
        ),
    ],
)
def test_no_way_through_the_rounds_spends_more_than_the_budget(name, family, monkeypatch):
    """What rounds count is what the record says, and no more than there is, nor less by much.

    Few rows and many, noise that hides all and none, rows and units: each two of these meet.
    """
    seen, recorded = [], door._recorded

    def watched(problem, parts, rounds, *more):
        seen.append(rounds)
        return recorded(problem, parts, rounds, *more)

    monkeypatch.setattr(door, "_recorded", watched)
    units = UNITS[:1] if name == "many levels" or family == "huber" else UNITS
    neighbours, purposes = ("replace", "add-remove"), ("inference", "prediction")
    every = all_pairs((60, N), (0.1, 1.0, 20.0), units, purposes, neighbours)
    for number, (n, epsilon, unit, purpose, adjacency) in enumerate(every):
        table = made(family, n, number)
        more = {"adjacency": adjacency, "purpose": purpose, **unit}
        fit = fitted(table, family, FORMULAS[name], number, epsilon, **more)
        given, [rounds] = fit.parameters, seen
        seen.clear()
        assert rounds.spent <= 1 + 1e-12
        # A fit that would be refused stops early, and has the rest back.
        assert rounds.spent == pytest.approx(1.0) or fit.refusal is not None
        spent = [*given["round_mu"], *given["counts_mu"], *given.get("score_mu", [])]
        spent.append(given.get("number_mu", 0.0))
        square = math.fsum(mu**2 for mu in spent)
        assert square <= fit.privacy.sensitivity_ratio**2
        assert 0.999e-6 < fit.privacy.delta(epsilon) <= 1e-6
        assert square == pytest.approx(rounds.spent * rounds.noise.mu**2, rel=1e-9)
        if "clip" in given and name != "many levels":
            moves = (2 if adjacency == "replace" else 1) * given["clip"]
            at = -1 if family == "gaussian" else -2  # the last of a link's is of a constant
            assert given["score_noise_std"][at] * given["score_mu"][at] >= moves


def test_design_that_cannot_be_is_refused_before_anything_is_spent(tmp_path):
    ledger = pg.Ledger(tmp_path / "one", epsilon=5.0, delta=1e-5)
    table = made()
    for formula, options in (("y ~ y", {}), ("y ~ a + y | firm", {}), ("y ~ C(g, 'z') + a", {})):
        with pytest.raises(ValueError, match=r"among the features|target|level"):
            fitted(table, formula=formula, ledger=ledger, **options)
    assert ledger.entries == ()


def spoilt(kind, family, n=N):
    """A table one of whose columns says nothing, or what another one says."""
    table = made(family, n)
    b, y = table["b"], table["y"]
    says_nothing = {
        "constant": np.full(n, 1.5),
        "copied": table["a"],
        "clamped": np.full(n, 1e9),
        "at the middle": np.zeros(n),
    }
    if kind == "target constant":
        y = np.full(n, y.dtype.type(0))
    elif kind == "target clamped":
        y = np.ones(n, bool) if family == "binomial" else np.full(n, 1e9)
    else:
        b = says_nothing[kind]
    return table | {"b": b, "y": y}


FEATURES = ["constant", "copied", "clamped", "at the middle"]


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize("kind", FEATURES)
def test_feature_that_says_nothing_is_open_or_the_fit_refused(kind, family):
    """No exception, no number from rounding; the other coefficient holds in the family's units.

    Open are those that share what is not known: of a copy both, of a constant the constant too.
    Noise mixes the other coefficient in now and then: in 1 fit of 10, 2 of 6 at most.
    """
    n_mixed = 0
    for epsilon, adjacency in itertools.product((0.3, 1.0, 8.0), ("replace", "add-remove")):
        fit = fitted(spoilt(kind, family), family, epsilon=epsilon, adjacency=adjacency)
        estimate, errors = np.asarray(fit.params), np.asarray(fit.bse)
        if fit.refusal is not None:
            assert np.isnan(estimate).all()
            continue
        assert np.abs(estimate).max() < 1e4
        assert np.isinf(errors[1])
        if kind != "copied":
            n_mixed += int(np.isinf(errors[0]))
            assert abs(estimate[0] - 0.5) < 5 * errors[0]
    assert n_mixed <= 2


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize("kind", ["target constant", "target clamped"])
def test_target_that_does_not_vary_ends_in_a_fit(kind, family):
    for epsilon in (0.3, 8.0, 1e6):
        fit = fitted(spoilt(kind, family), family, epsilon=epsilon)
        if family in ("binomial", "poisson"):  # at the end of the range there is no maximum
            assert fit.refusal is not None
        if fit.refusal is None:
            assert np.abs(np.asarray(fit.params)[:2]).max() < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize("kind", [*FEATURES, "target constant", "few rows"])
def test_for_predictions_there_are_numbers_and_no_intervals(kind, family):
    table = made(family, 40) if kind == "few rows" else spoilt(kind, family)
    fit = fitted(table, family, purpose="prediction", epsilon=0.5)
    assert fit.refusal is None
    predicted = np.asarray(fit.predict(table))
    assert np.isfinite(predicted).all()
    assert np.isnan(np.asarray(fit.bse)).all()
    refuses(lambda: fit.conf_int(), RefusedError, "prediction")


#: What noise leaves no coefficient of: of rows, of units, of events, and of hidden levels.
DROWNED = {
    "few rows": ("y ~ a + b", {"adjacency": "add-remove"}),
    "units": ("y ~ a + b", UNITS[1]),
    "effects of units": ("y ~ a + b", {"unit": pg.Unit("who", max_rows=3, fixed_effects=True)}),
    "a chosen bound": ("y ~ a + g", UNITS[2]),
    "many levels": ("y ~ a + firm", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("purpose", ["inference", "prediction"])
@pytest.mark.parametrize("kind", DROWNED)
def test_whatever_came_out_is_read_back(kind, purpose, tmp_path):
    (formula, given), table = DROWNED[kind], made(n=1500)
    for epsilon in (0.01, 1.0):
        path = tmp_path / f"{epsilon}.json"
        fit = fitted(table, formula=formula, epsilon=epsilon, purpose=purpose, out=path, **given)
        again = pg.load(path)
        np.testing.assert_array_equal(again.params, fit.params)
        np.testing.assert_array_equal(again.bse, fit.bse)
        if purpose == "prediction":
            assert np.isfinite(fit.predict(table)).all()


def test_arithmetic_that_ends_in_no_number_is_a_refused_fit(tmp_path, monkeypatch):
    """What was paid for is said, and the ledger has it."""
    for fault in (np.linalg.LinAlgError("singular"), ZeroDivisionError("zero")):
        ledger = pg.Ledger(tmp_path / type(fault).__name__, epsilon=5.0, delta=1e-5)

        def fail(*_, fault=fault):
            raise fault

        with monkeypatch.context() as patch:
            patch.setattr("privgram.glm.one_step.OneStepEstimator._last_scores", fail)
            fit = fitted(made(), ledger=ledger)
        assert "did not end in finite numbers" in fit.refusal
        assert np.isnan(np.asarray(fit.params)).all()
        assert len(ledger.entries) == 1
        with pytest.raises(RefusedError, match="finite numbers"):
            fit.predict(made())


def test_computation_that_was_lost_is_no_prediction(monkeypatch):
    def fail(*_):
        raise ValueError

    monkeypatch.setattr("privgram.glm.one_step.OneStepEstimator._last_scores", fail)
    fit = fitted(made(), purpose="prediction")
    assert fit.refusal is not None
    with pytest.raises(RefusedError):
        fit.predict(made())


@pytest.mark.parametrize("purpose", ["inference", "prediction"])
def test_intervals_that_all_have_no_ends_are_a_refusal(monkeypatch, purpose):
    fit_of = OneStepEstimator.fit

    def hidden(one):
        parts = fit_of(one)
        return replace(parts, unidentified=2 * (parts.sampling + parts.noise))

    monkeypatch.setattr(OneStepEstimator, "fit", hidden)
    fit = fitted(made(), purpose=purpose)
    if purpose == "prediction":
        assert fit.refusal is None
    else:
        assert fit.refusal == ALL_OPEN
        assert np.isnan(fit.params).all()


def test_notes_say_what_a_reader_can_use():
    """Of a rare reference, of effects of each unit, and of clipping where something was fitted."""
    table = made(n=20_000)
    table["g"] = np.where(np.arange(20_000) < 4, "u", table["g"])
    table["g"][4:][table["g"][4:] == "u"] = "v"
    fit = fitted(table, formula="y ~ a + g")
    assert np.isinf(np.asarray(fit.bse)[1:]).all()
    assert "All effects of g are open" in str(fit.summary())
    assert "reference={'g': ...}" in str(fit.summary())
    assert "reference={" not in str(fitted(made(n=20_000), formula="y ~ a + g").summary())
    few = str(fitted(made("binomial", 60), "binomial", epsilon=0.1).summary())
    assert "nan" in few
    assert "cut down" not in few
    rng = np.random.default_rng(1)
    table |= {"id": np.arange(20_000) // 4, "c": np.repeat(rng.normal(size=5000), 4).clip(-4, 4)}
    columns = pg.Columns({"a": (-4, 4), "c": (-4, 4), "y": (-15, 15)}, intercept=True)
    unit = pg.Unit("id", max_rows=4, fixed_effects=True)
    once = pg.release(table, columns, unit=unit, epsilon=4.0, delta=1e-6, rng=rng)
    said = str(once.regress("y", ["a", "c"]).summary())
    assert "the column 'c' seems to vary too little within rows of one id" in said.lower()
    assert "depend on each other" not in said


@pytest.mark.parametrize("tail", [1.2, None])
def test_first_line_says_where_few_rows_may_decide_by_both_doors(tail):
    """Of a tail without a second moment; of normal errors noise does it in 2 of 16 at most."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=8000).clip(-4, 4)
    errors = rng.normal(size=8000) if tail is None else 3 * rng.pareto(tail, 8000) * (x > 0)
    y = (x + errors).clip(-300, 300)
    bounds = {"x": (-4, 4), "y": (-300, 300) if tail else (-9, 9)}
    cautions = []
    for seed in range(4):
        for adjacency in ("replace", "add-remove"):
            asked = {"epsilon": 4.0, "delta": 1e-6, "adjacency": adjacency}
            rng = np.random.default_rng(seed)
            scores = pg.regress({"x": x, "y": y}, "y ~ x", bounds, rng=rng, **asked)
            columns = pg.Columns(bounds, intercept=True)
            release = pg.release({"x": x, "y": y}, columns, rng=rng, **asked)
            for fit in (scores, release.regress("y ~ x")):
                summary = fit.summary()
                first = [str(summary).splitlines()[0], summary.as_html(), summary.as_latex()]
                said = ["Caution: few rows far out" in text for text in first]
                assert len(set(said)) == 1
                cautions.append(said[0])
    assert sum(cautions) <= 2 if tail is None else sum(cautions) > 12


def test_rows_that_were_dropped_are_not_behind_a_weighted_fit():
    """Their number is private: nobs was the public one, which counts them, without an error."""
    table = made()
    table |= {"a": np.where(np.arange(N) < N // 2, np.nan, table["a"]), "w": np.full(N, 0.5)}
    columns = pg.Columns(BOUNDS | {"y": (-15, 15), "w": (0, 1)}, missing="drop")
    rng = np.random.default_rng(1)
    fit = pg.regress(table, "y ~ a + b", columns, 20.0, 1e-6, rng=rng, weights="w")
    assert fit.nobs_stderr > 0
    assert fit.nobs == pytest.approx(N / 4, abs=4 * fit.nobs_stderr)  # the sum of their weights
