"""Linear regression on a released second moment: post-processing, no further budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.checks import (
    MAX_BOUND,
    MIN_BOUND,
    check_not_negative,
    check_positive,
)
from privgram._base.optional import extra
from privgram._base.text import shown
from privgram.regression.design import Design, intercept_of
from privgram.regression.design import design as terms_design
from privgram.regression.estimates import Estimates
from privgram.regression.inference import (
    INTERCEPT,
    Inference,
    infer,
    refuse,
    rows_behind,
    why_unknown,
)
from privgram.regression.robust import meat_of, plan_look
from privgram.regression.summary import FitTable, tabulate
from privgram.regression.testing import WaldTest, wald

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from privgram._release.record import ReleaseRecord
    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency, Guarantee, Profile

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["Fit", "RefusedError", "WaldTest", "lasso", "regress"]

#: Columns are said to depend on each other where a direction of the features is within so many
#: standard deviations of nothing though all others exceed so many.
NOTHING, RESOLVED = 2.0, 10.0

#: More columns than this are not named in an error.
MOST_NAMED = 8

#: Squares of a release's entries must neither overflow nor vanish.
MIN_ENTRY = 1e-150

#: First penalty of the lasso's path, in the units in which scikit-learn is called.
LARS_FIRST = 1e8


class RefusedError(ValueError):
    """A regression that this release cannot answer, though it was asked for rightly."""


@dataclass(frozen=True, eq=False)
class Fit(Estimates):
    """A linear regression on a release, in the columns' own units.

    Attributes
    ----------
    target : str
    names : tuple of str
        The p features, without the intercept.
    coef : ndarray of shape (p,), float64
        Target units per feature unit.
    intercept : float
        Target units.
    ridge : float, "auto" or ndarray of shape (p,)
        Penalty added to the released matrix (in its scale), not on the intercept.
    stderr : ndarray of shape (p,), float64
        Standard errors of the unpenalised coefficients, from sampling and
        privacy noise together; NaN where `refusal` says why.
    stderr_intercept : float
    covariance : ndarray of shape (p, p), float64
    refusal : str or None
        Why there is no inference, or None.
    params, bse, tvalues, pvalues : ndarray of shape (p,) or (p + 1,), float64
        What inference is about, as statsmodels names it: estimates, standard errors, z
        statistics and P values in the order of `param_names`, the intercept last.
    n_rows : float or None
        Rows behind the fit: public, or estimated from the release; those with missing
        values that were dropped do not count.
    release : Release
        What it was computed from.
    design : Design
        The columns of the release that were used, and the way to own units.
    unclip : bool
        Whether the effect of clipping was taken off, as if the rows were normal.
    clipping : ndarray of shape (q,), float64, or None
        What was taken off, of the coefficients of the design's columns.
    caution : str or None
        What to do about columns that seem to depend on each other, or None.
    without : str or None
        Why a fit of this kind has no inference, or None.
    look : Release or None
        The second look at the table by which standard errors are robust, if one was taken.
    """

    target: str
    names: tuple[str, ...]
    coef: Vector
    intercept: float
    ridge: float | str | Vector
    n_rows: float | None
    release: ReleaseRecord
    design: Design
    clipping: Vector | None = None
    without: str | None = None
    look: ReleaseRecord | None = None

    def __post_init__(self) -> None:
        self.coef.flags.writeable = False

    @cached_property
    def inference(self) -> Inference:
        """Estimates and their errors, the intercept last: when first asked for."""
        reason = self.without or _pinned(self.release, self.design)
        if reason is not None:
            return refuse(len(self.design.transform), reason)
        law, block = self.design.block(self.release)
        meat = None
        if self.look is not None and self.n_rows is not None:
            meat = meat_of(self.look, self.n_rows)
        design = self.design
        found = infer(self.release, law, block, design.transform, design.offset, meat)
        if self.clipping is None:
            return found
        return replace(found, estimate=found.estimate - self.design.transform @ self.clipping)

    @property
    def unclip(self) -> bool:
        """Whether the effect of clipping was taken off, as if the rows were normal."""
        return self.clipping is not None

    @cached_property
    def caution(self) -> str | None:
        """What to do about columns that seem to depend on each other, or None.

        Not refused: which releases look like that turns on their noise, and intervals that are
        offered by it would hold less than their level (docs/theory/inference.md).
        """
        return _dependent(self.release, self.design)

    @property
    def epsilon(self) -> float:
        """Epsilon of all that the fit was computed from, at `delta`.

        With a second look composed if all noise is Gaussian, and else the sum, which is more than
        ``privacy.epsilon(delta)``: that can take minutes.
        """
        from privgram.privacy.composition import ONE_GAUSSIAN

        total = self.release.epsilon + (0.0 if self.look is None else self.look.epsilon)
        if self.look is None or not isinstance(self.privacy, ONE_GAUSSIAN):
            return total
        return min(total, self.privacy.epsilon(self.delta))

    @property
    def delta(self) -> float:
        """Delta of all that the fit was computed from."""
        return self.release.delta + (0.0 if self.look is None else self.look.delta)

    @property
    def privacy(self) -> Profile:
        """Profile of all that the fit was computed from."""
        from privgram.privacy import compose

        if self.look is None:
            return self.release.privacy
        return compose([self.release, self.look])

    @property
    def guarantee(self) -> Guarantee:
        """How well `privacy` is founded: as its weakest part."""
        return self.privacy.guarantee

    @property
    def param_names(self) -> tuple[str, ...]:
        """Names of `params`: the features, then the intercept if the fit has one."""
        return (*self.names, INTERCEPT) if self._has_intercept else self.names

    def robust(
        self,
        source: Any,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | None = None,
        *,
        clip: float | None = None,
        ledger: Ledger | None = None,
        threads: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> Fit:
        """Standard errors for errors of unequal variance, by a further look that is charged.

        The table is read once more, and the sum of e^2 x x^T released, e the residuals and x the
        features of a row. Estimates stay as they are.

        Parameters
        ----------
        source : table
            The one that was released, in any form that `privgram.release` reads; columns, their
            bounds and the bound of a row are the release's.
        epsilon, delta : float
            The guarantee of this look alone, > 0 and in (0, 1). `Fit.epsilon` and `Fit.delta`
            are of both.
        adjacency : {"replace", "add-remove"}, optional
            Must be the release's, which it is by default.
        clip : float, optional
            Residuals count as at most so much, in the target's units, > 0; public. By default as
            much as the look's noise allows, and at least four standard deviations of them, all
            judged by the release. Clipping makes standard errors smaller, never larger.
        ledger : Ledger, optional
            Budget to enter the look in, durably, before its noise is drawn.
        threads : int, optional
            As in `privgram.second_moment`.
        rng : numpy.random.Generator, optional
            For experiments only. By default a cryptographic generator.

        Returns
        -------
        Fit
            With the variance HC1 [1]_ and the privacy noise of both looks in all of its
            inference, and with `look`. They err on the wide side where the noise is large.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference, or noise would drown all of it.
        ValueError
            If a parameter is out of its range, the table cannot be read again or is another one,
            or the ledger has no room. Nothing is spent then.
        TypeError
            If a parameter is not of its type.
        OSError
            If the table cannot be read, or the ledger written.

        References
        ----------
        .. [1] J. G. MacKinnon, H. White, "Some heteroskedasticity-consistent covariance matrix
           estimators with improved finite sample properties", J. Econometrics 29 (1985).
        """
        from privgram.mechanisms import AnalyzeGauss

        release, design, n_rows = self.release, self.design, self.n_rows
        if self.refusal is not None:
            raise RefusedError(f"there is no inference: {self.refusal}")
        assert n_rows is not None  # or there were no inference
        if self.look is not None:
            raise ValueError("this fit is robust already: take the one of `regress`")
        if adjacency not in (None, release.adjacency):
            raise ValueError(
                f"the release is private for adjacency {release.adjacency!r}, and so is a further "
                "look: leave adjacency out"
            )
        if clip is not None:
            clip = check_positive(clip, "clip") / self._unit
        unit = AnalyzeGauss().calibrate(
            design.transform.shape[1], 1.0, epsilon, delta, release.adjacency
        )
        variance = np.diag(self.inference.covariance)
        planned = plan_look(release, design, n_rows, variance, unit.noise_std, clip)
        if planned is None:
            raise RefusedError(
                "the noise of this look would drown the residuals: take more epsilon, fewer "
                "features, or the standard errors that there are. Nothing was spent"
            )
        look = release._look_again(
            release, planned, source, epsilon, delta, rng, ledger=ledger, threads=threads
        )
        return replace(self, look=look)

    def test(self, *hypothesis: str) -> WaldTest:
        """Test that all coefficients of some terms are 0: of a factor, that it has no effect.

        Parameters
        ----------
        *hypothesis : str
            Terms of the regression, such as ``"region"``, or names of coefficients.

        Returns
        -------
        WaldTest
            With the variance that sampling and privacy noise have under the hypothesis. The
            other terms stay: test a product before what it is made of.

        Raises
        ------
        RefusedError
            A ValueError: where there is no inference.
        ValueError
            If a term is not part of the regression.
        """
        from scipy.special import chdtrc

        if self.refusal is not None:
            raise RefusedError(f"there is no inference: {self.refusal}")
        at = self.design.places(hypothesis)
        assert self.n_rows is not None  # or there were no inference
        law, block = self.design.block(self.release)
        meat = None if self.look is None else meat_of(self.look, self.n_rows)
        statistic, df = wald(
            law, block, self.n_rows, self.design.transform[at], self.design.offset[at], meat
        )
        names = tuple(self.names[i] for i in at)
        return WaldTest(names, statistic, df, float(chdtrc(df, statistic)))

    @property
    def _unit(self) -> float:
        """Target units of a residual of 1 in the scale of the released matrix."""
        return float(self.design.spread[-1])

    @property
    def _has_intercept(self) -> bool:
        return bool(self.intercept != 0 or self.inference.covariance[-1, -1] > 0)

    def predict(self, X: ArrayLike) -> Vector:
        """Predicted target.

        Parameters
        ----------
        X : array-like of shape (m, p) or DataFrame
            Features in their own units, in the order of `names`; of a data
            frame the columns of these names are taken. Where the fit is of terms, a data frame
            or a mapping of the variables themselves, whose values are clamped to their bounds.

        Returns
        -------
        ndarray of shape (m,), float64
            In the target's units.
        """
        table: Any = X
        columns = self.release.columns
        if self.design.functions and columns is not None:
            from_terms: Vector = self.design.rows(table, columns) @ self.coef + self.intercept
            return from_terms
        if hasattr(table, "columns") and hasattr(table, "__getitem__"):
            for name in self.names:
                if name not in table.columns:
                    raise ValueError(f"X has no column {name!r}, a feature of this fit")
            table = np.column_stack([np.asarray(table[name], float) for name in self.names])
        values = np.asarray(table, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.names):
            raise ValueError(
                f"X must have shape (m, {len(self.names)}), one column a feature, "
                f"not {values.shape}"
            )
        predicted: Vector = values @ self.coef + self.intercept
        return predicted

    def feature_std(self) -> Vector:
        """Standard deviations of the features, estimated from the release.

        Returns
        -------
        ndarray of shape (p,), float64
            In the features' own units; about zero where the release has no intercept column,
            and 0 where the noise leaves nothing.

        Raises
        ------
        ValueError
            If the number of rows is unknown.
        """
        if self.n_rows is None or self.n_rows < 1:
            raise ValueError(_uncounted(self.release))
        release, design = self.release, self.design
        moment = release.matrix - release.noise.shift_matrix(release.n_columns)
        rows, unit = design.own_frame()
        variance = np.diag(rows @ moment @ rows.T) / self.n_rows
        ones = intercept_of(release)
        if ones is not None:
            variance = variance - (rows @ moment @ ones / self.n_rows) ** 2
        std: Vector = np.sqrt(np.maximum(variance, 0.0)) * unit
        return std

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the coefficients; see `privgram.plots.plot_coefficients`."""
        from privgram.plots.of_fit import plot_coefficients

        return plot_coefficients(self, ax, **options)

    def table(self, level: float = 0.95) -> FitTable:
        """What `summary` says, as data."""
        clipped = self.refusal is None and not self.unclip and _clips(self.release)
        table = tabulate(
            self.release,
            self.inference,
            target=self.target,
            names=self.param_names,
            used=np.append(self.coef, self.intercept)[: len(self.param_names)],
            ridge=self.ridge,
            n_rows=self.n_rows,
            references=self.design.references,
            unclip=self.unclip,
            clipping=self._moved_by_clipping if clipped else None,
            level=level,
            guarantee=(self.epsilon, self.delta),
            robust=self._says_of_look(),
        )
        if self.caution is None:
            return table
        return replace(table, notes=(*table.notes, f"{self.caution[0].upper()}{self.caution[1:]}."))

    def summary(self, level: float = 0.95) -> str:
        """A table of the fit as statistics packages print it.

        Parameters
        ----------
        level : float
            Level of the confidence intervals, in [0.5, 1).
        """
        return str(self.table(level))

    @cached_property
    def _moved_by_clipping(self) -> float:
        """What clipping did to the estimates if the rows were normal, in standard errors: slow."""
        if self.design.positions is None:  # indicators are not normal
            return 0.0
        own = self.design.transform @ _clipping_shift(self.release, self.design, self.n_rows)
        return float(np.max(np.abs(own[: len(self.bse)]) / self.bse, initial=0.0))

    def _says_of_look(self) -> list[str]:
        """Notes on a second look, if there is one."""
        look = self.look
        if look is None:
            return []
        notes = [
            "They allow for errors of unequal variance. The variance is of a second look at the "
            f"table ({look.epsilon:g}, {look.delta:g}), and has one deviation of its noise on top; "
            "the guarantee above is of both."
        ]
        if look.parameters["clips"]:
            taken = ""
            if self.design.intercept:  # whose entry is the sum of their squares
                kept = float(look.matrix[-1, -1]) / _squared_residuals(self.release, self.design)
                taken = f", here by about {max(1 - kept, 0.0):.1%} of the sum of their squares"
            notes.append(
                f"Residuals beyond {look.parameters['clip'] * self._unit:.4g} count as that, which "
                f"can only make standard errors too small{taken}."
            )
        if look.reproducible and not self.release.reproducible:
            notes.append("Reproducible: the second look is not private against who knows its seed.")
        return notes

    def __repr__(self) -> str:
        names = ", ".join(map(shown, self.names))
        return f"<Fit of {shown(self.target)} on {names}: {self.guarantee}>"


