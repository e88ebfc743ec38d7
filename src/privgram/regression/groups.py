"""One regression in every group of a table: compared, pooled and shrunk towards each other.

The groups' rows are different ones and so is their noise: what is estimated from two of them is
independent. Between two windows of a stream the noise is shared, in a way that is known.

References
----------
.. [1] R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7
   (1986).
.. [2] R. C. Paule, J. Mandel, "Consensus values and weighting factors", J. Research NBS 87 (1982).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram._base.installed import LazyModule, extra
from privgram._base.numbers import check_one_of
from privgram._base.text import as_text, shown
from privgram.noise import MaskedLaw, TiedLaw
from privgram.regression.inference import Inference, RefusedError, rows_behind
from privgram.regression.least_squares import regress
from privgram.regression.ols import OLSResults
from privgram.regression.results import Numbers
from privgram.regression.summary import heads_of
from privgram.releases.record import check_independent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.noise import NoiseLaw
    from privgram.plots import of_results
    from privgram.releases.record import ReleaseRecord
else:
    of_results = LazyModule("privgram.plots.of_results")

#: Information along a direction counts if it is so many times what noise alone has there.
CLEAR_INFORMATION = 4.0

#: Steps of the EM algorithm at most, and the relative change of the covariance at which it ends.
EM_STEPS, EM_TOLERANCE = 300, 1e-4


def corrected_scores(
    blocks: Sequence[tuple[NoiseLaw, Matrix]], mean: Vector, variance: float
) -> tuple[Matrix, Matrix]:
    """What each group says of its coefficients, less the common ones `mean` (q,): corrected scores.

    docs/theory/inference.md has them, and `empirical_bayes`.
    Information (groups, q, q), positive semidefinite, and score (groups, q), of releases (q + 1, q
    + 1) of the features and, last, the target, with the laws of their noise, taken about `mean`.
    The variance is of an error, s^2.
    """
    q = len(mean)
    v = np.append(mean, -1.0)
    information, scores = np.zeros((len(blocks), q, q)), np.zeros((len(blocks), q))
    for group, (law, released) in enumerate(blocks):
        block = released - law.shift_matrix(q + 1)
        a, left = block[:q, :q], block[:q, q] - block[:q, :q] @ mean
        sizes, vectors = np.linalg.eigh(a)
        omega = law.sandwich(released, np.outer(v, v))[:q, :q]
        omega = omega + variance * (vectors * np.maximum(sizes, 0.0)) @ vectors.T
        inverse = np.zeros((q + 1, q + 1))
        inverse[:q, :q] = np.linalg.inv(omega)
        noise_alone = law.sandwich(released, inverse)  # what noise has by itself
        weighted = a @ inverse[:q, :q]
        sizes, vectors = np.linalg.eigh(weighted @ a)
        idle = np.einsum("ji,jk,ki->i", vectors, noise_alone[:q, :q], vectors)
        clear = sizes > CLEAR_INFORMATION * idle
        score = weighted @ left - (noise_alone[:q, q] - noise_alone[:q, :q] @ mean)
        information[group] = (vectors * np.where(clear, sizes - idle, 0.0)) @ vectors.T
        scores[group] = (vectors * clear) @ (vectors.T @ score)
    return information, scores


def empirical_bayes(information: Matrix, score: Matrix) -> tuple[Vector, Matrix, Matrix, Matrix]:
    """Mean and covariance between groups by EM, and each group's posterior mean and covariance.

    Of information (groups, q, q) and score (groups, q), at 0: shapes (q,), (q, q), (groups, q) and
    (groups, q, q).
    """
    q = score.shape[1]
    between: Matrix = np.eye(q) / 10
    for _ in range(EM_STEPS):
        covariances = np.asarray(np.linalg.inv(np.linalg.inv(between) + information), np.float64)
        # The mean by least squares: with the groups' spread integrated out.
        through = information @ covariances
        weights = (information - through @ information).sum(axis=0)
        pulls = (score - np.einsum("gij,gj->gi", through, score)).sum(axis=0)
        mean: Vector = np.linalg.lstsq(weights, pulls, rcond=1e-10)[0]
        away: Matrix = np.einsum("gij,gj->gi", covariances, score - information @ mean)
        new = covariances.mean(axis=0) + away.T @ away / len(away)
        new = (new + new.T) / 2 + 1e-12 * np.trace(new) * np.eye(q)
        change = np.abs(new - between).max()
        between = np.asarray(new, np.float64)
        if change <= EM_TOLERANCE * np.abs(new).max():
            break
    return mean, between, mean + away, covariances


def regress_groups(
    releases: Mapping[Any, ReleaseRecord],
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    by: str = "group",
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
) -> GroupFits:
    """Fit the same linear regression to the release of every group.

    Parameters
    ----------
    releases : mapping of group to Release
        Of the same columns, each with noise of its own.
    target, features, ridge, intercept, reference
        As in `privgram.regression.regress`.
    by : str
        What the groups are groups of.

    Returns
    -------
    GroupFits

    Raises
    ------
    ValueError
        If two of the releases share noise, as those of one stream do; for an unknown column, and
        whatever else is wrong with the request in every group.
    """
    check_independent(releases.values())
    names = None if features is None else list(features)
    fits = {
        group: regress(
            release, target, names, ridge=ridge, intercept=intercept, reference=reference
        )
        for group, release in releases.items()
    }
    return GroupFits(by, releases, fits)


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Numbers):
    """Estimates of some coefficients: `params`, `bse` and all else of `Results`.

    Attributes
    ----------
    param_names : tuple of str
        Of the coefficients.
    inference : Inference
        The estimates, their covariance and degrees of freedom, or why they are refused.
    what : str
        What they are.
    """

    what: str

    @property
    def df_resid(self) -> float:
        """The least degrees of freedom of a coefficient."""
        return float(self.inference.df.min())

    def _columns(self) -> dict[str, Vector]:
        heads = ("estimate", *heads_of(self.inference, 0.95)[1:])
        return dict(zip(heads, self._table(0.05).T, strict=True))

    def __str__(self) -> str:
        return f"{self.what}\n{as_text(self.param_names, self._columns())}"


@dataclass(frozen=True, eq=False, repr=False)
class Pooled(Estimates):
    """Coefficients pooled over the groups, each by itself.

    Attributes
    ----------
    what
        As of `Estimates`; the covariance is diagonal, and the law normal.
    method : {"fixed", "dersimonian-laird", "paule-mandel"}
    n_groups : int
        Groups that were pooled.
    tau2 : ndarray of shape (p,), float64
        Variance of the coefficient between groups; 0 where the method is "fixed".
    q : ndarray of shape (p,), float64
        Cochran's statistic of heterogeneity.
    """

    method: str
    n_groups: int
    tau2: Vector
    q: Vector

    @property
    def i2(self) -> Vector:
        """Part of the estimates' variance that is between groups, in [0, 1]."""
        return np.maximum(0.0, 1 - (self.n_groups - 1) / np.maximum(self.q, 1e-300))

    @property
    def pvalues_q(self) -> Vector:
        """P values of the hypotheses that all groups have one coefficient."""
        from scipy.special import chdtrc

        return np.asarray(chdtrc(max(self.n_groups - 1, 1), self.q))

    def _columns(self) -> dict[str, Vector]:
        return {**super()._columns(), "tau": np.sqrt(self.tau2), "I2": self.i2}


