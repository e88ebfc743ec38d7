"""Measure privgram and its peers on the same tasks and write docs/results.md.

    python -m bench.peers --diffprivlib PYTHON    # measure (some minutes) and write the page
    python -m bench.peers --missing               # measure what the record lacks
    python -m bench.peers --page                  # the page again, from the recorded numbers

diffprivlib 0.6.6 needs scikit-learn < 1.7: PYTHON is the interpreter of an environment with both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import pages
from bench.peers import page, tasks

HERE = Path(__file__).parent
SEEDS = 20
DELTA = 1e-6
EPSILONS = (0.1, 1.0)
PATIENCE = 40  # seconds for 20 fits; what takes longer is recorded so
SPEED_PATIENCE = 12  # for three
PEERS = ("privgram", "numpy", "diffprivlib", "opendp", "sklearn")


def ask(peer: str, python: str, job: dict[str, Any], patience: int = PATIENCE) -> dict[str, Any]:
    """One job by one peer in a process of its own."""
    # Kernels of NumPy's OpenBLAS are its own choice, whatever the machine's environment says.
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    try:
        run = subprocess.run(
            [python, HERE / f"with_{peer}.py"],
            input=json.dumps(job | {"patience": patience / 2}),
            capture_output=True,
            text=True,
            env=env,
            check=False,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return {"offered": True, "slow": patience}
    if run.returncode:
        raise RuntimeError(f"{peer} failed at {job['task']}:\n{run.stderr}")
    return dict(json.loads(run.stdout))


def quartiles(values: list[float]) -> list[float]:
    return np.quantile(values, [0.5, 0.25, 0.75]).tolist()


def tables(folder: Path) -> list[dict[str, Any]]:
    """The tasks: a job each, without its budget, and what measures its results."""
    found: list[dict[str, Any]] = []

    def add(name: str, task: str, table: np.ndarray, measure: Any, **job: Any) -> None:
        path = str(folder / f"{len(found)}.npy")
        np.save(path, np.ascontiguousarray(table))
        found.append(
            {
                "name": name,
                "measure": measure,
                "epsilons": EPSILONS,
                "job": {"task": task, "path": path, **job},
            }
        )

    for n in (10**5, 10**6):
        table, lower, upper = tasks.regression_table(n), [-1.0] * 21, [1.0] * 21
        error = tasks.RegressionError(table, lower, upper)
        add(f"made, n = {n:,}", "regression", table, error, lower=lower, upper=upper)
    names = ["dep_delay", "distance", "air_time", "hour", "month", "arr_delay"]
    for task, kept in (("regression", names), ("line", ["dep_delay", "arr_delay"])):
        table, lower, upper = tasks.flights(kept)
        error = tasks.RegressionError(table, lower, upper)
        title = "flights, one feature" if task == "line" else "flights"
        add(title, task, table, error, lower=lower, upper=upper)
    for d in (8, tasks.D):
        table = tasks.pca_table(10**5, d)
        norm, k = tasks.NORM, tasks.COMPONENTS
        add(f"PCA of {d} columns", "pca", table, tasks.PCAError(table), norm=norm, components=k)
    table, mean, bounds = tasks.shifted_table(10**5, 8)
    add(
        "PCA of 8 columns about a mean that is not public",
        "pca_about_mean",
        table,
        tasks.PCAError(table - table.mean(axis=0)),
        norm=tasks.NORM,
        norm_about_zero=tasks.NORM + mean,
        lower=[-bounds] * 8,
        upper=[bounds] * 8,
        components=tasks.COMPONENTS,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--diffprivlib", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--missing", action="store_true", help="measure what the record lacks")
    parser.add_argument("--speed", action="store_true", help="only measure speed and memory")
    options = parser.parse_args()
    pythons = dict.fromkeys(PEERS, sys.executable) | {"diffprivlib": options.diffprivlib}
    if not options.page:
        record: dict[str, Any] = {"speed": [], "versions": {}, "errors": [], "measured": {}}
        if options.speed or options.missing:
            record = json.loads(page.RECORD.read_text())
        with tempfile.TemporaryDirectory() as folder:
            if not options.speed:
                for versions, errors in measure_errors(Path(folder), pythons, record):
                    save(record, "errors", versions, errors)
            if not options.missing:
                save(record, "speed", record["versions"], measure_speed(Path(folder), pythons))
    names = page.TABLES[-1:] if options.speed else page.TABLES
    page.fill(names, stamp=not (options.page or options.missing))


def save(
    record: dict[str, Any], what: str, versions: dict[str, str], rows: list[dict[str, Any]]
) -> None:
    record |= {"versions": versions, what: rows}
    record["measured"][what] = pages.today(" ".join(f"{k} {v}" for k, v in versions.items()))
    page.RECORD.write_text(json.dumps(record, indent=1) + "\n")


def measure_errors(
    folder: Path, pythons: dict[str, str], record: dict[str, Any]
) -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Versions, and quartiles of the errors for each peer and budget, so far, task by task.

    What the record has is taken from there.
    """
    versions: dict[str, str] = dict(record["versions"])
    errors: list[dict[str, Any]] = []
    before = record["errors"]
    for task in tables(folder):
        for peer in PEERS:
            for extra in variants(peer, task["job"]["task"]):
                # Nothing is drawn without privacy, and nothing depends on epsilon.
                drawn = peer != "sklearn"
                for epsilon in task["epsilons"] if drawn else (1.0,):
                    who = {"task": task["name"], "peer": peer, **extra, "epsilon": epsilon}
                    asked = {"ridge": None, "rounds": None} | who
                    known = [row for row in before if asked == {k: row.get(k) for k in asked}]
                    if known:
                        errors += known
                        continue
                    job = task["job"] | extra | {"epsilon": epsilon}
                    answer = ask(peer, pythons[peer], job | {"seeds": SEEDS if drawn else 1})
                    versions[peer] = answer.get("version", versions.get(peer, ""))
                    print(task["name"], peer, extra, epsilon, flush=True, file=sys.stderr)
                    if "slow" in answer:
                        errors.append(who | {"slow": answer["slow"]})
                    elif answer["offered"]:
                        count = {"seeds": len(answer["results"])}
                        errors.append(who | count | summary(task, answer["results"]))
        yield versions, errors


