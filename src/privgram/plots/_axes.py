"""What every plot shares: colours, axes to draw on, names that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import extra
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

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
    return pyplot.subplots(figsize=size, layout="constrained")[1]


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


def listed(intro: str, names: Iterable[str], width: int = 70) -> str:
    """An introduction and names, in as many lines as they need."""
    lines = [intro]
    for i, name in enumerate(map(cut, names)):
        lines[-1] += "," * (i > 0)
        if len(lines[-1]) + len(name) < width:
            lines[-1] += f" {name}"
        else:
            lines.append(name)
    return "\n".join(lines)


def write_names(
    ax: Axes, names: Sequence[str], points: NDArray[np.float64], colors: Sequence[Any]
) -> list[str]:
    """Write names beside points where they hide no other; those without room are returned.

    The farthest from the origin come first. Limits must have been set.
    """
    size = 8.5
    box = ax.get_window_extent()
    across, up = np.ptp(ax.get_xlim()), np.ptp(ax.get_ylim())
    unit = np.array([box.width / across, box.height / up]) * 72 / ax.figure.dpi  # points
    taken: list[tuple[float, float, float, float]] = []
    left_out = []
    for i in np.argsort(-np.hypot(*points.T), kind="stable").tolist():
        (x, y), text = points[i] * unit, cut(names[i])
        width = 0.58 * size * len(text)
        side, way = (1 if x >= 0 else -1), (1 if y >= 0 else -1)
        for step in (0, 1, -1, 2, -2):
            low = y - size / 2 + way * (size * 0.7 + step * 1.15 * size)
            left = x + 4 if side > 0 else x - 4 - width
            place = (left, low, left + width, low + 1.1 * size)
            if not any(
                place[0] < b[2] and b[0] < place[2] and place[1] < b[3] and b[1] < place[3]
                for b in taken
            ):
                break
        else:
            left_out.append(names[i])
            continue
        taken.append(place)
        ax.annotate(
            text,
            tuple(points[i]),
            (4 * side, low - y + size / 2),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            va="center",
            fontsize=size,
            color=colors[i],
        )
    return left_out


def cut(name: str) -> str:
    """Shorten a name, and take away what a picture would act on."""
    # Matplotlib would read mathematics between dollar signs, and SVG has no control characters.
    name = shown(name)
    name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return name.replace("$", r"\$")
