"""Tables of few columns, of which vectors have one each: the rows' sums one by one."""

import numpy as np
import pytest
from support.helpers import all_pairs, assert_bits

from privgram._core import rows

N = 1003


@pytest.fixture(params=rows.available())
def kernel(request):
    rows.select(request.param)
    yield request.param
    rows.select(rows.available()[0])


def table(rng, d, bound):
    """Rows of all sizes about the bound, with those that go the slow path among them."""
    x = rng.standard_normal((N, d)) * bound * rng.choice([1e-3, 0.3, 1.0, 1e3], (N, 1))
    x[rng.integers(0, N, 9)] = 1e300
    x[rng.integers(0, N, 9)] = 1e-310
    x[rng.integers(0, N, 9)] = 0.0
    return x


def layouts(x):
    wide = np.ascontiguousarray(np.column_stack([x, x])[:, : x.shape[1] + 1])
    yield "rows", x
    yield "wider rows", wide[:, : x.shape[1]]
    yield "far rows", np.column_stack([x] * 20)[:, : x.shape[1]]
    yield "backwards", np.ascontiguousarray(x[::-1])[::-1]
    yield "columns", list(np.asfortranarray(x).T)
    small = np.clip(x, -1e38, 1e38)
    yield "floats", small.astype(np.float32)
    mixed = [column.astype(kind) for column, kind in zip(small.T, "fdfd" * 3, strict=False)]
    yield "mixed", mixed
    yield "integers", np.nan_to_num(np.clip(x * 10, -1e9, 1e9)).astype(np.int32)


def one_by_one(block, new, drop, scaling):
    """The accumulator of a block's rows, of which too few are there for a vector."""
    total = new()
    n = len(block[0]) if isinstance(block, list) else len(block)
    for i in range(n):
        row = [c[i : i + 1] for c in block] if isinstance(block, list) else block[i : i + 1]
        if total.update(row, drop, scaling) >= 0:
            return i
    return total


@pytest.mark.parametrize(
    ("d", "scaled", "bits"),
    all_pairs([1, 2, 3, 4, 5, 8, 10, 12], ["", "scaled", "steady", "with ones"], [20, 24]),
)
def test_rows_together_are_rows_one_by_one(kernel, d, scaled, bits, rng):
    bound = 2.0
    x = table(rng, d, bound)
    scaling = None
    if scaled:
        limit = np.full(d, bound if scaled == "scaled" else 0.9 * bound / np.sqrt(d))
        scaling = rng.normal(size=d), rng.uniform(0.1, 2.0, d), limit
    if scaled == "with ones":
        x = x[:, : d - 1]
        if d == 1:
            return

    def new():
        return rows.RowAccumulator(d, bound, bits)

    for name, block in layouts(x):
        together, apart = new(), one_by_one(block, new, False, scaling)
        assert together.update(block, False, scaling) == -1, name
        assert_bits(together, apart)
        assert together.n_rows == apart.n_rows == N


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8, 10, 12])
@pytest.mark.parametrize("scaled", [False, True])
def test_bad_row_is_found_or_left_out(kernel, d, scaled, rng):
    x = table(rng, d, 2.0)
    x[[501, 502, 700], rng.integers(0, d, 3)] = np.nan
    scaling = (np.zeros(d), np.ones(d), np.full(d, 0.5)) if scaled else None
    for name, block in layouts(x):
        if name in ("integers",):
            continue
        total = rows.RowAccumulator(d, 2.0)
        assert total.update(block, False, scaling) == 501, name
        left = rows.RowAccumulator(d, 2.0)
        assert left.update(block, True, scaling) == -1
        apart = one_by_one(block, lambda: rows.RowAccumulator(d, 2.0), True, scaling)
        assert_bits(left, apart)
        assert (left.n_rows, left.n_dropped) == (N - 3, 3)
