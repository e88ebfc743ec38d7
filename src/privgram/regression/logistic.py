"""Logistic regressions whose Newton steps were released: the public record of one."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import check_integer, check_not_negative, check_positive, check_within
from privgram._base.saved import Form
from privgram._base.text import shown
from privgram.columns import Columns
from privgram.noise import EntryLaw
from privgram.regression.design import AllColumns, Design, design
from privgram.regression.equations import Equations
from privgram.regression.inference import (
    Inference,
    Of,
    RefusedError,
    contrasts,
    refuse,
    why_hidden,
)
from privgram.regression.newton import RUNAWAY, misfit, newton_step, unsettled
from privgram.regression.results import CONSTANT, Results
from privgram.regression.summary import counted
from privgram.regression.testing import WaldTest, verdict, wald

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.privacy import Adjacency, Guarantee, Profile

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["LogisticFit", "read_fit"]

FORM = Form(
    "privgram-logistic",
    1,
    "a logistic regression",
    key="fit",
    arrays=("curved", "pulled", "start", "back"),
)

#: Powers of what a file holds must stay a float64.
MOST = 1e30

#: The summary mentions weights that leave out more of the curvature.
NOTICED_WEIGHTS = 0.02

UNSETTLED = (
    "the Newton steps have not settled: the classes may be separable, the mean too near to an end, "
    "or the noise too large for so few rows"
)


@dataclass(frozen=True, eq=False)
class LogisticFit(Results):
    """A private logistic regression, in the columns' own units.

    `params`, `bse`, `conf_int` and all else of `privgram.regression.results.Results` are of the log
    odds, for the population.

    Made by `drawing.logistic.logistic`, or read back by `load`. It holds the last look's release:
    curvature H and score g where the steps had come to, with noise. What is computed from it
    costs no further privacy.

    Attributes
    ----------
    target : str
        What is explained: a truth value, or one level of a factor.
    terms : tuple of str
        What it is explained by, as in `Columns`.
    columns : Columns
        The public bounds of the variables that were used.
    reference : dict of str to str
        Levels asked to be left out, by factor.
    with_intercept : bool
    curved : ndarray of shape (q, q), float64
        H, symmetric, in the frame of the last look.
    pulled : ndarray of shape (q,), float64
        g.
    start : ndarray of shape (q,), float64
        Coefficients of the design's columns where the last look was.
    back : ndarray of shape (q, q), float64
        What takes a step in the frame to these.
    curved_std, pulled_std : float
        Noise off H's diagonal, where it is sqrt(2) times that, and of g; all entries independent.
    n_rows : float
        Rows behind the fit: public, or estimated.
    epsilon, delta : float
        The guarantee of all looks together.
    adjacency : {"replace", "add-remove"}
    privacy : Profile
    parameters : dict
        The looks, each with its ratio, radius and noise.
    reproducible : bool
        Whether the noise came from a generator with a seed.
    """

    target: str
    terms: tuple[str, ...]
    columns: Columns
    reference: dict[str, str]
    with_intercept: bool
    curved: Matrix
    pulled: Vector
    start: Vector
    back: Matrix
    curved_std: float
    pulled_std: float
    n_rows: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    parameters: dict[str, Any]
    reproducible: bool = False

    @cached_property
    def design(self) -> Design:
        """The columns of the regression, and the way to own units."""
        return design(
            AllColumns(self.columns), self.target, self.terms, self.with_intercept, self.reference
        )

    _title = "Private Logistic Regression"

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the coefficients, then the intercept if the fit has one."""
        names = self.design.names
        return (*names, CONSTANT) if self.with_intercept else names

    @property
    def _term_places(self) -> dict[str, slice]:
        return self.design.terms

    @property
    def guarantee(self) -> Guarantee:
        """How well `privacy` is founded."""
        return self.privacy.guarantee

    @cached_property
    def _own(self) -> Matrix:
        """From coefficients of the design's columns to those in own units, the intercept last."""
        size = len(self.param_names)
        return np.asarray(self.design.transform[:size] / self.design.spread[-1])

    def _equations(self, meat: Matrix) -> Equations:
        """The last step's normal equations, the score as the target."""
        q = len(self.pulled)
        matrix, variances = np.zeros((2, q + 1, q + 1))
        matrix[:q, :q], matrix[:q, q], matrix[q, :q] = self.curved, self.pulled, self.pulled
        variances[:] = self.pulled_std**2
        variances[:q, :q] = self.curved_std**2 * (1 + np.eye(q))
        return Equations(EntryLaw(variances), matrix, self.n_rows, meat)

    @cached_property
    def inference(self) -> Inference:
        """Estimates and their errors as of a sample, the intercept last."""
        return self._inference(self.curved)

    def _inference(self, meat: Matrix, matrix: Matrix | None = None) -> Inference:
        """Of the parameters or of contrasts, where the score of the rows has this covariance."""
        own = self._own if matrix is None else matrix @ self._own
        move = newton_step(self.curved, self.pulled)
        runaway = self.parameters["last_step"] > RUNAWAY
        if runaway or unsettled(move, self.curved, self.pulled_std, self.n_rows):
            return refuse(len(own), UNSETTLED)
        equations = self._equations(meat)
        reason = why_hidden(equations)
        if reason is None and self.n_rows <= len(self.pulled):
            reason = "there are too few rows"
        if reason is not None:
            return refuse(len(own), reason)
        return contrasts(equations, own @ self.back, own @ self.start)

    @property
    def df_resid(self) -> float:
        """Rows less parameters."""
        return self.nobs - len(self.param_names)

    def _contrasts(self, matrix: Matrix, of: Of = "population") -> Inference:
        return self._inference(self._meat(of), matrix)

    def _about(self, of: Of) -> Inference:
        return self.inference if of == "population" else self._inference(self._meat(of))

    def _meat(self, of: Of) -> Matrix:
        """Covariance of the score: of a sample; or of what the weights of rows far out may move.

        The latter with room for a mean of the target that is off by a tenth of its deviation.
        """
        if of == "population":
            return self.curved
        return np.asarray(misfit(self.n_rows) * self.parameters["moved"] * self.curved)

    def _tested(
        self, said: tuple[str, ...], matrix: Matrix, values: Vector, *, use_f: bool
    ) -> WaldTest:
        self._need_inference()
        into, offset = matrix @ self._own @ self.back, matrix @ self._own @ self.start - values
        statistic, df = wald(self._equations(self.curved), into, offset)
        return verdict(said, statistic, df, self.df_resid if use_f else math.inf)

    def odds_ratios(self, alpha: float = 0.05) -> Matrix:
        """By what odds are multiplied per unit of each feature, with its interval.

        Returns
        -------
        ndarray of shape (p, 3), float64
            exp of `params` and of `conf_int`, without the intercept.
        """
        p = len(self.design.names)
        with np.errstate(over="ignore"):
            return np.exp(np.column_stack([self._estimate, self._ends(alpha)])[:p])

    def decision_function(self, X: Any) -> Vector:
        """Log odds of new rows; see `predict_proba`."""
        variables = [name for name in self.columns.selected if name != self._variable]
        table: Any = X
        if isinstance(X, np.ndarray) and X.dtype.names is None:
            if X.ndim != 2 or X.shape[1] != len(variables):
                raise ValueError(
                    f"X must have shape (m, {len(variables)}), with columns "
                    f"{', '.join(map(shown, variables))}, not {X.shape}"
                )
            table = dict(zip(variables, X.T, strict=True))
        if self.refusal is not None:
            raise RefusedError(f"there is nothing to predict by: {self.refusal}")
        features = self.design.rows(table, self.columns)
        ones = np.ones((len(features), len(self.param_names) - features.shape[1]))
        return np.asarray(np.column_stack([features, ones]) @ self._estimate)

    @property
    def _variable(self) -> str:
        """The variable of the target."""
        return self.target if self.target in self.columns.variables else self.target.split("[")[0]

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of the two classes.

        Parameters
        ----------
        X : DataFrame, mapping of str to array_like, or ndarray of shape (m, k)
            The variables of the features, in their own units; an array has them in the order of
            `columns`. Values are clamped to their bounds.

        Returns
        -------
        ndarray of shape (m, 2), float64
            Of not being `target`, and of being it.
        """
        from scipy.special import expit

        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Whether each row is more likely `target` than not.

        Parameters
        ----------
        X
            As of `predict_proba`.

        Returns
        -------
        ndarray of shape (m,), bool
        """
        return np.asarray(self.decision_function(X) > 0)

    def _facts(self) -> dict[str, str]:
        return {
            "Looks": f"{self.parameters['looks']}",
            "No. Observations": counted(self.n_rows, 0.0),
            "Row norms up to": f"{self.columns.bound:.4g}",
            "Epsilon": f"{self.epsilon:g}",
            "Delta": f"{self.delta:g}",
            "Adjacency": self.adjacency,
            "Link": "logit",
        }

    def _assumes(self) -> list[str]:
        return [
            "Standard errors cover sampling and privacy noise. They assume that the model holds."
        ]

    def _notes(self) -> list[str]:
        notes = []
        if self.design.references:
            left_out = ", ".join(
                f"{shown(name)} {shown(level)}" for name, level in self.design.references.items()
            )
            notes.append(f"Effects of levels are differences from: {left_out}.")
        left = 1 - self.parameters["kept"]
        if left > NOTICED_WEIGHTS:
            notes.append(
                f"Rows far out weigh less, and with them {left:.0%} of the curvature. If the "
                "model holds that biases nothing; if not, the fit is closer to the other rows."
            )
        if self.reproducible:
            notes.append("Reproducible: the fit is not private against who knows its seed.")
        return notes

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.design.names))
        text = f"<Logistic fit of {shown(self.target)} on {names}: {self.guarantee}"
        return text + ("; REPRODUCIBLE>" if self.reproducible else ">")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to `.json` or `.npz`, whole or not at all.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        arrays = {name: getattr(self, name) for name in FORM.arrays}
        FORM.save(Path(path), self._header(), arrays)

    def _header(self) -> dict[str, Any]:
        plain = (
            "target", "reference", "with_intercept", "curved_std", "pulled_std",
            "n_rows", "epsilon", "delta", "adjacency", "parameters", "reproducible",
        )  # fmt: skip
        return {name: getattr(self, name) for name in plain} | {
            "terms": list(self.terms),
            "columns": self.columns.to_dict(),
            "privacy": self.privacy.to_dict(),
        }


