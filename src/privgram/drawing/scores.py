"""One regression by scores of rows: the looks at the table.

What decides a look is in `privgram.regression.scoring`; this is where the table is read. Secret
side: of what is read only the noisy sums leave.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import check_distinct, check_room
from privgram._core.rows import Accumulator
from privgram._core.units import UnitAccumulator
from privgram.columns.unit import Auto
from privgram.drawing import random
from privgram.drawing.draws import CHANGED, Looks, impose
from privgram.drawing.norm_bound import Choice, check_size
from privgram.drawing.release import warn_of_weak
from privgram.engines import Pass
from privgram.engines.threads import accumulate, accumulate_units, second_moment
from privgram.exact import limbs
from privgram.ledger import check_ledger
from privgram.mechanisms import refined as frames
from privgram.mechanisms.refined import Frame, Refined
from privgram.moment import SecondMoment
from privgram.moment.groups import bounds_of
from privgram.moment.scored import (
    PARTS,
    UNITS,
    Curved,
    Leading,
    ScoreBoth,
    ScoreShells,
    ScoreSum,
    UnitScored,
    UnitSecond,
    scale,
)
from privgram.noise import GaussianLaw, combine
from privgram.regression import scoring as rules
from privgram.regression.design import AllColumns, design, left_out
from privgram.regression.scored import FORM, HIDDEN, Clipping, ScoreFit
from privgram.sources.table import Kept

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns
    from privgram.columns.terms import Parsed
    from privgram.columns.unit import Guarantee, Unit
    from privgram.ledger import Ledger
    from privgram.noise import NoiseLaw
    from privgram.regression.design import Design
    from privgram.regression.families import FamilyName
    from privgram.regression.scoring import Clip, Start


def scored(
    source: Any,
    parsed: Parsed,
    used: Columns,
    *,
    robust: bool,
    guarantee: Guarantee,
    steps: Callable[..., Steps] | None = None,
    family: FamilyName = "gaussian",
    reference: Mapping[str, Any] | None = None,
    ledger: Ledger | None = None,
    out: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    rng: np.random.Generator | None = None,
    unit: Unit | None = None,
    wide: Any = None,
    clipping: Clipping = "cautious",
) -> ScoreFit:
    """Fit a regression by scores, or by what is predicted to be better; as `privgram.regress`.

    The table is one that can be read again, by one machine. The formula is without instruments, and
    `used` what it needs. `steps` makes the `Steps`, those of `family`. The bound of a `unit` that
    says neither it nor rows is chosen here. Of a `wide` factor no columns are made.
    """
    path = _checked(out, ledger)
    given = left_out(parsed.references, reference)
    target, texts = parsed.targets[0], parsed.features
    if wide is None:
        model, outer = design(AllColumns(used), target, texts, parsed.intercept, given), None
    else:
        model, outer = wide.inner(target, given), wide.design(target, given)
    looked = used if wide is None else wide.narrow
    if isinstance(source, np.ndarray) and source.dtype.names is None and source.ndim == 2:
        source = dict(zip(used.selected, source.T, strict=True))
    generator, reproducible = random.resolve(rng)
    chosen = unit is not None and unit.rows is None and unit.bound is None
    bound = looked.bound if unit is None or chosen else bounds_of(unit, looked.bound)[1]
    noise = Refined().noise_for(guarantee, len(looked), bound)
    if ledger is not None:  # before the pass
        ledger.check(**guarantee.price, privacy=noise.privacy)
    kept = source if unit is not None and unit.values is not None else Kept(source)
    again = Pass(kept, used, unit=unit, threads=threads)
    first: Any
    if wide is not None:
        first, numbers = wide.first(again)
    elif chosen:
        choice = Choice(Auto(1.0), again, guarantee.adjacency, bins_per_octave=rules.FINENESS // 2)
        first = choice.count()
    else:
        first = second_moment(kept, columns=used, unit=unit, threads=threads)
    known = first.n_rows + (first.n_dropped if unit is None else 0)
    public = known if guarantee.size_is_public else None
    check_size(public)
    if not reproducible:
        warn_of_weak(guarantee, public)
    if ledger is not None:
        ledger.spend(**guarantee.price, privacy=noise.privacy, what=f"regress({target})")
    looks: Looks
    if unit is None:
        looks = Looks(first, noise, generator, lambda new: accumulate(again, new)[0])
    else:
        looks = UnitLooks(first, noise, generator, lambda new: accumulate_units(again, new)[0])
        if chosen:
            unit = looks.bounded(unit, choice.grid)
            looks.moment = second_moment(kept, columns=used, unit=unit, threads=threads)
            if looks.moment.n_rows != first.n_rows:
                raise OSError(CHANGED)
            bound = bounds_of(unit, used.bound)[1]
            looks.noise = Refined().noise_for(guarantee, len(used), bound)
    cautious = clipping == "cautious"
    if wide is None:
        way, why, found = (steps or Steps)(looks, model, public, robust, cautious).take()
    else:
        way, why = "scores", ""
        found = wide.steps(looks, numbers, again, model, public, robust, cautious).take()
    parameters = {"rows_std": 0.0, "units": None if unit is None else public}
    parameters |= looks.record["parameters"] | {"way": way, "why": why, "clipping": clipping}
    start = found["start"]
    solution, (sampling, privacy), record = _estimate(found, way, wide, outer)
    parameters |= record
    refused = HIDDEN if start.hidden or start.rough > rules.TRUSTED else found.get("refused")
    if refused is None and start.rows <= len(solution):
        refused = "there are too few rows"
    behind = start.rows
    if wide is not None:
        used, texts = wide.written_of
        given = {name: level for name, level in given.items() if name in used.variables}
    if used.row_weights is not None and public is not None and unit is None:
        behind = float(public)  # the ones have the sum of weights alone
        parameters["rows_std"] = 0.0
    fit = ScoreFit(
        target=target,
        terms=tuple(texts),
        columns=used,
        reference=given,
        with_intercept=model.intercept,
        solution=solution,
        sampling=sampling,
        noise=privacy,
        robust=robust and way == "scores",
        n_rows=behind,
        refused=refused,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        adjacency=guarantee.adjacency,
        privacy=noise.privacy,
        parameters=parameters,
        reproducible=reproducible,
        unit=None if unit is None else unit.name,
        family=family,
    )
    if path is not None:
        fit.save(path)
    return fit


def _checked(out: str | os.PathLike[str] | None, ledger: Ledger | None) -> Path | None:
    """Where the fit is to be written; refused here if it cannot be, before anything is spent."""
    check_ledger(ledger)
    if out is None:
        return None
    path = Path(out)
    FORM.check_suffix(path)
    check_distinct({}, {"ledger": None if ledger is None else ledger.path, "out": path})
    check_room(path)
    return path


def _estimate(
    found: dict[str, Any], way: str, wide: Any, outer: Any
) -> tuple[Vector, tuple[Matrix, Matrix], dict[str, Any]]:
    """Coefficients, what sampling and privacy leave open of them, and what is told of that."""
    start = found["start"]
    record: dict[str, Any] = {"scale": start.scale}
    if way != "scores":
        seen = {"clipped_rows": 0.0, "clipping_error": 0.0} | found
        record |= {name: seen[name] for name in ("clipped_rows", "clipping_error")}
        return start.coef, _of_matrix(start, seen["clipping_error"]), record
    clip = found["clip"]
    record |= {"clip": clip.size, "clipped_rows": clip.beyond}
    record["clipping_error"] = clip.doubt / math.sqrt(start.rows)
    record |= {"huber": found["huber"]} if "huber" in found else {}
    if wide is None:
        return found["coef"], _covariance(found), record
    solution, sampling, privacy = wide.written(outer, found)
    record["hidden_levels"] = found["hidden"]
    if not wide.shown:
        record |= {"absorbed": wide.factor, "absorbed_levels": wide.size}
    return solution, (sampling, privacy), record


class UnitLooks(Looks):
    """Looks at a secret table whose units are protected: what is added up is of units."""

    def bounded(self, unit: Unit, grid: Vector) -> Unit:
        """The unit with a bound near the median of the units' norms, by a released histogram.

        `moment` are counts of units by norm, up to the points of the grid.
        """
        below = np.cumsum(self.noisy(self.moment, rules.CHOICE)[0])
        return replace(unit, bound=float(grid[int((below >= below[-1] / 2).argmax())]))

    def read(self, frame: Frame, new: Any) -> Any:
        """Feed an accumulator the scores of units; the table must be the one of before."""
        assert self.reread is not None
        assert self.moment.columns is not None
        bound = float(self.moment.columns.bound)  # that of a unit is for the first look
        size = len(frame.matrix)

        def of_units(_: int) -> UnitScored | UnitSecond:
            inner = new(size)
            if isinstance(inner, Curved | Leading):
                return UnitSecond(frame.matrix, bound, inner)
            return UnitScored(frame.matrix, bound, inner)

        look = self.reread(of_units)
        if look.n_rows != self.moment.n_rows:
            raise OSError(CHANGED)
        return look.inner


class Steps:
    """The looks of one regression: each release decides the next, and nothing else of the table.

    `public` is the number of rows, where it is. With `robust` the second moment of scores is
    released too. Intervals are `cautious` of rows that noise hides, or take their mean.
    """

    def __init__(
        self, looks: Looks, design: Design, public: int | None, robust: bool, cautious: bool
    ) -> None:
        self.looks = looks
        self.design = design
        self.public = public
        self.robust = robust
        self.cautious = cautious
        self.joint = design.frame  # (q + 1, d)
        # Orthonormal: noise in it is isotropic as in the columns.
        self.basis = np.linalg.qr(self.joint.T)[0].T
        self.images = self.joint @ self.basis.T
        self.q = len(self.joint) - 1
        unit = looks.moment.privacy_unit
        self.of_units = unit is not None
        #: Rows of a unit: that its bound is for, and on average, once that is known.
        self.most = 1.0 if unit is None else (float(looks.moment.bound) / unit.row_bound) ** 2
        self.each = self.most
        chosen = bool(looks.record["parameters"]["counts_mu"])  # as was the bound
        self.first = rules.FIRST_OF_UNITS if self.of_units else rules.FIRST
        self.left = 1 - self.first - (rules.CHOICE if chosen else 0.0)
        self.chosen = chosen
        self.usual = rules.USUAL * math.sqrt(self.q * self.each)
        #: A row replaced moves a score by two.
        self.moves = 2.0 if looks.noise.adjacency == "replace" else 1.0

    def take(self) -> tuple[str, str, Any]:
        """All looks: which way was taken, why, and what it found."""
        looks = self.looks
        first = looks.take(looks.moment, self.first)
        rows, spent = self._rows(first)
        left = self.left - spent
        rate = looks.noise.mu * rows / (self.each * math.sqrt(self.q + 1))
        if rate < frames.CLEAR:
            return self._once(
                first, rows, left, "the rows are too few beside the noise for second looks"
            )
        start, frame, left = self._start(first, rows, left)
        predicted = start.predicted(self._predicted(start, self.usual, left * 0.8))
        radius = rules.reach(frame.typical, self.q + 1, last=True)
        matrix = looks.std_at(radius, left - frames.COUNTS_IF_NOISY) / math.sqrt(rows)
        if self.of_units:  # the choice of the radius is for rows
            matrix = math.inf
        if self._worse(start, first, left, min(predicted, matrix)):
            return self._once(
                first, rows, left, "one look is predicted to have less noise than others"
            )
        if matrix < predicted and predicted > rules.NOTHING:
            why = "the noise hides the curvature, of which scores would tell nothing"
            return "second moment", why, self._matrix(first, frame, rows, left)
        start, left = self._nearer(start, left)
        shells = self._shells(start)
        left -= rules.COUNTS + rules.TURNS
        # Nothing that is asked of the second moment of scores is known yet.
        noise = self.moves / looks.mu(left * 0.92)
        clip = rules.choose_clip(*shells, noise, rows, cautious=self.cautious)
        predicted = math.hypot(clip.noise, clip.error) / math.sqrt(rows)
        if self._worse(start, first, left, predicted):
            return self._once(first, rows, left, "scores are so long that one look has less noise")
        return "scores", "", self._steps(start, clip, left)

    def _rows(self, first: Matrix) -> tuple[float, float]:
        """The number of rows, and what part of the budget that costs."""
        looks = self.looks
        dropping = looks.moment.columns.missing == "drop"
        weighted = looks.moment.columns.row_weights is not None  # which the ones have
        if self.of_units:
            return self._rows_of_units(first)
        if self.public is not None and not (dropping or weighted):
            return max(float(self.public), 1.0), 0.0
        if self.design.intercept:
            return rows_of(looks, first, self.joint[-2]), 0.0
        return max(looks.number(rules.NUMBER), 1.0), rules.NUMBER

    def _rows_of_units(self, first: Matrix) -> tuple[float, float]:
        """The number of their rows, and what knowing that of units costs: the mean is learnt."""
        looks, spent = self.looks, 0.0 if self.public is not None else rules.NUMBER
        units = max(float(self.public or looks.number(rules.NUMBER)), 1.0)
        rows = rows_of(looks, first, self.joint[-2]) if self.design.intercept else units
        each = min(max(rows / units, 1.0), math.inf if self.chosen else self.most)
        self.usual *= math.sqrt(each / self.each)
        self.each = each
        self.most = rules.MOST_ROWS * each if self.chosen else self.most
        return rows, spent

    def _start(self, first: Matrix, rows: float, left: float) -> tuple[Start, Frame, float]:
        """Looks at the middle, as many as are worth it, and where they lead."""
        looks, std = self.looks, self.looks.std[-1]
        start = self._plain(first, std, rows)
        known = impose(first, isotropic(std), looks.moment.columns)[0]
        frame = frames.whiten(self.basis @ known @ self.basis.T, std, rows)
        for share in rules.MIDDLES:
            radius = rules.reach(frame.typical, self.q + 1) * math.sqrt(self.each)
            radius = min(radius, math.sqrt(self._largest(frame) * self.most))
            taught = frame.teaches(looks.std_at(radius, share), rows)
            if not taught or start.clear(self._predicted(start, self.usual, left * 0.8)):
                break
            left -= share
            middle, into, matrix, law = self._look(first, frame, radius, share)
            std = looks.std[-1]
            frame = frames.whiten(middle, std, rows, frame)
            start = self._begin(into, matrix, law, std, rows)
        return start, frame, left

    def _look(
        self, first: Matrix, frame: Frame, radius: float, share: float
    ) -> tuple[Matrix, Matrix, Matrix, NoiseLaw]:
        """Release a second moment in a frame of the basis; and its average with the first one."""
        looks, m = self.looks, self.q + 1
        whole = self._whole(frame.matrix @ self.basis)
        total = looks.read(whole, lambda _: Leading(summed(m, radius, self.of_units)))
        unit = looks.moment.privacy_unit
        moment = SecondMoment.from_accumulator(total.inner, None, None, unit=unit)
        found = looks.take(moment, share)
        into = frame.matrix
        if self.of_units:  # of which the first look clipped more
            return found, into, found, isotropic(looks.std[-1])
        laws = [isotropic(looks.std[0]).image(into), isotropic(looks.std[-1])]
        weights, law = combine(laws, m)
        before = into @ self.basis @ first @ self.basis.T @ into.T
        return found, into, weights[0] * before + weights[1] * found, law

    def _matrix(self, first: Matrix, frame: Frame, rows: float, left: float) -> dict[str, Any]:
        """Spend what is left on a second moment in a frame, as `Refined` does."""
        looks = self.looks
        whole = replace(self._whole(frame.matrix @ self.basis), typical=frame.typical)
        share = frames.COUNTS_IF_NOISY
        choice = looks.choose(whole, share, left - share)
        _, into, matrix, law = self._look(first, frame, choice.size, left - share)
        error = frames.ALLOWED * looks.std[-1] / math.sqrt(rows)
        start = self._begin(into, matrix, law, looks.std[-1], rows)
        return {"start": start, "clipped_rows": choice.beyond, "clipping_error": error}

    def _begin(self, into: Matrix, matrix: Matrix, law: NoiseLaw, std: float, rows: float) -> Start:
        """Where a second moment leads, released in a frame of the basis."""
        found = start_of(matrix, law, std, self.images @ np.linalg.inv(into), rows)
        return replace(found, short=rules.SHORT_OF_UNITS) if self.of_units else found

    def _largest(self, frame: Frame) -> float:
        return frame.largest(float(self.looks.moment.columns.bound))

    def _whole(self, leading: Matrix) -> Frame:
        """A map of the released columns to a few numbers, and then to nothing."""
        d = self.looks.moment.n_columns
        matrix = np.zeros((d, d))
        matrix[: len(leading)] = leading
        return Frame(matrix, 1.0, 1.0)

    def _at(self, start: Start) -> Frame:
        """The map to (z, e) at a start."""
        v = np.append(-start.coef, 1.0) / start.scale
        return self._whole(np.vstack([start.white @ self.joint[:-1], v @ self.joint]))

    def _read(self, start: Start, new: Callable[[int], Any]) -> Any:
        """What an accumulator makes of the scores at a start."""
        return self.looks.read(self._at(start), new)

    def _longest(self, start: Start) -> float:
        """The largest score that a row can have, at most."""
        matrix = self._at(start).matrix
        return self._far(matrix[: self.q]) * self._far(matrix[self.q, None])

    def _far(self, leading: Matrix) -> float:
        """The longest image that a row can have, at most: by its length, and by its entries."""
        columns = self.looks.moment.columns
        ends = np.linalg.norm(columns.layout.farthest(leading))
        return float(min(np.linalg.norm(leading, 2) * float(columns.bound), ends))

    def _predicted(self, start: Start, clip: float, left: float) -> float:
        """Noise of scores with what will be left, in sampling errors."""
        mu = self.looks.mu(left)
        return self.moves * clip / mu / math.sqrt(start.rows)

    def _worse(self, start: Start, first: Matrix, left: float, predicted: float) -> bool:
        """Whether one look with all that is left is predicted to have less noise than scores."""
        if predicted < rules.NOTHING:
            return False
        whole = self.first + left
        one = replace(self.looks.noise, noise_std=self.looks.noise.noise_std / math.sqrt(whole))
        law = impose(first, one.law, self.looks.moment.columns)[1].image(self.joint)
        v = np.append(-start.coef, 1.0)
        noise = law.sandwich(np.zeros((self.q + 1,) * 2), np.outer(v, v))[:-1, :-1]
        inverse = start.white.T @ start.white / start.rows
        own = self.design.transform[: len(self.design.names)]
        sampled = ((own @ inverse) * own).sum(axis=1) * start.scale**2
        pulled = own @ inverse
        ratio = ((pulled @ noise) * pulled).sum(axis=1) / sampled
        return math.sqrt(float(ratio.mean())) < predicted

    def _once(
        self, first: Matrix, rows: float, left: float, why: str
    ) -> tuple[str, str, dict[str, Any]]:
        """Spend what is left on another look at the columns, and average it with the first."""
        looks = self.looks
        rest = looks.take(looks.moment, left)
        whole = self.first + left
        average = (self.first * first + left * rest) / whole
        std = looks.noise.law.std / math.sqrt(whole)
        return "one look", why, {"start": self._plain(average, std, rows)}

    def _plain(self, matrix: Matrix, std: float, rows: float) -> Start:
        """Where a second moment leads that was released in the columns themselves."""
        known, law = impose(matrix, isotropic(std), self.looks.moment.columns)
        inside = self.basis @ known @ self.basis.T
        return self._begin(np.eye(self.q + 1), inside, law.image(self.basis), std, rows)

    def _shells(
        self, start: Start, share: float = rules.COUNTS
    ) -> tuple[Vector, Matrix, Vector, float, float]:
        """Release how many scores are of each length, and where they point."""
        looks, q = self.looks, self.q
        # Units have as many rows as the bound is for: what is longer is in the last shell.
        grid = rules.lengths(math.sqrt(q), self._longest(start) * self.most)
        found = self._read(start, lambda _: ScoreShells(q, grid))
        counts, counts_std = counted(looks, found, share)
        turns, turns_std = released(looks, found.total, 1.0, rules.TURNS, q, self.moves)
        return counts, turns, grid, counts_std, turns_std

    def _nearer(self, start: Start, left: float) -> tuple[Start, float]:
        """Steps before all others, while the noise of the start would be felt in the end."""
        std = self._predicted(start, self.usual, left * rules.EARLY) * math.sqrt(start.rows)
        share = rules.AHEAD * left
        for _ in range(rules.MOST_AHEAD):
            if start.rest(start.behind) <= rules.LEFT * std**2:
                break
            left -= share
            score, noise = self._score(start, rules.WIDE * self.usual, share)
            moved = start.step(score)
            behind = noise**2 + start.wrong(moved)
            start = replace(start, coef=start.coef + moved, behind=behind)
        return start, left

    def _steps(self, start: Start, clip: Clip, left: float) -> dict[str, Any]:
        """Two steps, and how the scores vary."""
        looks, rows = self.looks, start.rows
        second = 0.0
        if self.robust:
            wanted = (clip.size**2 / (0.1 * rows * looks.noise.mu)) ** 2
            second = left * min(max(wanted, 0.02), 0.12)
            left -= second
        early = rules.EARLY * left
        score, std = self._score(start, clip.size, early)
        moved = start.step(score + clip.taken)
        between = replace(start, coef=start.coef + moved)
        meat, meat_std = None, 0.0
        if self.robust:
            both = self._read(between, lambda _: ScoreBoth(self.q, clip.size))
            moment = SecondMoment.from_accumulator(both.second, None, None)
            meat, meat_std = looks.take(moment, second), looks.std[-1]
            score, last = self._released(both, clip.size, left - early)
        else:
            score, last = self._score(between, clip.size, left - early)
        # Two estimates that share the sample alone, weighed by what else they miss.
        behind = std**2 + start.wrong(moved)
        ahead = last**2 + start.rest(behind)
        part = behind / (behind + ahead)
        step = part * start.step(score + clip.taken)
        coef = between.coef + step
        origin = start.coef + part * moved
        return {
            "start": start,
            "coef": coef,
            "step": coef - origin,
            "noise": math.hypot((1 - part) * std, part * last),
            "clip": clip,
            "meat": meat,
            "meat_std": meat_std,
            "part": part,
        }

    def _score(self, start: Start, clip: float, share: float) -> tuple[Vector, float]:
        """Release a score at a start; with the deviation of its noise."""
        found = self._read(start, lambda _: ScoreSum(self.q, clip))
        return self._released(found, clip, share)

    def _released(self, found: ScoreSum, clip: float, share: float) -> tuple[Vector, float]:
        """Release a sum of clipped scores."""
        return released(self.looks, found.total, clip, share, self.q, self.moves)


def _covariance(found: dict[str, Any]) -> tuple[Matrix, Matrix]:
    """Of the design's coefficients: as of a sample, and of what privacy does."""
    start, clip, q = found["start"], found["clip"], len(found["coef"])
    factor = start.rows / max(start.rows - q, 1.0)
    meat = clip.whole * np.eye(q)
    if found["meat"] is not None:
        meat = rules.raised(found["meat"], found["meat_std"]) + clip.square * np.eye(q)
    privacy = (found["noise"] ** 2 + clip.doubt**2) * np.eye(q) + start.left(found["step"])
    back = start.scale * start.white.T / start.rows
    return back @ (factor * meat) @ back.T, back @ privacy @ back.T