def difference(
    what: str, fit: OLSResults, other: OLSResults, shared: Matrix | float = 0.0
) -> Estimates:
    """Coefficients of one fit less those of another, of different rows and the same terms.

    Variances add up, less twice the covariance `shared` of the two estimates, shape (p, p).
    Degrees of freedom are Satterthwaite's. Refused if one of them has no standard errors.
    """
    for one in (fit, other):
        if one.refusal is not None:
            raise RefusedError(f"there is no inference in one of the two: {one.refusal}")
    b, c = fit.inference, other.inference
    whole = (b.covariance + c.covariance).diagonal()
    spread = b.covariance.diagonal() ** 2 / b.df + c.covariance.diagonal() ** 2 / c.df
    df = np.divide(whole**2, spread, out=np.full(len(spread), np.inf), where=spread > 0)
    both = np.broadcast_to(shared, b.covariance.shape)
    covariance = b.covariance + c.covariance - both - both.T
    return Estimates(what=what, **_known_of([fit, other], b.estimate - c.estimate, covariance, df))


def _known_of(
    fits: Sequence[OLSResults], estimate: Vector, covariance: Matrix, df: Vector
) -> dict[str, Any]:
    """What `Estimates` has beside its heading: the fits' rows are different ones."""
    return {
        "target": fits[0].target,
        "param_names": fits[0].param_names,
        "inference": Inference(estimate, covariance, "first-order", None, df),
        "n_rows": sum(fit.nobs for fit in fits),
        "epsilon": max(fit.epsilon for fit in fits),
        "delta": max(fit.delta for fit in fits),
    }


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
        self,
        by: str,
        releases: Mapping[Any, ReleaseRecord],
        fits: dict[Any, OLSResults],
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

    def __getitem__(self, group: Any) -> OLSResults:
        return self._fits[group]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @property
    def params(self) -> Any:
        """Estimates of every group."""
        return self._framed(self._estimates)

    @property
    def bse(self) -> Any:
        """Standard errors of `params`."""
        return self._framed(self._errors)

    def _framed(self, values: Matrix) -> Any:
        try:
            import pandas as pd
        except ImportError:
            return values
        return pd.DataFrame(values, self._index(pd), list(self.param_names), copy=True)

    def _index(self, pd: Any) -> Any:
        """The groups, of which one by several columns is a tuple."""
        return pd.Index(self.groups, name=self.by, tupleize_cols=False)

    @cached_property
    def _estimates(self) -> Matrix:
        return self._of_each(lambda fit: fit._estimate)

    @cached_property
    def _errors(self) -> Matrix:
        return self._of_each(lambda fit: fit.inference.stderr)

    def _of_each(self, of: Callable[[OLSResults], Vector]) -> Matrix:
        return np.array([of(fit) for fit in self._fits.values()])

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """Which groups have finite standard errors: two at least."""
        self._check_apart()
        known = np.asarray(np.isfinite(np.hstack([self._errors, self._estimates])).all(axis=1))
        if known.sum() < 2:
            raise RefusedError(
                f"{known.sum()} of {len(self.groups)} groups have standard errors, and it takes "
                "two: take a larger epsilon, fewer columns, or groups of more rows"
            )
        return known

    def _check_apart(self) -> None:
        """Refuse to compare groups in which the same people may have rows."""
        unit = next(iter(self._releases.values())).privacy_unit
        if unit is not None:
            raise RefusedError(
                f"one {unit.name} may have rows in several groups, whose estimates then go "
                "together, and a release does not tell how much: compare groups of people who are "
                "in one group each by pg.release of rows, or each group by itself"
            )

    def frame(self) -> Any:
        """Return one table, a row a group, as a pandas DataFrame (extra `pandas`).

        Returns
        -------
        pandas.DataFrame
            With the columns of `params` under "params", of `bse` under "bse", and
            "n_rows" (as the release tells it) and "refusal" under "fit".
        """
        with extra("pandas", "a table of groups as a data frame needs"):
            import pandas as pd
        columns: dict[Any, Any] = {}
        for under, values in (("params", self._estimates), ("bse", self._errors)):
            columns |= {(under, name): values[:, j] for j, name in enumerate(self.param_names)}
        columns["fit", "n_rows"] = [fit.n_rows for fit in self._fits.values()]
        columns["fit", "refusal"] = [self.refusals.get(group) for group in self.groups]
        return pd.DataFrame(columns, self._index(pd))

    def difference(self, one: Any, other: Any) -> Estimates:
        """Coefficients of one group less those of another, with standard errors.

        Parameters
        ----------
        one, other
            Groups.

        Returns
        -------
        Estimates
            Variances add up: the groups share neither rows nor noise. Degrees of freedom are
            Satterthwaite's.

        Raises
        ------
        RefusedError
            A ValueError: if one of them has no standard errors, or a unit may be in both.
        KeyError
            If there is no such group.
        """
        self._check_apart()
        return difference(f"{shown(str(one))} less {shown(str(other))}", self[one], self[other])

    def pool(
        self, method: Literal["fixed", "dersimonian-laird", "paule-mandel"] = "paule-mandel"
    ) -> Pooled:
        """Pool each coefficient over the groups, by the inverses of the variances.

        Parameters
        ----------
        method : {"fixed", "dersimonian-laird", "paule-mandel"}
            "fixed" takes all groups to have one coefficient. The others let groups differ with a
            variance tau2, by the moment of [1]_ or the fixed point of [2]_, and estimate the
            coefficients' mean.

        Returns
        -------
        Pooled

        Raises
        ------
        RefusedError
            A ValueError: if fewer than two groups have standard errors.

        Notes
        -----
        Groups without standard errors are left out. Where the noise rivals the features, weights
        and estimates are correlated, and `Releases.total` is the safer base of one common fit.
        """
        check_one_of(method, "method", ("fixed", "dersimonian-laird", "paule-mandel"))
        b, v = self._estimates[self._known], self._errors[self._known] ** 2
        q = _q(b, v, np.zeros(b.shape[1]))
        tau2 = np.zeros_like(q)
        if method == "dersimonian-laird":
            w = 1 / v
            spread = w.sum(axis=0) - (w**2).sum(axis=0) / w.sum(axis=0)
            tau2 = np.maximum(0.0, (q - (len(b) - 1)) / spread)
        elif method == "paule-mandel":
            tau2 = np.array([_paule_mandel(b[:, j], v[:, j]) for j in range(b.shape[1])])
        w = 1 / (v + tau2)
        mean = (w * b).sum(axis=0) / w.sum(axis=0)
        return Pooled(
            what=f"{self.target} in {len(b)} groups by {self.by}, pooled ({method})",
            **_known_of(
                [self._fits[self.groups[i]] for i in np.flatnonzero(self._known)],
                mean,
                np.diag(1 / w.sum(axis=0)),
                np.full(len(mean), np.inf),
            ),
            method=method,
            n_groups=len(b),
            tau2=tau2,
            q=q,
        )

    def shrink(self) -> Shrunk:
        """Shrink the groups' coefficients towards each other: empirical Bayes.

        Coefficients of a group are taken as drawn from a normal law with a mean and a covariance,
        which all releases together tell. A group gets its posterior mean: its own coefficients in
        directions in which its release is accurate, and the others' in directions in which it is
        not. No group is refused.

        Returns
        -------
        Shrunk

        Raises
        ------
        RefusedError
            A ValueError: if all groups together are too noisy for a fit.
        """
        design = next(iter(self._fits.values())).design
        blocks = [design.block(release) for release in self._releases.values()]
        q = design.transform.shape[1]
        total = np.sum([block - law.shift_matrix(q + 1) for law, block in blocks], axis=0)
        rows = sum(rows_behind(release) or 0.0 for release in self._releases.values())
        if np.linalg.eigvalsh(total)[0] <= 0 or rows < 1:
            raise RefusedError(
                "all groups together are too noisy for a fit: take a larger epsilon, fewer groups "
                "or fewer columns"
            )
        common = np.linalg.solve(total[:q, :q], total[:q, q])
        variance = float(total[q, q] - total[q, :q] @ common) / rows
        mean, between, means, covariances = empirical_bayes(
            *corrected_scores(blocks, common, variance)
        )
        p = len(self.param_names)
        transform, offset = design.transform[:p], design.offset[:p]
        return Shrunk(
            self,
            (common + means) @ transform.T + offset,
            transform @ covariances @ transform.T,
            transform @ (common + mean) + offset,
            transform @ between @ transform.T,
        )

    plot = of_results.plot_forest

    def __str__(self) -> str:
        head = self._head
        if self.refusals:
            head += f"; refused in {len(self.refusals)}: see refusals"
        return f"{head}\n{self._as_text(self._estimates, self._errors)}"

    @property
    def _head(self) -> str:
        return f"{self.target} in {len(self.groups)} groups by {self.by}"

    def _as_text(self, estimates: Matrix, errors: Matrix) -> str:
        """Coefficients of all groups and their errors, (groups, p) each, as a table."""
        columns: dict[str, Vector] = {}
        for j, name in enumerate(self.param_names):
            columns |= {name: estimates[:, j], f"({name} se)": errors[:, j]}
        return as_text(tuple(map(str, self.groups)), columns)

    def __repr__(self) -> str:
        return (
            f"<GroupFits of {shown(self.target)} in {len(self.groups)} groups by {shown(self.by)}"
            f", {len(self.refusals)} without inference>"
        )


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Coefficients of groups, shrunk towards each other.

    Attributes
    ----------
    fits : GroupFits
        What they were made of.
    estimate : ndarray of shape (groups, p), float64
        Posterior means, in the order of `fits.groups` and `fits.param_names`.
    covariance : ndarray of shape (groups, p, p), float64
        Posterior covariances, the mean and the covariance between groups taken as known.
    mean : ndarray of shape (p,), float64
        Mean of the groups' coefficients.
    between : ndarray of shape (p, p), float64
        Covariance of the groups' coefficients.
    """

    fits: GroupFits
    estimate: Matrix
    covariance: Matrix
    mean: Vector
    between: Matrix

    @property
    def params(self) -> Any:
        """Posterior means, as `GroupFits.params`."""
        return self.fits._framed(self.estimate)

    @property
    def bse(self) -> Any:
        """Posterior standard deviations, as `GroupFits.bse`."""
        return self.fits._framed(self._errors)

    @property
    def _errors(self) -> Matrix:
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2))

    def __str__(self) -> str:
        head = f"{self.fits._head}, shrunk towards each other"
        return f"{head}\n{self.fits._as_text(self.estimate, self._errors)}"

    def __repr__(self) -> str:
        return f"<Shrunk coefficients of {self.fits!r}>"

    def predict(self, group: Any, X: ArrayLike) -> Vector:
        """Predicted target in a group.

        Parameters
        ----------
        group
            One of the groups, also one without a fit.
        X : array-like of shape (m, p), DataFrame or mapping
            As of `OLSResults.predict`.

        Returns
        -------
        ndarray of shape (m,), float64

        Raises
        ------
        KeyError
            If there is no such group.
        """
        if group not in self.fits.groups:
            raise KeyError(group)
        coef = self.estimate[self.fits.groups.index(group)]
        return np.asarray(next(iter(self.fits.values()))._rows(X) @ coef)

    def plot(self, name: str, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw one coefficient of every group, shrunk; see `privgram.plots.plot_forest`."""
        return self.fits.plot(name, ax, shrunk=self, **options)


