"""Commands on a release: ``privgram info``, ``pca`` and ``page``."""

from __future__ import annotations

import math
from pathlib import Path

import click

import privgram as pg
from privgram._base.files import check_distinct
from privgram._base.text import listed, shown
from privgram.cli._shared import (
    PATH,
    POSITIVE,
    command,
    console,
    contents,
    facts,
    json_option,
    open_release,
    print_json,
    print_lines,
    table,
)


@command("privgram info flights.json")
@click.argument("release", type=PATH)
@json_option
def info(release: Path, as_json: bool) -> None:
    """Show what a RELEASE holds."""
    loaded = open_release(release)
    columns, unit = loaded.columns, loaded.privacy_unit
    report: dict[str, object] = {
        "release": str(release),
        "columns": list(loaded.names),
        "variables": {name: variable.describe() for name, variable in loaded.variables.items()},
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
                "alpha": pca.alpha,
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
        f"(Frobenius norm, {1 - pca.alpha:.0%} confidence)."
        if pca.error_bound < math.sqrt(2 * components)
        else "The noise is too large, or the gap to the next component too small, to say how far "
        "they are from the exact ones."
    )


@command("privgram page wages.json -o wages.html")
@click.argument("result", type=PATH)
@click.option(
    "-o",
    "--out",
    type=PATH,
    required=True,
    help="File for the page, .html. An existing one is replaced.",
)
@click.option("--target", metavar="NAME", help="What the page of a release explains at first.")
@click.option("--title", help="Heading of the page.")
def page(result: Path, out: Path, target: str | None, title: str | None) -> None:
    """Make one page of HTML of a RESULT, a release or a regression that was saved.

    Whoever opens the page of a release asks it regressions: no server, and nothing to install.
    """
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    check_distinct({"RESULT": [result]}, {"--out": out})
    loaded = pg.load(result)
    if not hasattr(loaded, "to_html"):
        raise click.UsageError(f"{shown(str(result))} holds neither a release nor a regression")
    loaded.to_html(out, target=target, title=title, file=result)
    print_lines(shown(str(out)))
