"""Fill the tables of the theory pages.

    python docs/theory/tables.py

A table stands between ``<!-- table: name -->`` and ``<!-- end -->`` and is computed by the
function of that name. tests/theory/test_pages.py checks that the pages are up to date.
"""

from __future__ import annotations

import functools
import json
import math
import re
from dataclasses import fields
from pathlib import Path

import joint
import numpy as np
from scipy import optimize, special, stats

import privgram as pg
from bench.audit import Estimate, leading
from privgram import papers
from privgram.disclosure.repairs import feasible as nearest
from privgram.papers import sheffet, zhou_ligett_wasserman
from privgram.papers.sheffet import AdaptiveSketchProfile, SketchProfile, WishartProfile
from privgram.papers.sheffet.profiles import adaptive_delta, sketch_curves
from privgram.privacy import calibration

FOLDER = Path(__file__).parent
PAPER = (0.5, math.exp(-9))  # the largest epsilon of Sheffet's experiments, and their delta
USUAL = (1.0, 1e-6)
NOISES = {"δ = 1e-6": (pg.AnalyzeGauss(), 1e-6), "δ = 0": (pg.MatrixLaplace(), 0.0)}


def number(value: float) -> str:
    """Three significant digits; whole numbers from a thousand on."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}".replace("e-0", "e-")


def table(*rows: list[str]) -> str:
    """Markdown table of a header and rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def budget(epsilon: float, delta: float) -> str:
    return f"({epsilon:g}, {delta:.2e})".replace("e-0", "e-")


# --- Sketch ------------------------------------------------------------------------


def renyi_epsilon(rows: int, ratio: float, delta: float, adjacency: str) -> float:
    """Epsilon of the sketch by its Renyi divergences (the bound of Lev et al. 2025)."""

    def divergence(alpha: float, wide: float, narrow: float) -> float:
        mixed = alpha * narrow + (1 - alpha) * wide
        if mixed <= 0:
            return math.inf
        return 0.5 * math.log(narrow / wide) + math.log(narrow / mixed) / (2 * (alpha - 1))

    def epsilon(log_order: float) -> float:
        alpha = 1 + math.exp(log_order)
        up, down = divergence(alpha, 1 + ratio, 1.0), divergence(alpha, 1.0, 1 + ratio)
        if adjacency == "replace":
            total = up + divergence(alpha, 1 / (1 + ratio), 1.0)
        else:
            total = max(up, down)
        conversion = math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / (alpha - 1)
        return rows * total + conversion

    orders = np.linspace(-8.0, -math.log(ratio), 200, endpoint=False)
    values = [epsilon(x) for x in orders]
    best = int(np.argmin(values))
    bracket = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
    found = optimize.minimize_scalar(epsilon, bounds=bracket, method="bounded")
    return float(min(found.fun, values[best]))


def renyi_w_squared(rows: int, epsilon: float, delta: float, adjacency: str) -> float:
    """Regulariser, over B^2, that the Renyi bound asks for."""
    return math.exp(
        optimize.brentq(
            lambda x: renyi_epsilon(rows, math.exp(-x), delta, adjacency) - epsilon, -5.0, 20.0
        )
    )


def sketch() -> str:
    rows = [
        [
            "(ε, δ)",
            "r",
            "exact, add-remove",
            "Rényi, add-remove",
            "exact, replace",
            "Rényi, replace",
            "Theorem B.1",
            "Theorem 3.1",
        ]
    ]
    for (epsilon, delta), r in ((PAPER, 44), (PAPER, 220), (USUAL, 100), (USUAL, 10_000)):
        cells = []
        for adjacency in ("add-remove", "replace"):
            cells.append(number(1 / sheffet.sketch_ratio(r, epsilon, delta, adjacency)))
            cells.append(number(renyi_w_squared(r, epsilon, delta, adjacency)))
        cells.append(number(sheffet.theorem_b_1(r, 1.0, epsilon, delta)))
        cells.append(number(sheffet.theorem_3_1(r, 1.0, epsilon, delta)))
        rows.append([budget(epsilon, delta), str(r), *cells])
    return "Regulariser $w^2/B^2$ needed:\n\n" + table(*rows)


