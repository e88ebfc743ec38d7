"""``privgram report``: a release as one page of HTML."""

from __future__ import annotations

from pathlib import Path

import click

from privgram._base.text import shown

from ._options import example, read_release
from ._output import print_lines
from .regress import read_penalty


@click.command(
    "report",
    epilog=example(
        "privgram report flights.json --target arr_delay -o report.html",
    ),
)
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
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
    "--ridge",
    default="0",
    show_default=True,
    metavar="PENALTY",
    help="Penalty of these regressions, or auto.",
)
@click.option("--title", help="Heading of the page.")
def command(
    release: Path, out: Path, targets: tuple[str, ...], ridge: str, title: str | None
) -> None:
    """Describe a RELEASE in one page of HTML to send to a colleague.

    The page says what was released, how, under which guarantee, and how to use it. It
    loads nothing and runs no script.
    """
    from privgram._base.files import check_distinct, write_atomically

    if out.suffix not in (".html", ".htm"):
        raise click.UsageError(f"--out {out}: a report is an .html file")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out {out}: there is no folder {out.parent}")
    check_distinct({"RELEASE": [release]}, {"--out": out})
    page = read_release(release).to_html(
        targets, ridge=read_penalty(ridge), title=title, file=release
    )
    write_atomically(out, page.encode())
    print_lines(shown(str(out)))
