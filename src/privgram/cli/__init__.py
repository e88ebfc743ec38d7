"""The command line: ``privgram``, also ``python -m privgram``.

One file a command. Results go to standard output (a table, or JSON with
``--json``), progress to standard error; the exit status is 0, or 2 with one
line on standard error and nothing half-written (1 where an audit finds a leak).
"""

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        message = 'the command line needs its extra: pip install "privgram[cli]"'
        print(f"privgram: {message}", file=sys.stderr)
        sys.exit(2)
    from ._program import program, terminate

    signal.signal(signal.SIGTERM, terminate)
    program.main(prog_name="privgram")
