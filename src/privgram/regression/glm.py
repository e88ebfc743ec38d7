"""One regression that was released by scores: the public record of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_integer, check_not_negative, check_one_of
from privgram._base.saved import ArchiveFormat, JsonObject
from privgram._base.text import framed, shown
from privgram.columns import Columns
from privgram.columns.terms import as_factor, parse_terms
from privgram.privacy import Adjacency, GaussianProfile, Profile
from privgram.regression.design import AllColumns, Design, Features, RegressionTerms, design
from privgram.regression.diagnostics import differences
from privgram.regression.families import FAMILIES, Family, FamilyName
from privgram.regression.goodness import Goodness, LikelihoodGain, PseudoKind, shown_share
from privgram.regression.inference import (
    Estimand,
    Inference,
    RefusedError,
    level_of,
    refuse,
    students,
)
from privgram.regression.results import CONSTANT, NotReleasedError, RegressionResults
from privgram.regression.saved import SavedFit, check_sizes
from privgram.regression.summary import caution_of, row_facts

if TYPE_CHECKING:
    from pandas import DataFrame


#: What standard errors allow for, by statsmodels' names.
CovType = Literal["nonrobust", "HC1", "cluster"]

#: What a fit is for: standard errors, or predictions alone.
FitPurpose = Literal["inference", "prediction"]

#: Which ways a fit may have come about, as the summary says it.
METHODS = {"scores": "Scores", "one round": "One round"}

PREDICTIONS_ALONE = (
    'purpose="prediction" shrinks directions that the noise hides, so that coefficients have no '
    "standard errors: they take another fit without it"
)


NO_LIKELIHOOD = (
    "a pseudo R squared is of logistic and Poisson regression of single rows, with an intercept, "
    "no weights and no offset, where the noise hides no direction: least squares have rsquared"
)
NO_FACTORIALS = (
    "McFadden's pseudo R squared of counts takes the sum of the logarithms of their factorials, "
    'which nothing released tells: take pseudo_rsquared("cs")'
)


@dataclass(frozen=True, eq=False)
class GLMResults(SavedFit, RegressionResults):
    """A regression by private scores, in the columns' own units.

    Of family "binomial" and "poisson" parameters are of the linear predictor: the log odds, and
    the logarithm of the mean.

    Made by `privgram.regress`, or read back by `load`. It holds estimates and the parts of their
    covariance, all released: what is computed from it costs no further privacy.

    Attributes
    ----------
    terms : tuple of str
        What it is explained by, as in `Columns`. All that is not here is as of `RegressionResults`.
    columns : Columns
        The public bounds of the variables that were used.
    reference : dict of str to str
        Levels asked to be left out, by factor.
    with_intercept : bool
        Whether the linear predictor has a constant.
    solution : ndarray of shape (q,), float64
        Coefficients of the design's columns.
    sampling, noise : ndarray of shape (q, q), float64
        Their covariance: of a sample, and of privacy with what clipping may have moved.
    unidentified : ndarray of shape (q, q), float64
        Covariance of what the noise hides: a coefficient of which this is more than the rest has an
        interval without ends.
    robust : bool
        Whether the covariance allows for errors of unequal variance.
    n_rows : float
        Rows behind the fit: public, or estimated. Of long units they count for less.
    parameters : dict
        The rounds, each with its ratio and noise; what is known of the clip; the error of
        `n_rows`, the target's mean as the first rounds have it, and the number of units, where it
        is public.
    unit : str or None
        Whose rows are protected together: standard errors then let errors go together in them.
    family : {"gaussian", "binomial", "poisson"}
    absorbed : tuple of str
        Those of `terms` whose effects are taken along and not shown.
    by_level : ndarray of shape (K, 3 + slopes) or None
        What `effects` is of, where a factor has more levels than coefficients are written for: a
        level's effect, its variance by sampling and by noise, 0 where it is hidden, and how far its
        means are off those of all rows.
    """

    target: str
    terms: tuple[str, ...]
    columns: Columns
    reference: dict[str, str]
    with_intercept: bool
    solution: Vector
    sampling: Matrix
    noise: Matrix
    unidentified: Matrix
    robust: bool
    n_rows: float
    refusal: str | None
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    parameters: JsonObject
    reproducible: bool = False
    unit: str | None = None
    family: FamilyName = "gaussian"
    absorbed: tuple[str, ...] = ()
    by_level: Matrix | None = None

    _format = ArchiveFormat(
        "privgram-regression",
        1,
        "a regression by scores",
        key="fit",
        arrays=("solution", "sampling", "noise", "unidentified", "by_level"),
    )

    @cached_property
    def design(self) -> Design:  # type: ignore[override]
        """The columns of the regression, and the way to own units."""
        terms = RegressionTerms(self.target, self.terms, self.with_intercept, self.reference)
        hidden = parse_terms(self.absorbed, self.columns.variables)
        labels = [term.label(self.columns.variables) for term in hidden]
        return design(AllColumns(self.columns), terms).hiding(labels)

    @property
    def _described(self) -> Columns:
        return self.columns

    @property
    def _family(self) -> Family:
        return FAMILIES[self.family]

    @property
    def _title(self) -> str:  # type: ignore[override]
        return "Private Huber Regression" if self._bounded else self._family.title

    @property
    def _bounded(self) -> bool:
        """Whether the loss is Huber's."""
        return "huber" in self.parameters

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the coefficients, then the intercept if own units have one."""
        names = self.design.names
        constant = self.design.has_level if self._family.is_linear else self.with_intercept
        constant = constant and "survival" not in self.parameters  # which has a baseline instead
        return (*names, CONSTANT) if constant else names

    @cached_property
    def _goodness(self) -> Goodness | None:
        said = self.parameters.get("goodness")
        return None if said is None else Goodness(**said)

    def pseudo_rsquared(self, kind: PseudoKind = "cs") -> float:
        """How much the features raise the likelihood of a constant alone, as a share.

        Parameters
        ----------
        kind : {"cs", "mcf"}, default "cs"
            Cox and Snell's, 1 - exp(-2 (llf - llnull) / nobs), or McFadden's, 1 - llf / llnull.
            Noise may push them below 0.

        Returns
        -------
        float

        Raises
        ------
        RefusedError
            A ValueError: of least squares, which have `rsquared`; of McFadden's for counts, which
            takes their factorials; without inference; of units, weights, an offset or no
            intercept; or where the noise hides a direction.
        """
        return self._pseudo(kind)[0]

    def pseudo_rsquared_stderr(self, kind: PseudoKind = "cs") -> float:
        """Standard error of `pseudo_rsquared` about that of the rows at hand."""
        return self._pseudo(kind)[1]

    @property
    def prsquared(self) -> float:
        """McFadden's pseudo R squared."""
        return self._pseudo("mcf")[0]

    def _pseudo(self, kind: PseudoKind) -> tuple[float, float]:
        check_one_of(kind, "kind", get_args(PseudoKind))
        self._need_inference("sample")
        said = self.parameters.get("likelihood")
        if said is None:
            raise NotReleasedError(NO_LIKELIHOOD)
        if kind == "mcf" and said["null"] is None:
            raise NotReleasedError(NO_FACTORIALS)
        return LikelihoodGain(**said).share(kind)

    @property
    def nobs_stderr(self) -> float:
        """Standard error of `nobs`: 0 where the number of rows is public."""
        return float(self.parameters["rows_std"])

    @property
    def df_resid(self) -> float:
        """Rows less parameters, absorbed effects among them."""
        absorbed = int(self.parameters.get("absorbed_levels", 1)) - 1
        return self.n_rows - len(self.solution) - absorbed

    @property
    def cov_type(self) -> str:
        """What the standard errors assume: "HC1" that errors are independent, and no more."""
        if not self.robust:
            return "nonrobust"
        together = self.unit is not None or self._clusters is not None
        return "cluster" if together else "HC1"

    @property
    def _clusters(self) -> JsonObject | None:
        """The clusters in which errors go together, where these are not the units."""
        return self.parameters.get("clusters")

    @property
    def _df_denom(self) -> float:
        return self.df_resid if self._clusters is None else float(self._clusters["seen"] - 1)

    @property
    def _own_units(self) -> tuple[Matrix, Vector]:
        """The affine map from the solution (q,) to the k parameters: (k, q) and (k,)."""
        size = len(self.param_names)
        transform, level = self.design.transform[:size], self.design.offset[:size]
        if self._family.is_linear:
            return transform, level
        return transform / self.design.spread[-1], np.zeros(size)  # the predictor has no units

    def _derived(self) -> JsonObject:
        transform, level = self._own_units
        numbers = {"df_resid": self.df_resid, "scale": self.scale}
        return {
            "names": list(self.param_names),
            "transform": transform.tolist(),
            "offset": level.tolist(),
            **{name: x if math.isfinite(x) else None for name, x in numbers.items()},
        }

    def _contrasts(self, matrix: Matrix, estimand: Estimand = "population") -> Inference:
        if self.refusal is not None:
            return refuse(len(matrix), self.refusal)
        transform, level = self._own_units
        return self._of_solution(matrix @ transform, matrix @ level, estimand)

    def _of_solution(self, of_solution: Matrix, offset: Vector, estimand: Estimand) -> Inference:
        """Of linear forms of the solution, each with a constant."""
        known = self.noise + (self.sampling if estimand == "population" else 0.0)
        hidden = ((of_solution @ self.unidentified) * of_solution).sum(axis=1)
        covariance = of_solution @ (known + self.unidentified) @ of_solution.T
        estimate = of_solution @ self.solution + offset
        if self.parameters["purpose"] == "prediction":
            nothing = np.full_like(covariance, np.nan)
            return Inference(estimate, nothing, PREDICTIONS_ALONE, nothing.diagonal())
        # What is mostly hidden is open.
        is_open = hidden > ((of_solution @ known) * of_solution).sum(axis=1)
        covariance[is_open, is_open] = np.inf
        students = self._family.is_linear or self._clusters is not None
        students = students and estimand == "population"
        df = np.full(len(of_solution), self._df_denom if students else math.inf)
        return Inference(estimate, covariance, None, df)

    def predict(self, X: Features, which: Literal["mean", "linear"] = "mean") -> Vector:
        """Predict the target's mean for new rows, where an offset is 0.

        Parameters
        ----------
        X : DataFrame or mapping of str to array_like
            The variables of the features, in their own units. Values are clamped to their bounds.
        which : {"mean", "linear"}, default "mean"
            Means: in the target's units, or probabilities of family "binomial"; or linear
            predictors, log odds of it and logarithms of means of "poisson".

        Returns
        -------
        ndarray of shape (m,), float64
        """
        check_one_of(which, "which", ("mean", "linear"))
        if self.refusal is not None:
            raise RefusedError(f"there is no fit: {self.refusal}")
        linear = np.asarray(self._rows(X) @ self._estimate)
        return linear if which == "linear" else self._family.means(linear)[0]

    def effects(self, alpha: float = 0.05, estimand: Estimand = "population") -> DataFrame:
        """Effects of the levels of a factor of thousands, less their mean over rows.

        Of a factor of more than a thousand levels that stands by itself: `params` then have their
        mean, as the intercept.

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].
        estimand : {"population", "sample"}, default "population"
            What intervals are of.

        Returns
        -------
        DataFrame or ndarray of shape (K, 4), float64
            "effect", "std err", "lower" and "upper" by level. Of a level that the noise hides
            they are NaN and infinite.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference, or effects are coefficients or absorbed.
        """
        check_one_of(estimand, "estimand", get_args(Estimand))
        level = level_of(alpha)
        if self.refusal is not None or self.by_level is None:
            elsewhere = "effects of levels are coefficients, or absorbed after | and not known"
            raise RefusedError(self.refusal or elsewhere)
        population, apart = estimand == "population", self.by_level[:, 3:]
        effect, sampling, noise = self.by_level[:, :3].T
        slopes = slice(apart.shape[1])
        known = self.noise + (self.sampling if population else 0.0)
        of_slopes, hidden = (
            ((apart @ matrix[slopes, slopes]) * apart).sum(axis=1)
            for matrix in (known, self.unidentified)
        )
        own = of_slopes + noise + (sampling if population else 0.0)
        error = np.sqrt(np.where((noise > 0) & (hidden <= own), own + hidden, np.inf))
        spread = self.design.spread[-1]
        half = students(level, self._df_denom if population else math.inf) * error
        effect = np.where(np.isinf(error), np.nan, effect)
        middle = np.nan_to_num(effect)
        table = np.column_stack([effect, error, middle - half, middle + half]) * spread
        labels = as_factor(self.parameters["absorbed"], self.columns.variables).names
        return framed(table, labels, ["effect", "std err", "lower", "upper"])

    @property
    def scale(self) -> float:
        """About the variance of the errors, in the target's units, squared: as the rounds tell.

        1 of other families than "gaussian", and NaN where inference is refused.
        """
        if self.refusal is not None:
            return math.nan
        if not self._family.is_linear:
            return 1.0
        square = (self.parameters["scale"] * self.design.spread[-1]) ** 2
        return float(square * self.n_rows / self.df_resid)

    #: By statsmodels' other name.
    mse_resid = scale

    def _facts(self) -> dict[str, str]:
        family, link = self._family.name.title(), self._family.link
        model = {} if self._family.is_linear else {"Model Family": family, "Link": link}
        if (goodness := self._goodness) is not None and self.refusal is None:
            model["R-squared"] = shown_share(goodness.rsquared, goodness.stderr)
        if said := self.parameters.get("likelihood"):
            kind: PseudoKind = "cs" if said["null"] is None else "mcf"
            name = "Pseudo R-squ." + " (CS)" * (kind == "cs")
            model[name] = shown_share(*LikelihoodGain(**said).share(kind))
        return {
            "Method": METHODS[self.parameters["method"]],
            **row_facts(self.n_rows, self.nobs_stderr, self.unit, self.parameters["units"]),
            "Covariance Type": self.cov_type,
            "Epsilon": f"{self.epsilon:g}",
            "Delta": f"{self.delta:g}",
            "Adjacency": self.adjacency,
            **model,
        }

    @property
    def _caution(self) -> str | None:
        return caution_of(self.parameters) if self.parameters["purpose"] == "inference" else None

    def _assumes(self) -> list[str]:
        what = "errors of equal variance" if self._family.is_linear else "that the model holds"
        if self.unit is not None and self._family.is_linear:
            what += f", independent also of rows of one {shown(self.unit)}"
        equal = "" if self.robust else f" They assume {what}."
        if self._clusters is not None:
            equal = (
                f" They let errors go together in the {self._clusters['seen']} clusters of "
                f"{shown(self._clusters['groups'])} that are seen, by Student's law with a degree "
                "of freedom less."
            )
        clipping = " and" if self._bounded else ","
        parts = f"sampling{clipping} privacy noise{'' if self._bounded else ' and clipping'}"
        return [f"Standard errors cover {parts}.{equal}"]

    def _notes(self) -> list[str]:
        notes = []
        if self.unit is not None:
            notes.append(
                f"All rows of one {shown(self.unit)} are protected together. Those of one that has "
                "many, or rows far out, are scaled down: Weighted Rows, and nobs, may be fewer "
                "than the table has."
            )
            if self.parameters.get("unit_effects"):
                notes.append(
                    f"Means by {shown(self.unit)} are taken off: slopes are those with an effect "
                    "for each, and the intercept is their mean over these rows."
                )
        what = "row" if self.unit is None else "unit"
        rows = self.parameters["clipped_rows"]
        if self.parameters["method"] != "scores":
            notes.append(f"Not by scores: {self.parameters['reason']}.")
        if self._bounded:
            error, leverage = (self.parameters["huber"][name] for name in ("error", "leverage"))
            notes.append(
                f"Huber's loss: errors count up to {error:g} scales, and rows whose whitened "
                f"features are longer than {leverage:.3g} weigh less. Coefficients are those of "
                "least squares where errors are symmetric."
            )
        elif self.parameters["method"] == "scores" and self.refusal is None:
            said = f"1 {what} says" if round(rows) == 1 else f"{rows:,.0f} {what}s say"
            clipped = f"What about {said} was cut down to the most that one may say."
            if rows < 0.5:
                clipped = f"No {what}s seem to say more than one may, and none was cut down."
            if self.parameters["purpose"] == "inference":
                clipped += (
                    " Intervals allow for the bias by a multiple of the noise; a few extreme "
                    "outliers that all pull one way could shift estimates further."
                )
            notes.append(clipped)
        if offset := self.parameters.get("offset"):
            notes.append(
                f"{shown(offset)} is added to the linear predictor. Predictions leave it out: they "
                "are where it is 0."
            )
        if absorbed := self.parameters.get("absorbed"):
            where = "taken along and not shown" if self.by_level is None else "in effects()"
            notes.append(
                f"Effects of {self.parameters['absorbed_levels']:,} levels of {shown(absorbed)} "
                f"are {where}: the intercept is their mean over rows, where predictions are."
            )
        if hidden := self.parameters.get("hidden_levels"):
            wide = "errors are as wide as the bounds of the target"
            wide = wide if self.by_level is None else "intervals have no ends"
            notes.append(
                f"{hidden:,} levels have too few rows to be seen beside the noise. Their effects' "
                f"{wide}."
            )
        is_shown = self.inference.refusal is None
        notes += differences(self.design, self._ends(0.05) if is_shown else None)
        if self.reproducible:
            notes.append("Reproducible: the fit is not private against who knows its seed.")
        return notes

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.design.names))
        kind = "Fit" if self._family.is_linear else self._title.removeprefix("Private ")
        text = f"{kind} of {shown(self.target)} on {names}: {self.proof_status}"
        return self._shown(text + "; REPRODUCIBLE" * self.reproducible)

    @classmethod
    def _parts(cls, header: JsonObject) -> JsonObject:
        columns, terms = Columns.from_dict(header["columns"]), tuple(header["terms"])
        absorbed = tuple(header["absorbed"])
        return header | {"columns": columns, "terms": terms, "absorbed": absorbed}

    def _check(self) -> None:
        q = len(self.solution)
        if self.design.intercept != self.with_intercept or self.design.transform.shape[1] != q:
            raise ValueError("the terms are others than those of the solution")
        shapes = dict.fromkeys(self._format.arrays, (q, q)) | {"solution": (q,)}
        if self.by_level is None:
            del shapes["by_level"]
        else:
            factor = as_factor(self.parameters["absorbed"], self.columns.variables)
            shapes["by_level"] = (len(factor), 2 + q)
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}")
            check_sizes(**{name: array})
        if self.family not in FAMILIES:
            raise ValueError("no such family")
        if type(self.robust) is not bool:
            raise ValueError("robust is true or false")
        check_one_of(self.parameters["method"], "method", METHODS)
        if not isinstance(self.parameters["reason"], str):
            raise ValueError("a reason is a sentence")
        if self._clusters is not None:
            check_integer(self._clusters["seen"], "seen", 2)
            check_not_negative(self._clusters["ratio"], "ratio")
            if not isinstance(self._clusters["groups"], str):
                raise ValueError("groups are a column's")
        for name in ("clipped_rows", "rows_std"):
            check_not_negative(self.parameters[name], name)
        if self.parameters["units"] is not None:
            check_integer(self.parameters["units"], "units", 0, 2**63 - 1)
        if self.refusal is None and self.parameters["purpose"] == "inference":
            self._check_errors()
        json.dumps(self._header(), allow_nan=False)
        with np.errstate(all="ignore"):
            str(self.summary())

    def _check_errors(self) -> None:
        """Raise unless standard errors may be those of a fit with this ratio of the guarantee.

        Noise hides a row, and of n rows one has at least an nth of the sum of their squares, which
        is what sampling errors are of: so noise has about 1 / (n ratio^2) of their variance at
        least. A hundredth of that is asked for, as clipped rows are shorter.
        """
        if self.df_resid <= 0:
            raise ValueError("the rows are too few for standard errors")
        sampling = self.sampling.diagonal()
        # Between levels that the noise hides all of the error is noise, as wide as the bounds.
        is_hidden = (sampling == 0) & (self.noise.diagonal() >= 1)
        if not ((sampling > 0) | is_hidden).all():
            raise ValueError("a variance is not positive")
        assert isinstance(self.privacy, GaussianProfile)
        part = 0.01 / (self.n_rows * self.privacy.sensitivity_ratio**2)
        try:
            np.linalg.cholesky(self.noise - part * self.sampling)
        except np.linalg.LinAlgError:
            raise ValueError("the covariance has less noise than the guarantee needs") from None
