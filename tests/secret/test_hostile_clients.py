"""Clients that mean harm: they change what was checked, lie about numbers, and look at rows.

Each asks the gate by what is public of it. To write into names that begin with an underscore is to
write into the memory of the process, and no client (docs/theory/trust.md).
"""

import math
import pickle
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import ClassVar, NamedTuple
from unittest import mock

import numpy as np
import pytest
from secret.test_gate import gate_of, moment_of, noise_of
from secret.test_pairs import OTHERS, USED, blocks, random_rows, table_of
from support.helpers import refuses
from support.sums import integers

import privgram as pg
from privgram._core.scores import Score
from privgram.adaptive.rules import UnreadError
from privgram.mechanisms import release_noise
from privgram.moment.accumulators import Prepared
from privgram.privacy.guarantee import Guarantee, Price
from privgram.scan.executor import accumulate
from privgram.scan.request import ScanRequest
from privgram.secret import gate
from privgram.secret.gate import Gate, Spent
from privgram.secret.kinds import (
    Errors,
    HeldOut,
    Histogram,
    Learner,
    Model,
    Outer,
    Rows,
    Scores,
    Vectors,
)
from privgram.secret.sweep import Image, KeptImage, LevelImage, PairImage

N = 50
TABLE = table_of(random_rows(np.random.default_rng(0), N, hostile=False))
IMAGE = Image(np.eye(2, 3), 2.0)


def reader(new, columns=OTHERS):
    return accumulate(ScanRequest(TABLE, columns, threads=1), new)[0]


def kept_reader(new):
    made = new(5)
    made.update(np.random.default_rng(0).normal(size=(N, 5)))
    return made


def door(read=reader):
    return gate_of(reader=read)


def of_pairs():
    return PairImage(blocks(), np.eye(2, 3)), [Vectors(Model.residual(1), 1.0)]


def of_kept(kind):
    image = KeptImage(np.eye(3, 2), np.ones(2), 2.0, 2.0, 2)
    return image, [kind(Learner(np.zeros((2, 2)), None if kind is HeldOut else (0, 1)))]


# --- one that changes what was checked ------------------------------------------------------------


def write(thing, **values):
    for name, value in values.items():
        object.__setattr__(thing, name, value)


def shape(array, *size):
    array.shape = size


#: What is read, by which reader, and what makes noise smaller if the gate believes it.
AFTERWARDS = {
    "vectors with signs": (IMAGE, Vectors(Model.features(2)), partial(write, positive=True)),
    "a matrix of one column": (
        IMAGE,
        Outer(Model.features(2)),
        partial(write, of=Model.features(1)),
    ),
    "counts that are plain": (
        IMAGE,
        Histogram(Model.features(2), np.array([0.1, 0.2, 0.4, math.inf])),
        partial(write, ranked=False),
    ),
    "counts of fewer bins": (
        IMAGE,
        Histogram(Model.features(2), np.array([0.1, 0.2, 0.4, math.inf])),
        lambda kind: kind.edges.resize(2, refcheck=False),
    ),
    "errors of one fit": (*of_kept(Errors), lambda kind: shape(kind.of.coef, 4, 1)),
    "rows": (IMAGE, Vectors(Model.features(2)), partial(write, __class__=Rows)),
}


@pytest.mark.parametrize("change", AFTERWARDS)
def test_a_kind_that_is_changed_after_it_was_read_moves_as_before(change):
    image, kind, do = AFTERWARDS[change]
    kind = kind[0] if isinstance(kind, list) else kind
    one = door(kept_reader if isinstance(image, KeptImage) else reader)
    [total] = one.read(image, kind)
    expected = one.release(total, 0.25).std
    own = total.kind
    for found in (kind, own):
        with suppress(TypeError):  # a class of another layout
            do(found)
    assert one.release(total, 0.25).std == expected
    for name in ("kind", "rows"):
        with pytest.raises(AttributeError):
            object.__setattr__(total, name, own)
    for name, value in (("adjacency", "add-remove"), ("mu", lambda _: 1e12), ("other", 1)):
        with pytest.raises(AttributeError):
            setattr(one, name, value)


