"""The page of one regression."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from privgram._base.installed import __version__
from privgram._base.text import shown
from privgram.page.document import (
    CAUSES,
    OF_BOUNDS,
    OF_LEVELS,
    OF_ROWS,
    RESULT,
    budget,
    check_path,
    column_descriptions,
    guarantee,
    neighbours,
    text_of,
    tiles,
    warnings,
    whose,
    write,
)
from privgram.regression.diagnostics import differences

__all__ = ["to_html"]

#: What a page of one regression cannot say.
LIMITS_OF_FIT = (
    OF_ROWS,
    "Only this regression was paid for: another one, with a feature more or less, costs a budget "
    "of its own, or takes a release.",
    "An interval that ends in an arrow has no end there: the noise hides how large the coefficient "
    "may be.",
    OF_LEVELS,
    OF_BOUNDS,
    CAUSES,
)


def to_html(
    fit: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    file: str | os.PathLike[str] | None = None,
) -> None:
    """Write one page of HTML of a regression, with its intervals and who is protected.

    As `Release.to_html`, with the coefficients of this fit in the place of the choice.

    Parameters
    ----------
    path : path-like
        An `.html` file; an existing one is replaced.
    title : str, optional
        Heading of the page.
    file : path-like, optional
        Where the fit is saved, to be named on the page with its checksum.

    Raises
    ------
    ValueError
        If `path` is not an `.html` file.
    OSError
        If `path` cannot be written, or `file` not be read.
    """
    check_path(path := Path(path))
    write(path, fit, _of_fit(fit), title, file)


def _of_fit(fit: Any) -> dict[str, Any]:
    release = getattr(fit, "release", None)  # of those that follow from one
    rows, method = fit.n_rows, fit.parameters["method"]
    terms = " + ".join(fit.design.terms)
    fitted = "follow from a release of the columns" if release else "were fitted by noisy sums"
    errors = {"HC1": " robust to unequal variance,", "cluster": " robust within units,"}
    return {
        "title": f"A private regression of {fit.target}",
        "intro": f"One regression{'' if rows is None else f' of {rows:,.0f} rows'} under "
        "differential privacy.",
        "warnings": warnings(release or fit),
        "tiles": tiles(fit, rows) | {"method": method},
        "guarantee": guarantee(release or fit),
        "answer": f'<h2 id="answer">{text_of(fit.target)}</h2>\n{RESULT}',
        "columns": column_descriptions(fit._described, fit.design.names),
        "methods": f"{fit.target} was regressed on {terms} under differential privacy for "
        f"{whose(release or fit)} ({fit._family.method}). Columns were clamped to public bounds, "
        f"and coefficients {fitted}, by privgram {__version__} with {budget(fit)} "
        f"({neighbours(release or fit)}). Standard errors,"
        f"{errors.get(fit.cov_type, ' which assume equal variance,')} include sampling error, "
        "privacy noise and an allowance for clipping.",
        "limits": LIMITS_OF_FIT,
        "facts": {
            "method": method,
            **({"because": fit.parameters["reason"]} if fit.parameters.get("reason") else {}),
            "standard errors": fit.cov_type,
        },
        "saved": {} if release else _saved_fit(fit),
        "view": {
            "labels": [(x, shown(x)) for x in fit.param_names if shown(x) != x],
            "compared": differences(fit.design),
            "stated": _stated(fit) if release else None,
        },
    }


def _saved_fit(fit: Any) -> dict[str, Any]:
    body = fit._header() | {name: array.tolist() for name, array in fit._arrays().items()}
    body["derived"] = fit._derived()
    return {"format": "privgram-regression", "version": 1, "fit": body}


def _stated(fit: Any) -> dict[str, Any]:
    """What `privgram.js` knows of a regression when it has found it."""
    found, size = fit.inference, len(fit.param_names)
    known: dict[str, Any] = {
        "estimate": _numbers(fit._estimate),
        "covariance": _numbers(found.covariance),
        "slope": _numbers(np.broadcast_to(found.slope, size)),
        "curvature": _numbers(np.broadcast_to(found.curvature, size)),
        "df": _numbers(np.asarray(found.df, float).min(initial=math.inf)),
        "refusal": found.refusal,
        "isBeyond": True,
    }
    rows = None if fit.n_rows is None else float(fit.n_rows)
    return {"names": fit.param_names, "n_rows": rows, "family": "gaussian", "known": known}


def _numbers(values: Any) -> Any:
    """Numbers for JSON, those that it lacks as texts that JavaScript reads."""
    if isinstance(values, np.ndarray) and values.ndim:
        return [_numbers(value) for value in values]
    x = float(values)
    if math.isfinite(x):
        return x
    return "NaN" if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
