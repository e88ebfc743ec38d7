"""One regression that was released by scores: the public record of it."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privgram._base.checks import check_positive, check_within
from privgram._base.saved import Form
from privgram._base.text import shown
from privgram.columns import Columns
from privgram.columns.terms import INTERCEPT
from privgram.regression.design import AllColumns, Design, design
from privgram.regression.inference import Inference, Of, refuse
from privgram.regression.results import Results
from privgram.regression.summary import FitTable, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from privgram.privacy import Adjacency, Guarantee, Profile

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["CovType", "ScoreFit"]

CovType = Literal["robust", "nonrobust"]

FORM = Form(
    "privgram-regression",
    1,
    "a regression by scores",
    key="fit",
    arrays=("solution", "sampling", "noise"),
)

#: Which ways a fit may have come about, as the summary says it.
WAYS = {"scores": "Scores", "second moment": "Second moment", "one look": "One look"}

HIDDEN = "the privacy noise hides the curvature in some direction of the features"


@dataclass(frozen=True, eq=False)
class ScoreFit(Results):
    """A linear regression by private scores, in the columns' own units.

    Made by `privgram.regress`. It holds estimates and the parts of their covariance, all released:
    what is computed from it costs no further privacy.

    Attributes
    ----------
    target : str
    terms : tuple of str
        What it is explained by, as in `Columns`.
    names : tuple of str
        The p coefficients, without the intercept.
    coef : ndarray of shape (p,), float64
    intercept : float
    columns : Columns
        The public bounds of the variables that were used.
    reference : dict of str to str
        Levels asked to be left out, by factor.
    with_intercept : bool
    solution : ndarray of shape (q,), float64
        Coefficients of the design's columns.
    sampling, noise : ndarray of shape (q, q), float64
        Their covariance: of a sample, and of privacy with what clipping may have moved.
    cov_type : {"robust", "nonrobust"}
    n_rows : float
        Rows behind the fit: public, or estimated.
    refused : str or None
    epsilon, delta : float
        The guarantee of all looks together.
    adjacency : {"replace", "add-remove"}
    privacy : Profile
    parameters : dict
        The looks, each with its ratio and noise; and what is known of the clip.
    reproducible : bool
        Whether the noise came from a generator with a seed.
    params, bse, tvalues, pvalues : Series, or ndarray of shape (p,) or (p + 1,), float64
        As of `privgram.regression.Fit`.
    """

    target: str
    terms: tuple[str, ...]
    columns: Columns
    reference: dict[str, str]
    with_intercept: bool
    solution: Vector
    sampling: Matrix
    noise: Matrix
    cov_type: CovType
    n_rows: float
    refused: str | None
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

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The p coefficients, without the intercept."""
        return self.design.names

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the coefficients, then the intercept if the fit has one."""
        return (*self.names, INTERCEPT) if self.design.has_level else self.names

    @property
    def guarantee(self) -> Guarantee:
        """How well `privacy` is founded."""
        return self.privacy.guarantee

    @property
    def df_resid(self) -> float:
        """Rows less parameters."""
        return self.n_rows - len(self.solution)

    @cached_property
    def _coef(self) -> Vector:
        found: Vector = self.design.transform @ self.solution + self.design.offset
        return found

    @property
    def coef(self) -> Vector:
        """Coefficients, shape (p,)."""
        return self._coef[:-1]

    @property
    def intercept(self) -> float:
        """Target units."""
        return float(self._coef[-1])

    @cached_property
    def inference(self) -> Inference:
        """Estimates and their errors as of a sample, the intercept last."""
        return self._about("population")

    def _about(self, of: Of) -> Inference:
        return self._contrasts(np.eye(len(self._coef)), of)

    def _contrasts(self, into: Matrix, of: Of = "population") -> Inference:
        if self.refused is not None:
            return refuse(len(into), self.refused)
        own = into @ self.design.transform
        whole = self.noise + (self.sampling if of == "population" else 0.0)
        covariance = own @ whole @ own.T
        nothing = np.zeros(len(own))
        df = np.full(len(own), self.df_resid if of == "population" else math.inf)
        return Inference(into @ self._coef, covariance, self.cov_type, None, nothing, nothing, df)

    def table(self, level: float = 0.95) -> FitTable:
        """What `summary` says, as data."""
        facts = {
            "Dep. Variable": self.target,
            "Method": WAYS[self.parameters["way"]],
            "No. Observations": f"{self.n_rows:,.0f}",
            "Covariance": self.cov_type,
            "Epsilon": f"{self.epsilon:g}",
            "Delta": f"{self.delta:g}",
            "Adjacency": self.adjacency,
            "Row norms up to": f"{self.columns.bound:.4g}",
        }
        used = self._coef[: len(self.param_names)]
        title = "Private Least Squares Regression"
        if self.refused is not None:
            return FitTable(
                facts, self.param_names, ("coef",), used[:, None], self.refused,
                tuple(self._notes()), title=title,
            )  # fmt: skip
        columns, values = columns_of(self.inference, used, level)
        notes = ["Standard errors cover sampling, privacy noise and clipping.", *self._notes()]
        return FitTable(facts, self.param_names, columns, values, None, tuple(notes), title=title)

    def _notes(self) -> Iterable[str]:
        way, rows = self.parameters["way"], self.parameters["clipped_rows"]
        if way != "scores":
            yield f"Not by scores: {self.parameters['why']}."
            yield "Standard errors assume errors of equal variance."
        if way != "one look":
            yield (
                f"About {rows:,.0f} rows were shortened. Rows too few to be seen are taken to go "
                "on as those that were: a few rows far longer than all others may move it more."
            )
        if self.design.references:
            left_out = ", ".join(
                f"{shown(name)} {shown(level)}" for name, level in self.design.references.items()
            )
            yield f"Effects of levels are differences from: {left_out}."
        if self.reproducible:
            yield "Reproducible: the fit is not private against who knows its seed."

    def summary(self, level: float = 0.95) -> str:
        """A table of the fit as statistics packages print it.

        Parameters
        ----------
        level : float
            Level of the confidence intervals, in [0.5, 1).
        """
        return str(self.table(level))

    def _repr_html_(self) -> str:
        """The summary as notebooks show it."""
        return self.table()._repr_html_()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to `.json` or `.npz`, whole or not at all.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        FORM.save(Path(path), self._header(), {name: getattr(self, name) for name in FORM.arrays})

    def _header(self) -> dict[str, Any]:
        plain = (
            "target", "reference", "with_intercept", "cov_type", "n_rows", "refused", "epsilon",
            "delta", "adjacency", "parameters", "reproducible",
        )  # fmt: skip
        return {name: getattr(self, name) for name in plain} | {
            "terms": list(self.terms),
            "columns": self.columns.to_dict(),
            "privacy": self.privacy.to_dict(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScoreFit:
        """Read a fit that `save` wrote.

        Raises
        ------
        DamagedFile
            A ValueError: if the file is no such fit, is of a later version, was truncated or
            altered, or has parts that contradict each other.
        OSError
            If it cannot be read.
        """
        from privgram.privacy import Profile

        path = Path(path)
        header, arrays = FORM.read(path)
        with FORM.understood(path):
            header["columns"] = Columns.from_dict(header["columns"])
            header["privacy"] = Profile.from_dict(header["privacy"])
            header["terms"] = tuple(header["terms"])
            values: dict[str, Any] = header | arrays
            loaded = cls(**values)
            _check(loaded)
        return loaded

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.names))
        text = f"<Fit of {shown(self.target)} on {names}: {self.guarantee}"
        return text + ("; REPRODUCIBLE>" if self.reproducible else ">")


def _check(fit: ScoreFit) -> None:
    """Raise unless the parts of a fit are sound and fit together, as saved ones do."""
    from privgram.privacy import GaussianProfile
    from privgram.privacy._adjacency import check_adjacency

    q = len(fit.solution)
    if fit.design.intercept != fit.with_intercept or fit.design.transform.shape[1] != q:
        raise ValueError("the terms are others than those of the solution")
    for name, shape in {"solution": (q,), "sampling": (q, q), "noise": (q, q)}.items():
        array = getattr(fit, name)
        if array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name} must have shape {shape}, and be finite")
    for name in ("epsilon", "n_rows"):
        check_positive(getattr(fit, name), name)
    check_within(fit.delta, "delta", 0, 1)
    check_adjacency(fit.adjacency)
    if fit.cov_type not in get_args(CovType) or fit.parameters["way"] not in WAYS:
        raise ValueError("no such covariance, or way")
    if not (fit.refused is None or isinstance(fit.refused, str)):
        raise ValueError("a refusal is a sentence")
    profile = fit.privacy
    if not isinstance(profile, GaussianProfile) or profile.adjacency != fit.adjacency:
        raise ValueError("the privacy profile is Gaussian, for the adjacency of the fit")
    if profile.delta(fit.epsilon) > 1.01 * fit.delta:
        raise ValueError("the privacy profile has a larger delta at epsilon than the fit")
    json.dumps(fit._header(), allow_nan=False)
    with np.errstate(all="ignore"):
        fit.summary()
