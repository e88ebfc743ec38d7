"""Commands on a release: ``privgram info``, ``regress``, ``pca`` and ``report``."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privgram._base.files import check_distinct, write_atomically
from privgram._base.text import listed, shown
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    command,
    console,
    contents,
    facts,
    json_option,
    level_option,
    open_release,
    print_fit,
    print_json,
    print_lines,
    read_names,
    read_number,
    reference_option,
    table,
)
from privgram.cli._status import Status
from privgram.regression.inference import quantile_of
from privgram.releases.groups import Releases

if TYPE_CHECKING:
    from privgram.regression.groups import GroupFits


@command("privgram info flights.json")
@click.argument("release", type=PATH)
@json_option
def info(release: Path, as_json: bool) -> None:
    """Show what a RELEASE holds."""
    loaded = open_release(release)
    columns, unit = loaded.columns, loaded.privacy_unit
    described = {} if columns is None else columns.variables
    report: dict[str, Any] = {
        "release": str(release),
        "columns": list(loaded.names),
        "variables": {name: given.describe() for name, given in described.items()},
        "terms": [] if columns is None else list(columns.terms),
        "weights": {} if columns is None else columns.weights,
        "rows": loaded.n_rows,
    }
    if unit is not None:
        report |= {"unit": unit.to_dict(), "units": loaded.n_units}
    report |= contents(loaded)
    if as_json:
        print_json(report)
        return
    lines: dict[str, object] = {}
    for name, value in report.items():
        if isinstance(value, dict):
            lines |= {name: ""} if value and name != "parameters" else {}
            lines |= {f"  {key}": item for key, item in value.items()}
        elif value != []:
            lines[name] = listed(value) if isinstance(value, list) else value
    console().print(facts(lines))


def read_model(
    formula: str | None, target: str | None, features: str | None, reference: dict[str, str]
) -> tuple[str, dict[str, Any]]:
    """Read a formula or target, features and references as arguments of a fit."""
    if (formula is None) == (target is None):
        raise click.UsageError("give either a FORMULA or --target")
    if formula is not None and "~" not in formula:
        raise click.UsageError(f"{formula!r} is no formula; for one column, use --target")
    if formula is not None and features is not None:
        raise click.UsageError("a FORMULA names the features: leave --features out")
    return formula or target or "", {
        "features": None if features is None else read_names("--features", features),
        "reference": reference,
    }


@command(
    "privgram regress flights.json --target arr_delay --features dep_delay,distance",
    'privgram regress wages.json "log(wage) ~ poly(age, 2) + sex*region" \\',
    "    --reference region=w",
)
@click.argument("release", type=PATH)
@click.argument("formula", metavar="[FORMULA]", required=False)
@click.option("--target", metavar="NAME", help="The column to explain, where there is no FORMULA.")
@click.option(
    "--features",
    metavar="NAMES",
    help="Columns or terms, separated by commas. Default: all others.",
)
@reference_option
@click.option(
    "--ridge",
    default="0",
    metavar="PENALTY",
    help="Penalty on the squared coefficients, in the scale of the released matrix, or auto.",
)
@click.option(
    "--unclip",
    is_flag=True,
    help="Take off what clipping added to the coefficients, as if rows were normal.",
)
@level_option
@json_option
def regress(
    release: Path,
    formula: str | None,
    target: str | None,
    features: str | None,
    reference: dict[str, str],
    ridge: str,
    unclip: bool,
    level: float,
    as_json: bool,
) -> Status:
    """Fit a linear regression from a RELEASE, at no cost in privacy.

    Of the releases of groups, the same regression in every group. To ask the table of a study:
    privgram regress study.toml --help

    FORMULA is such as "wage ~ age + sex*region" (extra formula). Standard errors count the sampling
    of the rows and the noise of the release.
    """
    explained, asked = read_model(formula, target, features, reference)
    quantile_of(level)  # which checks it
    loaded = open_release(release, groups=True)
    asked["ridge"] = read_penalty(ridge)
    if isinstance(loaded, Releases):
        if unclip:
            raise click.UsageError("--unclip is for one release, not for groups")
        if level != 0.95 and not as_json:
            raise click.UsageError(
                "--level: groups are shown with standard errors; --json has intervals of any level"
            )
        fits = loaded.regress(explained, **asked)
        _print_groups(fits, level, as_json)
        lost = asked["ridge"] == 0 and len(fits.refusals) == len(fits)
        return Status.REFUSED if lost else Status.ANSWERED
    fit = loaded.regress(explained, unclip=unclip, **asked)
    return print_fit(fit, level, as_json, penalised=asked["ridge"] != 0)


def _print_groups(fits: GroupFits, level: float, as_json: bool) -> None:
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
                "level": level,
                "conf_int": [fit.conf_int(round(1 - level, 12)) for fit in fits.values()],
                "refusal": [fits.refusals.get(group) for group in fits.groups],
            }
        )
        return
    print_lines(str(fits))
    with suppress(ValueError):
        print_lines(f"\n{fits.pool()}")


def read_penalty(text: str) -> float | str:
    """Read ``--ridge``."""
    return text if text == "auto" else read_number("--ridge", text, "auto")


@command("privgram pca flights.json --components 3", "privgram pca flights.json --standardize")
@click.argument("release", type=PATH)
@click.option("-k", "--components", type=POSITIVE, default=2, help="Number of components.")
@click.option(
    "--standardize", is_flag=True, help="Of correlations: every column over its deviation."
)
@json_option
def pca(release: Path, components: int, standardize: bool, as_json: bool) -> None:
    """Find principal components of a RELEASE, at no cost in privacy.

    They are about the mean where the release has an intercept, about zero otherwise.
    """
    pca = open_release(release).pca(components, standardize=standardize)
    if as_json:
        print_json(
            {
                "names": pca.names,
                "mean": pca.mean_,
                "components": pca.components_,
                "explained_variance": pca.explained_variance_,
                "explained_variance_ratio": pca.explained_variance_ratio_,
                "error_bound": pca.error_bound,
                "confidence": pca.confidence,
            }
        )
        return
    rows: list[list[object]] = [
        [name, *loadings] for name, loadings in zip(pca.names, pca.components_.T, strict=True)
    ]
    rows.append(["explained variance", *pca.explained_variance_])
    rows.append(["as a part of the whole", *pca.explained_variance_ratio_])
    heads = ["", *(f"{j + 1}" for j in range(components))]
    centre = "zero" if pca.mean_ is None else "the mean"
    out = console()
    out.print(f"Principal components of {shown(str(release))}, about {centre}")
    out.print(table(heads, rows))
    out.print(
        f"The projection on them is within {pca.error_bound:.3g} of the exact one "
        f"(Frobenius norm, {pca.confidence:.0%} confidence)."
        if pca.error_bound < math.sqrt(2 * components)
        else "The noise is too large, or the gap to the next component too small, to say how far "
        "they are from the exact ones."
    )


@command("privgram report flights.json --target arr_delay -o report.html")
@click.argument("release", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="File for the page, .html. An existing one is replaced.",
)
@click.option(
    "--target",
    "targets",
    metavar="NAME",
    multiple=True,
    help="A column to explain by all the others. May be repeated.",
)
@click.option(
    "--ridge", default="0", metavar="PENALTY", help="Penalty of these regressions, or auto."
)
@click.option("--title", help="Heading of the page.")
def report(
    release: Path, out: Path, targets: tuple[str, ...], ridge: str, title: str | None
) -> None:
    """Describe a RELEASE in one page of HTML for a colleague.

    The page says what was released, how, under which guarantee, and how to use it. It
    loads nothing and runs no script.
    """
    if out.suffix not in (".html", ".htm"):
        raise click.UsageError(f"--out {out}: a report is an .html file")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    check_distinct({"RELEASE": [release]}, {"--out": out})
    page = open_release(release).to_html(
        targets, ridge=read_penalty(ridge), title=title, file=release
    )
    write_atomically(out, page.encode())
    print_lines(shown(str(out)))
