"""``privgram stream``: a further period of a table that grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    study: Path, table: Path, period: int | None, out: Path, force: bool, **asked: Any
) -> None:
    """Publish TABLE, the next period of STUDY, with all periods before it.

    The first call begins the stream, and enters the price of all of it in the study's ledger. The
    release holds the sum of all periods so far.
    """
    import privgram as pg

    check_out(out, force)
    it = pg.Study.load(study)
    if asked["epsilon"] is not None and asked["delta"] is None:
        asked["delta"] = it.ledger.delta
    stream = pg.Stream(it, **asked)
    stream.release(table, period, out=out)
    print_lines(f"{out}: the first {stream.periods} periods; {stream!r}")
