"""What a reader of a regression is warned of: designs, clipping, dependent columns."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from privgram._base.text import listed, shown
from privgram.columns.terms import INTERCEPT
from privgram.regression.design import Design, intercept_of
from privgram.regression.inference import rows_behind

if TYPE_CHECKING:
    from privgram._base.numbers import Matrix
    from privgram.releases.record import ReleaseRecord

#: Columns are said to depend on each other where a direction of the features is within so many
#: standard deviations of nothing though all others exceed so many.
NOTHING, CLEAR_EFFECT = 2.0, 10.0


def differences(design: Design, ends: Matrix | None = None) -> list[str]:
    """Notes on what effects of levels are, where levels were left out.

    `ends` are of the intervals: where all effects of a factor are open the reference may be rare.
    """
    notes = []
    for terms, levels in design.left_out_levels:
        of = f"in {', '.join(terms)}" if terms else "of levels"
        notes.append(f"Effects {of} are differences from: {', '.join(levels)}.")
    for label, factors in design.compared.items():
        single = len(factors) == 1 and ends is not None
        if single and not np.isfinite(np.asarray(ends)[design.terms[label]]).any():
            notes.append(
                f"All effects of {shown(factors[0])} are open. Where the level that they differ "
                f"from has few rows, name one of many, reference={{{factors[0]!r}: ...}}."
            )
    if design.hidden:
        where = f": the intercept is {design.constant_at}" if design.intercept else ""
        notes.append(f"Effects of {listed(list(design.hidden))} are taken along, not shown{where}.")
    return notes


def caveats(release: ReleaseRecord, n_rows: float | None, design: Design) -> list[str]:
    """What holds with and without inference on a release."""
    notes = []
    unit = release.privacy_unit
    if unit is not None:
        notes.append(
            f"All rows of one {shown(unit.name)} are protected together. Those of one that has "
            "many, or rows far out, are scaled down, by one factor for all of them."
        )
        if unit.fixed_effects:
            notes.append(
                f"Means by {shown(unit.name)} are taken off: slopes are those with an effect for "
                "each, and the intercept says nothing."
                + " Their number is private and takes no degrees of freedom."
                * (release.n_units is None)
            )
    notes += differences(design)
    if n_rows is not None and n_rows != release.n_rows:
        notes.append("The number of observations is read, with noise, off the intercept.")
    if release.parameters.get("clipping_bias"):
        recorded = release.parameters
        notes.append(
            f"The last round clipped about {recorded['clipped_rows']:.0f} rows (std err "
            f"{recorded['clipped_rows_std']:.0f}). Standard errors allow for the bias by a "
            f"multiple of the noise: {recorded['clipping_bias']:.2f} sampling errors."
        )
    if release.condition is not None:
        notes.append(f"The privacy guarantee holds only if {release.condition}.")
    if release.reproducible:
        notes.append("Reproducible: the release is not private against who knows its seed.")
    return notes


#: More columns than this are not named in an error.
MOST_NAMED = 8


def dependent(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if some directions of the features hold only noise and all others far more."""
    law, rows, moment = release.noise, design.images[:-1], design.moment(release)[:-1, :-1]
    unit = release.privacy_unit
    within = "its bounds"
    if unit is not None and unit.fixed_effects:  # which leave nothing of a constant
        within = f"rows of one {shown(unit.name)}, whose means are taken off"
        if design.intercept:
            rows, moment = rows[:-1], moment[:-1, :-1]
    values, vectors = np.linalg.eigh(moment)
    # Of the whole release: noise on the inverse has no law of some columns.
    directions = vectors.T @ rows
    noise = np.sqrt(law.entry_variance(release.matrix, directions).diagonal())
    # What the mechanism put on the diagonal is no signal; where it is far more than noise, it
    # makes these coefficients small instead of wild.
    signal = values - ((directions @ law.shift_matrix(release.n_columns)) * directions).sum(axis=1)
    nothing = (signal < NOTHING * noise) & (values < CLEAR_EFFECT * noise)
    nothing &= signal > -CLEAR_EFFECT * noise
    if not nothing.any() or nothing.all() or (values < CLEAR_EFFECT * noise)[~nothing].any():
        return None
    # The noise turns these directions by less than a tenth.
    part = np.linalg.norm(vectors[:, nothing], axis=1)
    named = (*design.names, *chain(*design.hidden.values()), INTERCEPT)[: len(part)]
    names = [repr(name) for name, share in zip(named, part, strict=True) if share > 0.1]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    cells = [cell for (_, cell), share in zip(design.functions, part, strict=False) if share > 0.1]
    if len(cells) == len(names) and all(cells):  # references are left out: only counts are small
        return (
            f"the levels {', '.join(names[:MOST_NAMED])}{more} seem to have so few rows that the "
            "noise hides them, and that can leave other coefficients open too. Describe fewer "
            "levels, with other=True for the rest, or use ridge='auto' for predictions"
        )
    if len(names) == 1:
        return (
            f"the column {names[0]} seems to vary too little within {within}: beside the noise "
            "nothing is seen of it. Leave it out, release it within narrower public bounds, or use "
            "ridge='auto' for predictions"
        )
    return (
        f"the columns {', '.join(names[:MOST_NAMED])}{more} seem to depend on each other, as the "
        "indicators of all levels do beside an intercept, and a column that varies little within "
        "its bounds: some combination of them holds nothing but noise, and if they depend exactly, "
        "no epsilon tells their coefficients apart. Leave one of them out, or use ridge='auto' for "
        "predictions"
    )


def pinned(release: ReleaseRecord, design: Design) -> str | None:
    """Say so if the target's mean is at one of its bounds, as far as the noise can tell."""
    columns, ones, goal = release.columns, intercept_of(release), design.images[-1]
    if columns is None or ones is None:
        return None
    count, total = float(ones @ release.unbiased @ ones), float(goal @ release.matrix @ ones)
    # The distance from the bound is a short column, and may have far less noise than the mean.
    rows = np.array([ones, ones - math.copysign(1.0, total) * goal])
    noise, short = np.sqrt(release.noise.entry_variance(release.matrix, rows)[0])
    if count - abs(total) > 3 * short or count < 20 * noise:
        return None
    end = "upper" if total > 0 else "lower"
    value = design.ends[total > 0]
    return (
        f"all values of {design.target!r} seem to lie at its {end} bound, {value:g}, where "
        "values beyond are clamped: so they say nothing of the features. State bounds in the "
        "unit of the values, not far wider than they are, and release again, "
        "which costs a budget of its own"
    )


#: With more of the rows clipped, adaptive rounds can take more off variances than their errors say.
MOST_CLIPPED = 0.03


def clips(release: ReleaseRecord) -> bool:
    """Whether the public bounds of the columns leave room for rows longer than the bound."""
    if release.privacy_unit is not None:  # whole units are, and nobody knows how many
        return False
    return release.columns is None or release.bound < release.columns.bound


def clipped_share(release: ReleaseRecord) -> float:
    """Share of the rows that the last of adaptive rounds may have clipped; 0 for one round.

    Clipping hardly moves coefficients, but variances become smaller.
    """
    recorded = release.parameters
    if "clipping_bias" not in recorded:
        return 0.0
    rows = rows_behind(release)
    clipped = float(recorded["clipped_rows"] + 2 * recorded["clipped_rows_std"])
    return math.inf if rows is None else clipped / max(rows, 1.0)