def variants(peer: str, task: str) -> list[dict[str, Any]]:
    """What a peer is asked besides epsilon."""
    found: list[dict[str, Any]] = [{"delta": DELTA}]
    if peer == "privgram":
        found += [{"delta": 1e-12}, {"delta": 0.0}]
        if task in ("regression", "line"):
            found += [{"delta": DELTA, "ridge": "auto"}, {"delta": 0.0, "ridge": "auto"}]
            found.append({"delta": DELTA, "rounds": "auto"})
    return found


def measure_speed(folder: Path, pythons: dict[str, str]) -> list[dict[str, Any]]:
    """Seconds and bytes of one fit of a million rows."""
    shapes = (
        ("regression", tasks.regression_table, {"lower": [-1.0] * 21, "upper": [1.0] * 21}),
        ("pca", tasks.pca_table, {"norm": tasks.NORM, "components": tasks.COMPONENTS}),
    )
    speed: list[dict[str, Any]] = []
    for name, make, extra in shapes:
        path = str(folder / "speed.npy")
        np.save(path, make(10**6))
        for peer in PEERS:
            job = {"task": name, "path": path, "epsilon": 1.0, "delta": DELTA, "seeds": 3}
            answer = ask(peer, pythons[peer], job | extra, SPEED_PATIENCE)
            if "slow" in answer:
                speed.append({"task": name, "peer": peer, "rows": 10**6, "slow": answer["slow"]})
            elif answer["offered"]:
                keep = {key: answer[key] for key in ("seconds", "memory")}
                speed.append({"task": name, "peer": peer, "rows": 10**6, **keep})
    return speed


def summary(task: dict[str, Any], results: list[Any]) -> dict[str, Any]:
    """Median and quartiles of the measures over seeds, where the fit was not refused."""
    measured = [task["measure"](result) for result in results if result is not None]
    if len(measured) < len(results) / 2:
        return {"refused": len(results) - len(measured)}
    if task["job"]["task"] in ("pca", "pca_about_mean"):
        return {"error": quartiles(measured)}
    error, r2 = zip(*measured, strict=True)
    return {"error": quartiles(list(error)), "r2": quartiles(list(r2))}


if __name__ == "__main__":
    main()
