"""The theory pages say what their scripts compute, and link to what exists."""

import re
from pathlib import Path

import errata
import pytest
import tables

FOLDER = Path(tables.__file__).parent
PAGES = sorted(FOLDER.glob("*.md"))
#: The tables that they include.
TEXTS = sorted((FOLDER / "filled").glob("*.txt"))


@pytest.mark.long
def test_errata_page_is_what_its_script_writes():
    assert errata.PAGE.read_text(encoding="utf-8") == errata.page()


@pytest.mark.long
@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_tables_are_what_their_script_writes(page):
    text = page.read_text(encoding="utf-8")
    assert text == tables.fill(text)


def test_every_table_has_a_place():
    text = "".join(page.read_text(encoding="utf-8") for page in TEXTS)
    assert sorted(match[1] for match in tables.BLOCK.finditer(text)) == sorted(tables.TABLES)
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    included = re.findall(r"^```\{include\} filled/([\w-]+)\.txt\n```$", pages, re.MULTILINE)
    assert sorted(included) == sorted(tables.TABLES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_figures_exist(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_of_the_code_exist(page):
    from privgram import privacy

    for name in re.findall(r"`privacy\.((?:published|calibration)\.\w+)", page.read_text("utf-8")):
        module, function = name.split(".")
        assert hasattr(getattr(privacy, module), function), name


def test_every_figure_has_a_function():
    pytest.importorskip("matplotlib")
    import figures

    drawn = {path.stem for path in figures.FOLDER.glob("*")}
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"\]\(figures/([\w-]+)\.svg\)", text))
    assert drawn == shown == set(figures.FIGURES)
