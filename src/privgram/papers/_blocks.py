"""A matrix as blocks of bounded size: dense, sparse, or a re-iterable of row blocks.

What needs a few products with a large matrix asks for them here, and never for the matrix.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from privgram._base.files import check_process
from privgram._base.machine import cores

#: Entries stored in a block: 32 MiB as float64.
ENTRIES = 1 << 22

BlockT = TypeVar("BlockT")
S = TypeVar("S")


class MatrixBlock(NamedTuple):
    """Part of a matrix: float64, all finite, dense or sparse without duplicates."""

    rows: slice
    columns: slice
    values: Any


class MatrixBlocks:
    """The blocks of a matrix of shape (m, n), as often as they are wanted.

    Of an array, a scipy.sparse matrix in CSR or CSC, or a re-iterable of row blocks, which is gone
    through once to count if it has no `shape`. Blocks have two dimensions, dense or sparse.
    """

    shape: tuple[int, int]

    def __init__(self, matrix: Any) -> None:
        if isinstance(matrix, Iterator):
            raise TypeError(
                "the blocks are needed more than once: pass a list, or an object whose __iter__"
                " starts anew, not an iterator"
            )
        # Data frames, whose iterator gives names, and rows of numbers, which are no blocks.
        if (hasattr(matrix, "__array__") and not _is_sparse(matrix)) or _is_rows(matrix):
            matrix = np.asarray(matrix)
        whole = isinstance(matrix, np.ndarray) or _is_sparse(matrix)
        if not whole and not isinstance(matrix, Iterable):
            raise TypeError(
                "the matrix must be a 2-D array, a scipy.sparse CSR or CSC matrix, or a"
                f" re-iterable of row blocks, not {type(matrix).__name__}"
            )
        self._parts: Iterable[Any] = [matrix] if whole else matrix
        shape = getattr(matrix, "shape", None) or self._count()
        if len(shape) != 2 or min(shape) < 1:
            raise ValueError(f"the matrix must have at least one row and column, not shape {shape}")
        self.shape = int(shape[0]), int(shape[1])

    def _count(self) -> tuple[int, int]:
        m, n = 0, 0
        for part in self._parts:
            values = _two_dimensional(part)
            m, n = m + values.shape[0], values.shape[1]
        return m, n

    def __iter__(self) -> Iterator[MatrixBlock]:
        start = 0
        m, n = self.shape
        for part in self._parts:
            values = _two_dimensional(part)
            if values.shape[1] != n:
                raise ValueError(
                    f"a block at row {start} has {values.shape[1]} columns, others have {n}"
                )
            for rows, columns, piece in _pieces(values):
                shifted = slice(start + rows.start, start + rows.stop)
                yield MatrixBlock(shifted, columns, _clean(piece, shifted.start, columns.start))
            start += values.shape[0]
        if start != m:
            raise ValueError(f"the blocks have {start} rows in all this time, not {m}")

    def times(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a dense matrix of shape (n, k), of shape (m, k)."""
        out = np.zeros((self.shape[0], right.shape[1]))
        for block, product in in_order(lambda b: b.values @ right[b.columns], self):
            out[block.rows] += product
        return out

    def trans_times(self, left: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product of the transpose with a dense matrix of shape (m, k), of shape (n, k)."""
        out = np.zeros((self.shape[1], left.shape[1]))
        for block, product in in_order(lambda b: b.values.T @ left[b.rows], self):
            out[block.columns] += product
        return out

    def squared_row_norms(self) -> NDArray[np.float64]:
        """Squared Euclidean norms of the m rows."""
        out = np.zeros(self.shape[0])
        for block in self:
            values = block.values
            if isinstance(values, np.ndarray):
                out[block.rows] += np.einsum("ij,ij->i", values, values)
            else:
                out[block.rows] += np.asarray(values.multiply(values).sum(axis=1)).ravel()
        return out


def in_order(function: Callable[[S], BlockT], items: Iterable[S]) -> Iterator[tuple[S, BlockT]]:
    """Map by the threads of this machine; results come in the order of the items.

    At most one item more than there are threads is under way.
    """
    pid, items = os.getpid(), iter(items)
    first = list(islice(items, 2))
    if len(first) < 2:  # threads take longer to start than a small matrix to multiply
        yield from ((item, function(item)) for item in first)
        return
    threads = cores()
    window: deque[tuple[S, Any]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in chain(first, items):
            check_process(pid)
            window.append((item, pool.submit(function, item)))
            if len(window) > threads:
                done, future = window.popleft()
                yield done, future.result()
        check_process(pid)
        while window:
            done, future = window.popleft()
            yield done, future.result()


def _is_rows(matrix: Any) -> bool:
    """Tell lists of numbers from lists of blocks, by the first."""
    first = matrix[0] if isinstance(matrix, list | tuple) and matrix else None
    return isinstance(first, list | tuple) and not any(map(np.ndim, first))


def _is_sparse(matrix: Any) -> bool:
    return hasattr(matrix, "tocsr") and hasattr(matrix, "nnz")


def _two_dimensional(part: Any) -> Any:
    if _is_sparse(part):
        if part.format not in ("csr", "csc"):
            raise TypeError(f"sparse matrices must be CSR or CSC, not {part.format}: use .tocsr()")
    else:
        part = np.asarray(part)
    if part.ndim != 2:
        raise ValueError(f"a matrix or block of rows must be two-dimensional, not {part.ndim}-D")
    if part.dtype.kind not in "biuf":
        raise TypeError(f"entries must be real numbers, not {part.dtype}")
    return part


def _pieces(values: Any) -> Iterator[tuple[slice, slice, Any]]:
    """Cut into pieces of about ENTRIES entries without a copy, along the axis it is stored by."""
    m, n = values.shape
    if isinstance(values, np.ndarray):
        step = max(1, ENTRIES // n)
        for start in range(0, m, step):
            rows = slice(start, min(start + step, m))
            yield rows, slice(0, n), values[rows]
        return
    start, major = 0, len(values.indptr) - 1
    while start < major:
        stop = int(np.searchsorted(values.indptr, values.indptr[start] + ENTRIES, side="right")) - 1
        stop = min(max(stop, start + 1), major)
        first, last = values.indptr[start], values.indptr[stop]
        within = (
            values.data[first:last],
            values.indices[first:last],
            values.indptr[start : stop + 1] - first,
        )
        part = slice(start, stop)
        if values.format == "csr":
            yield part, slice(0, n), type(values)(within, shape=(stop - start, n))
        else:
            yield slice(0, m), part, type(values)(within, shape=(m, stop - start))
        start = stop


def _clean(piece: Any, row: int, column: int) -> Any:
    """The piece in float64, without duplicates if sparse; ValueError where it is not finite."""
    dense = isinstance(piece, np.ndarray)
    if not dense and not piece.has_canonical_format:
        piece = piece.copy()
        piece.sum_duplicates()
    piece = piece.astype(np.float64, copy=False)
    finite = np.isfinite(piece if dense else piece.data)
    if not finite.all():
        if dense:
            i, j = np.argwhere(~finite)[0]
        else:
            entries = piece.tocoo()
            i, j = entries.row[~finite][0], entries.col[~finite][0]
        raise ValueError(f"the entry at row {row + i}, column {column + j} is NaN or infinite")
    return piece
