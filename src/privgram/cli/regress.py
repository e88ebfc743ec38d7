"""``privgram regress``: a linear regression from a release."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._options import example, model_options, read_model, read_release
from ._output import json_option, print_json, print_lines

if TYPE_CHECKING:
    from privgram.regression.groups import GroupFits


@click.command(
    "regress",
    epilog=example(
        "privgram regress flights.json --target arr_delay --features dep_delay,distance",
        'privgram regress wages.json "log(wage) ~ poly(age, 2) + sex*region" \\',
        "    --reference region=w",
    ),
)
@click.argument("release", type=click.Path(path_type=Path))
@model_options
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
    formula: str | None,
    target: str | None,
    features: str | None,
    references: tuple[str, ...],
    ridge: str,
    unclip: bool,
    level: float,
    as_json: bool,
) -> None:
    """Fit a linear regression from a RELEASE, at no further cost in privacy.

    Of the releases of groups, the same regression in every group.

    FORMULA is such as "wage ~ age + sex*region" (extra formula). Standard errors count the sampling
    of the rows and the noise of the release.
    """
    from privgram._release.groups import Releases
    from privgram.regression.inference import quantile_of

    explained, asked = read_model(formula, target, features, references)
    quantile_of(level)  # which checks it
    loaded = read_release(release, groups=True)
    asked["ridge"] = read_penalty(ridge)
    if isinstance(loaded, Releases):
        if unclip:
            raise click.UsageError("--unclip is for one release, not for groups")
        if level != 0.95 and not as_json:
            raise click.UsageError(
                "--level: groups are shown with standard errors; --json has intervals of any level"
            )
        _print_groups(loaded.regress(explained, **asked), level, as_json)
        return
    fit = loaded.regress(explained, unclip=unclip, **asked)
    alpha = round(1 - level, 12)
    if as_json:
        print_json(
            {
                "target": fit.target,
                "names": fit.param_names,
                "terms": {term: fit.param_names[at] for term, at in fit.design.terms.items()},
                "references": fit.design.references,
                "params": fit.params,
                "bse": fit.bse,
                "ridge": fit.ridge,
                "level": level,
                "conf_int": fit.conf_int(alpha),
                "pvalues": fit.pvalues,
                "refusal": fit.refusal,
            }
        )
        return
    print_lines(str(fit.summary(alpha=alpha)))


def _print_groups(fits: GroupFits, level: float, as_json: bool) -> None:
    """Print a row for each group, and the coefficients pooled where that can be."""
    if as_json:
        known = dict.fromkeys(fits.groups) | fits.refusals
        print_json(
            {
                "target": fits.target,
                "by": fits.by,
                "names": fits.param_names,
                "groups": fits.groups,
                "params": fits.params,
                "bse": fits.bse,
                "level": level,
                "conf_int": [
                    fits[group].conf_int(round(1 - level, 12)) if group in fits else None
                    for group in fits.groups
                ],
                "refusal": list(known.values()),
            }
        )
        return
    print_lines(str(fits))
    with suppress(ValueError):
        print_lines(f"\n{fits.pool()}")


def read_penalty(text: str) -> float | str:
    """Read ``--ridge``."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"--ridge {text}: must be a number or auto") from None
