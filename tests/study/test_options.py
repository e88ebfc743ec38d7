"""Options are said once: signature, documentation, command line, files and guide are made of it."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram._base.options import options_of
from privgram.disclosure.request import TableRelease
from privgram.ledger import Composition
from privgram.privacy import Adjacency
from privgram.regression.families import FamilyName, LossName
from privgram.regression.glm import CovType, FitPurpose
from privgram.study.options import (
    PlanRequest,
    RegressRequest,
    ReleaseOfStudy,
    StudyRequest,
    TableRegressRequest,
)

REQUESTS = {
    pg.Study.regress: RegressRequest,
    pg.Study.plan: PlanRequest,
    pg.Study.release: ReleaseOfStudy,
    pg.regress: TableRegressRequest,
    pg.release: TableRelease,
    pg.Study.__init__: StudyRequest,
}
GUIDE = Path(__file__).parents[2] / "docs/guide/regression.md"


@pytest.mark.parametrize("call", REQUESTS, ids=lambda call: call.__qualname__)
def test_signature_and_documentation_are_made_of_the_options(call):
    request = REQUESTS[call]
    known = options_of(request)
    assert set(known) == {each.name for each in fields(request) if each.name != "_"}
    names = [name for name in inspect.signature(call).parameters if name != "self"]
    assert names == list(known)
    said = pg.Study.__doc__ if call is pg.Study.__init__ else call.__doc__
    for one in known.values():
        assert one.doc.rstrip().endswith(".")
        assert f"{one.name} : {one.kind}\n" in said


def test_words_that_are_documented_are_those_that_are_taken():
    words = {
        "family": FamilyName, "loss": LossName, "cov_type": CovType, "purpose": FitPurpose,
        "adjacency": Adjacency, "composition": Composition,
    }  # fmt: skip
    known = {**options_of(TableRegressRequest), **options_of(StudyRequest)}
    for name, kind in words.items():
        assert set(known[name].choices) == set(get_args(kind))


def test_guide_has_a_table_of_the_options():
    rows = [
        f"| `{one.name}` | {one.summary} |".replace("|firm", "\\|firm").replace(
            " | firm", " \\| firm"
        )
        for one in options_of(RegressRequest).values()
        if one.name not in ("formula", "epsilon", "delta")
    ]
    table = "\n".join(["| option | |", "|---|---|", *rows])
    assert table in GUIDE.read_text(encoding="utf-8"), f"the guide's table of options is\n{table}"


TABLE = {"x": np.linspace(0, 1, 500), "y": np.linspace(0, 1, 500), "n": np.arange(500) % 9}
TABLE["py"] = TABLE["x"] + 1
COLUMNS = {"x": (0, 1), "y": (0, 1), "n": (0, 9), "py": pg.Log(1, 9)}

#: What users of other packages write, and words of the sentence that helps.
HELPED = [
    (lambda s: s.regress("y ~ x", 1.0, famly="binomial"), r"no option 'famly': did you mean 'fam"),
    (lambda s: s.regress("n ~ x", 1.0, offset=np.ones(500)), r"'claims ~ age \+ offset\(log\(y"),
    (lambda s: s.regress("n ~ x", 1.0, exposure="py"), r"'claims ~ age \+ offset\(log\(years"),
    (lambda s: s.regress("y ~ x + offset(n)", 1.0), "subtract it from y yourself"),
    (lambda s: s.regress("n ~ x:offset(py)", 1.0, family="poisson"), "stands by itself"),
    (lambda s: s.regress("n ~ offset(x) + offset(y)", 1.0, family="poisson"), "stands by itself"),
    (lambda s: s.regress("n ~ 1 | x ~ offset(y)", 1.0), "stands by itself"),
    (lambda s: s.regress(TABLE["x"], TABLE["y"]), r"arrays X and y are a table such as"),
    (lambda s: pg.regress(TABLE["x"], TABLE["y"]), r"arrays X and y are a table such as"),
    (lambda s: s.regress(epsilon=1.0), r"regress\(\) has missing a required argument: 'formula'"),
    (lambda s: s.regress("y ~ xx", 1.0), r"no variable 'xx' is described; did you mean 'x'\?"),
    (lambda s: s.regress("yy ~ x", 1.0), r"did you mean 'y'\?"),
    (lambda s: s.plan("y ~ x", puprose=1), r"plan\(\) has no option 'puprose': it takes formula"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "said"), HELPED)
def test_what_others_write_gets_a_sentence_that_helps(ask, said):
    study = pg.Study(TABLE, COLUMNS, epsilon=2.0, delta=1e-6)
    refuses(lambda: ask(study), (TypeError, ValueError), said)
    assert not study.entries


def test_missing_folder_is_named_in_a_sentence(tmp_path):
    path = tmp_path / "none" / "it.json"
    study = pg.Study(TABLE, COLUMNS, epsilon=2.0, delta=1e-6)
    release = pg.release(
        TABLE,
        pg.Columns(COLUMNS | {}, intercept=True).replace(
            bounds={name: COLUMNS[name] for name in "xy"}
        ),
        1.0,
        1e-6,
    )
    said = rf"there is no folder {re.escape(str(path.parent))}"
    for ask in (
        lambda: study.regress("y ~ x", 1.0, out=path),
        lambda: pg.Study(TABLE, COLUMNS, epsilon=2.0, delta=1e-6, ledger=path),
        lambda: release.save(path),
    ):
        refuses(ask, FileNotFoundError, said)
    assert not study.entries


@pytest.mark.parametrize("described", [bool, (0, 1)])
def test_a_truth_value_is_a_count_of_none_or_one(described):
    """Of which coefficients are logarithms of risk ratios (Zou 2004)."""
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, 40_000)
    table = {"x": x, "ill": rng.random(x.size) < 0.1 * np.exp(x)}
    fit = pg.regress(table, "ill ~ x", {"x": (0, 1), "ill": described}, 4.0, 1e-6, family="poisson")
    assert (np.abs(fit.params - [1.0, np.log(0.1)]) < 5 * fit.bse).all()
    assert (fit.bse < 0.1).all()


@pytest.mark.parametrize("text", ["offset(log(py))", "offset( log(py) )"])
def test_offset_is_a_term_of_the_formula(text):
    """In R's and statsmodels' words; of what is read again it is a column more."""
    rng = np.random.default_rng(0)
    py, x = rng.uniform(1, 9, 20_000), rng.uniform(0, 1, 20_000)
    table = {"py": py, "x": x, "n": rng.poisson(0.2 * py * np.exp(x)).clip(0, 30)}
    columns = {"py": pg.Log(1, 9), "x": (0, 1), "n": (0, 30)}
    fit = pg.regress(table, f"n ~ x + {text}", columns, 4.0, 1e-6, family="poisson")
    assert fit.param_names == ("x", "Intercept")
    assert fit.parameters["offset"] == "log(py)"
    assert (np.abs(fit.params - [1.0, np.log(0.2)]) < 5 * fit.bse).all()
    release = pg.release(table, pg.Columns(columns, intercept=True), 4.0, 1e-6)
    for ask in (release.regress, release.iv):
        with pytest.raises(ValueError, match="subtract it from n yourself"):
            ask("n ~ x + offset(log(py))")
