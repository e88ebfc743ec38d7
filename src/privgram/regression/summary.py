"""What is said of a regression: its summary, and cautions by its release, clipping among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.text import as_frame, facts_html, short_names, shown
from privgram.regression.inference import SOME_OPEN, Inference, students

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pandas import DataFrame

    from privgram._base.numbers import Matrix
    from privgram._base.saved import JsonObject
    from privgram.releases.record import ReleaseRecord

#: Standard errors are said to depend on the coefficient if that moves an end by this part of a
#: half width, or z by this part: as much as the digits that are printed show.
NOTICED_SKEW = 0.002

#: Columns of statistics, Student's or normal, and of their P values. They have three decimals; the
#: others have four significant digits.
_STATISTICS, _PVALUES = ("t", "z"), ("P>|t|", "P>|z|")


#: What to do about rows far out.
SHORTER = "Narrower bounds, or logarithms of what has long tails, leave less to them."


def caution_of(parameters: JsonObject) -> str | None:
    """Say so where few rows far out, which are cut down, may decide what is estimated."""
    excess, one_sided = (parameters.get(k) or 0.0 for k in ("clipping_excess", "one_sided"))
    if excess or one_sided:
        return (
            "Caution: few rows far out may decide what is estimated. Cutting them down may have "
            f"moved estimates by {max(excess, one_sided):.1f} times the privacy noise"
            f"{' in the direction in which they lie' if one_sided > excess else ''}, and "
            f"intervals allow for as much. {SHORTER}"
        )
    if parameters.get("heavy_tail"):
        return (
            "Caution: few rows far out may decide what is estimated. Tails are so long that "
            "nothing bounds by how much cutting such rows down moved estimates: a coefficient that "
            f"they carry may lie outside its interval. {SHORTER}"
        )
    return None


@dataclass(frozen=True)
class SummaryTable:
    """One table of a summary: rows of cells, with the heads that statsmodels has."""

    data: list[list[str]]

    def as_html(self) -> str:
        """The table in HTML."""
        rows = []
        for i, row in enumerate(self.data):
            head = i == 0 and row[0] == ""
            tags = ("th" if head or j == 0 else "td" for j in range(len(row)))
            cells = (f"<{tag}>{escape(cell)}</{tag}>" for tag, cell in zip(tags, row, strict=True))
            rows.append(f"<tr>{''.join(cells)}</tr>")
        return f"<table>{''.join(rows)}</table>"

    def as_latex_tabular(self) -> str:
        """The table as a LaTeX tabular."""
        form = "l" + "r" * (max(map(len, self.data)) - 1)
        rows = "".join(" & ".join(map(_latex, row)) + " \\\\\n" for row in self.data)
        return f"\\begin{{tabular}}{{{form}}}\n\\hline\n{rows}\\hline\n\\end{{tabular}}"


@dataclass(frozen=True, eq=False)
class Summary:
    """A regression's summary as data, and as text, HTML or LaTeX."""

    facts: dict[str, str]  # what was fitted to what, and under which guarantee
    names: tuple[str, ...]  # of the rows: the parameters
    columns: tuple[str, ...]  # of the numbers
    values: Matrix
    refusal: str | None  # why there are no standard errors
    notes: tuple[str, ...]  # what the numbers assume, as sentences
    # of each row, the notes that say why its numbers disagree
    marks: tuple[tuple[int, ...], ...] = ()
    title: str = "Private Linear Regression"
    caution: str | None = None  # what is to be read before the numbers

    @property
    def tables(self) -> list[SummaryTable]:
        """The facts and the coefficients, as statsmodels' first two tables."""
        facts = [[f"{name}:", shown(value)] for name, value in self.facts.items()]
        rows = [["", *self.columns]]
        for name, row, _ in self._rows():
            cells = (_cell(x, c).strip() for x, c in zip(row, self.columns, strict=True))
            rows.append([shown(name), *cells])
        return [SummaryTable(facts), SummaryTable(rows)]

    def as_text(self) -> str:
        """The table as statistics packages print it."""
        names = short_names(self.names)
        margin = max([14, *(len(name) + 1 for name in names)])
        width = margin + max(64, sum(map(_width, self.columns)))
        lines = [*self._first, f"{self.title} Results".center(width).rstrip()]
        lines.append("=" * width)
        lines += [*self._heading(width), "=" * width]
        header = "".join(f"{name:>{_width(name)}}" for name in self.columns)
        lines += [f"{'':<{margin}}{header}", "-" * width]
        for name, (_, row, mark) in zip(names, self._rows(), strict=True):
            cells = map(_cell, row, self.columns)
            lines.append(f"{name:<{margin}}{''.join(cells)}{mark}")
        lines.append("=" * width)
        if self.notes:
            lines += ["Notes:", *(f"[{i}] {note}" for i, note in enumerate(self.notes, 1))]
        return "\n".join(lines)

    __str__ = __repr__ = as_text

    def as_html(self) -> str:
        """The table as notebooks show it."""
        heads, *rows = self.tables[1].data
        marks = [mark.strip() for *_, mark in self._rows()]
        marked = [[*row, mark] for row, mark in zip(rows, marks, strict=True)]
        numbers = SummaryTable([[*heads, ""], *marked])
        first = "".join(f"<p>{escape(line)}</p>" for line in self._first)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"{first}{facts_html(self.title.capitalize(), self.facts)}"
            f"{numbers.as_html()}<ol>{notes}</ol>"
        )

    _repr_html_ = as_html

    def as_latex(self) -> str:
        """Both tables as LaTeX, with the notes below."""
        parts = [table.as_latex_tabular() for table in self.tables]
        body = "\n\n".join([*map(_latex, self._first), *parts, *map(_latex, self.notes)])
        return f"\\begin{{center}}\n{body}\n\\end{{center}}"

    def frame(self) -> DataFrame:
        """The numbers as a data frame (needs pandas), a row a parameter."""
        return as_frame(self.values, self.names, self.columns)

    @property
    def _first(self) -> list[str]:
        """What comes before all else: why there are no numbers, or a caution."""
        if self.refusal is None:
            return [] if self.caution is None else [self.caution]
        known = np.isfinite(self.values[:, 0]).all()
        return [f"No {'standard errors' if known else 'estimates'}: {self.refusal}."]

    def _rows(self) -> Iterator[tuple[str, list[float], str]]:
        """Name, numbers and the marks of each row."""
        marks = self.marks or ((),) * len(self.names)
        for name, row, numbers in zip(self.names, self.values.tolist(), marks, strict=True):
            yield name, row, "".join(f" [{number}]" for number in numbers)

    def _heading(self, width: int) -> list[str]:
        cells = [(f"{name}:", short_names([fact])[0]) for name, fact in self.facts.items()]
        cells += [("", "")] * (len(cells) % 2)
        half = len(cells) // 2
        first, second = (width - 3) // 2, width - 3 - (width - 3) // 2
        return [
            f"{a}{x:>{first - len(a)}}   {b}{y:>{second - len(b)}}".rstrip()
            for (a, x), (b, y) in zip(cells[:half], cells[half:], strict=True)
        ]


