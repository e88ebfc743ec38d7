"""``privgram regress``: a linear regression from a release."""

from __future__ import annotations

from pathlib import Path

import click

from ._options import example
from ._output import json_option, print_json, print_lines


@click.command(
    "regress",
    epilog=example(
        "privgram regress flights.json --target arr_delay --features dep_delay,distance",
    ),
)
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--target", required=True, metavar="NAME", help="The column to explain.")
@click.option(
    "--features", metavar="NAMES", help="Separated by commas. Default: all other columns."
)
@click.option(
    "--ridge",
    default="0",
    show_default=True,
    metavar="PENALTY",
    help="Penalty on the squared coefficients, in the scale of the released matrix, or auto.",
)
@click.option(
    "--unclip",
    is_flag=True,
    help="Take off what clipping added to the coefficients, as if rows were normal.",
)
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Level of the intervals."
)
@json_option
def command(
    release: Path,
    target: str,
    features: str | None,
    ridge: str,
    unclip: bool,
    level: float,
    as_json: bool,
) -> None:
    """Fit a linear regression from a RELEASE, at no further cost in privacy.

    Standard errors count the sampling of the rows and the noise of the release.
    """
    import privgram as pg

    names = None if features is None else [name.strip() for name in features.split(",")]
    fit = pg.load_release(release).regress(
        target, features=names, ridge=read_penalty(ridge), unclip=unclip
    )
    intervals = fit.conf_int(level, intercept=True)
    size = len(fit.names)
    if as_json:
        print_json(
            {
                "target": target,
                "names": fit.names,
                "coef": fit.coef,
                "stderr": fit.stderr,
                "intercept": fit.intercept,
                "stderr_intercept": fit.stderr_intercept,
                "ridge": fit.ridge,
                "level": level,
                "conf_int": intervals[:size],
                "conf_int_intercept": intervals[size] if len(intervals) > size else None,
                "params": fit.params,
                "pvalues": fit.pvalues,
                "refusal": fit.refusal,
            }
        )
        return
    print_lines(fit.summary(level))


def read_penalty(text: str) -> float | str:
    """Read ``--ridge``."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--ridge {text}: must be a number or auto") from None
