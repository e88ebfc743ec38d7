"""``privgram regress``: one regression, of a study or of what was released."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import privgram as pg
from privgram.cli._shared import (
    PATH,
    alpha_option,
    answering,
    command,
    grouped,
    json_option,
    left_of,
    on_command_line,
    open_release,
    options_from,
    print_fit,
    print_json,
    print_lines,
    read_names,
    read_penalty,
    spending,
)
from privgram.cli._status import Status
from privgram.multivariate.distribution import DistributionResults
from privgram.regression.inference import level_of
from privgram.releases.groups import Releases
from privgram.study.options import RegressRequest

if TYPE_CHECKING:
    from privgram.regression.groups import GroupFits

#: Options that are of a release alone.
OF_RELEASE = ("target", "features", "ridge")

of_release = grouped(
    click.option(
        "--target", metavar="NAME", help="The column to explain, where there is no FORMULA."
    ),
    click.option(
        "--features",
        metavar="NAMES",
        help="Columns or terms, separated by commas. Default: all others.",
    ),
    click.option(
        "--ridge",
        default="0",
        metavar="PENALTY",
        help="Penalty on the squared coefficients, in the scale of the released matrix, or auto.",
    ),
)


@command(
    'privgram regress study.toml "log(wage) ~ education + region" --epsilon 0.5',
    'privgram regress wages.json "log(wage) ~ poly(age, 2) + sex*region" \\',
    "    --reference region=w",
    "privgram regress flights.json --target arr_delay --features dep_delay,distance",
)
@click.argument("file", metavar="STUDY|RELEASE|FIT", type=PATH)
@click.argument("formula", metavar="[FORMULA]", required=False)
@spending
@answering
@options_from(RegressRequest, "purpose")
@of_release
@alpha_option
@json_option
def regress(
    file: Path,
    formula: str | None,
    alpha: float,
    as_json: bool,
    **options: Any,
) -> Status:
    """Fit one regression: to the table of a STUDY, at a price, or from a RELEASE, at none.

    FORMULA is such as "wage ~ age + sex*region". Of the releases of groups it is
    fitted in every group. Standard errors count the sampling of the rows and the noise. A saved
    FIT has its formula, and is printed.

    From --epsilon to --purpose the options are of a study, and from --target to --ridge of a
    release; --reference, --alpha and --json are of both.
    """
    level_of(alpha)  # which checks it, before anything is spent
    study = file.suffix == ".toml"
    others = [k for k in options if k != "reference" and (k in OF_RELEASE) == study]
    for name in on_command_line(others):
        kind = "a release" if study else "a study"
        raise click.UsageError(f"--{name.replace('_', '-')} is of {kind}, and {file} is none")
    request = {name: value for name, value in options.items() if name not in others}
    fit = _of_study if study else _of_release
    return fit(file, formula, alpha, as_json, request)


def _of_study(
    file: Path, formula: str | None, alpha: float, as_json: bool, options: dict[str, Any]
) -> Status:
    from privgram.cli.study import load_study

    if formula is None:
        raise click.UsageError("a study is asked by a FORMULA, such as 'wage ~ age'")
    study = load_study(file, options["out"], options.pop("force"))
    fit = study.regress(formula, **options)
    left, said = left_of(study)
    status = print_fit(fit, alpha, as_json, remaining=left)
    if not as_json:
        print_lines(f"epsilon={fit.epsilon:g}; {said}")
    return status


def _of_release(
    file: Path, formula: str | None, alpha: float, as_json: bool, options: dict[str, Any]
) -> Status:
    target, features = options["target"], options["features"]
    release = open_release(file, groups=True, fits=True)
    if isinstance(release, DistributionResults):
        raise click.UsageError(f"{file} holds a summary, which `privgram summarize` prints")
    if not isinstance(release, pg.Release | Releases):
        if formula is not None or on_command_line([*OF_RELEASE, "reference"]):
            raise click.UsageError(
                f"{file} holds a fit, which is printed as it is: leave out all but --alpha and "
                "--json"
            )
        return print_fit(release, alpha, as_json)
    if (formula is None) == (target is None):
        raise click.UsageError("give either a FORMULA or --target")
    if formula is not None and "~" not in formula:
        raise click.UsageError(f"{formula!r} is no formula; for one column, use --target")
    if formula is not None and features is not None:
        raise click.UsageError("a FORMULA names the features: leave --features out")
    names = None if features is None else read_names("--features", features)
    explained = formula or target or ""
    penalty = read_penalty(options["ridge"])
    more = {"reference": options["reference"], "ridge": penalty}
    if not isinstance(release, Releases):
        fit = release.regress(explained, names, **more)
        return print_fit(fit, alpha, as_json, penalised=penalty != 0)
    if alpha != 0.05 and not as_json:
        raise click.UsageError(
            "--alpha: groups are shown with standard errors; --json has intervals of any level"
        )
    fits = release.regress(explained, names, **more)
    _print_groups(fits, alpha, as_json)
    refused = penalty == 0 and len(fits.refusals) == len(fits)
    return Status.REFUSED if refused else Status.ANSWERED


def _print_groups(fits: GroupFits, alpha: float, as_json: bool) -> None:
    """Print a row for each group, and the coefficients pooled where that can be."""
    if as_json:
        print_json(
            {
                "target": fits.target,
                "by": fits.by,
                "names": fits.param_names,
                "groups": fits.groups,
                "params": fits.params,
                "bse": fits.bse,
                "alpha": alpha,
                "conf_int": [fit.conf_int(alpha) for fit in fits.values()],
                "refusal": [fits.refusals.get(group) for group in fits.groups],
            }
        )
        return
    print_lines(str(fits))
