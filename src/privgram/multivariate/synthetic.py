"""Rows that nobody has: made of a release, with its means and covariances."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, minres

from privgram._base.numbers import Matrix, Vector, check_integer
from privgram._base.text import listed, warn
from privgram.columns.structure import Tie, ties, zeros
from privgram.columns.terms import INTERCEPT, ONES, Piece, parse_terms
from privgram.columns.variables import DAYS, Boolean, Dates, Factor, Log, Numeric, Variable
from privgram.multivariate.variables import image_of, indicators_of, root_of
from privgram.noise import ImageLaw, TiedLaw
from privgram.regression import RefusedError
from privgram.regression.design import intercept_of
from privgram.regression.inference import rows_behind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from privgram.columns import Columns
    from privgram.releases.record import ReleaseRecord


#: Combinations of levels that are all written out; of more, so many are drawn.
MOST_CELLS = 20_000

#: Rounds of fitting tables to each other, and of fitting numbers to bounds and moments.
ROUNDS = 200

#: Moments are met if what the bounds take off is less than this part of the bounds.
CLOSE = 1e-6


def synthesize(release: ReleaseRecord, n: int, rng: np.random.Generator | int | None = None) -> Any:
    """Make rows that have the means and covariances of a release.

    Parameters
    ----------
    release : Release
        With an intercept or all levels of a factor, or without `Columns`.
    n : int
        Rows to make, at least 1. Any number: they cost no privacy, and say no more than the
        release does.
    rng : numpy.random.Generator or int, optional
        A generator or a seed; fresh entropy by default.

    Returns
    -------
    DataFrame, or dict of str to ndarray where pandas is not installed
        The variables as `Columns` describe them, in own units: numbers within their bounds, factors
        by level, truth values, dates, and what is released as a logarithm as itself. The level
        "other" of a numbered factor is the number after the largest. Its `attrs` have, under
        "not_kept", the released terms that the rows do not keep.

    Warns
    -----
    UserWarning
        Where there are such terms.

    Raises
    ------
    RefusedError
        A ValueError: if the release does not know the means.
    ValueError
        If `n` is out of its range.

    Notes
    -----
    Kept are, up to rounding to whole rows, how often levels of two factors go together, the mean of
    any number at any level, and means and covariances of all numbers as far as their bounds allow:
    of what noise made impossible the nearest possible (docs/guide/sharing.md). So least squares on
    the rows gives the release's coefficients; take standard errors from the release. Levels have
    the largest entropy that their pairs allow [1]_; numbers are normal given the levels [2]_, then
    by ranks beta distributed between their bounds, and moved until the moments are met.

    References
    ----------
    .. [1] W. E. Deming, F. F. Stephan, "On a least squares adjustment of a sampled frequency table
       when the expected marginal totals are known", Ann. Math. Statist. 11, 1940.
    .. [2] I. Olkin, R. F. Tate, "Multivariate correlation models with mixed discrete and continuous
       variables", Ann. Math. Statist. 32, 1961.
    """
    lost = _lost_terms(release.columns)
    rows = synthetic_rows(release, n, rng)
    if lost:
        warn(
            f"the rows do not keep what was released of {listed(lost)}: take regressions on such "
            "terms from the release",
        )
        if hasattr(rows, "attrs"):
            rows.attrs["not_kept"] = list(lost)
    return rows


def _lost_terms(columns: Columns | None) -> tuple[str, ...]:
    """Released terms of more than one variable, or of powers of one."""
    if columns is None:
        return ()
    terms = zip(columns.terms, parse_terms(columns.terms, columns.variables), strict=True)
    return tuple(
        text for text, term in terms if sum(top for _, top in term.degrees) + len(term.factors) > 1
    )


def synthetic_rows(
    release: ReleaseRecord, n: int, rng: np.random.Generator | int | None = None
) -> Any:
    """Rows as `synthesize` makes them, without a warning of terms that they do not keep."""
    n = check_integer(n, "n", 1)
    rng = np.random.default_rng(rng)
    moments = _Moments(release)
    codes = _draw_levels(moments, n, rng)
    sizes = moments.factors.values()
    levels = (code[:, None] == np.arange(size) for code, size in zip(codes, sizes, strict=True))
    numbers = _draw_numbers(moments, np.column_stack([np.ones(n), *levels]), rng)
    order = rng.permutation(n)
    by_name = dict(zip([*moments.factors, *moments.numbers], [*codes, *numbers.T], strict=True))
    columns = {
        name: table_column(variable, by_name[name][order])
        for name, variable in moments.variables.items()
    }
    try:
        import pandas as pd
    except ImportError:
        return columns
    return pd.DataFrame(columns)


class _Moments:
    """The variables that rows are made of, and the mean product of each with each.

    `factors` has the number of levels of each factor, 2 of a truth value; `numbers` names the
    others. `matrix` is of a one, the indicators of all levels, and the numbers on [-1, 1].
    """

    def __init__(self, release: ReleaseRecord) -> None:
        columns, ones = release.columns, intercept_of(release)
        variables: Mapping[str, Variable | None] = (
            dict.fromkeys(name for name in release.names if name != INTERCEPT)
            if columns is None
            else columns.variables
        )
        if columns is not None and ones is None:
            raise RefusedError(
                "rows need means: release with Columns(..., intercept=True), or all levels of a "
                "factor"
            )
        levels: dict[str, list[Vector]] = {}
        numbers: dict[str, Vector] = {}
        for name, variable in variables.items():
            with suppress(ValueError):  # of a marginal, or no term of its own
                if isinstance(variable, Factor):
                    names = indicators_of(name, variable)
                    levels[name] = [image_of(release, level)[0] for level in names]
                elif isinstance(variable, Boolean):
                    assert ones is not None
                    image = _scaled(release, name, variable)
                    levels[name] = [(ones - image) / 2, (ones + image) / 2]
                else:
                    numbers[name] = _scaled(release, name, variable)
        if not levels and not numbers:
            raise ValueError("there is no variable to make rows of")
        self.factors = {name: len(images) for name, images in levels.items()}
        self.numbers = tuple(numbers)
        self.variables = {name: variables[name] for name in variables if name in levels | numbers}
        one = np.zeros(release.n_columns) if ones is None else ones
        frame = np.array([one, *chain.from_iterable(levels.values()), *numbers.values()])
        sums = frame @ _consistent(release) @ frame.T
        count = sums[0, 0] if ones is not None else rows_behind(release)
        if count is None or not count >= 1:
            raise RefusedError("rows are made of means, and the number of rows is private")
        self.matrix: Matrix = sums / count
        self.matrix[0, 0] = 1.0
        self.bounded = columns is not None
        ends = np.cumsum([1, *self.factors.values()]).tolist()
        #: Where the indicators of each factor are.
        self.blocks = [slice(*pair) for pair in pairwise(ends)]


def _scaled(release: ReleaseRecord, name: str, variable: Variable | None) -> Vector:
    """A number as the image of the released columns that is within [-1, 1]."""
    if not isinstance(variable, Numeric):
        return image_of(release, name)[0]
    image, _, unit = image_of(release, variable.label(name))
    return image * (unit / variable.half_width)


def _consistent(release: ReleaseRecord) -> Matrix:
    """The second moment that is likeliest of those that obey what every table does.

    The least squares correction of noise that has independent entries in some frame, else of
    isotropic noise.
    """
    columns, law, d = release.columns, release.noise, release.n_columns
    whole = release.unbiased
    if columns is None:
        return whole
    frame = np.eye(d)
    if isinstance(law, ImageLaw):
        frame, law = law.frame, law.base
    m = frame.shape[1]
    entries = (law.base if isinstance(law, TiedLaw) else law).independent(m)
    weights = (1 + np.eye(m) if entries is None else entries) * (2 - np.eye(m))
    place = {columns.names.index(name): i for i, name in enumerate(release.names)}
    known = [
        tuple((place[i], place[j], c) for i, j, c in tie)
        for tie in _equations(columns)
        if all(i in place and j in place for i, j, _ in tie)
    ]
    if not known:
        return whole
    at = [(row, d * i + j, c) for row, tie in enumerate(known) for i, j, c in tie]
    rows, cells, values = zip(*at, strict=True)
    forms = csr_array((values, (rows, cells)), shape=(len(known), d * d))

    def moved(multipliers: Vector) -> Matrix:
        form = (forms.T @ multipliers).reshape(d, d)
        return np.asarray(frame @ (weights * (frame.T @ (form + form.T) @ frame)) @ frame.T)

    # Equations may follow from others: minres solves what is singular and consistent.
    normal = LinearOperator((len(known),) * 2, lambda u: forms @ moved(u.ravel()).ravel())
    return whole - moved(minres(normal, forms @ whole.ravel(), rtol=1e-10)[0])


def _equations(columns: Columns) -> Iterator[Tie]:
    """What the entries of every table's second moment solve, weighted or not."""
    layout = columns.layout
    yield from ties(layout)
    for block in zeros(layout):
        yield from (((i, j, 1.0),) for i, j in combinations(block, 2))
    ones = layout.find(ONES)
    for name, variable in columns.variables.items():
        squared = layout.find(Piece(((name, 1),)))
        if isinstance(variable, Boolean) and ones and squared and squared.size == 1:  # -1 or 1
            counts = tuple((i, i, -1 / ones.weight**2) for i in range(layout.size)[ones.columns])
            yield (squared.start, squared.start, 1 / squared.weight**2), *counts


