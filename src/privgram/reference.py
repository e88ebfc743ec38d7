"""What a regression is without privacy, for the table's holder to compare with: NOT PRIVATE."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privgram._base.text import Printed, as_text
from privgram.columns.terms import parse_one
from privgram.regression.design import AllColumns, RegressionTerms, design
from privgram.regression.families import Bounded
from privgram.regression.inference import level_of, students
from privgram.study.answer import needed
from privgram.study.check import MARK, blocks_of
from privgram.study.config import described

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.regression.design import Design
    from privgram.regression.glm import GLMResults

__all__ = ["HuberReference", "huber"]

#: Rounds of reweighting at most; ten to twenty are usual.
MOST_ROUNDS = 500

#: The equation is solved when a round moves no direction by more, in sigma / sqrt(n).
SETTLED = 1e-9

NOT_PRIVATE = "a reference is NOT PRIVATE and cannot be saved, copied or sent: print it"


@dataclass(frozen=True, eq=False, repr=False)
class HuberReference(Printed):
    """The root of the equation of Huber's loss on the rows of a table: NOT PRIVATE.

    Attributes
    ----------
    target : str
    param_names : tuple of str
        The features, and "Intercept".
    params : ndarray of shape (k,), float64
        In own units, in this order.
    bse : ndarray of shape (k,), float64
        Robust standard errors, of sampling alone: HC1, with frame and scale taken as known.
    n_rows : int
    scale : float
        sigma, in the target's units.
    frame : ndarray of shape (q, k), float64
        W, of features in own units and the constant.
    """

    target: str
    param_names: tuple[str, ...]
    params: Vector = field(repr=False)
    bse: Vector = field(repr=False)
    n_rows: int
    scale: float
    frame: Matrix = field(repr=False)

    def conf_int(self, alpha: float = 0.05) -> Matrix:
        """Confidence intervals of the population's coefficients, shape (k, 2).

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].
        """
        half = students(level_of(alpha), self.n_rows - len(self.params)) * self.bse
        return np.column_stack([self.params - half, self.params + half])

    def __str__(self) -> str:
        low, high = self.conf_int().T
        columns = {"coef": self.params, "std err": self.bse, "[0.025": low, "0.975]": high}
        return as_text(self.param_names, columns, "", f"{self.n_rows:,} rows. {MARK}")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(NOT_PRIVATE)


def huber(
    table: Any,
    formula: str,
    columns: Columns | Mapping[str, Any] | str | os.PathLike[str],
    *,
    fit: GLMResults | None = None,
    reference: Mapping[str, Any] | None = None,
) -> HuberReference:
    r"""Solve the equation of `regress` with ``loss="huber"`` on the rows themselves: NOT PRIVATE.

    Parameters
    ----------
    table : table
        Whatever `privgram.Study` reads on one machine.
    formula, columns, reference
        As of `privgram.regress`.
    fit : GLMResults, optional
        A private fit of the same formula with ``loss="huber"``: its equation is solved, by the
        frame W and the scale sigma that it released. By default they are those of this table: W
        makes the second moment of the features the identity, and sigma is the root mean square of
        least squares' residuals.

    Returns
    -------
    HuberReference
        For the eyes of the table's holder. It spends nothing, and cannot be saved.

    Raises
    ------
    ValueError
        If the formula is not one of the columns, the fit is another one, a value is missing that is
        not to be dropped, or the equation has no single root.

    Notes
    -----
    With z = W x and r = (y - b . x) / sigma it is

    .. math:: \sum \min(1, k^2 / |z|^2)\, \psi(r)\, z = 0,
       \qquad \psi(r) = \max(-c, \min(c, r)),

    c = 1.345 and :math:`k^2 = q + 2 \sqrt{2 q}` for q features, the constant among them (``Huber's
    loss`` in docs/theory/glm.md): a generalised M-estimator of Mallows' kind, whose scale is not
    estimated again. statsmodels' `RLM` has another equation: it takes the median absolute residual
    for scale, round by round, and lets features far out count in full.
    """
    parsed = parse_one(formula)
    used = needed(parsed, described(columns))
    if parsed.endogenous or parsed.absorbed or not parsed.intercept or used.row_weights is not None:
        raise ValueError(
            'loss="huber" has an intercept, and no instruments, absorbed factors or weights'
        )
    terms = RegressionTerms.of(parsed, reference=reference)
    model = design(AllColumns(used), terms)
    drop = used.missing == "drop"
    if fit is not None:
        _check_same(fit, model)
        model, used, drop = fit.design, fit.columns, fit.columns.missing == "drop"
    X, y = _rows(table, used, model, drop)
    if fit is None:
        bounded = Bounded(X.shape[1])
        error, leverage = bounded.most, bounded.longest
        white = np.linalg.inv(np.linalg.cholesky(_regular(X.T @ X / len(X))))
        scale = math.sqrt(np.mean((y - X @ np.linalg.lstsq(X, y)[0]) ** 2))
    else:
        limits = fit.parameters["huber"]
        error, leverage, scale = limits["error"], limits["leverage"], fit.parameters["scale"]
        white = np.asarray(limits["frame"]) @ np.linalg.inv(_original_units(model).T)
    z = X @ white.T
    weight = leverage**2 / np.maximum((z**2).sum(axis=1), leverage**2)
    beta, covariance = _solved(z, y / scale, weight, error)
    back = scale * model.transform @ white.T
    return HuberReference(
        target=model.target,
        param_names=(*model.names, "Intercept"),
        params=back @ beta + model.offset,
        bse=np.sqrt((back @ covariance @ back.T).diagonal()),
        n_rows=len(y),
        scale=scale * float(model.spread[-1]),
        frame=white @ _original_units(model).T,
    )


def _original_units(model: Design) -> Matrix:
    """What takes coefficients of the design to own units, but for the target's unit, (k, q)."""
    return np.asarray(model.transform / model.spread[-1])


