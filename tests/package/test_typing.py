"""A type checker sees what results are, and a name that is misspelt."""

import re
import sys
from pathlib import Path

import pytest

import privgram

api = pytest.importorskip("mypy.api")

pytestmark = pytest.mark.slow

ANY_SAVED = (
    "Release | Releases | RegressionResults | DistributionResults | HistogramResults"
    " | ClassFit | FeatureFit"
)

SNIPPET = """
import privgram as pg
from privgram.releases.groups import Releases
from privgram.regression import IVResults, OLSResults
from privgram.regression.glm import GLMResults

study = pg.Study({}, {"x": (0, 1)}, epsilon=1.0, delta=1e-6)
fit = study.regress("y ~ x", 0.5)
reveal_type(fit)  # RegressionResults
fit.save("it.json")
fit.pramas  # error: attr
fit.params["x"]
fit.bse.iloc[0]
fit.summary().as_txt()  # error: attr
float(fit.rsquared)
if isinstance(fit, OLSResults):
    fit.release
reveal_type(study.regress("y ~ x", 0.5, family="binomial"))  # RegressionResults
reveal_type(study.regress("y ~ x", 0.5, loss="huber", label="one"))  # RegressionResults
study.regress("y ~ x", 0.5, famly="binomial")  # error: call
study.regress("y ~ x", 0.5, family="binomail")  # error: arg
study.plan("y ~ x", famly="binomial")  # error: call
pg.regress({}, "y ~ x", {}, 1.0, 1e-6, famly="binomial")  # error: call
pg.Study({}, {"x": (0, 1)}, epsilon=1.0)  # error: call
reveal_type(study.release(0.5))  # Release
reveal_type(study.release(0.5, by="g"))  # Releases
reveal_type(study.release(0.5).regress("y"))  # OLSResults
study.release(0.5).regres("y")  # error: attr
study.release(0.5).regress("y").pramas  # error: attr
reveal_type(study.release(0.5).iv("y ~ 1 | d ~ z"))  # IVResults
study.release(0.5).statistic(str).drawz  # error: attr
groups = study.release(0.5, by="g").regress("y")
reveal_type(groups)  # GroupFits
groups.pramas  # error: attr
groups["a"].get_prediction({"x": [1.0]}).conf  # error: attr
reveal_type(pg.regress({}, "y ~ x", {}, 1.0, 1e-6, family="poisson"))  # RegressionResults
pg.regress({}, "y ~ x", {}, 1.0, 1e-6).pramas  # error: attr
reveal_type(pg.load("it.json"))  # ANY_SAVED
pg.load("it.json").params  # error: attr
reveal_type(pg.load("it.json", pg.Release))  # Release
reveal_type(pg.load("it.json", GLMResults).refusal)  # str | None
pg.load("it.json", pg.Release).pramas  # error: attr
reveal_type(fit.refusal)  # str | None
pg.Strem  # error: attr
pg.privacy.GausianProfile  # error: attr
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of each line."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "snippet.py").write_text(SNIPPET)
    package = Path(privgram.__file__).parent
    # An editable install is found by a hook that mypy does not run. Other packages say nothing
    # here, and to read them would take most of the time.
    config = "[mypy]\nfollow_imports = skip\n"
    if package.parent.name == "src":
        config += f"mypy_path = {package.parent}\n"
    config += "[mypy-privgram.*]\nfollow_imports = silent\n"
    (folder / "mypy.ini").write_text(config)
    out, errors, _ = api.run(
        [
            "--strict",
            "--no-error-summary",
            f"--config-file={folder / 'mypy.ini'}",
            f"--cache-dir={folder / 'cache'}",
            f"--python-executable={sys.executable}",
            str(folder / "snippet.py"),
        ]
    )
    assert not errors
    lines: dict[int, list[str]] = {}
    for line in out.splitlines():
        if match := re.match(r".*snippet\.py:(\d+): (.*)", line):
            lines.setdefault(int(match[1]), []).append(match[2])
    return lines


def plain(kind):
    """A revealed type without the rooms of its classes."""
    return re.sub(r"[a-z_]+\.", "", kind).replace("builtins.", "")


def test_type_checker_sees_every_result_and_what_is_misspelt(found):
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, _, expected = line.partition("  # ")
        expected = expected.replace("ANY_SAVED", ANY_SAVED)
        said = found.pop(number, [])
        if not expected:
            assert not said, (code, said)
        elif expected.startswith("error: "):
            kind = expected.removeprefix("error: ")
            assert said, code
            assert all(kind in one.rpartition("[")[2] for one in said if "error" in one), said
        else:
            [revealed] = said
            assert plain(revealed.partition('"')[2].rstrip('"')) == expected, (code, revealed)
    assert not found


def test_file_that_holds_another_kind_than_expected_is_refused(tmp_path):
    columns = privgram.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    table = {"x": [0.1, 0.9] * 50, "y": [0.2, 0.7] * 50}
    made = privgram.release(table, columns, epsilon=1.0, delta=1e-6)
    made.save(tmp_path / "it.json")
    assert type(privgram.load(tmp_path / "it.json", privgram.Release)) is privgram.Release
    from privgram.regression.glm import GLMResults

    with pytest.raises(TypeError, match=r"it\.json holds a Release, and no GLMResults"):
        privgram.load(tmp_path / "it.json", GLMResults)
