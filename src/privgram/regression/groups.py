"""One regression in every group of a table, and differences between groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import extra
from privgram._base.numbers import Matrix, Vector
from privgram._base.text import as_text, framed, shown
from privgram.regression.difference import difference
from privgram.regression.hypothesis import Contrasts
from privgram.regression.inference import RefusedError
from privgram.regression.least_squares import regress
from privgram.regression.ols import OLSResults
from privgram.releases.record import ReleaseRecord, check_independent

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame


def regress_groups(
    releases: Mapping[Any, ReleaseRecord],
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
) -> GroupFits:
    """Fit the same linear regression to the release of every group.

    Parameters
    ----------
    releases : mapping of group to Release
        Of the same columns, each with noise of its own; `Releases`, for one.
    target, features, ridge, intercept, reference
        As in `privgram.regression.regress`.

    Returns
    -------
    GroupFits

    Raises
    ------
    ValueError
        If there is no release, or two of them share noise, as those of one stream do; for an
        unknown column, and whatever else is wrong with the request in every group.
    """
    if not releases:
        raise ValueError("there is no group to fit a regression in")
    check_independent(releases.values())
    names = None if features is None else list(features)
    fits = {
        group: regress(
            release, target, names, ridge=ridge, intercept=intercept, reference=reference
        )
        for group, release in releases.items()
    }
    return GroupFits(getattr(releases, "by", "group"), releases, fits)


class GroupFits(Mapping[Any, OLSResults]):
    """Fits of one regression in the groups of a table: a mapping of group to `OLSResults`.

    That of a group whose release is too noisy is refused: it has NaN, and `refusals` says why.

    Attributes
    ----------
    by : str
        What the groups are groups of.
    groups : tuple
    refusals : dict of group to str
        Why a group has no estimates, or no standard errors.
    param_names : tuple of str
        Of the coefficients, the intercept last if there is one.
    params, bse : DataFrame, or ndarray of shape (groups, len(param_names)), float64
        A row a group, as `OLSResults.params` and `OLSResults.bse` are; NaN where they are refused.
    """

    def __init__(
        self, by: str, releases: Mapping[Any, ReleaseRecord], fits: dict[Any, OLSResults]
    ) -> None:
        self.by = by
        self.groups = tuple(releases)
        self._releases = releases
        self._fits = fits
        first = next(iter(fits.values()))
        self.target = first.target
        self.param_names = first.param_names
        self.refusals = {group: fit.refusal for group, fit in fits.items() if fit.refusal}

    def __len__(self) -> int:
        return len(self._fits)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._fits)

    def __getitem__(self, group: object) -> OLSResults:
        return self._fits[group]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def params(self) -> DataFrame:
        """Estimates of every group."""
        return self._framed(self._estimates)

    @property
    def bse(self) -> DataFrame:
        """Standard errors of `params`."""
        return self._framed(self._errors)

    def _framed(self, values: Matrix) -> DataFrame:
        table = framed(values, list(map(str, self.groups)), self.param_names)
        return table if table is values else table.set_axis(self._index())

    def _index(self) -> Any:
        """The groups, of which one by several columns is a tuple, as pandas has them."""
        from pandas import Index

        return Index(self.groups, name=self.by, tupleize_cols=False)

    @cached_property
    def _estimates(self) -> Matrix:
        return np.array([fit._estimate for fit in self._fits.values()])

    @cached_property
    def _errors(self) -> Matrix:
        return np.array([fit.inference.stderr for fit in self._fits.values()])

    def _check_apart(self) -> None:
        """Refuse to compare groups in which the same people may have rows."""
        unit = next(iter(self._releases.values())).privacy_unit
        if unit is not None:
            raise RefusedError(
                f"one {unit.name} may have rows in several groups, whose estimates then go "
                "together, and a release does not tell how much: compare groups of people who are "
                "in one group each by pg.release of rows, or each group by itself"
            )

    def frame(self) -> DataFrame:
        """Return one table, a row a group, as a pandas DataFrame (extra `pandas`).

        Returns
        -------
        pandas.DataFrame
            With the columns of `params` under "params", of `bse` under "bse", and
            "n_rows" (as the release tells it) and "refusal" under "fit".
        """
        with extra("pandas", "a table of groups as a data frame needs"):
            import pandas
        rows, refusals = [fit.n_rows for fit in self._fits.values()], map(self.refusals.get, self)
        fits = pandas.DataFrame({"n_rows": rows, "refusal": list(refusals)}, self._index())
        return pandas.concat({"params": self.params, "bse": self.bse, "fit": fits}, axis=1)

    def difference(self, one: object, other: object) -> Contrasts:
        """Coefficients of one group less those of another, with standard errors.

        Parameters
        ----------
        one, other
            Groups.

        Returns
        -------
        Contrasts
            Variances add up: the groups share neither rows nor noise. Degrees of freedom are
            Satterthwaite's.

        Raises
        ------
        RefusedError
            A ValueError: if one of them has no standard errors, or a unit may be in both.
        ValueError
            If they are one group.
        KeyError
            If there is no such group.
        """
        self._check_apart()
        if one == other:
            raise ValueError("a difference is between two groups: name another one")
        return difference(f"{shown(str(one))} less {shown(str(other))}", self[one], self[other])

    def __str__(self) -> str:
        head = f"{shown(self.target)} in {len(self.groups)} groups by {shown(self.by)}"
        if self.refusals:
            head += f"; refused in {len(self.refusals)}: see refusals"
        columns: dict[str, Vector] = {}
        for j, name in enumerate(self.param_names):
            columns |= {name: self._estimates[:, j], f"({name} se)": self._errors[:, j]}
        return f"{head}\n{as_text(tuple(map(str, self.groups)), columns)}"

    def __repr__(self) -> str:
        return (
            f"<GroupFits of {shown(self.target)} in {len(self.groups)} groups by {shown(self.by)}"
            f", {len(self.refusals)} without inference>"
        )
