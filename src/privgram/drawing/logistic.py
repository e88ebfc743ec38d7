"""Logistic regression by Newton steps, each a look at the table.

What decides a step is in `privgram.regression.newton`; this is where the table is read. Secret
side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_distinct, check_room
from privgram.columns import Columns, Factor
from privgram.columns.formula import parse_one
from privgram.columns.terms import parse_terms
from privgram.columns.variables import Boolean, Number
from privgram.drawing import random
from privgram.drawing.additive import add_noise
from privgram.drawing.norm_bound import check_size
from privgram.drawing.refined import Looks
from privgram.drawing.release import warn_of_weak
from privgram.engines import check_here
from privgram.engines.request import Pass
from privgram.engines.threads import accumulate, second_moment
from privgram.ledger import check_ledger
from privgram.mechanisms.refined import Refined, radii
from privgram.moment import SecondMoment
from privgram.moment.weighed import PARTS, Reaching, Weighed
from privgram.regression import newton as rules
from privgram.regression.design import AllColumns, NoOriginError, design
from privgram.regression.logistic import FORM, LogisticFit
from privgram.regression.newton import Point, Space

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from privgram.ledger import Ledger
    from privgram.privacy import Adjacency
    from privgram.regression.design import Design

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

__all__ = ["logistic"]


def logistic(
    source: Any,
    target: str,
    features: Iterable[str] | None = None,
    *,
    columns: Columns,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
    intercept: bool = True,
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    rng: np.random.Generator | None = None,
) -> LogisticFit:
    """Fit a logistic regression under differential privacy, by Newton steps.

    The table is read five to seven times. Each look releases the curvature and the score of the
    likelihood at coefficients that the looks before it gave, in coordinates that they taught.

    Parameters
    ----------
    source : table
        Whatever `release` reads and can be read again: an array, a path, a data frame, blocks.
    target : str
        What is explained, or a formula such as ``"married ~ poly(age, 2) + sex*region"`` (extra
        `formula`). A variable of true and false, of 0 and 1 within bounds (0, 1), or a factor of
        two levels, of which the first is the reference; or one level of any factor, "region[n]".
        A value that is neither 0 nor 1 is a missing one: `Columns` says what its row does.
    features : iterable of str, optional
        Terms, as in `Columns`, where there is no formula; by default all other variables.
    columns : Columns
        Public description of the variables. Those that are not used are not read.
    epsilon, delta : float
        The guarantee of all looks together, > 0 and in (0, 1).
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    intercept : bool
        Whether the model has one; a formula says so itself.
    reference : mapping of str to level, optional
        The level of a factor that is left out, the first by default.
    ledger : Ledger, optional
        Budget to enter the fit in, durably and as one entry, before any noise is drawn.
    threads : int, optional
        As in `second_moment`.
    out : path-like, optional
        File to save the fit to, `.json` or `.npz`. That it can be written is made sure of before
        anything is spent.
    rng : numpy.random.Generator, optional
        For experiments only. By default a cryptographic generator.

    Returns
    -------
    LogisticFit
        With standard errors and intervals that hold sampling and privacy noise; `refusal` says
        where there are none.

    Raises
    ------
    TypeError
        If a parameter is not of its type, or the source is a `SecondMoment`.
    ValueError
        If the target is not binary, a term is unknown, the guarantee cannot be met or paid for,
        or the table cannot be read again. Nothing is spent then.
    OSError
        If the table cannot be read, or the ledger or `out` written; or if it changed between two
        looks, when what was paid is lost.

    Notes
    -----
    A row moves the score by at most the radius of its look, and the curvature by that squared,
    whatever the coefficients and the frame are; ratios of sensitivity to noise add up in squares,
    so that the whole has the profile of one Gaussian mechanism (docs/theory/newton.md).

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 20_000)
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(1 - 2 * x))
    >>> columns = pg.Columns({"x": (-1, 1), "y": bool})
    >>> fit = logistic({"x": x, "y": y}, "y", ["x"], columns=columns, epsilon=1.0, delta=1e-6)
    >>> fit.param_names
    ('x', 'Intercept')
    """
    path = None if out is None else Path(out)
    check_ledger(ledger)
    if path is not None:
        FORM.check_suffix(path)
        check_distinct({}, {"ledger": None if ledger is None else ledger.path, "out": path})
        check_room(path)
    check_here(source, "logistic reads")
    if not isinstance(columns, Columns):
        raise TypeError("columns must be pg.Columns: the public bounds and levels of the variables")
    columns = columns.settled(adjacency)
    if not isinstance(target, str):
        raise TypeError("the target is the name of a variable, or a formula")
    if isinstance(features, str):
        features = [features]
    texts: list[str] | None = None if features is None else list(features)
    if "~" in target:
        if texts is not None:
            raise ValueError("a formula names the features: leave `features` out")
        parsed = parse_one(target)
        if parsed.endogenous:
            raise ValueError("a logistic regression has no instruments: leave them out")
        target, intercept = parsed.targets[0], parsed.intercept
        texts = [*parsed.features, *parsed.absorbed]
        reference = dict(parsed.references) | dict(reference or {})
    if columns.row_weights is not None:
        raise ValueError("logistic counts every row once: leave the weights of rows out of columns")
    target, variable = _binary(columns, target)
    if texts is None:
        texts = [name for name in columns.terms if name != variable]
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:
        source = _named(source, columns)
    used = _narrowed(columns, [*texts, variable], variable, intercept)
    given = {str(name): str(level) for name, level in (reference or {}).items()}
    try:
        model = design(AllColumns(used), target, texts, intercept, given)
    except NoOriginError:  # which the ones tell
        used = _narrowed(columns, [*texts, variable], variable, True)
        model = design(AllColumns(used), target, texts, intercept, given)
    generator, reproducible = random.resolve(rng)
    noise = Refined().calibrate(len(used), used.bound, epsilon, delta, adjacency)
    if ledger is not None:  # before the pass
        ledger.check(epsilon, delta, adjacency=adjacency, privacy=noise.privacy, unit="")
    moment = second_moment(source, columns=used, threads=threads)
    again = Pass(source, used, threads=threads)
    public = moment.n_rows + moment.n_dropped if adjacency == "replace" else None
    check_size(public)
    if not reproducible:
        warn_of_weak(epsilon, delta, public)
    if ledger is not None:
        ledger.spend(
            epsilon,
            delta,
            adjacency=adjacency,
            privacy=noise.privacy,
            unit="",
            what=f"logistic({target})",
        )
    looks = Looks(moment, noise, generator, lambda new: accumulate(again, new)[0])
    found = _Steps(looks, model, public).take()
    fit = LogisticFit(
        target=target,
        terms=tuple(texts),
        columns=used,
        reference=given,
        with_intercept=model.intercept,
        epsilon=float(epsilon),
        delta=float(delta),
        adjacency=adjacency,
        privacy=noise.privacy,
        reproducible=reproducible,
        parameters=looks.record["parameters"],
        **found,
    )
    if path is not None:
        fit.save(path)
    return fit


class _Steps:
    """The Newton steps: each look's release decides the next, and nothing else of the table."""

    def __init__(self, looks: Looks, model: Design, public: int | None) -> None:
        self.looks = looks
        self.public = public
        self.space = Space(model)

    def take(self) -> dict[str, Any]:
        """All looks; what the record has of the last one."""
        looks = self.looks
        first = looks.take(looks.moment, rules.FIRST)
        rows, spent = self._rows(first)
        left = 1 - rules.FIRST - spent - rules.COUNTS
        point = Point.first(self.space, first, looks.std[-1], rows)
        mean = self.space.mean(first)
        for _ in range(rules.MOST_MIDDLE):
            left -= rules.MIDDLE
            share = rules.MIDDLE * rules.MIDDLE_CURVED
            curved, pulled = self._look(point, point.clip, share, rules.MIDDLE - share)
            frame, std = point.frame, self._last_std
            point, move = point.step(curved, pulled, looks.std[-1], rows, mean)
            runaway = self.space.spread(frame, move, first, looks.std[0], rows) > rules.RUNAWAY
            far = rules.unsettled(move, curved, std, rows, rules.FAR)
            if not (point.frame.hidden or runaway or far):
                break
        near, left = left * rules.NEAR, left * (1 - rules.NEAR)
        clip = self._choose(point, left, rows)
        curved, pulled = self._divided(point, clip.size, near, rows)
        point = point.moved(curved, pulled, looks.std[-1])
        curved, pulled = self._divided(point, clip.size, left, rows)
        parameters = looks.record["parameters"]
        last = rules.newton_step(curved, pulled)
        step = self.space.spread(point.frame, last, first, looks.std[0], rows)
        parameters |= {"kept": clip.kept, "moved": clip.moved, "last_step": step}
        back = self.space.to_coef(point.frame)
        return {
            "curved": curved,
            "pulled": pulled,
            "start": back @ point.coef,
            "back": back,
            "curved_std": looks.std[-1],
            "pulled_std": self._last_std,
            "n_rows": rows,
        }

    def _rows(self, first: Matrix) -> tuple[float, float]:
        """The number of rows, and what part of the budget that costs."""
        model, looks = self.space.design, self.looks
        dropping = looks.moment.columns is not None and looks.moment.columns.missing == "drop"
        if self.public is not None and not dropping:
            return max(float(self.public), 1.0), 0.0
        if model.intercept:
            ones = model.frame[-2]
            return max(float(ones @ first @ ones), 1.0), 0.0
        return max(looks.number(rules.NUMBER), 1.0), rules.NUMBER

    def _pulled_std(self, clip: float, mu: float) -> float:
        """Noise of a score whose rows are up to `clip` long; a row replaced moves it by two."""
        return (2.0 if self.looks.noise.adjacency == "replace" else 1.0) * clip / mu

    @property
    def _last_std(self) -> float:
        """Noise of the score that was released last."""
        return float(self.looks.record["parameters"]["score_noise_std"][-1])

    def _choose(self, point: Point, share: float, rows: float) -> rules.Clip:
        """The clip of a look with a share of the budget, by a released histogram."""
        largest = point.frame.largest(float(self.looks.moment.bound))
        grid = np.sqrt(radii(point.frame.typical, largest))
        counts, counts_std = self._count(point, grid)
        mu = self.looks.mu(share * (1 - rules.CURVED_MOST / 2))
        score_std = np.array([self._pulled_std(clip, mu) for clip in grid])
        curved_std = np.array([self.looks.std_at(clip, share * rules.CURVED_MOST) for clip in grid])
        q = len(point.coef)
        return rules.choose_clip(counts, grid, counts_std, score_std, curved_std, rows, q)

    def _divided(
        self, point: Point, clip: float, share: float, rows: float
    ) -> tuple[Matrix, Vector]:
        """A look whose share is divided so that the step after it has the least noise."""
        mu = self.looks.mu(share)
        part = rules.curved_share(clip, mu, self._last_std, rows, len(point.coef))
        return self._look(point, clip, share * part, share * (1 - part))

    def _look(
        self, point: Point, clip: float, curved_share: float, pulled_share: float
    ) -> tuple[Matrix, Vector]:
        """Release the curvature and the score at a point, of rows weighed to a clip.

        The score is the last column of the second moment of rows (s, clip), |s| <= clip. No row's
        part of that is longer than half its squared length (docs/theory/newton.md).
        """
        looks, q = self.looks, len(point.coef)
        sums, scores = self._sums(point, clip)
        curved = looks.take(sums, curved_share)
        mu = looks.mu(pulled_share)
        std = self._pulled_std(scores.sensitivity_bound**2 / 2, mu)
        draw = np.zeros((q + 1, q + 1))
        draw[:q, q] = draw[q, :q] = looks.rng.normal(scale=std, size=q)
        # Of the whole, whose other entries have no noise, the column alone is released.
        pulled: Vector = add_noise(scores, draw, std)[:q, q] / clip
        parameters = looks.record["parameters"]
        parameters.setdefault("score_mu", []).append(mu)
        parameters.setdefault("score_noise_std", []).append(std / clip)
        return curved, pulled

    def _sums(self, point: Point, clip: float) -> tuple[SecondMoment, SecondMoment]:
        """The curvature, and the second moment of which the score is the last column: SECRET."""
        total = self.looks.read(
            self.space.whole(point.frame), lambda _: Weighed(point.coef, self.space.target, clip)
        )
        curved = SecondMoment.from_accumulator(total.curved, None, None)
        return curved, SecondMoment.from_accumulator(total.pulled, None, None)

    def _count(self, point: Point, grid: Vector) -> tuple[Vector, float]:
        """Release sums of |e| / m over rows, by how long their scores can be."""
        total = self.looks.read(
            self.space.whole(point.frame),
            lambda _: Reaching(point.coef, self.space.target, grid),
        )
        counts, std = self.looks.noisy(total, rules.COUNTS, PARTS)
        return counts / PARTS, std / PARTS