def _of_matrix(start: Start, error: float) -> tuple[Matrix, Matrix]:
    """Of the coefficients at a start: as of a sample, and of what privacy does."""
    q = len(start.coef)
    back = start.scale * start.white.T / start.rows
    factor = start.rows / max(start.rows - q, 1.0)
    moved = error**2 * start.rows * np.eye(q)
    return factor * start.rows * back @ back.T, back @ (start.noise + moved) @ back.T


def add_to_integers(
    total: NDArray[np.int64], std: float, unit: float, rng: np.random.Generator
) -> Vector:
    """Sums of whole units with noise, on the public grid of the noise."""
    noise = rng.normal(scale=std, size=total.shape)
    exponent = limbs.grid_exponent(std / unit)
    noisy = limbs.add(limbs.from_int64(total), limbs.to_limbs(noise / unit))
    return limbs.round_to_grid(noisy, exponent) * (unit * 2.0**exponent)


def released(
    looks: Looks, total: NDArray[np.int64], clip: float, share: float, q: int, moves: float
) -> tuple[Vector, float]:
    """Release sums of vectors of q entries, scaled to a clip; with the deviation of their noise."""
    mu = looks.mu(share)
    std = moves * clip * (UNITS / scale(q)) / mu
    parameters = looks.record["parameters"]
    parameters.setdefault("score_mu", []).append(mu)
    parameters.setdefault("score_noise_std", []).append(std)
    return add_to_integers(total.ravel(), std, clip / scale(q), looks.rng).reshape(total.shape), std


