"""What a table may look like, from what is public: rows of it, their lengths, their moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._base.text import listed
from privgram.adaptive.rules import ADAPTIVE
from privgram.columns.encoding import ColumnTable
from privgram.columns.variables import Boolean
from privgram.mechanisms import AdaptiveGaussian
from privgram.multivariate.synthetic import synthetic_rows
from privgram.multivariate.variables import root_of
from privgram.noise import EntryLaw, ImageLaw
from privgram.planning.guess import PARTS, Guess, is_guess
from privgram.regression.inference import rows_behind
from privgram.releases.record import ReleaseRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns

#: Rows that are made where there are none.
DESIGN_ROWS = 20_000


#: What a plan can be told of a table: an earlier release, a public table, or a guess.
DesignInput: TypeAlias = ReleaseRecord | ColumnTable | Mapping[Any, Any] | None

#: What a design is that is a release, and one that is neither that nor a table.
EARLIER, GUESSED = "an earlier release", "a guess"


@dataclass(frozen=True, eq=False)
class PlanDesign:
    """A table to plan with."""

    what: str  # in words
    rows: Matrix  # (m, d), stored columns, no longer than the bound
    moment: Matrix  # (d, d), mean of their products, positive semidefinite
    n_rows: float | None  # of the table that it was taken from
    complete: float = 1.0  # the part without missing values, where those are dropped
    # of the lengths of a release's rows in an adaptive round's frame: `shape_of`
    shape: float | None = None


def plan_design_of(design: DesignInput, columns: Columns, bound: float) -> PlanDesign:
    """Read the design that `plan` is given, for rows of L2 norm `bound`."""
    if isinstance(design, ReleaseRecord):
        return _released(design, columns, bound)
    n_rows = None
    if is_guess(design, columns):
        table = columns.encode(Guess.of(design, columns).rows(DESIGN_ROWS))
        what = GUESSED
    elif design is not None and hasattr(design, "__getitem__"):
        if isinstance(design, Mapping) and not set(design) & set(columns.variables):
            raise ValueError(
                "a design that is a mapping is a table with the columns "
                f"{listed(list(columns.variables))} or a guess with {listed(PARTS)}; this one has "
                f"{listed([str(key) for key in design])}"
            )
        table = columns.encode(design)
        n_rows = len(table)
        what = f"a public table of {n_rows:,} rows"
    else:
        raise TypeError(
            "design is a release, a data frame or mapping of public columns, or a mapping of "
            'correlations, such as {("age", "cost"): 0.3}'
        )
    rows = table[~np.isnan(table).any(axis=1)]
    if not len(rows):
        raise ValueError("the design has no row without missing values")
    complete = len(rows) / len(table)
    if columns.missing != "drop":  # and they are not expected
        n_rows, complete = n_rows and len(rows), 1.0
    rows = clipped(rows, bound)
    return PlanDesign(what, rows, _mean_product(rows), n_rows, complete)


def simulated_rows(
    design: DesignInput,
    columns: Columns,
    n: int,
    unit: str | None = None,
    counts: frozenset[str] = frozenset(),
    instrumented: tuple[tuple[str, Sequence[str]], ...] = (),
) -> tuple[str, dict[str, NDArray[Any]], Guess | None]:
    """So many rows of what a plan is given, in own units; `counts` and `instrumented` of `Guess`.

    With what they are like, in words, and the guess that they are drawn by, if it is one. Of a
    public table that has a column of the `unit` too, whole units are drawn, and the column is among
    those of the result.
    """
    rng = np.random.default_rng(0)
    names = list(columns.reads)
    if isinstance(design, ReleaseRecord):
        synthetic = synthetic_rows(design, n, rng)
        values = {name: np.asarray(synthetic[name]) for name in names}
        for name, described in columns.reads.items():
            if isinstance(described, Boolean) and values[name].dtype.kind == "f":
                # Released as numbers within (0, 1): their means and products stay.
                values[name] = rng.random(n) < values[name]
        return EARLIER, values, None
    if is_guess(design, columns):
        guess = Guess.of(design, columns, counts, instrumented)
        return GUESSED, guess.rows(n), guess
    what = plan_design_of(design, columns, columns.bound).what
    assert design is not None  # which is no design
    if unit is not None and unit in design:  # type: ignore[operator]
        names.append(unit)
    values = {name: np.asarray(design[name]) for name in names}
    if columns.missing != "drop":  # and none is expected
        complete = ~np.isnan(columns.encode(design)).any(axis=1)
        values = {name: column[complete] for name, column in values.items()}
    size = len(values[names[0]])
    if unit in values:
        at, values[unit] = _whole_units(values[unit], n, rng)
        return what, {name: x if name == unit else x[at] for name, x in values.items()}, None
    at = np.arange(size) if n == size else rng.choice(size, n, replace=n > size)
    return what, {name: column[at] for name, column in values.items()}, None


def _whole_units(
    ids: NDArray[Any], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of about n rows that are those of whole units, and the units as they were drawn."""
    code, counts = np.unique(ids, return_inverse=True, return_counts=True)[1:]
    start, order = np.cumsum(counts) - counts, np.argsort(code, kind="stable")
    drawn = rng.permutation(len(counts))
    while counts[drawn].sum() < n:
        drawn = np.append(drawn, rng.permutation(len(counts)))
    drawn = drawn[: int(np.searchsorted(np.cumsum(counts[drawn]), n)) + 1]
    at = np.concatenate([order[start[i] : start[i] + counts[i]] for i in drawn.tolist()])
    return at, np.repeat(np.arange(len(drawn)), counts[drawn])


