"""``privgram stream``: a further period of a table that grows."""

from __future__ import annotations

from pathlib import Path

import click

from ._options import example
from ._output import print_lines
from .release import check_out


@click.command(
    "stream",
    epilog=example(
        "privgram stream study.toml january.parquet --path registry.stream --periods 60 "
        "--epsilon 1 --out january.json",
        "privgram stream study.toml february.parquet --path registry.stream --out february.json",
    ),
)
@click.argument("study", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--path", type=click.Path(path_type=Path), required=True, help="The stream's file.")
@click.option("--key", type=click.Path(path_type=Path), help="Its key. Default: PATH.key.")
@click.option("--periods", type=click.IntRange(min=1), help="How many there will be.")
@click.option("--epsilon", type=float, help="Of all periods together; to begin a stream.")
@click.option("--delta", type=float, help="The same.")
@click.option(
    "--months",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Periods that a person may have rows in.",
)
@click.option(
    "--apart",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Least distance of two of them.",
)
@click.option("--period", type=click.IntRange(min=1), help="Its number. Default: the next.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to save to.")
@click.option("--force", is_flag=True, help="Replace an existing --out.")
def command(
    study: Path,
    table: Path,
    path: Path,
    key: Path | None,
    periods: int | None,
    epsilon: float | None,
    delta: float | None,
    months: int,
    apart: int,
    period: int | None,
    out: Path,
    force: bool,
) -> None:
    """Publish TABLE, the next period of STUDY, with all periods before it.

    The first call begins the stream, and enters the price of all of it in the study's ledger. The
    release holds the sum of all periods so far.
    """
    import privgram as pg

    check_out(out, force)
    it = pg.Study.load(study)
    if epsilon is not None and delta is None:
        delta = it.ledger.delta
    stream = pg.Stream(it, periods, epsilon, delta, path=path, key=key, months=months, apart=apart)
    stream.release(table, period, out=out)
    print_lines(f"{out}: the first {stream.periods} periods; {stream!r}")
