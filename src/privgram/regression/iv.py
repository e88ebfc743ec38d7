"""Regression with instruments on a release: the k-class, of two-stage least squares and LIML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from privgram._base.numbers import Matrix, Vector, check_not_negative, check_number
from privgram._base.text import shown
from privgram.columns.terms import parse_one, parse_terms
from privgram.regression.design import Described, Design, RegressionTerms
from privgram.regression.diagnostics import caveats
from privgram.regression.hypothesis import WaldTest, check_numbers, verdict, wald
from privgram.regression.inference import (
    ALL_OPEN,
    Equations,
    Estimand,
    Inference,
    clipping_refusal,
    degrees_behind,
    level_of,
    refuse,
    rows_behind,
)
from privgram.regression.least_squares import design_of
from privgram.regression.results import OfRelease
from privgram.regression.saved import check_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from privgram._base.saved import JsonObject
    from privgram.releases.record import ReleaseRecord


#: k of the k-class, or that which makes it limited-information maximum likelihood.
KClass: TypeAlias = "float | Literal['liml']"

#: Beyond it the estimate is that of its limit, and the digits that tell it from that are lost.
MOST_KAPPA = 1e6

#: Instruments are said to be weak below this F in a first stage [Staiger and Stock 1997].
WEAK = 10.0

#: Values that are tried for the ends of an Anderson-Rubin set, on the whole line.
TRIED = 201


@dataclass(frozen=True, eq=False)
class ScoreSolution:
    """Coefficients of a design by scores, which know them better than the release does.

    `sampling` and `noise` (p, p) are their covariances, of a sample and of privacy with what
    clipping may have moved; `parameters` say how they came about.
    """

    coef: Vector  # (p,)
    sampling: Matrix
    noise: Matrix
    parameters: JsonObject

    def to_dict(self) -> JsonObject:
        """Plain values for a file."""
        arrays = ("coef", "sampling", "noise")
        return {name: getattr(self, name).tolist() for name in arrays} | {
            "parameters": self.parameters
        }

    @classmethod
    def from_dict(cls, values: JsonObject, size: int) -> ScoreSolution:
        """Rebuild what `to_dict` gave of so many coefficients."""
        names = {"coef": (size,), "sampling": (size, size), "noise": (size, size)}
        arrays = {name: np.array(values[name], dtype=np.float64) for name in names}
        if any(arrays[name].shape != shape for name, shape in names.items()):
            raise ValueError("scores are of other coefficients")
        check_sizes(**arrays)
        for name in ("sampling", "noise"):
            np.linalg.cholesky(arrays[name])  # LinAlgError is a ValueError
        if set(values) != {*names, "parameters"} or not isinstance(values["parameters"], dict):
            raise ValueError("scores have other parts")
        return cls(**arrays, parameters=values["parameters"])


@dataclass(frozen=True, eq=False)
class IVResults(OfRelease):
    """A regression with instruments, in the columns' own units.

    Attributes
    ----------
    endogenous : tuple of str
        Those of the features that may depend on the error.
    instruments : tuple of str
        The q columns that stand in for them.
    kappa : float
        Of the k-class: 1 for two-stage least squares, and 0 for least squares.
    release : Release
    design : Design
        Of the features and the target.
    without : str or None
        Why there is no estimate, or None.
    question : RegressionTerms
        What was asked for.
    k : float or "liml"
        Which `kappa` was asked for.
    not_scores : str or None
        Why `privgram.Study.regress` took a release; None of a regression on one.
    scores : ScoreSolution or None
        The estimate by scores, where `privgram.Study.regress` took these: the release is then of
        the first stage, and tests of it, of instruments and of weak ones are by it alone.
    """

    endogenous: tuple[str, ...]
    instruments: tuple[str, ...]
    kappa: float
    n_rows: float | None
    release: ReleaseRecord
    design: Design
    without: str | None
    question: RegressionTerms
    k: KClass
    _instrument_images: Matrix = field(repr=False)
    _equations: _KClass = field(repr=False)
    not_scores: str | None = None
    scores: ScoreSolution | None = None

    _title = "Private Regression with Instruments"
    _minimises_squares = False

    _instead = (
        "Of the same release, regress(..., ridge='auto') has predictions, which need no instruments"
    )

    @property
    def _asked(self) -> JsonObject:  # type: ignore[override]
        asked: JsonObject = {"kappa": self.k}
        return asked if self.scores is None else asked | {"scores": self.scores.to_dict()}

    @property
    def _unanswered(self) -> str | None:
        return self.without

    @property
    def rsquared(self) -> float:
        """1 - squares of y - x^T params over those of y about its mean: it may be negative."""
        return self._goodness.rsquared

    def _contrasts(self, matrix: Matrix, estimand: Estimand = "population") -> Inference:
        if self.scores is not None and self.without is None:
            return self._by_scores(self.scores, matrix, estimand)
        if estimand == "sample" and (reason := clipping_refusal(self.release)):
            return refuse(len(matrix), reason)
        return super()._contrasts(matrix, estimand)

    def _by_scores(self, scores: ScoreSolution, matrix: Matrix, estimand: Estimand) -> Inference:
        """Of matrix @ params: the noise of A, by which steps went, grows with their distance."""
        size, moments = len(self.param_names), self._equations
        transform = matrix @ self.design.transform[:size]
        covariance = scores.noise + (scores.sampling if estimand == "population" else 0.0)
        of_contrasts = transform @ covariance @ transform.T
        stderr = np.sqrt(of_contrasts.diagonal())
        unit = np.where(stderr > 0, stderr, 1.0)[:, None]
        rows = transform @ moments.inverse @ moments.weights / unit
        moved = np.pad(
            transform @ covariance / unit, [(0, 0), (0, len(moments.shifted) - moments.size)]
        )
        pairs = np.stack([rows, moved], axis=1)
        curvature = moments.law.entry_variance(moments.shifted, pairs)[:, 0, 1]
        df = np.full(len(stderr), self.df_resid if estimand == "population" else math.inf)
        estimate = transform @ scores.coef + matrix @ self._offset[:size]
        return Inference(estimate, of_contrasts, None, df, 0.0, curvature)

    @property
    def cov_type(self) -> str:
        """What the standard errors assume: "HC1", by scores, that errors are independent."""
        robust = self.scores is not None and self.scores.parameters["robust"]
        return "HC1" if robust else "nonrobust"

    @property
    def parameters(self) -> JsonObject:  # type: ignore[override]
        """How it came about: "method" and "reason", and what is public of the noise."""
        if self.scores is None:
            return super().parameters
        how = {"method": "scores", "reason": "", "scores": self.scores.parameters}
        return self.release.parameters | how

    def _need_moments(self) -> None:
        """Raise if the fit is refused for more than that no coefficient has an end.

        What these tests ask holds its level where instruments are weak, or noise makes them so.
        """
        if self.refusal != ALL_OPEN:
            self._need_inference()

    @cached_property
    def first_stage(self) -> dict[str, WaldTest]:
        """For each endogenous column the F test that no instrument explains it."""
        self._need_moments()
        moments = self._equations
        return {
            name: moments.excluded(moments.column(i), self.instruments)
            for i, name in enumerate(self.endogenous)
        }

    @cached_property
    def overidentification(self) -> WaldTest | None:
        """Sargan's test that the instruments agree; None where there are no more than needed."""
        self._need_moments()
        if len(self.instruments) == len(self.endogenous):
            return None
        return verdict(("E[z e] = 0",), *self._equations.sargan())

    @property
    def caution(self) -> str | None:
        """What to do about instruments that are weak, or that noise makes weak; or None."""
        weak = [name for name, test in self.first_stage.items() if test.fvalue < WEAK]
        if not weak:
            return None
        return (
            f"the instruments say little of {', '.join(map(shown, weak))} beside sampling and "
            f"privacy noise (F below {WEAK:g}): estimates lean towards least squares, and errors "
            "are too small. Use anderson_rubin(), which holds its level"
        )

    def anderson_rubin_test(self, *values: float) -> WaldTest:
        """Test that the endogenous columns' coefficients have these values: 0 by default.

        It holds its level however weak the instruments are [1]_.

        References
        ----------
        .. [1] Anderson, Rubin, "Estimation of the parameters of a single equation in a complete
           system of stochastic equations", Ann. Math. Statist. 20 (1949).
        """
        self._need_moments()
        if values and len(values) != len(self.endogenous):
            raise ValueError(f"give {len(self.endogenous)} values, one for each endogenous column")
        wanted = np.zeros(len(self.endogenous))
        if values:
            wanted[:] = [check_number(value, "a value") for value in values]
        check_numbers(wanted)
        scaled = self._to_scaled(wanted)
        hypothesis = tuple(
            f"{name} = {x:g}" for name, x in zip(self.endogenous, wanted, strict=True)
        )
        return self._equations.excluded(self._equations.target(scaled), hypothesis)

    def anderson_rubin(self, alpha: float = 0.05) -> list[tuple[float, float]]:
        """Values of the one endogenous column's coefficient that `anderson_rubin_test` accepts.

        Parameters
        ----------
        alpha : float, default 0.05
            1 - level, in (0, 0.5].

        Returns
        -------
        list of tuple of float
            Intervals, in ascending order. None where all values are rejected; ends are infinite
            where the instruments leave the coefficient open.

        Raises
        ------
        ValueError
            If `alpha` is out of its range, or there are several endogenous columns: test points
            with `anderson_rubin_test`.
        """
        from scipy.optimize import brentq

        self._need_inference()
        if len(self.endogenous) != 1:
            raise ValueError("a set is given for one endogenous column; test values of several")
        level_of(alpha)  # which checks it
        unit, center = self.inference.stderr[0], self.inference.estimate[0]

        def excess(angle: float) -> float:
            value = center + unit * math.tan(angle)
            return self.anderson_rubin_test(value).pvalue - alpha

        angles = np.linspace(-math.pi / 2 + 1e-6, math.pi / 2 - 1e-6, TRIED)
        inside = [excess(angle) for angle in angles]
        edges = [
            float(center + unit * math.tan(brentq(excess, angles[i], angles[i + 1])))
            for i in range(TRIED - 1)
            if (inside[i] >= 0) != (inside[i + 1] >= 0)
        ]
        ends = [-math.inf] * (inside[0] >= 0) + edges + [math.inf] * (inside[-1] >= 0)
        return list(zip(ends[::2], ends[1::2], strict=True))

    def _to_scaled(self, values: Vector) -> Vector:
        """Coefficients of the design's endogenous columns, of those in own units."""
        size = len(self.endogenous)
        block = self.design.transform[:size]
        if block[:, size:].any():
            raise ValueError(
                "endogenous columns are numbers or levels, without powers: release the power as a "
                "column of its own"
            )
        return np.asarray(np.linalg.solve(block[:, :size], values - self.design.offset[:size]))

    def _facts(self) -> dict[str, str]:
        method = "LIML" if self.k == "liml" else f"k-class, {self.k:.4g}"
        if self.k == 1:
            method = "2SLS"
        by_scores = {} if self.scores is None else {"Covariance Type": self.cov_type}
        return super()._facts() | {"Method": method} | by_scores

    def _assumes(self) -> list[str]:
        if self.scores is None:
            return super()._assumes()
        equal = "" if self.cov_type == "HC1" else " They assume errors of equal variance."
        return [f"Standard errors cover sampling, privacy noise and clipping.{equal}"]

    def _notes(self) -> list[str]:
        notes = [*self._way(), *caveats(self.release, self.n_rows, self.design)]
        if self.scores is not None:
            rows = self.scores.parameters["clipped_rows"]
            notes = [
                f"By scores: what about {rows:,.0f} rows say was cut down to the most that one may "
                "say, and intervals allow for that by a multiple of the noise. Tests of the first "
                "stage and of the instruments are on the release that came before."
            ]
        notes.append(f"Endogenous: {', '.join(map(shown, self.endogenous))}.")
        if self.refusal is None:
            tests = [(f"First stage of {name}", test) for name, test in self.first_stage.items()]
            if self.overidentification is not None:
                tests.append(("Overidentification", self.overidentification))
            notes += [
                f"{shown(name)}: {'F' if test.df_denom < math.inf else 'chi2'} = "
                f"{test.statistic:.4g} with {test.df} degrees of freedom, p = {test.pvalue:.3g}."
                for name, test in tests
            ]
            if self.caution is not None:
                notes.append(f"{self.caution[0].upper()}{self.caution[1:]}.")
        return notes

    def __repr__(self) -> str:
        return self._shown(f"IVResults of {shown(self.target)} by {self._facts()['Method']}")


