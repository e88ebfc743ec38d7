"""What several test modules share."""

import itertools
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privgram import privacy
from privgram.mechanisms import AnalyzeGauss
from privgram.noise import GaussianLaw
from privgram.papers import sheffet
from privgram.releases.release import Release


def make_release(matrix, names, law=None, n_rows=None, columns=None, bound=1.0):
    """A release as a mechanism would make it, of a matrix of our choice."""
    return Release(
        matrix=np.array(matrix, dtype=float),
        names=tuple(names),
        mechanism=AnalyzeGauss(),
        parameters={},
        noise=law or GaussianLaw(1e-9, 1e-9),
        epsilon=1.0,
        delta=1e-6,
        adjacency="replace",
        privacy=privacy.StatedProfile(1.0, 1e-6, "replace"),  # of noise of any size
        bound=bound,
        n_rows=n_rows,
        columns=columns,
    )


def by(calibration, mechanism, **options):
    """A mechanism by its exact profile, or with "published" by the constants of its paper."""
    if calibration == "exact":
        return mechanism
    return sheffet.published(mechanism, **options)


def said(error):
    """What a program prints of an exception, and what a logging tool finds behind it."""
    texts = traceback.format_exception(error)
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def slopes(fit, values=None):
    """Numbers of a fit's features, without the constant: `params` by default."""
    return np.asarray(fit.params if values is None else values)[: len(fit.design.names)]


def _strided(x: NDArray[Any]) -> NDArray[Any]:
    wide = np.full((2 * x.shape[0], 3 * x.shape[1]), 7, x.dtype)
    wide[::2, ::3] = x
    return wide[::2, ::3]


def _gap_rows(x: NDArray[Any]) -> NDArray[Any]:
    wide = np.full((x.shape[0], x.shape[1] + 3), 7, x.dtype)
    wide[:, 1:-2] = x
    return wide[:, 1:-2]


def _gap_columns(x: NDArray[Any]) -> NDArray[Any]:
    wide = np.full((x.shape[0] + 5, x.shape[1]), 7, x.dtype, order="F")
    wide[2:-3] = x
    return wide[2:-3]


def _read_only(x: NDArray[Any]) -> NDArray[Any]:
    y = x.copy()
    y.flags.writeable = False
    return y


def _misaligned(x: NDArray[Any]) -> NDArray[Any]:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    y = raw.view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


# Each returns an equal array with another memory layout.
LAYOUTS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": _strided,
    "reversed rows": lambda x: x[::-1].copy()[::-1],
    "reversed columns": lambda x: x[:, ::-1].copy()[:, ::-1],
    "reversed Fortran": lambda x: np.asfortranarray(x[::-1, ::-1])[::-1, ::-1],
    "gap between rows": _gap_rows,
    "gap between columns": _gap_columns,
    "read-only": _read_only,
    "misaligned": _misaligned,
}


def all_pairs(*factors: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Rows, few of them, in which any two values of two factors meet."""
    table = [list(factor) for factor in factors]
    every = list(itertools.product(*(range(len(factor)) for factor in table)))
    of = {row: set(itertools.combinations(enumerate(row), 2)) for row in every}
    missing, rows = set().union(*of.values()), []
    while missing:
        rows.append(max(every, key=lambda row: len(of[row] & missing)))
        missing -= of[rows[-1]]
    return [tuple(factor[i] for factor, i in zip(table, row, strict=True)) for row in rows]


def refuses(call, error, words):
    """Expect an error with these words, a regular expression, from a call."""
    with pytest.raises(error, match=words):
        call()


def assert_bits(found, expected, *said):
    """Expect the same sums to the last bit of two moments, accumulators or pairs of limbs.

    Of both limbs at once NumPy would make float64.
    """
    limbs = [x.int128() if hasattr(x, "int128") else x for x in (found, expected)]
    for own, other in zip(*limbs, strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_array_equal(own, other, *said)


def assert_same(found, expected):
    """Expect the same sums of as many rows, of which as many were left out."""
    assert_bits(found, expected)
    assert (found.n_rows, found.n_dropped) == (expected.n_rows, expected.n_dropped)
