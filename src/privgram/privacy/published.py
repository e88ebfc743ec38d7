"""The former names of the papers' statements, which are in `privgram.papers` now.

``published.sheffet_theorem_3_1`` is ``papers.sheffet.theorem_3_1``, and so on.
"""

from importlib import import_module
from typing import Any

_ROOMS = {
    "sheffet_": "sheffet",
    "hardt_roth_": "hardt_roth",
    "zhou_": "zhou_ligett_wasserman",
}


def __getattr__(name: str) -> Any:
    papers = import_module("privgram.papers")
    for prefix, room in _ROOMS.items():
        found = getattr(getattr(papers, room), name.removeprefix(prefix), None)
        if name.startswith(prefix) and found is not None:
            return found
    if name == "AdaptiveConstants":
        return papers.sheffet.AdaptiveConstants
    if name == "PublishedErratumError":
        return papers.PublishedErratumError
    raise AttributeError(f"{name!r} is not here: the papers' statements are in privgram.papers")