BEFORE = {
    "clip": lambda: (IMAGE, Vectors(Model.features(2)), {"clip": math.nan}),
    "radius": lambda: (IMAGE, Outer(Model.features(2)), {"radius": -1.0}),
    "groups": lambda: (IMAGE, Vectors(Model.features(2)), {"groups": 0}),
    "another field": lambda: (IMAGE, Vectors(Model.features(2)), {"most": 1.0}),
    "a way to move": lambda: (IMAGE, Vectors(Model.features(2)), {"moves": lambda _: 1e-9}),
    "edges": lambda: (
        IMAGE,
        Histogram(Model.features(2), np.array([0.1, 0.2, math.inf])),
        {"edges": np.array([2.0, 1.0, math.inf])},
    ),
    "pairs": lambda: (IMAGE, Vectors(Model.features(2)), {"of_pairs": True}),
    "errors of classes": lambda: (
        *(given[0] if isinstance(given, list) else given for given in of_kept(Errors)),
        {"of": Learner(np.zeros((2, 2)))},
    ),
}


@pytest.mark.parametrize("change", BEFORE)
def test_a_kind_that_is_changed_before_it_is_read_is_refused(change):
    image, kind, values = BEFORE[change]()
    write(kind, **values)
    with pytest.raises((TypeError, ValueError)):
        gate_of(reader=lambda _: pytest.fail("a row was read")).read(image, kind)


def test_weights_of_blocks_that_are_written_to_are_refused_or_no_longer_looked_at():
    (image, kinds), one = of_pairs(), door(partial(reader, columns=USED))
    [before] = one.read(image, *kinds)
    image.blocks.weights[:] *= 1000
    refuses(lambda: one.read(image, *kinds), ValueError, "weights are from 0")
    image.blocks.weights[:] //= 1000
    [after] = one.read(image, *kinds)
    assert integers(before) == integers(after)


# --- one that lies about numbers ------------------------------------------------------------------


class Liar(float):
    """A share that is dear where noise is made of it, and cheap where it is counted."""

    def as_integer_ratio(self):
        return (1, 2**60)

    def __lt__(self, other):
        return True

    __gt__ = __lt__


class Turncoat:
    """A number that is another one each time."""

    def __init__(self, *says):
        self.says = iter(says)

    def __float__(self):
        return next(self.says)

    def __gt__(self, other):
        return True

    __lt__ = __gt__


@pytest.mark.parametrize("lie", [lambda: Liar(0.75), lambda: Turncoat(0.75, 1e-9, 1e-9, 1e-9)])
def test_a_share_that_lies_is_counted_as_it_is_drawn(lie):
    one = door()
    [total] = one.read(IMAGE, Vectors(Model.features(2)))
    noisy = one.release(total, lie())
    assert one.spent == 0.75
    assert noisy.mu == one.mu(0.75)
    with pytest.raises(Spent):
        one.release(total, Liar(0.75))
    for odd in (None, [0.1], 1j):
        with pytest.raises((TypeError, ValueError)):
            one.release(total, odd)
    assert one.spent == 0.75


def test_weights_of_a_mixture_that_lie_are_paid_as_they_are_added():
    class Weight(int):
        def __int__(self):
            return 1

        def __lt__(self, other):
            return False

    one, parts = gate_of(), ["p", "q"]
    sums = [one.adopt(moment_of(part), i) for i, part in enumerate(parts)]
    mixed = one.mix(sums, [Weight(3), Weight(-1)], 0)
    assert integers(mixed) == [sum(each) for each in zip(*map(integers, sums), strict=True)]
    one.release(mixed, 0.25)
    assert one.spent == 0.25


def test_sums_of_a_mixture_are_those_that_were_looked_at():
    """A list that has parts 0 and 1 while it is looked at, and then the first one twice."""
    one = gate_of()
    first, second = one.adopt(moment_of("p"), 0), one.adopt(moment_of("q", "q"), 1)

    class Turns(list):
        asked = 0

        def __iter__(self):
            self.asked += 1
            return iter([first, second] if self.asked == 1 else [first, first])

    mixed = one.mix(Turns([first, second]), [1, 1], 0)
    assert integers(mixed) == [
        sum(both) for both in zip(*map(integers, (first, second)), strict=True)
    ]


# --- one that looks -------------------------------------------------------------------------------


class Spy(np.ndarray):
    """An array that is asked when it meets others, and keeps what it saw."""

    seen: ClassVar[list] = []

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        Spy.seen += [one for one in inputs if isinstance(one, np.ndarray)]
        plain = [np.asarray(one) for one in inputs]
        return getattr(ufunc, method)(*plain, **options).view(Spy)

    def __array_function__(self, func, types, args, kwargs):
        Spy.seen += [one for one in args if isinstance(one, np.ndarray)]
        return super().__array_function__(func, types, args, kwargs)

    def __getitem__(self, at):
        Spy.seen += [at] if isinstance(at, np.ndarray) else []
        return super().__getitem__(at)