def _q(b: Matrix, v: Matrix, tau2: Vector) -> Vector:
    """Weighted squares about the weighted mean, of each column."""
    w = 1 / (v + tau2)
    mean = (w * b).sum(axis=0) / w.sum(axis=0)
    return np.asarray((w * (b - mean) ** 2).sum(axis=0))


def _paule_mandel(b: Vector, v: Vector) -> float:
    """The variance between groups at which `_q` is what it is expected to be."""
    from scipy.optimize import brentq

    def excess(tau2: float) -> float:
        return float(_q(b[:, None], v[:, None], np.array([tau2]))[0]) - (len(b) - 1)

    if excess(0.0) <= 0:
        return 0.0
    high = float(np.var(b)) + float(np.max(v))
    while excess(high) > 0:
        high *= 4
    return float(brentq(excess, 0.0, high, xtol=1e-12 * high, rtol=1e-12))


def change(fit: OLSResults, earlier: OLSResults) -> Estimates:
    """Tell how coefficients changed between two windows of one stream: the first less the second.

    Of different periods and by the same terms. Their rows are different ones; of their noises the
    covariance is known, and taken off twice (docs/theory/streams.md). Degrees of freedom are
    Satterthwaite's.
    """
    if (fit.param_names, fit.target) != (earlier.param_names, earlier.target):
        raise ValueError("the two regressions have other terms")
    p = len(fit.param_names)
    both = _shared(fit.release, earlier.release) * _overlap(fit, earlier)[:p, :p]
    return difference("change", fit, earlier, both)