def _check_same(fit: GLMResults, model: Design) -> None:
    """Raise unless a private fit solves an equation, which is of this formula."""
    if "huber" not in getattr(fit, "parameters", {}):
        raise ValueError('fit is a regression with loss="huber": that of no other has an equation')
    if (fit.design.target, fit.design.names) != (model.target, model.names):
        raise ValueError(
            f"fit is of {fit.design.target} on {', '.join(fit.design.names)}: give its formula"
        )


def _rows(table: object, columns: Columns, model: Design, drop: bool) -> tuple[Matrix, Vector]:
    """Features and target of all rows without missing values, as the design has them."""
    blocks = (columns.encoder.table(block) for block in blocks_of(table, columns.reads))
    stored = np.concatenate([block @ model.images.T for block in blocks])
    complete = ~np.isnan(stored).any(axis=1)
    if not (drop or complete.all()):
        raise ValueError('rows have missing values: Columns(..., missing="drop") leaves them out')
    stored = stored[complete]
    if len(stored) <= stored.shape[1]:
        raise ValueError("there are too few rows: take fewer features or more rows")
    return stored[:, :-1], stored[:, -1]


def _regular(moment: Matrix) -> Matrix:
    """A second moment, or ValueError where it has no inverse."""
    if np.linalg.cond(moment) > 1e12:
        raise ValueError(
            "the equation has no single root: a feature follows from the others in the rows that "
            "count, so leave one out"
        )
    return moment


def _solved(z: Matrix, y: Vector, weight: Vector, error: float) -> tuple[Vector, Matrix]:
    """The root by reweighted least squares, each round of which is nearer; and its covariance."""
    n, q = z.shape
    beta = np.asarray(np.linalg.lstsq(z, y)[0], dtype=np.float64)
    for _ in range(MOST_ROUNDS):
        residual = y - z @ beta
        size = weight * np.minimum(1.0, error / np.maximum(np.abs(residual), error))
        moved = np.linalg.solve(_regular((z.T * size) @ z), z.T @ (size * residual))
        beta = beta + moved
        if np.abs(moved).max() * math.sqrt(n) <= SETTLED:
            break
    else:
        raise ValueError("the equation has no single root: too few rows are within its limits")
    residual = y - z @ beta
    score = z * (weight * np.clip(residual, -error, error))[:, None]
    curvature = np.linalg.inv(_regular((z.T * (weight * (np.abs(residual) <= error))) @ z))
    return beta, np.asarray(curvature @ (score.T @ score) @ curvature * n / (n - q))