def spied(thing, *names):
    write(thing, **{name: getattr(thing, name).view(Spy) for name in names})
    return thing


def spies():
    learner = spied(Learner(np.zeros((2, 2))), "coef")
    edges = spied(Histogram(Model.features(2), np.array([0.1, 0.2, math.inf])), "edges")
    level = LevelImage(USED, OTHERS, "f", np.eye(2, 3), np.zeros((3, 2)))
    pair, kinds = of_pairs()
    write(pair, blocks=spied(pair.blocks, "bins", "weights"))
    return [
        (reader, spied(Image(np.eye(2, 3), 2.0), "matrix"), edges),
        (partial(reader, columns=USED), spied(level, "matrix", "centres"), edges),
        (partial(reader, columns=USED), spied(pair, "matrix"), kinds[0]),
        (kept_reader, spied(of_kept(HeldOut)[0], "directions", "deviations"), Scores(learner)),
    ]


@pytest.mark.parametrize("which", range(4))
def test_arrays_of_a_class_of_their_own_see_no_row(which):
    read, image, kind = spies()[which]
    Spy.seen.clear()
    one = door(read)
    for _ in range(2):
        one.read(image, kind)
    assert not any(one.size >= N for one in Spy.seen)


class Watcher:
    """Stands for columns, or a number, and passes on what it is asked."""

    def __init__(self, real, seen):
        self.real, self.seen = real, seen

    def __getattr__(self, name):
        self.seen.append(name)
        return getattr(self.real, name)


def test_objects_that_stand_for_numbers_or_columns_are_refused():
    seen = []
    watch = partial(Watcher, seen=seen)
    one = door(partial(reader, columns=USED))
    level = LevelImage(watch(USED), OTHERS, "f", np.eye(2, 3))
    objects = Image(np.array([[watch(1.0)] * 3] * 2), 2.0)
    features = Vectors(Model.features(2))
    cases = [
        (level, features),
        (objects, features),
        (Image(np.eye(2, 3), watch(2.0)), features),
        (IMAGE, Vectors(watch(Model.features(2)))),
        (IMAGE, Vectors(Model(watch(Model.features(2).score)))),
        (watch(IMAGE), features),
        (IMAGE, watch(features)),
    ]
    for image, kind in cases:
        with pytest.raises(TypeError, match="no sum of images"):
            one.read(image, kind)
    assert "encoder" not in seen


def test_an_image_that_is_written_into_while_kinds_are_read_is_told_no_number_of_rows():
    seen = []
    image, _ = of_kept(Scores)

    class Writes(tuple):
        def __iter__(self):
            write(image, fits=lambda n: seen.append(n) or False)
            return super().__iter__()

    one = door(kept_reader)
    for targets in ((0, 1), Writes((0, 1))):  # the gate knows the number of rows by the first
        one.read(image, Scores(Learner(np.zeros((2, 2)), targets)))
    assert not seen


def test_numbers_of_fewer_levels_than_rows_have_are_refused_before_a_row_is_read():
    """Or whether it fails would tell if a row has the level that is left out."""
    of_level = Vectors(Model.features(2), groups=2)
    cases = [
        (PairImage(replace(blocks(), bins=blocks().bins[:2]), np.eye(2, 3)), of_pairs()[1][0]),
        (
            PairImage(replace(blocks(), weights=blocks().weights[:2]), np.eye(2, 3)),
            of_pairs()[1][0],
        ),
        (LevelImage(USED, OTHERS, "f", np.eye(2, 3), np.zeros((2, 2))), of_level),
        (LevelImage(USED, OTHERS, "x", np.eye(2, 3)), of_level),
    ]

    def never(new):
        raise AssertionError("a row was read")

    for image, kind in cases:
        with pytest.raises(ValueError, match="of all levels of a factor"):
            door(never).read(image, kind)


def test_pairs_of_models_that_have_none_are_refused_before_a_row_is_read():
    """What a pair's vector changes its sign with would turn with the order of rows."""
    fitted = Model(Score("binomial", 1, np.ones(1), target=(0.5, 0.5)), 1.0)
    image, _ = of_pairs()
    for kind in (Vectors(Model.features(2), 1.0), Vectors(fitted, 1.0), Outer(fitted, 1.0)):
        with pytest.raises(TypeError, match="sums over pairs"):
            door(None).read(image, kind)