def _shared(one: ReleaseRecord, other: ReleaseRecord) -> float:
    """Covariance of the noises of two releases of a stream, off the diagonal, entry by entry."""
    of, by = one.parameters, other.parameters
    if "stream" not in of or of["stream"] != by.get("stream"):
        raise ValueError("a change is between two windows of one stream")
    (start, stop), (begin, end) = of["periods"], by["periods"]
    if max(start, begin) <= min(stop, end):
        raise ValueError("the two windows share periods: a change is between different rows")
    k = min(len(of["stream_weights"]), len(by["stream_weights"]))
    weights = np.dot(of["stream_weights"][:k], by["stream_weights"][:k])
    return float(of["stream_std"] ** 2 * weights)


def _overlap(fit: OLSResults, earlier: OLSResults) -> Matrix:
    """Covariances of coefficients by one noise of deviation 1 in both releases, shape (p, p).

    An estimate's error by noise N is <N, sym(a w^T)>, of variance 2 ||P sym(a w^T)||_F^2 where P
    projects on what is known of the noise.
    """
    (a, w), (b, u) = _forms(fit), _forms(earlier)
    law = earlier.release.noise
    covariances = np.empty((len(a), len(b)))
    for j, row in enumerate(b):
        form = np.outer(row, u)
        form = (form + form.T) / 2
        if isinstance(law, (MaskedLaw, TiedLaw)):
            form = law.project(form)
        covariances[:, j] = 2 * (a @ (form @ w))
    return covariances


def _forms(fit: OLSResults) -> tuple[Matrix, Vector]:
    """The a and the w by which noise N moves each coefficient by a^T N w."""
    equations, design = fit._equations, fit.design
    return design.transform @ equations.inverse @ design.images[:-1], equations.v @ design.images
