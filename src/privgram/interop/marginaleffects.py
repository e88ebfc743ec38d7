"""Marginal effects of a fit by the package marginaleffects, on a grid of public values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from privgram._base.installed import extra
from privgram._base.numbers import check_integer
from privgram.columns.variables import Boolean, Dates, Factor, Numeric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram.regression.glm import GLMResults
    from privgram.regression.ols import OLSResults

__all__ = ["marginal_model", "public_grid"]

#: marginaleffects steps a parameter by 2**-26 of its size, so by 1 of this size.
STEPPED = 2.0**26

#: A step in standard errors, far above rounding in whatever units the columns are: little beside
#: the bend of a link, and large where there is none.
LINK_STEP, LINEAR_STEP = 2.0**-7, 2.0**20

HYPOTHESES = (
    "marginal_model has predictions, comparisons and slopes; of the parameters themselves ask "
    "fit.t_test and fit.wald_test, which take the noise at the hypothesis"
)


def public_grid(fit: OLSResults | GLMResults, rows: int = 512) -> dict[str, NDArray[Any]]:
    """Values of a fit's variables all over their public bounds and levels: of no table.

    Parameters
    ----------
    fit : OLSResults or GLMResults
        The former of a release whose columns are described.
    rows : int, default 512
        How many, at least 1; a Halton sequence, the same always.

    Returns
    -------
    dict of str to ndarray of shape (rows,)
        In the variables' own units, as a table has them.

    Raises
    ------
    ValueError
        If the release's columns are not described.
    """
    from scipy.stats import qmc

    rows = check_integer(rows, "rows", 1)
    columns = fit._described
    if columns is None:
        raise ValueError("a grid takes public bounds: release with pg.Columns")
    variables = fit.design.reads(columns)
    if not fit.design.functions:
        variables = {name: columns.variables[name] for name in fit.design.names}
    places = qmc.Halton(len(variables), scramble=False).random(rows + 1)[1:].T
    grid: dict[str, NDArray[Any]] = {}
    for (name, variable), at in zip(variables.items(), places, strict=True):
        if isinstance(variable, Factor):
            grid[name] = np.array(variable.levels)[(at * len(variable.levels)).astype(int)]
        elif isinstance(variable, Boolean):
            grid[name] = at < 0.5
        elif isinstance(variable, Dates):
            low, high = (np.datetime64(end, "s") for end in (variable.lower, variable.upper))
            grid[name] = low + (at * (high - low).astype(float)).astype("timedelta64[s]")
        else:
            assert isinstance(variable, Numeric)
            low, high = variable.lower, variable.upper  # type: ignore[attr-defined]
            grid[name] = low + at * (high - low)
    return grid


def marginal_model(fit: OLSResults | GLMResults, rows: int = 512) -> Any:
    """A fit as a model of the package marginaleffects (extra `margins`).

    Its `predictions`, `comparisons` and `slopes` take it, with standard errors of sampling and
    privacy noise by the delta method. Where they average over rows, as `avg_slopes` does, those are
    `public_grid`: pass ``newdata=`` for others that are public. Slopes are taken over steps of 1e-4
    in a column's own units: pass a smaller ``eps=`` where its bounds are not far wider.

    Parameters
    ----------
    fit : OLSResults or GLMResults
        Of families with a link, effects are on the mean.
    rows : int, default 512
        Of the grid.

    Returns
    -------
    marginaleffects.classes.ModelAbstract

    Raises
    ------
    RefusedError
        A ValueError: where there is no inference.
    ImportError
        Without marginaleffects.
    """
    with extra("margins", "marginal effects need"):
        import polars
        from marginaleffects.classes import ModelAbstract, ModelVault
    fit._need_inference()
    coefficients, covariance = fit.inference.estimate, fit.inference.covariance
    family = fit._family
    # As marginaleffects sees them, parameters are moved, and counted in steps.
    step = LINEAR_STEP if family.is_linear else LINK_STEP
    steps = step * np.sqrt(covariance.diagonal())
    steps[~(np.isfinite(steps) & (steps > 0))] = 1.0

    class Margins(ModelAbstract):  # type: ignore[misc]
        """What marginaleffects asks of a model."""

        def validation(self) -> None:
            """The grid is made as it is wanted."""

        def get_exog(self, newdata: polars.DataFrame) -> NDArray[np.float64]:
            values = {name: newdata[name].to_numpy() for name in grid}
            for name, levels in factors.items():
                values[name] = np.array(values[name], dtype=np.array(levels).dtype)
            return fit._rows(values)

        def get_predict(self, params: NDArray[np.float64], newdata: polars.DataFrame) -> Any:
            moved = (np.asarray(params) - STEPPED) * steps
            linear = np.asarray(newdata) @ (coefficients + moved)
            estimate = family.means(linear)[0]
            return polars.DataFrame({"rowid": np.arange(len(estimate)), "estimate": estimate})

        def get_vcov(self, vcov: bool | str = True) -> NDArray[np.float64] | None:
            return None if vcov is False else covariance / np.outer(steps, steps)

        def get_coefnames(self) -> NoReturn:
            raise TypeError(HYPOTHESES)

    grid: dict[str, NDArray[Any] | polars.Series] = {**public_grid(fit, rows)}
    assert fit._described is not None
    variables = fit._described.variables
    factors = {name: one.levels for name in grid if isinstance(one := variables[name], Factor)}
    for name in factors:  # texts: of an Enum marginaleffects 0.6 asks what polars 2 has no more
        grid[name] = polars.Series(list(map(str, grid[name])))
    kinds = {
        name: "boolean" if np.asarray(x).dtype == bool else "numeric" for name, x in grid.items()
    } | dict.fromkeys(factors, "character")
    vault = ModelVault(
        coef=np.full(len(coefficients), STEPPED),
        coefnames=np.array(fit.param_names),
        formula=f"target ~ {' + '.join(grid)}",
        modeldata=polars.DataFrame(grid),
        package="privgram",
        vcov=covariance / np.outer(steps, steps),
        variables_type=kinds,
        variable_names=["target", *grid],
    )
    return Margins(fit, vault)