EDGES = np.array([0.1, 0.2, math.inf])
LEVELS = partial(LevelImage, USED, OTHERS, "f")
ODD = {
    "edges that descend": lambda: (IMAGE, Histogram(Model.features(2), EDGES[::-1])),
    "a last edge below": lambda: (IMAGE, Histogram(Model.features(2), np.append(EDGES[:2], 0.0))),
    "edges of two axes": lambda: (IMAGE, Histogram(Model.features(2), EDGES[:, None])),
    "edges in a list": lambda: (IMAGE, Histogram(Model.features(2), EDGES.tolist())),
    "few numbers": lambda: (IMAGE, Vectors(Model.features(3))),
    "no residual": lambda: (IMAGE, Outer(Model.residual(2))),
    "other rows": lambda: (Image(np.eye(2), 2.0), Vectors(Model.features(2))),
    "no matrix": lambda: (Image(np.ones(3), 2.0), Vectors(Model.features(1))),
    "levels of nothing": lambda: (
        IMAGE,
        Outer(Model.features(2), beside=[(2, 3, 0.5)], positions=range(2)),
    ),
    "few centres": lambda: (LEVELS(np.eye(2, 3), np.zeros((3, 1))), Vectors(Model.features(2))),
    "flat centres": lambda: (LEVELS(np.eye(2, 3), np.zeros(3)), Vectors(Model.features(2))),
    "other columns": lambda: (LEVELS(np.eye(2)), Vectors(Model.features(2))),
    "numbers of a level": lambda: (
        LEVELS(np.eye(2, 3)),
        Vectors(Model(Score("none", 2), of_level="weight")),
    ),
    "no bins": lambda: (of_kept(HeldOut)[0], HeldOut(Learner(np.zeros((2, 2))), bins=0)),
    "few deviations": lambda: (
        KeptImage(np.eye(3, 2), np.ones(1), 2.0, 2.0, 2),
        HeldOut(Learner(np.zeros((1, 2)))),
    ),
    "no bound": lambda: (replace(of_kept(HeldOut)[0], bound=math.nan), *of_kept(HeldOut)[1]),
    "more beside": lambda: (replace(of_kept(HeldOut)[0], beside=3), *of_kept(HeldOut)[1]),
    "a target before": lambda: (
        of_kept(Scores)[0],
        Scores(Learner(np.zeros((2, 2)), (0, -1))),
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_fails_of_rows_fails_of_none_too(odd):
    """Or a client would be told whether there is one, after the first draw too."""
    nobody = {name: column[:0] for name, column in TABLE.items()}

    def read(new):
        if isinstance(image, KeptImage):
            return new(5)
        columns = USED if isinstance(image, LevelImage) else OTHERS
        return accumulate(ScanRequest(nobody, columns, threads=1), new)[0]

    try:
        image, kind = ODD[odd]()
    except ValueError:
        return
    with pytest.raises((TypeError, ValueError)):
        door(read).read(image, kind)


def test_arrays_of_other_types_are_read_as_float64():
    kinds = [Histogram(Model.features(2), edges) for edges in (EDGES, EDGES.astype(np.longdouble))]
    for image in (IMAGE, Image(np.eye(2, 3, dtype=np.float32), 2.0)):
        one, other = door().read(image, *kinds)
        assert integers(one) == integers(other)


@pytest.mark.parametrize("longer", [1.01, 1e12, math.nan])
def test_axes_of_kept_images_are_no_longer_than_one(longer):
    """Products of longer ones are not exact, and turn with the place of a row in its block."""
    with pytest.raises(ValueError, match="orthonormal"):
        KeptImage(longer * np.eye(3, 2), np.ones(2), 2.0, 2.0)


def test_numbers_of_other_types_are_read_as_plain_ones():
    class Block(NamedTuple):
        start: int
        size: int
        entry: float

    image = Image(np.eye(1, 3), np.float64(2.0), range(1, 1))
    for size in (1, np.int64(1), np.int32(1)):
        kinds = [
            Vectors(Model.features(1), np.float32(0.5), size),
            Outer(Model.features(1), 1.0, beside=[]),
        ]
        vectors, second = door().read(image, *kinds)
        assert type(vectors.kind.groups) is int
        assert second.kind.beside == ()
    kind = Outer(Model.features(1), 1.0, beside=[Block(1, 2, 0.5)], positions=range(1))
    assert gate.own(kind, {}).beside == ((1, 2, 0.5),)


def test_columns_that_were_written_into_see_no_row():
    """What they make of a table is in names of theirs that anybody may write."""
    seen = []

    class Looks:
        def __init__(self, real):
            self.real = real

        def __getattr__(self, name):
            def asked(*given):
                seen.extend(given)
                return getattr(self.real, name)(*given)

            return asked

    def spied():
        used = pickle.loads(pickle.dumps(USED))
        vars(used)["encoder"] = Looks(used.encoder)
        vars(used)["to_dict"] = lambda: pytest.fail("its own way to say what it is")
        return used

    one, kind = door(partial(reader, columns=USED)), Outer(Model.features(2))
    before = integers(*one.read(LevelImage(USED, OTHERS, "f", np.eye(2, 3)), kind))
    made = replace(blocks(), read=spied())
    for image in (LevelImage(spied(), OTHERS, "f", np.eye(2, 3)), PairImage(made, np.eye(2, 3))):
        [total] = one.read(image, kind)
        assert isinstance(image, PairImage) or integers(total) == before
    assert not seen


class Claims(np.ndarray):
    """Objects that say they are numbers."""

    dtype = np.dtype(float)


class OfAnyType(type):
    """The type of a type that is equal to whatever it is compared with."""

    def __eq__(cls, other):
        return True

    def __hash__(cls):
        return hash(float)


class Anything(metaclass=OfAnyType):
    pass


def test_what_says_that_it_is_plain_is_not_believed():
    liar = np.array([[object(), object()]], dtype=object).view(Claims)
    for given in (liar, Anything()):
        with pytest.raises(TypeError, match="no sum of images"):
            gate.own(given, {})


def test_an_error_that_tells_of_a_row_is_not_kept_with_the_one_that_leaves():
    calls = []

    def failing(new):
        calls.append(new)
        if len(calls) > 1:
            raise ValueError("row 17 has 1234.5")
        return reader(new)

    one = door(failing)
    [total] = one.read(IMAGE, Vectors(Model.features(2)))
    one.release(total, 0.25)
    with pytest.raises(UnreadError) as caught:
        one.read(IMAGE, Vectors(Model.features(2)))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_table_that_fails_in_a_way_that_is_no_exception_tells_nothing():
    """As libraries of tables do where they panic, or a source that is interrupted."""

    class Panic(BaseException):
        pass

    kinds = {Panic: UnreadError, KeyboardInterrupt: KeyboardInterrupt, SystemExit: SystemExit}
    for raised, left in kinds.items():
        one = door()
        failing = one.on(lambda _, raised=raised: (_ for _ in ()).throw(raised("row 17 has 1234")))
        with pytest.raises(raised, match="1234"):  # of the holder, while nothing is spent
            failing.read(IMAGE, Vectors(Model.features(2)))
        one.release(one.adopt(3), 0.25)
        with pytest.raises(left) as caught:
            failing.read(IMAGE, Vectors(Model.features(2)))
        assert "1234" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("tiny", [1.0, 1e-300])
def test_numpy_that_is_asked_to_fail_does_not_tell_of_a_row(tiny):
    def read(new):
        made = new(3)
        made.add_units(Prepared(np.full((2, 3), tiny, order="F")), np.array([0, 1]))
        return made

    one = door(read)
    one._of_units = True
    kind = Histogram(Model.features(2), np.array([0.1, 0.2, math.inf]), together="squares")
    with np.errstate(all="raise"):
        assert one.read(IMAGE, kind)
        assert np.geterr()["over"] == "raise"


# --- one that stops, and goes on ------------------------------------------------------------------


def test_to_stop_again_says_the_same_and_settles_once(tmp_path):
    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6)
    noise = noise_of()
    with Gate(noise, np.random.default_rng(0), reader, ledger=ledger, price=noise.price) as one:
        [total] = one.read(IMAGE, Vectors(Model.features(2)))
        one.release(total, 0.25)
        spent, entries = one.stop(), ledger.entries
        assert spent == one.stop() == one.on(reader).stop()
    assert one.stop() == spent
    assert ledger.entries == entries
    assert spent.sensitivity_ratio == pytest.approx(one.mu(0.25), rel=1e-6)
    for share in (1e-9, 0.75):
        with pytest.raises(Spent):
            one.release(total, share)
    assert gate_of().stop() is None


# --- one that breaks into a draw ------------------------------------------------------------------


def breaks_in(what):
    """A ledger that asks for more in the middle of a draw, as a signal's handler may."""

    class Meddler(pg.Ledger):
        def hold(self, price, floor):
            with suppress(Spent):
                what()
            return super().hold(price, floor)

    return Meddler


@pytest.mark.parametrize("what", ["releases", "stops", "resumes", "enters"])
def test_nothing_is_counted_or_settled_in_the_middle_of_a_draw(what, tmp_path):
    got = []
    do = {
        "releases": lambda: got.append(one.release(total, 0.5)),
        "stops": lambda: got.append(one.stop()),
        "resumes": lambda: got.append(one.resume(np.array([[1]]), 0, 0.5)),
        "enters": lambda: got.append(one.enter()),
    }
    noise = noise_of()
    ledger = breaks_in(do[what])(tmp_path / "it", 1.0, 1e-6)
    one = Gate(noise, np.random.default_rng(0), reader, ledger=ledger, price=noise.price)
    [total] = one.read(IMAGE, Vectors(Model.features(2)))
    one.release(total, 0.75)
    assert got == []
    assert one.spent == 0.75
    assert len(ledger.entries) == 1
    with pytest.raises(Spent):
        one.release(total, 0.5)


def test_a_fork_between_the_reservation_and_the_noise_draws_nothing(tmp_path, monkeypatch):
    """The child would have the parent's noise, also by a generator that does not look."""
    forks = partial(monkeypatch.setattr, "os.getpid", lambda: -1)
    noise = noise_of()
    ledger = breaks_in(forks)(tmp_path / "it", 1.0, 1e-6)
    one = Gate(noise, np.random.default_rng(0), reader, ledger=ledger, price=noise.price)
    refuses(lambda: one.release(one.adopt(3), 0.5), RuntimeError, "no part in the pass")


def test_a_choice_does_not_lend_its_price_to_other_noise(tmp_path):
    """It fails after its price was made, and noise at mu is to be drawn for that."""

    class Fails:
        asked = 0

        @property
        def counts(self):
            self.asked += 1
            if self.asked > 1:
                raise MemoryError
            return np.array([0, 900, 3])

    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6)
    noise = noise_of()
    one = Gate(noise, np.random.default_rng(0), reader, ledger=ledger, price=noise.price)
    refuses(lambda: one.choose(Fails(), 0.5), Spent, "chooses nothing")
    one.release(one.adopt(3), 1.0)
    assert [entry.privacy for entry in ledger.entries] == [noise.privacy]


