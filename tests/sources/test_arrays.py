"""Arrays of other libraries: the bits of NumPy's, and on a device of its own only sums come back.

array-api-strict has devices that NumPy cannot read, which stand for a GPU here.
"""

import importlib.util
import subprocess
import sys
import types

import numpy as np
import pytest
from support.helpers import assert_same, refuses, said

import privgram as pg
from privgram._core.rows import RowAccumulator
from privgram.moment import device
from privgram.moment.device import add_device_rows
from privgram.sources import arrays
from privgram.sources.arrays import DeviceRows

TYPES = ["float64", "float32", "int64", "int32", "int16", "uint8", "bool"]


@pytest.fixture
def strict():
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(params=["torch", "array_api_strict"])
def library(request):
    return pytest.importorskip(request.param, reason=f"{request.param} is not installed")


@pytest.fixture
def elsewhere(strict):
    """What puts an array on a device that NumPy cannot read."""

    def put(x, name="device1"):
        return strict.asarray(x, device=strict.Device(name))

    with pytest.raises(RuntimeError):
        np.asarray(put(np.ones(2)))
    return put


def hard_rows(rng, n, d):
    """Rows below, at and above a bound of 1, of mixed scales, some with norms out of range."""
    x = rng.standard_normal((n, d)) * np.exp(rng.normal(0, 6, (n, d)) * (rng.random((n, 1)) < 0.3))
    x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]
    x *= rng.choice([1e-3, 0.5, 1 - 1e-16, 1.0, 1 + 2e-16, 3.0, 1e6, 1e300, 1e-300], (n, 1))
    x[rng.random((n, d)) < 0.05] = 0
    return x


def scaling_of(rng, d, limit=1.0):
    return rng.normal(0, 0.1, d), 1 / rng.uniform(0.5, 2, d), np.full(d, limit)


@pytest.mark.parametrize("scaled", ["plain", "scaled", "steady"])
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 16, 23, 40])
def test_bits_of_the_kernel(library, rng, d, scaled):
    x = hard_rows(rng, 700, d)
    scaling, width = None, d
    if scaled != "plain":
        scaling, width = scaling_of(rng, d + 1), d + 1  # whose last column is not there
        x = np.clip(x, -1e200, 1e200)
        for part in scaling:
            part.flags.writeable = False
    bound = np.sqrt(width) * 1.001 if scaled == "steady" else 1.0
    x[rng.random(x.shape) < 0.01 / d] = np.nan
    here, there = RowAccumulator(width, bound), RowAccumulator(width, bound)
    assert here.update(x, True, scaling) == -1
    assert here.n_dropped
    add_device_rows(there, DeviceRows(library.asarray(x), 0, len(x)), scaling, True)
    assert_same(here, there)


@pytest.mark.parametrize("kind", TYPES)
def test_bits_of_every_type(library, rng, kind):
    x = (
        rng.normal(0, 40, (300, 5)).astype(kind)
        if kind[0] != "u"
        else rng.integers(0, 255, (300, 5))
    )
    x = x.astype(kind)
    here, there = RowAccumulator(5, 60.0), RowAccumulator(5, 60.0)
    here.update(x.astype(np.float64))
    add_device_rows(there, DeviceRows(library.asarray(x), 0, 300), None, False)
    assert_same(here, there)


def test_blocks_within_blocks(library, rng, monkeypatch):
    monkeypatch.setattr(device, "EXACT", 16)
    monkeypatch.setattr(device, "NUMBERS_AT_ONCE", 64 * 3)
    x = hard_rows(rng, 1000, 3)
    here, there = RowAccumulator(3, 1.0), RowAccumulator(3, 1.0)
    here.update(x)
    add_device_rows(there, DeviceRows(library.asarray(x), 0, 400), None, False)
    add_device_rows(there, DeviceRows(library.asarray(x), 400, 1000), None, False)
    assert_same(here, there)


def test_sums_are_exact_where_they_are_largest(library):
    """2^13 rows at the bound, all alike: an entry is 2^53, less what the bound leaves."""
    x = np.zeros((device.EXACT, 2))
    x[:, 0] = 1.0
    here, there = RowAccumulator(2, 1.0), RowAccumulator(2, 1.0)
    here.update(x)
    add_device_rows(there, DeviceRows(library.asarray(x), 0, len(x)), None, False)
    assert_same(here, there)
    assert here.int128()[1][0, 0] > 2**53 - 2**36


def test_device_is_read_like_an_array(elsewhere, rng, monkeypatch):
    monkeypatch.setattr(arrays, "DEVICE_ROWS", 100)
    x = rng.standard_normal((999, 4))
    expected = pg.second_moment(x, bound=2.0)
    for source in (elsewhere(x), [elsewhere(x[:500]), elsewhere(x[500:])], (elsewhere(x),)):
        for threads in (1, 3):
            assert_same(pg.second_moment(source, bound=2.0, threads=threads), expected)
    moment = pg.SecondMoment(4, bound=2.0)
    assert_same(moment.update(elsewhere(x[:500])).update(x[500:]), expected)
    by_name = {name: elsewhere(c) for name, c in zip("abcd", x.T, strict=True)}
    assert_same(pg.second_moment(by_name, bound=2.0), expected)
    picked = pg.second_moment(by_name, bound=2.0, columns=["c", "a"])
    assert_same(picked, pg.second_moment(x[:, [2, 0]], bound=2.0))


