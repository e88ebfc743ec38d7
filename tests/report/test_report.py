"""The report: one page that says what matters, loads nothing, and fits a phone and a desk."""

import hashlib
import html
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import privgram as pg
from privgram.cli._program import program
from privgram.disclosure.norm_bound import private_norm_bound
from privgram.papers.sheffet import GaussianSketch, PublishedAnalyzeGauss

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")
from privgram import report

NASTY = 'a <script>alert("x")</script> & $b$'
NAMES = ["age", NASTY, "a_rather_long_name_of_a_column_without_spaces_" * 3, "cost"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture(scope="module")
def release():
    table = np.random.default_rng(3).uniform(0, 1, (50_000, 4))
    table[:, 3] += table[:, 0]
    columns = pg.Columns(dict.fromkeys(NAMES, (0, 2)), intercept=True)
    moment = pg.second_moment(table, columns=columns)
    drawn = pg.release(
        moment,
        epsilon=0.5,
        delta=1e-6,
        mechanism=pg.AdditiveWishart(),
        rng=np.random.default_rng(3),
    )
    return replace(drawn, reproducible=False)  # the same every time, and read as a real one


@pytest.fixture(scope="module")
def saved(release, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "gram.npz"
    release.save(path)
    return path


@pytest.fixture(scope="module")
def page(release, saved):
    return release.to_html(["cost"], file=saved)


@pytest.fixture
def undrawn(monkeypatch):
    """Plots take time, and most tests are of words."""
    monkeypatch.setattr(
        report, "_draw", lambda plot, alt: report.Plot("data:,", "data:,", 1, 1, alt)
    )


class Reader(HTMLParser):
    """Tags with their attributes, and the text of the body."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img", "source", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "body" in self.open:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def words(page):
    return " ".join(Reader(page).text.split())


# --- the page -----------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_loaded_and_nothing_runs(page):
    read = Reader(page)
    assert read.open == []
    assert not {"script", "link", "iframe", "object", "embed", "base"} & {t for t, _ in read.tags}
    for _, attributes in read.tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "srcset", "href"):
                assert value.startswith("data:image/svg+xml;base64,")
    assert "url(" not in page.split("<body>")[0]
    policy = next(m for m in read.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy["content"]


@pytest.mark.slow
def test_page_is_accessible(page):
    read = Reader(page)
    assert read.all("html")[0]["lang"] == "en"
    images = read.all("img")
    assert len(images) == 7
    assert all(len(image["alt"]) > 20 for image in images)
    assert len(read.all("source")) == 7
    identifiers = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    named = [table["aria-labelledby"] for table in read.all("table") if "aria-labelledby" in table]
    assert set(named) <= set(identifiers)
    assert len(read.all("table")) == len(named) + len(read.all("caption")) == 3
    assert all(cell.get("scope") in ("row", "col") for cell in read.all("th"))
    assert len(set(identifiers)) == len(identifiers)
    for section in read.all("section"):
        assert section["aria-labelledby"] in identifiers


@pytest.mark.slow
def test_page_says_what_was_released(page, release, saved):
    text = words(page)
    for fact in (
        "epsilon 0.5", "delta 1e-06", "neighbours replace", "50,000 rows", str(release.mechanism),
        hashlib.sha256(saved.read_bytes()).hexdigest(), "gram.npz", f"privgram {pg.__version__}",
        "pg.load('gram.npz')", "Regression of cost", "1.65 times as likely",
    ):  # fmt: skip
        assert fact in text
    fit = release.regress("cost")
    for number in [
        *fit.params,
        *fit.bse,
        *np.ravel(fit.conf_int()),
    ]:
        assert f"{number:.4g}" in text
    assert NASTY in text
    assert "<script" not in page
    assert 'role="note"' not in page  # there is nothing to warn of


@pytest.mark.long
def test_page_is_the_same_every_time(page, release, saved):
    from matplotlib import pyplot, rcParams

    before = pyplot.get_fignums()
    with pyplot.rc_context({"font.size": 30.0}):
        again = release.to_html(["cost"], file=saved)
        assert rcParams["font.size"] == 30.0
    assert again == page
    assert pyplot.get_fignums() == before


def test_power_is_that_of_the_gaussian_trade_off(release, undrawn):
    """Dong, Roth and Su: Gaussian noise has the power Phi(Phi^-1(a) + mu)."""
    gauss = pg.release(
        pg.second_moment(np.eye(3), bound=1.0), epsilon=2.0, delta=1e-3, mechanism=pg.AnalyzeGauss()
    )
    exact = stats.norm.cdf(stats.norm.ppf(0.05) + gauss.privacy.sensitivity_ratio)
    assert exact <= report._power(gauss) <= exact * 1.001
    assert f"{exact:.1%}" in words(gauss.to_html())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reproducible": True}, "Not private."),
        ({"condition": "eigenvalues are at least 3"}, "only if eigenvalues are at least 3"),
        ({"delta": 1e-3}, "A large delta."),
        ({"mechanism": PublishedAnalyzeGauss(allow_published_erratum=True)}, "with an erratum"),
        ({"n_rows": None, "adjacency": "add-remove"}, "the number of rows is private"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_warnings(release, undrawn, change, message):
    assert message in words(replace(release, **change).to_html())
    assert message not in words(release.to_html())


def test_indefinite_matrix_is_named(release, undrawn):
    matrix = release.matrix.copy()
    matrix[0, 0] = -1.0
    assert "Not positive definite." in words(replace(release, matrix=matrix).to_html())


def test_cost_of_the_bound_is_named(undrawn):
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    bound = private_norm_bound(x, 0.5)
    release = pg.release(
        pg.second_moment(x, bound=bound), epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss()
    )
    text = words(release.including(bound).to_html())
    assert "epsilon 1.5" in text
    assert "0.5 was spent on choosing the bound" in text


def test_refused_inference_and_ridge(release, undrawn):
    text = words(replace(release, n_rows=3).to_html(["cost"], ridge=2.0))
    assert "No standard errors: a ridge moves" in text
    assert "ridge of 2.0" in text
    with pytest.raises(ValueError, match="no column 'income'"):
        release.to_html(["income"])
    with pytest.raises(ValueError, match="no column 'income'"):
        release.to_html("income")


def test_refused_regression_leaves_the_page_as_it_is(undrawn):
    rng = np.random.default_rng(5)
    level = rng.integers(0, 3, 20_000)
    table = np.column_stack([*(level == k for k in range(3)), level + rng.uniform(0, 1, 20_000)])
    columns = pg.Columns(dict.fromkeys("abc", (0, 1)) | {"y": (0, 4)}, intercept=True)
    moment = pg.second_moment(table.astype(float), columns=columns)
    release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=rng)
    text = words(release.to_html(["y", "a"]))
    assert "Regression of y Refused. The columns 'a', 'b', 'c', 'intercept' seem to depend" in text
    assert "Regression of a" in text
    assert "95 % from" in text
    assert "eigenvalues about the mean" in text.lower()


def test_sketch_of_few_rows_has_a_page_and_a_spectrum(undrawn):
    moment = pg.second_moment(np.random.default_rng(1).standard_normal((3000, 5)), bound=5.0)
    release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=GaussianSketch(rows=2))
    assert "Not positive definite." in words(release.to_html(["x0"]))
    release.plot_spectrum()


@pytest.mark.slow
def test_many_columns_fold():
    d = 60
    moment = pg.second_moment(np.random.default_rng(1).standard_normal((3000, d)), bound=10.0)
    release = pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    read = Reader(release.to_html())
    assert "open" not in read.all("details")[0]
    assert read.text.count("x59") > 0


@pytest.mark.slow
def test_without_its_extras():
    code = """
import sys
sys.modules["jinja2"] = None
import numpy as np, privgram as pg
release = pg.release(pg.second_moment(np.eye(3), bound=1.0), epsilon=1.0, delta=1e-6)
try:
    release.to_html()
except ImportError as error:
    assert "privgram[report]" in str(error), error
else:
    raise AssertionError
# A composition's profile needs no accountant.
del sys.modules["jinja2"]
sys.modules["dp_accounting"] = None
from privgram import privacy, report
from dataclasses import replace
report._draw = lambda plot, alt: (plot(), report.Plot("data:,", "data:,", 1, 1, alt))[1]
both = replace(release, privacy=privacy.compose([release.privacy, privacy.LaplaceProfile(0.1)]))
both.to_html()
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"MPLBACKEND": "Agg"})