def inverse_wishart() -> str:
    epsilon, delta = USUAL
    d, rng = 22, np.random.default_rng(4)
    rows = [
        [
            "n",
            "ψ/B² for public n, exact",
            "Theorem 5.1",
            "Theorem B.4",
            "δ(1) from ν against ν + 1 alone",
        ]
    ]
    for n in (50, 200, 1000):
        nu = n + d
        # ln det W_d(I, nu) is a sum of ln chi2; the loss of nu + 1 against nu is half of it,
        # centred.
        shape = (nu + 1 - np.arange(d)) / 2
        half = 0.5 * np.log(2 * rng.standard_gamma(shape, size=(400_000, d))).sum(axis=1)
        loss = (
            half
            - 0.5 * d * math.log(2)
            - (special.gammaln(shape) - special.gammaln(shape - 0.5)).sum()
        )
        leak = float(np.mean(np.maximum(-np.expm1(epsilon - loss), 0.0)))
        rows.append(
            [
                str(n),
                number(1 / sheffet.sketch_ratio(nu, epsilon, delta, "replace")),
                number(sheffet.theorem_5_1(nu, 1.0, epsilon, delta)),
                number(sheffet.theorem_b_4(nu, 1.0, epsilon, delta)),
                f"{leak:.1e}".replace("e-0", "e-") if leak > 1e-5 else "below 1e-5",
            ]
        )
    return f"At {budget(epsilon, delta)} and d = {d}:\n\n" + table(*rows)


def adaptive() -> str:
    rows = [["adjacency", "R", "w²", "τ", "b", "plain w²", "R published", "ε there"]]
    epsilon, delta = USUAL
    r = 100
    for adjacency in ("add-remove", "replace"):
        exact = adaptive_sketch(r, epsilon, delta, adjacency)
        plain = 1 / sheffet.sketch_ratio(r, epsilon, delta, adjacency)
        printed = sheffet.algorithm_2(r, 1.0, epsilon, delta)
        there = AdaptiveSketchProfile(
            r, printed.regulariser, printed.shift, printed.laplace_scale, adjacency
        )
        rows.append(
            [
                adjacency,
                *map(number, (exact.regulariser + exact.shift, exact.regulariser)),
                *map(number, (exact.shift, exact.scale, plain)),
                number(printed.regulariser + printed.shift),
                number(there.epsilon(delta)),
            ]
        )
    return (
        f"At {budget(epsilon, delta)} and r = {r}, in units of $B^2$; b is the scale of the "
        "Laplace noise:\n\n" + table(*rows)
    )


adaptive_sketch = functools.cache(sheffet.adaptive_sketch)


def leaks_by_gap(profile: AdaptiveSketchProfile, epsilon: float) -> float:
    """Largest delta over a few gaps of the smallest eigenvalues and clips: attained."""
    setting = profile.regulariser + profile.shift, profile.shift, profile.scale
    shift = profile.shift
    clips = np.unique([*np.linspace(0, min(1, shift), 5), *np.linspace(0, shift, 9)])
    return max(
        float(np.max(adaptive_delta(epsilon, curve, p, (q, q), *setting, (clips, clips))))
        for gap in (-1.0, 0.0, 0.5, 1.0)
        for curve in sketch_curves(float(profile.rows), profile.adjacency, gap)
        for p, q in [(max(gap, 0.0), max(-gap, 0.0))]
    )


