"""What may leave: a released matrix with its provenance, and what is made of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privgram._release.derived import check_derived, derived
from privgram._release.record import FORM, ReleaseRecord, check
from privgram._release.stated import check_stated
from privgram.columns import Columns
from privgram.columns.unit import PrivacyUnit
from privgram.noise import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    from privgram.multivariate import (
        CCA,
        LDA,
        PCA,
        Correlation,
        Description,
        FactorAnalysis,
        GraphicalLasso,
    )
    from privgram.multivariate.description import OfCorrelation
    from privgram.regression import Fit, InstrumentalFit, PenaltyPath, Posterior, Subsets
    from privgram.regression.inference import Of

__all__ = ["Release", "read_release"]


@dataclass(frozen=True, eq=False, repr=False)
class Release(ReleaseRecord):
    __doc__ = ReleaseRecord.__doc__

    def regress(
        self,
        target: str | int,
        features: Iterable[str | int] | None = None,
        ridge: float | str | ArrayLike = 0.0,
        intercept: bool = True,
        unclip: bool = False,
        reference: Mapping[str, Any] | None = None,
    ) -> Fit:
        """Linear regression of one column on others; see `privgram.regression.regress`."""
        from privgram.regression import regress

        return regress(
            self,
            target,
            features,
            ridge=ridge,
            intercept=intercept,
            unclip=unclip,
            reference=reference,
        )

    def iv(
        self,
        target: str,
        endogenous: Iterable[str] = (),
        instruments: Iterable[str] = (),
        exogenous: Iterable[str] = (),
        *,
        method: Literal["2sls", "liml"] = "2sls",
        intercept: bool = True,
        reference: Mapping[str, Any] | None = None,
    ) -> InstrumentalFit:
        """Regression with instruments, by 2SLS or LIML; see `privgram.regression.iv`."""
        from privgram.regression import iv

        return iv(
            self,
            target,
            endogenous,
            instruments,
            exogenous,
            method=method,
            intercept=intercept,
            reference=reference,
        )

    def lasso(
        self, target: str | int, features: Iterable[str | int] | None = None, *, alpha: float
    ) -> Fit:
        """L1-penalised regression; see `privgram.regression.lasso`."""
        from privgram.regression import lasso

        return lasso(self, target, features, alpha=alpha)

    def penalty_path(
        self,
        target: str | int,
        features: Iterable[str | int] | None = None,
        *,
        l1_ratio: float = 1.0,
        criterion: Literal["aic", "bic"] = "aic",
        n_alphas: int = 50,
        intercept: bool = True,
    ) -> PenaltyPath:
        """Lasso or elastic net for all penalties; see `privgram.regression.penalty_path`."""
        from privgram.regression import penalty_path

        return penalty_path(
            self,
            target,
            features,
            l1_ratio=l1_ratio,
            criterion=criterion,
            n_alphas=n_alphas,
            intercept=intercept,
        )

    def best_subset(
        self,
        target: str,
        features: Iterable[str] | None = None,
        *,
        criterion: Literal["aic", "bic"] = "bic",
        intercept: bool = True,
    ) -> Subsets:
        """Least squares of the best terms; see `privgram.regression.best_subset`."""
        from privgram.regression import best_subset

        return best_subset(self, target, features, criterion=criterion, intercept=intercept)

    def posterior(
        self,
        target: str,
        features: Iterable[str] | None = None,
        *,
        draws: int = 4000,
        prior_std: ArrayLike | None = None,
        intercept: bool = True,
        reference: Mapping[str, Any] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Posterior:
        """Draws of coefficients given the release; see `privgram.regression.posterior`."""
        from privgram.regression import posterior

        return posterior(
            self,
            target,
            features,
            draws=draws,
            prior_std=prior_std,
            intercept=intercept,
            reference=reference,
            rng=rng,
        )

    def pca(
        self,
        n_components: int | Literal["auto"] | None = None,
        *,
        center: bool | None = None,
        standardize: bool = False,
        units: Literal["bounds", "own"] = "bounds",
        columns: Sequence[str] | None = None,
    ) -> PCA:
        """Principal components of the released columns; see `privgram.multivariate.pca`."""
        from privgram.multivariate import pca

        return pca(
            self,
            n_components,
            center=center,
            standardize=standardize,
            units=units,
            columns=columns,
        )

    def describe(
        self,
        columns: Sequence[str] | None = None,
        *,
        level: float = 0.95,
        of: Of = "population",
    ) -> Description:
        """Counts, means, standard deviations; see `privgram.multivariate.describe`."""
        from privgram.multivariate import describe

        return describe(self, columns, level=level, of=of)

    def correlation(
        self,
        columns: Sequence[str] | None = None,
        *,
        partial: bool | Sequence[str] = False,
        level: float = 0.95,
        of: OfCorrelation = "data",
    ) -> Correlation:
        """Correlations, also partial; see `privgram.multivariate.correlation`."""
        from privgram.multivariate import correlation

        return correlation(self, columns, partial=partial, level=level, of=of)

    def factor_analysis(
        self,
        n_factors: int,
        columns: Sequence[str] | None = None,
        *,
        rotation: Literal["varimax", "none"] = "varimax",
    ) -> FactorAnalysis:
        """Common factors of columns; see `privgram.multivariate.factor_analysis`."""
        from privgram.multivariate import factor_analysis

        return factor_analysis(self, n_factors, columns, rotation=rotation)

    def cca(self, x: Sequence[str], y: Sequence[str], n_components: int | None = None) -> CCA:
        """Canonical correlations of two sets of columns; see `privgram.multivariate.cca`."""
        from privgram.multivariate import cca

        return cca(self, x, y, n_components)

    def lda(self, factor: str, features: Sequence[str] | None = None) -> LDA:
        """Linear discriminants of a factor's levels; see `privgram.multivariate.lda`."""
        from privgram.multivariate import lda

        return lda(self, factor, features)

    def graphical_lasso(
        self,
        columns: Sequence[str] | None = None,
        *,
        alpha: float | Literal["noise"] = "noise",
    ) -> GraphicalLasso:
        """A sparse inverse covariance; see `privgram.multivariate.graphical_lasso`."""
        from privgram.multivariate import graphical_lasso

        return graphical_lasso(self, columns, alpha=alpha)

    def synthesize(self, n: int, rng: np.random.Generator | int | None = None) -> Any:
        """Rows with the means and covariances released; see `privgram.multivariate.synthesize`."""
        from privgram.multivariate import synthesize

        return synthesize(self, n, rng)

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the matrix in units of its noise; see `privgram.plots.plot_matrix`."""
        from privgram.plots import plot_matrix

        return plot_matrix(self, ax, **options)

    def plot_spectrum(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the eigenvalues with the noise edge; see `privgram.plots.plot_spectrum`."""
        from privgram.plots import plot_spectrum

        return plot_spectrum(self, ax, **options)

    def plot_privacy(self, ax: Axes | None = None) -> Axes:
        """Draw the privacy profile and the guarantee; see `privgram.plots.plot_privacy`."""
        from privgram.plots import plot_privacy

        return plot_privacy(self, ax)

    def to_html(self, targets: Iterable[str] = (), **options: Any) -> str:
        """Describe the release in one page of HTML; see `privgram.report.to_html`."""
        from privgram.report import to_html

        return to_html(self, targets, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to `.json` or `.npz`, whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix picks the format: `.json` is for other languages too and says more than once
            what these would have to work out, `.npz` is small.  The file is written beside it
            under another name, flushed to disk and renamed.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        path = Path(path)
        header, arrays = self._header(), {"matrix": self.matrix}
        if self.sketch is not None:
            arrays["sketch"] = self.sketch
        if path.suffix == ".json":
            header["derived"] = derived(self)
        FORM.save(path, header, arrays)


def read_release(path: Path) -> Release:
    """Read a release written by `Release.save`."""
    header, arrays = FORM.read(path)
    with FORM.understood(path):
        return build(header, arrays)


def build(header: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Release:
    """Make a release of what its file says, and check that it is sound."""
    from privgram import mechanisms, privacy

    columns, unit = header["columns"], header.get("privacy_unit")
    mechanism = mechanisms.from_dict(header["mechanism"])
    loaded = Release(
        matrix=arrays["matrix"],
        sketch=arrays.get("sketch"),
        names=tuple(header["names"]),
        mechanism=mechanism,
        noise=NoiseLaw.from_dict(header["noise"]),
        privacy=privacy.Profile.from_dict(header["privacy"]),
        columns=None if columns is None else Columns.from_dict(columns),
        privacy_unit=None if unit is None else PrivacyUnit.from_dict(unit),
        n_units=header.get("n_units"),
        **{
            name: header[name]
            for name in (
                "parameters",
                "epsilon",
                "delta",
                "adjacency",
                "calibration",
                "bound",
                "n_rows",
                "reproducible",
                "condition",
            )
        },
    )
    check(loaded)
    check_stated(loaded)
    check_derived(header.get("derived", {}), loaded)
    return loaded