def test_only_sums_come_back(elsewhere, rng, monkeypatch):
    sizes = []
    to_numpy = arrays.to_numpy
    monkeypatch.setattr(device, "to_numpy", lambda x: sizes.append(x.shape) or to_numpy(x))
    monkeypatch.setattr(arrays, "to_numpy", lambda x: sizes.append("rows"))
    columns = pg.Columns(dict.fromkeys("abc", (-1, 1)), intercept=True)
    pg.second_moment(elsewhere(rng.standard_normal((999, 3))), columns=columns)
    pg.second_moment(elsewhere(rng.standard_normal((999, 3))), bound=0.5)
    assert sizes == [(4, 4), (3, 3)]


@pytest.mark.parametrize("missing", ["drop", "error"])
def test_missing_values(elsewhere, rng, missing):
    x = rng.standard_normal((500, 3))
    x[[17, 333], 1] = np.nan
    x[40, 2] = np.inf
    columns = pg.Columns(dict.fromkeys("abc", (-1, 1)), intercept=True, missing=missing)
    if missing == "drop":
        found = pg.second_moment(elsewhere(x), columns=columns)
        assert_same(found, pg.second_moment(x, columns=columns))
        assert found.n_dropped == 2
        return
    moment = pg.SecondMoment(4, columns.bound, columns=columns)
    for fail in (lambda t: pg.second_moment(t, columns=columns), moment.update):
        messages = []
        for table in (elsewhere(x), x):
            with pytest.raises(ValueError, match="row 17 holds a missing value") as error:
                fail(table)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    assert moment.n_rows == 0
    with pytest.raises(ValueError, match="row 39 holds"):
        pg.second_moment([elsewhere(x[:17]), elsewhere(x[18:41])], bound=1.0)


def test_device_array_that_cannot_be_summed_there_is_copied(elsewhere, rng):
    """Levels, logarithms, products, units, groups, and rounds over the rows."""
    n = 600
    table = {
        "age": rng.uniform(20, 90, n),
        "sex": rng.integers(0, 2, n),
        "pay": np.exp(rng.normal(8, 1, n)),
        "who": rng.integers(0, 50, n),
    }
    there = {name: elsewhere(x) for name, x in table.items()}
    variables = {"age": (18, 100), "sex": pg.Factor([0, 1]), "pay": pg.Log(10, 50_000)}
    columns = pg.Columns(variables, intercept=True)
    assert_same(pg.second_moment(there, columns=columns), pg.second_moment(table, columns=columns))
    powers = pg.Columns({"age": (18, 100), "pay": (0, 1e5)}, terms=["age", "pay", "age:pay"])
    assert_same(pg.second_moment(there, columns=powers), pg.second_moment(table, columns=powers))
    unit = pg.Unit("who", max_rows=3)
    whole = [pg.second_moment(t, columns=columns, unit=unit) for t in (there, table)]
    assert_same(*whole)
    groups = [pg.second_moment(t, columns=columns, by="sex") for t in (there, table)]
    assert groups[0].to_bytes() == groups[1].to_bytes()


def test_estimators(elsewhere, rng):
    estimators = pytest.importorskip("privgram.estimators")
    x = rng.uniform(-1, 1, (4000, 3))
    y = x @ [0.2, 0.3, -0.1]
    learnt = []
    for put in (elsewhere, np.asarray):
        linear = estimators.PrivateRidge(0.0, epsilon=2.0, columns=(-1, 1), random_state=0)
        coef = linear.fit(put(x), put(y)).coef_
        assert linear.predict(put(x)).shape == (4000,)
        learnt.append(coef)
    np.testing.assert_array_equal(*learnt)
    assert linear.n_features_in_ == 3
    refuses(lambda: linear.predict(put(x[:, :2])), ValueError, "3 features")
    spent = estimators.PrivateRidge(columns=(-1, 1))
    bad = {
        "move them to one device": (elsewhere(x), elsewhere(y, "device2")),
        "X is on .*device1.* and y on cpu: move them": (elsewhere(x), y),
        "two dimensions": (elsewhere(y), elsewhere(y)),
        "inconsistent numbers": (elsewhere(x), elsewhere(y[1:])),
        "one dimension": (elsewhere(x), elsewhere(np.ones((4000, 1, 1)))),
        "requires y": (elsewhere(x), None),
    }
    for message, (X, target) in bad.items():
        with pytest.raises(ValueError, match=message):
            spent.fit(X, target)
        assert spent._paid is None


