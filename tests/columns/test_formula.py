"""Formulas as formulaic, patsy and pyfixest write them."""

import pytest

from privgram.columns.terms import parse

pytest.importorskip("formulaic")


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
    found = parse(formula)
    assert found.targets == ("y",)
    whole = {"intercept": True, "absorbed": (), "endogenous": (), "references": {}} | expected
    assert {name: getattr(found, name) for name in whole} == whole
