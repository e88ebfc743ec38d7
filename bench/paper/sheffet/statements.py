"""What the paper says of its figures, checked on the published curves.

Each statement is a function of the results that says what was measured and whether the
statement holds; it raises `KeyError` where the runs to tell were not made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bench.paper.sheffet.figures import SIX
from bench.paper.sheffet.results import Results
from bench.paper.sheffet.runs import PENALTY

__all__ = ["STATEMENTS", "Finding", "Statement", "check", "to_markdown"]

PUBLISHED = "published"
OTHERS = tuple(c.estimator for c in SIX if c.estimator not in ("Analyze Gauss", "least squares"))
POSITIVE = ("Algorithm 2", "Algorithm 5", "Algorithm 3, debiased")


class Finding(NamedTuple):
    """What was measured of a statement."""

    measured: str
    holds: bool


@dataclass(frozen=True)
class Statement:
    """One statement of the paper.

    Attributes
    ----------
    where : str
        Figure and section.
    setting : str
    text : str
    check : callable
        Of `Results`.
    remark : str
        Why it does not hold, where it was found not to.
    """

    where: str
    setting: str
    text: str
    check: Callable[[Results], Finding]
    remark: str = ""


def check(
    results: Mapping[str, Results], figures: Sequence[str]
) -> list[tuple[Statement, Finding | None]]:
    """Check the statements of some figures; None where the runs do not tell."""
    found: list[tuple[Statement, Finding | None]] = []
    for statement in STATEMENTS:
        if statement.where.split(",")[0].replace("Fig. ", "fig") not in figures:
            continue
        try:
            finding = statement.check(results[statement.setting])
        except KeyError:
            finding = None
        found.append((statement, finding))
    return found


def to_markdown(found: Sequence[tuple[Statement, Finding | None]]) -> str:
    """Write the table: statement, measured, holds?"""
    lines = ["| figure | statement | measured | holds? |", "|---|---|---|---|"]
    for statement, finding in found:
        if finding is None:
            measured, verdict = "needs --scale paper", "-"
        else:
            measured, verdict = finding.measured, "yes" if finding.holds else "**no**"
            if not finding.holds and statement.remark:
                measured += f". {statement.remark}"
        lines.append(f"| {statement.where} | {statement.text} | {measured} | {verdict} |")
    return "\n".join(lines)


# --- What is measured --------------------------------------------------------------


def _power(n: float) -> str:
    return f"2^{round(np.log2(n))}"


def _index(results: Results, exponent: int) -> int:
    if exponent not in results.setting.exponents:
        raise KeyError(exponent)
    return results.setting.exponents.index(exponent)


def _from(results: Results, better: np.ndarray) -> int | None:
    """Exponent from which on a condition holds for all n, if there is one."""
    if not better[-1]:
        return None
    worse = np.flatnonzero(~better)
    return results.setting.exponents[0 if len(worse) == 0 else worse[-1] + 1]


def _share(better: np.ndarray) -> str:
    return f"in {int(better.sum())} of {better.size} cells"


def _cells(results: Results, estimator: str) -> np.ndarray:
    """Mean errors, shape (epsilons, sizes)."""
    return np.array(
        [results.mean(estimator, PUBLISHED, epsilon) for epsilon in results.setting.epsilons]
    )


def _spreads(results: Results, estimator: str) -> np.ndarray:
    return np.array(
        [results.std(estimator, PUBLISHED, epsilon) for epsilon in results.setting.epsilons]
    )


def small_n_is_useless(results: Results) -> Finding:
    means = np.concatenate([_cells(results, f"Algorithm {i}")[:, 0] for i in (1, 2)])
    measured = f"{means.min():.2g} to {means.max():.2g} at n = {_power(results.sizes[0])}"
    return Finding(measured, bool(means.min() > 0.8 * results.setting.norm))


def adaptive_pays_late(results: Results) -> Finding:
    _index(results, 25)
    better = _cells(results, "Algorithm 2") < _cells(results, "Algorithm 1")
    starts = [_from(results, row) for row in better]
    measured = "from n = " + ", ".join("never" if s is None else f"2^{s}" for s in starts)
    return Finding(
        measured + f" (ε = {', '.join(f'{e:g}' for e in results.setting.epsilons)})",
        sum(start in (19, 20) for start in starts) > len(starts) / 2,
    )


def _at_largest(epsilon: float, adaptive: float, plain: float) -> Callable[[Results], Finding]:
    def measure(results: Results) -> Finding:
        i = _index(results, 25)
        measured = [results.mean(f"Algorithm {name}", PUBLISHED, epsilon)[i] for name in (2, 1)]
        off = max(abs(np.log(measured[0] / adaptive)), abs(np.log(measured[1] / plain)))
        return Finding(f"{measured[0]:.4f} against {measured[1]:.4f}", bool(off < np.log(1.25)))

    return measure


def factor_at_largest(results: Results) -> Finding:
    i = _index(results, 25)
    factor = (_cells(results, "Algorithm 1") / _cells(results, "Algorithm 2"))[:, i]
    measured = f"{factor.min():.1f} to {factor.max():.1f}"
    return Finding(measured, bool(2.8 < factor.min() < 4.4 and 8.8 < factor.max() < 13.8))


def public_sketch_is_best(results: Results) -> Finding:
    names = ["sketch without privacy", "Algorithm 1"], ["sketch without privacy", "Algorithm 2"]
    return _never_above(results, names)


def refitted_numbers(results: Results) -> Finding:
    i, wanted = _index(results, 25), {0.1: (0.0192, 0.0671), 0.5: (0.0058, 0.0639)}
    measured, off = [], 0.0
    for epsilon, numbers in wanted.items():
        pair = [
            results.mean(f"Algorithm {which}, refitted", PUBLISHED, epsilon)[i] for which in (2, 1)
        ]
        measured.append(f"{pair[0]:.4f} against {pair[1]:.4f}")
        off = max(off, *(abs(np.log(pair[j] / numbers[j])) for j in (0, 1)))
    better = _cells(results, "Algorithm 2, refitted") < _cells(results, "Algorithm 1, refitted")
    starts = [_from(results, row) for row in better]
    crossing = ", ".join("never" if s is None else f"2^{s}" for s in starts)
    return Finding(f"{'; '.join(measured)}; crossing at n = {crossing}", bool(off < np.log(1.15)))


def debiasing_helps(results: Results) -> Finding:
    ratio = _cells(results, "Algorithm 3, debiased") / _cells(results, "Algorithm 3")
    return Finding(
        f"{_share(ratio < 1)}; at worst {ratio.max():.2f} times", bool((ratio < 1).all())
    )


def many_degrees_cost(results: Results) -> Finding:
    errors = [_cells(results, name)[:, -1] for name in ("Algorithm 4", "Algorithm 5, n + d")]
    other = _cells(results, "Algorithm 5")[:, -1]
    low, high = np.min(errors), np.max(errors)
    return Finding(
        f"{low:.2g} to {high:.2g} at n = {_power(results.sizes[-1])}, "
        f"Algorithm 5 at 2d {other.min():.2g} to {other.max():.2g}",
        bool((np.min(errors, axis=0) > 3 * other).all()),
    )


def many_degrees_are_steady(results: Results) -> Finding:
    worst = max(
        float((_spreads(results, name) / _cells(results, name)).max())
        for name in ("Algorithm 4", "Algorithm 5, n + d")
    )
    return Finding(f"standard deviation at most {worst:.1%} of the mean", worst < 0.05)


def splitting_costs(results: Results) -> Finding:
    worse = _cells(results, "Algorithm 5, n + d") > _cells(results, "Algorithm 4")
    return Finding(_share(worse), bool(worse.mean() > 0.75 and worse[:, -1].mean() > 0.5))


def inverse_beats_sketch(results: Results) -> Finding:
    return _never_above(results, [["Algorithm 5", "Algorithm 2"]])


def _never_above(results: Results, pairs: Sequence[Sequence[str]]) -> Finding:
    """Whether the first of each pair is never above the second beyond chance.

    Beyond chance: by more than three standard errors of the difference.
    """
    ratios, excess = [], []
    for low, high in pairs:
        means = _cells(results, low), _cells(results, high)
        error = np.hypot(_spreads(results, low), _spreads(results, high))
        ratios.append(means[0] / means[1])
        excess.append((means[0] - means[1]) / (error / np.sqrt(results.setting.repetitions)))
    ratio, z = np.array(ratios), np.array(excess)
    return Finding(
        f"{_share(ratio < 1)}, with ratios {ratio.min():.2f} to {ratio.max():.2f}; above by more "
        f"than three standard errors in {int((z > 3).sum())}",
        bool((z <= 3).all() and (ratio < 1).mean() > 0.5),
    )


def gauss_explodes(results: Results) -> Finding:
    largest = _cells(results, "Analyze Gauss").max(axis=1)
    return Finding(
        "largest mean error " + ", ".join(f"{value:.3g}" for value in largest),
        bool((largest > 2 * results.setting.norm).all()),
    )


def others_fail_there_too(results: Results) -> Finding:
    useless = _cells(results, "Analyze Gauss") > results.setting.norm
    if not useless.any():
        raise KeyError("no n is small enough to tell")
    others = np.min([_cells(results, name) for name in OTHERS], axis=0)[useless]
    return Finding(
        f"in the {useless.sum()} cells where its error is above the norm of β, the least of the "
        f"others is {others.min():.2g} to {others.max():.2g}",
        bool(others.min() > results.setting.norm / 3),
    )


def gauss_is_best_later(results: Results) -> Finding:
    gauss = _cells(results, "Analyze Gauss")
    others = np.min([_cells(results, name) for name in OTHERS if "Gauss" not in name], axis=0)
    starts = [_from(results, row) for row in gauss <= others]
    measured = "from n = " + ", ".join("never" if s is None else f"2^{s}" for s in starts)
    return Finding(measured, None not in starts)


def all_reach_least_squares(results: Results) -> Finding:
    floor = _cells(results, "least squares")[:, -1]
    worst = np.max([_cells(results, c.estimator)[:, -1] for c in SIX], axis=0)
    return Finding(
        f"at n = {_power(results.sizes[-1])} least squares {floor[-1]:.4f}, the worst of six "
        f"{worst.min():.3f} to {worst.max():.3f}",
        bool((worst <= floor).any()),
    )


def multiplicative_spread(results: Results) -> Finding:
    last = slice(len(results.sizes) // 2, None)
    sketches = np.minimum(
        _spreads(results, "Algorithm 2")[:, last], _spreads(results, "Algorithm 5")[:, last]
    )
    names = ("Analyze Gauss, scaled", "Algorithm 3", "Algorithm 3, debiased")
    others = np.max([_spreads(results, name)[:, last] for name in names], axis=0)
    larger = sketches > others
    measured = f"{_share(larger)} with n from {_power(results.sizes[last][0])} on"
    return Finding(measured, bool(larger.mean() > 0.75))


def _gauss_best_alone(gauss: str) -> Callable[[Results], Finding]:
    def measure(results: Results) -> Finding:
        epsilon = results.setting.epsilons[0]
        mean = results.mean(gauss, PUBLISHED, epsilon)
        names = [name for name in OTHERS if "Gauss" not in name]
        # Within one standard error at the end, where all come down to one floor.
        slack = results.std(gauss, PUBLISHED, epsilon) / np.sqrt(results.setting.repetitions)
        others = np.min([results.mean(name, PUBLISHED, epsilon) for name in names], axis=0)
        start = _from(results, mean <= others + slack)
        # To within a factor of two in n.
        measured = f"from n = {'never' if start is None else f'2^{start}'}"
        return Finding(measured, start is not None and abs(start - 16) <= 1)

    return measure


def gauss_explodes_beside_labels(results: Results) -> Finding:
    epsilon, m = results.setting.epsilons[0], results.setting.extras
    peaks = [results.mean("Analyze Gauss", PUBLISHED, epsilon, k).max() for k in m[1:]]
    measured = ", ".join(f"{peak:.3g}" for peak in peaks)
    labels = ", ".join(str(k) for k in m[1:])
    return Finding(f"largest mean error {measured} at m = {labels}", min(peaks) > 20)


def scaling_helps(results: Results) -> Finding:
    epsilon, m = results.setting.epsilons[0], results.setting.extras
    small = results.sizes < 2**20
    ratio = np.array(
        [
            results.mean("Analyze Gauss, scaled", PUBLISHED, epsilon, k)[small]
            / results.mean("Analyze Gauss", PUBLISHED, epsilon, k)[small]
            for k in m[1:]
        ]
    )
    return Finding(
        f"below n = 2^20 its error is smaller {_share(ratio < 1)}, in the median "
        f"{1 / np.median(ratio):.1f} times",
        bool((ratio < 1).mean() > 0.9 and np.median(ratio) < 0.5),
    )


def scaled_gauss_loses(results: Results) -> Finding:
    epsilon, setting = results.setting.epsilons[0], results.setting
    sizes = results.sizes < 2**22
    _index(results, 22)
    by_name = {}
    for name in POSITIVE:
        by_name[name] = np.array(
            [
                (
                    results.mean("Analyze Gauss, scaled", PUBLISHED, epsilon, m)
                    > results.mean(name, PUBLISHED, epsilon, m)
                )[sizes]
                for m in setting.extras[1:]
            ]
        )
    measured = "; ".join(f"than {name} {_share(worse)}" for name, worse in by_name.items())
    return Finding(f"worse {measured}", all(worse.mean() > 0.9 for worse in by_name.values()))


def more_labels_cost(results: Results) -> Finding:
    epsilon, m = results.setting.epsilons[0], results.setting.extras
    growth = [
        results.mean(c.estimator, PUBLISHED, epsilon, m[-1])
        > results.mean(c.estimator, PUBLISHED, epsilon, 0)
        for c in SIX
    ]
    grown = np.array(growth)
    return Finding(f"m = {m[-1]} above m = 0 {_share(grown)}", bool(grown.mean() > 0.9))


def scaled_gauss_is_steady(results: Results) -> Finding:
    epsilon, m = results.setting.epsilons[0], results.setting.extras[1:]
    names = [c.estimator for c in SIX if c.estimator != "least squares"]
    spread = np.array([[results.std(name, PUBLISHED, epsilon, k) for k in m] for name in names])
    counts = np.bincount(spread.argmin(axis=0).ravel(), minlength=len(names))
    order = np.argsort(-counts)
    measured = ", ".join(f"{names[i]} {counts[i]}" for i in order if counts[i])
    return Finding(
        f"smallest in cells with m > 0: {measured}", names[order[0]] == "Analyze Gauss, scaled"
    )


def spike_at_the_end(results: Results) -> Finding:
    i, epsilon = _index(results, 27), results.setting.epsilons[0]
    names = [c.estimator for c in SIX if c.estimator != "least squares"]
    rising = np.array(
        [
            (s := results.std(name, PUBLISHED, epsilon, m))[i] > 2 * s[i - 1]
            for name in names
            for m in results.setting.extras
        ]
    )
    return Finding(f"more than doubled {_share(rising)}", bool(rising.mean() > 0.5))


def lasso_is_not_specific(results: Results) -> Finding:
    epsilon, m = results.setting.epsilons[0], results.setting.extras[-1]

    def zeros(name: str) -> tuple[float, float]:
        shares = [
            results.values(field, name, PUBLISHED, epsilon, m, PENALTY)
            for field in ("zero_features", "zero_labels")
        ]
        return float(np.nanmean(shares[0])), float(np.nanmean(shares[1]))

    public = zeros("least squares")
    private = [zeros(name) for name in OTHERS]
    relevant, irrelevant = np.mean(private, axis=0)
    return Finding(
        f"share of zeros among relevant and irrelevant coefficients: {relevant:.0%} and "
        f"{irrelevant:.0%} with privacy, {public[0]:.0%} and {public[1]:.0%} without (m = {m})",
        # Without privacy the shares are far apart; with it they are much less so.
        bool(public[1] > 0.8 and irrelevant - relevant < 0.75 * (public[1] - public[0])),
    )


STATEMENTS = (
    Statement("Fig. 1, 3.2", "single", "Initially the error is as large as the coefficients",
              small_n_is_useless),
    Statement("Fig. 1, 3.2", "single",
              "Algorithm 2 beats Algorithm 1 only from n about 2^19 or 2^20, for most ε",
              adaptive_pays_late),
    Statement("Fig. 1, 3.2", "single",
              "At n = 2^25, ε = 0.1: 0.0192 (Alg. 2) against 0.0671 (Alg. 1)",
              _at_largest(0.1, 0.0192, 0.0671)),
    Statement("Fig. 1, 3.2", "single",
              "At n = 2^25, ε = 0.5: 0.0058 (Alg. 2) against 0.0639 (Alg. 1)",
              _at_largest(0.5, 0.0058, 0.0639)),
    Statement("Fig. 1, 3.2", "single",
              "At n = 2^25 Algorithm 2 is better by factors from 3.5 to 11", factor_at_largest),
    Statement("Fig. 1, 3.2", "single",
              "These numbers, with 2√2 for Algorithm 2's 8 and 2 for Algorithm 1's 4 in w²",
              refitted_numbers),
    Statement("Fig. 1, 3.2", "single", "The sketch without privacy is the best for all n",
              public_sketch_is_best),
    Statement("Fig. 2, 4.1", "single", "Debiased Wishart noise is always below the plain one",
              debiasing_helps),
    Statement("Fig. 3, 5.1", "single", "Algorithms 4 and 5 at n + d have large errors throughout",
              many_degrees_cost),
    Statement("Fig. 3, 5.1", "single", "and a variance too small to be seen",
              many_degrees_are_steady),
    Statement("Fig. 3, 5.1", "single",
              "At n + d Algorithm 5 is for the most part worse than Algorithm 4", splitting_costs),
    Statement("Fig. 3, 5.1", "single", "Algorithm 5 at 2d beats Algorithm 2 for all n",
              inverse_beats_sketch),
    Statement("Fig. 4, 6.1", "single",
              "Analyze Gauss is out of scale for small n: errors about 9, 12, sometimes 30",
              gauss_explodes),
    Statement("Fig. 4, 6.1", "single", "For such n all other errors are fairly large too",
              others_fail_there_too),
    Statement("Fig. 4, 6.1", "single",
              "From some n on Analyze Gauss has the smallest error of all", gauss_is_best_later),
    Statement("Fig. 4, 6.1", "single",
              "Eventually the errors of all are below that of least squares without privacy",
              all_reach_least_squares),
    Statement("Fig. 4, 6.1", "single", "Algorithms 2 and 5 have the largest variances",
              multiplicative_spread),
    Statement("Fig. 5, 6.2", "multiple",
              "At m = 0 Analyze Gauss is the best from about n = 2^16 on",
              _gauss_best_alone("Analyze Gauss")),
    Statement("Fig. 5, 6.2", "multiple",
              "The same with section 2's variance as printed, epsilon not squared",
              _gauss_best_alone("Analyze Gauss, as printed")),
    Statement("Fig. 5, 6.2", "multiple",
              "At m > 0 Analyze Gauss is far out of range, values like 26 and 45",
              gauss_explodes_beside_labels),
    Statement("Fig. 5, 6.2", "multiple",
              "At m > 0 its scaled version does significantly better", scaling_helps),
    Statement("Fig. 5, 6.2", "multiple",
              "At m > 0 its scaled version is worse than Algorithms 2 and 5 and debiased Wishart "
              "for n < 2^22", scaled_gauss_loses),
    Statement("Fig. 5, 6.2", "multiple", "As m grows all errors become fairly large",
              more_labels_cost),
    Statement("Fig. 5, 6.2", "multiple",
              "The Lasso's zeros are not specific with privacy, and are without",
              lasso_is_not_specific),
    Statement("Fig. 6, 6.2", "multiple", "Scaled Analyze Gauss has the smallest variance",
              scaled_gauss_is_steady),
    Statement("Fig. 6, 6.2", "multiple", "The variance has a spike at n = 2^27", spike_at_the_end),
)  # fmt: skip