def test_noise_without_a_profile_has_a_price_of_its_own_too(tmp_path):
    """As laws have whose delta alone is known: neither a choice's, nor another's."""
    price = replace(noise_of().price, privacy=None)
    noise = SimpleNamespace(privacy=None, price=price, adjacency="replace", unit=None, epsilon=1.0)
    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6, composition="basic")
    with pytest.raises(ValueError, match="another noise"):
        Gate(noise, np.random.default_rng(0), ledger=ledger, price=replace(price, delta=0.0))
    one = Gate(noise, np.random.default_rng(0), ledger=ledger, price=price)
    refuses(lambda: one.choose(SimpleNamespace(counts=[1, 2]), 0.5), Spent, "chooses nothing")
    assert one._budget.price == price


def test_noise_that_costs_less_than_it_tells_opens_no_gate(tmp_path):
    noise = noise_of()
    cheap = replace(noise, privacy=replace(noise.privacy, sensitivity_ratio=1e-3))
    stands = SimpleNamespace(privacy=noise.privacy, price=cheap.price, adjacency="replace")
    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6)
    with pytest.raises(ValueError, match="another noise"):
        Gate(stands, np.random.default_rng(0), reader, ledger=ledger, price=cheap.price)


def test_a_sum_is_made_by_a_gate_alone():
    """Or a client would state by how much it moves."""
    one = gate_of()
    kind = replace(one.adopt(moment_of("p")).kind, whole=1e-9)
    for first in ((one,), (one, 0), (one.adopt(3), 0)):
        with pytest.raises((TypeError, AttributeError)):
            one.release(gate.Sum(*first, kind, moment_of("p"), 1), 0.25)
    assert one.spent == 0


