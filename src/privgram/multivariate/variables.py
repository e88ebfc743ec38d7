"""Means and covariances of released columns, and of releases that might have come instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from scipy.linalg import orth

from privgram._base.text import shown
from privgram.columns.encoding import parts_of
from privgram.columns.terms import INTERCEPT
from privgram.columns.variables import Dates, Factor, Level, Log, Number, Variable
from privgram.noise import standard_wishart
from privgram.regression import RefusedError
from privgram.regression.design import image_of_label, intercept_of, ones_of
from privgram.regression.diagnostics import MOST_CLIPPED, clipped_share
from privgram.regression.inference import about_means, degrees_behind, rows_behind

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privgram._base.numbers import Matrix, Vector
    from privgram.releases.record import ReleaseRecord

#: Rows that callers pass: a data frame or a mapping of names to columns, or an array.
NewRows: TypeAlias = "ArrayLike | Mapping[str, ArrayLike]"

#: Draws by which errors are judged: a standard deviation of so many is within 7 % of the true one.
ERROR_DRAWS = 100

#: Of the correlations of `Covariance.nearest`.
LEAST_EIGENVALUE = 1e-6

#: Why moments are not what their errors say.
CLIPPED = (
    "rows too long for adaptive rounds were clipped, and too few rows show how many: means may be "
    "nearer to the middle and variances smaller than the table's. Take one round over it for "
    "these, as pg.AnalyzeGauss() does"
)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Mean and covariance of p variables.

    Attributes
    ----------
    names : tuple of str
    rows : float
        Rows behind them, or the sum of their weights, public or read off the release; NaN where
        nothing says it.
    divisor : float
        Of `scatter`: rows less one about the mean, else rows.
    mean : ndarray of shape (p,), float64
        In own units; the middle of the bounds where moments are about zero.
    scatter : ndarray of shape (p, p), float64
        Sums over rows of products of deviations, in own units. Noise may leave it with negative
        eigenvalues.
    """

    names: tuple[str, ...]
    rows: float
    divisor: float
    mean: Vector
    scatter: Matrix

    @property
    def matrix(self) -> Matrix:
        """Covariances in own units, shape (p, p); `RefusedError` if `rows` is unknown."""
        if math.isnan(self.divisor):
            raise RefusedError(
                "a covariance is per row, and the number of rows is private: release with "
                "Columns(..., intercept=True)"
            )
        return self.scatter / self.divisor

    @cached_property
    def std(self) -> Vector:
        """Standard deviations, shape (p,); `RefusedError` where noise hides one."""
        self._check_variances()
        return np.asarray(np.sqrt(self.matrix.diagonal()))

    @cached_property
    def correlation(self) -> Matrix:
        """Correlations, shape (p, p)."""
        self._check_variances()
        return correlation_of(self.scatter)

    def _check_variances(self) -> None:
        hidden = np.flatnonzero(~(self.scatter.diagonal() > 0))
        if hidden.size:
            names = ", ".join(shown(self.names[i]) for i in hidden[:3])
            raise RefusedError(
                f"the noise hides the variance of {names}: leave out such columns, or "
                "release with more epsilon"
            )

    def nearest(self) -> Covariance:
        """One whose correlations have no eigenvalue below 1e-6: itself, if they have none."""
        values, vectors = np.linalg.eigh(self.correlation)
        if values[0] >= LEAST_EIGENVALUE:
            return self
        near = correlation_of((vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T)
        size = np.sqrt(self.scatter.diagonal())
        return replace(self, scatter=near * np.outer(size, size))

    def check_definite(self) -> None:
        """Raise `RefusedError` unless the correlations are positive definite."""
        if np.linalg.eigvalsh(self.correlation)[0] <= 1e-12:
            raise RefusedError(
                "the noise exceeds the signal in some direction of these columns, or they depend "
                "on each other: take fewer columns, or release with more epsilon"
            )


class Variables:
    """Some columns of a release, or levels of its factors, and moments of them.

    Parameters
    ----------
    release : Release
    columns : sequence of str, optional
        Names of released columns, or indicators such as "sex[f]" that follow from them. By default
        all columns but the intercept.
    center : bool, optional
        Whether moments are about the mean, which only a release with an intercept or all levels
        of a factor holds, or about zero, where `Columns` put the middle of the bounds. By default
        about the mean where there is one.

    Raises
    ------
    ValueError
        If a column is unknown or given twice, if there is none, or no intercept to centre by.
    TypeError
        If `center` is not True, False or None.
    """

    def __init__(
        self,
        release: ReleaseRecord,
        columns: Sequence[str] | None = None,
        center: bool | None = None,
    ) -> None:
        if not isinstance(center, (bool, np.bool_, type(None))):
            raise TypeError("center is True, False or None")
        has_ones = intercept_of(release) is not None
        if center and not has_ones:
            raise ValueError(
                "a mean needs a release with a column of ones: make it with "
                "Columns(..., intercept=True), or take components about zero, center=False"
            )
        names = [columns] if isinstance(columns, str) else columns
        if names is None:
            names = [name for name in release.names if name != INTERCEPT]
        if not names:
            raise ValueError("there is no column but the intercept")
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise ValueError(f"columns are different ones: {shown(twice[0])} is named twice")
        if INTERCEPT in names:
            raise ValueError("the intercept is the same in all rows: leave it out of columns")
        self.release = release
        self.names = tuple(names)
        self.center = has_ones if center is None else bool(center)
        #: Images of the released columns, shape (p, d); own units are origin + unit * image.
        frame, origin, unit = zip(*(image_of(release, name) for name in names), strict=True)
        self.frame: Matrix = np.array(frame)
        self.origin: Vector = np.array(origin)
        self.unit: Vector = np.array(unit)

    def check_apart(self) -> None:
        """Raise `RefusedError` if some columns add up to one in every row, whatever these hold."""
        basis = orth(self.frame.T)
        for ones in ones_of(self.release) if self.center else ():
            if np.allclose(basis @ (basis.T @ ones), ones):
                raise RefusedError(
                    "all levels of a factor add up to one in every row, and only noise would make "
                    "their covariance definite: leave a level out of columns, or take "
                    'indefinite="nearest" or "keep"'
                )

    @cached_property
    def squares(self) -> Matrix:
        """Products of two units, shape (p, p)."""
        return np.outer(self.unit, self.unit)

    @cached_property
    def _limits(self) -> tuple[Vector, Vector]:
        """Public bounds in the scale of the moments."""
        lower, upper = np.full((2, len(self.names)), [[-math.inf], [math.inf]])
        described = self.release.columns
        if described is None:
            return lower, upper
        for row, name in enumerate(self.names):
            if name in described.names:
                at = described.names.index(name)
                ends = np.array([described.lower[at], described.upper[at]])
                lower[row], upper[row] = (ends - self.origin[row]) / self.unit[row]
            else:
                lower[row], upper[row] = 0.0, 1.0
        return lower, upper

    @cached_property
    def ones(self) -> Vector | None:
        """The ones as an image of the released columns, shape (d,); None about zero."""
        return intercept_of(self.release) if self.center else None

    def about(self, matrix: Matrix | None = None) -> tuple[float, Vector, Matrix]:
        """Rows, mean (or zero) and second moment about it, in the scale of the released matrix.

        Parameters
        ----------
        matrix : ndarray of shape (d, d), optional
            The released one by default, or another draw of it.
        """
        matrix = self.release.matrix if matrix is None else matrix
        whole = matrix - self.release.noise.shift_matrix(len(matrix))
        if self.ones is None:
            return math.nan, np.zeros(len(self.frame)), self.frame @ whole @ self.frame.T
        return about_means(self.release, self.frame, self.ones, matrix=whole, limits=self._limits)

    @cached_property
    def covariance(self) -> Covariance:
        """Mean and covariance as released, in own units."""
        return self._covariance(*self.about())

    def _covariance(self, count: float, mean: Vector, scatter: Matrix) -> Covariance:
        divisor = max(count - 1.0, 1.0)
        if not self.center:
            # Without a column of ones there is no sum of the weights to divide by.
            behind = None if self.release.weighted else rows_behind(self.release)
            count = divisor = math.nan if behind is None else max(behind, 1.0)
        mean = self.origin + self.unit * mean
        return Covariance(self.names, count, divisor, mean, scatter * self.squares)

    def redrawn(
        self, draws: int = ERROR_DRAWS, *, sampling: bool = False, null: Matrix | None = None
    ) -> Iterator[Covariance]:
        """Covariances as other draws of the noise would have made them.

        Parameters
        ----------
        draws : int
        sampling : bool
            Whether the rows are other ones too: as normal rows of the released covariance.
        null : ndarray of shape (p, p), optional
            A scatter to draw about in place of the released one.

        Yields
        ------
        Covariance
            Always the same for the same release: nothing secret is drawn.
        """
        rng = np.random.default_rng(0)
        noise, released = self.release.noise, self.covariance
        moved = 0.0 if null is None else null - released.scatter
        root = root_of(released.matrix + moved / released.divisor) if sampling else None
        for _ in range(draws):
            one = self._covariance(*self.about(noise.draw(self.release.matrix, rng)))
            extra, mean = moved, one.mean
            if root is not None:
                degrees = degrees_behind(self.release, released.rows)
                dof = max(round(degrees or 0.0) - 1, 1)
                extra = moved + one.divisor * sampling_error(root, dof, rng)
                if self.center:
                    mean = mean + root @ rng.standard_normal(len(mean)) / math.sqrt(dof + 1)
            yield replace(one, mean=mean, scatter=one.scatter + extra)

    def unrelated(self, draws: int = ERROR_DRAWS) -> Iterator[Matrix]:
        """Correlations that noise and sampling alone would make of columns without any.

        Yields
        ------
        ndarray of shape (p, p), float64
        """
        released = self.covariance
        released.correlation  # noqa: B018 - refused where noise hides a variance
        for one in self.redrawn(draws, sampling=True, null=np.diag(released.scatter.diagonal())):
            with suppress(RefusedError):
                yield one.correlation

    def encode(self, table: Any) -> Matrix:
        """New rows of these columns, in own units, clamped as they were for the release.

        Parameters
        ----------
        table : DataFrame, mapping of str to array_like, or array_like of shape (m, p)
            In own units; an array for a release without `Columns`. Only the variables of these
            columns are read.

        Returns
        -------
        ndarray of shape (m, p), float64
            NaN where a value is missing. SECRET, if the table is.
        """
        described = self.release.columns
        if described is None:
            rows = np.asarray(table, dtype=np.float64)
            if rows.ndim != 2 or rows.shape[1] != len(self.names):
                raise ValueError(f"rows of {len(self.names)} columns are needed")
            return rows
        places = [described.names.index(name) for name in self.release.names]
        used = {places[i] for i in np.flatnonzero(self.frame.any(axis=0))}
        read = {
            name
            for stored in described.layout.stored
            if not used.isdisjoint(range(described.layout.size)[stored.columns])
            for name in described.layout.reads(stored.piece)
        }
        names = [name for name in described.selected if name in read]
        if isinstance(table, np.ndarray) and table.dtype.names is None:
            raise TypeError(
                "the release has Columns, so its rows have names: pass a data frame or a mapping "
                f"of names to columns, {', '.join(map(shown, names))}"
            )
        # Which says what is not there, or not a column.
        size = len(parts_of(table, {name: described.reads[name] for name in names})[0])
        parts: dict[str, Any] = {name: table[name] for name in names}
        # What is not read is not looked at either: any value will do.
        for name, variable in described.reads.items():
            parts.setdefault(name, [_any_value(variable)] * size)
        stored: Matrix = described.encode(parts)[:, places] @ self.frame.T
        return self.origin + self.unit * stored


def check_moved(release: ReleaseRecord) -> None:
    """Raise `RefusedError` if a repair moved the released matrix."""
    if release.parameters.get("moved"):
        raise RefusedError(
            "the repair moved the released matrix, whose error is not the noise's alone"
        )


def check_unweighted(release: ReleaseRecord) -> None:
    """Raise `RefusedError` if rows have weights: then their sampling error is unknown."""
    if release.weighted:
        raise RefusedError(
            "the second moment of weighted rows does not tell their sampling error: take "
            'estimand="sample", for intervals about the rows at hand'
        )


def is_clipped(release: ReleaseRecord) -> bool:
    """Whether adaptive rounds may have clipped too many rows for errors of moments."""
    return clipped_share(release) > MOST_CLIPPED


def root_of(matrix: Matrix) -> Matrix:
    """R with R R^T the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def correlation_of(scatter: Matrix) -> Matrix:
    """The matrix scaled to ones on its diagonal, which must be positive."""
    size = np.sqrt(scatter.diagonal())
    scaled: Matrix = scatter / np.outer(size, size)
    np.fill_diagonal(scaled, 1.0)
    return scaled


def sampling_error(root: Matrix, dof: int, rng: np.random.Generator) -> Matrix:
    """One draw of the sampling error of the covariance R R^T of normal rows."""
    wishart = standard_wishart(len(root), dof, rng)
    return root @ (wishart / dof - np.eye(len(root))) @ root.T


def indicators_of(name: str, factor: Factor) -> list[str]:
    """Names of the indicators of a factor's levels."""
    return [f"{name}[{level}]" for level in factor.names]


def image_of(release: ReleaseRecord, name: str) -> tuple[Vector, float, float]:
    """A column as an image (d,) of the released ones, and its own units: origin + unit * image.

    Of a released column, of a number, or of an indicator such as "sex[f]".
    """
    described = release.columns
    if not isinstance(name, str):
        raise TypeError(f"a column is given by its name, not by {type(name).__name__}")
    if name in release.names:
        image = np.zeros(release.n_columns)
        image[release.names.index(name)] = 1.0
        if described is None:
            return image, 0.0, 1.0
        at = described.names.index(name)
        return image, float(described.center[at]), float(described.half_width[at])
    if described is not None:
        if (image_and_units := image_of_label(release, name)) is not None:
            return image_and_units
        if isinstance(described.variables.get(name), Factor):
            raise ValueError(f"{shown(name)} is a factor: name levels of it, as {name}[level]")
    raise ValueError(f"no column {name!r}; there are {', '.join(map(shown, release.names))}")


def _any_value(variable: Variable) -> Level | float:
    if isinstance(variable, Factor):
        return variable.levels[0]
    return variable.lower if isinstance(variable, (Number, Log, Dates)) else 0.0


Drawn = TypeVar("Drawn")
Computed = TypeVar("Computed")


def draws_of(variables: Variables) -> int:
    """How many draws judge an error: 400, and fewer where each takes long.

    They are the same for every release, so what they miss is missed always. Of 400 a deviation is
    within 3.5 % at one sigma, and 3.9 to 6.1 % are beyond their upper 5 %; of 100 within 7 %, and
    2.8 to 7.2 %.
    """
    return max(ERROR_DRAWS, min(400, 20_000 // variables.release.n_columns))


def of_draws(draws: Iterable[Drawn], statistic: Callable[[Drawn], Computed]) -> list[Computed]:
    """A statistic of each draw, unless noise hides it: refused if it does in more than half."""
    statistics, tried = [], 0
    for one in draws:
        tried += 1
        with suppress(RefusedError, ArithmeticError, np.linalg.LinAlgError):
            statistics.append(statistic(one))
    if 2 * len(statistics) <= tried:
        raise RefusedError(
            "the noise is too large for standard errors: take fewer columns, or release with more "
            "epsilon"
        )
    return statistics
