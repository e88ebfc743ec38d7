"""The command group, and what becomes of an error."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from privgram._base.installed import __version__
from privgram._base.log import log
from privgram._base.saved import NotSavedWarning
from privgram._base.text import shown
from privgram.cli._status import Status

# In the order of use, with the module of each, which is imported when it is used, and not for the
# list of all, and with what this list says of it.
COMMANDS = {
    "demo": ("demo", "Explain delays of real flights, with and without privacy."),
    "doctor": ("doctor", "Show versions and hardware, and test this installation."),
    "init": ("study", "Write the file of a study of TABLE, to be filled in."),
    "check": ("study", "Show how a table differs from its description. NOT PRIVATE."),
    "plan": ("study", "Say what epsilon a precision takes, or what one gives."),
    "release": ("release", "Release second moments: any number of regressions, one price."),
    "sql": ("study", "Write the query of a table's exact sums, for a warehouse."),
    "ledger": ("ledger", "Show a budget, every spend, and what is left."),
    "info": ("released", "Show what a release or a saved fit holds."),
    "regress": ("regress", "Fit one regression, of a study or from a release."),
    "summarize": ("tables", "Give means, quantiles and counts of a column in groups."),
    "verify": ("released", "Check a file that somebody sent."),
    "stream": ("study", "Publish the next period of a table that grows."),
    "page": ("released", "Make one page of HTML that answers regressions."),
}

# What the library raises on bad input, bad files and missing extras.
EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError)

# Errors of the system that are about the path of a file, and so about the input.
OF_PATHS = (
    FileNotFoundError,
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)


class Terminated(BaseException):
    """SIGTERM, which by itself would end the process without tidying up."""


def terminate(number: int, frame: object) -> NoReturn:
    """Handle SIGTERM by an exception, so that files half-written are removed."""
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Terminated


class OneLine(click.Command):
    """A command that answers every failure with one line on stderr and its `Status`."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None  # before Click spends a line of its own on it

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        unsaved: list[object] = []

        def show(
            message: Warning | str, category: type[Warning], *where: object, **more: object
        ) -> None:
            if issubclass(category, NotSavedWarning):
                unsaved.append(message)
            print("privgram: warning:", shown(" ".join(str(message).split())), file=sys.stderr)

        try:
            with warnings.catch_warnings(), _log_on_terminal():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = show
                result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
        except click.ClickException as error:
            _fail(error.format_message(), Status(error.exit_code))
        except click.Abort:
            _fail("interrupted", Status.INTERRUPTED)
        except Terminated:
            _fail("terminated", Status.TERMINATED)
        except SystemExit:
            # Click's own answer to a broken pipe.
            _fail("standard output was closed before everything was written", Status.FAILED)
        except EXPECTED as error:
            if os.environ.get("PRIVGRAM_TRACEBACK"):
                raise
            _fail(_describe(error), _status_of(error))
        except Exception as error:
            # A defect of ours. Its text might quote data, so only its kind is shown.
            if os.environ.get("PRIVGRAM_TRACEBACK"):
                raise
            _fail(
                f"internal error, {type(error).__name__}; set PRIVGRAM_TRACEBACK=1 to see where",
                Status.FAILED,
            )
        if unsaved and not result:
            result = Status.FAILED
        if standalone_mode:
            sys.exit(result if isinstance(result, int) else Status.ANSWERED)
        return result


class Program(OneLine, click.Group):
    """The group of the commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            raise click.UsageError(f"there is no command {cmd_name!r}: {', '.join(COMMANDS)}")
        module = importlib.import_module(f".{COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, cmd_name)
        return command


@contextmanager
def _log_on_terminal() -> Iterator[None]:
    """Show the library's log where somebody watches; also how far a pass is, which commands ask."""
    if not sys.stderr.isatty():
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("privgram: %(message)s"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _describe(error: Exception) -> str:
    """An error in words, with what was noted of it later."""
    return ". ".join([_of_its_own(error), *getattr(error, "__notes__", ())])


def _of_its_own(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
        return where + error.strerror
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error) or type(error).__name__


def _status_of(error: Exception) -> Status:
    from privgram.ledger import BudgetExceeded
    from privgram.regression import RefusedError

    if isinstance(error, BudgetExceeded):
        return Status.OVER_BUDGET
    if isinstance(error, RefusedError):
        return Status.REFUSED
    # Of an error without a number the library says that a file is not what it should be.
    system = isinstance(error, OSError) and error.errno is not None
    if isinstance(error, MemoryError) or (system and not isinstance(error, OF_PATHS)):
        return Status.FAILED
    return Status.BAD_INPUT


def _fail(message: str, status: Status) -> NoReturn:
    print("privgram:", shown(" ".join(message.split())), file=sys.stderr)
    sys.exit(status)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="privgram")
@click.pass_context
def program(ctx: click.Context) -> None:
    """Regressions and second moments of a sensitive table, under differential privacy.

    `privgram init TABLE` writes the file of a study: the table, its columns, whom it protects, and
    one budget. A regression of the study costs a part of the budget; so does a release, from which
    any number of regressions and PCAs follow at no further cost. Begin with: privgram demo
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
