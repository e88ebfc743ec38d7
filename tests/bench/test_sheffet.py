"""The second-moment paper's experiments: their data, their runs, their interruption."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import privgram as pg
from bench.paper.__main__ import command
from bench.paper.sheffet import headline, runner, runs, statements, stream
from bench.paper.sheffet.estimators import ESTIMATORS, Trial, coefficients
from bench.paper.sheffet.figures import FIGURES, SIX
from bench.paper.sheffet.results import Results
from bench.paper.sheffet.settings import PAPER, SCALES, SMALL

pytestmark = [pytest.mark.slow, pytest.mark.long]

SINGLE = replace(PAPER["single"], exponents=(12, 13, 14), epsilons=(0.5,), repetitions=2)
MULTIPLE = replace(PAPER["multiple"], exponents=(12, 13), repetitions=2, extras=(0, 2))
SETTINGS = {"single": SINGLE, "multiple": MULTIPLE}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_rows_follow_the_papers_model(setting):
    rows = np.concatenate([stream.chunk(setting, 1, j) for j in range(4)])
    p, n = setting.n_features, len(rows)
    x, labels, intercept = rows[:, :p], rows[:, p:-1], rows[:, -1]
    assert (intercept == 1.0).all()
    beta = setting.coefficients
    assert (np.abs(beta) <= 1).all()
    assert np.linalg.norm(beta[-1]) == pytest.approx(setting.norm, abs=0.01)
    noise = labels - x @ beta[:, :p].T - beta[:, p]
    whole = np.column_stack([x, noise / setting.noise_std])
    covariance = whole.T @ whole / n
    # Entries are within 6 / sqrt(n) of the identity's; false alarm below 1e-5.
    assert np.abs(covariance - np.eye(len(covariance))).max() < 6 * np.sqrt(2 / n)
    assert np.abs(whole.mean(axis=0)).max() < 6 / np.sqrt(n)


def test_stream_is_the_second_moment_of_its_rows_however_it_is_cut(tmp_path):
    rows = np.concatenate([stream.chunk(SINGLE, 0, j) for j in range(4)])
    whole = pg.second_moment(rows, bound=SINGLE.bound)
    assert whole.to_bytes() == stream.accumulate(SINGLE, 0, 0, len(rows)).to_bytes()
    parts = runner.stretches(tmp_path, SINGLE, 0, len(rows))
    assert [(part.start, part.stop) for part in parts] == [(0, 4096), (4096, 8192), (8192, 16384)]
    for part in parts:
        part()
    first, *others = (pg.SecondMoment.from_bytes(part.path.read_bytes()) for part in parts)
    merged = sum(others, first)
    assert merged.to_bytes() == whole.to_bytes()


def trial(setting, moment, calibration="published", epsilon=0.5):
    return Trial(setting, setting.exponents[-1], 0, moment, epsilon, calibration)


@pytest.fixture(scope="module")
def moment():
    return stream.accumulate(SINGLE, 0, 0, 2**14)


def test_least_squares_is_that_of_the_rows(moment):
    rows = np.concatenate([stream.chunk(SINGLE, 0, j) for j in range(4)])
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows * np.minimum(1.0, SINGLE.bound / norms)
    expected = np.linalg.lstsq(rows[:, [*range(20), 21]], rows[:, 20])[0]
    found = coefficients(ESTIMATORS["least squares"](trial(SINGLE, moment)).matrix,
                         [*range(20), 21], 20)  # fmt: skip
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_lasso_meets_its_optimality_conditions(moment):
    matrix, features, target, penalty = moment.matrix(), [*range(20), 21], 20, 0.05
    b = runs.lasso(matrix, features, target, penalty)
    scale = np.sqrt(np.diag(matrix))
    correlation = matrix / np.outer(scale, scale)
    scaled = b * scale[features] / scale[target]
    slope = correlation[features, target] - correlation[np.ix_(features, features)] @ scaled
    active = scaled != 0
    active[-1] = False
    np.testing.assert_allclose(slope[active], penalty * np.sign(scaled[active]), atol=1e-6)
    assert (np.abs(slope[~active]) <= penalty + 1e-6).all()
    assert abs(slope[-1]) < 1e-6  # no penalty on the intercept
    assert 0 < (b == 0).sum() < 20
    np.testing.assert_allclose(
        runs.lasso(matrix, features, target, 0.0), coefficients(matrix, features, target), atol=1e-6
    )


def made_up(setting, names, error):
    """Runs whose error is a function of estimator, calibration and n."""
    return [
        runs.Run(2**k, repetition, epsilon, calibration, name, 0, 0.0,
                 error(name, calibration, 2**k), np.nan, np.nan, np.nan, 1)
        for k in setting.exponents for repetition in range(setting.repetitions)
        for epsilon in setting.epsilons for calibration in ("published", "exact")
        for name in names
    ]  # fmt: skip


def test_rows_needed_interpolates_and_knows_its_limits():
    def error(name, calibration, n):
        if name == "Algorithm 3":
            return 1.0 if n < 2**13 else 0.05
        return (400 if calibration == "exact" else 1600) / n

    results = Results(SINGLE, made_up(SINGLE, [c.estimator for c in SIX], error))
    assert headline.rows_needed(results, "Algorithm 2", "exact", 0.5) == 2**12  # there already
    assert headline.rows_needed(results, "Algorithm 2", "published", 0.5) == pytest.approx(16_000)
    assert headline.rows_needed(results, "Algorithm 2", "published", 0.5, 0.05) == np.inf
    assert 2**12 < headline.rows_needed(results, "Algorithm 3", "exact", 0.5) < 2**13
    table = headline.to_markdown(results).splitlines()
    assert table[0] == "| estimator | ε = 0.5 |"
    assert "| Algorithm 2 | 16 k → **≤ 4,096** (3.9×) |" in table


def test_statements_tell_what_holds_from_what_does_not():
    setting = replace(SINGLE, exponents=(12, 13), repetitions=3)
    for below in (0.5, 2.0):

        def error(name, calibration, n, below=below):
            debiased = below if calibration == "published" else 1.0
            return debiased if name == "Algorithm 3, debiased" else 1.0

        results = Results(setting, made_up(setting, FIGURES["fig2"].estimators, error))
        [(statement, finding)] = statements.check({"single": results}, ["fig2"])
        assert finding.holds == (below < 1)
        table = statements.to_markdown([(statement, finding)]).splitlines()
        assert len(table) == 3
        assert ("**no**" in table[2]) == (below > 1)
    [(statement, finding)] = statements.check({"single": Results(setting, [])}, ["fig2"])
    assert finding is None
    assert "needs --scale paper" in statements.to_markdown([(statement, finding)])


def reproduce(*arguments):
    return CliRunner().invoke(command, arguments)


def test_command_makes_every_figure(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    small = {
        "single": replace(SMALL["single"], exponents=(12, 14), epsilons=(0.1, 0.5), repetitions=2),
        "multiple": replace(SMALL["multiple"], exponents=(12, 14), repetitions=2, extras=(0, 19)),
    }
    monkeypatch.setitem(SCALES, "small", small)
    first = reproduce("all", "--out", str(tmp_path), "--json")
    assert first.exit_code == 0, first.output
    report = json.loads(first.stdout)
    assert len(report["statements"]) == len(statements.STATEMENTS)
    assert "100%" in first.stderr
    for name, figure in FIGURES.items():
        setting = small[figure.setting]
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["estimator"] for row in rows} == set(figure.estimators)
        assert {int(row["n"]) for row in rows} == {2**k for k in setting.exponents}
        assert {row["calibration"] for row in rows} == {"published", "exact"}
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["setting"]["seed"] == 0
        assert record["wall_seconds"] > 0
        assert "numpy" in record["versions"]
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert set(report["files"]) == {str(path) for path in tmp_path.iterdir() if path.is_file()}
    before = (tmp_path / "fig4.csv").read_bytes()
    # Again, and two by name: nothing is left to do, and the same comes out.
    again = reproduce("fig4", "fig2", "--out", str(tmp_path))
    assert "What the paper states" in again.stdout
    assert json.loads((tmp_path / "fig4.json").read_text())["tasks_done"] == 0
    assert (tmp_path / "fig4.csv").read_bytes() == before
