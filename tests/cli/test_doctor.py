"""`privgram doctor`: what it shows, and that each of its tests can fail."""

import json
import platform
import sys
from importlib import metadata

import numpy as np
import pytest

pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")

import oracle  # noqa: E402

import privgram as pg  # noqa: E402
import privgram.columns as columns  # noqa: E402
from privgram._core import blas, rows  # noqa: E402
from privgram.cli import doctor  # noqa: E402
from privgram.cli._program import program  # noqa: E402


def run(*arguments):
    return testing.CliRunner().invoke(program, ["doctor", *arguments])


def test_sound_installation():
    result = run("--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert report["privgram"] == pg.__version__
    assert report["numpy"] == np.__version__
    assert report["python"].startswith(platform.python_version())
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert report["GIL"] == {True: "on", False: "off"}[gil]
    assert report["kernels"] == ", ".join(rows.available())
    assert "OpenBLAS" in report["blas"]
    assert report["extras"]["cli"]["rich"] == metadata.version("rich")
    assert report["tests"] == dict.fromkeys(doctor.TESTS, "ok")
    shown = run()
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in doctor.TESTS)


def test_missing_packages_come_with_the_command(monkeypatch):
    def version(name):
        if name == "pyarrow":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    assert run().stdout.count('pip install "privgram[') == 1
    assert 'pip install "privgram[arrow]"' in run().stdout
    assert json.loads(run("--json").stdout)["extras"]["arrow"] == {"pyarrow": None}


def test_reads_extras_from_the_metadata(monkeypatch):
    required = [
        "numpy>=2.0",
        'dask[array,dataframe]>=2025.1; extra == "dask"',
        "distributed>=2025.1; extra == 'dask'",
        'privgram[arrow]; extra == "demo"',
        'pandas>=2.2; python_version > "3" and extra == "demo"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    monkeypatch.setattr(metadata, "version", lambda name: "1.0")
    extras = json.loads(run("--json").stdout)["extras"]
    assert extras == {"dask": {"dask": "1.0", "distributed": "1.0"}, "demo": {"pandas": "1.0"}}


def test_leaves_the_best_kernel_selected():
    run()
    assert rows.RowAccumulator(1, 1.0).simd() == rows.available()[0]


def test_digest_is_the_oracles():
    for n_columns, expected in doctor.DIGESTS.items():
        plain = oracle.RowAccumulator(n_columns, 3.0)
        plain.update(doctor._table(n_columns))
        assert doctor.total_digest(plain) == expected


def larger(real):
    def wishart(bits, k, cholesky, out):
        real(bits, 1.02 * k, cholesky, out)

    return wishart


def without_the_other(real):
    return lambda self, other: self


def one_level_off(real):
    """Indicators of the level after the row's own."""

    class Encoder(real):
        def table(self, parts):
            return np.roll(super().table(parts), 1, axis=1)

    return Encoder


def of_another_matrix(real):
    def load(path):
        release = real(path)
        release.matrix[0, 1] = 0.0
        return release

    return load


@pytest.mark.parametrize(
    ("test", "target", "name", "broken"),
    [
        (
            "kernels give the bits of the reference",
            doctor,
            "DIGESTS",
            lambda digests: {**digests, 160: ""},
        ),
        ("order and splits do not matter", pg.SecondMoment, "merge", without_the_other),
        ("factors equal their indicators", columns, "Encoder", one_level_off),
        ("noise is ChaCha20's", doctor, "ChaCha20", lambda real: lambda key: real(key[1:] + b"1")),
        ("Wishart moments", blas, "wishart", larger),
        ("release, save, load, regress", pg, "load", of_another_matrix),
    ],
    ids=list(doctor.TESTS),
)
def test_finds_what_is_broken(monkeypatch, test, target, name, broken):
    monkeypatch.setattr(target, name, broken(getattr(target, name)))
    result = run("--json")
    verdicts = json.loads(result.stdout)["tests"]
    assert verdicts.pop(test) != "ok"
    assert set(verdicts.values()) == {"ok"}
    assert result.exit_code == 1
    assert result.stderr == f"privgram: the self-test failed: {test}\n"
