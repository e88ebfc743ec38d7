"""Tables of the pages of results: put in their places, and found out where they are stale.

    python -m bench.pages               # names what is stale, with the command that measures it
    python -m bench.pages --keep zoo  # it holds all the same: the commit says why

A table rests on laws: of one round, of several, of scores. `measured.json` has for each table the
digests of these laws when it was measured: some seeded answers on small made tables, to six digits,
since moments are exact and a seed's noise is the same everywhere. What moves an answer moves a
digest, and the tables that rest on it are stale until their command has run. Times repeat on no
machine: they rest on sources, those of the kernels and of what times them, comments aside. A table
that is kept is noted as such.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import privgram as pg

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "docs" / "benchmarks"
MEASURED = BENCHMARKS / "measured.json"


class Table(NamedTuple):
    """Where a table is, what measures it, and the laws that it rests on."""

    page: str
    command: str
    laws: tuple[str, ...]


KERNELS = "src/privgram/_core"
#: Its answers turn with the machine's eigenvectors.
LOW_RANK = ("src/privgram/papers/hardt_roth", "bench/paper/low_rank.py")
#: Tails so heavy are in no law.
CLIPPING = "src/privgram/glm/clipping.py"
STEPS = "src/privgram/glm/score_steps.py"
TARGETS = "src/privgram/glm/targets.py", "src/privgram/regression/features.py"
SWEEP = "bench.paper {} --out docs/benchmarks; python -m docs.low_rank"
TABLES = {
    "accuracy": Table(
        "README.md", "bench.zoo", ("one round", "adaptive rounds", "scores", CLIPPING)
    ),
    "zoo": Table(
        "docs/results.md", "bench.zoo", ("one round", "adaptive rounds", "scores", CLIPPING)
    ),
    "zoo, worst": Table("docs/results.md", "bench.zoo", ("scores", CLIPPING)),
    "named": Table("docs/results.md", "bench.zoo", ("scores", "logistic")),
    "binagg": Table(
        "docs/results.md", "bench.binagg", ("one round", "adaptive rounds", "scores")
    ),
    "uci": Table(
        "docs/results.md",
        "bench.utility.run FOLDER",
        ("one round", "adaptive rounds"),
    ),
    "learning, fashion": Table(
        "docs/results.md",
        "bench.learning FOLDER",
        (STEPS, "src/privgram/glm/multinomial.py", "src/privgram/secret/sweep.py"),
    ),
    "learning, text": Table(
        "docs/results.md",
        "bench.learning FOLDER",
        (STEPS, "src/privgram/glm/multinomial.py", "src/privgram/secret/sweep.py"),
    ),
    "learning, tables": Table(
        "docs/results.md",
        "bench.learning FOLDER",
        ("one round", "adaptive rounds", STEPS, *TARGETS),
    ),
    "learning, fresh": Table(
        "docs/results.md",
        "bench.learning FOLDER",
        ("one round", "adaptive rounds", STEPS, *TARGETS),
    ),
    "planning": Table(
        "docs/results.md", "bench.planning", ("adaptive rounds", "scores")
    ),
    "coverage": Table("docs/results.md", "bench.coverage", ("one round",)),
    "inference": Table(
        "docs/results.md", "bench.inference", ("one round", "adaptive rounds")
    ),
    "peers, regression": Table(
        "docs/results.md", "bench.peers", ("one round", "adaptive rounds")
    ),
    "agency": Table(
        "docs/results.md", "bench.agency", ("one round", "adaptive rounds", "scores")
    ),
    "quantiles": Table(
        "docs/results.md",
        "bench.peers.quantiles --peers PYTHON",
        ("src/privgram/multivariate/distribution.py", "src/privgram/study/tables.py"),
    ),
    "cox": Table(
        "docs/results.md", "bench.peers.cox FOLDER", ("src/privgram/glm/link.py",)
    ),
    "peers, components": Table("docs/results.md", "bench.peers", ("one round",)),
    "peers, speed": Table(
        "docs/results.md", "bench.peers --speed", (KERNELS, "bench/peers")
    ),
    "headline": Table("docs/experiments.md", "docs.experiments FOLDER", ("Sheffet",)),
    "statements": Table("docs/experiments.md", "docs.experiments FOLDER", ("Sheffet",)),
    "netflix": Table("docs/experiments.md", "bench.netflix", LOW_RANK),
    "low rank": Table("docs/experiments.md", SWEEP.format("low-rank"), LOW_RANK),
    "compression": Table("docs/experiments.md", SWEEP.format("compression"), ("compression",)),
    "signs": Table("docs/experiments.md", SWEEP.format("compression"), ("compression",)),
    "groups": Table("docs/results.md", "bench.groups", (KERNELS, "bench/groups.py")),
    "adaptive-gaussian": Table(
        "docs/results.md", "bench.adaptive_rounds", (KERNELS, "bench/adaptive_rounds.py")
    ),
    "scale": Table(
        "docs/results.md", "docs.scale_out", (KERNELS, "bench/bench_scale_out.py")
    ),
    "warehouse": Table(
        "docs/results.md",
        "bench.warehouse --duckreg FOLDER",
        (KERNELS, "src/privgram/columns/sql.py", "bench/warehouse.py"),
    ),
    "unsorted": Table(
        "docs/results.md", "bench.unit_sort", (KERNELS, "bench/unit_sort.py")
    ),
} | {
    suite: Table(
        "docs/results.md",
        f"bench.run --bench {suite}",
        (KERNELS, f"bench/bench_{suite.partition('.')[0]}.py"),
    )
    for suite in (
        "limits.Limits", "rows.Rows", "rows.Layouts", "sources.Npy", "sources.Parquet",
        "sources.PeakMemory", "scale_out.Dask", "scale_out.Spark", "estimators.Fit",
        "release.Regression", "wishart.Wishart", "levels.Levels", "levels.Answers", "levels.Wide",
        "levels.Classes", "levels.Stream", "levels.Small", "levels.Start", "codes.Codes",
    )
}  # fmt: skip


def file_of(name: str) -> Path:
    """Where a table is: README has its own, other pages include a file."""
    table = TABLES[name]
    if table.page == "README.md":
        return ROOT / table.page
    return BENCHMARKS / "tables" / (re.sub(r"[^a-z0-9.]+", "-", name.lower()) + ".txt")


def fill(name: str, lines: Iterable[str], check: bool = False, stamp: bool = True) -> None:
    """Put a table in its place, and note under which laws it was measured, if it all was."""
    table = TABLES[name]
    path, made = file_of(name), "\n".join(lines).strip("\n") + "\n"
    if path.suffix == ".md":  # where it is read on the page itself
        text = path.read_text(encoding="utf-8")
        block = f"<!-- {name} -->\n{made}<!-- end -->"
        made = re.sub(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _: block, text, flags=re.DOTALL)
    if check:
        if made != path.read_text(encoding="utf-8"):
            sys.exit(f"{table.page} is stale: python -m {table.command}")
        return
    path.write_text(made, encoding="utf-8")
    if stamp:
        keep([name], "measured")


def today(how: str = "") -> str:
    """When and where times are measured, and how, as a line below their table."""
    show = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.check_output(show, cwd=ROOT, text=True).strip()
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    cpu = f"{os.cpu_count()} cores of {found[1]}" if found else platform.machine()
    return f"*{datetime.now(UTC):%Y-%m-%d}, commit {commit}, {cpu}{how and ': '}{how}.*"


def read(path: Path) -> list[dict[str, object]]:
    """Rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, object]]) -> None:
    """Rows as a CSV file; one that lacks the last fields has them empty."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, max(rows, key=len), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def keep(names: Iterable[str], how: str = "kept") -> None:
    """Note that tables hold under the laws of today: measured under them, or kept from before."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    for name in names:
        measured[name] = {"is": how} | {law: digest(law) for law in TABLES[name].laws}
    text = json.dumps(dict(sorted(measured.items())), indent=2)
    MEASURED.write_text(text + "\n", encoding="utf-8")


