"""Identifiers of units: two values are two units in any types, and one value is one."""

import itertools

import numpy as np
import pytest

import privgram as pg

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

WHOLE = [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64 - 2**31]
TEXTS = ["", "a", "a\0", "\0", "b" * 15, "b" * 16, "b" * 16 + "\0", "ä", "1", "-1", "\ud800"]


def raw(text):
    return text.encode("utf-8", "surrogatepass")


def encoded(array):
    return pa.table({"u": array.dictionary_encode()})


def of_dtype(dtype):
    limits = np.iinfo(dtype)
    return lambda ids: (
        {"u": np.array(ids, dtype)} if all(limits.min <= i <= limits.max for i in ids) else None
    )


def nullable(kind):
    return lambda ids: pd.DataFrame({"u": pd.array([*ids, None], kind)})


def arrow(kind, extra=()):
    return lambda ids: pa.table({"u": pa.array([*ids, *extra], kind)})


def signed(make):
    return lambda ids: make(ids) if max(ids, default=0) < 2**63 else None


def unsigned(make):
    return lambda ids: make(ids) if min(ids, default=0) >= 0 else None


NUMBERS = {
    **{str(np.dtype(d)): of_dtype(d) for d in ("i1", "i4", "i8", "u4", "u8", ">u8", ">i8")},
    "objects": lambda ids: {"u": np.array([*ids, None], object)},
    "numpy objects": lambda ids: {"u": np.array([np.uint64(i) if i >= 0 else i for i in ids], "O")},
    "Int64": signed(nullable("Int64")),
    "UInt64": unsigned(nullable("UInt64")),
    "category": signed(lambda ids: pd.DataFrame({"u": pd.Categorical(np.array(ids, np.int64))})),
    "arrow int64": signed(arrow(pa.int64(), [None])),
    "arrow uint64": unsigned(arrow(pa.uint64(), [None])),
    "arrow uint64, no null": unsigned(arrow(pa.uint64())),
    "dictionary": unsigned(lambda ids: encoded(pa.array(ids, pa.uint64()))),
    "pandas arrow": unsigned(
        lambda ids: pd.DataFrame({"u": pd.array(ids, pd.ArrowDtype(pa.uint64()))})
    ),
}  # fmt: skip


def valid(make):
    return lambda ids: make([i for i in ids if i != "\ud800"])


STRINGS = {
    "str": lambda ids: {"u": np.array([*ids, None], object)},
    "U": lambda ids: {"u": np.array([i for i in ids if not i.endswith("\0")], "U")},
    "StringDType": valid(lambda ids: {"u": np.array(ids, np.dtypes.StringDType())}),
    "bytes": lambda ids: {"u": np.array([raw(i) for i in ids], object)},
    "S": lambda ids: {"u": np.array([raw(i) for i in ids if not i.endswith("\0")], "S")},
    "arrow string": valid(arrow(pa.string(), [None])),
    "large_string": valid(arrow(pa.large_string())),
    "string_view": valid(arrow(pa.string_view())),
    "dictionary": valid(lambda ids: encoded(pa.array(ids))),
    "pandas string": valid(lambda ids: pd.DataFrame({"u": pd.array([*ids, None], "string")})),
    "category": valid(lambda ids: pd.DataFrame({"u": pd.Categorical(ids)})),
}  # fmt: skip


def values_in(block):
    """The identifiers that a block really holds, without missing ones."""
    held = block["u"]
    held = held.to_pylist() if hasattr(held, "to_pylist") else held.tolist()
    found = {i for i in held if not (i is None or i is pd.NA or i != i)}
    return {i.decode("utf-8", "surrogatepass") if isinstance(i, bytes) else i for i in found}


def with_ones(block):
    n = len(block["u"])
    if isinstance(block, pd.DataFrame):
        return block.assign(x=np.ones(n))
    if isinstance(block, pa.Table):
        return block.append_column("x", pa.array(np.ones(n)))
    return {**block, "x": np.ones(n)}


def check(blocks):
    """As many units as there are values, each value one unit."""
    blocks = [block for block in blocks if block is not None and len(block["u"])]
    if not blocks:
        return
    expected = set().union(*map(values_in, blocks))
    source = [with_ones(block) for block in blocks]
    moment = pg.second_moment(
        source, 1.0, columns=["x"], unit=pg.Unit("u", max_rows=1, missing="drop"), threads=1
    )
    assert moment.n_rows == len(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("makers", "ids"), [(NUMBERS, WHOLE), (STRINGS, TEXTS)])
def test_value_is_one_unit_and_two_values_are_two(makers, ids):
    fitting = [(a, b) for a, b in itertools.combinations_with_replacement(makers.values(), 2)]
    rng = np.random.default_rng(1)
    for one, other in fitting:
        some = [ids[i] for i in rng.permutation(len(ids))]
        for first, second in ((some[:4], some[2:]), ([some[0]], [some[0]]), (ids, ids)):
            check([one(first), other(second)])


@pytest.mark.parametrize("high", [2**63, 2**64 - 1])
def test_unsigned_numbers_are_no_negative_ones(high):
    """2^64 - 1 and -1 were one unit."""
    numbers = [np.array([high], np.uint64), np.array([high - 2**64], np.int64)]
    check([{"u": u} for u in numbers])
    check([{"u": np.array([high, high - 2**64], object)}])


def test_rows_of_unsigned_units_meet_in_the_file_too(monkeypatch):
    monkeypatch.setattr("privgram.scan.units.MEMORY_BUDGET", 1)
    high = np.array([2**64 - 1, 2**63, 7] * 50, np.uint64)
    check([{"u": high}, {"u": high.view(np.int64)}, {"u": high.astype(object)}])