def test_refusals(elsewhere, strict, rng, tmp_path):
    x = rng.standard_normal((30, 3)) + 1234.5678
    one = elsewhere(x)
    refused = [
        (ValueError, "two dimensions", one[:, 0]),
        (ValueError, "this array has 3", elsewhere(x[None])),
        (TypeError, "complex numbers", elsewhere(x.astype(complex))),
        (ValueError, "describes 3 columns and the array has 2", one[:, :2]),
        (ValueError, "have 30 and 29 rows", {"a": one[:, 0], "b": one[:, 1], "c": one[1:, 2]}),
        (ValueError, "'b' has 2 dimensions", {"a": one[:, 0], "b": one[:, 1:], "c": one[:, 2]}),
        (TypeError, "complex", {"a": one[:, 0], "b": elsewhere(x[:, 1] * 1j), "c": one[:, 2]}),
        (ValueError, "no column named 'c'", {"a": one[:, 0], "b": one[:, 1]}),
        (ValueError, "row 3 holds a missing", elsewhere(np.where(np.eye(30, 3, -3), np.nan, x))),
    ]
    bounds = dict.fromkeys("abc", (0, 2000))
    for number, (kind, message, table) in enumerate(refused):
        ledger = tmp_path / f"{number}.ledger"

        def ask(table=table, ledger=ledger):
            study = pg.Study(table, bounds, epsilon=1.0, delta=1e-6, ledger=ledger)
            study.release(epsilon=0.5, mechanism=pg.AnalyzeGauss())

        with pytest.raises(kind, match=message) as error:
            ask()
        assert "1234" not in said(error.value)
        assert not ledger.exists() or pg.Ledger(ledger).remaining() == 1.0
    refuses(lambda: pg.SecondMoment(4, 1.0).update(one), ValueError, "takes 4")


def test_tensors_that_numpy_does_not_read(torch, rng):
    x = rng.standard_normal((50, 3))
    expected = pg.second_moment(x, bound=1.0)
    tensor = torch.asarray(x)
    assert_same(pg.second_moment(tensor.clone().requires_grad_(), bound=1.0), expected)
    assert_same(pg.second_moment(torch.nn.Parameter(tensor), bound=1.0), expected)
    assert_same(pg.second_moment(torch._neg_view(-tensor), bound=1.0), expected)
    half = tensor.to(torch.bfloat16)
    assert_same(
        pg.second_moment(half, bound=1.0), pg.second_moment(half.double().numpy(), bound=1.0)
    )
    assert_same(
        pg.second_moment({"a": half[:, 0]}, bound=1.0), pg.second_moment(half[:, :1], bound=1.0)
    )
    there = RowAccumulator(3, 1.0)
    add_device_rows(there, DeviceRows(tensor.clone().requires_grad_(), 0, 50), None, False)
    assert_same(there, expected)
    for bad, message in [
        (tensor.to_sparse(), "to_dense"),
        (torch.nested.nested_tensor(list(tensor), layout=torch.jagged), "rows differ in length"),
        (torch.ones(3, 2, device="meta"), "has no data"),
        (tensor.to(torch.complex64), "complex numbers"),
    ]:
        with pytest.raises(TypeError, match=message):
            pg.second_moment(bad, bound=1.0)


def test_without_float64_in_jax(strict, monkeypatch):
    """JAX rounds to float32 unless it is told not to; a stand-in, on a device of its own."""

    class Array:
        dtype, ndim, shape = np.dtype(np.float32), 2, (3, 2)

        def __getitem__(self, rows):
            return self

        def devices(self):
            return [types.SimpleNamespace(platform="gpu")]

        def __array_namespace__(self):
            return np

    config = types.SimpleNamespace(jax_enable_x64=False)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(Array=Array, config=config))
    refuses(lambda: pg.second_moment(Array(), bound=1.0), TypeError, "jax_enable_x64")


JAX = """
from importlib.util import find_spec
import jax, numpy as np
import privgram as pg
from privgram._core.rows import RowAccumulator
from privgram.moment.device import add_device_rows
from privgram.sources.arrays import DeviceRows

x = np.random.default_rng(0).standard_normal((3000, 21)) * 5
for kind in (np.float32, jax.numpy.bfloat16):
    y = jax.numpy.asarray(x, kind)
    here = pg.second_moment(np.asarray(y).astype(np.float64), bound=20.0)
    assert (pg.second_moment(y, bound=20.0).matrix() == here.matrix()).all()
jax.config.update("jax_enable_x64", True)
there = RowAccumulator(21, 20.0)
add_device_rows(there, DeviceRows(jax.numpy.asarray(x), 0, 3000), None, False)
here = pg.second_moment(x, bound=20.0)
assert all((a == b).all() for a, b in zip(there.int128(), here.int128()))

y = np.random.default_rng(1).integers(0, 2, 3000)
if find_spec("sklearn"):
    from privgram.estimators import PrivateClassifier
    fits = [
        PrivateClassifier(classes=range(2), bound=2.0, random_state=0).fit(put(x), put(y))
        for put in (np.asarray, jax.numpy.asarray)
    ]
    assert (fits[0].coef_ == fits[1].coef_).all()
"""


@pytest.mark.slow
def test_jax():
    """In a process of its own: JAX has threads, and warns of every fork after it was imported."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    subprocess.run([sys.executable, "-c", JAX], check=True, timeout=300)
