"""A second look for robust standard errors: the second moment of residuals times features.

What is looked at follows from a release alone (`privgram.regression.robust`); this is where the
table is read again. Secret side: of what is read only the noisy sum leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._core.rows import Accumulator
from privgram._release.record import ReleaseRecord
from privgram.columns.unit import Unit, name_of
from privgram.drawing.release import release_moment
from privgram.drawing.unit_scores import UnitScores
from privgram.engines import check_here
from privgram.engines.request import Pass
from privgram.engines.threads import accumulate, accumulate_units
from privgram.ledger import check_ledger
from privgram.mechanisms import AnalyzeGauss
from privgram.moment import SecondMoment
from privgram.moment.mapped import Mapped
from privgram.moment.units import accumulator_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privgram._release import Release
    from privgram.ledger import Ledger
    from privgram.regression.robust import Look

    Matrix = NDArray[np.float64]

__all__ = ["Scores", "look_again"]


class Scores:
    """Feed an accumulator e x for every row (x, e, ...), with e clipped.

    An image depends on its row alone: each of its entries is one product.

    Parameters
    ----------
    clip : float
        Of e.
    inner : Accumulator
        Of rows of q columns, as many as x has.
    """

    def __init__(self, clip: float, inner: Accumulator) -> None:
        self.inner = inner
        self._clip = clip

    def update(self, block: Matrix, drop: bool = False) -> int:
        """Accumulate the rows of a block; see `privgram._core.rows.Accumulator.update`."""
        q = self.inner.n_columns
        error = np.clip(block[:, q], -self._clip, self._clip)
        return self.inner.update(block[:, :q] * error[:, None], drop)

    def merge(self, other: Scores) -> None:
        """Add the rows of another."""
        self.inner.merge(other.inner)


def look_again(
    release: ReleaseRecord,
    look: Look,
    source: Any,
    epsilon: float,
    delta: float,
    rng: np.random.Generator | None = None,
    *,
    ledger: Ledger | None = None,
    threads: int | None = None,
) -> Release:
    """Release the second moment of clipped residuals times features.

    Parameters
    ----------
    release : Release
        Of the table, whose columns, bound and neighbours are taken.
    look : Look
    source, epsilon, delta, rng, ledger, threads
        As in `privgram.release`. Where units are protected, the source has a column of their name.

    Returns
    -------
    Release
        Of q columns, with `clip` and `clips` of the look among its parameters.
    """
    check_here(source, "robust standard errors read")
    check_ledger(ledger)
    q = len(look.frame) - 1
    mechanism = AnalyzeGauss()
    noise = mechanism.calibrate(
        q, look.radius, epsilon, delta, release.adjacency, n_rows=release.n_rows
    )
    if ledger is not None:  # before the pass
        ledger.check(
            epsilon,
            delta,
            adjacency=release.adjacency,
            privacy=noise.privacy,
            unit=name_of(release.privacy_unit),
        )
    columns: Any = release.columns
    names = release.names if columns is None else columns.names
    held = source if isinstance(source, Mapping) else getattr(source, "columns", ())
    held = getattr(source, "column_names", held)  # of Arrow
    # A table may have names that look like those of one without.
    named = all(name in held for name in names)
    if columns is None and (named or names != tuple(f"x{i}" for i in range(len(names)))):
        columns = names
    # Columns that the release has forgotten lengthen its rows, so all are read.
    frame = np.zeros((len(names), len(names)))
    frame[: q + 1, [names.index(name) for name in release.names]] = look.frame

    def check_width(n_columns: int) -> None:
        if n_columns != len(names):
            raise ValueError(
                f"the table has {n_columns} columns and the release is of {len(names)}: pass the "
                "table that was released"
            )

    def of_rows(n_columns: int) -> Mapped:
        check_width(n_columns)
        return Mapped(frame, release.bound, Scores(look.clip, Accumulator(q, look.radius)))

    protected = release.privacy_unit
    asked = Pass(source, columns, threads=threads)
    if protected is None:
        total = accumulate(asked, of_rows)[0].inner.inner
    else:
        if isinstance(source, np.ndarray) and source.dtype.names is None:
            raise ValueError(
                f"the release is private for units by {protected.name!r}, which an array without "
                "names does not tell: pass a table with that column. Nothing was spent"
            )
        # Only of that name: another unit may have more rows together.
        whose = Unit(
            protected.name,
            bound=release.bound,
            clip=protected.clip,
            within=protected.within,
            missing=protected.missing,
        )
        row_bound = protected.row_bound
        assert row_bound is not None

        def of_units(n_columns: int) -> UnitScores:
            check_width(n_columns)
            units = accumulator_of(whose, n_columns, release.bound, row_bound, release.columns)
            return UnitScores(frame, look.clip, Accumulator(q, look.radius), units)

        total = accumulate_units(replace(asked, unit=whose), of_units)[0].inner
    moment = SecondMoment.from_accumulator(total, None, None, None, protected)
    found = moment.n_rows + moment.n_dropped
    if (release.n_rows if protected is None else release.n_units) not in (None, found):  # public
        raise ValueError(
            f"the table has another number of {'rows' if protected is None else 'units'} than the "
            "one that was released; nothing was spent. Pass the same table, or release this one "
            "anew"
        )
    made = release_moment(
        mechanism,
        moment,
        epsilon,
        delta,
        release.adjacency,
        rng=rng,
        ledger=ledger,
        purpose=", for robust standard errors",
    )
    return replace(made, parameters=made.parameters | {"clip": look.clip, "clips": look.clips})


ReleaseRecord._look_again = staticmethod(look_again)
