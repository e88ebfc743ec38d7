"""The standard errors that regressions on a release will have, by mechanism, epsilon and rows."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.numbers import check_positive
from privgram._base.text import Printed, aligned, number, shown
from privgram.adaptive.radius import cumulative_counts, weighted_counts
from privgram.adaptive.rounds import AdaptiveRounds, known_of, run_rounds
from privgram.columns import Columns
from privgram.columns.variables import Numeric
from privgram.mechanisms import AdaptiveGaussian, AnalyzeGauss, MatrixLaplace
from privgram.mechanisms.adaptive import AdaptiveGaussianCalibration
from privgram.noise import GaussianLaw, symmetric_gaussian
from privgram.planning import designs
from privgram.planning.designs import EARLIER, DesignInput, PlanDesign, plan_design_of
from privgram.planning.simulation import DrawRule, SimulatedFit, simulate_fits
from privgram.privacy import StatedProfile
from privgram.regression import RefusedError, regress
from privgram.releases.record import ReleaseRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from privgram._base.numbers import Matrix, Vector
    from privgram._base.saved import JsonObject
    from privgram.adaptive.whitening import WhiteningTransform
    from privgram.mechanisms import Calibration, Mechanism
    from privgram.noise import NoiseLaw
    from privgram.privacy import Guarantee
    from privgram.regression import OLSResults


#: Releases of simulated rows for one number. It depends on the noise, most where the noise is
#: large, and so does where adaptive rounds clip.
POWER_DRAWS = DrawRule(least=9, most=81, median_within=0.03)

#: The range of standard errors is worth a note where its ends differ by so much.
WIDE = 1.3

#: Of a target that seems to be explained by more than this, an earlier release shows nothing else:
#: its noise made a direction's second moment negative, which is none.
EXPLAINED = 1 - 1e-9

#: More coefficients than this are not drawn each.
MOST_LINES = 8


@dataclass(frozen=True)
class PowerRow:
    """One coefficient of a planned regression.

    Attributes
    ----------
    target, name : str
    coef : float
        In the design, in own units.
    sampling : float
        Its standard error without privacy.
    stderr : dict of str to float or None
        With sampling and privacy noise, by mechanism: the median of releases; None where
        inference would be refused.
    range : dict of str to (float, float) or None
        Eight of ten releases lie between: they differ most where noise is large, and by second
        rounds where it decides how far rows are cut.
    """

    target: str
    name: str
    coef: float
    sampling: float
    stderr: dict[str, float | None]
    range: dict[str, tuple[float, float] | None]


@dataclass(frozen=True)
class PowerCurveRow:
    """One coefficient at one epsilon and number of rows: see `PowerRow`."""

    epsilon: float
    n_rows: int
    mechanism: str
    name: str
    sampling: float
    stderr: float | None


@dataclass(frozen=True, repr=False)
class PowerCurve(Printed):
    """Standard errors of one regression over epsilon and the number of rows.

    Attributes
    ----------
    target : str
    rows : tuple of CurveRow
    """

    target: str
    rows: tuple[PowerCurveRow, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients."""
        return tuple(dict.fromkeys(row.name for row in self.rows))

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the cells of a table, as text: a line for each setting."""
        lines: dict[tuple[int, str, float], dict[str, PowerCurveRow]] = {}
        for row in self.rows:
            lines.setdefault((row.n_rows, row.mechanism, row.epsilon), {})[row.name] = row
        cells = []
        for (n_rows, mechanism, epsilon), by_name in lines.items():
            cells.append(
                [f"{n_rows:,}", mechanism, f"{epsilon:.3g}"]
                + [number(by_name[name].stderr) for name in self.names]
            )
        return ["rows", "mechanism", "epsilon", *map(shown, self.names)], cells

    def __str__(self) -> str:
        return "\n".join([f"Standard errors for {shown(self.target)}", "", *aligned(*self.table())])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw standard errors over those without privacy: against epsilon, or rows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ImportError
            Without matplotlib (the extra ``plot``).
        """
        from privgram.plots._axes import GREY, axes_for, bare, cut

        ax = axes_for(ax, (8.0, 4.5))
        by_rows = len({row.epsilon for row in self.rows}) == 1
        along, other = map(attrgetter, ("n_rows", "epsilon") if by_rows else ("epsilon", "n_rows"))
        mechanisms = list(dict.fromkeys(row.mechanism for row in self.rows))
        styles = dict(zip(mechanisms, ["-", "--", ":", "-."] * len(mechanisms), strict=False))
        fixed = sorted(set(map(other, self.rows)))
        for j, name in enumerate(self.names[:MOST_LINES]):
            rows = [row for row in self.rows if row.name == name]
            for mechanism in mechanisms:
                for value in fixed:
                    line = [
                        one for one in rows if (one.mechanism, other(one)) == (mechanism, value)
                    ]
                    y = [math.nan if row.stderr is None else row.stderr for row in line]
                    label = f"{cut(name)}, {mechanism}"
                    label += f", {value:,} rows" if len(fixed) > 1 else ""
                    x, style = list(map(along, line)), styles[mechanism]
                    ax.loglog(x, y, style, color=f"C{j}", marker=".", label=label)
            if len(fixed) == 1:
                rows.sort(key=along)
                without = [row.sampling for row in rows]
                ax.plot(list(map(along, rows)), without, color=f"C{j}", alpha=0.35)
        ticks = sorted(set(map(along, self.rows)))
        ticks = ticks[:: -(-len(ticks) // 9)]
        ax.set_xticks(ticks, [f"{tick:,.8g}" for tick in ticks])
        ax.minorticks_off()
        ax.set_xlabel("rows" if by_rows else "epsilon")
        ax.set_ylabel(f"standard error for {cut(self.target)}")
        ax.set_title("Pale: without privacy", fontsize="medium", loc="left", color=GREY)
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
        bare(ax)
        return ax


@dataclass(frozen=True, eq=False, repr=False)
class PowerSimulation(Printed):
    """What regressions on a release will be worth.

    Attributes
    ----------
    design : str
        What table is planned with, in words.
    n_rows : int
    epsilon, delta : float
    mechanisms : tuple of str
        As one would write them in Python; the one with the least errors first.
    rows : tuple of PowerRow
    """

    design: str
    n_rows: int
    epsilon: float
    delta: float
    mechanisms: tuple[str, ...]
    rows: tuple[PowerRow, ...]
    _setting: Setting = field(repr=False)

    def to_dict(self) -> JsonObject:
        """Return the simulation as plain values, for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "_setting"}
        rows = [asdict(row) for row in self.rows]
        return plain | {"mechanisms": list(self.mechanisms), "rows": rows}

    @property
    def targets(self) -> tuple[str, ...]:
        """What the regressions explain."""
        return tuple(dict.fromkeys(row.target for row in self.rows))

    def table(self, target: str) -> tuple[list[str], list[list[str]]]:
        """Return the headings and the cells of the table of one regression, as text."""
        cells = [
            [shown(row.name), number(row.coef), number(row.sampling)]
            + [number(row.stderr[mechanism]) for mechanism in self.mechanisms]
            for row in self.rows
            if row.target == target
        ]
        return [shown(target), "coef", "no privacy", *self.mechanisms], cells

    @property
    def notes(self) -> tuple[str, ...]:
        """What belongs below the tables, a paragraph each."""
        words = [
            f"Standard errors with {self.n_rows:,} rows like {self.design}, in own units: of "
            "sampling alone, and of sampling and privacy noise by mechanism. A dash: the noise is "
            "too large, and standard errors would be refused."
        ]
        best = self.mechanisms[0]
        ratios = {
            f"{row.name} for {row.target}": row.stderr[best] / row.sampling  # type: ignore[operator]
            for row in self.rows
            if row.stderr[best] is not None and row.sampling > 0
        }
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            words.append(
                f"With {best} privacy multiplies standard errors by {min(ratios.values()):.3g} to "
                f"{ratios[worst]:.3g} (most for {shown(worst)})."
            )
            ranges = [
                (*ends, f"{row.name} for {row.target}")
                for row in self.rows
                if (ends := row.range[best]) is not None
            ]
            low, high, name = max(ranges, key=lambda ends: ends[1] / ends[0])
            if high > WIDE * low:
                words.append(
                    f"The median is shown. Releases differ: eight of ten have standard errors from "
                    f"{low:.3g} to {high:.3g} for {shown(name)}, and PowerSimulation.rows has all "
                    "ranges."
                )
        return tuple(words)

    def __str__(self) -> str:
        parts: list[str] = []
        for target in self.targets:
            parts += [*aligned(*self.table(target)), ""]
        return "\n".join([*parts, *self.notes])

    def curve(
        self,
        target: str | None = None,
        *,
        epsilon: Iterable[float] | None = None,
        n_rows: Iterable[int] | None = None,
    ) -> PowerCurve:
        """Standard errors of one regression at other epsilons and numbers of rows.

        By one round and, where delta allows, by adaptive rounds.

        Parameters
        ----------
        target : str, optional
            The first by default.
        epsilon : iterable of float, optional
            From an eighth of the simulation's to eight times as much by default, unless `n_rows` is
            given.
        n_rows : iterable of int, optional
            The simulation's own by default.

        Returns
        -------
        PowerCurve
        """
        target = self.targets[0] if target is None else target
        if target not in self.targets:
            raise ValueError(f"the simulation has no target {target!r}")
        sizes = [self.n_rows] if n_rows is None else [int(n) for n in n_rows]
        if epsilon is None:
            grid = [self.epsilon]
            if n_rows is None:
                grid = [self.epsilon * 2.0**k for k in range(-3, 4)]
        else:
            grid = [check_positive(value, "epsilon") for value in epsilon]
        points = []
        for n in sizes:
            for name, mechanism in self._setting.main.items():
                for value in map(float, grid):
                    guarantee = replace(self._setting.guarantee, epsilon=value)
                    setting = replace(self._setting, n_rows=n, guarantee=guarantee)
                    points += [
                        PowerCurveRow(value, n, name, row.name, row.sampling, row.stderr[name])
                        for row in setting.errors(name, mechanism, target)
                    ]
        return PowerCurve(target, tuple(points))


@dataclass(frozen=True, eq=False)
class Setting:
    """What stays the same in all of a simulation, but in its curves `n_rows` and epsilon."""

    columns: Columns
    design: PlanDesign
    bound: float
    n_rows: int
    guarantee: Guarantee

    @property
    def main(self) -> dict[str, Mechanism]:
        """One round, and adaptive rounds."""
        if self.guarantee.delta == 0:
            return {"MatrixLaplace()": MatrixLaplace()}
        return {"AnalyzeGauss()": AnalyzeGauss(), "AdaptiveGaussian()": AdaptiveGaussian()}

    def errors(self, label: str, mechanism: Mechanism, target: str) -> list[PowerRow]:
        """Of one regression by one mechanism, which is called by a label."""
        without = self._without_privacy(mechanism, target)
        names = without.param_names
        medians: dict[str, float] = {}
        ranges: dict[str, tuple[float, float]] = {}
        n_rows = self.n_rows if self.guarantee.adjacency == "replace" else None
        try:
            calibration = mechanism.noise_for(self.guarantee, len(self.columns), self.bound, n_rows)
        except ValueError:  # which the plan's table says
            pass
        else:

            def fit(seed: int) -> SimulatedFit:
                matrix, law = self._released(mechanism, calibration, seed)
                record = self._record(mechanism, matrix, law, calibration)
                stderr = regress(record, target).inference.stderr[: len(names)]
                return SimulatedFit(names, stderr)

            fits = simulate_fits(fit, POWER_DRAWS)
            if fits.mostly_offered:
                medians, ranges = fits.medians, fits.ranges
        return [
            PowerRow(
                target,
                name,
                float(without.inference.estimate[j]),
                float(without.inference.stderr[j]),
                {label: medians.get(name)},
                {label: ranges.get(name)},
            )
            for j, name in enumerate(names)
        ]

    def _without_privacy(self, mechanism: Mechanism, target: str) -> OLSResults:
        """The regression on the design itself."""
        plain = self._record(mechanism, self.moment, GaussianLaw(0.0, 0.0), None)
        released = self.design.what == EARLIER
        fit = regress(plain, target)
        refused = np.isnan(fit._estimate).any()
        if refused and not released:
            raise RefusedError(str(fit.refusal))
        if not refused and not (released and fit.rsquared > EXPLAINED):
            return fit
        raise ValueError(
            f"the noise of the earlier release hides what others leave of {shown(target)}: plan "
            "with a public table, a guess, or a release that can answer the regression"
        )

    def _released(
        self, mechanism: Mechanism, calibration: Calibration, seed: int
    ) -> tuple[Matrix, NoiseLaw]:
        """A release of made rows, and the law of its noise."""
        # A fixed seed: nothing secret is drawn, and the same plan gives the same numbers.
        rng = np.random.default_rng(seed)
        if isinstance(mechanism, AdaptiveGaussian):
            assert isinstance(calibration, AdaptiveGaussianCalibration)
            released, law = run_rounds(mechanism, _SimulatedRounds(self, calibration, rng))
            if not isinstance(law, GaussianLaw):
                return released, law
        law = calibration.law
        if isinstance(law, GaussianLaw):
            law = known_of(law, self.columns)
        exact = self.moment + law.shift_matrix(len(self.columns))
        return law.draw(exact, rng), law

    @property
    def moment(self) -> Matrix:
        """Second moment of those of the rows that count."""
        return self.design.moment * (self.n_rows * self.design.complete)

    def _record(
        self,
        mechanism: Mechanism,
        matrix: Matrix,
        law: NoiseLaw,
        calibration: Calibration | None,
    ) -> ReleaseRecord:
        count: int | None = self.n_rows
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta
        if calibration is None:  # the number of those that count is known
            count = round(self.n_rows * self.design.complete)
        elif self.guarantee.adjacency != "replace":
            count = None
        return ReleaseRecord(
            matrix=matrix.copy(),
            names=self.columns.names,
            mechanism=mechanism,
            parameters={},
            noise=law,
            epsilon=epsilon,
            delta=delta,
            adjacency=self.guarantee.adjacency,
            privacy=StatedProfile(epsilon, delta) if calibration is None else calibration.privacy,
            bound=self.bound,
            n_rows=count,
            columns=self._whole if calibration is None else self.columns,
        )

    @cached_property
    def _whole(self) -> Columns:
        """The columns of a table without missing values."""
        return self.columns.replace(missing="error")


@dataclass(frozen=True, eq=False)
class _SimulatedMoment:
    """The second moment of simulated rows, as rounds take it."""

    matrix: Matrix
    bound: float
    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns.names

    @property
    def n_columns(self) -> int:
        return len(self.matrix)


class _SimulatedRounds(AdaptiveRounds):
    """Rounds over made rows, each of which stands for as many as there will be."""

    def __init__(
        self, setting: Setting, noise: AdaptiveGaussianCalibration, rng: np.random.Generator
    ) -> None:
        moment = _SimulatedMoment(setting.moment, setting.bound, setting.columns)
        super().__init__(moment, noise, again=True)
        self.rows = setting.design.rows
        self.weight = setting.n_rows * setting.design.complete / len(self.rows)
        self.shape = setting.design.shape
        self.rng = rng

    def take(self, moment: _SimulatedMoment, share: float) -> Matrix:
        std = self.std_at(moment.bound, share)
        self.std.append(std)
        noise = symmetric_gaussian(moment.n_columns, std, math.sqrt(2.0) * std, self.rng)
        return np.asarray(moment.matrix + noise)

    def count(self, transform: WhiteningTransform, edges: Vector, share: float) -> Vector:
        beyond: Vector
        if self.shape is None:
            image: Matrix = self.rows @ transform.matrix[transform.numbers].T
            lengths = np.sqrt((image**2).sum(axis=1))
            shorter = np.searchsorted(np.sort(lengths), edges, side="right")
            beyond = self.weight * (len(lengths) - shorter).astype(np.float64)
        else:
            rows, typical = self.weight * len(self.rows), transform.typical - transform.constant
            beyond = designs.rows_beyond(self.shape, edges, typical, rows)
        counts = np.rint(-np.diff(beyond, append=0.0)).astype(np.int64)
        std = self.ranked_std(len(edges), share)
        noise = self.rng.normal(scale=std, size=len(edges))
        return cumulative_counts(weighted_counts(counts) + noise)

    def number(self, share: float) -> float:
        return self.weight * len(self.rows)

    def mapped(self, transform: WhiteningTransform, radius: float) -> _SimulatedMoment:
        image = designs.clipped(self.rows @ transform.matrix.T, radius)
        return _SimulatedMoment(self.weight * (image.T @ image), radius, self.moment.columns)


def simulate_power(
    columns: Columns,
    design: DesignInput,
    targets: Sequence[str] | None,
    mechanisms: dict[str, Mechanism],
    *,
    bound: float,
    guarantee: Guarantee,
    n_rows: int | None,
) -> PowerSimulation:
    """What regressions will be worth; see `privgram.plan` for the parameters."""
    table = plan_design_of(design, columns, bound)
    if n_rows is None:
        if table.n_rows is None:
            raise ValueError("n_rows must be given with a guess")
        n_rows = round(table.n_rows)
    if targets is None:
        numbers = [
            described.label(name)
            for name, described in columns.variables.items()
            if isinstance(described, Numeric) and described.label(name) in columns.names
        ]
        if not numbers:
            raise ValueError("targets must be given: no number is stored by itself")
        targets = numbers[-1:]
    epsilon, delta = guarantee.epsilon, guarantee.delta
    setting = Setting(columns, table, bound, n_rows, guarantee)
    mechanisms = (
        {"AdaptiveGaussian()": AdaptiveGaussian(), **mechanisms} if delta > 0 else mechanisms
    )
    combined: list[PowerRow] = []
    for target in targets:
        by_mechanism = [
            setting.errors(label, mechanism, target) for label, mechanism in mechanisms.items()
        ]
        for rows in zip(*by_mechanism, strict=True):
            stderr = {label: error for row in rows for label, error in row.stderr.items()}
            ends = {label: pair for row in rows for label, pair in row.range.items()}
            combined.append(replace(rows[0], stderr=stderr, range=ends))

    def size(name: str) -> float:
        logs = [
            math.inf if error is None else math.log(error)
            for row in combined
            if (error := row.stderr[name]) is None or error > 0
        ]
        return float(np.mean(logs)) if logs else math.inf

    order = tuple(sorted(mechanisms, key=size))
    return PowerSimulation(table.what, n_rows, epsilon, delta, order, tuple(combined), setting)