class Own(pg.MatrixLaplace):
    """A mechanism that says what its noise is."""

    said: ClassVar = None

    def noise_for(self, *_):
        return Own.said


def test_a_law_of_its_own_has_the_noise_that_its_mechanism_has():
    mechanism = pg.MatrixLaplace()
    noise = Own.said = noise_of(mechanism=mechanism)
    long = pg.second_moment(np.full((3, 2), 100.0), bound=1e3)
    written = pg.MatrixLaplace()
    object.__setattr__(written, "noise_for", lambda *_: noise)
    for lies in (Own(), written):
        one = gate_of(noise=noise)
        with pytest.raises((TypeError, ValueError), match=r"no draw for|that of another"):
            one.once(lies, one.adopt(long))
        assert one.spent == 0
    assert one.once(mechanism, one.adopt(moment_of("p"))).matrix.shape == (2, 2)


def test_a_law_for_units_of_one_norm_is_not_drawn_for_another():
    """Where Frobenius' norm of a unit is bounded, its trace may be longer."""
    table = {"x": np.array([1.0, 0.0]), "y": np.array([0.0, 1.0]), "who": np.zeros(2, int)}
    units = {clip: pg.Unit("who", bound=1.0, clip=clip) for clip in ("trace", "frobenius")}
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)})
    found = {clip: pg.second_moment(table, columns=columns, unit=it) for clip, it in units.items()}
    guarantee = Guarantee(1.0, 1e-6, "add-remove", found["trace"].privacy_unit)
    bound = found["trace"].sensitivity_bound
    assert found["frobenius"].sensitivity_bound == bound
    assert np.trace(found["frobenius"].matrix()) > 1.4 * bound**2
    noise = release_noise(pg.MatrixLaplace(), guarantee, 2, bound, None, False)
    one = Gate(noise, np.random.default_rng(0))
    adopted = one.adopt(found["frobenius"])
    refuses(lambda: one.once(pg.MatrixLaplace(), adopted), ValueError, "other units")
    assert one.once(pg.MatrixLaplace(), one.adopt(found["trace"])).matrix.shape == (2, 2)


