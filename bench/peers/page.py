"""Fills the tables of docs/results.md from the recorded numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench import pages

RECORD = Path(__file__).with_name("peers.json")

NAMES = {
    "privgram": "privgram",
    "numpy": "`X.T @ X` + noise by hand",
    "diffprivlib": "diffprivlib",
    "opendp": "OpenDP",
    "sklearn": "scikit-learn",
}

TABLES = ("peers, regression", "peers, components", "peers, speed")


def fill(names: Iterable[str], **how: bool) -> None:
    """Fill tables of the page from what was recorded."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for name in names:
        if name == "peers, speed":
            lines = _speed(record["speed"]), "", record["measured"]["speed"]
        else:
            errors = _sections(record["errors"], pca="components" in name)
            lines = errors, "", record["measured"]["errors"]
        pages.fill(name, lines, **how)


def _sections(rows: list[dict[str, Any]], pca: bool) -> str:
    tasks = [t for t in dict.fromkeys(row["task"] for row in rows) if ("PCA" in t) == pca]
    return "\n\n".join(f"### {task}\n\n{_errors(rows, task)}" for task in tasks)


def _errors(rows: list[dict[str, Any]], task: str) -> str:
    rows = [row for row in rows if row["task"] == task]
    epsilons = sorted({row["epsilon"] for row in rows if row["peer"] != "sklearn"})
    regression = "PCA" not in task
    lines = []
    kinds = [(row["peer"], row["delta"], row.get("ridge"), row.get("rounds")) for row in rows]
    for key in dict.fromkeys(kinds):
        peer, delta, ridge, rounds = key
        own = {row["epsilon"]: row for row, kind in zip(rows, kinds, strict=True) if kind == key}
        pure = peer in ("diffprivlib", "opendp")
        promise = "not private" if peer == "sklearn" else f"δ = {0 if pure else _delta(delta)}"
        name = NAMES[peer] + (", ridge" if ridge else ", adaptive rounds" if rounds else "")
        answers = [own[min(own)] if peer == "sklearn" else own[e] for e in epsilons]
        cells = [_cell(answer, regression) for answer in answers]
        lines.append([name, promise, *cells])
    title = "error (quartiles); R²" if regression else "missed (quartiles)"
    return _table(["", "guarantee", *(f"ε = {e:g}: {title}" for e in epsilons)], lines)


def _cell(row: dict[str, Any], regression: bool) -> str:
    if "slow" in row:
        return f"20 fits did not end within {row['slow']} s"
    if "refused" in row:
        return f"refused, {row['refused']} of {row['seeds']}"
    middle, low, high = row["error"]
    text = f"{_number(middle)} ({_number(low)} to {_number(high)})"
    if row["peer"] == "sklearn":
        text = "0"
    return f"{text}; {_r2(row['r2'][0])}" if regression else text


def _r2(value: float) -> str:
    return f"{value:.3f}" if value > -10 else "< -10"


def _number(value: float) -> str:
    if value >= 100:
        return "> 100"
    return f"{value:.2g}" if value >= 1e-4 else _power(value)


def _power(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _delta(value: float) -> str:
    return f"1e{round(math.log10(value))}" if value else "0"


def _speed(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        what = "regression, 22 columns" if row["task"] == "regression" else "PCA, 20 columns"
        if "slow" in row:
            lines.append([what, NAMES[row["peer"]], f"> {row['slow']}", "", ""])
            continue
        rate = row["rows"] / row["seconds"] / 1e6
        lines.append(
            [
                what,
                NAMES[row["peer"]],
                f"{row['seconds']:.3f}",
                f"{rate:.2f}",
                f"{row['memory'] / 2**20:.0f}",
            ]
        )
    return _table(["task", "", "seconds", "million rows a second", "MiB"], lines)


def _table(heads: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, rule, *lines])
