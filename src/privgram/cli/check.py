"""``privgram check``: a study's table beside its description, NOT PRIVATE."""

from __future__ import annotations

from pathlib import Path

import click

from ._options import example
from ._output import print_lines


@click.command("check", epilog=example("privgram check study.toml"))
@click.argument("study", type=click.Path(path_type=Path))
def command(study: Path) -> None:
    """Show how the table of STUDY differs from its description: clamped, missing, unlisted.

    NOT PRIVATE: for the eyes of the table's holder. It spends nothing.
    """
    import privgram as pg

    print_lines(str(pg.Study.load(study).check()))