def _released(design: ReleaseRecord, columns: Columns, bound: float) -> PlanDesign:
    """An earlier release, of the same columns or others."""
    rows = columns.encode(synthetic_rows(design, DESIGN_ROWS, 0))
    count = rows_behind(design)
    moment = _mean_product(rows)
    if design.columns == columns and design.names == columns.names and count:
        # Of terms as they were released: made rows keep no products.
        whole = design.matrix - design.noise.shift_matrix(design.n_columns)
        root = root_of(whole / count)
        moment = root @ root.T
    n_rows, complete = design.n_rows or count, 1.0
    if count and n_rows and columns.missing == "drop":
        complete = count / n_rows
    shape = shape_of(design)
    return PlanDesign(EARLIER, clipped(rows, bound), moment, n_rows, complete, shape)


def _mean_product(rows: Matrix) -> Matrix:
    return rows.T @ rows / len(rows)


def clipped(rows: Matrix, bound: float) -> Matrix:
    """Rows clipped to an L2 norm."""
    lengths = np.linalg.norm(rows, axis=1)
    shorter: Matrix = rows * np.minimum(1.0, bound / np.maximum(lengths, 1e-300))[:, None]
    return shorter


# How long rows are in an adaptive round's frame: by one number, the shape, which tells of the
# tails.

#: Shapes that are thought of, from far heavier tails than lognormal rows have to none; and halvings
#: of this interval, on a logarithmic scale.
SHAPES, HALVINGS = (0.2, 5.0), 20


def rows_beyond(shape: float, lengths: Vector, typical: float, rows: float) -> Vector:
    """Rows longer than each of some lengths, whose mean square is `typical`.

    |z|^2 has a Weibull distribution: the shape is 1 for exponential tails, less for longer ones.
    """
    scale = typical / math.gamma(1 + 1 / shape)
    beyond: Vector = rows * np.exp(-((lengths**2 / scale) ** shape))
    return beyond


def shape_of(release: ReleaseRecord) -> float | None:
    """The shape with which a release by adaptive rounds would have chosen the radius that it did.

    None if it is of one round or says too little. The rule that chose is gone through backwards:
    about as many rows were longer as it lets be, at the middle of the bin before the radius.
    """
    law, recorded, rows = release.noise, release.parameters, rows_behind(release)
    ours = isinstance(release.mechanism, AdaptiveGaussian) and release.mechanism.target is None
    if not (ours and isinstance(law, ImageLaw) and isinstance(law.base, EntryLaw)):
        return None  # or factors are apart, and lengths are of numbers alone
    if "clipping_bias" not in recorded or not rows:
        return None
    matrix = np.asarray(np.linalg.inv(law.frame), dtype=np.float64)
    typical = max(float(np.trace(matrix @ release.matrix @ matrix.T)) / rows, 1.0)
    radius = recorded["round_radius"][-1]
    most = ADAPTIVE.beyond * recorded["round_noise_std"][-1] / radius**2
    most = min(max(most, ADAPTIVE.seen * recorded["clipped_rows_std"]), rows / 2)
    middle = np.array([radius * 2 ** (-0.25 / ADAPTIVE.per_octave)])
    low, high = map(math.log, SHAPES)
    for _ in range(HALVINGS):
        shape = math.exp((low + high) / 2)
        if float(rows_beyond(shape, middle, typical, rows)[0]) > most:  # too long a tail
            low = math.log(shape)
        else:
            high = math.log(shape)
    return math.exp((low + high) / 2)