def regress(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    ridge: float | str | ArrayLike = 0.0,
    intercept: bool = True,
    unclip: bool = False,
    reference: Mapping[str, Any] | None = None,
) -> Fit:
    """Least squares or ridge regression of one released column on others.

    Parameters
    ----------
    release : Release
    target : str or int
        Column to explain, or a formula such as ``"log(wage) ~ poly(age, 2) + sex*region"`` (extra
        `formula`).
    features : iterable of str or int, optional
        Columns to explain it by; all others by default. Where `Columns` described factors,
        terms: ``"sex"``, ``"poly(age, 2)"``, ``"sex:region"``, and all columns of a term enter.
    ridge : float, "auto" or array-like of shape (p,)
        Penalty on the squared coefficients, one for all or one for each feature, in the
        scale of the released matrix (with `Columns`: every column mapped to [-1, 1]), added
        to what the mechanism itself put on the diagonal; not on the intercept.  "auto"
        chooses it for prediction, by sampling and privacy noise, from the release alone.
    intercept : bool
        Use the column named `intercept`, if the release has one.
    unclip : bool
        Take off what clipping rows to the bound added to the coefficients, as it
        would be were the rows normal (`privgram.regression.clipping`); not for a marginal,
        whose rows' norms are unknown.  By default the fit is that of the clipped rows.
    reference : mapping of str to level, optional
        The level of a factor that is left out, the first by default.

    Returns
    -------
    Fit
        Coefficients in the columns' own units.

    Raises
    ------
    RefusedError
        A ValueError: for a released matrix that is not positive definite on the features.
    ValueError
        For an unknown column, the target among the features, or `unclip` where the number
        of rows is private or noise exceeds the signal.
    """
    design = _design(release, target, features, intercept, reference)
    n_rows = rows_behind(release)
    law, matrix = design.block(release)
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge must be a number or 'auto', not {ridge!r}")
        from privgram.regression.ridge import Sketch, auto_ridge, possible_rows

        # About the second moment itself: what the mechanism added is part of the choice.
        shifted, matrix = matrix, matrix - law.shift_matrix(len(matrix))
        sketched = law.sketch_rows(len(matrix))
        least = np.trace(release.matrix - release.noise.shift_matrix(release.n_columns))
        matrix[:-1, :-1] += auto_ridge(
            matrix,
            lambda frame: law.entry_variance(shifted, frame),
            intercept=design.intercept,
            sketch=None if sketched is None else Sketch(sketched, law.shift),
            rows=possible_rows(least / release.bound**2) if n_rows is None else max(n_rows, 1.0),
        )
    else:
        slopes = np.arange(len(matrix) - 1 - design.intercept)
        ridge = _check_ridge(ridge, len(slopes))
        matrix[slopes, slopes] += ridge
    theta = _solve(release, design, matrix, ridge)
    clipping = _clipping_shift(release, design, n_rows) if unclip else None
    if clipping is not None:
        theta = theta - clipping
    return _fit(release, design, theta, ridge, n_rows, clipping=clipping)


