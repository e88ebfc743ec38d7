"""What all pages have: the document about its parts, and the guarantee in plain words."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import write_atomically
from privgram._base.installed import __version__
from privgram._base.text import no_less, shown
from privgram.privacy.profiles import charged
from privgram.regression.summary import caution_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from privgram.columns import Columns

#: False alarms of the test by which the guarantee is put into words.
FALSE_ALARMS = 0.05

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
OF_BOUNDS = "Values beyond a column's bounds counted as if at the bound."

RESULT = """<p id="status" role="status"></p>
<div id="result"></div>
<noscript><p class="warning">The answers on this page are computed by its script, which this browser
does not run. The file below is read by Python, R and JavaScript.</p></noscript>
"""


def check_path(path: Path) -> None:
    """Raise ValueError unless a page is to be an `.html` file."""
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"{path.name!r} must end in .html, to hold a page")


def write(path: Path, result: Any, page: Mapping[str, Any], title: str | None, file: Any) -> None:
    """Put a page's parts together."""
    saved = None if file is None else Path(file)
    made = provenance(result, page["facts"], saved)
    whole = {**page, "title": title or page["title"], "facts": made}
    write_atomically(path, document(whole, saved).encode())


def document(page: Mapping[str, Any], saved: Path | None) -> str:
    """The page of its parts, each a piece of HTML or, of the last two, a value as JSON."""
    room = resources.files("privgram.page")
    style, reader, view = (
        room.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "privgram.js", "page.js")
    )
    script = re.sub(r"^export ", "", reader, flags=re.MULTILINE)
    script += re.sub(r"^import [^;]*;\n", "", view, flags=re.MULTILINE)
    policy = (
        f"default-src 'none'; style-src '{csp_hash(style)}'; script-src '{csp_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    view_of = page["view"] | {"load": None if saved is None else saved.name}
    parts = {
        "policy": html.escape(policy),
        "version": __version__,
        "title": text_of(page["title"]),
        "style": style,
        "intro": text_of(page["intro"]),
        "warnings": "".join(
            f'<p class="warning" role="note"><strong>{text_of(head)}</strong> {text_of(text)}</p>\n'
            for head, text in page["warnings"].items()
        ),
        "tiles": "".join(
            f"<div><dt>{text_of(name)}</dt> <dd>{text_of(value)}</dd></div>\n"
            for name, value in page["tiles"].items()
        ),
        "guarantee": "".join(f"<p>{text_of(words)}</p>\n" for words in page["guarantee"]),
        "answer": page["answer"],
        "correlations": page.get("correlations", ""),
        "columns": html_table(page["columns"], ("variable", "values"), "Columns"),
        "methods": text_of(page["methods"]),
        "limits": "".join(f"<li>{text_of(words)}</li>\n" for words in page["limits"]),
        "facts": html_table(page["facts"].items(), (), "Facts"),
        "saved": embedded(page["saved"]),
        "view": embedded(view_of),
        "script": script,
    }
    template = room.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def text_of(value: object) -> str:
    """Text of any origin as HTML that shows it, and what acts rather than is seen as escapes."""
    return html.escape("\n".join(map(shown, str(value).split("\n"))))


def csp_hash(text: str) -> str:
    """The digest of a script or a style, as a policy says it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def embedded(value: object) -> str:
    """A value as JSON that ends no element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def html_table(rows: Iterable[tuple[str, str]], heads: tuple[str, ...], name: str) -> str:
    """Two columns of text as a table that scrolls in itself, the first one its heads."""
    head = "".join(f'<th scope="col">{text_of(one)}</th>' for one in heads)
    lines = "".join(
        f'<tr><th scope="row">{text_of(one)}</th> <td>{text_of(other)}</td></tr>\n'
        for one, other in rows
    )
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">\n<table>{top}\n'
        f"<tbody>\n{lines}</tbody></table></div>\n"
    )


def unit_of(result: Any) -> str | None:
    """Whose rows are protected together, or None for single rows."""
    unit = getattr(result, "privacy_unit", None)
    return getattr(result, "unit", None) if unit is None else str(unit.name)


def whose(result: Any) -> str:
    """What is protected together."""
    unit = unit_of(result)
    return "single rows" if unit is None else f"all rows of one {unit}"


