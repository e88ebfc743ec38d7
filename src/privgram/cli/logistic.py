"""``privgram logistic``: a private logistic regression from a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._options import columns_file, example, guarantee, model_options, read_columns, read_model
from ._output import json_option, print_json, print_lines
from .release import check_out, files_of

if TYPE_CHECKING:
    from privgram.privacy import Adjacency


@click.command(
    "logistic",
    epilog=example(
        'privgram logistic people.parquet "married ~ poly(age, 2) + sex" --columns columns.toml \\',
        "    --epsilon 1 --delta 1e-6 --out married.json",
        "privgram logistic people.csv --target married --columns columns.toml \\",
        "    --epsilon 1 --delta 1e-6 --ledger people.ledger --out married.json",
    ),
)
@click.argument("source")
@model_options
@click.option(
    "--columns",
    required=True,
    metavar="FILE",
    help="TOML or JSON file of public bounds or levels for each column.",
)
@guarantee
@click.option(
    "--ledger",
    type=click.Path(path_type=Path),
    help="Ledger to enter the fit in, before any noise is drawn.",
)
@click.option("--threads", type=int, help="Number of threads. Default: as many as cores.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="File to save the fit to, .json or .npz.",
)
@click.option("--force", is_flag=True, help="Replace an existing --out.")
@click.option(
    "--level", type=float, default=0.95, show_default=True, help="Level of the intervals."
)
@json_option
def command(
    source: str,
    formula: str | None,
    target: str | None,
    features: str | None,
    columns: str,
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    references: tuple[str, ...],
    ledger: Path | None,
    threads: int | None,
    out: Path,
    force: bool,
    level: float,
    as_json: bool,
) -> None:
    """Fit a logistic regression to the table SOURCE under differential privacy.

    FORMULA is such as "married ~ poly(age, 2) + sex" (extra formula). The table is read four to
    six times.
    """
    import privgram as pg
    from privgram._base.files import check_distinct
    from privgram.drawing.logistic import logistic as fit_logistic
    from privgram.regression.inference import quantile_of

    explained, asked = read_model(formula, target, features, references)
    check_out(out, force)
    check_distinct(
        {"SOURCE": files_of((source,)), "--columns": columns_file(columns)},
        {"--ledger": ledger, "--out": out},
    )
    quantile_of(level)  # before anything is spent
    alpha = round(1 - level, 12)
    described = read_columns(columns)
    if not isinstance(described, pg.Columns):
        raise click.UsageError(f"--columns {columns}: a .toml or .json file of bounds and levels")
    fit = fit_logistic(
        source,
        explained,
        columns=described,
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        ledger=None if ledger is None else pg.Ledger(ledger),
        threads=threads,
        out=out,
        **asked,
    )
    if not as_json:
        print_lines(str(fit.summary(alpha=alpha)))
        return
    print_json(
        {
            "fit": str(out),
            "target": fit.target,
            "names": fit.param_names,
            "params": fit.params,
            "bse": fit.bse,
            "pvalues": fit.pvalues,
            "level": level,
            "conf_int": fit.conf_int(alpha),
            "conf_int_data": fit.conf_int(alpha, of="data"),
            "refusal": fit.refusal,
            "epsilon": fit.epsilon,
            "delta": fit.delta,
            "adjacency": fit.adjacency,
            "guarantee": fit.guarantee,
            "rows": fit.n_rows,
            "parameters": fit.parameters,
        }
    )
