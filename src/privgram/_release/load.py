"""Anything that was saved, read by one function."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from privgram._base.saved import DamagedFile, format_of

#: What reads a file of each format, imported when there is one.
READERS = {
    "privgram-release": "privgram._release:read_release",
    "privgram-releases": "privgram._release.groups:read_releases",
    "privgram-regression": "privgram.regression.scored:read_fit",
}


def load(path: str | os.PathLike[str]) -> Any:
    """Read what was saved: a release, the releases of groups, or a regression.

    Parameters
    ----------
    path : path-like
        A `.json` or `.npz` file, as the `save` of any of these writes it.

    Returns
    -------
    Release, Releases or ScoreFit
        Whichever the file says it holds.

    Raises
    ------
    DamagedFile
        A ValueError: if the file holds none of these, is of a later version, was truncated or
        altered, or has parts that contradict each other.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    name = format_of(path)
    if name not in READERS:
        raise DamagedFile(
            f"{path.name} is not a release of privgram, of groups or of one table, nor a fit, or "
            "is damaged"
        )
    module, _, reader = READERS[name].partition(":")
    return getattr(import_module(module), reader)(path)
