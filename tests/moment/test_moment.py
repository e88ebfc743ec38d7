"""The second moment: exact whatever the order, atomic, serialisable, silent."""

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from support.helpers import assert_bits, refuses

from privgram import Columns, SecondMoment
from privgram._core import rows
from privgram._core.rows import RowAccumulator
from privgram.exact import int128
from privgram.moment.accumulators import TotalLayout


def assert_same(a, b):
    assert_bits(a, b)
    assert (a.n_rows, a.n_dropped, a.bound, a.names) == (b.n_rows, b.n_dropped, b.bound, b.names)


@pytest.fixture
def x(rng):
    return rng.standard_normal((997, 5)) * np.geomspace(0.1, 10, 5)


@pytest.fixture
def moment(x):
    return SecondMoment(5, 7.0).update(x)


def test_integers_and_unit(x, moment):
    hi, lo = moment.int128()
    integers = hi.astype(object) * 2**64 + lo.astype(object)
    expected = integers.astype(float) * moment.resolution
    np.testing.assert_allclose(moment.matrix(), expected, rtol=1e-15)
    assert moment.sensitivity_bound == pytest.approx(7.0, rel=1e-5)
    assert moment.sensitivity_bound >= 7.0


@given(st.lists(st.integers(-(2**126), 2**126) | st.integers(-(2**60), 2**60), min_size=1))
def test_limbs_to_float_rounds_like_python(values):
    hi = np.array([v >> 64 for v in values], np.int64)
    lo = np.array([v & (2**64 - 1) for v in values], np.uint64)
    expected = np.array([float(v) for v in values])
    np.testing.assert_array_max_ulp(int128.to_float(hi, lo), expected, maxulp=1)


def test_merge(x):
    parts = [SecondMoment(5, 7.0).update(part) for part in np.array_split(x, 4)]
    assert_same(sum(parts[1:], parts[0]), SecondMoment(5, 7.0).update(x))
    assert parts[0].n_rows == len(np.array_split(x, 4)[0]), "merge must not change its input"
    twice = parts[0].copy()
    assert twice.merge(twice.copy()) is twice
    assert_same(twice, parts[0] + parts[0].copy())


def test_merge_refuses():
    a = SecondMoment(2, 1.0, names=["a", "b"])
    refuses(lambda: a.merge(np.eye(2)), TypeError, "only a SecondMoment")
    with pytest.raises(TypeError):
        a + 1
    others = {
        "n_columns": SecondMoment(3, 1.0),
        "bound": SecondMoment(2, 1.5, names=["a", "b"]),
        "names": SecondMoment(2, 1.0, names=["b", "a"]),
        "columns": SecondMoment(2, 1.0, columns=Columns({"a": (0, 1), "b": (0, 1)})),
    }
    for what, other in others.items():
        with pytest.raises(ValueError, match=f"differ in {what}"):
            a.merge(other)


def test_too_many_rows():
    a = SecondMoment(1, 1.0)
    total = rows.RowAccumulator.from_totals(1, 1.0, 20, *a._total.totals(), 2**62, 0)
    a = SecondMoment.from_accumulator(total, None, None)
    a.update([[1.0]])
    refuses(lambda: a.merge(a.copy()), OverflowError, "2\\*\\*63")


@pytest.mark.parametrize(
    ("block", "error", "text"),
    [
        (np.zeros(5), ValueError, "x\\[None, :\\]"),
        (np.zeros((2, 2, 5)), ValueError, "two dimensions"),
        (np.zeros((2, 4)), ValueError, "4 columns and the second moment takes 5"),
        (np.zeros((2, 5), complex), TypeError, "complex"),
        (np.zeros((2, 5), object), TypeError, "objects"),
        (np.full((2, 5), "a"), TypeError, "only real numbers"),
        (np.zeros((2, 5), "M8[s]"), TypeError, "only real numbers"),
        (np.ma.zeros((2, 5)), TypeError, "masked"),
        ([[1.0] * 5, [1.0] * 4], ValueError, "differ in length"),
        ({"a": np.zeros((2, 2))}, ValueError, "2 dimensions"),
        ({"a": ["x"]}, TypeError, "'a'"),
        ({"a": [1.0], "b": [1.0, 2.0]}, ValueError, "'a' and 'b' have 1 and 2 rows"),
        ({1: [1.0]}, TypeError, "column names"),
        (None, TypeError, "NoneType is no table"),
        ("data.npy", TypeError, "only real numbers"),
    ],
)
def test_update_refuses(moment, block, error, text):
    before = moment.to_bytes()
    refuses(lambda: moment.update(block), error, text)
    assert moment.to_bytes() == before


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f8", np.float16])
@pytest.mark.parametrize("order", ["C", "F"])
def test_update_is_atomic(x, moment, value, dtype, order, monkeypatch):
    monkeypatch.setattr("privgram.moment.accumulators.PIECE_VALUES", 1000)
    x = np.array(np.tile(x, (9, 1)), dtype, order=order) * 0 + 1
    before = moment.to_bytes()
    for row in (0, 4321, len(x) - 1):
        bad = x.copy(order="K")
        bad[row, 3] = value
        bad[min(row + 5, len(x) - 1), 1] = value
        with pytest.raises(ValueError, match=f"^row {row} holds a missing value, NaN or inf"):
            moment.update(bad)
        assert moment.to_bytes() == before


