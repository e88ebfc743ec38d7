"""What every plot shares: colours, axes to draw on, names that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privgram._base.optional import extra
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

#: Told apart by colour-blind readers, and legible on white and on black.
BLUE, ORANGE, GREY = "#2a7ab9", "#d9690f", "#8a8a8a"

#: More columns than this are not named one by one.
MOST_NAMES = 40

#: Names on an axis are cut to this length.
LONGEST_NAME = 24


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Give the axes, or those of a new figure."""
    if ax is not None:
        return ax
    with extra("plot", "plots need"):
        from matplotlib import pyplot
    axes: Axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    return axes


def bare(ax: Axes) -> None:
    """Leave out the frame above and on the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def apart(blocks: Mapping[str, slice], distance: float) -> dict[str, float]:
    """The middles of blocks that have room for a name, the widest first."""
    found: dict[str, float] = {}
    for name, at in sorted(blocks.items(), key=lambda block: block[1].start - block[1].stop):
        middle = (at.start + at.stop - 1) / 2
        if all(abs(middle - other) >= distance for other in found.values()):
            found[name] = middle
    return found


def cut(name: str) -> str:
    """Shorten a name, and take away what a picture would act on."""
    # Matplotlib would read mathematics between dollar signs, and SVG has no control characters.
    name = shown(name)
    name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return name.replace("$", r"\$")
