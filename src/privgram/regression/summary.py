"""What is said of a regression: its summary, and cautions by its release, clipping among them."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.text import as_frame, facts_html, shown
from privgram.columns.terms import INTERCEPT
from privgram.regression.design import intercept_of
from privgram.regression.inference import rows_behind, students, uncounted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design
    from privgram.regression.inference import Inference

#: Longer names are cut.
LONGEST_NAME = 32

#: Standard errors are said to depend on the coefficient if that moves an end by this part of a
#: half width, or z by this part: as much as the digits that are printed show.
NOTICED_SKEW = 0.002

#: Columns of statistics, Student's or normal, and of their P values. They have three decimals; the
#: others have four significant digits.
_STATISTICS, _PVALUES = ("t", "z"), ("P>|t|", "P>|z|")


@dataclass(frozen=True)
class Table:
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

    def as_csv(self) -> str:
        """The table as values between commas."""
        lines = StringIO()
        rows = ([_as_text(cell) for cell in row] for row in self.data)
        csv.writer(lines, lineterminator="\n").writerows(rows)
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

    def as_text(self) -> str:
        """The table as statistics packages print it."""
        margin = max(14, *(len(_short(name)) + 1 for name in self.names))
        width = margin + max(64, sum(map(_width, self.columns)))
        lines = [] if self.refusal is None else [self._refused()]
        lines += [f"{self.title} Results".center(width).rstrip(), "=" * width]
        lines += [*self._heading(width), "=" * width]
        header = "".join(f"{name:>{_width(name)}}" for name in self.columns)
        lines += [f"{'':<{margin}}{header}", "-" * width]
        for name, row, mark in self._rows():
            cells = map(_cell, row, self.columns)
            lines.append(f"{_short(name):<{margin}}{''.join(cells)}{mark}")
        lines.append("=" * width)
        if self.notes:
            lines += ["Notes:", *(f"[{i}] {note}" for i, note in enumerate(self.notes, 1))]
        return "\n".join(lines)

    __str__ = __repr__ = as_text

    def as_html(self) -> str:
        """The table as notebooks show it."""
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
            f"{refused}{facts_html(self.title.capitalize(), self.facts)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<ol>{notes}</ol>"
        )

    _repr_html_ = as_html

    def as_csv(self) -> str:
        """Both tables as values between commas."""
        return "\n".join(table.as_csv() for table in self.tables)

    def as_latex(self) -> str:
        """Both tables as LaTeX, with the notes below."""
        said = [] if self.refusal is None else [self._refused()]
        parts = [table.as_latex_tabular() for table in self.tables]
        body = "\n\n".join([*map(_latex, said), *parts, *map(_latex, self.notes)])
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
    leaning = np.abs(ends - plain) > NOTICED_SKEW * half[:, None]
    moved = np.abs(z * bse - params) > NOTICED_SKEW * np.abs(params)
    marks: list[list[int]] = [[] for _ in table]
    unlike = np.logical_or(leaning.any(axis=1), moved)
    if unlike.any():
        _mark(marks, unlike, len(notes))
        notes.append(
            "Noise in the features makes the std err depend on the coefficient: "
            f"{inference.law} takes it at 0, an interval at its ends."
        )
    if np.isinf(ends).any():
        _mark(marks, np.isinf(ends[:, 0]), len(notes))
        notes.append("Where an interval has no ends, the noise leaves the coefficient open.")
    return tuple(map(tuple, marks))


def _mark(marks: list[list[int]], rows: NDArray[np.bool_], notes: int) -> None:
    """Refer from some rows to the note that comes next."""
    for i in np.flatnonzero(rows):
        marks[i].append(notes + 1)


def _as_text(cell: str) -> str:
    """A cell of a CSV file that spreadsheets do not take for a formula: names come from outside."""
    formula = cell.startswith(("=", "+", "-", "@")) and not _is_number(cell)
    return f"'{cell}" if formula else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


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


def facts_of(release: ReleaseRecord, n_rows: float | None, stderr: float) -> dict[str, str]:
    """What the heading of a regression on a release says of its rows and guarantee."""
    unit = release.privacy_unit
    return {
        "Mechanism": type(release.mechanism).__name__,
        **row_facts(n_rows, stderr, unit, release.n_units),
        "Adjacency": release.adjacency,
        "Row norms up to" if unit is None else "Unit norms up to": f"{release.bound:.4g}",
    }


def differences(design: Design) -> list[str]:
    """Notes on what effects of levels are, where levels were left out."""
    notes = []
    for terms, levels in design.left_out_levels:
        of = f"in {', '.join(terms)}" if terms else "of levels"
        notes.append(f"Effects {of} are differences from: {', '.join(levels)}.")
    return notes


def caveats(release: ReleaseRecord, n_rows: float | None, design: Design) -> list[str]:
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
    notes += differences(design)
    if n_rows is not None and n_rows != release.n_rows:
        notes.append("The number of observations is read, with noise, off the intercept.")
    if release.parameters.get("clipping_bias"):
        said = release.parameters
        notes.append(
            f"The last look shortened about {said['clipped_rows']:.0f} rows (std err "
            f"{said['clipped_rows_std']:.0f}). For what that moves an estimate by, standard errors "
            f"hold a multiple of the noise: {said['clipping_bias']:.2f} sampling errors."
        )
    if release.condition is not None:
        notes.append(f"The privacy guarantee holds only if {release.condition}.")
    if release.reproducible:
        notes.append("Reproducible: the release is not private against who knows its seed.")
    return notes


#: Columns are said to depend on each other where a direction of the features is within so many
#: standard deviations of nothing though all others exceed so many.
NOTHING, CLEAR = 2.0, 10.0

#: More columns than this are not named in an error.
MOST_NAMED = 8


def dependent(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if some directions of the features hold only noise and all others far more."""
    law, rows = release.noise, design.frame[:-1]
    values, vectors = np.linalg.eigh(design.moment(release)[:-1, :-1])
    # Of the whole release: noise on the inverse has no law of some columns.
    frame = vectors.T @ rows
    noise = np.sqrt(law.entry_variance(release.matrix, frame).diagonal())
    # What the mechanism put on the diagonal is no signal; where it is far more than noise, it
    # makes these coefficients small instead of wild.
    signal = values - ((frame @ law.shift_matrix(release.n_columns)) * frame).sum(axis=1)
    nothing = (signal < NOTHING * noise) & (values < CLEAR * noise)
    nothing &= signal > -CLEAR * noise
    if not nothing.any() or nothing.all() or (values < CLEAR * noise)[~nothing].any():
        return None
    # The noise turns these directions by less than a tenth.
    part = np.linalg.norm(vectors[:, nothing], axis=1)
    named = (*design.names, INTERCEPT)[: len(part)]
    names = [repr(name) for name, share in zip(named, part, strict=True) if share > 0.1]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    cells = [cell for (_, cell), share in zip(design.functions, part, strict=False) if share > 0.1]
    if len(cells) == len(names) and all(cells):  # references are left out: only counts are small
        return (
            f"the levels {', '.join(names[:MOST_NAMED])}{more} seem to have so few rows that the "
            "noise hides them, and that can leave other coefficients open too. Describe fewer "
            "levels, with other=True for the rest, or use ridge='auto' for predictions"
        )
    return (
        f"the columns {', '.join(names[:MOST_NAMED])}{more} seem to depend on each other, as the "
        "indicators of all levels do beside an intercept: some combination of them holds nothing "
        "but noise, and if they depend exactly, no epsilon tells their coefficients apart. Leave "
        "one of them out, or use ridge='auto' for predictions"
    )


