"""What a regression's summary says, apart from how it is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.optional import extra
from privgram._base.text import shown
from privgram.regression.inference import students

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.regression.inference import Inference

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["FitTable", "columns_of", "skewed", "tabulate"]

#: The summary mentions clipping if it may have moved an estimate by so many standard errors.
NOTICED_SHIFT = 0.5

#: Longer names are cut.
LONGEST_NAME = 32

#: Standard errors are said to depend on the coefficient if that moves an end by this part of a
#: half width, or z by this part: as much as the digits that are printed show.
NOTICED_SKEW = 0.002

#: `coef` is shown beside the estimate if they are so many standard errors apart.
NOTICED_PENALTY = 0.05

#: What standard errors of a population assume where no second look was taken.
EQUAL = "Of a population they assume errors of equal variance; fit.robust does not."

#: Columns of statistics, Student's or normal, and of their P values. They have three decimals; the
#: others have four significant digits.
_STATISTICS, _PVALUES = ("t", "z"), ("P>|t|", "P>|z|")


@dataclass(frozen=True, eq=False)
class FitTable:
    """A regression's summary as data.

    Attributes
    ----------
    facts : dict of str to str
        What was fitted to what, and under which guarantee.
    names : tuple of str
        Of the rows: the features, then the intercept if the fit has one.
    columns : tuple of str
        Of the numbers; "coef" alone where `refusal` says why.
    values : ndarray of shape (len(names), len(columns)), float64
    refusal : str or None
        Why there is no inference, or None.
    notes : tuple of str
        What the numbers assume, as sentences.
    marks : tuple of tuple of int
        Of each row, the numbers of the notes that say why its coefficient, error, z and
        interval do not follow from each other; empty where they do.
    title : str
    """

    facts: dict[str, str]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    values: Matrix
    refusal: str | None
    notes: tuple[str, ...]
    marks: tuple[tuple[int, ...], ...] = ()
    title: str = "Private Linear Regression"

    def __str__(self) -> str:
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
            lines.append(f"No standard errors: {self.refusal}.")
        if self.notes:
            lines += ["Notes:", *(f"[{i}] {note}" for i, note in enumerate(self.notes, 1))]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
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
        refused = (
            "" if self.refusal is None else f"<p>No standard errors: {escape(self.refusal)}.</p>"
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title.capitalize())}</caption>{facts}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{refused}<ol>{notes}</ol>"
        )

    def frame(self) -> Any:
        """The numbers as a data frame (needs pandas), a row a parameter."""
        with extra("pandas", "a data frame needs"):
            import pandas
        return pandas.DataFrame(self.values, list(self.names), list(self.columns), copy=True)

    def _rows(self) -> Iterator[tuple[str, list[float], str]]:
        """Name, numbers and the marks of each row."""
        marks = self.marks or ((),) * len(self.names)
        for name, row, numbers in zip(self.names, self.values.tolist(), marks, strict=True):
            yield name, row, "".join(f" [{number}]" for number in numbers)

    def _heading(self, width: int) -> list[str]:
        """The facts in two columns."""
        cells = [(f"{name}:", _short(value)) for name, value in self.facts.items()]
        half = len(cells) // 2
        first, second = (width - 3) // 2, width - 3 - (width - 3) // 2
        return [
            f"{a}{x:>{first - len(a)}}   {b}{y:>{second - len(b)}}"
            for (a, x), (b, y) in zip(cells[:half], cells[half:], strict=True)
        ]


def tabulate(
    release: ReleaseRecord,
    inference: Inference,
    *,
    target: str,
    names: tuple[str, ...],
    used: Vector,
    ridge: float | str | Vector,
    n_rows: float | None,
    references: dict[str, str],
    unclip: bool,
    clipping: float | None,
    level: float,
    guarantee: tuple[float, float],
    robust: Sequence[str] = (),
) -> FitTable:
    """Gather what a summary says.

    Parameters
    ----------
    release, inference, target, ridge, n_rows, unclip
        Of the `Fit`.
    references : dict of str to str
        Levels that were left out, by factor.
    names : tuple of str
        `Fit.param_names`.
    used : ndarray of shape (len(names),)
        Coefficients that serve predictions.
    clipping : float or None
        Standard errors by which clipping moved an estimate, were the rows normal; None where
        no row is clipped.
    level : float
        Of the confidence intervals.
    guarantee : tuple of float
        Epsilon and delta of all looks at the table.
    robust : sequence of str
        Notes on robust standard errors, where they are.
    """
    unit = release.privacy_unit
    facts = {
        "Dep. Variable": target,
        "Mechanism": type(release.mechanism).__name__,
        "No. Observations": "unknown" if n_rows is None else f"{n_rows:,.0f}",
        "Ridge": "per feature" if isinstance(ridge, np.ndarray) else str(ridge),
        "Epsilon": f"{guarantee[0]:g}",
        "Delta": f"{guarantee[1]:g}",
        "Adjacency": release.adjacency,
        "Row norms up to" if unit is None else "Unit norms up to": f"{release.bound:.4g}",
    }
    caveats = _caveats(release, n_rows, references)
    if inference.refusal is not None:
        return FitTable(facts, names, ("coef",), used[:, None], inference.refusal, tuple(caveats))
    columns, table = columns_of(inference, used, level)
    differ = "fit.coef" in columns
    notes = [
        f"Standard errors cover sampling and privacy noise ({inference.method}).",
        *(robust or [EQUAL]),
    ]
    if unit is not None and not robust:
        notes.append(
            f"They assume that errors of rows of one {shown(unit.name)} are independent; where "
            "they are not, std err is too small."
        )
    marks = skewed(table, level, notes, inference.df[: len(names)])
    if unclip:
        notes.append("The effect of clipping rows was taken off, as if they were normal.")
    elif clipping is not None:
        notes.append("Rows longer than the norm above are clipped, and estimates are of those.")
        if clipping > NOTICED_SHIFT:
            notes.append(
                f"If rows were normal, clipping moved estimates by up to {clipping:.1f} std err: "
                "see unclip. If no row is longer, it moved none."
            )
    if np.any(ridge != 0.0):
        notes.append(
            "fit.coef is penalised and serves predictions; all else is of the unpenalised estimate."
        )
    elif release.noise.shift_matrix(release.n_columns).any():
        notes.append(
            "fit.coef is shrunk by what the mechanism added to the diagonal and serves "
            "predictions; all else is of the estimate without it."
        )
    elif differ:
        notes.append("coef is fit.coef less the bias that noise in the features causes.")
    return FitTable(facts, names, columns, table, None, (*notes, *caveats), marks)


def columns_of(inference: Inference, used: Vector, level: float) -> tuple[tuple[str, ...], Matrix]:
    """The columns of a summary and their numbers.

    Parameters
    ----------
    inference : Inference
        Which is offered.
    used : ndarray of shape (k,), float64
        Coefficients that serve predictions, of the first k contrasts.
    level : float
        Of the intervals.
    """
    params, bse = inference.estimate, inference.stderr
    low, high = inference.intervals(inference.quantile(level)).T
    law = int(np.isinf(inference.df).all())
    heads = ["coef", "std err", _STATISTICS[law], _PVALUES[law]]
    columns = [*heads, f"[{(1 - level) / 2:.3g}", f"{(1 + level) / 2:.3g}]"]
    numbers = [params, bse, inference.statistic(), inference.pvalues(), low, high]
    size = len(used)
    values = [column[:size] for column in numbers]
    params, bse = values[:2]
    if np.any(np.abs(used - params) > NOTICED_PENALTY * bse):
        columns.append("fit.coef")
        values.append(used)
    return tuple(columns), np.stack(values, axis=1)


def skewed(
    table: Matrix, level: float, notes: list[str], df: float | Vector = math.inf
) -> tuple[tuple[int, ...], ...]:
    """Add notes on where estimate, error, z and interval disagree; the marks of the rows.

    Parameters
    ----------
    table : ndarray of shape (k, 6 or 7), float64
        Of `columns_of`.
    level : float
    notes : list of str
        To be added to.
    df : float or ndarray of shape (k,)
        As of `Inference`.
    """
    params, bse, z, _, *both = table.T[:6]
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


def _caveats(release: ReleaseRecord, n_rows: float | None, references: dict[str, str]) -> list[str]:
    """What holds with and without inference."""
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
        rows, moved = (release.parameters[name] for name in ("clipped_rows", "clipping_bias"))
        notes.append(
            f"The last look shortened about {rows:.0f} rows. By their number that moves an "
            f"estimate by some {moved:.2f} std err. A few rows far longer than all others go "
            "unseen, and may move it more."
        )
    if release.condition is not None:
        notes.append(f"The privacy guarantee holds only if {release.condition}.")
    if release.reproducible:
        notes.append("Reproducible: the release is not private against who knows its seed.")
    return notes


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
    text = f"{value:#.4g}"
    return f"{text.rstrip('.') if 'e' not in text else f'{value:.3g}':>{width}}"