def read_fit(path: Path) -> LogisticFit:
    """Read a fit written by `LogisticFit.save`."""
    from privgram.privacy import Profile

    header, arrays = FORM.read(path)
    with FORM.understood(path):
        header["columns"] = Columns.from_dict(header["columns"])
        header["privacy"] = Profile.from_dict(header["privacy"])
        header["terms"] = tuple(header["terms"])
        values: dict[str, Any] = header | arrays
        loaded = LogisticFit(**values)
        _check(loaded)
    return loaded


def _check(fit: LogisticFit) -> None:
    """Raise unless the parts of a fit are sound and fit together, as saved ones do."""
    from privgram.privacy import GaussianProfile
    from privgram.privacy._adjacency import check_adjacency

    q = len(fit.pulled)
    shapes = {"curved": (q, q), "pulled": (q,), "start": (q,), "back": (q, q)}
    for name, shape in shapes.items():
        array = getattr(fit, name)
        if array.shape != shape or array.dtype != np.float64:
            raise ValueError(f"{name} must have shape {shape}, of float64")
        if not (np.abs(array) <= MOST).all():  # also if it is NaN
            raise ValueError(f"{name} must be finite, and at most {MOST:g}")
    # Of the shapes that they were made with, whose numbers are what files may change.
    plain = isinstance(fit.target, str) and all(isinstance(term, str) for term in fit.terms)
    levels = [*fit.reference, *fit.reference.values()]
    if not plain or not all(isinstance(name, str) for name in levels):
        raise ValueError("the target, terms and references are texts")
    if type(fit.with_intercept) is not bool or type(fit.reproducible) is not bool:
        raise ValueError("with_intercept and reproducible are true or false")
    if fit.design.intercept != fit.with_intercept or fit.design.transform.shape[1] != q:
        raise ValueError("the terms are others than those of the curvature")
    if not np.array_equal(fit.curved, fit.curved.T):
        raise ValueError("curved must be symmetric")
    for name in ("curved_std", "pulled_std", "epsilon", "n_rows"):
        if not 1 / MOST <= check_positive(getattr(fit, name), name) <= MOST:
            raise ValueError(f"{name} must lie in [{1 / MOST:g}, {MOST:g}]")
    check_within(fit.delta, "delta", 0, 1)
    check_adjacency(fit.adjacency)
    profile = fit.privacy
    if not isinstance(profile, GaussianProfile) or profile.adjacency != fit.adjacency:
        raise ValueError("the privacy profile is Gaussian, for the adjacency of the fit")
    if profile.delta(fit.epsilon) > 1.01 * fit.delta:
        raise ValueError("the privacy profile has a larger delta at epsilon than the fit")
    check_integer(fit.parameters["looks"], "looks", 1)
    for name in ("kept", "moved", "last_step"):
        check_not_negative(fit.parameters[name], name)
    json.dumps(fit._header(), allow_nan=False)
    with np.errstate(all="ignore"):
        str(fit.summary())
