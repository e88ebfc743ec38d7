"""One regression of a table under differential privacy: the door to its looks."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privgram.columns import Columns
from privgram.columns.formula import parse_one
from privgram.columns.terms import parse_terms
from privgram.columns.variables import Numeric
from privgram.drawing import random
from privgram.drawing.refined import Looks
from privgram.drawing.release import warn_of_weak
from privgram.drawing.scores import Steps
from privgram.engines import check_here
from privgram.engines.threads import accumulate, second_moment
from privgram.ledger import check_ledger
from privgram.mechanisms.refined import Refined
from privgram.regression import scoring as rules
from privgram.regression.design import AllColumns, design
from privgram.regression.scored import HIDDEN, CovType, ScoreFit
from privgram.sources.kept import Kept, room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency
    from privgram.regression.scoring import Start

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["regress"]

#: Families of the target, and the losses of the normal one.
Family = Literal["gaussian"]


def regress(
    source: Any,
    formula: str,
    columns: Columns,
    epsilon: float,
    delta: float,
    *,
    adjacency: Adjacency = "replace",
    cov_type: CovType = "robust",
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    threads: int | None = None,
    cache: bool | int = True,
    rng: np.random.Generator | None = None,
) -> ScoreFit:
    """Fit one linear regression under differential privacy, with the least noise.

    The table is read four to eight times. A first look gives a start, the curvature and the scale
    of the errors; then the scores of the rows at the start, clipped, are released, whose noise is
    a factor of the root of the number of coefficients below that of a whole second moment. Where
    released numbers say that one look at the second moment has less noise, that is taken.

    Parameters
    ----------
    source : table
        Whatever `release` reads and can be read again: an array, a path, a data frame, blocks.
    formula : str
        Such as ``"log(wage) ~ education + poly(age, 2) + sex*region"`` (extra `formula`).
    columns : Columns
        Public description of the variables. Those that are not used are not read.
    epsilon, delta : float
        The guarantee of all looks together, > 0 and in (0, 1).
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    cov_type : {"robust", "nonrobust"}
        Whether standard errors allow for errors of unequal variance: the second moment of the
        clipped scores is released then, for a part of the budget.
    reference : mapping of str to level, optional
        The level of a factor that is left out, the first by default.
    ledger : Ledger, optional
        Budget to enter the fit in, durably and as one entry, before any noise is drawn.
    threads : int, optional
        As in `second_moment`.
    cache : bool or int
        As in `release`.
    rng : numpy.random.Generator, optional
        For experiments only. By default a cryptographic generator.

    Returns
    -------
    ScoreFit
        With standard errors and intervals that hold sampling, privacy noise and what clipping may
        have moved; `refusal` says where there are none. Of its `parameters`, `way` says which way
        was taken, "scores", "second moment" or "one look", and `why`.

    Raises
    ------
    TypeError
        If a parameter is not of its type, or the source is a `SecondMoment`.
    ValueError
        If a term is unknown, the guarantee cannot be met or paid for, or the table cannot be read
        again. Nothing is spent then.
    OSError
        If the table cannot be read, or the ledger written; or if it changed between two looks,
        when what was paid is lost.

    Notes
    -----
    A row moves a sum of scores by at most their clip, whatever start, frame and clip are; ratios
    of sensitivity to noise add up in squares, so that the whole has the profile of one Gaussian
    mechanism (docs/theory/scores.md).

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 20_000)
    >>> y = np.clip(1 + 2 * x + rng.normal(size=20_000), -9, 9)
    >>> columns = pg.Columns({"x": (-1, 1), "y": (-9, 9)})
    >>> fit = pg.regress({"x": x, "y": y}, "y ~ x", columns, epsilon=1.0, delta=1e-6)
    >>> fit.names
    ('x',)
    """
    check_ledger(ledger)
    check_here(source, "regress reads")
    if not isinstance(columns, Columns):
        raise TypeError("columns must be pg.Columns: the public bounds and levels of the variables")
    if not isinstance(formula, str) or "~" not in formula:
        raise ValueError("a formula is text such as 'wage ~ age + sex*region'")
    if cov_type not in get_args(CovType):
        raise ValueError(f"cov_type is 'robust' or 'nonrobust', not {cov_type!r}")
    if columns.row_weights is not None:
        raise ValueError("regress counts every row once: leave the weights of rows out of columns")
    target, texts, intercept = parse_one(formula)
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:
        source = _named(source, columns)
    used = _narrowed(columns, [*texts, _variable(columns, target)], intercept)
    given = {str(name): str(level) for name, level in (reference or {}).items()}
    model = design(AllColumns(used), target, texts, intercept, given)
    generator, reproducible = random.resolve(rng)
    noise = Refined().calibrate(len(used), used.bound, epsilon, delta, adjacency)
    if ledger is not None:  # before the pass
        ledger.check(epsilon, delta, adjacency=adjacency, privacy=noise.privacy)
    kept = Kept(source, room(cache))
    moment = second_moment(kept, columns=used, threads=threads)
    public = moment.n_rows + moment.n_dropped if adjacency == "replace" else None
    if not reproducible:
        warn_of_weak(epsilon, delta, public)
    if ledger is not None:
        what = f"regress({formula})"
        ledger.spend(epsilon, delta, adjacency=adjacency, privacy=noise.privacy, what=what)
    looks = Looks(
        moment, noise, generator, lambda new: accumulate(kept, used, threads, False, new)[0]
    )
    way, why, found = Steps(looks, model, public, cov_type == "robust").take()
    parameters = looks.record["parameters"] | {"way": way, "why": why}
    shared: dict[str, Any] = {
        "columns": used,
        "epsilon": float(epsilon),
        "delta": float(delta),
        "adjacency": adjacency,
        "privacy": noise.privacy,
        "reproducible": reproducible,
    }
    start = found["start"]
    if way == "scores":
        clip = found["clip"]
        parameters |= {"clip": clip.size, "clipped_rows": clip.beyond}
        parameters["clipping_error"] = clip.error / math.sqrt(start.rows)
        solution, (sampling, privacy) = found["coef"], _covariance(found)
    else:
        seen = {"clipped_rows": 0.0, "clipping_error": 0.0} | found
        parameters |= {name: seen[name] for name in ("clipped_rows", "clipping_error")}
        solution, (sampling, privacy) = start.coef, _of_matrix(start, seen["clipping_error"])
    refused = HIDDEN if start.hidden or start.rough > rules.TRUSTED else None
    if refused is None and start.rows <= len(solution):
        refused = "there are too few rows"
    return ScoreFit(
        target=target,
        terms=tuple(texts),
        reference=given,
        with_intercept=model.intercept,
        solution=solution,
        sampling=sampling,
        noise=privacy,
        cov_type=cov_type if way == "scores" else "nonrobust",
        n_rows=start.rows,
        refused=refused,
        parameters=parameters,
        **shared,
    )


def _covariance(found: dict[str, Any]) -> tuple[Matrix, Matrix]:
    """Of the design's coefficients: as of a sample, and of what privacy does."""
    start, clip, q = found["start"], found["clip"], len(found["coef"])
    factor = start.rows / max(start.rows - q, 1.0)
    meat = clip.whole * np.eye(q)
    if found["meat"] is not None:
        deviation = np.sqrt(2.0) * found["meat_std"]
        values, vectors = np.linalg.eigh(found["meat"])
        meat = (vectors * (np.maximum(values, deviation) + deviation)) @ vectors.T
        meat = meat + clip.square * np.eye(q)
    privacy = (found["noise"] ** 2 + clip.error**2) * np.eye(q) + start.left(found["step"])
    back = start.scale * start.white.T / start.rows
    return back @ (factor * meat) @ back.T, back @ privacy @ back.T


