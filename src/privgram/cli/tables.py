"""``privgram summarize``: one column in groups, of a study or of what was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import privgram as pg
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    alpha_option,
    command,
    delta_option,
    json_option,
    left_of,
    on_command_line,
    print_json,
    print_lines,
    read_names,
    read_number,
    spending,
)
from privgram.cli._status import Status
from privgram.multivariate.distribution import (
    DistributionResults,
    HistogramResults,
    check_quantiles,
)
from privgram.regression.inference import level_of

#: Options that are of a study alone.
OF_STUDY = ("epsilon", "delta", "label", "out", "force", "by", "statistics")


@command(
    "privgram summarize study.toml wage --by region --q 0.1,0.5,0.9 --epsilon 0.3 --out wage.json",
    "privgram summarize wage.json --bins 20",
)
@click.argument("file", metavar="STUDY|SUMMARY", type=PATH)
@click.argument("column", metavar="[COLUMN]", required=False)
@click.option("--by", help="Factors whose levels are the groups, separated by commas.")
@click.option(
    "--statistics",
    default="count,mean,sd,quantile",
    help="What the budget is spent on, separated by commas.",
)
@click.option("--q", "q", default="0.25,0.5,0.75", help="Which quantiles, separated by commas.")
@click.option("--bins", type=POSITIVE, help="Count rows in so many bins, and nothing else.")
@spending
@delta_option
@alpha_option
@json_option
def summarize(
    file: Path,
    column: str | None,
    q: str,
    bins: int | None,
    alpha: float,
    as_json: bool,
    **options: Any,
) -> Status:
    """Give counts, means, deviations and quantiles of a COLUMN in groups, with intervals.

    Of the table of a STUDY, at a price; or of a saved SUMMARY, whose other quantiles and bins cost
    nothing.
    """
    from privgram.cli.study import load_study

    found: Any
    level_of(alpha)  # which checks it, before anything is spent
    parts = check_quantiles([read_number("--q", text) for text in read_names("--q", q)])
    if file.suffix == ".toml":
        if column is None:
            raise click.UsageError("a study is asked about a COLUMN, such as wage")
        study = load_study(file, options["out"], options.pop("force"))
        names: Any
        by, names = options.pop("by"), read_names("--statistics", options.pop("statistics"))
        factors = [] if by is None else read_names("--by", by)
        if bins is None:
            found = study.summarize(column, by=factors, statistics=names, q=parts, **options)
        else:
            found = study.histogram(column, by=factors, bins=bins, **options)
        left = left_of(study)
    else:
        for name in on_command_line(OF_STUDY):
            raise click.UsageError(f"--{name} is of a study, and {file} is none")
        if column is not None:
            raise click.UsageError(f"{file} is of one column: leave out {column}")
        found, left = pg.load(file), None
        if not isinstance(found, DistributionResults | HistogramResults):
            raise click.UsageError(f"{file} holds no summary of a column")
        if isinstance(found, DistributionResults):
            found = replace(found, q=parts) if bins is None else found.histogram(bins)
        elif bins is not None:
            raise click.UsageError(f"the bins of {file} are counted: leave out --bins")
    _print(found, alpha, as_json, left)
    hidden = len(found.hidden) == len(found.groups)
    return Status.REFUSED if hidden else Status.ANSWERED


def _print(
    found: DistributionResults | HistogramResults,
    alpha: float,
    as_json: bool,
    left: tuple[float | None, str] | None,
) -> None:
    if not as_json:
        print_lines(found.text(alpha))
        if left is not None:
            print_lines(f"epsilon={found.epsilon:g}; {left[1]}")
        return
    numbers = found.heads(alpha)
    guarantee = {"epsilon": found.epsilon, "delta": found.delta, "alpha": alpha}
    remaining = {} if left is None else {"remaining": left[0]}
    print_json({"column": found.column, "by": found.by, "groups": found.groups}
               | numbers | guarantee | remaining)  # fmt: skip
