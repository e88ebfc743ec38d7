"""``privgram init``: the file of a study, to be filled in."""

from __future__ import annotations

from pathlib import Path

import click

from ._options import example
from ._output import print_lines


@click.command("init", epilog=example("privgram init wages.parquet"))
@click.argument("table")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("study.toml"),
    show_default=True,
    help="File to write, .toml.",
)
def command(table: str, out: Path) -> None:
    """Write the file of a study of TABLE from the types of its columns.

    The bounds and levels are left to fill in: they are never taken from the data.
    """
    from privgram._base.files import write_atomically
    from privgram.study.file import template

    if out.suffix != ".toml":
        raise click.UsageError(f"--out {out}: a study is a .toml file")
    if out.exists():
        raise click.UsageError(f"{out} exists already")
    write_atomically(out, template(table).encode())
    print_lines(f"{out}: fill in the bounds, then privgram check {out}")
