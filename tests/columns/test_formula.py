"""Formulas as formulaic, patsy and pyfixest write them."""

import re
import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from support.helpers import make_release, refuses
from support.lines import lines

import privgram as pg
from privgram.columns.terms import parse

pytest.importorskip("formulaic")
from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("y ~ x1 + x2", {"features": ("x1", "x2")}),
        ("y ~ x - 1", {"features": ("x",), "intercept": False}),
        ("y ~ x*z", {"features": ("x", "z", "x:z")}),
        ("y ~ np.log(x)", {"features": ("np.log(x)",), "logs": {"x"}}),
        ('y ~ C(r, Treatment("s"))', {"features": ("C(r)",), "references": {"r": "s"}}),
        ("y ~ C(r, Treatment(reference='s'))", {"references": {"r": "s"}}),
        ("y ~ C(r, contr.treatment(base='s t'))", {"references": {"r": "s t"}}),
        ("y ~ C(k, Treatment(2))", {"references": {"k": "2"}}),
        ("y ~ i(k, ref=3) + x", {"features": ("C(k)", "x"), "references": {"k": "3"}}),
        ("y ~ x | firm + year", {"features": ("x",), "absorbed": ("firm", "year")}),
        ("y ~ x | d ~ z", {"features": ("x",), "endogenous": ("d",), "instruments": ("z",)}),
        (
            "y ~ 1 | firm | d ~ z1 + z2",
            {"absorbed": ("firm",), "endogenous": ("d",), "instruments": ("z1", "z2")},
        ),
        ("y ~ d + x | d ~ z", {"features": ("x",), "endogenous": ("d",)}),
        ("y ~ x + [d ~ z]", {"features": ("x",), "endogenous": ("d",), "instruments": ("z",)}),
        ("y ~ [d ~ z] + x", {"features": ("x",), "endogenous": ("d",)}),
        ("y ~ [d ~ z]", {"features": (), "endogenous": ("d",), "intercept": True}),
    ],
)
def test_parts_of_a_formula(formula, expected):
    parsed = parse(formula)
    assert parsed.targets == ("y",)
    whole = {"intercept": True, "absorbed": (), "endogenous": (), "references": {}} | expected
    assert {name: getattr(parsed, name) for name in whole} == whole


@pytest.mark.parametrize(("formula", "error"), lines(__file__, "formulas.txt", "parse"))
def test_formula_that_would_be_read_as_less_is_refused(formula, error):
    refuses(lambda: parse(formula), ValueError, error)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x**10000000",
        "y ~ (a + b)**10000000",
        "y ~ ((a + b)**12)**12",
        f"y ~ {'*'.join('abcdefghijklmnopqrstuvwxyz')}",
        f"y ~ {':'.join(f'({c} + {c}{c})' for c in 'abcdefghijklmnopqrstuvwxyz')}",
    ],
)
def test_formula_that_multiplies_out_without_end_is_refused(formula):
    """Each of them took hours, or all memory."""
    refuses(lambda: parse(formula), ValueError, r"power|multiplies out")


@pytest.mark.parametrize("term", ["*".join("abcdefghijklmnopqrstuvwxyz"), None])
def test_term_that_multiplies_out_without_end_is_refused(term):
    letters = "abcdefghijklmnopqrstuvwxyz"
    term = term or ":".join(f"poly({letter}, 12)" for letter in letters)
    with pytest.raises(ValueError, match=r"multiplies out|columns and a second moment"):
        pg.Columns(dict.fromkeys(letters, (0, 1)), terms=[term])


def test_powers_of_sums_are_those_of_r():
    assert set(parse("y ~ (a + b + c)**2 - a:b").features) == {"a", "b", "c", "a:c", "b:c"}
    assert parse("y ~ `a|b` + x | `f|g`").absorbed == ("f|g",)
    assert len(parse(f"y ~ {' + '.join(f'x{i}' for i in range(2000))}").features) == 2000


BOUNDS = {"y": (0, 1), "x": (0, 1), "z": (0, 1), "w": (0, 1), "f": ["a", "b", "c"], "b": bool}


