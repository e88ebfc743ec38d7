"""What each term costs: errors of factors and polynomials, and of the same columns made by hand.

    python bench/terms.py [--draws 10]

About a minute on one core. n rows have a factor of L equally frequent levels, or a polynomial,
beside a number in [-1, 1]; the target is in [-1, 1] too. Printed are the root mean square
distances of coefficients from those of least squares on the same rows, over releases by Analyze
Gauss at epsilon = 1, delta = 1e-6, as tables for docs/results.md. "by hand" are columns
of 0 and 1, one level left out, or of powers, described by two bounds each.
"""

import argparse

import numpy as np

import privgram as pg

EPSILON, DELTA = 1.0, 1e-6
FACTORS = {5: 1_000_000, 50: 1_000_000, 500: 500_000}
DEGREES = (2, 3, 4)
N_POWERS = 200_000


def fits(moment: pg.SecondMoment, features: list[str], draws: int) -> list:
    """Regressions on so many releases, those left out that have no coefficients."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        release = pg.release(
            moment, epsilon=EPSILON, delta=DELTA, mechanism=pg.AnalyzeGauss(), rng=rng
        )
        found.append(release.regress("y", features))
    return [fit for fit in found if not np.isnan(fit.theta).any()]


def shown(errors: list, draws: int) -> str:
    """The root mean square, or how many releases were refused."""
    if len(errors) < draws:
        return f"refused in {draws - len(errors)} of {draws}"
    return f"{np.sqrt(np.mean(np.square(errors))):.2g}"


def measure(moment: pg.SecondMoment, features: list[str], exact, draws: int) -> tuple[str, str]:
    """Error of the coefficients, and in how many releases there are standard errors."""
    found = fits(moment, features, draws)
    offered = sum(fit.refusal is None for fit in found)
    return shown([fit.used[:-1] - exact for fit in found], draws), f"{offered} of {draws}"


def of_factor(levels: int, n: int, draws: int) -> list[str]:
    """A row of the table of factors."""
    rng = np.random.default_rng(0)
    code, x = rng.integers(0, levels, n), rng.uniform(-1, 1, n)
    effect = rng.uniform(-0.3, 0.3, levels)
    y = np.clip(0.4 * x + effect[code] + rng.normal(0, 0.2, n), -1, 1)
    names = [f"g{i}" for i in range(levels)]
    columns = pg.Columns({"x": (-1, 1), "g": names, "y": (-1, 1)}, intercept=True)
    rows = {"x": x, "g": np.array(names)[code], "y": y}
    moment = pg.second_moment(
        np.rec.fromarrays(list(rows.values()), names="x,g,y"), columns=columns
    )
    truth = least_squares(x, code, y, levels)
    error, offered = measure(moment, ["x", "g"], truth, draws)
    dummies = [f"g{i}" for i in range(1, levels)]
    hand = pg.Columns(
        {"x": (-1, 1), **dict.fromkeys(dummies, (0, 1)), "y": (-1, 1)}, intercept=True
    )
    source = ({"x": x[s], **{f"g{i}": (code[s] == i) * 1.0 for i in range(1, levels)}, "y": y[s]}
              for s in (slice(i, i + 50_000) for i in range(0, n, 50_000)))  # fmt: skip
    plain = pg.second_moment(source, columns=hand)
    before, offered_before = measure(plain, ["x", *dummies], truth, draws)
    bounds = f"{hand.bound:.3g}", f"{columns.bound:.3g}"
    return [f"{levels}", f"{n:,}", *bounds, before, error, offered_before, offered]


def least_squares(x, code, y, levels):
    """Slope and differences from the first level, by removing the means of levels."""
    count = np.bincount(code, minlength=levels)
    mean_x, mean_y = (np.bincount(code, v, levels) / count for v in (x, y))
    within = x - mean_x[code]
    slope = within @ y / (within @ within)
    effects = mean_y - slope * mean_x
    return np.append(slope, effects[1:] - effects[0])


def of_polynomial(degree: int, draws: int) -> list[str]:
    """A row of the table of polynomials: the curve's error at the ages, per release."""
    rng = np.random.default_rng(1)
    n = N_POWERS
    age = rng.uniform(18, 90, n)
    y = np.clip(-0.5 + 0.03 * age - 0.0003 * age**2 + rng.normal(0, 0.3, n), -1, 1)
    columns = pg.Columns(
        {"age": (18, 90), "y": (-1, 1)}, intercept=True, terms=[f"poly(age, {degree})", "y"]
    )
    names = ["age", *(f"age{k}" for k in range(2, degree + 1))]
    powers = {name: age**k for k, name in enumerate(names, 1)}
    bounds = {name: (18.0**k, 90.0**k) for k, name in enumerate(names, 1)}
    hand = pg.Columns({**bounds, "y": (-1, 1)}, intercept=True)
    grid = np.linspace(18, 90, 145)
    curve = np.polynomial.Polynomial.fit(age, y, degree)(grid)
    found = []
    for source, described, features in (
        ({**powers, "y": y}, hand, names),
        ({"age": age, "y": y}, columns, [f"poly(age, {degree})"]),
    ):
        moment = pg.second_moment(source, columns=described)
        design = np.column_stack([grid**k for k in range(1, degree + 1)])
        errors = [
            np.sqrt(np.mean((fit.used[-1] + design @ fit.used[:-1] - curve) ** 2))
            for fit in fits(moment, features, draws)
        ]
        found.append(shown(errors, draws))
    return [f"{degree}", f"{n:,}", *found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    heads = ["levels", "rows", "bound by hand", "bound", "error by hand", "error"]
    heads += ["standard errors by hand", "standard errors"]
    print_table(heads, (of_factor(levels, n, draws) for levels, n in FACTORS.items()))
    heads = ["degree", "rows", "error of the curve, powers by hand", "error of the curve, poly"]
    print_table(heads, (of_polynomial(degree, draws) for degree in DEGREES))


def print_table(heads, rows):
    print("| " + " | ".join(heads) + " |\n|" + "--:|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


if __name__ == "__main__":
    main()
