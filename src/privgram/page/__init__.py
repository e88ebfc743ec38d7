"""A release or a saved fit as one page of HTML, in which its reader asks regressions.

It takes what is public, and never a table. The page loads nothing: `privgram.js` computes what is
asked of the release that the page holds, and `page.js` shows it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import write_atomically
from privgram._base.installed import __version__
from privgram._base.text import listed, shown
from privgram.columns.terms import INTERCEPT
from privgram.columns.variables import Factor
from privgram.multivariate.description import correlation
from privgram.regression.design import intercept_of
from privgram.regression.inference import RefusedError, about_means, rows_behind
from privgram.releases.checks import derived

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.releases.record import ReleaseRecord

__all__ = ["to_html"]

#: False alarms of the test by which the guarantee is put into words.
FALSE_ALARMS = 0.05

#: More columns than this have no table of correlations.
MOST_CORRELATIONS = 40

#: Standard deviations of its noise beyond which a correlation is not noise alone.
CLEAR_CORRELATION = 2.0

#: `proof_status` in words.
FOUNDED = {
    "exact": "This is proved of the mechanism, and its privacy profile is the exact one.",
    "upper bound": "This is proved of the mechanism; its privacy profile is an upper bound.",
    "stated": "This is stated by the source of the noise's constants, and not confirmed by a proof "
    "in privgram's documentation.",
}

OF_ROWS = (
    "It says nothing of single rows or of parts of the table: no medians, histograms or outliers, "
    "and no regression of some rows alone."
)
OF_LEVELS = "Of a factor, effects are differences from the level that is left out."
CAUSES = "It shows what goes together, and not what causes what."
BOUNDS = "Values beyond a column's bounds counted as if at the bound."

#: What a page of a release cannot say.
LIMITS = (
    OF_ROWS,
    "Regressions are linear and of the columns below. Products and powers are in no regression on "
    "this page; in Python there are those that were released.",
    "Standard errors count the sampling of the rows and the noise of the release. They assume "
    "errors that are independent and of equal variance; study.regress does not.",
    "An interval that ends in an arrow has no end there: the noise hides how large the coefficient "
    "may be.",
    "Who asks many regressions finds some with small P values by chance. That costs no privacy, "
    "and belongs into the paper.",
    OF_LEVELS,
    BOUNDS,
    CAUSES,
)

#: What a page of one regression cannot say.
LIMITS_OF_FIT = (
    OF_ROWS,
    "Only this regression was paid for: another one, with a feature more or less, costs a budget "
    "of its own, or takes a release.",
    "An interval that ends in an arrow has no end there: the noise hides how large the coefficient "
    "may be.",
    OF_LEVELS,
    BOUNDS,
    CAUSES,
)


def to_html(
    result: Any,
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    title: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> None:
    """Write one page of HTML in which a reader asks regressions and sees who is protected.

    Whoever opens it chooses a target and features and sees coefficients with their intervals; the
    guarantee in plain words, columns with their bounds, correlations, a methods paragraph to copy
    and what the release cannot say. The page of a saved fit has the fit in the place of the choice.
    It is one file that loads nothing, and its numbers are those of `regress`.

    Parameters
    ----------
    path : path-like
        An `.html` file; an existing one is replaced.
    target : str, optional
        What the page explains when it is opened, of a release; by default its last number.
    title : str, optional
        Heading of the page.
    file : path-like, optional
        Where the release or the fit is saved, to be named on the page with its checksum.

    Raises
    ------
    ValueError
        If the target is not a column that the page can explain, or `path` not an `.html` file.
    OSError
        If `path` cannot be written, or `file` not be read.
    """
    path, saved = Path(path), None if file is None else Path(file)
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path.name!r} must end in .html, to hold a page")
    made = _of_release(result, target) if hasattr(result, "matrix") else _of_fit(result, target)
    page = made | {"title": title or made["title"], "facts": _facts(result, made["facts"], saved)}
    write_atomically(path, _document(page, saved).encode())


def _document(page: Mapping[str, Any], saved: Path | None) -> str:
    """The page of its parts, each a piece of HTML or, of the last two, a value as JSON."""
    room = resources.files("privgram.page")
    style, reader, view = (
        room.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "privgram.js", "page.js")
    )
    script = re.sub(r"^export ", "", reader, flags=re.MULTILINE)
    script += re.sub(r"^import [^;]*;\n", "", view, flags=re.MULTILINE)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    view_of = page["view"] | {"load": None if saved is None else saved.name}
    parts = {
        "policy": html.escape(policy),
        "version": __version__,
        "title": _text(page["title"]),
        "style": style,
        "intro": _text(page["intro"]),
        "warnings": "".join(
            f'<p class="warning" role="note"><strong>{_text(head)}</strong> {_text(text)}</p>\n'
            for head, text in page["warnings"].items()
        ),
        "tiles": "".join(
            f"<div><dt>{_text(name)}</dt> <dd>{_text(value)}</dd></div>\n"
            for name, value in page["tiles"].items()
        ),
        "guarantee": "".join(f"<p>{_text(words)}</p>\n" for words in page["guarantee"]),
        "answer": page["answer"],
        "correlations": page.get("correlations", ""),
        "columns": _table(page["columns"], ("variable", "values"), "Columns"),
        "methods": _text(page["methods"]),
        "limits": "".join(f"<li>{_text(words)}</li>\n" for words in page["limits"]),
        "facts": _table(page["facts"].items(), (), "Facts"),
        "saved": _embedded(page["saved"]),
        "view": _embedded(view_of),
        "script": script,
    }
    template = room.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _text(value: object) -> str:
    """Text of any origin as HTML that shows it, and what acts rather than is seen as escapes."""
    return html.escape("\n".join(map(shown, str(value).split("\n"))))


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _embedded(value: object) -> str:
    """A value as JSON that ends no element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _table(rows: Iterable[tuple[str, str]], heads: tuple[str, ...], name: str) -> str:
    head = "".join(f'<th scope="col">{_text(one)}</th>' for one in heads)
    lines = "".join(
        f'<tr><th scope="row">{_text(one)}</th> <td>{_text(other)}</td></tr>\n'
        for one, other in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">\n<table>{top}\n'
        f"<tbody>\n{lines}</tbody></table></div>\n"
    )


