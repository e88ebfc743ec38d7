"""What ``import privgram`` brings along, and that its names are there."""

import os
import subprocess
import sys
import textwrap

import pytest

import privgram as pg

pytestmark = pytest.mark.slow

LATER = (
    "scipy",
    "pyarrow",
    "pandas",
    "matplotlib",
    "sklearn",
    "click",
    "rich",
    "dp_accounting",
    "opendp",
    "dask",
    "distributed",
    "pyspark",
)


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_import_loads_nothing_heavy():
    loaded = set(run("import sys, privgram; print(*sys.modules)").split())
    assert "privgram" in loaded
    assert not {*LATER, "numpy"} & loaded
    loaded = set(run("import sys, privgram as pg; pg.release; print(*sys.modules)").split())
    assert {"numpy", "privgram.disclosure.release"} <= loaded
    assert not {*LATER, "privgram.regression"} & loaded
    loaded = set(run("import sys, privgram as pg; pg.Study; print(*sys.modules)").split())
    assert {"numpy", "privgram.study.study"} <= loaded
    assert not {*LATER, "privgram.regression", "privgram.planning", "privgram.glm"} & loaded


def test_help_of_the_program_loads_no_command():
    code = (
        "import sys\nfrom privgram.cli import main\nsys.argv = ['privgram', '--help']\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules)"
    )
    loaded = set(run(code).split())
    assert "click" in loaded
    own = {name for name in loaded if name.startswith("privgram.cli.")}
    assert own == {"privgram.cli._program", "privgram.cli._status"}
    assert not ({*LATER, "privgram.ledger"} - {"click", "rich"}) & loaded


def test_public_names_are_few_and_the_papers_are_there_besides():
    assert len(pg.__all__) <= 26
    assert pg.papers.__name__ == "privgram.papers"
    assert "papers" in dir(pg)


@pytest.mark.parametrize("name", pg.__all__)
def test_names_are_there_and_documented(name):
    assert getattr(pg, name).__doc__
    assert name in dir(pg)


#: Runs a piece of code for each of some names, each in a process with NumPy and nothing else.
EACH = """
import os, sys, numpy
for name in {names!r}:
    if (child := os.fork()) == 0:
{body}
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def each(names: tuple[str, ...], body: str) -> None:
    run(EACH.format(names=names, body=textwrap.indent(body, " " * 8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_functions_are_not_hidden_by_the_modules_they_live_in():
    """release is a function, whatever is imported first."""
    each(
        ("releases", "planning", "disclosure.release", "mechanisms", "cli"),
        "import importlib; importlib.import_module('privgram.' + name); import privgram as pg\n"
        "assert callable(pg.release)",
    )


def test_star_import_gives_the_public_names():
    out = run("from privgram import *; print(*sorted(n for n in dir() if n[:2] != '__'))")
    assert set(out.split()) == set(pg.__all__)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_modules_have_their_names_from_the_start():
    """Without anything else having imported them: papers.sheffet is one of papers'."""
    each(
        ("mechanisms", "papers", "papers.hardt_roth", "papers.sheffet", "privacy"),
        "import importlib; module = importlib.import_module('privgram.' + name)\n"
        "assert all(hasattr(module, each) for each in module.__all__)",
    )


def test_version_is_the_distributions():
    from importlib.metadata import version

    assert pg.__version__ == version("privgram")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pg.nothing