def test_wide_longdouble_is_infinite():
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("no longer double")
    with pytest.raises(ValueError, match="row 1 "):
        SecondMoment(1, 1.0).update(np.array([["1"], ["1e4000"]]).astype(np.longdouble))


def test_eight_threads_at_random_and_readers_meanwhile(x):
    """The total is the serial one, and what is read at any time is a whole number of blocks."""
    moment, one = SecondMoment(5, 7.0), SecondMoment(5, 7.0).update(x[:1])
    row, n = one.int128()[1].astype(object), 300  # positive and below 2**64: one limb
    stop = threading.Event()

    def write(seed):
        rng, done = np.random.default_rng(seed), 0
        for size in rng.integers(0, 40, n):
            block = np.repeat(x[:1], size, axis=0)
            if rng.random() < 0.3:
                moment.merge(SecondMoment(5, 7.0).update(block))
            else:
                moment.update(block if rng.random() < 0.5 else np.asfortranarray(block))
            done += int(size)
        return done

    def read(kind):
        seen = 0
        while not stop.is_set():
            if kind == 0:
                copy = SecondMoment.from_bytes(moment.to_bytes())
            else:
                copy = moment.copy()
                moment.matrix()
            hi, lo = copy.int128()
            diagonal = [
                int(h) * 2**64 + int(v) for h, v in zip(hi.diagonal(), lo.diagonal(), strict=True)
            ]
            assert diagonal == [copy.n_rows * int(v) for v in row.diagonal()]
            assert copy.n_rows >= seen
            seen = copy.n_rows
        return seen

    with ThreadPoolExecutor(10) as pool:
        readers = [pool.submit(read, kind) for kind in range(2)]
        try:
            rows = sum(task.result() for task in [pool.submit(write, i) for i in range(8)])
        finally:
            stop.set()
        assert max(reader.result() for reader in readers) <= rows
    assert_same(moment, SecondMoment(5, 7.0).update(np.repeat(x[:1], rows, axis=0)))


@pytest.mark.parametrize("bound", [1e200, 1e-200, 2e30, 1e-31])
def test_bounds_whose_powers_leave_float64(bound):
    refuses(lambda: SecondMoment(2, bound), ValueError, "another unit")


@pytest.mark.parametrize("bound", [2.0**100, 2.0**-100])
def test_extreme_bounds(bound):
    moment = SecondMoment(2, bound).update(np.full((3, 2), bound))
    np.testing.assert_allclose(moment.matrix(), 1.5 * bound**2, rtol=1e-5)


@pytest.mark.parametrize("data", [10**12, "text", None, [1, 2]])
def test_from_bytes_takes_bytes(data):
    refuses(lambda: SecondMoment.from_bytes(data), TypeError, "made of bytes")


def test_one_merge_at_a_time(x, monkeypatch):
    """Also where the GIL does not see to it."""

    class Watched(RowAccumulator):
        busy = False

        def merge(self, other):
            assert not self.busy
            self.busy = True
            time.sleep(1e-4)
            super().merge(other)
            self.busy = False

    monkeypatch.setattr("privgram._core.rows.RowAccumulator", Watched)
    moment = SecondMoment(5, 7.0)
    addend = SecondMoment(5, 7.0).update(x)
    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(moment.update, part) for part in np.array_split(x, 50)]
        tasks += [pool.submit(moment.merge, addend) for _ in range(10)]
        for task in tasks:
            task.result()
    assert_same(moment, SecondMoment(5, 7.0).update(np.tile(x, (11, 1))))


def test_columns_scale_raw_values(x):
    columns = Columns({"a": (-1, 1), "b": (0, 2), "c": (-3, 3), "d": (-1, 5), "e": (0, 1)}, True)
    moment = SecondMoment(6, columns.bound, columns=columns).update(x)
    assert moment.names == columns.names
    assert moment.columns == columns.settled(None)
    plain = SecondMoment(6, columns.bound, columns.names).update(columns.encoder.table(list(x.T)))
    assert_bits(moment, plain)
    by_name = dict(zip("edcba", x.T[::-1], strict=True)) | {"unused": np.array(["?"])}
    assert_same(SecondMoment(6, columns.bound, columns=columns).update(by_name), moment)
    with pytest.raises(ValueError, match="bounds for 5 columns and the table has 6"):
        moment.update(columns.encoder.table(list(x.T)))