@pytest.mark.parametrize("formula", ["y ~ x | z", "y ~ x | f + z", "y ~ x | f:z"])
def test_numbers_are_not_absorbed(formula):
    """As instruments in AER's ivreg are written: they were features of least squares."""
    with pytest.raises(ValueError, match=r"As a feature write 'y ~ x \+ .*z'.*\| x ~"):
        pg.Columns.from_formula(formula, BOUNDS)
    release = make_release(np.eye(3), ("x", "y", "z"), n_rows=100)
    refuses(lambda: release.regress(formula), ValueError, r"after \| stand factors")
    refuses(lambda: release.iv(f"{formula} | w ~ x"), ValueError, r"after \| stand factors")
    assert pg.Columns.from_formula("y ~ x | f + b", BOUNDS).terms == ("y", "x", "f", "b")


@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("y ~ w | x + f ~ z", "need as many instruments"),
        ("y ~ w | x ~ x", "one role"),
        ("y ~ w | x ~ w", "one role"),
        ("y ~ C(f) | x ~ f", "one role"),
        ("y ~ x | y", "factors"),
        ("y ~ w | x ~ y", "among the features"),
    ],
)
def test_instruments_are_checked_before_anything_is_spent(formula, error):
    rng = np.random.default_rng(0)
    table = {name: rng.uniform(size=500) for name in "yxzw"} | {"f": rng.choice(list("abc"), 500)}
    bounds = {name: BOUNDS[name] for name in "yxzwf"}
    study = pg.Study(table, bounds, epsilon=1, delta=1e-6)
    refuses(lambda: study.regress(formula, epsilon=0.5), ValueError, error)
    assert study.entries == ()


def test_instruments_are_named_as_terms_are():
    """By a category, or a product in any order; the release was paid for, and not answered."""
    release = pg.release(
        {name: np.linspace(0, 1, 60) ** k for k, name in enumerate("yxzw", 1)}
        | {"f": np.tile(list("abc"), 20), "b": np.arange(60) % 2 == 0},
        columns=pg.Columns(BOUNDS, intercept=True, terms=["y", "x", "z", "w", "f"]),
        epsilon=1e9,
        delta=1e-6,
        mechanism=pg.AnalyzeGauss(),
        rng=np.random.default_rng(0),
    )
    fit = release.iv("y ~ 1 | x ~ C(f) + z")
    assert fit.instruments == ("f[b]", "f[c]", "z")


NAMES = st.sampled_from(["a", "b2", "age", "_q", "log", "C", "poly", "in", "lambda", "a.b", "é"])
SPACES = st.sampled_from(["", " ", "  "])
SUMMANDS = st.one_of(
    NAMES,
    st.builds("{}({}{}{})".format, st.sampled_from(["log", "C", "exp"]), SPACES, NAMES, SPACES),
    st.builds(
        "poly({}{},{}{})".format,
        NAMES,
        SPACES,
        SPACES,
        st.sampled_from(["0", "1", "2", "12", "03"]),
    ),
    st.sampled_from(["1", "0", "a:b", "a*b", "", "(a)", "-1"]),
)


SIGNS = st.sampled_from(["+", "+", "-", "*", ":", "/"])
#: formulaic loses the product in "a*++b".
OTHER_THERE = re.compile(r"[*:/]\s*[-+]|[*:/]\s*[01]\b|(?<![\w, ])\s*[01]\s*[*:/]")


def by_formulaic(formula):
    """Terms on the right, with the intercept as 1, or None where it is no formula."""
    try:
        terms = DefaultFormulaParser(include_intercept=True).get_terms(formula).rhs
    except (FormulaicError, SyntaxError, AttributeError):
        return None
    return {frozenset(factor.expr for factor in term.factors) for term in terms}


@given(st.lists(st.tuples(SIGNS, SUMMANDS), min_size=1, max_size=5), SPACES)
@settings(max_examples=400, derandomize=True)
def test_formulas_are_read_as_formulaic_reads_them(parts, space):
    """Where both read one; of products with 1, 0 or a sign formulaic makes other terms."""
    formula = f"y ~ {space.join(sign + space + part for sign, part in parts).lstrip('+*:/ ')}"
    expected = by_formulaic(formula)
    try:
        parsed = parse(formula)
    except ValueError:
        return
    if expected is None or OTHER_THERE.search(formula):
        return
    read = {frozenset(text.split(":")) for text in parsed.features}
    assert read | ({frozenset("1")} if parsed.intercept else set()) == expected


def test_sums_bring_no_pandas():
    code = (
        "import sys, privgram as pg\n"
        "pg.Columns.from_formula('log(y) ~ a + poly(b, 2) + C(f)', "
        "{'y': (1, 2), 'a': (0, 1), 'b': (0, 1), 'f': ['u', 'v']})\n"
        "assert not {'pandas', 'formulaic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