def counted(n: float | None, stderr: float) -> str:
    """A number of rows as a summary prints it, with its error where it is estimated."""
    if n is None or math.isnan(n):
        return "unknown"
    return f"{n:,.0f}" + (f" ± {math.ceil(stderr):,}" if stderr else "")


def row_facts(
    n_rows: float | None, stderr: float, unit: object, n_units: int | None
) -> dict[str, str]:
    """What a heading says of rows, and of units where they are protected.

    Those that are long count for less: so their rows are a sum of weights.
    """
    rows = {"No. Observations" if unit is None else "Weighted Rows": counted(n_rows, stderr)}
    return rows if n_units is None else rows | {"No. Units": f"{n_units:,}"}


def heads_of(inference: Inference, level: float) -> tuple[str, ...]:
    """The columns of a summary: estimates, errors, statistics, P values, ends of intervals."""
    law, ends = inference.law, (f"[{(1 - level) / 2:.3g}", f"{(1 + level) / 2:.3g}]")
    return ("coef", "std err", law, f"P>|{law}|", *ends)


def skewed(
    table: Matrix, level: float, notes: list[str], inference: Inference
) -> tuple[tuple[int, ...], ...]:
    """Add notes on where estimate, error, z and interval of a table (k, 6) disagree; the marks."""
    params, bse, z, _, *both = table.T
    ends = np.stack(both, axis=1)
    half = students(level, inference.df) * bse
    plain = np.stack([params - half, params + half], axis=1)
    with np.errstate(invalid="ignore"):  # errors without an end disagree with nothing
        leaning = np.abs(ends - plain) > NOTICED_SKEW * half[:, None]
        moved = np.abs(z * bse - params) > NOTICED_SKEW * np.abs(params)
    marks: list[list[int]] = [[] for _ in table]
    skew = (
        "Noise in the features makes the std err depend on the coefficient: "
        f"{inference.law} takes it at 0, an interval at its ends."
    )
    unlike = leaning.any(axis=1) | moved
    for rows, note in ((unlike, skew), (np.isinf(ends).any(axis=1), SOME_OPEN)):
        if rows.any():
            notes.append(note)
            for i in np.flatnonzero(rows):
                marks[i].append(len(notes))
    return tuple(map(tuple, marks))


def _latex(text: str) -> str:
    """A text with LaTeX's own characters escaped."""
    return "".join(_ESCAPED.get(character, character) for character in text)


_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def _width(column: str) -> int:
    return 10 if column in ("coef", *_PVALUES) else 11


def _cell(value: float, column: str) -> str:
    width = _width(column)
    return f"{value:>{width}.3f}" if column in (*_STATISTICS, *_PVALUES) else _number(value, width)


def _number(value: float, width: int) -> str:
    """Four significant digits, right-justified: 0.5123, 12.30, 4.6e-05."""
    if math.isnan(value):
        return f"{'nan':>{width}}"
    text = f"{value:#.4g}"
    return f"{text.rstrip('.') if 'e' not in text else f'{value:.3g}':>{width}}"


def facts_of(release: ReleaseRecord, n_rows: float | None, stderr: float) -> dict[str, str]:
    """What the heading of a regression on a release says of its rows and guarantee."""
    unit = release.privacy_unit
    return {
        "Mechanism": type(release.mechanism).__name__,
        **row_facts(n_rows, stderr, unit, release.n_units),
        "Adjacency": release.adjacency,
        "Rows clipped at" if unit is None else "Units clipped at": f"{release.bound:.4g}",
    }
