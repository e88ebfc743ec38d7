"""Commands on a study's file, which says the table, its columns, the unit and the budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ._options import example
from ._output import json_option, print_json, print_lines
from .release import check_out

STUDY = click.argument("study", type=click.Path(path_type=Path))
FORMULA = click.argument("formula")


def spending(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every answer has."""
    for option in (
        click.option("--force", is_flag=True, help="Replace an existing --out."),
        click.option("--out", type=click.Path(path_type=Path), help="File to save to."),
        click.option("--label", default="", help="What the ledger calls it."),
        click.option("--delta", type=float, help="Default: the budget's."),
        click.option("--epsilon", type=float, required=True, help="What it may cost."),
    ):
        command = option(command)
    return command


@click.command(
    "plan",
    epilog=example('privgram plan study.toml "log(wage) ~ education" --want education=0.002'),
)
@STUDY
@FORMULA
@click.option(
    "--want", "wanted", multiple=True, metavar="NAME=ERROR", help="A standard error. May repeat."
)
@click.option("--epsilon", type=float, help="Say what this gives. Default: all that is left.")
@click.option("--rows", "n_rows", type=click.IntRange(min=1), help="About how many there are.")
@click.option("--design", type=click.Path(path_type=Path), help="An earlier release.")
@click.option("--by", help="A factor: the regression in each of its levels.")
@click.option("--logistic", "odds", is_flag=True, help="Of log odds.")
@json_option
def plan(
    study: Path,
    formula: str,
    wanted: tuple[str, ...],
    design: Path | None,
    odds: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say what epsilon a precision takes, or what precision an epsilon gives. Spends nothing."""
    import privgram as pg

    want: dict[str, float] = {}
    for text in wanted:
        name, equals, value = text.rpartition("=")
        if not (equals and name):
            raise click.UsageError(f"--want {text}: write NAME=ERROR")
        want[name] = float(value)
    found = pg.Study.load(study).plan(
        formula,
        want or None,
        design=None if design is None else pg.load(design),
        family="binomial" if odds else "gaussian",
        **asked,
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(str(found))


@click.command(
    "release", epilog=example("privgram release study.toml --epsilon 1 --out wages.json")
)
@STUDY
@spending
@click.option("--by", help="A factor: a release for each of its levels.")
def release(study: Path, epsilon: float, out: Path | None, force: bool, **asked: Any) -> None:
    """Release the columns of STUDY: any number of regressions."""
    import privgram as pg

    if out is None:
        raise click.UsageError("--out is needed: a release that nobody has is paid for in vain")
    check_out(out, force)
    it = pg.Study.load(study)
    it.release(epsilon, out=out, **asked)
    print_lines(f"{out}: epsilon={epsilon:g}; {it.remaining():.4g} are left")


@click.command(
    "regress",
    epilog=example('privgram regress study.toml "log(wage) ~ education + region" --epsilon 0.5'),
)
@STUDY
@FORMULA
@spending
@click.option(
    "--family",
    type=click.Choice(["gaussian", "binomial", "poisson"]),
    default="gaussian",
    show_default=True,
    help="Least squares, logistic regression, or one of counts.",
)
def regress(**asked: Any) -> None:
    """Fit one regression to the table of STUDY."""
    _fit(**asked)


@click.command(
    "logistic",
    epilog=example('privgram logistic study.toml "married ~ age + sex" --epsilon 0.5'),
)
@STUDY
@FORMULA
@spending
def logistic(**asked: Any) -> None:
    """Fit one logistic regression to the table of STUDY."""
    _fit(family="binomial", **asked)


def _fit(
    study: Path, formula: str, epsilon: float, out: Path | None, force: bool, **asked: Any
) -> None:
    import privgram as pg

    if out is not None:
        check_out(out, force)
    it = pg.Study.load(study)
    fit = it.regress(formula, epsilon, out=out, **asked)
    print_lines(str(fit.summary()))
    print_lines(f"epsilon={epsilon:g}; {it.remaining():.4g} are left")
