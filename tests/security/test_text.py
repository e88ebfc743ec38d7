"""Text from outside is shown, and not obeyed: by terminals, tables, SVG and messages."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privgram as pg
from privgram._base.text import shown
from privgram.cli._program import program

#: A title set, a bell, a line gone back over, an end of text, a break, a turn of direction, a C1.
BAD = "a\x1b]0;owned\x07\x1b[31m\r\x00b\nc\u202ed\x9be\x7f\u2028"
SEEN = r"a\x1b]0;owned\x07\x1b[31m\r\x00b\nc\u202ed\x9be\x7f\u2028"
CONTROLS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.fixture(scope="module")
def release():
    x = np.random.default_rng(0).uniform(-1, 1, (4000, 3))
    columns = pg.Columns({BAD: (-1, 1), "y": (-1, 1), "z": (-1, 1)})
    return pg.release(
        pg.second_moment(x, columns=columns), epsilon=4.0, delta=1e-6, mechanism=pg.AnalyzeGauss()
    )


def test_control_characters_are_escaped_and_others_are_not():
    assert shown(BAD) == SEEN
    for name in ("", "plain", "größe (m²)", "ستون\u200cها", "年収", "a\\b", "👩\u200d🔬", "[red]"):
        assert shown(name) == name
    assert shown("\ud800 \ufeff\u200b\xa0") == r"\ud800 \ufeff\u200b\xa0"


@pytest.mark.parametrize(
    "command",
    [
        ["info"], ["regress", "--target", "y"], ["regress", "--target", BAD],
        ["regress", "--target", "nowhere"], ["info", "--json"],
        ["regress", "--json", "--target", BAD],
        ["page", "--target", BAD, "--out", f"{BAD[:12]}.html"],
    ],
)  # fmt: skip
def test_terminals_get_no_control_characters(release, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    release.save("gram.json")
    assert pg.load("gram.json").names[0] == BAD  # kept as it is
    done = CliRunner().invoke(program, [command[0], "gram.json", *command[1:]])
    assert done.exit_code == (2 if "nowhere" in command else 0), done.stderr
    assert not CONTROLS.search(done.output)
    assert done.stderr.count("\n") <= 1
    if "--json" not in command and command[0] != "page":
        assert "]0;owned" in done.output


def test_ledgers_are_shown_without_control_characters(tmp_path):
    path = tmp_path / "study.ledger"
    pg.Ledger(path, 1.0, 1e-6).spend(0.1, 0.0, adjacency="replace", unit="", what=BAD)
    done = CliRunner().invoke(program, ["ledger", str(path)])
    assert done.exit_code == 0
    assert "]0;owned" in done.output
    assert not CONTROLS.search(done.output)
    done = CliRunner().invoke(program, ["ledger", f"{path}\x1b[2J"])
    assert r"study.ledger\x1b[2J" in done.stderr
    assert not CONTROLS.search(done.output)


def test_break_in_a_name_does_not_break_a_summary(release):
    for fit in (release.regress("y"), release.regress(BAD)):
        lines = fit.summary().as_text().split("\n")
        rules = [i for i, line in enumerate(lines) if line and set(line) <= set("-=")]
        assert np.diff(rules).tolist() == [5, 2, 3]  # heading, names of columns, two rows
        assert {len(line) for line in lines[rules[2] + 1 : rules[3]]} == {len(lines[rules[2]])}
        assert not CONTROLS.search(repr(fit))
    with pytest.raises(ValueError, match=r"no column 'x'") as caught:
        release.index("x")
    assert not CONTROLS.search(str(caught.value))


def test_condition_and_reason_of_a_file_are_shown(release, tmp_path):
    replace(release, condition=BAD).save(tmp_path / "release.json")
    loaded = pg.load(tmp_path / "release.json", pg.Release)
    fit = replace(loaded.regress("y"), not_scores=BAD)
    texts = repr(loaded), fit.summary().as_text(), fit.summary().as_html(), repr(fit)
    assert not any(map(CONTROLS.search, texts))
    assert SEEN in texts[0]
    assert texts[1].count(SEEN) >= 2
    refused = replace(fit, without=BAD)
    assert not CONTROLS.search(repr(refused) + str(refused.summary()))


def test_pages_are_well_formed(release, tmp_path):
    release.to_html(tmp_path / "page.html", target=BAD, title=BAD)
    assert not CONTROLS.search((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_no_text_of_a_study_or_file_holds_control_characters(tmp_path, monkeypatch):
    """Terminals obey them: names of tables, units, columns and files are shown with escapes."""
    monkeypatch.chdir(tmp_path)
    evil = "a\x1b[31m"
    rng = np.random.default_rng(0)
    table = {evil: rng.uniform(size=2000), "y": rng.uniform(size=2000), "w\x1b": np.arange(2000)}
    study = pg.Study(
        table,
        {evil: (0, 1), "y": (0, 1)},
        epsilon=1,
        delta=1e-6,
        unit=pg.Unit("w\x1b", max_rows=1),
        name=evil,
        ledger=f"{evil}.ledger",
    )
    texts = [repr(study), str(study.plan(f"y ~ `{evil}`", epsilon=1, n_rows=2000))]
    (tmp_path / f"{evil}.toml").write_text("x")
    (tmp_path / f"{evil}.json").write_text("x")
    (tmp_path / f"{evil}.csv").write_text("")
    missing, here = Path(f"no{evil}.csv"), Path(f"{evil}.csv")
    for spoilt in (
        lambda: study.release(epsilon=100),
        lambda: pg.Study.load(f"{evil}.toml"),
        lambda: pg.load(f"{evil}.json"),
        lambda: pg.Columns.load(f"{evil}.toml"),
        lambda: pg.second_moment(missing, 1.0),
        lambda: pg.second_moment(here, 1.0),
        lambda: pg.second_moment(f"{evil}*.npy", 1.0),
    ):
        with pytest.raises((ValueError, OSError)) as caught:
            spoilt()
        texts.append(str(caught.value))
    for text in texts:
        assert "\x1b" not in text
        assert "\\x1b[31m" in text


@pytest.fixture(scope="module")
def shown_results():
    """What a notebook shows, by name: of a study, a release and what follows from them."""
    rng = np.random.default_rng(0)
    n, evil = 4000, "=1<b>\x1b"
    table = {evil: rng.uniform(size=n), "y": rng.uniform(size=n), "g": rng.choice(["u", "v"], n)}
    study = pg.Study(table, {evil: (0, 1), "y": (0, 1), "g": ["u", "v"]}, epsilon=99, delta=1e-6)
    release = study.release(epsilon=20, mechanism=pg.AnalyzeGauss())
    fit = release.regress("y")
    return {
        "study": study,
        "release": release,
        "fit": fit,
        "summary": fit.summary(),
        "description": release.describe(),
        "correlation": release.correlation([evil, "y"]),
        "pca": release.pca(columns=[evil, "y"]),
        "plan": study.plan(f"y ~ `{evil}`", epsilon=1),
        "check": study.check(),
        "t_test": fit.t_test(np.eye(len(fit.param_names))),
        "prediction": fit.get_prediction({"y": [0.5], evil: [0.123456], "g": ["u"]}),
    }


@pytest.mark.slow
def test_notebooks_show_tables_whose_text_is_escaped(shown_results):
    """No dump of a dataclass, nothing that acts, and no value of a row that was predicted."""
    for name, one in shown_results.items():
        text = repr(one)
        assert not CONTROLS.search(text), name
        assert "array(" not in text, name
        assert "0.123456" not in text, name
        if name == "prediction":
            continue
        page = one._repr_html_()
        ET.fromstring(f"<div>{page}</div>")
        assert not CONTROLS.search(page), name
        assert "<b>" not in page, name
    for name in ("study", "description", "pca", "plan", "check", "correlation"):
        assert "y" in shown_results[name]._repr_html_()
    assert repr(shown_results["summary"]) == str(shown_results["summary"])