@dataclass(frozen=True, eq=False, kw_only=True)
class _KClass(Equations):
    """Second moment of features W, instruments and target, in the scale of the release.

    The columns are in the order: endogenous, exogenous (with the ones), excluded instruments,
    target. First stages are `kappa` of the instruments', and the rest of the features themselves.
    """

    n_endogenous: int
    n_features: int
    kappa: float = 1.0

    @property
    def size(self) -> int:
        return self.n_features

    @property
    def w(self) -> slice:
        return slice(0, self.n_features)

    @property
    def z(self) -> slice:
        """What is exogenous, instruments included."""
        return slice(self.n_endogenous, len(self.shifted) - 1)

    def column(self, place: int) -> Vector:
        row = np.zeros(len(self.shifted))
        row[place] = 1.0
        return row

    def target(self, values: Vector) -> Vector:
        """The target less values times the endogenous columns."""
        row = self.column(-1)
        row[: self.n_endogenous] = -values
        return row

    def equations(self, goal: Vector) -> Equations:
        """Least squares of an image of the columns on what is exogenous."""
        images = np.vstack([np.eye(len(goal))[self.z], goal])
        law = self.law.image(images)
        return Equations(law, images @ self.shifted @ images.T, self.n_rows)

    @cached_property
    def reduced(self) -> Equations:
        return self.equations(self.column(-1))

    def excluded(self, goal: Vector, hypothesis: tuple[str, ...]) -> WaldTest:
        """The F test that instruments do not explain an image of the columns."""
        equations = self.equations(goal)
        size, n_excluded = equations.size, len(self.shifted) - 1 - self.n_features
        contrasts = np.eye(n_excluded, size, size - n_excluded)
        return verdict(
            hypothesis, *wald(equations, contrasts, np.zeros(n_excluded)), equations.df_resid
        )

    @property
    def liml(self) -> float:
        """The least ratio of squares of target and endogenous columns, left by either stage."""
        from scipy.linalg import eigh

        some = [*range(self.n_endogenous), len(self.shifted) - 1]
        exogenous = slice(self.n_endogenous, self.n_features)
        left = [self._left(some, columns) for columns in (exogenous, self.z)]
        return float(eigh(*left, eigvals_only=True)[0])

    def _left(self, some: list[int], columns: slice) -> Matrix:
        """Second moment of some columns, less what others explain of them."""
        m = self.matrix
        cross = m[some, columns]
        return m[np.ix_(some, some)] - cross @ np.linalg.solve(m[columns, columns], cross.T)

    @cached_property
    def weights(self) -> Matrix:
        """L of the k-class."""
        m = self.matrix
        weights = np.zeros((self.n_features, len(m)))
        weights[:, self.z] = self.kappa * np.linalg.solve(m[self.z, self.z], m[self.z, self.w]).T
        weights[:, self.w] += (1 - self.kappa) * np.eye(self.n_features)
        return weights

    def sargan(self) -> tuple[float, int]:
        """Statistic and degrees of freedom of the overidentification test."""
        assert self.n_rows is not None
        m = self.matrix
        moments = m[self.z] @ self.v
        # What estimating theta leaves of the errors of the moments.
        rest = np.eye(len(m))[self.z] - m[self.z, self.w] @ self.inverse @ self.weights
        errors = self.sandwich.copy()
        errors[self.z, self.z] += self.squares / self.n_rows * m[self.z, self.z]
        covariance = rest @ errors @ rest.T
        df = len(moments) - self.n_features
        values, vectors = np.linalg.eigh(covariance)
        rotated = vectors[:, -df:].T @ moments
        return float((rotated**2 / values[-df:]).sum()), df


