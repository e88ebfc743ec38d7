"""What may leave: a released matrix with its provenance, and what is made of it.

Nothing here sees a table or a second moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from privgram import mechanisms, privacy
from privgram._base.installed import LazyModule
from privgram._base.saved import JsonObject
from privgram.columns import Columns
from privgram.columns.unit import PrivacyUnit
from privgram.noise import NoiseLaw, added_up
from privgram.releases.checks import check_derived, check_parts, check_stated, derived
from privgram.releases.record import (
    HEADER,
    RELEASE_FORMAT,
    ReleaseRecord,
    check_independent,
    unpacked,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # By modules: a function has the name of its own.
    import privgram.multivariate.statistic as statistics
    import privgram.regression.iv as instruments
    from privgram import multivariate, regression
    from privgram.page import of_release
    from privgram.privacy import Profile
else:
    multivariate = LazyModule("privgram.multivariate")
    regression = LazyModule("privgram.regression")
    of_release = LazyModule("privgram.page.of_release")
    instruments = LazyModule("privgram.regression.iv")
    statistics = LazyModule("privgram.multivariate.statistic")

__all__ = ["Release", "pool"]


@dataclass(frozen=True, eq=False, repr=False)
class Release(ReleaseRecord):  # noqa: D101 - its record's
    __doc__ = ReleaseRecord.__doc__

    regress = regression.regress
    iv = instruments.iv
    penalty_path = regression.penalty_path
    pca = multivariate.pca
    describe = multivariate.describe
    summarize = multivariate.summarize
    correlation = multivariate.correlation
    statistic = statistics.statistic
    synthesize = multivariate.synthesize
    to_html = of_release.to_html

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to `.json` or `.npz`, whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix picks the format: `.json` is for other languages too and says more than once
            what these would have to work out, `.npz` is small.  The file is written beside it
            under another name, flushed to disk and renamed.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        path = Path(path)
        header = self._header()
        if path.suffix == ".json":
            header["derived"] = derived(self)
        RELEASE_FORMAT.save(path, header, self._arrays())


def read_release(path: Path) -> Release:
    """Read a release written by `Release.save`."""
    header, arrays = RELEASE_FORMAT.read(path)
    with RELEASE_FORMAT.understood(path):
        return build(header, arrays)


def build(header: JsonObject, arrays: dict[str, NDArray[np.float64]]) -> Release:
    """Make a release of what its file says, and check that it is sound."""
    columns, unit = header["columns"], header.get("privacy_unit")
    names = tuple(header["names"])
    parts = {
        "names": names,
        "mechanism": mechanisms.from_dict(header["mechanism"]),
        "noise": NoiseLaw.from_dict(header["noise"]),
        "privacy": privacy.Profile.from_dict(header["privacy"]),
        "columns": None if columns is None else Columns.from_dict(columns),
        "privacy_unit": None if unit is None else PrivacyUnit.from_dict(unit),
        "n_units": header.get("n_units"),
    }
    loaded = Release(
        unpacked(arrays["matrix"], len(names), header.get("zeros", ())),
        sketch=arrays.get("sketch"),
        **{name: header[name] for name in HEADER} | parts,
    )
    check_parts(loaded)
    check_stated(loaded)
    check_derived(header.get("derived", {}), loaded)
    return loaded


#: What releases must have in common for their sum to be a release of one kind of rows.
SHARED = ("names", "columns", "bound", "adjacency", "mechanism", "privacy_unit")


def pool(releases: Iterable[Release], *, disjoint: bool = False) -> Release:
    """Add up releases of several tables, such as months: a release of all their rows.

    Parameters
    ----------
    releases : iterable of Release
        At least one; of the same columns, bound, mechanism, neighbours and unit, each with noise
        of its own. Also loaded ones.
    disjoint : bool, default False
        Whether nobody has rows in two of the tables, which is yours to know: nothing checks it,
        and the result says so in `condition`. Its guarantee is then the worst of the releases'.
        Otherwise it is that of all of them together, their profiles composed.

    Returns
    -------
    Release
        With the sum of the matrices and the law of the sum of the noises, for regressions on the
        whole. It costs nothing more: a ledger has its parts.

    Raises
    ------
    ValueError
        If they differ, two share noise, being of one stream or one given twice, or their noise
        does not add up.
    TypeError
        If one is no Release.

    Notes
    -----
    Under "replace" a neighbour has another row, or unit, in one of the tables: who is in which is
    as public as their sizes. Where people have rows in several tables, errors of these rows may go
    together, which standard errors do not count.

    Examples
    --------
    >>> import numpy as np
    >>> import privgram as pg
    >>> columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    >>> tables = np.random.default_rng(0).uniform(0, 1, (2, 10_000, 2))
    >>> parts = [pg.release(one, columns, epsilon=1.0, delta=1e-6) for one in tables]
    >>> pg.pool(parts, disjoint=True).epsilon
    1.0
    >>> pg.pool(parts).epsilon
    2.0
    """
    parts = list(releases)
    for one in parts:
        if not isinstance(one, Release):
            raise TypeError(
                "what is pooled are single releases, not "
                + ("those of groups" if isinstance(one, Mapping) else type(one).__name__)
            )
    if not parts:
        raise ValueError("there is nothing to pool")
    first = parts[0]
    for what in SHARED:
        if any(getattr(one, what) != getattr(first, what) for one in parts):
            raise ValueError(
                f"the releases differ in {what}: release both tables with the same columns, bound, "
                "mechanism, neighbours and unit"
            )
    check_independent(parts)
    total = added(parts, {"pooled": len(parts)})
    conditions = {one.condition for one in parts if one.condition is not None}
    if len(parts) > 1 and disjoint:
        whose = "nobody" if first.privacy_unit is None else f"no {first.privacy_unit.name!r}"
        conditions.add(f"{whose} has rows in two of the {len(parts)} tables that were pooled")
    return replace(
        total,
        epsilon=_total([one.epsilon for one in parts], disjoint),
        delta=min(1.0, _total([one.delta for one in parts], disjoint)),
        privacy=_profile(parts, disjoint),
        n_rows=_sum([one.n_rows for one in parts]),
        n_units=_sum([one.n_units for one in parts]) if disjoint else None,
        reproducible=any(one.reproducible for one in parts),
        condition="; and if ".join(sorted(conditions)) or None,
    )


def added(releases: Sequence[Release], parameters: JsonObject) -> Release:
    """The sum of the matrices with the law of its noise, and all else as in the first.

    ValueError if the mechanism does not add its noise to the second moment.
    """
    sources = sorted(frozenset().union(*(one.noise_sources for one in releases)))
    return replace(
        releases[0],
        matrix=np.sum([one.matrix for one in releases], axis=0),
        noise=added_up([one.noise for one in releases]),
        parameters=parameters | {"noise_sources": sources},
        sketch=None,
    )


def _profile(parts: list[Release], disjoint: bool) -> Profile:
    if not disjoint:
        return privacy.compose(parts)
    profiles = [one.charged for one in parts]
    if all(profile == profiles[0] for profile in profiles):
        return profiles[0]
    gaussian = [profile for profile in profiles if isinstance(profile, privacy.GaussianProfile)]
    if len(gaussian) == len(profiles):
        return max(gaussian, key=lambda profile: profile.sensitivity_ratio)
    # Each part is private at the largest epsilon with the largest delta.
    epsilon, delta = max(one.epsilon for one in parts), max(one.delta for one in parts)
    return privacy.StatedProfile(epsilon, delta, parts[0].adjacency)


def _total(values: list[float], disjoint: bool) -> float:
    return max(values) if disjoint else sum(values)


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
