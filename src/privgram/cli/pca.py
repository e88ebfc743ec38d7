"""``privgram pca``: principal components from a release."""

from __future__ import annotations

import math
from pathlib import Path

import click

from ._options import example, read_release
from ._output import console, json_option, print_json, table


@click.command(
    "pca",
    epilog=example(
        "privgram pca flights.json --components 3",
        "privgram pca flights.json --standardize",
    ),
)
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "-k",
    "--components",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Number of components.",
)
@click.option(
    "--standardize", is_flag=True, help="Of correlations: every column over its deviation."
)
@json_option
def command(release: Path, components: int, standardize: bool, as_json: bool) -> None:
    """Find the principal components of a RELEASE, at no further cost in privacy.

    They are about the mean where the release has an intercept, about zero otherwise.
    """
    pca = read_release(release).pca(components, standardize=standardize)
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
    out.print(table(heads, rows, title=f"Principal components of {release}, about {centre}"))
    if pca.error_bound < math.sqrt(2 * components):
        out.print(
            f"The projection on them is within {pca.error_bound:.3g} of the exact one "
            f"(Frobenius norm, {pca.confidence:.0%} confidence)."
        )
    else:
        out.print("The noise is too large, or the gap to the next component too small, to say how")
        out.print("far they are from the exact ones.")
