"""Cox's regression by pieces of time: hazard ratios, baseline hazards, survival with its band."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from privgram._base.installed import LazyModule
from privgram._base.numbers import check_one_of
from privgram._base.text import as_frame, framed, shown
from privgram.columns.survival import EXPOSURE, PIECE
from privgram.regression.design import AllColumns, Design, Features, RegressionTerms, design
from privgram.regression.glm import GLMResults
from privgram.regression.inference import level_of, students
from privgram.regression.summary import Summary, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pandas import DataFrame

    from privgram._base.numbers import Matrix, Vector
    from privgram.plots import of_distributions
else:
    of_distributions = LazyModule("privgram.plots.of_distributions")

CONCORDANCE = (
    "compares pairs of rows, and one person is in as many of them as there are others: a sum over "
    "pairs has no room for the noise that would hide a person, and none is released. Intervals of "
    "hazard_ratios() say which features matter"
)


@dataclass(frozen=True, eq=False)
class SurvivalCurves:
    """Curves over time, each with its band.

    Attributes
    ----------
    times : ndarray of shape (t,), float64
    names : tuple of str
        What each of the m curves is of: its stratum, or the number of its row.
    estimate, lower, upper : ndarray of shape (t, m), float64
        A curve in each column, and the ends of its intervals. Each of these holds by itself.
    alpha : float
        1 - level of the intervals.
    what : str
        "survival", or "cumulative hazard".
    """

    times: Vector
    names: tuple[str, ...]
    estimate: Matrix
    lower: Matrix
    upper: Matrix
    alpha: float
    what: str

    def frame(self) -> DataFrame:
        """A data frame with a row a time, and for each curve its estimate and interval."""
        heads = [f"{name}{end}" for name in self.names for end in ("", " lower", " upper")]
        parts = np.stack([self.estimate, self.lower, self.upper], axis=2)
        return as_frame(parts.reshape(len(self.times), -1), self.times.tolist(), heads)

    plot = of_distributions.plot_survival


class SurvivalResults(GLMResults):
    """A regression of times to an event, by private scores of pieces of time.

    Parameters are logarithms of hazard ratios, as of statsmodels' PHReg and lifelines'
    CoxPHFitter, and standard errors are robust. Within a piece the hazard is constant: that is
    Poisson regression of events in pieces, and nearly Cox's where pieces are not long beside what
    hazards change in. Made by `privgram.Study.regress`, or read back by `load`.

    Attributes
    ----------
    cuts : tuple of float
        Where pieces of time begin and end.
    """

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where pieces of time begin and end."""
        return tuple(self.parameters["survival"]["cuts"])

    @property
    def _strata(self) -> tuple[str, ...]:
        return tuple(self.parameters["survival"]["strata"])

    @property
    def _title(self) -> str:  # type: ignore[override]
        return "Private Proportional Hazards Regression"

    @cached_property
    def _with_pieces(self) -> Design:
        """The design with the effects of pieces, which `design` does not show."""
        terms = RegressionTerms(self.target, self.terms, self.with_intercept, self.reference)
        return design(AllColumns(self.columns), terms)

    @property
    def nobs(self) -> float:
        """Rows behind the fit, or weighted pieces of units; an estimate where they are private."""
        units = self.parameters["units"]
        return float(self.parameters.get("rows", self.n_rows) if units is None else units)

    @property
    def nobs_stderr(self) -> float:
        """Standard error of `nobs`: 0 where the number of rows, or of units, is public."""
        mu = self.parameters.get("number_mu")
        return 0.0 if self.parameters["units"] is not None or mu is None else 1 / float(mu)

    @property
    def n_events(self) -> float:
        """About how many events there are, by the first rounds; NaN where the fit is refused."""
        if self.refusal is not None:  # what the first rounds say is noise
            return math.nan
        return max(float(self.parameters["target_mean"]) * self.n_rows, 0.0)

    def hazard_ratios(self, alpha: float = 0.05) -> DataFrame:
        """By what hazards are multiplied per unit of each feature, with its interval.

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].

        Returns
        -------
        DataFrame or ndarray of shape (p, 3), float64
            exp of `params` and of `conf_int`, in the columns "ratio", "lower" and "upper".
        """
        with np.errstate(over="ignore"):
            both = np.exp(np.column_stack([self._estimate, self._ends(alpha)]))
        return framed(both, self.param_names, ["ratio", "lower", "upper"])

    def predict(self, X: Features, which: Literal["lhr", "hr"] = "lhr") -> Vector:  # type: ignore[override]
        """Predict hazards over the baseline's, which is where features are 0.

        Parameters
        ----------
        X : DataFrame or mapping of str to array_like
            The variables of the features, in their own units. Values are clamped to their bounds.
        which : {"lhr", "hr"}, default "lhr"
            Logarithms of hazard ratios, or the ratios, as statsmodels' PHReg calls them.

        Returns
        -------
        ndarray of shape (m,), float64
        """
        check_one_of(which, "which", ("lhr", "hr"))
        linear = super().predict(X, which="linear")
        return linear if which == "lhr" else np.exp(linear)

    def baseline_cumulative_hazard(
        self, times: Sequence[float] | None = None, alpha: float = 0.05
    ) -> SurvivalCurves:
        """The cumulative hazard where features are 0 and factors at their references, by stratum.

        Parameters
        ----------
        times, alpha
            As of `predict_survival`.

        Returns
        -------
        SurvivalCurves
        """
        levels = [self.columns.variables[name].names for name in self._strata]  # type: ignore[attr-defined]
        places = [range(len(names)) for names in levels]
        rows = []
        for cell in product(*places, range(len(self.cuts) - 1)):
            known = {*zip((*self._strata, PIECE), cell, strict=True)}
            functions = self._with_pieces.functions
            rows.append([not powers and known.issuperset(own) for powers, own in functions])
        names = tuple(", ".join(stratum) or "baseline" for stratum in product(*levels))
        return self._curves(np.array(rows, float), names, times, alpha, "cumulative hazard")

    def predict_survival(
        self, X: Features, times: Sequence[float] | None = None, alpha: float = 0.05
    ) -> SurvivalCurves:
        """Predict the parts of new rows that have no event up to some times, with intervals.

        Parameters
        ----------
        X : DataFrame or mapping of str to array_like
            The variables of the features, and those of strata(), in their own units. Values are
            clamped to their bounds.
        times : sequence of float, optional
            By default the cuts. Times count from the first one on, and end at the last.
        alpha : float, default 0.05
            1 - level, in (0, 0.5].

        Returns
        -------
        SurvivalCurves
        """
        given: Any = X
        wanted = [name for name in self._with_pieces.reads(self.columns) if name != PIECE]
        pieces = len(self.cuts) - 1
        table = {name: np.repeat(np.asarray(given[name]), pieces) for name in wanted}
        size = len(table[wanted[0]]) // pieces if wanted else 1
        table[PIECE] = np.tile([str(k + 1) for k in range(pieces)], size)
        rows = self._with_pieces.rows(table, self.columns)
        return self._curves(rows, tuple(map(str, range(size))), times, alpha, "survival")

    def _curves(
        self,
        features: Matrix,
        names: tuple[str, ...],
        times: Sequence[float] | None,
        alpha: float,
        what: str,
    ) -> SurvivalCurves:
        """Curves by rows of features for each piece; intervals are of log cumulative hazards."""
        self._need_inference()
        cuts, shape = np.asarray(self.cuts), self._with_pieces
        at = cuts if times is None else np.atleast_1d(np.asarray(times, np.float64))
        if not ((at >= 0) & (at <= cuts[-1])).all():
            raise ValueError(f"times lie from 0 to the last cut, {cuts[-1]:g}, where all end")
        rows = np.column_stack([features, np.ones(len(features))])
        forms = (rows @ shape.transform / shape.spread[-1]).reshape(len(names), len(cuts) - 1, -1)
        with np.errstate(over="ignore"):
            hazard = np.exp(forms @ self.solution)
        spent = np.clip(at[:, None] - cuts[:-1], 0.0, np.diff(cuts))  # of each piece, by a time
        parts = spent[:, None, :] * hazard  # (t, m, k)
        total = parts.sum(axis=2)
        begun = total > 0
        shares = parts / np.where(begun, total, 1.0)[..., None]
        slopes = np.einsum("tmk,mkq->tmq", shares, forms).reshape(-1, forms.shape[2])
        found = self._of_solution(slopes, np.zeros(len(slopes)), "population")
        half = students(level_of(alpha), found.df) * found.stderr
        half = np.where(begun, half.reshape(total.shape), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = total * np.exp(-half), np.where(begun, total * np.exp(half), 0.0)
        if what == "survival":
            total, low, high = np.exp(-total), np.exp(-high), np.exp(-low)
        return SurvivalCurves(at, names, total, low, high, alpha, what)

    def summary(
        self,
        yname: str | None = None,
        xname: Sequence[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
    ) -> Summary:
        """A table of the fit, with hazard ratios beside their logarithms; as of other results."""
        plain = super().summary(yname, xname, title, alpha)
        coef, _, *rest = plain.columns
        with np.errstate(over="ignore"):
            values = np.insert(plain.values, 1, np.exp(plain.values[:, 0]), axis=1)
        return replace(plain, columns=(coef, "exp(coef)", "se(coef)", *rest), values=values)

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        for name in ("Weighted Rows", "No. Observations", "No. Units", "Model Family", "Link"):
            facts.pop(name, None)
        whose = "Sample Size" if self.unit is None else "No. Units"
        sizes = {
            whose: counted(self.nobs, self.nobs_stderr),
            "Num. Events": "about " * (self.refusal is None) + counted(self.n_events, 0.0),
        }
        return {"Model": "PH Reg, by pieces", **sizes, "Pieces": f"{len(self.cuts) - 1}", **facts}

    def _notes(self) -> list[str]:
        cuts = ", ".join(f"{cut:.6g}" for cut in self.cuts)
        strata = f", of each stratum of {', '.join(map(shown, self._strata))}" * bool(self._strata)
        chosen = self.parameters["survival"]["chosen"]
        how = ", which a released histogram of times placed" if chosen else ""
        notes = [f"The baseline hazard{strata} is constant between the cuts {cuts}{how}."]
        made = EXPOSURE, PIECE  # which no reader knows
        return notes + [x for x in super()._notes() if not any(name in x for name in made)]

    @staticmethod
    def _not_held(name: str) -> str | None:
        if name in ("concordance", "concordance_index", "concordance_index_", "score"):
            return f"{name} {CONCORDANCE}"
        return GLMResults._not_held(name)


def read_fit(path: Path) -> GLMResults:
    """Read a fit by scores, of times or of anything else."""
    fit = GLMResults._read(path)
    if "survival" not in fit.parameters:
        return fit
    of_times = SurvivalResults(**{each.name: getattr(fit, each.name) for each in fields(fit)})
    with GLMResults._format.understood(path):
        of_times._check()
        if not len(of_times.cuts) == len(of_times.columns.variables[PIECE].names) + 1:  # type: ignore[attr-defined]
            raise ValueError("the cuts are others than those of the pieces")
    return of_times
