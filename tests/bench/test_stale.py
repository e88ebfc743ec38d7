"""Tables of results are stale once what they rest on changes, and the command is named.

Whether they are stale now is asked by `make stale`, on the processor that measured them: seeded
answers have other last digits, and eigenvectors other signs, elsewhere.
"""

import platform
import shutil
import subprocess

import numpy as np
import pytest

from bench import pages, report


@pytest.mark.long
@pytest.mark.parametrize("law", pages.LAWS)
def test_law_has_answers(law):
    """What is refused hides changes, so most is not."""
    assert np.isfinite(pages.numbers_of(law)).mean() > 0.7


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("cc"), reason="it is a kernel of AVX-512"
)
def test_kernel_without_rounding_is_one_of_today():
    """It takes functions of the kernels, and the benchmark compiles it where it runs."""
    flags = ["-fsyntax-only", "-mavx512f", "-mavx512dq", "-mfma"]
    subprocess.run(["cc", *flags, pages.ROOT / "bench" / "unquantised.c"], check=True)


@pytest.mark.parametrize("name", pages.TABLES)
def test_every_table_has_one_place(name):
    """Between marks of the page, or in a file that the page includes once."""
    page = (pages.ROOT / pages.TABLES[name].page).read_text(encoding="utf-8")
    file = pages.file_of(name)
    include = f"```{{include}} benchmarks/tables/{file.name}\n"
    assert page.count(f"<!-- {name} -->\n" if file.suffix == ".md" else include) == 1
    assert file.read_text(encoding="utf-8").strip()


def test_table_that_another_law_measured_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "MEASURED", tmp_path / "measured.json")
    pages.MEASURED.write_text("{}")
    monkeypatch.setattr(pages, "digest", lambda law: law)
    pages.keep(pages.TABLES)
    assert not pages.stale()
    monkeypatch.setattr(pages, "digest", lambda law: law.replace("logistic", "another"))
    assert [line.partition(" was measured")[0] for line in pages.stale()] == [
        f"{table.page}: the table {name!r}"
        for name, table in pages.TABLES.items()
        if "logistic" in table.laws
    ]


def test_page_of_speed_is_what_was_measured():
    report.check()  # exits where the page says something else


@pytest.mark.parametrize(
    ("name", "comment"),
    [("a.c", "/* %s */"), ("a.h", "// %s"), ("a.pyx", "# %s"), ("a.py", '"""%s"""')],
)
def test_times_rest_on_code_and_not_on_comments(tmp_path, name, comment):
    def read(*lines):
        (tmp_path / name).write_text("\n".join(lines))
        return pages.sources(tmp_path)

    assert read("x = 1;", comment % "why") == read(comment % "because", "", "x = 1;")
    assert read("x = 1;") != read("x = 2;")
