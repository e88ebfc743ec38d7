"""Write errata.md: every printed constant against the exact profile.

    python docs/theory/errata.py

Each number on the page is computed here. tests/theory/test_pages.py checks that the
committed page is what this script writes.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy import stats

from privgram.papers import hardt_roth, sheffet, zhou_ligett_wasserman
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import AdaptiveSketchProfile, SketchProfile, WishartProfile
from privgram.privacy import GaussianProfile, calibration

PAGE = Path(__file__).with_name("errata.txt")
SQRT2 = math.sqrt(2)


def number(value: float) -> str:
    """Three significant digits, without an exponent where that is readable."""
    return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")


def gaussian(sensitivity: float, sigma: float, epsilon: float) -> str:
    """Delta of Gaussian noise."""
    return number(GaussianProfile(sensitivity / sigma).delta(epsilon))


def analyze_gauss_epsilon() -> str:
    sigma = sheffet.section_2(1.0, 0.1, 1e-6, "add-remove", allow_published_erratum=True)
    return f"at (0.1, 1e-6), add-remove, B = 1: delta = {gaussian(1.0, sigma, 0.1)}"


def analyze_gauss_replace() -> str:
    found = []
    for epsilon in (1.0, 2.0):
        sigma = sheffet.analyze_gauss(1.0, epsilon, 1e-6, "replace", allow_published_erratum=True)
        found.append(f"at ({epsilon:g}, 1e-6): delta = {gaussian(SQRT2, sigma, epsilon)}")
    sigma = sheffet.analyze_gauss(1.0, 0.5, math.exp(-9), "replace")
    spare = gaussian(SQRT2, sigma, 0.5)
    return (
        "; ".join(found)
        + f". At the paper's (0.5, e^-9 = 1.23e-4) the tail bound has enough to spare: {spare}"
    )


def analyze_gauss_large_epsilon() -> str:
    first = next(
        epsilon
        for epsilon in np.arange(0.5, 100.0, 0.1)
        if GaussianProfile(
            1 / sheffet.analyze_gauss(1.0, epsilon, 1e-6, allow_published_erratum=True)
        ).delta(epsilon)
        > 1e-6
    )
    return f"with epsilon squared and add-remove, delta = 1e-6: fails from epsilon = {first:.1f} on"


def gaussian_tail() -> str:
    tail = stats.norm.sf(math.sqrt(math.log(100)))
    return f"at nu = 0.01 the probability is {number(tail)}"


def theorem_b_5() -> str:
    epsilon, delta = 1.0 - 1e-9, 1e-6
    mu = calibration.gaussian_ratio(epsilon, delta)
    small = sheffet.theorem_b_5(1.0, 0.1, epsilon, delta, allow_published_erratum=True)
    large = sheffet.theorem_b_5(10.0, 1.0, epsilon, delta)
    leaks = [gaussian(rows / (0.01 * 2), small, epsilon) for rows in (1.0, SQRT2)]
    wastes = [large / (rows / (10 * 11) / mu) for rows in (1.0, SQRT2)]
    return (
        "at (1, 1e-6), add-remove / replace: for B = 0.1, rho = 1, "
        f"delta = {leaks[0]} / {leaks[1]}; for B = 1, rho = 10, valid, "
        f"{wastes[0]:.0f} / {wastes[1]:.0f} times the noise needed"
    )


def theorem_b_4() -> str:
    return (
        f"at delta = 1e-6 negative from epsilon = {2 * math.log(4e6):.1f} on; "
        "below, it held on the whole grid"
    )


def grid_ratio(theorem: str, epsilons: list[float], rows: list[int]) -> float:
    """Largest delta over the one asked for, on a grid."""
    formula = {
        "3.1": lambda *a: sheffet.theorem_3_1(*a, allow_published_erratum=True),
        "B.1": sheffet.theorem_b_1,
        "B.2": sheffet.corollary_b_2,
        "B.4": sheffet.theorem_b_4,
    }[theorem]
    worst = 0.0
    for r in rows:
        for delta in (0.36, 1e-2, 1e-4, 1e-6, 1e-9):
            for epsilon in epsilons:
                try:
                    w_squared = formula(r, 1.0, epsilon, delta)
                except ValueError:
                    continue
                worst = max(worst, SketchProfile(r, 1 / w_squared).delta(epsilon) / delta)
    return worst


def sketch_theorems() -> str:
    rows, usual = [1, 10, 100, 10_000], [0.01, 0.5, 0.99, 2.0, 8.0]
    held = "; ".join(
        f"{t} {number(grid_ratio(t, usual, rows))}" for t in ("3.1", "B.1", "B.2", "B.4")
    )
    w_squared = sheffet.theorem_3_1(10_000, 1.0, 400.0, 0.1, allow_published_erratum=True)
    far = number(SketchProfile(10_000, 1 / w_squared).delta(400.0))
    return (
        f"largest delta over the one asked for, epsilon up to 8: {held}. At r = 10000, "
        f"(400, 0.1), where 3.1 no longer follows from B.4: delta = {far}"
    )


def theorem_4_1() -> str:
    d, epsilon, delta = 22, 7.0, 1e-6
    k = math.floor(d + 28 * math.log(4 / delta) / epsilon**2)
    fails = next(
        e
        for e in np.arange(1.0, 10.0, 0.1)
        if WishartProfile(math.floor(d + 28 * math.log(4e6) / e**2), d, 1.0).delta(e) > 1e-6
    )
    inside = max(
        WishartProfile(sheffet.theorem_4_1(d, e, delta_), d, 1.0).delta(e) / delta_
        for e in (0.1, 0.5, 0.99)
        for delta_ in (0.36, 0.25, 0.1, 1e-3, 1e-6, 1e-9)
    )
    found = number(WishartProfile(k, d, 1.0).delta(epsilon))
    floor = number(float(stats.chi2.cdf(1.0, k - d + 1)))
    return (
        f"d = 22, delta = 1e-6: at epsilon = 7, k = {k}, delta = {found} (the floor alone is "
        f"{floor}); fails from epsilon = {fails:.1f} on. Inside its domain the largest delta over "
        f"the one asked for is {number(inside)}"
    )


def theorem_b_3_remark() -> str:
    d, epsilon, delta = 22, 0.5, 1e-6
    intended = math.floor(d + 28 * math.log(4 / delta))
    scaled = number(WishartProfile(intended, d, epsilon).delta(epsilon))
    return (
        f"as a choice of its own, C1 = B^2/epsilon and C2 = 14 (k = {intended} at d = 22, "
        f"delta = 1e-6), it holds at epsilon = 0.5: delta = {scaled}"
    )


def lemma_a_3() -> str:
    m, d, nu = 1000, 500, 0.1
    root = math.sqrt(d) + math.sqrt(2 * math.log(2 / nu))
    printed = abs(m - (math.sqrt(m) - root) ** 2)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((m, d))
    found = float(np.linalg.norm(m * np.eye(d) - x.T @ x, 2))
    return (
        f"d = 500, m = alpha = 1000, V = I, nu = 0.1: a draw has {found:.0f}, printed {printed:.0f}"
    )


def theorem_c_3() -> str:
    k, p = 30, 4
    least = 2 * (math.sqrt(k) + math.sqrt(p) + math.sqrt(2 * math.log(40))) ** 2
    root = np.random.default_rng(3).standard_normal((k, p + 1))
    noise = root.T @ root
    error = np.linalg.norm(np.linalg.solve(least * np.eye(p) + noise[:p, :p], noise[:p, p]))
    bound = sheffet.theorem_c_3(0.0, least * (1 + 1e-12), 1.0, k, p, 0.1)
    return (
        f"k = 30, p = 4, nu = 0.1, C = 2, an estimate of 0: a draw has an error of "
        f"{number(float(error))}, printed 0; by 1 in its place the bound is {number(bound)}"
    )


def algorithm_2() -> str:
    worst = 0.0
    for rows in (1, 100):
        for delta in (0.3, 1e-6):
            for epsilon in (0.05, 1.0, 10.0):
                printed = sheffet.algorithm_2(rows, 1.0, epsilon, delta)
                profile = AdaptiveSketchProfile(
                    rows, printed.regulariser, printed.shift, printed.laplace_scale, "replace"
                )
                worst = max(worst, profile.delta(epsilon) / delta)
    return (
        f"the factor is {math.exp(0.5):.2f} at epsilon = 1 and {math.exp(5):.0f} at epsilon = 10; "
        f"the largest delta over the one asked for is {number(worst)} all the same"
    )


def corollary_b_2() -> str:
    w_squared, epsilon, delta = 1e4, 0.5, 1e-6
    log = math.log(4 / delta)
    printed = math.ceil((epsilon * w_squared / (8 * log)) ** 2)
    meant = math.floor((epsilon * w_squared / 8) ** 2 / log)
    exact = sheffet.sketch_rows(1 / w_squared, epsilon, delta)
    return (
        f"w^2 = 1e4 B^2, (0.5, 1e-6): printed r = {printed}, by the first half {meant}, "
        f"exact {exact}"
    )


def hardt_roth_2_6() -> str:
    found = []
    for delta in (1e-6, 1e-9):
        rho = hardt_roth.theorem_2_6(1.0, 1.0, delta, allow_published_erratum=True)
        found.append(f"at (1, {delta:g}): delta = {gaussian(1.0, rho, 1.0)}")
    return "; ".join(found).replace("e-0", "e-")


def hardt_roth_figure_2() -> str:
    found = []
    for k, delta in ((1, 1e-9), (2, 1e-12), (3, 1e-15)):
        rho = hardt_roth.figure_2(k, 0.5, delta, allow_published_erratum=True)
        leak = number(ChiGaussianProfile(k, 1 / rho).delta(0.5))
        found.append(f"k = {k} at (0.5, {number(delta)}): {leak}")
    slack = [
        hardt_roth.figure_2(k, 0.5, 1e-6) * hardt_roth.chi_gaussian_ratio(k, 0.5, 1e-6)
        for k in (3, 10, 100)
    ]
    return (
        "delta for "
        + "; ".join(found)
        + ". At delta = 1e-6 it holds, "
        + ", ".join(f"{s:.2f}" for s in slack)
        + " times the exact noise for k = 3, 10, 100"
    )


def zhou_constant() -> str:
    c1, c2 = zhou_ligett_wasserman.lemma_b_1()
    wrong = math.sqrt(2 * (c1 + math.sqrt(8 * math.e)))
    return (
        f"sqrt(8e) = {math.sqrt(8 * math.e):.4f}, sqrt(8) e = {c2:.4f}; C = "
        f"{math.sqrt(2 * (c1 + c2)):.3f}, not {wrong:.3f}"
    )


def zhou_proposition_d_1() -> str:
    x = np.ones(10)
    y = np.where(np.arange(10) < 5, -1.0, 1.0)
    norm = float(np.linalg.norm(np.outer(x, x) - np.outer(y, y)))
    return f"p = 10, τ = 1/2: n ‖Δ‖_F = {number(norm)}, printed at most 10"


#: where, printed, what is wrong, the numbers (or none: a slip of the pen)
ERRATA = [
    (
        "**Sheffet**, section 2, Analyze Gauss",
        "variance 2 Δ² ln(2/δ)/ε",
        "ε should be squared, as it is in the proof of Theorem B.5",
        analyze_gauss_epsilon,
    ),
    (
        "section 2",
        "‖f(A) − f(A′)‖² = B⁴ for neighbours that differ in a row",
        "that is adding or removing one; replacing gives up to 2 B⁴",
        analyze_gauss_replace,
    ),
    (
        "section 2",
        "the Gaussian bound for every ε",
        "it is a tail bound for small ε",
        analyze_gauss_large_epsilon,
    ),
    ("section 2", "Pr[x > μ + σ √ln(1/ν)] < ν", "√(2 ln(1/ν)) is meant", gaussian_tail),
    (
        "Theorems 3.1 and 5.1",
        "for every ε > 0",
        "they follow from B.4 only up to ε = ln(4/δ), and fail for ε in the hundreds with many "
        "rows; 3.1, B.1, B.2, 5.1 and B.4 hold otherwise",
        sketch_theorems,
    ),
    (
        "Theorem B.4",
        "w² = B²/(ε(1 − ε/(2 ln(4/δ)))) · …, for every ε > 0",
        "negative from ε = 2 ln(4/δ) on",
        theorem_b_4,
    ),
    (
        "Corollary B.2",
        "r = ⌈(ε w²/(8 B² ln(4/δ)))²⌉",
        "the first half gives ln(4/δ) unsquared, and rounding down",
        corollary_b_2,
    ),
    (
        "Theorem 4.1",
        "k = ⌊d + 28 ln(4/δ)/ε²⌋ for ε < 1",
        "valid where stated; beyond, the floor Pr[χ² < 1] makes it fail",
        theorem_4_1,
    ),
    (
        "Theorem B.3, proof",
        "last step under “δ < 1/6”",
        "it needs ln(4/δ) ≥ 3, δ ≤ 0.199, but the theorem says δ < 1/e; the conclusion holds "
        "(line above)",
        None,
    ),
    (
        "Theorem B.3, remark",
        "“multiply all entries by B/√ε”",
        "belongs to C₁ = B²/ε, C₂ = 14, not to the C₁ = B² of the theorem",
        theorem_b_3_remark,
    ),
    (
        "Theorem B.5",
        "noise variance 8 ln(2/δ)/(ρ²ε²)",
        "the sensitivity lost its units: it is at most 1/(B²ρ(1+ρ)), times √2 for replace",
        theorem_b_5,
    ),
    (
        "Algorithms 2 and 5, lower bound",
        "fails with probability δ/4",
        "against what the neighbours share it is e^(ε/2) δ/4; slack elsewhere covers it, "
        "see [the adaptive variants](sheffet.md#the-adaptive-variants)",
        algorithm_2,
    ),
    (
        "Lemma A.3, second half",
        "‖αV − X‖ ≤ ‖V‖ · |α − (√m − …)²| for α ≤ m",
        "the far end is (√m + …)²; in the next line the signs are exchanged as well",
        lemma_a_3,
    ),
    (
        "Theorem C.3",
        "the second term times (C − 2)/(C − 1)",
        "(XᵀX + N)⁻¹ ≼ (XᵀX)⁻¹, and not that part of it",
        theorem_c_3,
    ),
    (
        "Lemma A.1, proof",
        "(√(r−d+1) − …)² twice; r − d − 1",
        "√ + … for the upper end; r − d + 1",
        None,
    ),
    ("Algorithms 2 and 5", "“Sample a r × (n+d)”; “if w > 0”", "r₀ is meant, and ψ", None),
    ("section 3.1", "n in {2¹⁴ = 4,096, …}", "2¹² = 4,096", None),
    (
        "section 3.1",
        "noise N(0, 0.5)",
        "variance or standard deviation is not said; section 6.2 has σ = 0.5",
        None,
    ),
    ("section 3", "(XᵀX + w²I) Xᵀy", "the inverse is missing", None),
    (
        "**Hardt and Roth**, Theorem 2.6 (A.1)",
        "ρ = c √ln(1.25/δ)/ε",
        "√2 is missing",
        hardt_roth_2_6,
    ),
    (
        "Figure 2",
        "ρ = 2 √(2k ln(4k/δ))/ε",
        "the proof's √ln(2.5/δ) became 2, which only many columns make up for: false for "
        "k = 1, 2, 3 at small δ",
        hardt_roth_figure_2,
    ),
    ("Lemma 4.6", "Σ_l W_lj² e_l²", "row j of WᵀE is W_ij eᵀ; the conclusion holds", None),
    ("Fact 2.7", "P_Y = Y (Y*Y) Y⁻¹", "Y (Y*Y)⁻¹ Y*", None),
    ("Figure 2", "“n × k measurement matrix Y”", "Y is m × k", None),
    (
        "**Zhou et al.**, Lemma B.1",
        "C₂ = √(8e) ≈ 7.6885",
        "the value is that of √8 e",
        zhou_constant,
    ),
    (
        "Proposition D.1",
        "‖Δ‖_F ≤ 2p √(τ(1 − τ))/n ≤ p/n",
        "√2 is missing: τp flips of p change 2 τp (1 − τ)p entries, by 2/n each",
        zhou_proposition_d_1,
    ),
]

HEADER = """\
| where | printed | what is wrong | measured |
|---|---|---|---|
"""


def page() -> str:
    """Return the table of errata.md, which includes it."""
    rows = [
        " | ".join(
            (f"| {where}", printed.replace("|", r"\|"), wrong, (measure() if measure else ""))
        )
        + " |"
        for where, printed, wrong, measure in ERRATA
    ]
    return HEADER + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
