"""What the build promises: hidden symbols, no foreign search path, a BLAS of our own, no GIL."""

import json
import os
import platform
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

from privgram._core import blas, orthonormal

ROOT = Path(__file__).parents[2]
CORE = Path(blas.__file__).parent
EXTENSIONS = sorted(CORE.glob("*" + sysconfig.get_config_var("EXT_SUFFIX")))
PRIVATE_BLAS = "libscipy_openblas-privgram.so"

needs_readelf = pytest.mark.skipif(
    shutil.which("readelf") is None, reason="binutils are not installed"
)
needs_private_blas = pytest.mark.skipif(
    not (CORE / PRIVATE_BLAS).exists(), reason="built with -Dblas= another library"
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
    assert {"arrow", "blas", "draws", "orthonormal", "rowmap", "rows", "scores"} <= set(
        map(extension_name, EXTENSIONS)
    )


@needs_readelf
@pytest.mark.parametrize("path", EXTENSIONS, ids=extension_name)
def test_exports_its_init_function_and_nothing_else(path):
    """Else NumPy's static random library could be interposed, or interpose another's."""
    exported = set()
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()  # number: value size type binding visibility section name
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            exported.add(fields[7])
    assert exported == {f"PyInit_{extension_name(path)}"}


@needs_readelf
@needs_private_blas  # the system's may be where no linker looks by itself
@pytest.mark.parametrize("path", EXTENSIONS, ids=extension_name)
def test_searches_libraries_beside_itself_only(path):
    """A path of the build machine here would let whoever can write there run code."""
    dynamic = readelf("--dynamic", path)
    found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    # An editable build writes a final slash, and leaves X for a path that it has taken out.
    assert all(path.rstrip("/") == "$ORIGIN" or set(path) == {"X"} for path in found)


@needs_readelf
@needs_private_blas
def test_blas_has_a_name_of_its_own():
    assert f"[{PRIVATE_BLAS}]" in readelf("--dynamic", CORE / PRIVATE_BLAS)


@pytest.mark.slow
@needs_private_blas
def test_blas_pools_of_others_are_left_alone():
    pools = """
import json, numpy, scipy.linalg, threadpoolctl
def pools():
    return {p["filepath"]: p["num_threads"] for p in threadpoolctl.threadpool_info()}
before = pools()
from privgram._core import blas
loaded = pools()
blas.wishart(numpy.random.PCG64(1), 400.0, None, numpy.empty((300, 300)))
numpy.linalg.qr(numpy.ones((300, 300)))
print(json.dumps([before, loaded, pools()]))
"""
    before, loaded, after = json.loads(run_python(pools, OPENBLAS_NUM_THREADS="2")[0])
    ours = {path: n for path, n in loaded.items() if Path(path).name == PRIVATE_BLAS}
    assert list(ours.values()) == [1]
    assert before  # else there is nothing to leave alone
    assert loaded == before | ours
    assert after == loaded


@pytest.mark.slow
@needs_private_blas
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc's loader")
def test_blas_calls_bind_to_the_private_copy():
    """Although SciPy's copy, loaded first, has symbols of the same names."""
    code = "import scipy.linalg, privgram._core.blas, privgram._core.blas"
    log = run_python(code, LD_DEBUG="bindings", LD_BIND_NOW="1")[1]
    bindings = re.findall(r"binding file (\S+) .* to (\S+) .* symbol `(scipy_\w+)'", log)
    ours = {
        (Path(target).name, symbol)
        for source, target, symbol in bindings
        if Path(source).parent == CORE and Path(source).name != PRIVATE_BLAS
    }
    assert ("libscipy_openblas-privgram.so", "scipy_dlauum_") in ours
    assert {name for name, _ in ours} == {PRIVATE_BLAS}


@needs_private_blas
def test_our_blas_has_one_thread():
    assert blas.get_num_threads() == 1
    assert "OpenBLAS" in blas.config()


def heavy_wishart():
    blas.wishart(np.random.PCG64(1), 2000.0, None, np.empty((1500, 1500)))


def heavy_cholesky_qr():
    orthonormal.noisy_orthonormalise(np.random.PCG64(1), np.ones((60_000, 40)), 1.0)


def heavy_gram_schmidt():
    orthonormal.noisy_orthonormalise(None, np.ones((60_000, 40)), 0.0)


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
@pytest.mark.parametrize("work", [heavy_wishart, heavy_cholesky_qr, heavy_gram_schmidt])
def test_others_run_while_we_compute(work):
    """If one loop of the call held the GIL, there would be a silence as long as that loop."""
    work()  # the first call pays for page faults and BLAS buffers
    # Several goes, as a busy machine may keep the main thread waiting as well.
    assert min(longest_silence(work) for _ in range(5)) < 0.2
