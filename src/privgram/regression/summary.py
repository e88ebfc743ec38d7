"""What a regression's summary says, apart from how it is shown."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.frames import as_frame
from privgram._base.text import shown
from privgram.regression.inference import students

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from privgram._base.arrays import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression.inference import Inference


#: The summary mentions clipping if it may have moved an estimate by so many standard errors.
NOTICED_SHIFT = 0.5

#: Longer names are cut.
LONGEST_NAME = 32

#: Standard errors are said to depend on the coefficient if that moves an end by this part of a
#: half width, or z by this part: as much as the digits that are printed show.
NOTICED_SKEW = 0.002

#: What standard errors of a population assume.
EQUAL = "Of a population they assume equal error variances; study.regress does not."

#: Columns of statistics, Student's or normal, and of their P values. They have three decimals; the
#: others have four significant digits.
_STATISTICS, _PVALUES = ("t", "z"), ("P>|t|", "P>|z|")


@dataclass(frozen=True)
class Table:
    """One table of a summary: rows of cells, with the heads that statsmodels has."""

    data: list[list[str]]

    def as_html(self) -> str:
        """The table in HTML."""
        rows = (
            "".join(f"<{tag}>{escape(cell)}</{tag}>" for tag, cell in zip(tags, row, strict=True))
            for row, tags in self._tagged()
        )
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def as_csv(self) -> str:
        """The table as values between commas."""
        lines = StringIO()
        csv.writer(lines, lineterminator="\n").writerows(self.data)
        return lines.getvalue()

    def as_latex_tabular(self) -> str:
        """The table as a LaTeX tabular."""
        width = max(map(len, self.data))
        rows = [" & ".join(map(_latex, row)) + r" \\" for row in self.data]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * (width - 1)}}}",
                r"\hline",
                *rows,
                r"\hline",
                r"\end{tabular}",
            ]
        )

    def _tagged(self) -> Iterator[tuple[list[str], list[str]]]:
        for i, row in enumerate(self.data):
            head = i == 0 and row[0] == ""
            yield row, ["th" if head or j == 0 else "td" for j in range(len(row))]


@dataclass(frozen=True, eq=False)
class Summary:
    """A regression's summary as data, and as text, HTML, LaTeX or CSV."""

    facts: dict[str, str]  # what was fitted to what, and under which guarantee
    names: tuple[str, ...]  # of the rows: the parameters
    columns: tuple[str, ...]  # of the numbers
    values: Matrix
    refusal: str | None  # why there are no standard errors
    notes: tuple[str, ...]  # what the numbers assume, as sentences
    # of each row, the notes that say why its numbers disagree
    marks: tuple[tuple[int, ...], ...] = ()
    title: str = "Private Linear Regression"

    @property
    def tables(self) -> list[Table]:
        """The facts and the coefficients, as statsmodels' first two tables."""
        facts = [[f"{name}:", shown(value)] for name, value in self.facts.items()]
        rows = [["", *self.columns]]
        for name, row, _ in self._rows():
            cells = (_cell(x, c).strip() for x, c in zip(row, self.columns, strict=True))
            rows.append([shown(name), *cells])
        return [Table(facts), Table(rows)]

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self) -> str:
        """The table as statistics packages print it."""
        margin = max(14, *(len(_short(name)) + 1 for name in self.names))
        width = margin + max(64, sum(map(_width, self.columns)))
        lines = [f"{self.title} Results".center(width).rstrip(), "=" * width]
        lines += [*self._heading(width), "=" * width]
        header = "".join(f"{name:>{_width(name)}}" for name in self.columns)
        lines += [f"{'':<{margin}}{header}", "-" * width]
        for name, row, mark in self._rows():
            cells = map(_cell, row, self.columns)
            lines.append(f"{_short(name):<{margin}}{''.join(cells)}{mark}")
        lines.append("=" * width)
        if self.refusal is not None:
            lines.append(self._refused())
        if self.notes:
            lines += ["Notes:", *(f"[{i}] {note}" for i, note in enumerate(self.notes, 1))]
        return "\n".join(lines)

    def as_html(self) -> str:
        """The table as notebooks show it."""
        facts = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(shown(value))}</td></tr>"
            for name, value in self.facts.items()
        )
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", *self.columns))
        body = "".join(
            f"<tr><th>{escape(shown(name))}</th>"
            + "".join(
                f"<td>{_cell(x, c).strip()}</td>" for x, c in zip(row, self.columns, strict=True)
            )
            + f"<td>{mark.strip()}</td></tr>"
            for name, row, mark in self._rows()
        )
        refused = "" if self.refusal is None else f"<p>{escape(self._refused())}</p>"
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title.capitalize())}</caption>{facts}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{refused}<ol>{notes}</ol>"
        )

    def _repr_html_(self) -> str:
        return self.as_html()

    def as_csv(self) -> str:
        """Both tables as values between commas."""
        return "\n".join(table.as_csv() for table in self.tables)

    def as_latex(self) -> str:
        """Both tables as LaTeX, with the notes below."""
        said = [] if self.refusal is None else [self._refused()]
        parts = [table.as_latex_tabular() for table in self.tables]
        body = "\n\n".join([*parts, *map(_latex, (*said, *self.notes))])
        return f"\\begin{{center}}\n{body}\n\\end{{center}}"

    def frame(self) -> Any:
        """The numbers as a data frame (needs pandas), a row a parameter."""
        return as_frame(self.values, self.names, self.columns)

    def _refused(self) -> str:
        known = np.isfinite(self.values[:, 0]).all()
        return f"No {'standard errors' if known else 'estimates'}: {self.refusal}."

    def _rows(self) -> Iterator[tuple[str, list[float], str]]:
        """Name, numbers and the marks of each row."""
        marks = self.marks or ((),) * len(self.names)
        for name, row, numbers in zip(self.names, self.values.tolist(), marks, strict=True):
            yield name, row, "".join(f" [{number}]" for number in numbers)

    def _heading(self, width: int) -> list[str]:
        """The facts in two columns."""
        cells = [(f"{name}:", _short(value)) for name, value in self.facts.items()]
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