def neighbours(result: Any) -> str:
    """How two tables differ that must look alike."""
    one = "row" if unit_of(result) is None else unit_of(result)
    return f"one {one} replaced" if result.adjacency == "replace" else f"one {one} more or less"


def tiles(result: Any, rows: float | None) -> dict[str, str]:
    """The guarantee in four numbers and words."""
    return {
        "protected": whose(result),
        "epsilon": no_less(result.epsilon, 6),
        "delta": no_less(result.delta, 3),
        "rows": "private" if rows is None else f"{rows:,.0f}",
    }


def guarantee(result: Any) -> list[str]:
    """The guarantee in plain words."""
    name = unit_of(result)
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
    factor = no_less(math.exp(result.epsilon), 4) if result.epsilon < 700 else "a huge number"
    words = [
        f"What this page shows would have come out almost the same {change}: any outcome at most "
        f"{factor} times as likely (e to the power of epsilon), but for a probability of "
        f"{no_less(result.delta, 3)} (delta).",
        f"So anyone who knows {whole}, and anything else, and looks for {sought} by "
        f"a test that raises {FALSE_ALARMS:.0%} false alarms, finds it with probability "
        f"{math.ceil(1000 * power(result)) / 1000:.1%} at most; without this page it would be "
        f"{FALSE_ALARMS:.0%}.",
        FOUNDED[result.proof_status],
    ]
    if "bound_epsilon" in result.parameters:
        part = result.parameters["bound_epsilon"]
        words.append(
            f"Of epsilon, {part:g} was spent on choosing the bound of the "
            f"{'row' if name is None else 'unit'} norms from the table; epsilon counts it."
        )
    return words


def budget(result: Any, digits: int = 3) -> str:
    """Epsilon, and delta to so many digits."""
    return f"epsilon = {no_less(result.epsilon, 6)}, delta = {no_less(result.delta, digits)}"


def power(result: Any) -> float:
    """Greatest power of a test between neighbours at `FALSE_ALARMS` (Wasserman and Zhou 2010)."""
    grid = np.linspace(0.0, min(result.epsilon, 30.0), 121)
    delta = np.asarray(charged(result).delta(grid))
    up = np.exp(grid) * FALSE_ALARMS + delta
    down = 1 - np.exp(-grid) * (1 - delta - FALSE_ALARMS)
    return float(min(up.min(), down.min(), 1.0))


def warnings(result: Any) -> dict[str, str]:
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
    of_rows = unit_of(result) is None
    public = getattr(result, "n_rows" if of_rows else "n_units", None)
    if public and result.delta > 1 / public:
        what = "rows" if of_rows else "units"
        warnings["A large delta."] = (
            f"It exceeds one in the number of {what}, and so allows mechanisms that publish "
            "some row as it is. This one does not, but the number promises little."
        )
    caution = getattr(result, "_caution", caution_of(result.parameters))
    if caution is not None:
        heading, said = caution.split(": ", 1)
        warnings[f"{heading}."] = said[0].upper() + said[1:]
    return warnings


def provenance(result: Any, more: Mapping[str, str], saved: Path | None) -> dict[str, str]:
    """How it was made, as the page ends with it."""
    found = {
        "protected": f"{whose(result)}; {neighbours(result)}",
        "guarantee": f"{budget(result, 6)} ({result.proof_status})",
        "line in the ledger": f"{result.privacy}",
    }
    unit = getattr(result, "privacy_unit", None)
    if unit is not None:
        found["units"] = "private" if result.n_units is None else f"{result.n_units:,}"
        found |= {"effects of units": "their means were taken off"} if unit.fixed_effects else {}
    found |= more
    if saved is not None:
        found["file"] = saved.name
        found["SHA-256 of the file"] = hashlib.sha256(saved.read_bytes()).hexdigest()
    return found | {"page by": f"privgram {__version__}"}


def plain(value: object) -> str:
    """A parameter as text."""
    if isinstance(value, list):
        return ", ".join(map(plain, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def column_descriptions(columns: Columns | None, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each variable with its public description, or the columns as they are."""
    if columns is None:
        yield from ((name, "as it is") for name in names)
        return
    yield from ((name, one.describe()) for name, one in columns.variables.items())
    alone = {getattr(one, "label", str)(name) for name, one in columns.variables.items()}
    if more := [term for term in columns.terms if term not in alone]:
        yield "products and powers", ", ".join(more)