def pinned(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if the target's mean is at one of its bounds, as far as the noise can tell."""
    columns, ones, goal = release.columns, intercept_of(release), design.frame[-1]
    if columns is None or ones is None:
        return None
    count, total = float(ones @ release.unbiased @ ones), float(goal @ release.matrix @ ones)
    # The distance from the bound is a short column, and may have far less noise than the mean.
    frame = np.array([ones, ones - math.copysign(1.0, total) * goal])
    noise, short = np.sqrt(release.noise.entry_variance(release.matrix, frame)[0])
    if count - abs(total) > 3 * short or count < 20 * noise:
        return None
    end = "upper" if total > 0 else "lower"
    value = design.ends[total > 0]
    return (
        f"all values of {design.target!r} seem to lie at its {end} bound, {value:g}, where "
        "values beyond are clamped: so they say nothing of the features. State bounds in the "
        "unit of the values, not far wider than they are, and release again, "
        "which costs a budget of its own"
    )


# What clipping rows did to a regression, were the rows normal (docs/theory/inference.md).
#
# A row r with q = |r|^2 > B^2 enters the second moment with the weight w = B^2 / q. So coefficients
# miss those of the rows themselves by E[w x x^T]^{-1} E[w x e], e = y - x^T theta, and for normal
# rows E[w x e] is an average over the clipped rows alone, which simulation finds to a few percent.

#: With more of the rows clipped, several looks can take more off variances than their errors say.
MOST_CLIPPED = 0.03

#: Simulated numbers; rows are these over the columns, but no fewer than so many.
_NUMBERS, _FEWEST_ROWS = 2**21, 2**15
#: The fixed point is left after so many steps, or moves of this part of the trace.
_STEPS, _SETTLED = 20, 1e-5


def clips(release: ReleaseRecord) -> bool:
    """Whether the public bounds of the columns leave room for rows longer than the bound."""
    if release.privacy_unit is not None:  # whole units are, and nobody knows how many
        return False
    return release.columns is None or release.bound < release.columns.bound


def clipped_share(release: ReleaseRecord) -> float:
    """Share of the rows that the last of several looks may have clipped; 0 for one look.

    Clipping hardly moves coefficients, but variances become smaller.
    """
    recorded = release.parameters
    if "clipping_bias" not in recorded:
        return 0.0
    rows = rows_behind(release)
    clipped = float(recorded["clipped_rows"] + 2 * recorded["clipped_rows_std"])
    return math.inf if rows is None else clipped / max(rows, 1.0)


def clipping_shift(release: ReleaseRecord, design: Design, n_rows: float | None) -> Vector:
    """What clipping added to coefficients of the scaled columns, were the rows normal."""
    if release.privacy_unit is not None:
        raise ValueError("unclip is for rows that were clipped alone, not for units: leave it out")
    if not clips(release):
        return np.zeros(len(design.frame) - 1)
    if design.positions is None:
        raise ValueError("unclip is for regressions on released columns, not on terms of factors")
    *chosen, goal = design.positions
    if n_rows is None or n_rows <= len(chosen):
        raise ValueError(f"unclip needs the number of rows: {uncounted(release)}")
    moment = release.unbiased / n_rows
    if np.linalg.eigvalsh(moment[np.ix_(chosen, chosen)])[0] <= 0:
        raise ValueError("unclip needs noise below the signal in all directions of the features")
    ones = release.names.index(INTERCEPT) if INTERCEPT in release.names else None
    return normal_shift(moment, release.bound, chosen, goal, ones)


def normal_shift(
    moment: Matrix, bound: float, chosen: list[int], goal: int, ones: int | None
) -> Vector:
    """What clipping to norm B added to the coefficients (len(chosen),), if the rows were normal.

    The moment (d, d), per row, is of all columns of the clipped rows, positive definite on the
    features. Without a column of ones the mean is taken as zero.
    """
    n_rows = max(_NUMBERS // len(moment), _FEWEST_ROWS)
    half = np.random.default_rng(0).standard_normal((n_rows // 2, len(moment)))
    normal = np.concatenate([half, -half])  # a mean of exactly zero
    # The law of the rows whose clipped second moment is the given one, by fixed point.
    whole, before = moment, np.inf
    for _ in range(_STEPS):
        mean = np.zeros(len(moment)) if ones is None else whole[ones] / whole[ones, ones]
        covariance = whole - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(covariance)
        root = np.sqrt(np.maximum(values, 0.0)) * vectors
        rows = mean + normal @ root.T
        square = np.einsum("ij,ij->i", rows, rows)
        clipped = square > bound**2
        rows, square = rows[clipped], square[clipped, None]
        lost = rows.T @ ((1 - bound**2 / square) * rows) / len(normal)
        whole = moment + lost
        if abs(np.trace(lost) - before) <= _SETTLED * np.trace(moment):
            break
        before = np.trace(lost)
    gram = whole[np.ix_(chosen, chosen)]
    contrast = np.zeros(len(moment))
    contrast[goal], contrast[chosen] = 1.0, -np.linalg.solve(gram, whole[chosen, goal])
    slope = -2 * (bound / square) ** 2 * (rows @ (covariance @ contrast))[:, None]
    pull = (rows[:, chosen] * slope).sum(axis=0) / len(normal)
    return np.linalg.solve(moment[np.ix_(chosen, chosen)], pull)