def counted(looks: Looks, shells: ScoreShells, share: float) -> tuple[Vector, float]:
    """Release how many scores are of each length; with the deviation of the noise."""
    counts, std = looks.noisy(shells, share, PARTS)
    return counts / PARTS, std / PARTS


def rows_of(looks: Looks, first: Matrix, ones: Vector) -> float:
    """The number of rows, or the sum of their weights, off the first look; its error is kept."""
    looks.record["parameters"]["rows_std"] = math.sqrt(2.0) * looks.std[-1] * float(ones @ ones)
    return max(float(ones @ first @ ones), 1.0)


def start_of(matrix: Matrix, law: NoiseLaw, std: float, back: Matrix, rows: float) -> Start:
    """Where a released second moment leads, by the map back to the columns of the design."""
    joint = back @ matrix @ back.T
    edge = 2 * math.sqrt(len(matrix)) * std * back @ back.T
    return rules.start((joint + joint.T) / 2, law.image(back), edge, rows)


def isotropic(std: float) -> GaussianLaw:
    """The law of isotropic noise, by its deviation off the diagonal."""
    return GaussianLaw(std, math.sqrt(2.0) * std)


def summed(columns: int, bound: float, units: bool) -> Accumulator | UnitAccumulator:
    """What adds up squares of rows, or of units, which are clipped to a radius."""
    return UnitAccumulator(columns, bound, bound) if units else Accumulator(columns, bound)