class Same(Price):
    """A price that is equal to any."""

    def __eq__(self, other):
        return True

    __hash__ = None


def test_a_price_that_says_it_is_the_noises_is_entered_as_the_noises(tmp_path):
    noise = noise_of()
    cheap = replace(noise, privacy=replace(noise.privacy, sensitivity_ratio=1e-3))
    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6)
    one = Gate(
        noise, np.random.default_rng(0), reader, ledger=ledger, price=Same(**vars(cheap.price))
    )
    one.release(one.adopt(3), 1.0)
    assert [entry.privacy for entry in ledger.entries] == [noise.privacy]


def test_noise_for_other_neighbours_than_its_price_opens_no_gate(tmp_path):
    noise = noise_of()
    stands = SimpleNamespace(privacy=noise.privacy, adjacency="replace", unit=None)
    ledger = pg.Ledger(tmp_path / "it", 1.0, 1e-6)
    for other in ({"adjacency": "add-remove"}, {"unit": "who"}):
        stands.price = replace(noise.price, **other)
        with pytest.raises(ValueError, match="other neighbours"):
            Gate(stands, np.random.default_rng(0), reader, ledger=ledger, price=stands.price)


# --- one that names parts, or places, that are something else each time ---------------------------


def test_places_that_lie_are_paid_as_they_are_added():
    class Places(int):
        def __rpow__(self, base):
            return 10**30

        __rmul__ = __rpow__

    one = gate_of()
    mixed = one.mix([one.adopt(moment_of("p"), 0)], [1], Places(0))
    one.release(mixed, 0.75)
    assert one.spent == 0.75
    refuses(lambda: one.mix([one.adopt(moment_of("p"), 0)], [1], -1), ValueError, "not negative")


@pytest.mark.parametrize("share", [-0.25, math.nan, math.inf])
def test_what_was_drawn_before_is_counted_exactly_or_refused(share):
    one = gate_of()
    one.resume(np.array([[1.0]]), 0.0, 0.25)  # as floats, small shares after it would be lost
    assert one._budget.parts == {(0, 0): Fraction(1, 4)}
    assert all(type(each) is Fraction for each in one._budget.parts.values())
    with pytest.raises((ValueError, OverflowError)):
        one.resume(np.array([[1]]), 0, share)
    assert one.spent == 0.25


def test_a_part_that_is_another_one_each_time_is_refused():
    class Part:
        def __hash__(self):
            return id(object())

        def __eq__(self, other):
            return False

    one = gate_of()
    for part in (Part(), math.nan, (0,), True):
        with pytest.raises(TypeError, match="a part has"):
            one.adopt(3, part)


SHARES = [0.25, np.float32(0.25), np.longdouble(0.25), Fraction(1, 4), np.array(0.25), "0.25"]


@pytest.mark.parametrize("share", SHARES, ids=lambda x: type(x).__name__)
def test_a_share_of_any_type_is_that_number(share):
    one = gate_of()
    assert one.release(one.adopt(3), share).mu == one.mu(0.25)
    assert one.spent == 0.25