def adaptive_margin() -> str:
    rows = [["rows", "(ε, δ)", "replace", "add-remove", "worst at ε/10, ε and 4ε, replace"]]
    for r, epsilon, delta in ((100, 1.0, 1e-6), (10**4, 1.0, 1e-6), (25, 0.5, 0.1), (10, 0.5, 0.3)):
        cells = []
        for adjacency in ("replace", "add-remove"):
            profile = adaptive_sketch(r, epsilon, delta, adjacency)
            spread = (0.1 * epsilon, 4.0 * epsilon) if adjacency == "replace" else ()
            margins = [profile.delta(e) / leaks_by_gap(profile, e) for e in (epsilon, *spread)]
            cells += [margins[0], max(margins)]
        rows.append([str(r), budget(epsilon, delta), *(f"{cells[i]:.3f}" for i in (0, 2, 1))])
    return (
        "The bound over the largest delta that a table attains, on a grid of gaps and clips, for "
        "calibrated noise:\n\n" + table(*rows)
    )


# --- Additive noise ----------------------------------------------------------------


def analyze_gauss() -> str:
    rows = [["(ε, δ)", "exact, add-remove", "exact, replace", "published (triangular)"]]
    for epsilon, delta in ((0.05, math.exp(-9)), PAPER, USUAL):
        mu = calibration.gaussian_ratio(epsilon, delta)
        printed = sheffet.analyze_gauss(1.0, epsilon, delta, allow_published_erratum=True)
        rows.append(
            [budget(epsilon, delta), number(math.sqrt(0.5) / mu), number(1 / mu), number(printed)]
        )
    return (
        "Standard deviation of an off-diagonal entry over $B^2$ (the published one is not "
        "private under replace in the last line):\n\n" + table(*rows)
    )


def feasible() -> str:
    """Frobenius errors of releases of a fixed table of unit rows, means over few draws."""
    d, epsilon = 40, 1.0
    rng = np.random.default_rng(5)
    rows = [["n", *(f"{name}, {what}" for name in NOISES for what in ("as drawn", "feasible"))]]
    for n in (100, 300, 1000, 10_000):
        table_ = rng.standard_normal((n, d)) / np.arange(1, d + 1)
        table_ /= np.linalg.norm(table_, axis=1, keepdims=True)
        truth = table_.T @ table_
        cells = []
        for mechanism, delta in NOISES.values():
            noise = mechanism.calibrate(d, 1.0, epsilon, delta, n_rows=n)
            draws = [noise.law.draw(truth, rng) for _ in range(10)]
            for found in (draws, [nearest(m, noise)[0] for m in draws]):
                error = np.mean([np.linalg.norm(m - truth) for m in found])
                cells.append(number(error / np.linalg.norm(truth)))
        rows.append([str(n), *cells])
    return (
        f"Frobenius error over $\\|G\\|_F$, of {d} columns that fall as $1/j$, rows of norm $B$, "
        "at ε = 1 under replace:\n\n" + table(*rows)
    )


def inverse_gauss() -> str:
    mu = calibration.gaussian_ratio(*USUAL)
    rows = [["λ_min / B² at least", "case 1 and 3", "case 2", "Theorem B.5"]]
    for floor in (2.0, 11.0, 101.0):
        printed = sheffet.theorem_b_5(
            floor - 1, 1.0, 1 - 1e-9, USUAL[1], allow_published_erratum=True
        )
        cells = [math.sqrt(2) / (m * (m + 1)) / mu for m in (floor - 1, floor)]
        rows.append([number(floor), *map(number, cells), number(printed)])
    return f"σ at {budget(*USUAL)} under replace, $B = 1$ (for B.5, ε just below 1):\n\n" + table(
        *rows
    )