def lasso(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None = None,
    *,
    alpha: float,
    intercept: bool = True,
) -> Fit:
    """L1-penalised regression by scikit-learn's Gram solver (extra `sklearn`).

    Parameters
    ----------
    release, target, features, intercept
        As in `regress`.
    alpha : float
        Penalty per row: minimises ||y - X b||^2 / (2 n) + alpha ||b||_1 in the
        scale of the released matrix; not on the intercept.

    Returns
    -------
    Fit
        Without standard errors.
    """
    alpha = check_not_negative(alpha, "alpha")
    with extra("sklearn", "the lasso needs"):
        from sklearn.linear_model import lars_path_gram
    n_rows = rows_behind(release)
    if n_rows is None or n_rows < 1:
        raise ValueError(f"the penalty is per row, and {_uncounted(release)}")
    design = _design(release, target, features, intercept)
    _, block = design.block(release)
    gram, cross = block[:-1, :-1], block[:-1, -1]
    slopes = list(range(len(gram) - design.intercept))
    if not slopes:
        raise ValueError("there is no feature to regress on")
    # Refuses an indefinite matrix, on which the path is nonsense.
    _solve(release, design, block, 0.0)
    theta = np.zeros(len(gram))
    reduced, target_cross = gram[np.ix_(slopes, slopes)], cross[slopes]
    if design.intercept:
        # The best intercept for given slopes, put back in (a Schur complement).
        column = gram[slopes, -1] / gram[-1, -1]
        reduced = reduced - np.outer(column, gram[slopes, -1])
        target_cross = target_cross - column * cross[-1]
    # The solver stops at an absolute tolerance of the penalty, and drops features by their
    # absolute size.  In units in which no direction is shorter than 1 and the first penalty of
    # the path is huge, neither happens to what is not rounding.
    values = np.linalg.eigvalsh(reduced)
    unit = math.sqrt(max(values[0], np.finfo(float).eps * values[-1]))
    goal_unit = float(np.abs(target_cross).max()) / (unit * LARS_FIRST) or 1.0
    _, _, path = lars_path_gram(
        target_cross / (unit * goal_unit),
        reduced / unit**2,
        n_samples=1,
        alpha_min=alpha * n_rows / (unit * goal_unit),
        method="lasso",
    )
    theta[slopes] = path[:, -1] * (goal_unit / unit)
    if design.intercept:
        theta[-1] = (cross[-1] - gram[-1, slopes] @ theta[slopes]) / gram[-1, -1]
    reason = "the lasso has no standard errors here"
    return _fit(release, design, theta, 0.0, n_rows, without=reason)