def stale() -> list[str]:
    """A line for each table whose laws are not those that it was measured under."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    lines = []
    for name, table in TABLES.items():
        moved = [law for law in table.laws if measured.get(name, {}).get(law) != digest(law)]
        if moved:
            what = " and ".join(moved)
            lines.append(
                f"{table.page}: the table {name!r} was measured before {what} changed. "
                f"Run python -m {table.command}"
            )
    return lines


@cache
def numbers_of(law: str) -> Any:
    """Seeded answers of a law, in one row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.concatenate([np.ravel(found) for found in LAWS[law]()])


def digest(law: str) -> str:
    """Digest of a law's seeded answers, or of sources."""
    if law in LAWS:
        text = " ".join(f"{number:.5e}" for number in numbers_of(law))
    else:
        text = sources(ROOT / law)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


#: What makes nothing faster or slower, by the files' suffixes.
COMMENTS = dict.fromkeys((".c", ".h"), r"/\*.*?\*/|//[^\n]*")
COMMENTS |= dict.fromkeys((".py", ".pyx", ".pxd"), r'""".*?"""|#[^\n]*')


def sources(path: Path) -> str:
    """Code of a file or a folder, without comments and docstrings."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    texts = [
        re.sub(COMMENTS[file.suffix], "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        for file in files
        if file.suffix in COMMENTS
    ]
    return " ".join(" ".join(texts).split())


COLUMNS = {"x": (-4, 4), "z": (-4, 4), "y": (-12, 12)}
NEIGHBOURS: tuple[Any, ...] = ("add-remove", "replace")
TAILS = (2.5, 5.0, np.inf)


def rows(tail: float = np.inf, n: int = 4000) -> dict[str, Any]:
    """Rows with errors of Student's law, and features that nearly repeat each other."""
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, n))
    z = 0.9 * x + 0.3 * z
    return {"x": x, "z": z, "y": x + 0.5 * z + rng.standard_t(min(tail, 1e6), n)}