def _draw_levels(moments: _Moments, n: int, rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Codes of each factor, rows of one combination together."""
    if not moments.factors:
        return []
    matrix, blocks, sizes = moments.matrix, moments.blocks, tuple(moments.factors.values())
    margins = [_simplex(matrix[0, block]) for block in blocks]
    pairs = {
        (a, b): _fit_table(matrix[blocks[a], blocks[b]], margins[a], margins[b])
        for a, b in combinations(range(len(margins)), 2)
    }
    if math.prod(sizes) <= MOST_CELLS:
        cells = np.indices(sizes).reshape(len(margins), -1)
    else:
        cells = _likely_cells(margins, pairs, rng)
    weight = np.prod([margin[cell] for margin, cell in zip(margins, cells, strict=True)], axis=0)
    weight = weight / weight.sum()
    for _ in range(ROUNDS if pairs else 0):
        before = weight
        for (a, b), table in pairs.items():
            place = cells[a] * len(margins[b]) + cells[b]
            now = np.bincount(place, weight, table.size)
            ratio = np.divide(table.ravel(), now, out=np.zeros(table.size), where=now > 0)
            weight = weight * ratio[place]
        weight = weight / weight.sum()
        if np.abs(weight - before).sum() < 1e-9:
            break
    # Systematic: every combination gets its expected number, rounded up or down.
    steps = np.floor(n * np.append(0.0, np.cumsum(weight)) / weight.sum() + rng.random())
    steps[-1] = steps[0] + n
    return list(np.repeat(cells, np.diff(steps).astype(np.intp), axis=1))


def _simplex(counts: Vector) -> Vector:
    """Parts that add up to 1, of noisy ones."""
    parts = np.maximum(counts, 0.0)
    return parts / parts.sum() if parts.sum() > 0 else np.full(len(parts), 1 / len(parts))


def _fit_table(table: Matrix, rows: Vector, columns: Vector) -> Matrix:
    """The table scaled to its margins; where it has nothing it gets a little."""
    fitted = np.maximum(table, 0.0) + 1e-9 * np.outer(rows, columns)
    for _ in range(ROUNDS):
        fitted *= _ratio(rows, fitted.sum(axis=1))[:, None]
        fitted *= _ratio(columns, fitted.sum(axis=0))
    return fitted


def _ratio(goal: Vector, now: Vector) -> Vector:
    return np.divide(goal, now, out=np.zeros_like(goal), where=now > 0)


def _likely_cells(
    margins: list[Vector], pairs: dict[tuple[int, int], Matrix], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Different combinations, drawn along the tree of the strongest pairs (Chow and Liu, 1968)."""
    cells = [rng.choice(len(margins[0]), MOST_CELLS, p=margins[0])]
    for k in range(1, len(margins)):
        parent = max(range(k), key=lambda j: _information(pairs[j, k], margins[j], margins[k]))
        table = np.cumsum(pairs[parent, k], axis=1)
        drawn = rng.random(MOST_CELLS)[:, None] * table[cells[parent], -1:]
        cells.append((drawn > table[cells[parent]]).sum(axis=1))
    return np.unique(np.array(cells), axis=1)


def _information(table: Matrix, rows: Vector, columns: Vector) -> float:
    expected = np.outer(rows, columns)
    ratio = np.divide(table, expected, out=np.ones_like(table), where=table * expected > 0)
    return float((table * np.log(ratio)).sum())


def _draw_numbers(moments: _Moments, indicators: Matrix, rng: np.random.Generator) -> Matrix:
    """Numbers within [-1, 1], shape (n, p), given the levels of every row."""
    n, q = indicators.shape
    p = len(moments.numbers)
    if not p:
        return np.zeros((n, 0))
    inverse = np.asarray(np.linalg.pinv(indicators.T @ indicators, hermitian=True), np.float64)
    sums = n * moments.matrix[:q, q:]
    if moments.bounded:
        counts = indicators.sum(axis=0)[:, None]
        sums[0] = sums[0].clip(-n, n)
        for block in moments.blocks:
            sums[block] = _within(sums[block], counts[block], sums[0])
    target = _Target(indicators, inverse, inverse @ sums, n * moments.matrix[q:, q:])
    numbers = target.means + rng.standard_normal((n, p)) @ root_of(target.left).T / math.sqrt(n)
    if not moments.bounded:
        return target.moved(numbers)
    mean = moments.matrix[0, q:].clip(-1, 1)
    variance = np.maximum(moments.matrix[q:, q:].diagonal() - mean**2, 0.0)
    for column, m, v in zip(numbers.T, mean, variance, strict=True):
        column[:] = _beta(column, float(m), float(v))
    for _ in range(ROUNDS):
        free = target.moved(numbers)
        numbers = free.clip(-1.0, 1.0)
        if np.abs(numbers - free).sum(axis=0).max() < CLOSE * n:
            break
    return numbers


def _within(sums: Matrix, counts: Matrix, total: Vector) -> Matrix:
    """Sums over levels of numbers in [-1, 1], made possible, with the same total.

    What a level cannot hold goes to the others by their room: a level that noise has left with
    a few rows would else take a variance that belongs to all.
    """
    possible = sums.clip(-counts, counts)
    missing = total - possible.sum(axis=0)
    room = np.where(missing > 0, counts - possible, counts + possible)
    return np.asarray(possible + room * _ratio(missing, room.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class _Target:
    """The sums of products that numbers shall have with the indicators and with each other."""

    indicators: Matrix
    inverse: Matrix
    slopes: Matrix
    square: Matrix

    @property
    def means(self) -> Matrix:
        return self.indicators @ self.slopes

    @property
    def left(self) -> Matrix:
        """What the indicators leave of the sums of products, the nearest possible."""
        explained = self.slopes.T @ (self.indicators.T @ self.indicators) @ self.slopes
        root = root_of(self.square - explained)
        return root @ root.T

    def moved(self, numbers: Matrix) -> Matrix:
        """The numbers moved as little as gives them these sums."""
        rest = numbers - self.indicators @ (self.inverse @ (self.indicators.T @ numbers))
        # The symmetric map of one covariance to another: least in mean square.
        values, vectors = np.linalg.eigh(rest.T @ rest)
        values = np.maximum(values, 1e-12 * max(values[-1], 1e-300))
        root = (vectors * np.sqrt(values)) @ vectors.T
        back = (vectors / np.sqrt(values)) @ vectors.T
        inner, turned = np.linalg.eigh(root @ self.left @ root)
        middle = (turned * np.sqrt(np.maximum(inner, 0.0))) @ turned.T
        return np.asarray(self.means + rest @ (back @ middle @ back))


def _beta(column: Vector, mean: float, variance: float) -> Vector:
    """The same order, beta distributed on [-1, 1] with a mean and a variance."""
    from scipy.special import betaincinv

    room = 1 - mean**2
    size = room / max(variance, 1e-9) - 1
    if room <= 0 or size <= 0.05:  # all at the ends, if not beyond what is possible
        return column.clip(-1.0, 1.0)
    place = np.empty(len(column))
    place[np.argsort(column)] = (np.arange(len(column)) + 0.5) / len(column)
    return np.asarray(2 * betaincinv((1 + mean) / 2 * size, (1 - mean) / 2 * size, place) - 1)


def table_column(variable: Variable | None, values: NDArray[Any]) -> Any:
    """A column as a table has it, of codes of levels or of numbers on [-1, 1]."""
    if isinstance(variable, (Boolean, Factor)):
        return labels_of(variable, values)
    if isinstance(variable, Numeric):
        return decoded(variable, variable.center + variable.half_width * values)
    return values


def labels_of(variable: Variable, codes: NDArray[np.intp]) -> Any:
    """Levels as a table has them, by their codes."""
    if isinstance(variable, Boolean):
        return codes == 1
    assert isinstance(variable, Factor)
    # "other" is any value that is not listed.
    other = "other" if variable.text else max(variable.levels) + 1  # type: ignore[operator]
    labels = [*variable.levels, *((other,) if variable.other else ())]
    try:
        import pandas as pd
    except ImportError:
        return np.array(labels)[codes]
    return pd.Categorical.from_codes(codes, categories=labels)


def decoded(variable: Numeric, values: Vector) -> NDArray[Any]:
    """Numbers in own units as a table has them: dates, and what the logarithm is of; clamped."""
    values = values.clip(*variable.interval)
    if isinstance(variable, Log):
        return np.exp(values).clip(variable.lower, variable.upper)
    if isinstance(variable, Dates):
        micros = np.rint(values * DAYS[variable.unit] * 86_400e6).astype(np.int64)
        first, last = (np.datetime64(end, "us") for end in (variable.lower, variable.upper))
        return np.minimum(first + micros.astype("timedelta64[us]"), last)
    return values