def _fit(
    release: ReleaseRecord,
    design: Design,
    theta: Vector,
    ridge: float | str | Vector,
    n_rows: float | None,
    *,
    clipping: Vector | None = None,
    without: str | None = None,
) -> Fit:
    """The fit in the columns' own units, from coefficients of the scaled ones."""
    own = design.transform @ theta + design.offset
    return Fit(
        target=design.target,
        names=design.names,
        coef=own[:-1],
        intercept=float(own[-1]),
        ridge=ridge,
        n_rows=n_rows,
        release=release,
        design=design,
        clipping=clipping,
        without=without,
    )


def _check_ridge(ridge: ArrayLike, n_features: int) -> float | Vector:
    try:
        values = np.array(ridge, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("ridge must be 'auto', a number, or a number for each feature") from None
    if values.ndim == 0:
        return check_not_negative(ridge, "ridge")
    if values.shape != (n_features,):
        raise ValueError(
            f"ridge must be a number or {n_features} of them, one for each feature, "
            f"not of shape {values.shape}"
        )
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(f"ridge must be finite and not negative, not {ridge!r}")
    values.flags.writeable = False
    return values


def _design(
    release: ReleaseRecord,
    target: str | int,
    features: Iterable[str | int] | None,
    intercept: bool,
    reference: Mapping[str, Any] | None = None,
) -> Design:
    """The columns of a regression: terms of a description, or released columns as they are."""
    _check_range(release)
    if isinstance(target, str) and "~" in target:
        if features is not None:
            raise ValueError("a formula names the features: leave `features` out")
        from privgram.columns.formula import parse_one

        target, features, wanted = parse_one(target)
        intercept = intercept and wanted
    if isinstance(features, str):
        raise ValueError(f"features must be a list of columns; for one, pass [{features!r}]")
    columns = release.columns
    asked = None if features is None else list(features)
    if columns is None or columns.plain or _are_columns(release, target, asked):
        if reference:
            raise ValueError("reference: there is no factor among these features")
        return _of_columns(release, target, asked, intercept)
    texts = None if asked is None else [_text(name) for name in asked]
    return terms_design(release, _text(target), texts, intercept, reference or {})


def _are_columns(
    release: ReleaseRecord, target: str | int, features: list[str | int] | None
) -> bool:
    """Whether what is asked for are released columns, and no terms that have other names."""
    assert release.columns is not None
    asked = [target, *(features or ())]
    return (
        features is not None
        and all(not isinstance(name, str) or name in release.names for name in asked)
        and not all(name in release.columns.terms for name in features)
    )


def _text(name: str | int) -> str:
    if not isinstance(name, str):
        raise TypeError("terms are named by their text: a position is of one released column")
    return name


def _check_range(release: ReleaseRecord) -> None:
    """Refuse numbers of which powers leave float64."""
    if not MIN_BOUND <= release.bound <= MAX_BOUND:  # a file of an earlier version
        raise ValueError(
            f"the release has a bound of {release.bound:g}, of which powers leave float64: measure "
            "in another unit and release again"
        )
    largest = float(np.abs(release.matrix).max())
    if largest and not MIN_ENTRY <= largest <= 1 / MIN_ENTRY:
        raise ValueError(
            f"the release has entries of {largest:.2g}, of which squares leave float64: no table "
            "with a bound has a second moment like that"
        )


def _of_columns(
    release: ReleaseRecord,
    target: str | int,
    features: list[str | int] | None,
    intercept: bool,
) -> Design:
    """The design of released columns as they are, intercept last and then the target."""
    goal = release.index(target)
    if release.names[goal] == INTERCEPT:
        raise ValueError("the intercept cannot be the target")
    if features is None:
        chosen = [i for i in range(release.n_columns) if i != goal]
    else:
        chosen = [release.index(name) for name in features]
    if goal in chosen:
        raise ValueError(f"the target {release.names[goal]!r} is among the features")
    if len(set(chosen)) < len(chosen):
        raise ValueError("a feature is named twice")
    chosen = [i for i in chosen if release.names[i] != INTERCEPT]
    if intercept and INTERCEPT in release.names:
        chosen.append(release.names.index(INTERCEPT))
    if not chosen:
        raise ValueError("there is no feature to regress on")
    names = tuple(release.names[i] for i in chosen if release.names[i] != INTERCEPT)
    transform, offset, spread = _own_units(release, chosen, goal)
    return Design(
        target=release.names[goal],
        names=names,
        frame=np.eye(release.n_columns)[[*chosen, goal]],
        positions=(*chosen, goal),
        intercept=len(names) < len(chosen),
        transform=transform,
        offset=offset,
        terms={name: slice(i, i + 1) for i, name in enumerate(names)},
        spread=spread,
        ends=(offset[-1] - spread[-1], offset[-1] + spread[-1]),
    )


def _dependent(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if some directions of the features hold only noise and all others far more."""
    law, rows = release.noise, design.frame[:-1]
    values, vectors = np.linalg.eigh(design.moment(release)[:-1, :-1])
    # Of the whole release: noise on the inverse has no law of some columns.
    frame = vectors.T @ rows
    noise = np.sqrt(law.entry_variance(release.matrix, frame).diagonal())
    # What the mechanism put on the diagonal is no signal; where it is far more than noise, it
    # makes these coefficients small instead of wild.
    signal = values - ((frame @ law.shift_matrix(release.n_columns)) * frame).sum(axis=1)
    nothing = (signal < NOTHING * noise) & (values < RESOLVED * noise)
    nothing &= signal > -RESOLVED * noise
    if not nothing.any() or nothing.all() or (values < RESOLVED * noise)[~nothing].any():
        return None
    # The noise turns these directions by less than a tenth.
    part = np.linalg.norm(vectors[:, nothing], axis=1)
    named = (*design.names, INTERCEPT)[: len(part)]
    names = [repr(name) for name, share in zip(named, part, strict=True) if share > 0.1]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    cells = [cell for (_, cell), share in zip(design.functions, part, strict=False) if share > 0.1]
    if len(cells) == len(names) and all(cells):  # references are left out: only counts are small
        return (
            f"the levels {', '.join(names[:MOST_NAMED])}{more} seem to have so few rows that the "
            "noise hides them, and that can leave other coefficients open too. Describe fewer "
            "levels, with other=True for the rest, or use ridge='auto' for predictions"
        )
    return (
        f"the columns {', '.join(names[:MOST_NAMED])}{more} seem to depend on each other, as the "
        "indicators of all levels do beside an intercept: some combination of them holds nothing "
        "but noise, and if they depend exactly, no epsilon tells their coefficients apart. Leave "
        "one of them out, or use ridge='auto' for predictions"
    )


def _pinned(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if the target's mean is at one of its bounds, as far as the noise can tell."""
    columns, ones, goal = release.columns, intercept_of(release), design.frame[-1]
    if columns is None or ones is None:
        return None
    frame = np.array([ones, goal])
    moment = release.matrix - release.noise.shift_matrix(release.n_columns)
    count, total = float(ones @ moment @ ones), float(goal @ release.matrix @ ones)
    noise = math.sqrt(release.noise.entry_variance(release.matrix, frame)[0].sum())
    if count - abs(total) > 3 * noise or count < 20 * noise:
        return None
    end = "upper" if total > 0 else "lower"
    value = design.ends[total > 0]
    return (
        f"all values of {design.target!r} seem to lie at its {end} bound, {value:g}, where "
        "values beyond are clamped: so they say nothing of the features. State bounds in the "
        "unit of the values, not far wider than they are, and release again"
    )


def _solve(
    release: ReleaseRecord, design: Design, matrix: Matrix, ridge: float | str | Vector
) -> Vector:
    """Coefficients of the features in explaining the last column."""
    gram, cross = matrix[:-1, :-1], matrix[:-1, -1]
    values = np.linalg.eigvalsh(gram)
    if values[0] <= len(values) * np.finfo(float).eps * values[-1]:
        dependent = _dependent(release, design)
        if dependent is not None:
            raise RefusedError(dependent)
        needed = 2 * max(-values[0], np.finfo(float).eps * abs(values[-1]))
        needed += ridge if isinstance(ridge, float) else 0.0
        raise RefusedError(
            "the released matrix is not positive definite on these features: its noise "
            f"exceeds the signal. Use ridge='auto' or a ridge of more than {needed:.3g}, "
            "fewer features, a mechanism whose release is positive definite "
            "(AdditiveWishart, GaussianSketch), or a larger epsilon"
        )
    return np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)


def _squared_residuals(release: ReleaseRecord, design: Design) -> float:
    """Sum of the squared residuals as the release tells it, with its noise."""
    law, shifted = design.block(release)
    matrix = shifted - law.shift_matrix(len(shifted))
    gram, cross = matrix[:-1, :-1], matrix[:-1, -1]
    return float(matrix[-1, -1] - cross @ np.linalg.solve(gram, cross))


def _uncounted(release: ReleaseRecord) -> str:
    """Why the number of rows is unknown, or less than one, and what to do."""
    if rows_behind(release) is not None:
        return "the privacy noise leaves no rows: use more rows or a larger epsilon"
    return f"{why_unknown(release)}: use a release with an intercept column, which counts them"


def _clips(release: ReleaseRecord) -> bool:
    """Whether the public bounds of the columns leave room for rows longer than the bound."""
    return release.columns is None or release.bound < release.columns.bound


def _clipping_shift(release: ReleaseRecord, design: Design, n_rows: float | None) -> Vector:
    """What clipping added to coefficients of the scaled columns, were the rows normal."""
    from privgram.regression.clipping import normal_shift

    if not _clips(release):
        return np.zeros(len(design.frame) - 1)
    if design.positions is None:
        raise ValueError("unclip is for regressions on released columns, not on terms of factors")
    *chosen, goal = design.positions
    if n_rows is None or n_rows <= len(chosen):
        raise ValueError(f"unclip needs the number of rows: {_uncounted(release)}")
    moment = (release.matrix - release.noise.shift_matrix(release.n_columns)) / n_rows
    if np.linalg.eigvalsh(moment[np.ix_(chosen, chosen)])[0] <= 0:
        raise ValueError("unclip needs noise below the signal in all directions of the features")
    ones = release.names.index(INTERCEPT) if INTERCEPT in release.names else None
    return normal_shift(moment, release.bound, chosen, goal, ones)


def _own_units(
    release: ReleaseRecord, chosen: list[int], goal: int
) -> tuple[Matrix, Vector, Vector]:
    """Affine map from coefficients of scaled columns to own units, intercept last; half-widths."""
    names = [release.names[i] for i in chosen]
    slopes = [name for name in names if name != INTERCEPT]
    p = len(slopes)
    has_intercept = p < len(names)
    transform, offset = np.zeros((p + 1, len(names))), np.zeros(p + 1)
    if release.columns is None:
        transform[:p, :p] = np.eye(p)
        transform[p, p:] = 1.0
        return transform, offset, np.ones(p + 1)
    # y = c_y + h_y (b_0 + sum_j b_j (x_j - c_j) / h_j)
    place = {name: i for i, name in enumerate(release.columns.names)}
    own = [place[name] for name in (*slopes, release.names[goal])]
    centre, half_width = release.columns.center[own], release.columns.half_width[own]
    each = np.arange(p)
    transform[each, each] = half_width[p] / half_width[:p]
    transform[p, :p] = -half_width[p] * centre[:p] / half_width[:p]
    if has_intercept:
        transform[p, p] = half_width[p]
    offset[p] = centre[p]
    return transform, offset, half_width
