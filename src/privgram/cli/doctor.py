"""``privgram doctor``: what this installation is, and whether it works."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import numpy as np

import privgram as pg
from privgram._base.installed import __version__
from privgram._base.machine import cores
from privgram._core import blas, rows
from privgram._core.draws import ChaCha20
from privgram.cli._shared import command, console, facts, json_option, print_json, table

# RFC 8439, appendix A.1, vector 1: the first 32 bytes of the stream under the key of zeros.
CHACHA20 = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")


@command("privgram doctor")
@json_option
def doctor(as_json: bool) -> None:
    """Show versions and hardware, and test this installation.

    The test takes a second and reads no data of yours. The exit status is 0 if
    all of it passes.
    """
    installation, extras, verdicts = _installation(), _extras(), _examine()
    if as_json:
        print_json({**installation, "extras": extras, "tests": verdicts})
    else:
        out = console()
        out.print(facts(installation))
        heads = ["extra", "installed", "missing"]
        out.print(table(heads, map(_row, extras.items()), words=heads))
        out.print(facts(verdicts, "Tried on this machine"))
    failed = [name for name, verdict in verdicts.items() if verdict != "ok"]
    if failed:
        raise click.ClickException(f"the self-test failed: {'; '.join(failed)}")


def _installation() -> dict[str, object]:
    return {
        "privgram": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        **{name: metadata.version(name) for name in ("numpy", "scipy")},
        "platform": platform.platform(),
        "cores": cores(),
        "GIL": "on" if getattr(sys, "_is_gil_enabled", lambda: True)() else "off",
        "kernel": rows.available()[0],
        "kernels": ", ".join(rows.available()),
        "blas": blas.config(),
        "blas threads": blas.get_num_threads() or None,  # not ours to know
    }


def _extras() -> dict[str, dict[str, str | None]]:
    """Every extra's packages with their versions, None where one is missing."""
    result: dict[str, dict[str, str | None]] = {}
    for requirement in metadata.requires("privgram") or ():
        match = re.match(r"([\w.-]+).*;.*\bextra == ['\"]([\w-]+)", requirement)
        if match and match[1] != "privgram":
            name, extra = match.groups()
            try:
                version: str | None = metadata.version(name)
            except metadata.PackageNotFoundError:
                version = None
            result.setdefault(extra, {})[name] = version
    return result


def _row(item: tuple[str, dict[str, str | None]]) -> tuple[str, str, str]:
    extra, packages = item
    installed = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    complete = all(packages.values())
    return extra, installed, "" if complete else f'pip install "privgram[{extra}]"'


def _examine() -> dict[str, str]:
    result = {}
    for name, test in TESTS.items():
        try:
            test()
        except Exception as error:
            result[name] = f"{type(error).__name__}: {error}".rstrip(": ")
        else:
            result[name] = "ok"
    return result


def _require(holds: object, otherwise: str) -> None:
    if not holds:
        raise ArithmeticError(otherwise)


def _table(n_columns: int = 13) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows short and long, beside some that only careful scaling clips; the same everywhere."""
    rows = (np.arange(300.0 * n_columns) ** 2 % 1009 / 256 - 2).reshape(300, n_columns)
    rows[0], rows[1], rows[2] = 1e300, 1e-320, 0.0
    return rows


#: SHA-256 of the 128-bit integers of second moments of so many columns, as tests/oracle computes
#: them. Wide tables are where AMX is used.
DIGESTS = {
    13: "b3f1e8cdd7c5b651202024af6f17a7f39910026e210d59a78ceb902eecfe595c",
    160: "67a4007689a01eca3db8e8ff9996eb9708c21d3bb3f33de7fa990e54bd006ef7",
}


def total_digest(total: rows.Accumulator) -> str:
    """SHA-256 of the 128-bit integers of an accumulator."""
    integers = (part.astype(part.dtype.newbyteorder("<")).tobytes() for part in total.int128())
    return hashlib.sha256(b"".join(integers)).hexdigest()


def _kernels() -> None:
    try:
        for kernel in rows.available():
            rows.select(kernel)
            for n_columns, expected in DIGESTS.items():
                total = rows.RowAccumulator(n_columns, 3.0)
                total.update(_table(n_columns))
                same = total_digest(total) == expected
                _require(same, f"the kernel {kernel} differs from the reference")
    finally:
        rows.select(rows.available()[0])


def _splits() -> None:
    whole = pg.second_moment(_table(), bound=3.0, threads=2)
    halves = [pg.second_moment(part, bound=3.0) for part in np.split(_table()[::-1], 2)]
    same = whole.to_bytes() == (halves[0] + halves[1]).to_bytes()
    _require(same, "a table and its halves, turned round, have different moments")


def _factors() -> None:
    columns = pg.Columns({"x": (-3, 3), "g": ["a", "b", "c"]}, terms=["x:g", "poly(x, 2)"])
    x = _table()[2:, 0]
    table = {"x": x, "g": np.array(["a", "b", "c"])[np.arange(len(x)) ** 2 % 7 % 3]}
    factors = pg.second_moment(table, columns=columns)
    dummies = pg.second_moment(columns.encode(table), bound=columns.bound)
    same = all(map(np.array_equal, factors.int128(), dummies.int128()))
    _require(same, "a factor's second moment differs from that of its indicators")


def _stream() -> None:
    words = ChaCha20(bytes(32)).random_raw(len(CHACHA20) // 8)
    _require(words.astype("<u8").tobytes() == CHACHA20, "not the stream of RFC 8439")
    first, second = (ChaCha20().random_raw(4) for _ in range(2))
    _require((first != second).any(), "two generators have the same key")


def _wishart() -> None:
    # E W = k I and var W_ij = k (1 + [i = j]). A fixed seed: what passes once passes always.
    bits, k, draws = np.random.PCG64(0), 50.0, np.empty((2000, 4, 4))
    for draw in draws:
        blas.wishart(bits, k, None, draw)
    error = draws.mean(axis=0) - k * np.eye(4)
    scale = np.sqrt(k * (1 + np.eye(4)) / len(draws))
    upper = np.triu_indices(4)
    _require((np.abs(error / scale)[upper] < 5).all(), "the mean of Wishart draws is off")
    blas.wishart(bits, 300.0, None, np.empty((257, 257)))  # by BLAS in blocks; it is checked


def _release() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20_000, 2))
    table = np.column_stack([x, x @ [0.5, -0.25]])
    exact = pg.second_moment(table, columns=pg.Columns(dict.fromkeys("xyz", (-1, 1))))
    for mechanism in (pg.AnalyzeGauss(), pg.MatrixLaplace()):
        release = pg.release(exact, epsilon=8.0, delta=1e-6, mechanism=mechanism)
        with tempfile.TemporaryDirectory() as folder:
            release.save(Path(folder, "release.json"))
            loaded = pg.load(Path(folder, "release.json"), pg.Release)
        _require(np.array_equal(loaded.matrix, release.matrix), "a release changed in its file")
        off = np.abs(np.asarray(loaded.regress("z").params) - [0.5, -0.25]).max()
        # The noise's deviation is below 1 % of the signal: no chance of failing by chance.
        _require(off < 0.1, f"coefficients from {mechanism} are off by {off:.2g}")


TESTS: dict[str, Callable[[], None]] = {
    "kernels give the bits of the reference": _kernels,
    "order and splits do not matter": _splits,
    "factors equal their indicators": _factors,
    "noise is ChaCha20's": _stream,
    "Wishart moments": _wishart,
    "release, save, load, regress": _release,
}
