"""What may leave: a released matrix with its provenance.

Statistics and plots take this record. `Release` adds them to it as methods.
"""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privgram import privacy
from privgram._base.machine import zero_matrix
from privgram._base.saved import ArchiveFormat, JsonObject
from privgram._base.text import facts_html, listed, shown
from privgram.columns import Columns
from privgram.columns.unit import PrivacyUnit
from privgram.noise import NoiseLaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    from privgram._base.numbers import Matrix
    from privgram.columns.variables import Variable
    from privgram.mechanisms import Mechanism
    from privgram.privacy import Adjacency, Profile, ProofStatus

    Blocks: TypeAlias = Sequence[Sequence[int]]
    Places: TypeAlias = NDArray[np.intp]

RELEASE_FORMAT = ArchiveFormat(
    "privgram-release", 2, "a release", key="release", arrays=("matrix", "sketch")
)

#: What a file says of every release, in this order.
HEADER = (
    "names", "mechanism", "parameters", "noise", "epsilon", "delta", "adjacency", "privacy",
    "bound", "n_rows", "columns", "reproducible", "condition",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class ReleaseRecord:
    """A private second-moment matrix and everything public about how it was made.

    Made by `privgram.release`, or read back by `load`.  What is computed from it costs no further
    privacy.

    Attributes
    ----------
    matrix : ndarray of shape (d, d), float64, read-only
        The released matrix, symmetric, in the scale of the accumulated columns
        (with `Columns`: every column mapped to [-1, 1]).
    names : tuple of str
        Column names, `x0`, `x1`, ... where none were given.
    mechanism : Mechanism
        What made it, with its parameters.
    parameters : dict
        The calibrated noise parameters, in the mechanism's own notation.
    noise : NoiseLaw
        The law of the noise in `matrix`, used by inference.
    epsilon, delta : float
        The differential privacy guarantee.
    adjacency : {"replace", "add-remove"}
        Which tables are neighbours.
    privacy : Profile
        The exact profile delta(epsilon) of this release, finite precision left out; see `charged`.
    bound : float
        L2 bound of one row.
    n_rows : int or None
        Rows of the table, where they are public (adjacency "replace"): dropped ones too. None where
        units are protected, of which only the number is public.
    columns : Columns or None
        The public column bounds, by which regressions return to the columns' own units.
    sketch : ndarray of shape (r, d), float64, or None
        The sketch rows themselves, where the mechanism keeps them.
    reproducible : bool
        True if the noise came from a generator the caller seeded: then the
        release is not private against anyone who knows the seed.
    condition : str or None
        A promise about the data on which the guarantee depends and which
        nothing enforces, or None.
    privacy_unit : PrivacyUnit or None
        Whose rows are protected together, within `bound`; None where it is a row that is protected.
    n_units : int or None
        Units of the table, where they are public (adjacency "replace").
    """

    matrix: NDArray[np.float64]
    names: tuple[str, ...]
    mechanism: Mechanism
    parameters: JsonObject
    noise: NoiseLaw
    epsilon: float
    delta: float
    adjacency: Adjacency
    privacy: Profile
    bound: float
    n_rows: int | None = None
    columns: Columns | None = None
    sketch: NDArray[np.float64] | None = None
    reproducible: bool = False
    condition: str | None = field(default=None)
    privacy_unit: PrivacyUnit | None = None
    n_units: int | None = None

    @property
    def method(self) -> str:
        """How it was released: "adaptive rounds", "one round", or the mechanism asked for."""
        return str(self.parameters.get("method", self.mechanism))

    @property
    def reason(self) -> str:
        """Why it was released by this method."""
        return str(self.parameters.get("reason", "as it was asked for"))

    def __post_init__(self) -> None:
        for array in (self.matrix, self.sketch):
            if array is not None:
                array.flags.writeable = False

    def __setstate__(self, state: JsonObject) -> None:
        # Pickled arrays come back writeable.
        self.__dict__.update(state)
        self.__post_init__()

    def __repr__(self) -> str:
        d = len(self.names)
        text = (
            f"<Release of a {d} x {d} second-moment matrix by {self.mechanism}: "
            f"epsilon={self.epsilon:g}, delta={self.delta:g}, {self.adjacency}, {self.proof_status}"
        )
        if self.privacy_unit is not None:
            text += f"; for all rows of one {self.privacy_unit.name!r}"
        if self.condition is not None:
            text += f"; only if {shown(self.condition)}"
        if self.reproducible:
            text += "; REPRODUCIBLE: not private against anyone who knows the seed"
        return text + ">"

    def _repr_html_(self) -> str:
        """What it is of and what it guarantees, as notebooks show it."""
        unit = self.privacy_unit
        facts = {
            "Columns": listed(self.names),
            "Mechanism": str(self.mechanism),
            "Method": f"{self.method}: {self.reason}",
            "Epsilon": f"{self.epsilon:g}",
            "Delta": f"{self.delta:g}",
            "Adjacency": self.adjacency,
            "Protected": "rows" if unit is None else f"all rows of one {unit.name}",
            "Rows": "private" if self.n_rows is None else f"{self.n_rows:,}",
            "Guarantee": self.proof_status,
        }
        if self.condition is not None:
            facts["Only if"] = self.condition
        if self.reproducible:
            facts["Reproducible"] = "not private against anyone who knows the seed"
        return facts_html("Private release", facts)

    @property
    def proof_status(self) -> ProofStatus:
        """How well (epsilon, delta) is founded, under the `condition` if there is one.

        "exact", "upper bound" or "stated", see `privgram.privacy.Profile.proof_status`.
        """
        return self.privacy.proof_status

    @property
    def charged(self) -> Profile:
        """Profile of this release with what finite precision adds: what composes and is exported.

        That part is below 1e-12 of delta, and nothing for additive noise, where it is `privacy`.
        """
        return privacy.profiles.charged(self)

    @property
    def n_columns(self) -> int:
        """Number of columns d."""
        return len(self.names)

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The variables of the table by name; none where no `Columns` describe it."""
        return {} if self.columns is None else self.columns.variables

    @property
    def unbiased(self) -> NDArray[np.float64]:
        """The released matrix less the known shift of its noise, shape (d, d) float64."""
        return self.matrix - self.noise.shift_matrix(self.n_columns)

    @property
    def weighted(self) -> bool:
        """Whether rows were weighted, so that an intercept holds the sum of their weights."""
        return self.columns is not None and self.columns.row_weights is not None

    def marginal(self, names: Sequence[str | int]) -> Self:
        """The sub-matrix of some columns, as a release of its own.

        Parameters
        ----------
        names : sequence of str or int
            Columns to keep, in the order wanted.

        Returns
        -------
        Release
            With this release's guarantee; forgetting columns costs no privacy.
        """
        if isinstance(names, str):
            names = [names]
        index = [self.index(name) for name in names]
        if not index:
            raise ValueError("a marginal needs at least one column")
        if len(set(index)) < len(index):
            raise ValueError("a marginal takes every column once")
        return replace(
            self,
            matrix=self.matrix[np.ix_(index, index)],
            names=tuple(self.names[i] for i in index),
            noise=self.noise.marginal(self.n_columns, index),
            parameters=self.parameters | {"noise_sources": sorted(self.noise_sources)},
            sketch=None if self.sketch is None else self.sketch[:, index],
        )

    @property
    def noise_sources(self) -> frozenset[str]:
        """Of which draws its noise is: two releases with one in common are not independent.

        A stream is one source, and a sum of releases has those of its parts.
        """
        if "noise_sources" in self.parameters:
            return frozenset(self.parameters["noise_sources"])
        if "stream" in self.parameters:
            return frozenset({f"stream {self.parameters['stream']}"})
        stored = np.ascontiguousarray(self._arrays()["matrix"], "<f8").reshape(-1)
        return frozenset({hashlib.sha256(stored.data).hexdigest()[:32]})

    def index(self, name: str | int) -> int:
        """Position of a column given by name or position.

        Raises
        ------
        ValueError
            If there is no such column.
        TypeError
            If it is neither a name nor an integer.
        """
        if isinstance(name, str):
            if name not in self.names:
                raise ValueError(
                    f"no column {name!r}; there are {', '.join(map(shown, self.names))}"
                )
            return self.names.index(name)
        try:
            position = operator.index(name)
        except TypeError:
            raise TypeError(
                f"a column is given by its name or position, not by {type(name).__name__}"
            ) from None
        if not 0 <= position < self.n_columns:
            raise ValueError(f"no column {position}; there are {self.n_columns}")
        return position

    @cached_property
    def _zeros(self) -> tuple[tuple[int, ...], ...]:
        """Blocks of columns between which all entries off the diagonal are zero, and not saved."""
        return tuple(block for block in self.noise.known_zeros if _is_diagonal(self.matrix, block))

    def _arrays(self) -> dict[str, NDArray[np.float64]]:
        kept = {"matrix": packed(self.matrix, self._zeros), "sketch": self.sketch}
        return {name: array for name, array in kept.items() if array is not None}

    def _header(self) -> JsonObject:
        header = {name: _plain(getattr(self, name)) for name in HEADER}
        header |= {"zeros": self._zeros} if self._zeros else {}
        if self.privacy_unit is not None:
            header |= {"privacy_unit": self.privacy_unit.to_dict(), "n_units": self.n_units}
        return header


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else value


#: More columns than a second moment has: a short file may not ask for so large a matrix.
MOST_LOADED = 1 << 15


def packed(matrix: Matrix, zeros: Blocks) -> NDArray[np.float64]:
    """The entries of a matrix by rows, without those off the diagonal within blocks of zeros.

    A matrix without such blocks is left as it is.
    """
    if not zeros:
        return matrix
    parts = list(_stored(len(matrix), zeros))
    stored = np.empty(sum(at.size for at, *_ in parts))
    for at, rows, columns in parts:
        stored[at] = matrix[rows, columns]
    return stored


def unpacked(stored: NDArray[np.float64], d: int, zeros: Blocks) -> Matrix:
    """The matrix (d, d) of what `packed` gave; ValueError if it is not of this shape."""
    if not zeros:
        return stored
    columns = [column for block in zeros for column in block]
    known = all(type(column) is int and 0 <= column < d <= MOST_LOADED for column in columns)
    if not (known and all(zeros)):
        raise ValueError(f"the zeros are not between some of {d} columns")
    n_stored = d * d - sum(len(block) * (len(block) - 1) for block in zeros)
    if len(set(columns)) < len(columns) or stored.shape != (n_stored,):
        raise ValueError("the matrix has not the entries that its zeros leave")
    matrix = zero_matrix(d)
    for at, rows, columns_of in _stored(d, zeros):
        matrix[rows, columns_of] = stored[at]
    return matrix


def _stored(d: int, zeros: Blocks) -> Iterator[tuple[Places, Places, Places]]:
    """For the rows of each block, and all others: places among what is stored, rows, columns."""
    others = np.ones(d, bool)
    widths = np.full(d, d)
    for block in zeros:
        others[list(block)] = False
        widths[list(block)] = d + 1 - len(block)
    starts = np.cumsum(widths) - widths
    for alike in [np.flatnonzero(others), *(np.array(block) for block in zeros)]:
        rows = alike[:, None]
        columns = np.arange(d)[None]
        if len(alike) and not others[alike[0]]:
            shared = np.broadcast_to(np.delete(columns, alike), (len(alike), d - len(alike)))
            columns = np.sort(np.hstack([shared, rows]), axis=1)
        yield starts[rows] + np.arange(columns.shape[1]), rows, columns


def _is_diagonal(matrix: Matrix, block: tuple[int, ...]) -> bool:
    """Whether all entries between columns, off the diagonal, are zero."""
    start, stop = block[0], block[-1] + 1
    adjacent = block == tuple(range(start, stop))
    between = matrix[start:stop, start:stop] if adjacent else matrix[np.ix_(block, block)]
    return bool(np.count_nonzero(between) == np.count_nonzero(between.diagonal()))


def check_independent(releases: Iterable[ReleaseRecord]) -> None:
    """Raise ValueError unless each of several releases has noise, and so rows, of its own."""
    seen: set[str] = set()
    for one in releases:
        if both := seen & one.noise_sources:
            if any(source.startswith("stream ") for source in both):
                raise ValueError(
                    "two of these are releases of one stream, whose noise is in part the same: "
                    "stream.upto() is the sum of its periods, stream.window(k) that of the last "
                    "k, and stream.change(...) compares two windows"
                )
            raise ValueError("one of the releases is given twice: its rows would count twice")
        seen |= one.noise_sources