def wishart() -> str:
    d = 22
    rows = [["(ε, δ)", "exact, add-remove", "exact, replace", "Theorem 4.1"]]
    for epsilon, delta in ((0.05, math.exp(-9)), PAPER, (0.99, 1e-6), (2.0, 1e-6)):
        cells = [
            str(sheffet.wishart_dof(d, 1.0, epsilon, delta, a)) for a in ("add-remove", "replace")
        ]
        printed = str(sheffet.theorem_4_1(d, epsilon, delta)) if epsilon < 1 else "refused"
        rows.append([budget(epsilon, delta), *cells, printed])
    choice = [["s", "k", "noise left, σ²√k / B²", "mean, kσ² / B²"]]
    for ratio in (1, 2, 4, 8, 16, 32):
        dof = sheffet.wishart_dof(d, ratio, *USUAL)
        choice.append([*map(number, (ratio, dof, math.sqrt(dof) / ratio, dof / ratio))])
    limit = pg.AnalyzeGauss().calibrate(d, 1.0, *USUAL).noise_std
    chosen = sheffet.wishart_noise(d, *USUAL, "replace")
    return (
        f"Degrees of freedom for $\\sigma^2 = B^2$, d = {d}:\n\n{table(*rows)}\n\n"
        f"The scale, at {budget(*USUAL)} under replace. The limit of the noise is "
        f"{number(limit)}; `wishart_noise` takes s = {number(chosen.ratio)}, "
        f"k = {chosen.dof}:\n\n{table(*choice)}"
    )


def matrix_laplace() -> str:
    def row(d: int, adjacency: str) -> list[str]:
        pure = calibration.matrix_laplace_noise(d, 1.0, 0.0, adjacency)
        ratio, dof = calibration.matrix_laplace_noise(d, *USUAL, adjacency)
        one = d == 1 or adjacency == "add-remove"
        gauss = math.sqrt(0.5 if one else 1.0) / calibration.gaussian_ratio(*USUAL)
        noise = (math.sqrt(2 * pure.dof) / pure.ratio, math.sqrt(2 * dof) / ratio, gauss)
        return [str(d), adjacency, number(noise[0]), str(dof), *map(number, noise[1:])]

    head = ["d", "adjacency", "at (1, 0)", f"k at {budget(*USUAL)}", "noise", "Analyze Gauss"]
    rows = [row(d, a) for a in ("add-remove", "replace") for d in (1, 2, 4, 8, 22, 100)]
    title = "Standard deviation of an off-diagonal entry over $B^2$, at epsilon = 1:"
    return f"{title}\n\n{table(head, *rows)}"