# --- the command --------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(program, ["report", *map(str, arguments)])


@pytest.mark.slow
def test_command_writes_the_page(saved, page, tmp_path):
    out = tmp_path / "page.html"
    result = run(saved, "-o", out, "--target", "cost")
    assert (result.exit_code, result.stderr) == (0, "")
    assert out.read_text() == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "page.pdf"], "an .html file"),
        (["-o", "none/page.html"], "there is no folder"),
        (["-o", "page.html", "--target", "income"], "no column 'income'"),
        (["-o", "page.html", "--target", "cost", "--ridge", "wide"], "a number or auto"),
        ([], "--out"),
    ],
)
def test_command_fails_with_one_line(saved, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(saved, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


# --- in a browser -------------------------------------------------------------------

PROBE = """<!DOCTYPE html><title>probe</title><body>
<iframe width="400" height="800" srcdoc="{page}"></iframe>
<iframe width="1200" height="800" srcdoc="{page}"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {{
  const found = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, body = page.documentElement;
    const box = node => {{ const b = node.getBoundingClientRect(); return [b.width, b.height]; }};
    return {{
      width: body.clientWidth, needed: body.scrollWidth,
      images: [...page.images].map(i => [i.complete && i.naturalWidth > 0, ...box(i)]),
      headings: [...page.querySelectorAll("h1, h2")].map(h => [h.innerText, ...box(h)]),
      loaded: frame.contentWindow.performance.getEntriesByType("resource").map(e => e.name),
    }};
  }});
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>
"""


def browse(page, folder):
    """What a headless browser makes of the page at 400 and 1200 pixels, and its console."""
    if BROWSER is None:
        pytest.skip("needs a browser: apt-get install chromium")
    probe = folder / "probe.html"
    probe.write_text(PROBE.format(page=html.escape(page)))
    done = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}", "--window-size=1300,1700",
            "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom", probe.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    text = done.stdout.partition('<pre id="found">')[2].partition("</pre>")[0]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(text)), console