@pytest.mark.parametrize("share", [math.nan, np.float64("nan"), -0.0, Fraction(-1, 4), 5e-324])
def test_a_share_that_is_no_share_draws_nothing_or_is_counted(share):
    one = gate_of()
    with pytest.raises((Spent, OverflowError, ValueError, ZeroDivisionError)):
        one.release(one.adopt(3), share)
    assert one.spent == (float(share) if share > 0 else 0.0)


# --- one whose table fails in the middle ----------------------------------------------------------


def test_a_table_that_fails_in_the_middle_of_a_pass_tells_nothing_and_leaves_no_sum():
    class Blocks:
        fails = False

        def __iter__(self):
            yield {name: column[:20] for name, column in TABLE.items()}
            if self.fails:
                raise ValueError(f"row 21 has {TABLE['x'][20]}")
            yield {name: column[20:] for name, column in TABLE.items()}

    blocks = Blocks()

    def read(new):
        return accumulate(ScanRequest(blocks, OTHERS, threads=1), new)[0]

    one = door(read)
    [total] = one.read(IMAGE, Vectors(Model.features(2)))
    one.release(total, 0.25)
    blocks.fails = True
    with pytest.raises(UnreadError) as caught:
        one.read(IMAGE, Vectors(Model.features(2)))
    assert str(caught.value) == gate.UNREADABLE
    assert caught.value.__cause__ is caught.value.__context__ is None
    blocks.fails = False
    [again] = one.read(IMAGE, Vectors(Model.features(2)))
    assert integers(again) == integers(total)


# --- blocks of more rows than 64 bits hold pairs of -----------------------------------------------


@pytest.mark.parametrize("size", [2**19 - 1, 2**19, 2**19 + 1, 2**20])
def test_a_row_that_joins_a_large_block_moves_it_by_what_the_kind_says(size):
    """All its pairs as long as they may be, along the block's vector or against it."""
    from privgram._core.scores import UNITS
    from privgram.secret.kinds import HEAVIEST, MOST_WEIGHT, PULL
    from privgram.secret.sweep import LARGE, _projected

    kind = Vectors(Model.residual(1), of_pairs=True)
    longest = int((2 + PULL * (size + 1)) * UNITS) * size // 2
    for before in (size * (size - 1) // 2 * UNITS, longest, longest - size * UNITS, 0):
        for joins in (size * UNITS, -size * UNITS):
            made = []
            for n, total in ((size, before), (size + 1, before + joins)):
                array = np.array([[total]], object if n > LARGE else np.int64)
                made.append(int(_projected(array, n, MOST_WEIGHT)[0]))
            assert abs(made[1] - made[0]) <= kind.moves("add-remove")
            assert all(abs(one) <= (2 + PULL * (size + 2)) * UNITS * HEAVIEST + 1 for one in made)


# --- a table whose labels are of two types --------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_counts_by_ten_thousand_levels_of_two_types_move_by_one_row(adjacency):
    """One label is another, of whatever type: no other row is counted elsewhere."""
    n, levels = 3000, [str(i) for i in range(10_000)]
    rng = np.random.default_rng(0)
    labels = [int(s) if i % 3 == 0 else s for i, s in enumerate(rng.choice(levels, n).tolist())]
    labels[1] = "9999"
    x = rng.uniform(0, 1, n)

    def counted(label, keep=n):
        table = {"x": x[:keep], "g": np.array([label, *labels[1:]][:keep], object)}
        study = pg.Study(
            table, {"x": (0, 1), "g": levels}, epsilon=9.0, delta=1e-6, missing="drop",
            adjacency=adjacency,
        )  # fmt: skip
        sums, real = [], Gate.release

        def watched(self, total, share, **options):
            sums.append((total.kind.moves(self.adjacency), np.array(integers(total))))
            return real(self, total, share, **options)

        with mock.patch.object(Gate, "release", watched):
            study.summarize("x", by="g", epsilon=1.0, rng=np.random.default_rng(0))
        return sums

    own = counted("7")
    assert own
    others = [7, 7.0, True, None, math.nan, b"7", 2**70, ("7",), "nobody", "9999", np.str_("7")]
    tables = [counted(label) for label in others]
    if adjacency == "add-remove":
        tables = [counted("7", n - 1)]
    moved = 0
    for found in tables:
        assert len(found) == len(own)
        for (most, one), (_, other) in zip(own, found, strict=True):
            step = (one - other).reshape(-1)
            assert math.sqrt((step**2).sum()) <= most * (1 + 1e-12)
            assert np.count_nonzero(step) <= 2
            moved += np.count_nonzero(step)
    assert moved
