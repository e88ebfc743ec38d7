"""What a release shows of columns that cannot be told apart, or of a target out of its bounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privgram.regression.design import intercept_of
from privgram.regression.inference import INTERCEPT, rows_behind, why_unknown

if TYPE_CHECKING:
    from privgram._release.record import ReleaseRecord
    from privgram.regression.design import Design


#: Columns are said to depend on each other where a direction of the features is within so many
#: standard deviations of nothing though all others exceed so many.
NOTHING, RESOLVED = 2.0, 10.0

#: More columns than this are not named in an error.
MOST_NAMED = 8


def dependent(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if some directions of the features hold only noise and all others far more."""
    law, rows = release.noise, design.frame[:-1]
    values, vectors = np.linalg.eigh(design.moment(release)[:-1, :-1])
    # Of the whole release: noise on the inverse has no law of some columns.
    frame = vectors.T @ rows
    noise = np.sqrt(law.entry_variance(release.matrix, frame).diagonal())
    # What the mechanism put on the diagonal is no signal; where it is far more than noise, it
    # makes these coefficients small instead of wild.
    signal = values - ((frame @ law.shift_matrix(release.n_columns)) * frame).sum(axis=1)
    nothing = (signal < NOTHING * noise) & (values < RESOLVED * noise)
    nothing &= signal > -RESOLVED * noise
    if not nothing.any() or nothing.all() or (values < RESOLVED * noise)[~nothing].any():
        return None
    # The noise turns these directions by less than a tenth.
    part = np.linalg.norm(vectors[:, nothing], axis=1)
    named = (*design.names, INTERCEPT)[: len(part)]
    names = [repr(name) for name, share in zip(named, part, strict=True) if share > 0.1]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    cells = [cell for (_, cell), share in zip(design.functions, part, strict=False) if share > 0.1]
    if len(cells) == len(names) and all(cells):  # references are left out: only counts are small
        return (
            f"the levels {', '.join(names[:MOST_NAMED])}{more} seem to have so few rows that the "
            "noise hides them, and that can leave other coefficients open too. Describe fewer "
            "levels, with other=True for the rest, or use ridge='auto' for predictions"
        )
    return (
        f"the columns {', '.join(names[:MOST_NAMED])}{more} seem to depend on each other, as the "
        "indicators of all levels do beside an intercept: some combination of them holds nothing "
        "but noise, and if they depend exactly, no epsilon tells their coefficients apart. Leave "
        "one of them out, or use ridge='auto' for predictions"
    )


def pinned(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if the target's mean is at one of its bounds, as far as the noise can tell."""
    columns, ones, goal = release.columns, intercept_of(release), design.frame[-1]
    if columns is None or ones is None:
        return None
    frame = np.array([ones, goal])
    moment = release.matrix - release.noise.shift_matrix(release.n_columns)
    count, total = float(ones @ moment @ ones), float(goal @ release.matrix @ ones)
    noise = math.sqrt(release.noise.entry_variance(release.matrix, frame)[0].sum())
    if count - abs(total) > 3 * noise or count < 20 * noise:
        return None
    end = "upper" if total > 0 else "lower"
    value = design.ends[total > 0]
    return (
        f"all values of {design.target!r} seem to lie at its {end} bound, {value:g}, where "
        "values beyond are clamped: so they say nothing of the features. State bounds in the "
        "unit of the values, not far wider than they are, and release again, "
        "which costs a budget of its own"
    )


def uncounted(release: ReleaseRecord) -> str:
    """Why the number of rows is unknown, or less than one, and what to do."""
    if rows_behind(release) is not None:
        return "the privacy noise leaves no rows: use more rows or a larger epsilon"
    if intercept_of(release) is not None:  # of weighted rows, which it does not count
        return why_unknown(release)
    return f"{why_unknown(release)}: use a release with an intercept column, which counts them"
