"""What all tests share: inputs that break naive code, and noise that repeats."""

import hashlib
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numpy.typing import NDArray
from support import kernels  # noqa: F401  # replaces the names that tests use
from support.helpers import LAYOUTS

from privgram._core import rows
from privgram._core.draws import ChaCha20
from privgram.sources import table

# A shell's background job ignores Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Spark starts its workers by a name on the PATH unless it is told which Python has privgram.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one kernel be forced, as on a processor without better ones, and a long test be short."""
    parser.addoption("--kernel", choices=rows.available(), default=rows.available()[0])
    parser.addoption("--examples", type=int, default=10_000, help="of any client, at length")


def pytest_configure(config: pytest.Config) -> None:
    """Leave the kernel that was asked for the best one."""
    names = rows.available()
    found = names[names.index(config.getoption("--kernel")) :]
    rows.available = lambda: found
    rows.select(found[0])
    table.CHUNK_ROWS = 256  # so that small tables are of several chunks too


@pytest.fixture(params=rows.available())
def impl(request: pytest.FixtureRequest) -> Iterator[type]:
    """Return the accumulator of rows of each instruction set in turn."""
    rows.select(request.param)
    yield rows.RowAccumulator
    rows.select(rows.available()[0])


@pytest.fixture
def coded(impl: type) -> type:
    """Return the accumulator of rows of codes of the same instruction set."""
    return rows.TableAccumulator


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function that copies an array into a hostile memory layout."""
    return LAYOUTS[request.param]


# Rows of four columns that are legal and awkward; each is clipped or kept correctly.
EXTREME_ROWS = np.array(
    [
        [0.0, 0.0, 0.0, 0.0],
        [-0.0, 0.0, -0.0, 0.0],
        [1e300, -1e300, 1e300, 1e300],
        [1e300, 1e-300, 0.0, -1.0],
        [1.7976931348623157e308, 0.0, 0.0, 1.7976931348623157e308],
        [5e-324, 0.0, -5e-324, 1e-310],
        [1e-200, 1e-200, 1e-160, -1e-200],
        [1e154, 1e154, -1e154, 0.0],
        [1.5e154, 0.0, 0.0, 0.0],
        [1.0, 1e-17, 1e17, 1.0],
    ]
)


@pytest.fixture
def extreme_rows() -> NDArray[np.float64]:
    """Return finite rows of four columns that overflow, underflow or vanish when squared."""
    return EXTREME_ROWS.copy()


SEED = int(os.environ.get("PRIVGRAM_TEST_SEED", "42"))


@pytest.fixture(autouse=True)
def repeatable_noise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a test that leaves `rng` out the same noise in every run, but for PRIVGRAM_TEST_SEED.

    Every draw still has a key of its own. Tests of the operating system's keys are marked
    ``os_entropy`` and keep them, and so do processes that tests start.
    """
    if request.node.get_closest_marker("os_entropy"):
        return
    count = itertools.count()

    def keyed() -> ChaCha20:
        name = f"{SEED} {request.node.nodeid} {next(count)}"
        return ChaCha20(hashlib.sha512(name.encode()).digest()[31::-1])

    monkeypatch.setattr("privgram.secret.generators.ChaCha20", keyed)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Leave no figure of pyplot open for the next test."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator seeded by PRIVGRAM_TEST_SEED, or 42: no test may need luck."""
    return np.random.default_rng(SEED)


@pytest.fixture(scope="session")
def spark():
    """Return the one Spark session of a test run: its JVM takes seconds to start."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    sql = pytest.importorskip("pyspark.sql")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        # For seconds it does without a second compiler, which takes half of its time.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    yield session
    session.stop()
