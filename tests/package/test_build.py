"""What the build promises: hidden symbols, no foreign search path, no GIL held."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from privgram._core import rows

ROOT = Path(__file__).parents[2]
CORE = Path(rows.__file__).parent
EXTENSIONS = sorted(CORE.glob("*" + sysconfig.get_config_var("EXT_SUFFIX")))

needs_readelf = pytest.mark.skipif(
    shutil.which("readelf") is None, reason="binutils are not installed"
)


def run_python(code, **environment):
    """Run code in an interpreter of its own; return what it prints to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, done.stderr


def readelf(option, path):
    command = ["readelf", "--wide", option, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_hooks_before_a_commit_are_the_linters_of_the_whole_check():
    with (ROOT / "pyproject.toml").open("rb") as file:
        linters = tomllib.load(file)["dependency-groups"]["lint"]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r'"([\w-]+==[\d.]+)"', hooks)) == set(linters)


def extension_name(path):
    return path.name.split(".")[0]


def test_there_are_extensions():
    assert {"arrow", "draws", "rowmap", "rows", "scores"} <= set(map(extension_name, EXTENSIONS))


@needs_readelf
@pytest.mark.parametrize("path", EXTENSIONS, ids=extension_name)
def test_exports_its_init_function_and_nothing_else(path):
    """Else a kernel could be interposed, or interpose another library's."""
    exported = set()
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()  # number: value size type binding visibility section name
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            exported.add(fields[7])
    assert exported == {f"PyInit_{extension_name(path)}"}


@needs_readelf
@pytest.mark.parametrize("path", EXTENSIONS, ids=extension_name)
def test_searches_no_libraries_of_its_own(path):
    """A path of the build machine here would let whoever can write there run code."""
    dynamic = readelf("--dynamic", path)
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    # An editable build leaves X for a path that it has taken out.
    assert all(set(path) == {"X"} for path in found)


def longest_silence(work):
    """The longest part of a call of `work` during which the main thread could not look at a clock,
    as a fraction of the call.
    """
    span, ticks = [], []

    def timed():
        span.append(time.perf_counter())
        work()
        span.append(time.perf_counter())

    thread = threading.Thread(target=timed)
    thread.start()
    while thread.is_alive():
        ticks.append(time.perf_counter())
        time.sleep(1e-4)
    start, end = span
    inside = [start, *(t for t in ticks if start < t < end), end]
    return np.diff(inside).max() / (end - start)


@pytest.mark.slow
def test_others_run_while_we_compute():
    """If the call held the GIL, there would be a silence as long as it."""
    block = np.ones((60_000, 200))
    total = rows.RowAccumulator(200, 20.0)
    # Several goes, as a busy machine may keep the main thread waiting as well.
    assert min(longest_silence(lambda: total.update(block)) for _ in range(5)) < 0.2