def _legendre(low: np.ndarray, high: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = special.roots_legendre(n)
    half = (high - low)[..., None] / 2
    return low[..., None] + half * (x + 1), half * w


def box_delta(mu1: float, mu2: float, epsilon: float, dof: float, n: int = 64) -> float:
    """H(mu1, mu2; epsilon) of Lemma 2 by brute force: three nested Gauss-Legendre rules.

    V = X - mu1 E_11 is W_2(I, dof) under P: V_11 = x ~ chi2_dof, and V_22 = t + g^2 with
    t ~ chi2_{dof - 1} and g normal. The integrand E_P[(1 - e^(epsilon - L))_+] is positive.
    """
    q = (dof - 3) / 2
    c = math.exp((epsilon - (mu1 - mu2) / 2) / q)
    reach = stats.chi2.isf(1e-17, dof - 1)
    last = min(reach, mu2 * c / (c - 1)) if c > 1 else reach
    total = 0.0
    for low, high in ((0.0, min(mu2, last)), (min(mu2, last), last)):
        # Square roots as variables: powers of t near 0 become smooth.
        root, wt = _legendre(np.array([math.sqrt(low)]), np.array([math.sqrt(high)]), n)
        t = root[0] ** 2
        wt = wt[0] * 2 * root[0] * stats.chi2.pdf(t, dof - 1)
        edge = np.minimum(np.sqrt(np.maximum(mu2 - t, 0.0)), 9.0)
        for g_low, g_high in ((np.zeros_like(t), edge), (edge, np.full_like(t, 9.0))):
            g, wg = _legendre(g_low, g_high, n)
            wg = wg * 2 * stats.norm.pdf(g)
            weight = wt[:, None] * wg
            ahead = mu1 * (t[:, None] + g * g - mu2)
            slope = (t / c - t + mu2)[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                start = np.where(slope > 0, np.maximum(ahead, 0.0) / slope, np.inf)
            start = np.minimum(start, stats.chi2.isf(1e-40, dof))
            # ... and x from where the loss exceeds epsilon, in ln x - ln(start) where start > 0.
            top = stats.chi2.isf(1e-17, dof) + start
            x, wx = _legendre(np.sqrt(start), np.sqrt(top), n)
            wx = wx * 2 * x
            x = x * x
            with np.errstate(divide="ignore", invalid="ignore"):
                kept = (x * (t[:, None, None] - mu2) + ahead[..., None]) / (x * t[:, None, None])
                excess = np.where(
                    kept > 0, -q * np.log(np.maximum(kept, 1e-300)) - q * math.log(c), np.inf
                )
            gain = -np.expm1(-np.maximum(excess, 0.0))
            total += float(np.sum(weight * np.sum(wx * stats.chi2.pdf(x, dof) * gain, axis=-1)))
    return total


def wishart_edges() -> str:
    rows = [["m′", "s", "ε", "δ by (3)", "inside μ₂ = s", "inside μ₁ = s"]]
    for dof, s, epsilon in (
        (6, 1.0, 0.2),
        (8, 1.0, 0.51),
        (20, 1.0, 1.28),
        (20, 4.0, 3.0),
        (30, 1.0, 0.5),
        (30, 16.0, 3.0),
        (100, 4.0, 1.0),
        (100, 16.0, 1.0),
        (400, 16.0, 1.0),
    ):
        claimed = WishartProfile(dof, 2, s, "replace").delta(epsilon)  # d = 2: m' = k
        inside = s * (np.arange(8) + 0.5) / 8
        top = max(box_delta(mu, s, epsilon, dof, 40) for mu in inside)
        right = max(box_delta(s, mu, epsilon, dof, 40) for mu in inside)
        rows.append(
            [
                str(dof),
                number(s),
                number(epsilon),
                number(claimed),
                f"{top / claimed:.3f}",
                f"{right / claimed:.3f}",
            ]
        )
    return "Relative to (3): the largest of 8 inner points on each edge:\n\n" + table(*rows)


# --- Hardt and Roth, Zhou et al. ---------------------------------------------------


def hardt_roth() -> str:
    epsilon, delta = 0.5, 1e-6
    rows = [["k", "range finder: exact ρ", "Figure 2", "projection, flat W: exact", "Figure 3"]]
    mu = calibration.gaussian_ratio(epsilon, delta)
    for k in (10, 30, 100):
        rows.append(
            [
                str(k),
                number(1 / papers.hardt_roth.chi_gaussian_ratio(k, epsilon, delta)),
                number(papers.hardt_roth.figure_2(k, epsilon, delta)),
                number(math.sqrt(k) / mu),
                number(papers.hardt_roth.figure_3(k, epsilon, delta)),
            ]
        )
    return (
        f"At {budget(epsilon, delta)} and row change 1; the projection's noise over $1/\\sqrt m$, "
        "for $|W_{ij}| = 1/\\sqrt m$:\n\n" + table(*rows)
    )


def compression() -> str:
    n, p, m = 10_000, 20, 500
    alpha = zhou_ligett_wasserman.theorem_4_6(
        m,
        n,
        p,
        difference=p * 2 / n,
        lambda_min=0.5,
        lambda_min_reference=0.5,
        norm_reference=2.0,
        delta_max=2 / n,
    )
    floor = 0.5 * n
    exact = SketchProfile(m, p / floor, "replace").epsilon(1e-6)
    return (
        f"For n = {n}, p = {p}, m = {m}, one row of signs changed, least eigenvalues 0.5 and "
        f"norm 2: α = {number(alpha)} without its o(1); by the sketch's profile with $B^2 = p$ and "
        f"$w^2 = n/2$, before anything is thrown away, ε = {number(exact)} at δ = 1e-6."
    )


def composition() -> str:
    rows = [["releases", "δ = 1e-3", "δ = 1e-6", "δ = 1e-9"]]
    from privgram.interop.dp_accounting import pld_from_profile

    pld = pld_from_profile(SketchProfile(20, 0.05, "replace"))
    for count in (1, 10, 100):
        exact = SketchProfile(20 * count, 0.05, "replace")
        composed = pld.self_compose(count) if count > 1 else pld
        cells = []
        for delta in (1e-3, 1e-6, 1e-9):
            epsilon = exact.epsilon(delta)
            excess = composed.get_delta_for_epsilon(epsilon) / exact.delta(epsilon) - 1
            cells.append(f"below 1e{math.ceil(math.log10(max(excess, 1e-9)))}")
        rows.append([str(count), *cells])
    return (
        "Relative excess in delta of the composed distribution of a sketch ($r = 20$, "
        "$\\lambda = 0.05$, replace, $h = 10^{-4}$) over the exact profile with "
        "$c\\,r$ rows, always on the safe side:\n\n" + table(*rows)
    )


def self_composition() -> str:
    """Worst over 2 and 16 releases, where delta is 1e-5."""
    rows = [["mechanism, each at (0.3, 1e-7)", "neighbours", "composed over shown"]]
    for case in joint.cases(0.3, 1e-7):
        ratios = [joint.excess(case, n, 1e-5) for n in (2, 16)]
        if min(ratios) < 1 - 1e-4:
            raise ArithmeticError(f"{case.name} shows more than is composed")
        worst = max(ratios)
        rows.append([case.name, case.adjacency, f"{worst:.3f}" if worst < 1e3 else "not known"])
    return table(*rows)


# --- Audit -------------------------------------------------------------------------


def audit() -> str:
    rows = []
    for path in sorted((FOLDER / "audit").glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        for case in report["cases"]:
            for row in leading(
                Estimate(**{f.name: e[f.name] for f in fields(Estimate)}) for e in case["estimates"]
            ):
                ratio, error = row.by_law / row.claimed, row.by_law_error / row.claimed
                rows.append(
                    [
                        f"`{case['mechanism']}`",
                        case["adjacency"],
                        row.pair,
                        f"{row.epsilon:g}",
                        f"{row.claimed:.4f}",
                        f"{row.measured:.4f}",
                        f"{max(row.lower, 0):.4f} to {row.upper:.4f}",
                        f"{row.measured / row.claimed:.3f}",
                        f"{ratio:.3f} ± {error:.3f}",
                        str(report["draws"]),
                    ]
                )
    header = ["mechanism", "adjacency", "P / Q", "ε", "δ claimed", "measured", "limits"]
    return table([*header, "measured / claimed", "by its law / claimed", "draws"], *rows)


TABLES = {
    function.__name__.replace("_", "-"): function
    for function in (
        sketch,
        inverse_wishart,
        adaptive,
        adaptive_margin,
        analyze_gauss,
        feasible,
        inverse_gauss,
        matrix_laplace,
        wishart,
        wishart_edges,
        hardt_roth,
        compression,
        composition,
        self_composition,
        audit,
    )
}

BLOCK = re.compile(r"<!-- table: ([a-z-]+) -->\n.*?<!-- end -->", re.DOTALL)


def fill(text: str) -> str:
    """Return a text with its tables computed anew."""
    return BLOCK.sub(
        lambda match: f"<!-- table: {match[1]} -->\n\n{TABLES[match[1]]()}\n\n<!-- end -->", text
    )


if __name__ == "__main__":
    for page in sorted((FOLDER / "filled").glob("*.txt")):
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
