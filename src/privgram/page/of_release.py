"""The page of a release, in which its reader asks regressions."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import __version__
from privgram._base.text import listed, shown
from privgram.columns.terms import INTERCEPT
from privgram.columns.variables import Factor
from privgram.multivariate.description import correlation
from privgram.page.document import (
    CAUSES,
    OF_BOUNDS,
    OF_LEVELS,
    OF_ROWS,
    RESULT,
    budget,
    check_path,
    column_descriptions,
    guarantee,
    neighbours,
    plain,
    text_of,
    tiles,
    warnings,
    whose,
    write,
)
from privgram.regression.design import intercept_of
from privgram.regression.inference import RefusedError, about_means, rows_behind
from privgram.releases.checks import derived

if TYPE_CHECKING:
    from privgram.releases.record import ReleaseRecord

__all__ = ["to_html"]

#: More columns than this have no table of correlations.
MOST_CORRELATIONS = 40

#: Standard deviations of noise beyond which a correlation is not noise alone.
CLEAR_CORRELATION = 2.0

#: What a page of a release cannot say.
LIMITS_OF_RELEASE = (
    OF_ROWS,
    "Regressions are linear and of the columns below. Products and powers are in no regression on "
    "this page; in Python there are those that were released.",
    "Standard errors count the sampling of the rows and the noise of the release. They assume "
    "errors that are independent and of equal variance; those of study.regress may be of unequal.",
    "An interval that ends in an arrow has no end there: the noise hides how large the coefficient "
    "may be.",
    "Whoever asks many regressions finds some small P values by chance. That costs no privacy; "
    "say in the paper how many were asked.",
    OF_LEVELS,
    OF_BOUNDS,
    CAUSES,
)

_BUILDER = """<h2 id="answer">Ask it a regression</h2>
<p>Choose what to explain, and by what. Every answer is computed on this page from the release, and
costs no further privacy.</p>
<form id="builder" aria-labelledby="answer">
<div class="choices">
<label>Explain <select id="target"></select></label>
<label>Intervals <select id="level"><option value="0.9">90 %</option>
<option value="0.95" selected>95 %</option><option value="0.99">99 %</option></select></label>
<label id="constant"><input type="checkbox" id="intercept" checked> with an intercept</label>
</div>
<fieldset><legend>by</legend>
<p><button type="button" id="all">all</button> <button type="button" id="none">none</button></p>
<div id="features"></div></fieldset>
</form>
"""


def to_html(
    release: ReleaseRecord,
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    title: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> None:
    """Write one page of HTML in which a reader asks regressions and sees who is protected.

    Whoever opens it chooses a target and features and sees coefficients with their intervals; the
    guarantee in plain words, columns with their bounds, correlations, a methods paragraph to copy
    and what the release cannot say. It is one file that loads nothing, and its numbers are those
    of `regress`.

    Parameters
    ----------
    path : path-like
        An `.html` file; an existing one is replaced.
    target : str, optional
        What the page explains when it is opened; by default its last number.
    title : str, optional
        Heading of the page.
    file : path-like, optional
        Where the release is saved, to be named on the page with its checksum.

    Raises
    ------
    ValueError
        If the target is not a column that the page can explain, or `path` not an `.html` file.
    OSError
        If `path` cannot be written, or `file` not be read.
    """
    check_path(path := Path(path))
    write(path, release, _of_release(release, target), title, file)


def _of_release(release: ReleaseRecord, target: str | None) -> dict[str, Any]:
    known = _known(release)
    single = [name for name in known if name != INTERCEPT]
    numbers = [name for name in single if not _is_level(release, name)]
    if target is None:
        target = (numbers or single or [""])[-1]
    elif target not in single:
        raise ValueError(f"no column {target!r} to explain on the page; there are {listed(single)}")
    protected = whose(release)
    rows = "" if release.n_rows is None else f" and {release.n_rows:,} rows"
    several = "s" * (release.n_columns != 1)
    text = f"{release.n_columns} column{several}{rows}"
    return {
        "title": "A private release",
        "intro": f"Sums of {text}, released once under differential privacy. Any number of linear "
        "regressions follows from them.",
        "warnings": warnings(release),
        "tiles": tiles(release, release.n_rows) | {"method": release.method},
        "guarantee": guarantee(release),
        "answer": _BUILDER + RESULT,
        "correlations": _correlations(release),
        "columns": column_descriptions(release.columns, release.names),
        "methods": f"Regressions were computed under differential privacy for {protected}. The "
        "second moment of the columns, each clamped to public bounds, was released by privgram "
        f"{__version__} ({type(release.mechanism).__name__}) with {budget(release)} "
        f"({neighbours(release)}). Coefficients are least squares on the released "
        "matrix; standard errors include sampling error, of equal variance, and privacy noise.",
        "limits": LIMITS_OF_RELEASE,
        "facts": {
            "mechanism": str(release.mechanism),
            "method": f"{release.method}: {release.reason}",
            "norm of a " + ("row" if release.privacy_unit is None else "unit"): (
                f"up to {release.bound:.4g}, of columns mapped to [-1, 1]"
                if release.columns is not None
                else f"up to {release.bound:.4g}"
            ),
            **{name.replace("_", " "): plain(x) for name, x in release.parameters.items()},
        },
        "saved": _saved(release),
        "view": {
            "target": target,
            "labels": _labels(release),
            "deviations": _deviations(release),
            "notes": _notes(release),
        },
    }


def _known(release: ReleaseRecord) -> list[str]:
    """Columns in own units: no products and powers."""
    centers = derived(release)["center"]
    pairs = zip(release.names, centers, strict=True)
    return [name for name, center in pairs if center is not None]


def _is_level(release: ReleaseRecord, name: str) -> bool:
    return any(name == f"{of}[{x}]" for of, one in _factors(release) for x in one.names)


def _factors(release: ReleaseRecord) -> list[tuple[str, Factor]]:
    return [(name, one) for name, one in release.variables.items() if isinstance(one, Factor)]


def _notes(release: ReleaseRecord) -> list[str]:
    """What holds of every regression on the release."""
    notes = []
    rows = rows_behind(release)
    if rows is not None and rows != release.n_rows:
        notes.append("The number of rows is read, with noise, off the release.")
    recorded = release.parameters
    if recorded.get("clipping_bias"):
        notes.append(
            f"The last round clipped about {recorded['clipped_rows']:.0f} rows. Standard errors "
            "allow for the bias by a multiple of the noise."
        )
    unit = release.privacy_unit
    if unit is not None and unit.fixed_effects:
        notes.append(f"Means by {shown(unit.name)} are taken off: slopes are those within each.")
    return notes


def _saved(release: ReleaseRecord) -> dict[str, Any]:
    """What a file has that the page needs; a sketch is not among it."""
    body = release._header() | {"matrix": release._arrays()["matrix"].tolist()}
    body["derived"] = derived(release)
    return {"format": "privgram-release", "version": 2, "release": body}


def _labels(release: ReleaseRecord) -> list[tuple[str, str]]:
    """Names as the page shows them, where that is otherwise."""
    names = {*release.names, *release.variables}
    for _, one in _factors(release):
        names |= set(one.names)
    return [(name, shown(name)) for name in sorted(names) if shown(name) != name]


def _deviations(release: ReleaseRecord) -> dict[str, float]:
    """Standard deviations of columns in own units, where the release knows them."""
    ones = intercept_of(release)
    if ones is None:
        return {}
    count, _, scatter = about_means(release, np.eye(release.n_columns), ones)
    widths = derived(release)["half_width"]
    return {
        name: math.sqrt(square / max(count - 1, 1.0)) * width
        for name, square, width in zip(release.names, scatter.diagonal(), widths, strict=True)
        if name != INTERCEPT and width is not None and square > 0
    }


def _correlations(release: ReleaseRecord) -> str:
    """Correlations as a table, the first level of each factor left out, or why there are none."""
    first = {f"{name}[{one.names[0]}]" for name, one in _factors(release)}
    names = [x for x in _known(release) if x != INTERCEPT and x not in first]
    if intercept_of(release) is None or not 2 <= len(names) <= MOST_CORRELATIONS:
        return ""
    head = '<h2 id="correlations">What goes together</h2>\n'
    try:
        found = correlation(release, names)
    except RefusedError as refusal:
        return f"{head}<p>There are no correlations: {text_of(refusal)}.</p>\n"
    clear = np.abs(found.matrix) >= CLEAR_CORRELATION * found.noise
    lines = "".join(
        f'<tr><th scope="row">{i + 1} {text_of(name)}</th>'
        + "".join(_cell(float(found.matrix[i, j]), bool(clear[i, j])) for j in range(i))
        + "</tr>\n"
        for i, name in enumerate(names)
    )
    heads = "".join(
        f'<th scope="col" aria-label="{text_of(name)}">{i + 1}</th>'
        for i, name in enumerate(names[:-1])
    )
    return (
        f'{head}<p class="soft">Correlations of the rows at hand. Those in brackets are as noise '
        "alone would make them."
        f"{' The first level of each factor is left out.' * bool(first)}</p>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="Correlations">\n'
        f'<table class="correlations"><thead><tr><td></td>{heads}</tr></thead>\n'
        f"<tbody>\n{lines}</tbody></table></div>\n"
    )


def _cell(r: float, clear: bool) -> str:
    size = min(round(abs(r) * 5), 5) if clear else 0
    shade = f"{'p' if r > 0 else 'n'}{size}" if size else "faint"
    text = f"{round(r, 2) + 0.0:.2f}"  # no minus before nothing
    text = text if clear else f"({text})"
    return f'<td class="{shade}"><data value="{r!r}">{text}</data></td>'