def iv(
    release: ReleaseRecord,
    target: str,
    endogenous: Iterable[str] = (),
    instruments: Iterable[str] = (),
    exogenous: Iterable[str] = (),
    *,
    kappa: KClass = 1.0,
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
) -> IVResults:
    """Regression with instruments for columns that depend on the error.

    Parameters
    ----------
    release : Release
    target : str
        Or a formula that says it all, such as ``"y ~ x | d ~ z"`` or ``"y ~ x + [d ~ z]"``.
    endogenous : iterable of str
        Columns whose effect is wanted and which may depend on the error.
    instruments : iterable of str
        At least as many columns (or terms) that act on the target through them alone.
    exogenous : iterable of str
        Columns or terms that enter the equation as they are.
    kappa : float or "liml", default 1
        Of the k-class, a million at most: 1 is two-stage least squares, 0 least squares, and
        "liml" has it from the release: limited-information maximum likelihood, which is nearer to
        the middle where instruments are many or weak.
    intercept : bool
        Use the column of ones, if the release has one.
    reference : mapping of str to level, optional
        As in `regress`.

    Returns
    -------
    IVResults
        Refused, with NaN, where the released matrix is not positive definite on the instruments.

    Raises
    ------
    ValueError
        For an unknown column, one in two roles, or fewer instruments than endogenous columns.

    Notes
    -----
    With A the first stages' coefficients and v = (-theta, 1) on the features W and the target, ::

        A M_ZW (estimate - theta) = A (Z^T e + (N v)_Z)

    to first order: the noise in A multiplies moments that are zero in expectation.
    Errors are taken to have equal variance.
    """
    roles = map(_names, (exogenous, endogenous, instruments))
    if "~" in target:
        if any(roles):
            raise ValueError("a formula names all columns: leave the others out")
        parsed = parse_one(target)
        parsed.check_absorbed(release.variables)
        parsed.check_no_offset()
        return fit_iv(release, RegressionTerms.of(parsed, intercept, reference), kappa)
    features, *instrumented = roles
    terms = RegressionTerms(target, features, intercept, reference or {}, (), *instrumented)
    return fit_iv(release, terms, kappa)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def fit_iv(release: ReleaseRecord, question: RegressionTerms, kappa: KClass = 1.0) -> IVResults:
    """What was asked of `iv`, read and named."""
    if kappa != "liml":
        kappa = check_not_negative(kappa, 'kappa, if it is not "liml",')
        if kappa > MOST_KAPPA:
            raise ValueError(f"kappa is {MOST_KAPPA:g} at most, not {kappa:g}")
    roles = Roles.of(release, partial(design_of, release), question)
    design = roles.design
    images = np.vstack([design.images[:-1], roles.instrument_images, design.images[-1:]])
    moments = _KClass(
        release.noise.image(images),
        images @ release.matrix @ images.T,
        degrees_behind(release, rows_behind(release)),
        n_endogenous=len(roles.endogenous),
        n_features=len(design.images) - 1,
    )
    without = None
    try:
        np.linalg.cholesky(moments.matrix[moments.z, moments.z])
        moments = replace(moments, kappa=moments.liml if kappa == "liml" else kappa)
    except np.linalg.LinAlgError:
        without = (
            "the released matrix is not positive definite on these columns: its noise exceeds "
            "the signal. Use fewer instruments, more rows or a larger epsilon"
        )
    return IVResults(
        endogenous=roles.endogenous,
        instruments=roles.instruments,
        kappa=math.nan if without else moments.kappa,
        n_rows=rows_behind(release),
        release=release,
        design=design,
        without=without,
        question=question,
        k=kappa,
        _instrument_images=roles.instrument_images,
        _equations=moments,
    )


