"""What plots share: colours, axes to draw on, headings, names that fit."""

from __future__ import annotations

from inspect import cleandoc
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeVar

from privgram._base.installed import extra
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

Drawing = TypeVar("Drawing", bound="Callable[..., Any]")

#: Told apart by colour-blind readers, and legible on white and on black.
BLUE, GREY = "#2a7ab9", "#8a8a8a"

#: More columns than this are not named one by one.
MOST_NAMES = 40

#: Names on an axis are cut to this length.
LONGEST_AXIS_NAME = 24


#: What the docstrings of all plots say, `plot` completes them.
AX = "ax : matplotlib.axes.Axes, optional\n    Where to draw; a new figure by default."
ENDING = """
Returns
-------
matplotlib.axes.Axes

Raises
------
{}ImportError
    Without matplotlib: ``pip install "privgram[plot]"``.
"""


def plot(function: Drawing) -> Drawing:
    """Complete a docstring: all plots take `ax`, return Axes and need matplotlib."""
    main, _, raised = cleandoc(function.__doc__ or "").partition("\n\nRaises\n------\n")
    ending = ENDING.format(f"{raised}\n" if raised else "")
    function.__doc__ = main.replace("\nax", f"\n{AX}") + "\n" + ending
    return function


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Give the axes, or those of a new figure."""
    if ax is not None:
        return ax
    with extra("plot", "plots need"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def bare(ax: Axes) -> None:
    """Leave out the frame above and on the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def apart(blocks: Mapping[str, slice], distance: float) -> dict[str, float]:
    """The middles of blocks that have room for a name, the widest first."""
    middles: dict[str, float] = {}
    for name, at in sorted(blocks.items(), key=lambda block: block[1].start - block[1].stop):
        middle = (at.start + at.stop - 1) / 2
        if all(abs(middle - other) >= distance for other in middles.values()):
            middles[name] = middle
    return middles


def heading(ax: Axes, text: str) -> None:
    """Write what a plot shows above it."""
    ax.set_title(text, fontsize="medium", loc="left")


def lay_rows(ax: Axes, names: Sequence[str], otherwise: str) -> None:
    """Rows from above with their names, or what they are if there are many; a grid along values."""
    ax.set_ylim(len(names) - 0.4, -0.6)
    if len(names) <= MOST_NAMES:
        ax.set_yticks(range(len(names)), [cut(name) for name in names])
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylabel(otherwise)
    ax.grid(axis="x", color=GREY, alpha=0.25, linewidth=0.6)
    bare(ax)


def write_beside(ax: Axes, row: int, text: str) -> None:
    """Write a text to the right of a row."""
    ax.text(1.02, row, text, transform=ax.get_yaxis_transform(), va="center", fontsize="small")


def lines_of(intro: str, names: Iterable[str], width: int = 70) -> str:
    """An introduction and names, in as many lines as they need; none is broken."""
    text = f"{intro} " + ", ".join(cut(name).replace(" ", "\xa0") for name in names)
    lines = wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\xa0", " ")


def cut(name: str) -> str:
    """Shorten a name, and take away what a picture would act on."""
    # Matplotlib would read mathematics between dollar signs, and SVG has no control characters.
    name = shown(name)
    name = name if len(name) <= LONGEST_AXIS_NAME else name[: LONGEST_AXIS_NAME - 1] + "…"
    return name.replace("$", r"\$")
