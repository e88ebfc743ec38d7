"""What may leave of the groups of a table: a release for each, and one guarantee for all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.installed import LazyModule, extra
from privgram._base.numbers import check_integer
from privgram._base.saved import ArchiveFormat
from privgram._base.text import as_frame
from privgram.columns.groups import Groups
from privgram.releases.record import packed
from privgram.releases.release import Release, added, build

if TYPE_CHECKING:
    import privgram.regression.groups as group_fits  # by its module, as in `release`
    from privgram.columns.variables import Level
    from privgram.privacy import ProofStatus
else:
    group_fits = LazyModule("privgram.regression.groups")

RELEASES_FORMAT = ArchiveFormat(
    "privgram-releases", 2, "releases of groups", key="releases", arrays=("matrix", "sketch")
)

#: What differs between the releases of groups besides the matrices.
DIFFERING = ("noise", "parameters")


class Releases(Mapping[Any, Release]):
    """Private second-moment matrices of the groups of a table: a mapping of group to `Release`.

    `privgram.release` makes it, given ``by``, or `load`. The guarantee is of all releases
    together.

    Parameters
    ----------
    groups : Groups
        The column that says the group, its public values, and what became of other rows.
    releases : sequence of Release
        In the order of the groups; of one mechanism and one guarantee.
    n_rows : int or None
        Rows of the table, where they are public (adjacency "replace"), dropped ones too. Those of a
        group never are.

    Attributes
    ----------
    names : tuple of str
        Columns of every release.
    mechanism : Mechanism
        What made them, with its parameters.
    epsilon, delta, adjacency, privacy
        The guarantee of all releases together, and its profile.
    reproducible : bool
        True if the noise came from a generator the caller seeded.

    Raises
    ------
    ValueError
        If there is not one release for each group, or they do not belong together.
    """

    def __init__(self, groups: Groups, releases: Sequence[Release], n_rows: int | None) -> None:
        labels = groups.labels
        if len(releases) != len(labels):
            raise ValueError(f"there are {len(releases)} releases for {len(labels)} groups")
        first = releases[0]
        for what in ("names", "mechanism", "epsilon", "delta", "adjacency", "bound", "columns"):
            if any(getattr(one, what) != getattr(first, what) for one in releases):
                raise ValueError(f"the releases differ in {what}: they were not made together")
        self.groups = groups
        self.n_rows = n_rows
        self.names = first.names
        self.mechanism = first.mechanism
        self.epsilon, self.delta = first.epsilon, first.delta
        self.adjacency = first.adjacency
        self.privacy = first.privacy
        self.reproducible = first.reproducible
        self._releases = dict(zip(labels, releases, strict=True))
        self._first = first

    @property
    def shared(self) -> Release:
        """What all releases have in common, with the rows of the table: the first of them."""
        return replace(self._first, n_rows=self.n_rows)

    @property
    def by(self) -> str:
        """The column that says the group."""
        return self.groups.by

    @property
    def proof_status(self) -> ProofStatus:
        """How well it is founded; see `Release.proof_status`."""
        return self.privacy.proof_status

    def __len__(self) -> int:
        return len(self._releases)

    def __iter__(self) -> Iterator[Level]:
        return iter(self._releases)

    def __getitem__(self, group: Level) -> Release:
        return self._releases[group]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        d = len(self.names)
        return (
            f"<Releases of {len(self)} groups by {self.by!r}, {d} x {d} each, by {self.mechanism}: "
            f"epsilon={self.epsilon:g}, delta={self.delta:g} for all together, {self.adjacency}, "
            f"{self.proof_status}>"
        )

    regress = group_fits.regress_groups

    def frame(self) -> Any:
        """The matrices of all groups below one another, as a pandas DataFrame (extra `pandas`).

        Returns
        -------
        pandas.DataFrame
            A row for each group and column, a column for each column.
        """
        with extra("pandas", "a table of groups as a data frame needs"):
            import pandas as pd
        names = self.names
        frames = {group: as_frame(one.matrix, names, names) for group, one in self.items()}
        return pd.concat(frames, names=[self.by])

    def total(self) -> Release:
        """The sum of the matrices: a release of the table as a whole, with the noise of all.

        Returns
        -------
        Release
            Of the guarantee of all together. Its noise is that of one group times the square root
            of their number: a release of the whole table has as much less.

        Raises
        ------
        ValueError
            If the mechanism does not add its noise to the second moment.
        """
        chosen = {k: v for k, v in self._first.parameters.items() if k.startswith("bound_")}
        total = added(list(self.values()), chosen | {"groups": len(self)})
        return replace(total, n_rows=self.n_rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all releases to one `.json` or `.npz` file, whole or not at all.

        Parameters
        ----------
        path : path-like
            Its suffix picks the format.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        headers = [one._header() for one in self.values()]
        differing = {*DIFFERING, "zeros"}
        shared = {name: value for name, value in headers[0].items() if name not in differing}
        others = [one._zeros for one in self.values()]
        zeros = tuple(block for block in self._first._zeros if all(block in of for of in others))
        shared |= {"zeros": zeros} if zeros else {}
        header = {
            "groups": self.groups.to_dict(),
            "n_rows": self.n_rows,
            "release": shared,
            "own": [{name: each[name] for name in DIFFERING} for each in headers],
        }
        arrays = {"matrix": np.array([packed(one.matrix, zeros) for one in self.values()])}
        if self._first.sketch is not None:
            arrays["sketch"] = np.array([one.sketch for one in self.values()])
        RELEASES_FORMAT.save(Path(path), header, arrays)


def read_releases(path: Path) -> Releases:
    """Read releases of groups written by `Releases.save`."""
    header, arrays = RELEASES_FORMAT.read(path)
    with RELEASES_FORMAT.understood(path):
        groups = Groups.from_dict(header["groups"])
        parts = [
            {name: array[i].copy() for name, array in arrays.items()}
            for i in range(len(header["own"]))
        ]
        if any(len(array) != len(parts) for array in arrays.values()):
            raise ValueError("the numbers of groups differ")
        releases = [
            build(header["release"] | differing, part)
            for differing, part in zip(header["own"], parts, strict=True)
        ]
        n_rows = header["n_rows"]
        if n_rows is not None:
            n_rows = check_integer(n_rows, "n_rows", 0, 2**63 - 1)
        return Releases(groups, releases, n_rows)