def answers(fit: Any) -> list[Any]:
    """Coefficients, standard errors and intervals."""
    return [fit.params, fit.bse, fit.conf_int()]


def released(mechanism: Any, table: dict[str, Any], adjacency: Any, epsilon: float) -> list[Any]:
    """A release's matrix, and a regression on it where there is one."""
    columns = pg.Columns(COLUMNS, intercept=True)
    rng = np.random.default_rng(1)
    release = pg.release(
        table, columns=columns, epsilon=epsilon, delta=1e-6, mechanism=mechanism,
        adjacency=adjacency, rng=rng,
    )  # fmt: skip
    fit = release.regress("y")
    return [release.matrix, *([np.nan] if np.isnan(fit.theta).any() else answers(fit))]


def one_round() -> list[Any]:
    """Of each mechanism, under both notions of neighbours."""
    mechanisms = (pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace())
    cases = product(mechanisms, NEIGHBOURS)
    return [found for one, by in cases for found in released(one, rows(), by, 4.0)]


def adaptive_rounds() -> list[Any]:
    """With tails and without, of few rows and many, at budgets between which decisions change."""
    cases = product(TAILS, (500, 4000, 40_000), NEIGHBOURS, (0.1, 0.3, 1.0, 4.0))
    return [
        found
        for tail, n, adjacency, epsilon in cases
        for found in released(pg.AdaptiveGaussian(), rows(tail, n), adjacency, epsilon)
    ]


def regressed(
    table: dict[str, Any], described: dict[str, Any], epsilon: float = 4.0, **how: Any
) -> list[Any]:
    """One regression by scores."""
    found = []
    for adjacency in NEIGHBOURS:
        columns = pg.Columns(described, intercept=True)
        how |= {"adjacency": adjacency, "rng": np.random.default_rng(2)}
        found += answers(pg.regress(table, "y ~ x + z", columns, epsilon, 1e-6, **how))
    return found


def scores() -> list[Any]:
    """Least squares with tails and without, at several budgets; Huber's loss; by unit."""
    people = rows() | {"person": np.arange(4000) // 2}
    cases = product(TAILS, (500, 4000, 40_000), (0.3, 1.0, 4.0))
    return [
        *(found for tail, n, by in cases for found in regressed(rows(tail, n), COLUMNS, by)),
        *regressed(rows(3.0), COLUMNS, loss="huber"),
        *regressed(people, COLUMNS, unit=pg.Unit("person", max_rows=2)),
    ]


def logistic() -> list[Any]:
    """A yes or no, and a count."""
    found = []
    for n, epsilon in product((4000, 40_000), (1.0, 4.0)):
        table = rows(n=n)
        yes = table | {"y": table["y"] > 0}
        counts = table | {"y": np.floor(np.abs(table["y"]))}
        found += regressed(yes, COLUMNS | {"y": bool}, epsilon, family="binomial")
        found += regressed(counts, COLUMNS | {"y": (0, 12)}, epsilon, family="poisson")
    return found


def sheffet() -> list[Any]:
    """Every estimator of the figures, with the paper's constants and with exact ones."""
    from bench.paper.sheffet import runs, settings, stream
    from bench.paper.sheffet.estimators import ESTIMATORS

    setting = settings.SMALL["single"]
    moment = stream.accumulate(setting, 0, 0, 1 << 12)
    return [run.error for run in runs.evaluate(setting, 12, 0, moment, ESTIMATORS)]


def compression() -> list[Any]:
    """Components of a compressed table, and a table of signs."""
    from bench.paper import compression

    rows = [*compression.pca_error((1000,), (5,), n_rows=4000), *compression.signs((10_000,))]
    return [value for row in rows for value in vars(row).values()]


LAWS: dict[str, Callable[[], list[Any]]] = {
    "one round": one_round,
    "adaptive rounds": adaptive_rounds,
    "scores": scores,
    "logistic": logistic,
    "Sheffet": sheffet,
    "compression": compression,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", nargs="*", choices=TABLES, metavar="TABLE", default=[])
    options = parser.parse_args()
    keep(options.keep)
    found = stale()
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
