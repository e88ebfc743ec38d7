"""The command line: ``privgram``, also ``python -m privgram``.

It parses, calls the library and prints, and computes nothing private itself.

A file has the commands on one thing. Results go to standard output (a table, or JSON with
``--json``), progress to standard error. The exit status is a `Status`; where a command fails it
writes one line on standard error, and nothing half.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import TYPE_CHECKING

from privgram._base.installed import extra
from privgram.cli._status import Status

if TYPE_CHECKING:
    import click

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        with extra("cli", "the command line needs"):
            import click  # noqa: F401
            import rich  # noqa: F401
    except ImportError as error:
        print(f"privgram: {error}", file=sys.stderr)
        sys.exit(Status.BAD_INPUT)
    from privgram.cli._program import program

    run(program, "privgram")


def run(command: click.Command, name: str) -> None:
    """Run a command as a program of its own: SIGTERM tidies up, streams are mended."""
    from privgram.cli._program import terminate

    signal.signal(signal.SIGTERM, terminate)
    _mend_streams()
    command.main(prog_name=name)


def _mend_streams() -> None:
    """Let results be printed to a closed stream, or to one that lacks some characters."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed from the start, as by some schedulers
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a column's name may be in any script