def test_dropped_rows_are_counted():
    columns = Columns({"a": (0, 1), "b": (0, 1)}, missing="drop")
    block = np.array([[0.5, 0.5], [np.nan, 0.5], [0.1, 0.2], [np.inf, np.nan]])
    moment = SecondMoment(2, columns.bound, columns=columns).update(block)
    assert (moment.n_rows, moment.n_dropped) == (2, 2)
    other = SecondMoment(2, columns.bound, columns=columns).update(block[[2, 0]])
    np.testing.assert_array_equal(moment.matrix(), other.matrix())
    restored = SecondMoment.from_bytes(moment.to_bytes())
    assert_same(restored, moment)
    assert restored.columns == columns


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((2**40, 1.0), ValueError, "n_columns"),
        ((2, None), ValueError, "give bound="),
        ((2, 1.0, ["a"]), ValueError, "1 names for 2"),
        ((2, 1.0, ["a", "a"]), ValueError, "different"),
        ((2, 1.0, "ab"), TypeError, "names"),
        ((2, 1.0, ["a", 1]), TypeError, "names"),
    ],
)
def test_constructor_refuses(arguments, error, text):
    refuses(lambda: SecondMoment(*arguments), error, text)


def test_constructor_compares_columns():
    columns = Columns({"a": (0, 1)}, intercept=True)
    refuses(lambda: SecondMoment(1, 1.0, columns=columns), ValueError, "Columns has 2")
    refuses(lambda: SecondMoment(2, 1.0, columns={"x": (0, 1)}), TypeError, "pg.Columns, not dict")
    with pytest.raises(ValueError, match="different columns"):
        SecondMoment(2, 1.0, ["x", "y"], columns=columns)


def test_bytes_and_pickles(x):
    moment = SecondMoment(5, 0.1 + 0.2, names=["a", "b", "ü", "\n", ""]).update(x)
    for other in (
        SecondMoment.from_bytes(moment.to_bytes()),
        pickle.loads(pickle.dumps(moment)),
        copy.deepcopy(moment),
        moment.copy(),
    ):
        assert_same(other, moment)
        other.update(x)
        assert other.n_rows == 2 * moment.n_rows


def test_every_damaged_byte_is_found(rng):
    data = SecondMoment(3, 1.0).update(rng.standard_normal((10, 3))).to_bytes()
    for i in range(len(data)):
        for bit in (1, 128):
            damaged = bytearray(data)
            damaged[i] ^= bit
            with pytest.raises(ValueError, match="this is"):
                SecondMoment.from_bytes(bytes(damaged))
    for n in (0, 10, len(data) - 1):
        with pytest.raises(ValueError, match="this is"):
            SecondMoment.from_bytes(data[:n])
    refuses(lambda: SecondMoment.from_bytes(data + b"\0"), ValueError, "this is")


def test_known_bytes():
    """What version 1 wrote stays readable."""
    data = SecondMoment(2, 1.0).update([[0.5, -0.25]]).to_bytes()
    assert data.startswith(b"privgram.moment\n\x01\0\0\0")
    header = (
        b'{"n_columns": 2, "bound": "0x1.0000000000000p+0", "bits": 20, "n_rows": 1, '
        b'"n_dropped": 0, "names": null, "columns": null, '
        b'"of_group": false, "privacy_unit": null}'
    )
    assert data[20 : 24 + len(header)] == len(header).to_bytes(4, "little") + header
    assert len(data) == 24 + len(header) + 3 * 8 + 32


def test_later_versions_are_refused():
    import hashlib

    data = bytearray(SecondMoment(2, 1.0).to_bytes()[:-32])
    data[16] = 2
    with pytest.raises(ValueError, match="version 2; this privgram reads version 1"):
        SecondMoment.from_bytes(bytes(data) + hashlib.sha256(data).digest())


def test_entry_takes_eight_bytes_until_it_is_beyond_them(x):
    small = SecondMoment(5, 7.0).update(x)
    totals = small._total.totals()
    many = (totals[0] * 2**20, totals[1])
    for hi, lo in (totals, many):
        total = rows.RowAccumulator.from_totals(5, 7.0, 20, hi, lo, 2**45, 0)
        moment = SecondMoment.from_accumulator(total, None, None)
        again = SecondMoment.from_bytes(moment.to_bytes())
        for summed in (moment, again, moment.copy(), again + moment.copy()):
            factor = 2 if summed.n_rows > 2**45 else 1
            expected = factor * int128.to_integers((hi, lo))
            assert (int128.to_integers(summed.triangle()) == expected).all()
    hi = np.full(15, 1 << 10)
    hi[int128.to_integers((hi, totals[1])) == 0] = 0
    large = rows.RowAccumulator.from_totals(5, 7.0, 20, hi, totals[1], 2**40, 0)
    long = SecondMoment.from_accumulator(large, None, None)
    extra = len(long.to_bytes()) - len(small.to_bytes())
    assert 8 * 15 <= extra < 8 * 15 + 40
    assert_same(SecondMoment.from_bytes(long.to_bytes()), long)


def test_merging_many_takes_no_new_memory_for_each(x, monkeypatch):
    parts = [SecondMoment(5, 7.0).update(part) for part in np.array_split(x, 10)]
    made = []
    real = TotalLayout.new
    monkeypatch.setattr(TotalLayout, "new", lambda self: made.append(1) or real(self))
    assert_same(reduce(SecondMoment.merge, parts), SecondMoment(5, 7.0).update(x))
    assert len(made) <= 3  # one of the merge, two of what it is compared with
