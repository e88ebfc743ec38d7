"""The result: two factors with their guarantee, saved and loaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.files import write_atomically
from privgram._base.numbers import check_integer, check_number
from privgram._base.saved import ArchiveFormat
from privgram.privacy import Profile, ProofStatus

if TYPE_CHECKING:
    import os

    from privgram._base.numbers import Matrix


LOW_RANK_FORMAT = ArchiveFormat(
    "privgram-low-rank", 1, "a low-rank approximation", key="contents", arrays=("left", "right")
)

_GUARANTEE = ("epsilon", "delta", "row_change", "reproducible")


@dataclass(frozen=True, eq=False)
class LowRank:
    """A differentially private approximation left @ right, never multiplied out unasked.

    Attributes
    ----------
    left, right : ndarray of shape (m, k) and (k, n), float64
        The two factors.
    shape : tuple of int
        (m, n).
    epsilon, delta : float
    row_change : float
        Neighbours differ in one row by at most this, in L2.
    privacy : ChiGaussianProfile or None
        Profile of the release; None for what is not private, which `epsilon` = inf says too.
    reproducible : bool
        Made with a generator of the caller's: not private against anyone who knows its seed.
    """

    left: Matrix
    right: Matrix
    epsilon: float = math.inf
    delta: float = 0.0
    row_change: float = 1.0
    privacy: Any = None
    reproducible: bool = False

    @property
    def proof_status(self) -> ProofStatus:
        """How well (epsilon, delta) is founded, see `privgram.privacy.Profile.proof_status`.

        "none" for what is not private.
        """
        if math.isinf(self.epsilon):
            return "none"
        return "stated" if self.privacy is None else self.privacy.proof_status

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.left.shape[0], self.right.shape[1]

    def rows(self, i: Any) -> Matrix:
        """Return a row, of shape (n,), or several, of shape (.., n).

        Parameters
        ----------
        i : int, slice or array-like of int
            Which rows.
        """
        part: Matrix = self.left[i] @ self.right
        return part

    def __matmul__(self, x: Any) -> Matrix:
        product: Matrix = self.left @ (self.right @ np.asarray(x))
        return product

    def to_dense(self) -> Matrix:
        """All m x n entries: only for small matrices."""
        return self.left @ self.right

    def svd(self, rank: int | None = None) -> tuple[Matrix, Matrix, Matrix]:
        """Singular value decomposition, thin.

        Parameters
        ----------
        rank : int, optional
            How many of the k singular triples; all by default.

        Returns
        -------
        u : ndarray of shape (m, rank)
        s : ndarray of shape (rank,)
            Falling.
        vt : ndarray of shape (rank, n)
        """
        q1, r1 = np.linalg.qr(self.left)
        q2, r2 = np.linalg.qr(self.right.T)
        u, s, vt = np.linalg.svd(r1 @ r2.T)
        # Of the factors' smaller ranks, should one be wider than long.
        size = len(s) if rank is None else check_integer(rank, "rank", 1, len(s))
        return q1 @ u[:, :size], s[:size], vt[:size] @ q2.T

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the factors and the guarantee to a NumPy `.npz` file, whole or not at all.

        Parameters
        ----------
        path : path-like
            Ends in `.npz`. Read it back by `load_low_rank`.

        Raises
        ------
        ValueError
            For any other suffix.
        OSError
            If it cannot be written.
        """
        path = Path(path)
        if path.suffix != ".npz":
            raise ValueError(f"a low-rank approximation is saved to .npz, not to {path.name!r}")
        header = {name: getattr(self, name) for name in _GUARANTEE} | {
            "privacy": None if self.privacy is None else self.privacy.to_dict()
        }
        arrays = {"left": self.left, "right": self.right}
        write_atomically(path, LOW_RANK_FORMAT.to_npz(header, arrays))

    def __repr__(self) -> str:
        m, n = self.shape
        guarantee = (
            "not private"
            if math.isinf(self.epsilon)
            else f"epsilon={self.epsilon:g}, delta={self.delta:g}, row_change={self.row_change:g}, "
            f"{self.proof_status}"
        )
        if self.reproducible:
            guarantee += ", reproducible: not private against anyone who knows the seed"
        return f"<LowRank: {m} x {n} of rank {self.left.shape[1]}, {guarantee}>"


def load_low_rank(path: str | os.PathLike[str]) -> LowRank:
    """Read what `LowRank.save` wrote.

    Parameters
    ----------
    path : path-like
        A `.npz` file.

    Returns
    -------
    LowRank

    Raises
    ------
    DamagedFile
        A ValueError: if the file is not a low-rank approximation, is of a later version, or
        was truncated or altered.
    OSError
        If it cannot be read.
    """
    header, arrays = LOW_RANK_FORMAT.read(Path(path))
    with LOW_RANK_FORMAT.understood(Path(path)):
        loaded = LowRank(
            arrays["left"],
            arrays["right"],
            privacy=None if header["privacy"] is None else Profile.from_dict(header["privacy"]),
            **{name: header[name] for name in _GUARANTEE},
        )
        _check(loaded)
    return loaded


def _check(low: LowRank) -> None:
    """Raise ValueError unless the factors fit together, as saved ones do."""
    if low.left.ndim != 2 or low.right.ndim != 2 or low.left.shape[1] != low.right.shape[0]:
        raise ValueError("the factors cannot be multiplied")
    if low.left.dtype != np.float64 or low.right.dtype != np.float64:
        raise ValueError("the factors must be float64")
    for name in ("epsilon", "delta", "row_change"):
        if not 0 <= check_number(getattr(low, name), name) <= math.inf:
            raise ValueError(f"{name} must be a number, not negative")
    if low.delta > 1:
        raise ValueError("delta must be in [0, 1]")
    if not isinstance(low.reproducible, bool):
        raise ValueError("reproducible must be true or false")
    repr(low)  # an integer beyond float64, for one