def numbers(
    n_rows: float | None, stderr: float, unit: object, n_units: int | None
) -> dict[str, str]:
    """What a heading says of rows, and of units where they are protected.

    Those that are long count for less: so their rows are a sum of weights.
    """
    rows = {"No. Observations" if unit is None else "Weighted Rows": counted(n_rows, stderr)}
    return rows if n_units is None else rows | {"No. Units": f"{n_units:,}"}


def columns_of(
    inference: Inference, params: Vector, level: float
) -> tuple[tuple[str, ...], Matrix]:
    """The columns of a summary and their numbers; of refused errors only params (k,)."""
    low, high = inference.intervals(inference.quantile(level)).T
    law = int(np.isinf(inference.df).all())
    heads = ["coef", "std err", _STATISTICS[law], _PVALUES[law]]
    columns = (*heads, f"[{(1 - level) / 2:.3g}", f"{(1 + level) / 2:.3g}]")
    numbers = [params, inference.stderr, inference.statistic(), inference.pvalues(), low, high]
    return columns, np.stack(numbers, axis=1)


def skewed(
    table: Matrix, level: float, notes: list[str], df: float | Vector = math.inf
) -> tuple[tuple[int, ...], ...]:
    """Add notes on where estimate, error, z and interval disagree; the marks of the rows.

    The table (k, 6) is of `columns_of`, and df as of `Inference`.
    """
    params, bse, z, _, *both = table.T
    ends = np.stack(both, axis=1)
    half = students(level, df) * bse
    plain = np.stack([params - half, params + half], axis=1)
    leaning = np.abs(ends - plain) > NOTICED_SKEW * half[:, None]
    moved = np.abs(z * bse - params) > NOTICED_SKEW * np.abs(params)
    marks: list[list[int]] = [[] for _ in table]
    unlike = np.logical_or(leaning.any(axis=1), moved)
    if unlike.any():
        _mark(marks, unlike, len(notes))
        notes.append(
            "Noise in the features makes the std err depend on the coefficient: "
            f"{_STATISTICS[int(np.isinf(df).all())]} takes it at 0, an interval at its ends."
        )
    if np.isinf(ends).any():
        _mark(marks, np.isinf(ends[:, 0]), len(notes))
        notes.append("Where an interval has no ends, the noise leaves the coefficient open.")
    return tuple(map(tuple, marks))


def _mark(marks: list[list[int]], rows: NDArray[np.bool_], notes: int) -> None:
    """Refer from some rows to the note that comes next."""
    for i in np.flatnonzero(rows):
        marks[i].append(notes + 1)


def facts_of(release: ReleaseRecord, n_rows: float | None, stderr: float) -> dict[str, str]:
    """What the heading of a regression on a release says of its rows and guarantee."""
    unit = release.privacy_unit
    return {
        "Mechanism": type(release.mechanism).__name__,
        **numbers(n_rows, stderr, unit, release.n_units),
        "Adjacency": release.adjacency,
        "Row norms up to" if unit is None else "Unit norms up to": f"{release.bound:.4g}",
    }


def caveats(release: ReleaseRecord, n_rows: float | None, references: dict[str, str]) -> list[str]:
    """What holds with and without inference on a release."""
    notes = []
    unit = release.privacy_unit
    if unit is not None:
        notes.append(
            f"Protected are all rows of one {shown(unit.name)}. Units beyond the norm above count "
            "for less, by one factor for all their rows."
        )
        if unit.within:
            notes.append(
                f"Means by {shown(unit.name)} are taken off: slopes are those with an effect for "
                "each, and the intercept says nothing."
                + " Their number is private and takes no degrees of freedom."
                * (release.n_units is None)
            )
    if references:
        left_out = ", ".join(f"{shown(name)} {shown(level)}" for name, level in references.items())
        notes.append(f"Effects of levels are differences from: {left_out}.")
    if n_rows is not None and n_rows != release.n_rows:
        notes.append("The number of observations is read, with noise, off the intercept.")
    if release.parameters.get("clipping_bias"):
        said = release.parameters
        seen = getattr(release.mechanism, "clipping", None) == "assume-seen"
        notes.append(
            f"The last look shortened about {said['clipped_rows']:.0f} rows (std err "
            f"{said['clipped_rows_std']:.0f}). Standard errors hold {said['clipping_bias']:.2f} "
            "sampling errors for what that may move an estimate by, if the rows that noise hides "
            + (
                "go on as those that are seen."
                if seen
                else "thin out as a power, up to the bounds."
            )
        )
    if release.condition is not None:
        notes.append(f"The privacy guarantee holds only if {release.condition}.")
    if release.reproducible:
        notes.append("Reproducible: the release is not private against who knows its seed.")
    return notes


def _latex(text: str) -> str:
    """A text with LaTeX's own characters escaped."""
    return "".join(_ESCAPED.get(character, character) for character in text)


_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
}


def _short(name: str) -> str:
    name = shown(name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


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