@dataclass(frozen=True, eq=False)
class Roles:
    """Which columns are endogenous and which are instruments, of release or description."""

    design: Design  # of the target on the endogenous columns, which are first, and the exogenous
    endogenous: tuple[str, ...]
    instruments: tuple[str, ...]
    instrument_images: Matrix  # (k, d), the instruments as images of the columns

    @classmethod
    def of(
        cls,
        described: Described,
        design_for: Callable[[RegressionTerms], Design],
        question: RegressionTerms,
    ) -> Roles:
        """Find the columns of terms, of which `design_for` makes the target's designs."""
        of_roles = question.endogenous, question.instruments, question.features or ()
        endogenous, instruments, exogenous = (_labels(described, names) for names in of_roles)
        every = [*endogenous, *instruments, *exogenous]
        if len(set(every)) < len(every):
            raise ValueError(
                "a column has one role, endogenous, instrument or exogenous: name each once"
            )
        if not endogenous:
            raise ValueError("name an endogenous column, or use regress")
        design, whole = (
            design_for(replace(question, features=tuple(names)))
            for names in ([*endogenous, *exogenous], every)
        )
        places = [i for name in instruments for i in whole.places([name])]
        size = max(design.places(endogenous)) + 1
        if len(places) < size:
            raise ValueError(
                f"{size} endogenous columns need as many instruments, not {len(places)}: name more "
                "instruments, or move endogenous columns to the exogenous ones"
            )
        names = tuple(whole.names[i] for i in places)
        return cls(design, design.names[:size], names, whole.images[places])


def _labels(described: Described, names: Iterable[Any]) -> list[str]:
    """Terms as a design calls them; released columns as they are."""
    columns = described.columns
    if columns is None:
        return list(names)
    labels: list[str] = []
    for name in names:
        terms = [] if name in described.names else parse_terms([name], columns.variables)
        labels += [term.label(columns.variables) for term in terms] or [name]
    return labels
