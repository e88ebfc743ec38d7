"""Estimates of several regressions together: their differences, or pooled.

The rows of groups are different ones and so is their noise: what is estimated from two of them is
independent. Between two windows of a stream the noise is shared, in a way that is known.

References
----------
.. [1] R. DerSimonian, N. Laird, "Meta-analysis in clinical trials", Controlled Clinical Trials 7
   (1986).
.. [2] R. C. Paule, J. Mandel, "Consensus values and weighting factors", J. Research NBS 87 (1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from privgram._base.text import as_text
from privgram.noise import MaskedLaw, TiedLaw
from privgram.regression.inference import Inference, RefusedError
from privgram.regression.results import Results
from privgram.regression.summary import heads_of

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.regression.ols import OLSResults
    from privgram.releases.record import ReleaseRecord

#: How groups are weighted: as if all had one coefficient, or by how much theirs differ.
PoolingMethod: TypeAlias = Literal["fixed", "dersimonian-laird", "paule-mandel"]


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Results):
    """Estimates of some coefficients: `params`, `bse` and all else of `Results`.

    Attributes
    ----------
    target, param_names, inference, n_rows, epsilon, delta
        As of `Results`.
    what : str
        What they are.
    """

    target: str
    param_names: tuple[str, ...]
    inference: Inference
    n_rows: float | None
    epsilon: float
    delta: float
    what: str

    #: They are never refused: what they are made of has standard errors.
    refusal = None

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


def estimates_of(
    what: str, fits: Sequence[OLSResults], estimate: Vector, covariance: Matrix, df: Vector
) -> Estimates:
    """Estimates of coefficients that fits of different rows have all."""
    return Estimates(
        target=fits[0].target,
        param_names=fits[0].param_names,
        inference=Inference(estimate, covariance, None, df),
        n_rows=sum(fit.nobs for fit in fits),
        epsilon=max(fit.epsilon for fit in fits),
        delta=max(fit.delta for fit in fits),
        what=what,
    )


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
    return estimates_of(what, [fit, other], b.estimate - c.estimate, covariance, df)


def pooled(what: str, fits: Sequence[OLSResults], method: PoolingMethod) -> Pooled:
    """Each coefficient over fits with standard errors, by the inverses of the variances.

    The variance between groups is that of [1]_ or [2]_.
    """
    b = np.array([fit._estimate for fit in fits])
    v = np.array([fit.inference.stderr for fit in fits]) ** 2
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
    normal = np.full(len(mean), np.inf)
    estimates = estimates_of(
        f"{what}, pooled ({method})", fits, mean, np.diag(1 / w.sum(axis=0)), normal
    )
    return Pooled(**vars(estimates), method=method, n_groups=len(b), tau2=tau2, q=q)


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
        raise ValueError("the two regressions have other terms: fit the same formula on both")
    p = len(fit.param_names)
    both = _shared(fit.release, earlier.release) * _overlap(fit, earlier)[:p, :p]
    return difference("change", fit, earlier, both)


def _shared(one: ReleaseRecord, other: ReleaseRecord) -> float:
    """Covariance of the noises of two releases of a stream, off the diagonal, entry by entry."""
    of, by = one.parameters, other.parameters
    if "stream" not in of or of["stream"] != by.get("stream"):
        raise ValueError("a change is between two windows of one stream: take both from it")
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
