"""Commands on a study's file, which says the table, its columns, the unit and the budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

import privgram as pg
from privgram._base.files import write_atomically
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    command,
    json_option,
    level_option,
    options,
    print_fit,
    print_json,
    print_lines,
    read_number,
    reference_option,
)
from privgram.cli._status import Status
from privgram.cli.release import check_out
from privgram.columns.sql import DIALECTS
from privgram.regression.inference import quantile_of
from privgram.study.check import read_study
from privgram.study.parts import described, table_name

STUDY = click.argument("study", type=PATH)
FORMULA = click.argument("formula")


def load_study(study: Path) -> pg.Study:
    """Read the file of a study; how far its passes are is shown on a terminal."""
    return pg.Study.load(study, progress=sys.stderr.isatty())


delta = click.option("--delta", type=float, help="Default: the budget's.")

#: What every answer has.
spending = options(
    click.option("--epsilon", type=float, required=True, help="What it may cost."),
    click.option("--label", default="", show_default=False, help="What the ledger calls it."),
    click.option("--out", type=PATH, help="File to save to."),
    click.option("--force", is_flag=True, help="Replace an existing --out."),
)

#: What changes the answer of a regression.
answering = options(
    delta,
    click.option(
        "--family",
        type=click.Choice(["gaussian", "binomial", "poisson"]),
        default="gaussian",
        help="Least squares, logistic regression, or one of counts.",
    ),
    click.option(
        "--loss",
        type=click.Choice(["squared", "huber"]),
        default="squared",
        help="huber bounds what a row far out can do; of least squares.",
    ),
    click.option("--offset", metavar="TERM", help="Added to the linear predictor."),
    reference_option,
)


@command('privgram plan study.toml "log(wage) ~ education" --target-se education=0.002')
@STUDY
@FORMULA
@click.option(
    "--target-se",
    "wanted",
    multiple=True,
    metavar="NAME=ERROR",
    help="A standard error. May repeat.",
)
@click.option("--epsilon", type=float, help="Say what this gives. Default: all that is left.")
@click.option("--rows", "n_rows", type=POSITIVE, help="About how many there are.")
@click.option("--design", type=PATH, help="An earlier release.")
@click.option("--by", help="A factor: the regression in each of its levels.")
@answering
@json_option
def plan(
    study: Path,
    formula: str,
    wanted: tuple[str, ...],
    design: Path | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say what epsilon a precision takes, or what precision an epsilon gives. Spends nothing."""
    target_se: dict[str, float] = {}
    for text in wanted:
        name, equals, value = text.rpartition("=")
        if not (equals and name):
            raise click.UsageError(f"--target-se {text}: write NAME=ERROR")
        target_se[name] = read_number(f"--target-se {name}", value)
    found = load_study(study).plan(
        formula, target_se or None, design=None if design is None else pg.load(design), **asked
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(str(found))


@command("privgram release study.toml --epsilon 1 --out wages.json")
@STUDY
@spending
@delta
@click.option("--by", help="A factor: a release for each of its levels.")
def release(study: Path, epsilon: float, out: Path | None, force: bool, **asked: Any) -> None:
    """Release the columns of STUDY: any number of regressions."""
    if out is None:
        raise click.UsageError("--out is needed: a release that nobody has is paid for in vain")
    check_out(out, force)
    it = load_study(study)
    it.release(epsilon, out=out, **asked)
    print_lines(f"{out}: epsilon={epsilon:g}; {it.remaining():.4g} are left")


@command('privgram regress study.toml "log(wage) ~ education + region" --epsilon 0.5')
@STUDY
@FORMULA
@spending
@answering
@click.option(
    "--purpose",
    type=click.Choice(["inference", "prediction"]),
    default="inference",
    help="prediction always answers, without standard errors.",
)
@level_option
@json_option
def regress(
    study: Path,
    formula: str,
    epsilon: float,
    out: Path | None,
    force: bool,
    level: float,
    as_json: bool,
    **asked: Any,
) -> Status:
    """Fit one regression to the table of STUDY."""
    quantile_of(level)  # which checks it, before anything is spent
    if out is not None:
        check_out(out, force)
    it = load_study(study)
    fit = it.regress(formula, epsilon, out=out, **asked)
    left = it.remaining()
    status = print_fit(fit, level, as_json, remaining=left)
    if not as_json:
        print_lines(f"epsilon={epsilon:g}; {left:.4g} are left")
    return status


@command("privgram sql study.toml --dialect postgres --table people > moment.sql")
@STUDY
@click.option("--dialect", type=click.Choice(list(DIALECTS)), required=True)
@click.option(
    "--table", multiple=True, help="Its name in the warehouse; a schema before it, by repeating."
)
def sql(study: Path, dialect: str, table: tuple[str, ...]) -> None:
    """Write the query of the exact sums of STUDY's table, for an engine where its rows are.

    Its answer is as secret as the table: SecondMoment.from_sql takes it, to be released.
    """
    source, parts = read_study(study)
    columns = described(parts["columns"], parts.get("weights"), parts.get("missing"))
    text = columns.sql(table or table_name(source), dialect, unit=parts.get("unit"))
    click.echo(text.rstrip() + ";")


@command("privgram init wages.parquet")
@click.argument("table")
@click.option("-o", "--out", type=PATH, default=Path("study.toml"), help="File to write, .toml.")
def init(table: str, out: Path) -> None:
    """Write the file of a study of TABLE by its columns' types.

    The bounds and levels are left to fill in: they are never taken from the data.
    """
    from privgram.study.check import template  # SciPy, which no --help waits for

    if out.suffix != ".toml":
        raise click.UsageError(f"--out {out}: a study is a .toml file")
    if out.exists():
        raise click.UsageError(f"{out} exists already")
    write_atomically(out, template(table).encode())
    print_lines(f"{out}: fill in the bounds, then privgram check {out}")


@command("privgram check study.toml")
@STUDY
def check(study: Path) -> None:
    """Show how the table of STUDY differs from its description.

    Counts values that are clamped, missing or unknown. NOT PRIVATE: for the eyes of the table's
    holder. It spends nothing.
    """
    print_lines(str(load_study(study).check()))


@command(
    "privgram stream study.toml january.parquet --path registry.stream \\",
    "    --periods 60 --epsilon 1 --out january.json",
    "privgram stream study.toml february.parquet --path registry.stream \\",
    "    --out february.json",
)
@STUDY
@click.argument("table", type=PATH)
@click.option("--path", type=PATH, required=True, help="The stream's file.")
@click.option("--key", type=PATH, help="Its key. Default: PATH.key.")
@click.option("--periods", type=POSITIVE, help="How many there will be.")
@click.option("--epsilon", type=float, help="Of all periods together; to begin a stream.")
@click.option("--delta", type=float, help="The same. Default: the budget's.")
@click.option("--months", type=POSITIVE, default=1, help="Periods that a person may have rows in.")
@click.option("--apart", type=POSITIVE, default=1, help="Least distance of two of them.")
@click.option("--period", type=POSITIVE, help="Its number. Default: the next.")
@click.option("--out", type=PATH, required=True, help="File to save to.")
@click.option("--force", is_flag=True, help="Replace an existing --out.")
def stream(
    study: Path, table: Path, period: int | None, out: Path, force: bool, **asked: Any
) -> None:
    """Publish TABLE, the next period of STUDY, with all before it.

    The first call begins the stream, and enters the price of all of it in the study's ledger. The
    release holds the sum of all periods so far.
    """
    check_out(out, force)
    it = load_study(study)
    if asked["epsilon"] is not None and asked["delta"] is None:
        asked["delta"] = it.ledger.delta
    stream = pg.Stream(it, **asked)
    stream.release(table, period, out=out)
    print_lines(f"{out}: all periods up to {stream.periods}; {stream!r}")
