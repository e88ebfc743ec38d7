"""Options that say whose rows are protected together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from privgram.columns.unit import Auto


def unit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--unit`` and what goes with it."""
    options = (
        click.option(
            "--unit",
            metavar="COLUMN",
            help="Column that tells whose row a row is. All rows of one unit are then protected"
            " together, and the number of units is public instead of that of rows.",
        ),
        click.option(
            "--unit-bound",
            metavar="NUMBER|auto",
            help="Bound of a unit. Longer units are scaled down to it. auto chooses it by the table"
            " and costs --bound-epsilon.",
        ),
        click.option(
            "--rows-per-unit",
            type=click.IntRange(min=1),
            help="Instead of --unit-bound: no unit of up to so many rows is scaled down.",
        ),
        click.option(
            "--clip",
            type=click.Choice(["frobenius", "trace"]),
            default="frobenius",
            show_default=True,
            help="Norm of a unit's matrix. trace also serves matrix-laplace.",
        ),
        click.option(
            "--within", is_flag=True, help="Subtract each unit's means: an effect for each unit."
        ),
        click.option(
            "--unit-missing",
            type=click.Choice(["error", "drop"]),
            help="What to do about a row without a unit. Default: error, or drop if neighbours are "
            "by add-remove.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_unit_bound(text: str | None, auto: Auto | None) -> float | Auto | None:
    """Read ``--unit-bound``."""
    if text == "auto" and auto is None:
        raise click.UsageError("--unit-bound auto spends privacy: say how much by --bound-epsilon")
    if text is None or text == "auto":
        return None if text is None else auto
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--unit-bound {text}: must be a number or auto") from None