# A release.

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

_RESULT = """<p id="status" role="status"></p>
<div id="result"></div>
<noscript><p class="warning">The answers on this page are computed by its script, which this browser
does not run. The file below is read by Python, R and JavaScript.</p></noscript>
"""


def _of_release(release: ReleaseRecord, target: str | None) -> dict[str, Any]:
    known = _known(release)
    single = [name for name in known if name != INTERCEPT]
    numbers = [name for name in single if not _is_level(release, name)]
    if target is None:
        target = (numbers or single or [""])[-1]
    elif target not in single:
        raise ValueError(f"no column {target!r} to explain on the page; there are {listed(single)}")
    whose = _whose(release)
    rows = "" if release.n_rows is None else f" and {release.n_rows:,} rows"
    several = "s" * (release.n_columns != 1)
    text = f"{release.n_columns} column{several}{rows}"
    return {
        "title": "A private release",
        "intro": f"Sums of {text}, released once under differential privacy. Any number of linear "
        "regressions follows from them.",
        "warnings": _warnings(release),
        "tiles": _tiles(release, release.n_rows) | {"method": release.method},
        "guarantee": _guarantee(release),
        "answer": _BUILDER + _RESULT,
        "correlations": _correlations(release),
        "columns": _columns(release.columns, release.names),
        "methods": f"Regressions were computed under differential privacy for {whose}. The second "
        "moment of the columns, each clamped to public bounds, was released by privgram "
        f"{__version__} ({type(release.mechanism).__name__}) with epsilon = {release.epsilon:g}, "
        f"delta = {release.delta:.3g} ({_neighbours(release)}). Coefficients are least squares on "
        "the released matrix; standard errors include sampling error, of equal variance, and "
        "privacy noise.",
        "limits": LIMITS,
        "facts": {
            "mechanism": str(release.mechanism),
            "method": f"{release.method}: {release.reason}",
            "norm of a " + ("row" if release.privacy_unit is None else "unit"): (
                f"up to {release.bound:.4g}, of columns mapped to [-1, 1]"
                if release.columns is not None
                else f"up to {release.bound:.4g}"
            ),
            **{name.replace("_", " "): _plain(x) for name, x in release.parameters.items()},
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
    follows = derived(release)
    kept = {name: follows[name] for name in ("center", "half_width", "ones", "rows")}
    body = release._header() | {"matrix": release.matrix.tolist(), "derived": kept}
    return {"format": "privgram-release", "version": 1, "release": body}


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
        return f"{head}<p>There are no correlations: {_text(refusal)}.</p>\n"
    clear = np.abs(found.matrix) >= CLEAR_CORRELATION * found.noise
    lines = "".join(
        f'<tr><th scope="row">{i + 1} {_text(name)}</th>'
        + "".join(_cell(float(found.matrix[i, j]), bool(clear[i, j])) for j in range(i))
        + "</tr>\n"
        for i, name in enumerate(names)
    )
    heads = "".join(
        f'<th scope="col" aria-label="{_text(name)}">{i + 1}</th>'
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


def _columns(columns: Columns | None, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each variable with its public description, or the columns as they are."""
    if columns is None:
        yield from ((name, "as it is") for name in names)
        return
    yield from ((name, one.describe()) for name, one in columns.variables.items())
    alone = {getattr(one, "label", str)(name) for name, one in columns.variables.items()}
    if more := [term for term in columns.terms if term not in alone]:
        yield "products and powers", ", ".join(more)


# A saved fit.


def _of_fit(fit: Any, target: str | None) -> dict[str, Any]:
    if target is not None:
        raise ValueError(f"a fit explains {fit.target!r}: leave the target out")
    robust = " robust to unequal variance," if fit.robust else ""
    rows = f"{fit.n_rows:,.0f}"
    return {
        "title": f"A private regression of {fit.target}",
        "intro": f"One regression of {rows} rows under differential privacy.",
        "warnings": _warnings(fit),
        "tiles": _tiles(fit, fit.n_rows) | {"method": fit.parameters["method"]},
        "guarantee": _guarantee(fit),
        "answer": f'<h2 id="answer">{_text(fit.target)}</h2>\n{_RESULT}',
        "columns": _columns(fit.columns, ()),
        "methods": f"{fit.target} was regressed on {' + '.join(fit.terms)} under differential "
        f"privacy for {_whose(fit)} (family {fit.family}). Columns were clamped to public bounds, "
        f"and coefficients fitted by noisy sums, by privgram {__version__} with epsilon = "
        f"{fit.epsilon:g} and delta = {fit.delta:.3g} ({_neighbours(fit)}). Standard errors,"
        f"{robust} include sampling error, privacy noise and an allowance for clipping.",
        "limits": LIMITS_OF_FIT,
        "facts": {
            "method": fit.parameters["method"],
            "standard errors": fit.cov_type,
            "rounds": _plain(fit.parameters.get("rounds", 1)),
        },
        "saved": {
            "format": "privgram-regression",
            "version": 1,
            "fit": fit._header()
            | {name: getattr(fit, name).tolist() for name in fit._format.arrays}
            | {"derived": fit._derived()},
        },
        "view": {
            "labels": [(x, shown(x)) for x in fit.param_names if shown(x) != x],
            "compared": [
                f"Effects {'in ' + ', '.join(terms) if terms else 'of levels'} are differences "
                f"from: {', '.join(levels)}."
                for terms, levels in fit.design.left_out_levels
            ],
        },
    }


# Both.


def _unit_of(result: Any) -> str | None:
    """Whose rows are protected together, or None for single rows."""
    unit = getattr(result, "privacy_unit", None)
    return getattr(result, "unit", None) if unit is None else str(unit.name)


def _whose(result: Any) -> str:
    unit = _unit_of(result)
    return "single rows" if unit is None else f"all rows of one {unit}"


def _neighbours(result: Any) -> str:
    one = "row" if _unit_of(result) is None else _unit_of(result)
    return f"one {one} replaced" if result.adjacency == "replace" else f"one {one} more or less"


def _tiles(result: Any, rows: float | None) -> dict[str, str]:
    return {
        "protected": _whose(result),
        "epsilon": f"{result.epsilon:g}",
        "delta": f"{result.delta:.3g}",
        "rows": "private" if rows is None else f"{rows:,.0f}",
    }


def _guarantee(result: Any) -> list[str]:
    """The guarantee in plain words."""
    name = _unit_of(result)
    one, other, whole, number = "any one row", "one more", "every other row", "rows"
    sought = "one row"
    if name is not None:
        one, other = f"all rows of any one {name}", f"those of one more {name}"
        whole, number = f"all rows of every other {name}", f"units by {name}"
        sought = f"one {name}"
    change = {
        "replace": f"had {one} of the table held anything else instead (the number of {number} "
        "is public)",
        "add-remove": f"had {one} been left out of the table, or {other} been in it (the "
        f"number of {number} is private)",
    }[result.adjacency]
    factor = f"{math.exp(result.epsilon):.4g}" if result.epsilon < 700 else "a huge number"
    words = [
        f"What this page shows would have come out almost the same {change}: any outcome at most "
        f"{factor} times as likely (e to the power of epsilon), but for a probability of "
        f"{result.delta:.3g} (delta).",
        f"So anyone who knows {whole}, and anything else, and looks for {sought} by "
        f"a test that raises {FALSE_ALARMS:.0%} false alarms, finds it with probability "
        f"{_power(result):.1%} at most; without this page it would be {FALSE_ALARMS:.0%}.",
        FOUNDED[result.proof_status],
    ]
    if "bound_epsilon" in result.parameters:
        part = result.parameters["bound_epsilon"]
        words.append(
            f"Of epsilon, {part:g} was spent on choosing the bound of the "
            f"{'row' if name is None else 'unit'} norms from the table; epsilon counts it."
        )
    return words


def _power(result: Any) -> float:
    """Greatest power of a test between neighbours at `FALSE_ALARMS` (Wasserman and Zhou 2010)."""
    grid = np.linspace(0.0, min(result.epsilon, 30.0), 121)
    delta = np.asarray(result.privacy.delta(grid))
    up = np.exp(grid) * FALSE_ALARMS + delta
    down = 1 - np.exp(-grid) * (1 - delta - FALSE_ALARMS)
    return float(min(up.min(), down.min(), 1.0))


def _warnings(result: Any) -> dict[str, str]:
    """What a reader must know before trusting the page."""
    warnings: dict[str, str] = {}
    if result.reproducible:
        warnings["Not private."] = (
            "The noise came from a generator with a known seed: anyone who knows the seed can "
            "take it off. Such a release is for experiments."
        )
    condition = getattr(result, "condition", None)
    if condition is not None:
        warnings["Conditional."] = (
            f"The guarantee holds only if {condition}; nothing enforces that."
        )
    mechanism = getattr(result, "mechanism", None)
    flaw = None if mechanism is None else mechanism.caveat(result)
    if flaw is not None:
        warnings["Published constants with an erratum."] = (
            f"{flaw} The delta on this page is the one that the release really has."
        )
    of_rows = _unit_of(result) is None
    public = getattr(result, "n_rows" if of_rows else "n_units", None)
    if public and result.delta > 1 / public:
        what = "rows" if of_rows else "units"
        warnings["A large delta."] = (
            f"It exceeds one in the number of {what}, and so allows mechanisms that publish "
            "some row as it is. This one does not, but the number promises little."
        )
    return warnings


def _facts(result: Any, more: Mapping[str, str], saved: Path | None) -> dict[str, str]:
    facts = {
        "protected": f"{_whose(result)}; {_neighbours(result)}",
        "guarantee": f"epsilon = {result.epsilon:g}, delta = {result.delta:.6g} "
        f"({result.proof_status})",
        "line in the ledger": f"{result.privacy}",
    }
    unit = getattr(result, "privacy_unit", None)
    if unit is not None:
        facts["units"] = "private" if result.n_units is None else f"{result.n_units:,}"
        facts |= {"effects of units": "their means were taken off"} if unit.fixed_effects else {}
    facts |= more
    if saved is not None:
        facts["file"] = saved.name
        facts["SHA-256 of the file"] = hashlib.sha256(saved.read_bytes()).hexdigest()
    return facts | {"page by": f"privgram {__version__}"}


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
