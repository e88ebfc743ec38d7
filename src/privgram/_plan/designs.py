"""What a table may look like, from what is public: rows of it, their lengths, their moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.text import listed
from privgram._release.record import ReleaseRecord
from privgram.columns.variables import Boolean, Factor, Numeric
from privgram.mechanisms import Refined
from privgram.mechanisms.refined import BEYOND, PER_OCTAVE, SEEN
from privgram.multivariate.synthetic import as_told, levels_as_told, rows_of
from privgram.multivariate.variables import root_of
from privgram.noise import EntryLaw, ImageLaw
from privgram.regression.inference import rows_behind

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix, Vector
    from privgram.columns import Columns

#: Rows that are made where there are none.
ROWS = 20_000

#: Standard deviation of a number of which nothing is said, as a part of its range.
SPREAD = 1 / 6

#: What a design is that is a release.
EARLIER = "an earlier release"

PARTS = ("correlation", "mean", "std")


@dataclass(frozen=True, eq=False)
class Design:
    """A table to plan with."""

    what: str  # in words
    rows: Matrix  # (m, d), stored columns, no longer than the bound
    moment: Matrix  # (d, d), mean of their products, positive semidefinite
    n_rows: float | None  # of the table that it was taken from
    complete: float = 1.0  # the part without missing values, where those are dropped
    # of the lengths of a release's rows in a second look's frame: `shape_of`
    shape: float | None = None


def design_of(design: Any, columns: Columns, bound: float) -> Design:
    """Read the design that `plan` is given, for rows of L2 norm `bound`."""
    if isinstance(design, ReleaseRecord):
        return _released(design, columns, bound)
    n_rows = None
    if _is_guess(design, columns):
        table = columns.encode(_guessed(design, columns))
        what = "guessed correlations"
    elif hasattr(design, "__getitem__"):
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
    return Design(what, rows, _mean_product(rows), n_rows, complete)


def made_of(design: Any, columns: Columns, n: int) -> tuple[str, dict[str, Any]]:
    """Rows as a plan is given them, in own units: what they are, in words, and their columns."""
    rng = np.random.default_rng(0)
    names = list(columns.reads)
    if isinstance(design, ReleaseRecord):
        made = rows_of(design, n, rng)
        return EARLIER, {name: np.asarray(made[name]) for name in names}
    what = design_of(design, columns, columns.bound).what
    table = _guessed(design, columns) if _is_guess(design, columns) else design
    found = {name: np.asarray(table[name]) for name in names}
    if columns.missing != "drop":  # and none is expected
        complete = ~np.isnan(columns.encode(table)).any(axis=1)
        found = {name: column[complete] for name, column in found.items()}
    size = len(found[names[0]])
    at = np.arange(size) if n == size else rng.choice(size, n, replace=n > size)
    return what, {name: column[at] for name, column in found.items()}


def _released(design: ReleaseRecord, columns: Columns, bound: float) -> Design:
    """An earlier release, of the same columns or others."""
    rows = columns.encode(rows_of(design, ROWS, 0))
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
    return Design(EARLIER, clipped(rows, bound), moment, n_rows, complete, shape)


def _mean_product(rows: Matrix) -> Matrix:
    return rows.T @ rows / len(rows)


def clipped(rows: Matrix, bound: float) -> Matrix:
    """Rows shortened to an L2 norm."""
    lengths = np.linalg.norm(rows, axis=1)
    found: Matrix = rows * np.minimum(1.0, bound / np.maximum(lengths, 1e-300))[:, None]
    return found


def _is_guess(design: Any, columns: Columns) -> bool:
    if not isinstance(design, Mapping):
        return False
    pairs = all(isinstance(key, tuple) for key in design)
    return pairs or (set(design) <= set(PARTS) and not set(design) & set(columns.variables))


def _guessed(design: Mapping[Any, Any], columns: Columns) -> dict[str, Any]:
    """Rows of guessed correlations, in own units: numbers normal between bounds, levels alike."""
    parts = design if set(design) <= set(PARTS) else {"correlation": design}
    numbers = {
        name: given for name, given in columns.variables.items() if isinstance(given, Numeric)
    }
    label = {given.label(name): name for name, given in numbers.items()}
    place = {name: i for i, name in enumerate(numbers)}

    def at(name: Any) -> int:
        found = label.get(name, name)
        if found not in place:
            raise ValueError(f"design: {name!r} is not a number of these columns")
        return place[found]

    correlation = np.eye(len(numbers))
    for pair, value in parts.get("correlation", {}).items():
        i, j = map(at, pair)
        correlation[i, j] = correlation[j, i] = value
    if not np.linalg.eigvalsh(correlation).min(initial=1.0) > -1e-9:
        raise ValueError("design: no table has these correlations; they contradict each other")
    rng = np.random.default_rng(0)
    normal = rng.standard_normal((ROWS, len(numbers))) @ root_of(correlation).T
    mean = np.array([given.center for given in numbers.values()])
    std = np.array([2 * SPREAD * given.half_width for given in numbers.values()])
    for part, into in (("mean", mean), ("std", std)):
        for name, value in parts.get(part, {}).items():
            into[at(name)] = value
    made: dict[str, Any] = {}
    for name, given in columns.variables.items():
        if isinstance(given, Factor):
            made[name] = levels_as_told(given, rng.integers(0, len(given), ROWS))
            continue
        own = mean[place[name]] + std[place[name]] * normal[:, place[name]]
        if isinstance(given, Boolean):
            made[name] = normal[:, place[name]] > 0
        else:
            made[name] = as_told(given, own)
    return made


def draw_more(drawn: Sequence[Vector], tried: int, least: int, known: float) -> bool:
    """Whether to draw more fits of made rows, to know the median of their standard errors.

    Of those that were tried, `drawn` were not refused. At least `least` are tried, and more until
    the median is known within the part `known` of itself; none where half of them are refused.
    """
    if tried < least or 2 * len(drawn) <= tried:
        return tried < least
    low, median, high = np.quantile(drawn, [0.25, 0.5, 0.75], axis=0)
    # Of normal numbers the median's standard error is 0.93 of this over the root of their number.
    return bool(((high - low) > known / 0.93 * math.sqrt(len(drawn)) * median).any())


# How long rows are in a second look's frame: by one number, the shape, which tells of the tails.

#: Shapes that are thought of, from far heavier tails than lognormal rows have to none; and halvings
#: of this interval, on a logarithmic scale.
SHAPES, HALVINGS = (0.2, 5.0), 20


def rows_beyond(shape: float, lengths: Vector, typical: float, rows: float) -> Vector:
    """Rows longer than each of some lengths, whose mean square is `typical`.

    |z|^2 has a Weibull distribution: the shape is 1 for exponential tails, less for longer ones.
    """
    scale = typical / math.gamma(1 + 1 / shape)
    found: Vector = rows * np.exp(-((lengths**2 / scale) ** shape))
    return found


def shape_of(release: ReleaseRecord) -> float | None:
    """The shape with which a release by second looks would have chosen the radius that it did.

    None if it is of one look or says too little. The rule that chose is gone through backwards:
    about as many rows were longer as it lets be, at the middle of the bin before the radius.
    """
    law, recorded, rows = release.noise, release.parameters, rows_behind(release)
    ours = isinstance(release.mechanism, Refined) and release.mechanism.target is None
    if not (ours and isinstance(law, ImageLaw) and isinstance(law.base, EntryLaw)):
        return None  # or factors are apart, and lengths are of numbers alone
    if "clipping_bias" not in recorded or not rows:
        return None
    matrix = np.asarray(np.linalg.inv(law.frame), dtype=np.float64)
    typical = max(float(np.trace(matrix @ release.matrix @ matrix.T)) / rows, 1.0)
    radius = recorded["look_radius"][-1]
    most = BEYOND * recorded["look_noise_std"][-1] / radius**2
    most = min(max(most, SEEN * recorded["clipped_rows_std"]), rows / 2)
    middle = np.array([radius * 2 ** (-0.25 / PER_OCTAVE)])
    low, high = map(math.log, SHAPES)
    for _ in range(HALVINGS):
        shape = math.exp((low + high) / 2)
        if float(rows_beyond(shape, middle, typical, rows)[0]) > most:  # too long a tail
            low = math.log(shape)
        else:
            high = math.log(shape)
    return math.exp((low + high) / 2)
