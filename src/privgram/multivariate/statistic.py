"""Any function of a covariance matrix, and how far the noise of a release may have moved it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from privgram._base.numbers import check_integer, check_one_of
from privgram._base.text import Printed, as_frame, as_text
from privgram.multivariate.variables import (
    CLIPPED,
    Covariance,
    Variables,
    check_moved,
    check_unweighted,
    is_clipped,
    of_draws,
)
from privgram.regression import RefusedError
from privgram.regression.inference import level_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from pandas import DataFrame

    from privgram._base.numbers import Vector
    from privgram.releases.record import ReleaseRecord

#: What errors and intervals are about; see `statistic`.
StatisticEstimand: TypeAlias = Literal["sample", "normal"]

#: What becomes of a covariance that noise left with a negative eigenvalue; see `statistic`.
Indefinite: TypeAlias = Literal["refuse", "nearest", "keep"]


@dataclass(frozen=True, eq=False, repr=False)
class Statistic(Printed):
    """A function of a released covariance, with errors and intervals.

    Attributes
    ----------
    value : ndarray, float64
        At the released covariance, as f returned it.
    bse : ndarray, float64
        Standard errors: deviations of the draws.
    draws : ndarray of shape (m, ...), float64
        Values at other draws of the covariance.
    lost : float
        Share of the draws at which there was no value, less than 0.5.
    names : tuple of str
        The columns of the covariance.
    estimand : {"sample", "normal"}
        What `bse` and `conf_int` are about: these rows, or the normal population behind them.
    """

    value: NDArray[np.float64]
    draws: NDArray[np.float64] = field(repr=False)
    lost: float
    names: tuple[str, ...]
    estimand: StatisticEstimand

    @property
    def bse(self) -> NDArray[np.float64]:  # noqa: D102 - an attribute of the class
        return np.asarray(self.draws.std(axis=0))

    def conf_int(self, alpha: float = 0.05) -> NDArray[np.float64]:
        """Intervals of level 1 - alpha, shape (..., 2): quantiles of the draws."""
        level = level_of(alpha)
        tails = [(1 - level) / 2, (1 + level) / 2]
        # By this definition a further draw lies within with just this probability.
        return np.moveaxis(np.quantile(self.draws, tails, axis=0, method="weibull"), 0, -1)

    def frame(self) -> DataFrame:
        """Values, errors and 95 % intervals as a data frame (needs pandas), a row for each."""
        return as_frame(self._table, self._labels)

    @property
    def _labels(self) -> list[str]:
        places = product(*map(range, self.value.shape))
        return [f"[{', '.join(map(str, place))}]" if place else "value" for place in places]

    @property
    def _table(self) -> dict[str, Vector]:
        low, high = np.moveaxis(self.conf_int(), -1, 0)
        columns = {"value": self.value, "std err": self.bse, "[0.025": low, "0.975]": high}
        return {name: np.ravel(numbers) for name, numbers in columns.items()}

    def __str__(self) -> str:
        about = "these rows" if self.estimand == "sample" else "a normal population"
        lost = f" At {self.lost:.0%} of the draws there was no value." if self.lost else ""
        return as_text(self._labels, self._table, f"Errors and intervals are about {about}.{lost}")

    def __repr__(self) -> str:
        return f"<Statistic of {len(self.names)} columns, of shape {self.value.shape}>"


def statistic(
    release: ReleaseRecord,
    f: Callable[[Covariance], ArrayLike],
    columns: Sequence[str] | None = None,
    *,
    draws: int = 400,
    estimand: StatisticEstimand = "sample",
    indefinite: Indefinite = "refuse",
    center: bool | None = None,
) -> Statistic:
    """Any function of the mean and covariance of released columns, with errors and intervals.

    Parameters
    ----------
    release : Release
    f : callable
        Takes a `Covariance` (`matrix`, `correlation`, `mean`, `std`, `names`, `rows`), and returns
        a number or an array, always of one shape. Turn what has no sign or order of its own, such
        as eigenvectors, so that the draws can be compared.
    columns : sequence of str, optional
        Released columns, or indicators such as "sex[f]"; by default all but the intercept.
    draws : int, default 400
        m, how many other draws of the covariance f is evaluated at, at least 100.
    estimand : {"sample", "normal"}, default "sample"
        The rows at hand, whatever they are: errors are of the noise alone. Or a normal population
        that they are a sample of: other draws are of other rows too, as many as there are.
    indefinite : {"refuse", "nearest", "keep"}, default "refuse"
        What to do with a covariance that noise left not positive definite. "refuse" raises an error
        if it is the released one, or all levels of a factor are among columns about the mean, and
        leaves out such draws. "nearest" raises the eigenvalues of
        the correlations to 1e-6. "keep" hands it on as it is: for what is linear in it, or for an
        f that checks it, as a Cholesky factor does.
    center : bool, optional
        Whether about the mean, as in `pca`.

    Returns
    -------
    Statistic

    Raises
    ------
    RefusedError
        A ValueError: where f has no value at the released covariance or at half of the draws, a
        repair moved the matrix, or adaptive rounds clipped too many rows. With "normal" also where
        the number of rows is unknown, or rows have weights.
    ValueError
        If f returns arrays of several shapes, or a parameter is out of its range.
    TypeError
        If f cannot be called, or returns what is no array of numbers.

    Notes
    -----
    There is no value where f raises `RefusedError`, ``numpy.linalg.LinAlgError`` or an
    `ArithmeticError`, or returns a number that is not finite. Other errors are passed on.

    Draws add noise by its own law to the released matrix, which is public; they are the same for
    the same release. Where that law is symmetric they are the second moments that may be behind the
    release, all being equally likely at first, and intervals are quantiles of them.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> rows = np.random.default_rng(0).uniform(0, 1, (10_000, 3))
    >>> columns = pg.Columns({"a": (0, 1), "b": (0, 1), "c": (0, 1)}, intercept=True)
    >>> release = pg.release(rows, columns, epsilon=1.0, delta=1e-6)
    >>> largest = release.statistic(lambda one: np.linalg.eigvalsh(one.correlation)[-1])
    >>> low, high = largest.conf_int()
    """
    if not callable(f):
        raise TypeError("f is a function that takes a Covariance")
    draws = check_integer(draws, "draws", 100)
    check_one_of(estimand, "estimand", get_args(StatisticEstimand))
    check_one_of(indefinite, "indefinite", get_args(Indefinite))
    check_moved(release)
    if is_clipped(release):
        raise RefusedError(CLIPPED)
    if estimand != "sample":
        check_unweighted(release)
    variables = Variables(release, columns, center)
    if indefinite == "refuse":
        variables.check_apart()

    def at(one: Covariance) -> NDArray[np.float64]:
        if indefinite == "refuse":
            one.check_definite()
        elif indefinite == "nearest":
            one = one.nearest()
        with np.errstate(all="ignore"):
            returned = f(one)
        try:
            value = np.array(returned, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError("f must return a number or an array of numbers") from None
        if not np.isfinite(value).all():
            raise RefusedError("f is not finite at this covariance")
        return value

    try:
        value = at(variables.covariance)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise RefusedError(
            f"f has no value at the released covariance ({type(error).__name__}): take fewer "
            "columns, or release with more epsilon"
        ) from error
    kept = of_draws(variables.redrawn(draws, sampling=estimand == "normal"), at)
    if any(one.shape != value.shape for one in kept):
        raise ValueError("f must return arrays of one shape")
    return Statistic(value, np.array(kept), 1 - len(kept) / draws, variables.names, estimand)