def _of_matrix(start: Start, error: float) -> tuple[Matrix, Matrix]:
    """Of the coefficients at a start: as of a sample, and of what privacy does."""
    q = len(start.coef)
    back = start.scale * start.white.T / start.rows
    factor = start.rows / max(start.rows - q, 1.0)
    moved = error**2 * start.rows * np.eye(q)
    return factor * start.rows * back @ back.T, back @ (start.noise + moved) @ back.T


def _variable(columns: Columns, target: str) -> str:
    """The variable of a target, as it is named in the table."""
    for name, described in columns.variables.items():
        if target == name or (isinstance(described, Numeric) and target == described.label(name)):
            return name
    return target.partition("[")[0]


def _narrowed(columns: Columns, texts: list[str], intercept: bool) -> Columns:
    """The description of what a model uses."""
    make = partial(Columns, intercept=intercept, missing=columns.missing, terms=texts)
    variables = {name: columns.variables[name] for name in make(columns.variables).selected}
    labels = {term.label(variables) for term in parse_terms(texts, variables)}
    weights = {text: weight for text, weight in columns.weights.items() if text in labels}
    return make(variables, weights=weights)


def _named(table: NDArray[Any], columns: Columns) -> dict[str, NDArray[Any]]:
    """The columns of an array, by the names of the description in its order."""
    if table.shape[1] != len(columns.selected):
        raise ValueError(
            f"Columns has bounds for {len(columns.selected)} columns and the table has "
            f"{table.shape[1]}; columns without names are taken in the order of the bounds"
        )
    return dict(zip(columns.selected, table.T, strict=True))
