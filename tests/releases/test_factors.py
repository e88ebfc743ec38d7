"""A release with factors in everything that takes a release."""

import numpy as np
import pytest

import privgram as pg

N_ROWS = 20_000
BOUNDS = {
    "wage": pg.Log(2, 500),
    "age": (18, 90),
    "sex": ["f", "m"],
    "region": pg.Factor(["n", "e", "s"], other=True),
    "union": bool,
}
TERMS = ["wage", "poly(age, 2)", "sex:region", "union"]
COLUMNS = pg.Columns(BOUNDS, intercept=True, terms=TERMS, weights={"sex:region": 1.5})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    sex, region = rng.choice(["f", "m"], N_ROWS), rng.choice(list("nesw"), N_ROWS)
    age, union = rng.uniform(18, 90, N_ROWS), rng.random(N_ROWS) < 0.3
    wage = np.exp(3 + 0.2 * (sex == "m") - 0.3 * (region == "w") + rng.normal(0, 0.4, N_ROWS))
    return {"wage": wage, "age": age, "sex": sex, "region": region, "union": union}


@pytest.fixture(scope="module")
def moment(table):
    return pg.second_moment(
        np.rec.fromarrays(list(table.values()), names=",".join(table)), columns=COLUMNS
    )


@pytest.fixture(scope="module")
def release(moment):
    return pg.release(
        moment, epsilon=2.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(1)
    )


def test_page_has_variables_terms_and_references(release, tmp_path):
    release.to_html(tmp_path / "page.html", target="log(wage)")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 levels: n, e, s, other" in page
    assert "logarithm of 2 to 500" in page
    assert "poly(age, 2)" in page
    assert '"target":"log(wage)"' in page
    with pytest.raises(ValueError, match="to explain on the page"):  # a power, which it has not
        release.to_html(tmp_path / "page.html", target="P2(age)")
