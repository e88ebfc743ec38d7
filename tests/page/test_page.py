"""The page: what it says, and in a browser what it answers, shows, lets pass and lets one do."""

import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from support.browser import BROWSER, Browser

import privgram as pg
from privgram._base.text import shown as shown_name
from privgram.cli._program import program
from privgram.page import document
from privgram.papers.sheffet import PublishedAnalyzeGauss

N = 20_000
NASTY = 'a <script>alert("x")</script> & $b$ {{script}}'
VARIABLES = {
    "age": (0, 1),
    "wage": pg.Log(1, 50),
    NASTY: (0, 1),
    "sex": ["f", "m"],
    "region": ["n", "s", "w"],
    "cost": (-2, 4),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    rows = {name: rng.uniform(0, 1, N) for name in ("age", NASTY)}
    rows |= {"sex": rng.choice(["f", "m"], N), "region": rng.choice(["n", "s", "w"], N)}
    rows["wage"] = np.exp(1 + rows["age"] + rng.normal(0, 0.3, N))
    return rows | {"cost": rows["age"] + (rows["sex"] == "m") + rng.normal(0, 0.3, N)}


@pytest.fixture(scope="module")
def release(table):
    return pg.release(
        table, pg.Columns(VARIABLES, intercept=True), 2.0, 1e-6, mechanism=pg.AnalyzeGauss()
    )  # fmt: skip


@pytest.fixture(scope="module")
def fit(table):
    return pg.regress(table, "cost ~ age + sex + region", VARIABLES, 1.0, 1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def paths(release, fit, folder):
    """A release's page and a fit's, and the files that they are of."""
    release.save(folder / "gram.json")
    fit.save(folder / "fit.json")
    release.to_html(folder / "gram.html", file=folder / "gram.json")
    fit.to_html(folder / "fit.html")
    return folder / "gram.html", folder / "fit.html"


class Reader(HTMLParser):
    """Tags with their attributes, and the text of the body without its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "body" in self.open and self.open[-1] != "script":
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def read(result, folder, **options):
    path = folder / "one.html"
    result.to_html(path, **options)
    return path.read_text(encoding="utf-8")


def words(result, folder, **options):
    return " ".join(Reader(read(result, folder, **options)).text.split())


def test_power_is_no_target_of_a_page(table, folder):
    columns = pg.Columns({"age": (0, 1), "cost": (-2, 4)}, terms=["poly(age, 2)", "cost"])
    made = pg.release(table, columns, 2.0, 1e-6, mechanism=pg.AnalyzeGauss())
    assert "poly(age, 2)" in read(made, folder, target="cost")
    with pytest.raises(ValueError, match="to explain on the page"):
        made.to_html(folder / "power.html", target="P2(age)")


def test_nothing_is_loaded_and_only_what_is_ours_runs(paths):
    for path in paths:
        page = path.read_text(encoding="utf-8")
        found = Reader(page)
        assert found.open == []
        assert not {"link", "iframe", "object", "embed", "base", "img"} & {x for x, _ in found.tags}
        for _, attributes in found.tags:
            assert not {"src", "href", "srcset", "style", "action"} & attributes.keys()
            assert not any(name.startswith("on") for name in attributes)
        [policy] = [x for x in found.all("meta") if "http-equiv" in x]
        for tag, directive in (("style", "style"), ('script type="module"', "script")):
            inside = re.search(rf"<{tag}>(.*?)</{directive}>", page, re.DOTALL)[1]
            assert f"{directive}-src '{document.csp_hash(inside)}';" in policy["content"]
        assert policy["content"].startswith("default-src 'none'; ")
        assert [x["type"] for x in found.all("script")] == ["application/json"] * 2 + ["module"]
        assert len(page.encode()) < 80_000


def test_page_is_accessible(paths):
    for path in paths:
        found = Reader(path.read_text(encoding="utf-8"))
        assert found.all("html")[0]["lang"] == "en"
        names = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(set(names)) == len(names)
        for section in found.all("section"):
            assert section.get("aria-labelledby", names[0]) in names
        assert all(cell.get("scope") in ("row", "col") for cell in found.all("th"))
        heads = [int(x[1]) for x, _ in found.tags if re.fullmatch("h[1-6]", x)]
        assert heads[0] == 1
        assert max(np.diff(heads)) == 1


def test_page_says_what_was_released(paths, release, fit, folder):
    text = " ".join(Reader(paths[0].read_text(encoding="utf-8")).text.split())
    checksum = hashlib.sha256((folder / "gram.json").read_bytes()).hexdigest()
    for fact in (
        "epsilon 2", "delta 1e-06", "protected single rows", "rows 20,000", "7.39 times", checksum,
        "gram.json", f"privgram {pg.__version__}", "logarithm of 1 to 50", "3 levels: n, s, w",
        str(release.privacy), "one row replaced", "What it cannot say", NASTY,
    ):  # fmt: skip
        assert fact in text, fact
    assert 'role="note"' not in paths[0].read_text(encoding="utf-8")  # nothing to warn of
    text = " ".join(Reader(paths[1].read_text(encoding="utf-8")).text.split())
    for fact in ("cost was regressed on age + sex + region", "HC1", "epsilon 1", "method scores"):
        assert fact in text, fact


def test_correlations_are_those_of_python(paths, release):
    names = [x for x in release.names if x not in ("intercept", "sex[f]", "region[n]")]
    found = release.correlation(names)
    cells = re.findall(r'<td class="(\w+)"><data value="([^"]+)">([^<]+)<', paths[0].read_text())
    clear = np.abs(found.matrix) >= 2 * found.noise
    at = np.tril_indices(len(names), -1)
    np.testing.assert_allclose([float(x) for _, x, _ in cells], found.matrix[at], rtol=1e-12)
    assert [not text.startswith("(") for *_, text in cells] == clear[at].tolist()


def test_power_is_that_of_the_gaussian_trade_off(release, folder):
    """Dong, Roth and Su: Gaussian noise has the power Phi(Phi^-1(a) + mu)."""
    exact = stats.norm.cdf(stats.norm.ppf(0.05) + release.privacy.sensitivity_ratio)
    assert exact <= document.power(release) <= exact * 1.01
    percent = re.search(r"with probability ([\d.]+)% at most", words(release, folder))[1]
    assert exact <= float(percent) / 100 < document.power(release) + 0.001


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 20.0])
def test_bounds_in_words_are_no_less_than_the_numbers(release, epsilon):
    made = replace(release, epsilon=epsilon, delta=1.2341e-6)
    said = document.guarantee(made)[0]
    factor, delta = re.search(r"at most ([\d.e+]+) times .* of (\S+) \(delta\)", said).groups()
    assert math.exp(epsilon) <= float(factor) <= math.exp(epsilon) * 1.001
    assert delta == "1.24e-06"
    assert document.no_less(1e-6, 3) == "1e-06"
    assert document.tiles(made, None)["delta"] == delta
    assert (
        document.budget(replace(release, epsilon=1.2345671)) == "epsilon = 1.23457, delta = 1e-06"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reproducible": True}, "Not private."),
        ({"condition": "eigenvalues are at least 3"}, "only if eigenvalues are at least 3"),
        ({"delta": 1e-3}, "A large delta."),
        ({"parameters": {"heavy_tail": True}}, "Few rows far out"),
        ({"mechanism": PublishedAnalyzeGauss(allow_published_erratum=True)}, "with an erratum"),
        ({"n_rows": None, "adjacency": "add-remove"}, "the number of rows is private"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_warnings(release, folder, change, message):
    assert message in words(replace(release, **change), folder)
    assert message not in words(release, folder)


def test_cost_of_the_bound_is_named(folder):
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    asked = {"mechanism": pg.AnalyzeGauss(), "bound": pg.PrivateBound(0.5)}
    text = words(pg.release(x, epsilon=1.0, delta=1e-6, **asked), folder)
    assert "epsilon 1.5" in text
    assert "0.5 was spent on choosing the bound" in text


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_page_says_whose_rows_are_protected(folder, adjacency):
    rng = np.random.default_rng(0)
    table = {"who": rng.integers(0, 900, 5000), "a": rng.random(5000), "y": rng.random(5000)}
    given = {"unit": pg.Unit("who", max_rows=9), "adjacency": adjacency}
    columns = pg.Columns({"a": (0, 1), "y": (0, 1)}, intercept=True)
    release = pg.release(table, columns=columns, epsilon=2.0, delta=1e-6, **given)
    text = words(release, folder)
    for fact in ("all rows of any one who", "all rows of every other who", "norm of a unit"):
        assert fact in text
    assert "any one row" not in text


def test_to_html_refuses_what_it_cannot_do(release, fit, folder):
    for result, path, target, message in (
        (release, "page.html", "income", "no column 'income'"),
        (release, "page.pdf", None, "must end in .html"),
    ):
        with pytest.raises(ValueError, match=message):
            result.to_html(folder / path, target=target)
        assert not (folder / path).exists()


def test_command_writes_the_page(paths, folder):
    for path in paths:
        saved = path.with_suffix(".json")
        done = CliRunner().invoke(program, ["page", str(saved), "-o", str(folder / "out.html")])
        assert (done.exit_code, done.stderr) == (0, "")
        assert (folder / "out.html").read_text().partition("<section")[0] == (
            path.read_text().partition("<section")[0]
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "page.pdf"], "must end in .html"),
        (["-o", "none/page.html"], "there is no folder"),
        (["-o", "page.html", "--target", "income"], "no column 'income'"),
        ([], "--out"),
    ],
)
def test_command_fails_with_one_line(paths, folder, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(program, ["page", str(folder / "gram.json"), *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="needs a browser: apt-get install chromium"
)

#: Names and numbers of the answer's table.
TABLE = """[...document.querySelectorAll("#coefficients tbody tr")]
  .filter(row => row.cells.length > 1).map(row => [row.cells[0].textContent,
    [...row.querySelectorAll("data")].map(x => Number(x.value))])"""


@pytest.fixture(scope="module")
def browser(folder):
    browser = Browser(folder)
    yield browser
    browser.close()


def agrees(browser, fit, alpha=0.05):
    """The table on the page has the numbers of a fit in Python."""
    shown = dict(browser.evaluate(TABLE))
    assert shown.keys() == set(fit.param_names)
    columns = [fit.params, fit.bse, *np.asarray(fit.conf_int(alpha)).T, fit.pvalues]
    for name, expected in zip(fit.param_names, np.column_stack(columns), strict=True):
        found = shown[name]
        np.testing.assert_allclose(found[:4], expected[:4], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[4], expected[4], rtol=1e-8, atol=1e-290)


def choose(browser, **choices):
    """Set controls by id, features by name, and tell the page, as a reader's change does."""
    browser.evaluate(f"""for (const [id, value] of Object.entries({json.dumps(choices)})) {{
      const one = document.getElementById(id) ?? [...document.querySelectorAll("#features input, "
        + "#features select")].find(x => (x.name || x.value) === id.replace(/^_/, "")
        && id.startsWith("_") === (x.tagName === "SELECT"));
      if (typeof value === "boolean") one.checked = value; else one.value = value;
      one.dispatchEvent(new Event("change", {{ bubbles: true }}));
    }}""")


@pytest.mark.slow
@needs_browser
def test_numbers_of_the_page_are_those_of_python(paths, release, fit, browser):
    browser.open(paths[0])
    every = release.regress("cost")
    agrees(browser, every)
    drawn = browser.evaluate("[...document.querySelectorAll('svg title')].map(x => x.textContent)")
    per_deviation = np.asarray(every.params)[:-1] * release.describe(every.design.names).std
    shown = [float(one.rpartition(": ")[2]) for one in drawn]
    np.testing.assert_allclose(shown, per_deviation, rtol=1e-3)
    choose(browser, target="log(wage)", level="0.9", region=False)
    agrees(browser, release.regress("log(wage)", ["age", NASTY, "sex", "cost"]), alpha=0.1)
    choose(browser, target="cost", level="0.99", region=True, _region="w", _sex="m")
    reference = {"region": "w", "sex": "m"}
    names = ["age", "log(wage)", NASTY, "sex", "region"]
    agrees(browser, release.regress("cost", names, reference=reference), alpha=0.01)
    code = browser.evaluate("document.getElementById('code').textContent")
    scope = {"pg": pg}
    exec(code.replace('pg.load("gram.json")', "release"), scope | {"release": release}, scope)
    assert (
        scope["fit"].param_names == release.regress("cost", names, reference=reference).param_names
    )
    choose(browser, target="sex[m]", intercept=False)
    every = ["age", "log(wage)", NASTY, "cost", "region"]
    agrees(
        browser, release.regress("sex[m]", every, intercept=False, reference={"region": "w"}), 0.01
    )
    browser.open(paths[1])
    agrees(browser, fit)
    assert browser.console == []


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("formula", ["cost ~ poly(age, 2) + sex", "cost ~ sex | age ~ region"])
def test_fit_on_a_release_has_its_own_page(table, folder, browser, formula):
    """Also of powers and instruments, of which the page has the numbers themselves."""
    given = {"mechanism": pg.AnalyzeGauss(), "out": folder / "held.json"}
    pg.regress(table, formula, VARIABLES, 8.0, 1e-6, **given)
    fit = pg.load(folder / "held.json")
    fit.to_html(folder / "held.html")
    browser.open(folder / "held.html")
    assert browser.console == []
    agrees(browser, fit)
    assert " + ".join(fit.design.terms) in words(fit, folder)


@pytest.mark.slow
@needs_browser
def test_page_fits_its_window_and_asks_no_network(paths, browser):
    for path in paths:
        for width, dark in ((400, False), (1200, True)):
            browser.open(path, width, dark)
            needed = browser.evaluate("document.documentElement.scrollWidth")
            assert needed <= width, "the page overflows to the right"
            assert browser.console == []
            assert [x for x in browser.loaded if not x.startswith("file:")] == []
            ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(20, 23, 27)") is dark
            box = browser.evaluate("(b => [b.width, b.height])(document.querySelector('svg')"
                                   ".getBoundingClientRect())")  # fmt: skip
            assert width * 0.7 < box[0] <= width or box[0] > 800
            assert box[1] > 100
        browser.open(path, media="print")
        hidden = browser.evaluate("[...document.querySelectorAll('form, button')]"
                                  ".every(x => getComputedStyle(x).display == 'none')")  # fmt: skip
        assert hidden


@pytest.mark.slow
@needs_browser
def test_keyboard_alone_suffices(paths, release, browser):
    """Each control is reached by Tab, has a name and a visible focus, and works by keys."""
    browser.open(paths[0])
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(
            browser.evaluate("""(x => [x.id || x.name || x.value || x.getAttribute("aria-label"),
          getComputedStyle(x).outlineStyle,
          x.labels?.[0]?.textContent.trim() || x.ariaLabel || x.textContent])
          (document.activeElement)""")
        )
        if seen[-1][0] == "Code":
            break
    reached = [name for name, *_ in seen]
    for name in ("target", "level", "intercept", "all", "none", "age", "region", "Coefficients",
                 "Correlations", "copy", "Code", NASTY):  # fmt: skip
        assert name in reached
    assert all(style != "none" and label for _, style, label in seen)
    browser.evaluate("document.getElementById('none').focus()")
    browser.press("Enter")
    browser.press("Tab")
    browser.press("Space")  # the first feature
    agrees(browser, release.regress("cost", ["age"]))
    browser.evaluate("document.getElementById('target').focus()")
    browser.press("ArrowDown")
    browser.press("Enter")
    assert browser.evaluate("document.getElementById('target').value") != "cost"


@pytest.mark.slow
@needs_browser
def test_open_ends_are_arrows_and_refusals_words(paths, folder, browser):
    """Where the noise hides a coefficient, of a level that few rows have."""
    columns = pg.Columns({"a": (0, 1), "few": bool, "y": (-2, 4)}, intercept=True)
    seen = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        a, few = rng.uniform(0, 1, 3000), rng.random(3000) < 0.01
        rows = {"a": a, "few": few, "y": a + rng.normal(0, 0.3, 3000)}
        given = {"mechanism": pg.AnalyzeGauss(), "rng": rng}
        made = pg.release(rows, columns, epsilon=0.6, delta=1e-6, **given)
        python = made.regress("y")
        is_open = np.isinf(python._ends(0.05)[:-1]).ravel()
        kind = "refused" if python.refusal else "open" if is_open.any() else ""
        if not kind or kind in seen:
            continue
        seen.add(kind)
        made.to_html(folder / "noisy.html")
        browser.open(folder / "noisy.html")
        said = browser.evaluate("document.getElementById('result').innerText")
        arrows = browser.evaluate("document.querySelectorAll('svg .open').length")
        assert arrows == (is_open.sum() if kind == "open" else 0)
        assert ("no end" if kind == "open" else "No answer: ") in said
    assert seen == {"refused", "open"}
    browser.open(paths[0])
    browser.evaluate("document.getElementById('none').click()")
    choose(browser, intercept=False)
    said = browser.evaluate("document.getElementById('result').innerText")
    assert said == "No answer: there is no feature to regress on."


@pytest.mark.slow
@needs_browser
def test_browser_would_notice(paths, folder, browser):
    """Or the tests above could not fail: a script, a picture and a wide line that are not ours."""
    bad = paths[0].read_text().replace(
        "<main>", '<main><img src="http://example.com/x.png"><script>document.title = "owned"'
        '</script><p onclick="1">' + "w" * 4000 + "</p><style>p {white-space: nowrap}</style>"
    )  # fmt: skip
    (folder / "bad.html").write_text(bad)
    browser.open(folder / "bad.html")
    assert len(browser.console) >= 3
    assert all("Content Security Policy" in line for line in browser.console)
    assert browser.evaluate("document.title") != "owned"


#: Names that would be markup, templates, ends of scripts, controls or properties of objects.
HOSTILE = (
    "</script><script>document.title='owned'</script>", "<img src=x onerror=alert(1)>",
    "{{script}}", "${document.title='owned'}", "__proto__", "constructor", "<!--", "]]>",
    "&lt;b&gt;", 'quote" onfocus="document.title=1', "back\\slash", "x" * 300, " ", "[red]",
    "a\x1b]0;owned\x07\r\x00b\nc\u202ed\x9be\u2028", "ünïcode 年収",
)  # fmt: skip


@pytest.mark.slow
@needs_browser
def test_hostile_names_are_text(folder, browser):
    names = list(HOSTILE)
    rng = np.random.default_rng(1)
    rows = {name: rng.uniform(0, 1, 5000) for name in names}
    rows |= {"y": rng.uniform(0, 1, 5000), "<g>": rng.choice(["</td>", "$&"], 5000)}
    columns = pg.Columns(
        dict.fromkeys([*names, "y"], (0, 1)) | {"<g>": ["</td>", "$&"]}, intercept=True
    )
    release = pg.release(rows, columns, epsilon=8.0, delta=1e-6, mechanism=pg.AnalyzeGauss())
    release.to_html(folder / "hostile.html", title=HOSTILE[0])
    page = (folder / "hostile.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", page)
    browser.open(folder / "hostile.html")
    assert browser.console == []
    assert browser.evaluate("document.title") == HOSTILE[0]
    assert browser.evaluate("document.querySelectorAll('img, b, main script').length") == 0
    shown = browser.evaluate(
        "[...document.querySelectorAll('#target option')].map(x => x.textContent)"
    )
    assert [name.strip() for name in shown] == [
        shown_name(name).strip() for name in [*names, "y", "<g>[</td>]", "<g>[$&]"]
    ]
    python = release.regress("y")
    found = dict(browser.evaluate(TABLE))
    for name, coef in zip(python.param_names, python.params, strict=True):
        np.testing.assert_allclose(found[shown_name(name)][0], coef, rtol=1e-9)
    for name in names:
        browser.evaluate(f"""(one => {{ one.value = {json.dumps(name)};
          one.dispatchEvent(new Event("change", {{ bubbles: true }}));
        }})(document.getElementById("target"))""")
        scope = {"release": release, "pg": pg}
        code = browser.evaluate("document.getElementById('code').textContent")
        exec(code.replace('pg.load("saved.json")', "release"), scope)
        assert scope["fit"].target == name
    assert browser.console == []
