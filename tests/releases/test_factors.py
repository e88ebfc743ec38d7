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


@pytest.fixture
def pyplot():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_plot_of_many_levels_names_terms(pyplot):
    columns = pg.Columns({"x": (0, 1), "g": [f"g{i}" for i in range(60)], "h": ["a", "b"]})
    codes = np.arange(600)
    rows = [codes / 600, np.char.add("g", (codes % 60).astype(str)), np.where(codes % 7, "a", "b")]
    moment = pg.second_moment(np.rec.fromarrays(rows, names="x,g,h"), columns=columns)
    release = pg.release(
        moment, epsilon=50.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(0)
    )
    ax = release.regress("x", ["g", "h"]).plot()
    assert "g" in [text.get_text() for text in ax.get_yticklabels()]


def test_plot_of_coefficients_keeps_terms_together(release, pyplot):
    fit = release.regress("log(wage)", ["age", "sex", "region", "union"], reference={"region": "s"})
    ax = fit.plot()
    named = [text.get_text() for text in ax.get_yticklabels()]
    at = named.index("region[n]")
    assert named[at : at + 3] == ["region[n]", "region[e]", "region[other]"]
    assert sorted(named) == sorted(fit.design.names)
    assert "differences from sex f, region s" in ax.get_title(loc="left")
    largest = [
        max(abs(fit.tvalues[fit.design.terms[t]])) for t in ("sex", "region", "age", "union")
    ]
    first = ["sex", "region", "age", "union"][int(np.argmax(largest))]
    assert named[0].startswith(first)


def test_page_has_variables_terms_and_references(release, tmp_path):
    release.to_html(tmp_path / "page.html", target="log(wage)")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "4 levels: n, e, s, other" in page
    assert "logarithm of 2 to 500" in page
    assert "poly(age, 2)" in page
    assert '"target":"log(wage)"' in page
    with pytest.raises(ValueError, match="to explain on the page"):  # a power, which it has not
        release.to_html(tmp_path / "page.html", target="P2(age)")
