"""Text from outside, such as names of columns, made fit to be shown."""

from __future__ import annotations

from collections.abc import Sequence

#: Not "printable", and part of how words of some scripts are written: (non-)joiners.
_JOINERS = "\u200c\u200d"


def shown(text: str) -> str:
    r"""Write characters that would act rather than be seen as escapes, ``\x1b`` for one.

    Terminals obey control characters, some of them of what a file says; line breaks end a cell of
    a table; overrides of direction show a name as another one; SVG forbids most of them. A name
    keeps such characters, and is found by them: they are escaped where it is shown.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode() for c in text
    )


#: More names than this are counted instead of listed.
MOST_LISTED = 12


def listed(names: Sequence[str]) -> str:
    """Names with commas between them, the first ones if there are many."""
    more = len(names) - MOST_LISTED
    if more <= 1:  # to say "and 1 more" takes the room of its name
        return ", ".join(map(shown, names))
    return f"{', '.join(map(shown, names[:MOST_LISTED]))} and {more:,} more"