@pytest.mark.slow
def test_in_a_browser(page, tmp_path):
    found, console = browse(page, tmp_path)
    assert console == []
    assert [frame["width"] for frame in found] == [pytest.approx(w, abs=20) for w in (400, 1200)]
    for frame in found:
        assert frame["needed"] <= frame["width"], "the page overflows to the right"
        assert frame["loaded"] == []
        assert len(frame["images"]) == 7
        for drawn, width, height in frame["images"]:
            assert drawn
            assert min(width, height) > 90
            assert 500 < width <= max(frame["width"], 576)  # a narrow screen scrolls them
        names = [name for name, width, height in frame["headings"] if min(width, height) > 10]
        assert names[0] == "Private release gram.npz"
        assert names[1:] == ["What is guaranteed", "What was released", "What goes together",
                             "Regression of cost", "How it was made", "How to use it"]  # fmt: skip


@pytest.mark.slow
def test_browser_would_notice(page, tmp_path):
    """Or the test above could not fail."""
    bad = page.replace("<main>", '<main><img src="http://example.com/x.png" alt=""><p style="width:'
                       '3000px">wide</p><script>1</script>')  # fmt: skip
    found, console = browse(bad, tmp_path)
    assert len(console) >= 2
    assert all(frame["needed"] > frame["width"] for frame in found)


def test_components_are_refused_in_words(undrawn):
    table = np.random.default_rng(4).uniform(0, 1, (20, 3))
    columns = pg.Columns({"a": (0, 1), "b": (0, 1), "sex": ["f", "m"]}, intercept=True)
    rows = {"a": table[:, 0], "b": table[:, 1], "sex": np.where(table[:, 2] < 0.5, "f", "m")}
    release = pg.release(
        rows, columns=columns, epsilon=0.05, delta=1e-6, mechanism=pg.AnalyzeGauss()
    )
    assert "There are no principal components" in words(release.to_html())
    clear = pg.release(
        rows, columns=columns, epsilon=1e6, delta=1e-6, mechanism=pg.AnalyzeGauss()
    ).to_html()
    assert "What goes together" in words(clear)
    assert "as arrows by their loadings" in clear
    assert "The 3 columns as arrows" in clear  # one level of two


@pytest.mark.slow
def test_levels_that_sum_to_ones_are_no_noise(undrawn):
    rng = np.random.default_rng(5)
    columns = pg.Columns(
        {"a": (0, 1), "sex": ["f", "m"], "region": ["n", "s"], "wage": pg.Log(1, 9)},
        terms=["poly(a, 2)", "sex", "region", "wage", "a:wage"],
        weights={"sex": 2.0},
    )
    rows = {"a": rng.random(5000), "wage": rng.uniform(1, 9, 5000)}
    rows |= {"sex": rng.choice(["f", "m"], 5000), "region": rng.choice(["n", "s"], 5000)}
    for seed in range(3):
        noise = np.random.default_rng(seed)
        release = pg.release(
            rows, columns=columns, epsilon=100, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=noise
        )
        text = words(release.to_html())
        assert "Not positive definite" not in text
        # A product is not explained.
        assert "release.regress('log(wage)')" in text
        assert "release.regress('a')" in words(release.to_html(["a"]))
    release = pg.release(
        rows, columns=columns, epsilon=0.01, delta=1e-6, mechanism=pg.AnalyzeGauss()
    )
    assert "Not positive definite" in words(release.to_html())


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_page_says_whose_rows_are_protected(undrawn, adjacency):
    rng = np.random.default_rng(0)
    table = {"who": rng.integers(0, 900, 5000), "a": rng.random(5000), "y": rng.random(5000)}
    release = pg.release(
        table,
        columns=pg.Columns({"a": (0, 1), "y": (0, 1)}, intercept=True),
        epsilon=2.0,
        delta=1e-6,
        adjacency=adjacency,
        unit=pg.Unit("who", max_rows=9),
    )
    text = words(release.to_html(["y"]))
    assert "all rows of any one who" in text
    assert "all rows of every other who" in text
    assert "any one row" not in text
    assert "number of rows is" not in text
    assert "bound of a unit" in text