def _binary(columns: Columns, target: str) -> tuple[str, str]:
    """The target as designs name it, and its variable."""
    described = columns.variables.get(target)
    if isinstance(described, Factor):
        if len(described) != 2:
            raise ValueError(
                f"the target {target!r} has {len(described)} levels, and a logistic regression "
                f"explains two: name one, such as '{target}[{described.names[0]}]'"
            )
        return f"{target}[{described.names[1]}]", target
    if isinstance(described, Boolean) or (
        type(described) is Number and described.interval == (0.0, 1.0)
    ):
        return target, target
    if described is not None:
        raise ValueError(
            f"the target {target!r} is not binary: describe it by bool, by bounds (0, 1), or as a "
            "factor of two levels"
        )
    name = target.partition("[")[0]
    if isinstance(columns.variables.get(name), Factor):
        return target, name
    known = ", ".join(map(repr, columns.variables))
    raise ValueError(f"no variable {target!r} to explain; there are {known}")


def _narrowed(columns: Columns, texts: list[str], target: str, intercept: bool) -> Columns:
    """The description of what a model of these terms and this target uses."""
    make = partial(Columns, intercept=intercept, missing=columns.missing, terms=texts)
    variables = {name: columns.variables[name] for name in make(columns.variables).selected}
    if type(variables[target]) is Number:
        variables[target] = Boolean()  # a value between 0 and 1 is a missing one
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
