"""The gate: what is counted, what is entered, and what nobody gets by it."""

import copy
import math
import os
import pickle
import threading
import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from support.helpers import refuses
from support.sums import integers

import privgram as pg
from privgram.adaptive.rules import UnreadError
from privgram.disclosure import laws  # noqa: F401  # which registers them
from privgram.ledger import BudgetExceeded
from privgram.mechanisms import release_noise
from privgram.privacy.guarantee import Guarantee
from privgram.secret import gate
from privgram.secret.gate import Gate, Spent
from privgram.secret.kinds import (
    Errors,
    HeldOut,
    Learner,
    Model,
    Moment,
    Outer,
    Rows,
    Scores,
    Vectors,
)
from privgram.secret.sweep import Image, KeptImage

COLUMNS = pg.Columns({"x": (0, 1), "y": (0, 1)})
GROUPS = pg.Groups("part", ["p", "q", "r"])
ADJACENCIES = ["replace", "add-remove"]
GAUSS = pg.AnalyzeGauss()


def table_of(*parts, y=1.0):
    n = len(parts)
    return {"x": np.ones(n), "y": np.full(n, y), "part": np.array(parts, object)}


def moment_of(*parts):
    return pg.second_moment(table_of(*parts), columns=COLUMNS)


def moments(table):
    return pg.second_moment(table, columns=COLUMNS, by=GROUPS).values()


def noise_of(adjacency="replace", mechanism=GAUSS, groups=False):
    guarantee = Guarantee(1.0, 1e-6, adjacency, None)
    return release_noise(mechanism, guarantee, 2, moment_of("p").sensitivity_bound, None, groups)


def gate_of(adjacency="replace", reader=None, noise=None, **more):
    noise = noise_of(adjacency) if noise is None else noise
    return Gate(noise, np.random.default_rng(0), reader, price=noise.price, **more)


@pytest.fixture
def ledger(tmp_path):
    return pg.Ledger(tmp_path / "it.ledger", 1.0, 1e-6)


def released(one, total, share):
    """The deviation that noise on the diagonal has, in integers."""
    with mock.patch.object(gate, "noisy_matrix", wraps=gate.noisy_matrix) as drawn:
        one.release(total, share)
    return drawn.call_args.args[2]


# --- parts of the rows ----------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_parts_pay_for_themselves_and_a_row_that_changes_its_part_for_both(adjacency):
    """The farthest neighbours there are: all shares are spent, and they are as far as mu says."""
    after = table_of("p", "q", "q", y=1.0) if adjacency == "replace" else table_of("p", "q")
    one = gate_of(adjacency)
    both = [moments(table_of("p", "p", "q")), moments(after)]
    own, others = ([one.adopt(m, i) for i, m in enumerate(each)] for each in both)
    apart = 0.0
    for ours, theirs in zip(own, others, strict=True):
        std = released(one, ours, 1.0)
        step = np.array(integers(ours), float) - np.array(integers(theirs), float)
        apart += float((step**2 * [1, 2, 1]).sum()) / std**2
        with pytest.raises(Spent, match="beyond what is left"):
            one.release(ours, 1e-6)
    assert 0.9 * one.mu(1.0) ** 2 < apart <= one.mu(1.0) ** 2
    assert one.spent == 1.0
    with pytest.raises(Spent):  # which is of all parts
        one.release(one.adopt(moment_of("p")), 1e-6)


def test_what_is_of_all_rows_adds_to_the_part_that_has_the_most():
    one = gate_of()
    p, q, _ = (one.adopt(m, i) for i, m in enumerate(moments(table_of("p", "q"))))
    for total, share in ((p, 0.25), (q, 0.375), (p.rows, 0.125), (one.adopt(7), 0.625)):
        one.release(total, share)
    assert one.spent == 1.0
    with pytest.raises(Spent):
        one.release(q, 2.0**-30)


def test_parts_of_one_reading_are_no_parts_of_another():
    """A reader may have others in them: whoever is in both pays for both."""
    one = gate_of()
    other = one.on(None)
    p, q = moments(table_of("p", "q"))[:2]
    one.release(one.adopt(p, "learnt"), 0.5)
    one.release(one.adopt(q, "held out"), 0.5)
    other.release(other.adopt(p, "held out"), 0.5)
    assert one.spent == other.spent == 1.0
    for door, part in ((one, "learnt"), (other, "held out"), (one.on(None), "learnt")):
        with pytest.raises(Spent):
            door.release(door.adopt(p, part), 1e-3)
    other.release(other.adopt(q, "learnt"), 0.5)


def test_ways_to_part_the_rows_add_up():
    """Whoever is in a group is learnt from too, and may be held out by another column."""
    table = np.random.default_rng(0).normal(size=(8, 5))

    def read(new):
        (made := new(5)).update(table)
        return made

    one, learner = gate_of("add-remove", read), Learner(np.zeros((2, 2)))
    image = KeptImage(np.eye(3, 2), np.ones(2), 1.0, 1.0, 2)
    learnt, held = one.read(image, Scores(learner), HeldOut(learner))
    [by_another] = one.read(KeptImage(np.eye(4, 2), np.ones(2), 1.0, 1.0, 1), HeldOut(learner))
    for total in (learnt, held):
        one.release(total, 0.5)
    assert one.spent == 0.5
    for total in (by_another, one.adopt(moment_of("p"), 0)):
        one.release(total, 0.25)
    assert one.spent == 1.0
    one.read(image, HeldOut(learner))
    object.__setattr__(image, "beside", 1)  # of images that are kept: what they are does not change
    [kept] = one.read(image, HeldOut(learner))
    assert integers(kept) == integers(held)
    with pytest.raises(Spent):
        one.release(kept, 0.5)
    one.release(one.adopt(moment_of("p"), 1), 0.25)
    for total in (by_another, one.adopt(moment_of("p"), "learnt")):
        with pytest.raises(Spent):
            one.release(total, 1e-3)


def test_somebody_in_several_parts_is_in_those_of_another_reading_too():
    """In part 0 of one reading, and in part 1 of another: of each there is one at most."""
    one = gate_of("add-remove", overlap=lambda shared: float(shared.diagonal().max()))
    other = one.on(None)
    for door, weights in ((one, [1, 0]), (other, [0, 1])):
        parts = [door.adopt(each, i) for i, each in enumerate(moments(table_of("p", "q"))[:2])]
        door.release(door.mix(parts, weights, 0), 0.5)
    assert one.spent == pytest.approx(1.0)
    with pytest.raises(Spent):
        other.release(other.mix([other.adopt(moment_of("p"), 0)], [1], 0), 0.75)


def test_noise_that_has_no_number_is_refused_before_it_is_paid():
    def read(new):
        (made := new(2)).update(np.ones((3, 2)))
        return made

    one = gate_of(reader=read)
    [wide] = one.read(Image(np.eye(2), 1.0), Outer(Model.features(2), 1e200))
    for total in (wide, one.mix([one.adopt(moment_of("p"), 0)], [1], 2000)):
        with pytest.raises(OverflowError):
            one.release(total, 0.25)
    assert one._budget.parts == {}


def test_rows_that_were_counted_with_others_are_no_sum_of_a_part():
    """Those of all rows, as of each part, would leave twice for what one of them pays."""
    table = np.append(np.ones((4, 2)), [[0.0], [1.0], [-1.0], [-2.0]], axis=1)  # two are held out

    def read(new):
        (made := new(3)).update(table)
        return made

    one = gate_of("add-remove", read)
    learner = Learner(np.zeros((2, 2)))
    learnt, held = one.read(
        KeptImage(np.eye(2), np.ones(2), 1.0, 1.0), Scores(learner), HeldOut(learner)
    )
    parts = [one.adopt(m, i) for i, m in enumerate(moments(table_of("p", "q", "q")))]
    for total in (learnt, held, one.mix(parts, [1, 1, 0], 0)):
        refuses(lambda total=total: total.rows, TypeError, "not counted without others")
    assert [integers(part.rows) for part in parts] == [[1], [2], [0]]


@pytest.mark.parametrize("kind", ["a moment", "a mixture", "rows", "a class of its own"])
def test_kinds_that_no_sweep_makes_are_not_read(kind):
    """Or a client would state by how much they move."""

    class Small(Vectors):
        def moves(self, adjacency):
            return 1e-9

    model = Model.features(2)
    stated = {
        "a moment": Moment(model, 1.0, columns=2, whole=1e-9),
        "a mixture": Moment(model, 1.0, columns=2, whole=1e-9, mixed=True),
        "rows": Rows(model),
        "a class of its own": Small(model),
    }
    read = []
    with pytest.raises(TypeError, match="no sum of images"):
        gate_of(reader=read.append).read(Image(np.eye(2), 1.0), stated[kind])
    assert read == []


def test_mixed_parts_pay_by_the_squares_of_their_weights():
    one = gate_of()
    parts = [one.adopt(m, i) for i, m in enumerate(moments(table_of("p", "q", "r")))]
    mixed = one.mix(parts, [4, 2, 1], 2)
    each = zip(*map(integers, parts), strict=True)
    assert integers(mixed) == [4 * a + 2 * b + c for a, b, c in each]
    assert mixed.kind.unit_of(None) == parts[0].kind.resolution / 4
    std = released(one, mixed, 0.75)
    assert std == pytest.approx(4 * math.sqrt(2) * 2.0**40 / one.mu(0.75), rel=1e-12)
    shares = {(0, i): Fraction(3, 4 ** (i + 1)) for i in range(3)}
    assert one._budget.parts == shares
    with pytest.raises(Spent):
        one.release(one.mix(parts, [3, 0, 0], 2), 0.75)
    one.release(one.mix(parts, [0, 3, 3], 2), 0.75)
    bad = ((parts[1:], [1, 1]), ([parts[0]] * 2, [1, 1]), ([], []), ([one.adopt(3)], [1]))
    for sums, weights in bad:
        with pytest.raises(TypeError):
            one.mix(sums, weights, 0)
    refused = (
        ([0, 0, 0], "all weights are zero"),
        ([4, -2, 1], "not negative"),
        ([2**31, 2**31, 0], "too large"),
    )
    for weights, says in refused:
        with pytest.raises(ValueError, match=says):
            one.mix(parts, weights, 0)


def test_groups_that_share_units_are_neither_counted_nor_mixed():
    """A unit is one of each of its groups, and its matrices are bounded side by side."""
    unit = pg.Unit("who", bound=1.2)
    table = table_of("p", "q", "r") | {"who": np.zeros(3, int)}
    moved = pg.second_moment(table, columns=COLUMNS, by=GROUPS, unit=unit).values()
    guarantee = Guarantee(1.0, 1e-6, "add-remove", unit.protected)
    noise = release_noise(GAUSS, guarantee, 2, moved[0].sensitivity_bound, None, True)
    one = gate_of(noise=noise)
    parts = [one.adopt(each, i) for i, each in enumerate(moved)]
    for part in parts:
        refuses(lambda part=part: part.rows, TypeError, "not counted without others")
    refuses(lambda: one.mix(parts, [1, 1, 1], 0), TypeError, "several of these parts")
    assert np.linalg.norm(sum(each.matrix() for each in moved)) > moved[0].sensitivity_bound ** 2
    apart = 0.0
    for part in parts:  # of one unit, and of none
        std = released(one, part, 1.0)
        apart += float((np.array(integers(part), float) ** 2 * [1, 2, 1]).sum()) / std**2
    assert 0.9 * one.mu(1.0) ** 2 < apart <= one.mu(1.0) ** 2


def test_parts_of_two_readings_are_not_mixed():
    """Whoever is in both would move the mixture by both weights, and pay for the larger."""
    one = gate_of("add-remove")
    other = one.on(None)
    p, q = moments(table_of("p"))[0], moments(table_of("q"))[1]
    for sums in ([one.adopt(p, 0), other.adopt(q, 1)], [other.adopt(p, 0), one.adopt(q, 1)]):
        for door in (one, other):
            with pytest.raises(TypeError, match="of one reading"):
                door.mix(sums, [1, 1], 0)
    one.release(other.mix([one.adopt(p, 0), one.adopt(q, 1)], [1, 1], 0), 0.5)
    assert one._budget.parts == {(0, 0): Fraction(1, 2), (0, 1): Fraction(1, 2)}


def test_gate_that_goes_on_counts_what_was_drawn_before():
    drawn, one, again = np.array([[3, 1], [1, 3]]), gate_of(), gate_of()
    parts = [one.adopt(m, i) for i, m in enumerate(moments(table_of("p", "q"))[:2])]
    for row in drawn:
        one.release(one.mix(parts, row.tolist(), 2), 0.5)
    again.resume(drawn, 2, 0.5)
    again.resume(drawn[:0], 2, 0.5)
    assert again._budget.parts == one._budget.parts


def test_somebody_in_several_parts_pays_for_the_sum_of_their_weights():
    one = gate_of(overlap=lambda shared: float(shared.sum()))
    parts = [one.adopt(m, i) for i, m in enumerate(moments(table_of("p", "q", "r")))]
    one.release(one.mix(parts[:1], [1], 0), 0.0625)
    one.release(one.mix(parts, [1, 1, 1], 0), 0.09375)  # (1 + 1 + 1)^2 of it
    one.release(one.mix(parts[:1], [1], 0), 0.09375)
    with pytest.raises(Spent):
        one.release(one.mix(parts[:2], [1, 0], 0), 1e-3)
    refuses(lambda: one.release(one.adopt(3), 1e-3), Spent, "mixed sums")


def test_shares_too_small_to_be_added_as_floats_are_counted():
    """A client that draws a million of them would have had them all."""
    one = gate_of(overlap=lambda shared: float(shared.sum()))
    mixed = one.mix([one.adopt(moments(table_of("p"))[0], 0)], [1], 0)
    one.release(mixed, 0.5)
    for _ in range(4):
        one.release(mixed, 2.0**-55)
    assert one._budget.spent >= Fraction(1, 2) + 4 * Fraction(1, 2**55)


# --- the ledger -----------------------------------------------------------------------


def test_price_is_entered_at_the_first_draw_and_its_share_is_the_floor(ledger):
    one, mu = gate_of(ledger=ledger), noise_of().privacy.sensitivity_ratio
    total = one.adopt(moment_of("p"))
    for share in (0.0, -1.0, math.nan, math.inf, 1.5):
        with pytest.raises(Spent):
            one.release(total, share)
    assert ledger.entries == ()
    one.release(total, 0.25)
    assert ledger.entries[0].floor == pytest.approx(mu / 2, rel=1e-8)
    one.on(None).release(total, 0.25)  # of one budget, and one entry
    spent = one.stop()
    assert [entry.settled for entry in ledger.entries] == [spent]
    assert mu * math.sqrt(0.5) <= spent.sensitivity_ratio <= mu * math.sqrt(0.5 + 1e-8)
    for door in (one, one.on(None)):
        with pytest.raises(Spent, match="closed"):
            door.release(total, 1e-3)


def test_gate_of_another_price_than_its_noises_is_refused(ledger):
    noise = noise_of()
    less = replace(noise, privacy=replace(noise.privacy, sensitivity_ratio=1e-3)).price
    for price in (less, replace(noise.price, epsilon=0.1), replace(noise.price, unit="who"), None):
        with pytest.raises(ValueError, match="price"):
            Gate(noise, np.random.default_rng(0), ledger=ledger, price=price)


def test_noise_that_is_too_small_to_be_drawn_opens_no_gate():
    noise = noise_of()
    least = replace(noise, privacy=replace(noise.privacy, sensitivity_ratio=gate.MOST_MU))
    one = gate_of(noise=least)
    counts = np.arange(1000)
    assert one.release(one.adopt(counts), 1.0).values == pytest.approx(counts, abs=1e-9)
    less = replace(noise, privacy=replace(noise.privacy, sensitivity_ratio=2 * gate.MOST_MU))
    refuses(lambda: gate_of(noise=less), ValueError, "no noise as small as that")


def test_nothing_is_drawn_that_the_ledger_has_no_room_for(ledger):
    part = replace(noise_of().privacy, sensitivity_ratio=0.9 * gate_of().mu(1.0))
    ledger.spend(0.9, 1e-6, adjacency="replace", unit="", privacy=part)
    one = gate_of(ledger=ledger)
    with mock.patch.object(gate, "noisy_sums", side_effect=AssertionError):
        for _ in range(2):
            with pytest.raises(BudgetExceeded):
                one.release(one.adopt(3), 0.1)
    assert one.spent == 0.0


def test_what_fails_in_the_middle_of_a_draw_is_spent(ledger):
    one = gate_of(ledger=ledger)
    fails = mock.patch.object(gate, "noisy_sums", side_effect=MemoryError)
    with fails, pytest.raises(MemoryError):
        one.release(one.adopt(3), 0.5)
    assert one.spent == 0.5
    with pytest.raises(ZeroDivisionError), one:
        _ = 1 // 0
    refuses(lambda: one.release(one.adopt(3), 0.1), Spent, "closed")
    assert ledger.entries[0].settled is None


def test_threads_cannot_both_have_the_last(ledger):
    one, got, said = gate_of(ledger=ledger), [], []
    total = one.adopt(3)

    def waits(*given):  # in the middle of a draw, where another thread has its turn
        time.sleep(1e-4)
        return np.zeros(1)

    def work():
        try:
            while True:
                one.release(total, 1 / 64)
                got.append(1)
        except Spent as error:
            said.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    with mock.patch.object(gate, "noisy_sums", waits):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(got) == 64
    assert said == ["a share beyond what is left; nothing was drawn"] * 4
    assert one.spent == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="of a fork")
def test_child_of_a_fork_draws_and_settles_nothing(ledger):
    one = gate_of(ledger=ledger, reader=lambda new: None)
    one.release(one.adopt(3), 0.1)
    pid = os.fork()
    if pid == 0:
        refused, gate.noisy_sums = 0, None  # what is not even called
        for use in (lambda: one.release(one.adopt(3), 0.1), one.stop, lambda: one._again(None)):
            try:
                use()
            except RuntimeError:
                refused += 1
        os._exit(0 if refused == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ledger.entries[0].settled is None


# --- what leaves ----------------------------------------------------------------------


def test_a_sum_has_no_numbers_and_is_of_one_gate():
    one = gate_of()
    total = one.adopt(12345)
    assert "12345" not in repr(total)
    for use in (np.asarray, pickle.dumps, lambda x: x + 1, lambda x: np.float64(2) * x, float):
        with pytest.raises(TypeError):
            use(total)
    for copied in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="does not travel"):
            copied(total)
    with pytest.raises(TypeError):
        pickle.dumps(one)
    for other in (gate_of().adopt(3), 3, SimpleNamespace(kind=total.kind, part=None)):
        with pytest.raises(TypeError):
            one.release(other, 0.1)


def test_table_that_cannot_be_read_costs_nothing_and_has_one_text_after_a_draw(ledger):
    class Reader:
        error = KeyError("a name of somebody")

        def __call__(self, new):
            if self.error is not None:
                raise self.error
            return SimpleNamespace(n_rows=7, n_dropped=0)

    reader = Reader()
    one = gate_of(reader=reader, ledger=ledger)
    with pytest.raises(KeyError):
        one.read(Image(np.eye(2), 1.0), Vectors(Model.features(2)))
    assert ledger.entries == ()
    one.release(one.adopt(moment_of("p")), 0.1)
    said = set()
    for error in (KeyError("a"), OSError(2, "b"), None):  # the last is of another number of rows
        reader.error = error
        with pytest.raises(UnreadError) as raised:
            one._again(None)
        said.add(str(raised.value))
    with pytest.raises(UnreadError) as raised:
        one.on(None)._again(None)
    assert said == {str(raised.value)}


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("mechanism", [pg.AdditiveWishart(), pg.MatrixLaplace()], ids=str)
def test_law_of_its_own_is_drawn_once_for_what_it_was_calibrated_to(mechanism, adjacency, tmp_path):
    ledger = pg.Ledger(tmp_path / "it.ledger", 1.0, 1e-6, adjacency, "basic")
    noise = noise_of(adjacency, mechanism)
    one = gate_of(noise=noise, ledger=ledger)
    total = one.adopt(moment_of("p", "q"))
    refuses(lambda: one.release(total, 0.1), Spent, "no Gaussian noise")
    for other in (pg.MatrixLaplace(dof=9), pg.AdditiveWishart(scale=9.0), GAUSS):
        with pytest.raises(ValueError, match="another table, or mechanism"):
            one.once(other, total)
    wide = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    with pytest.raises(ValueError, match="another table"):
        one.once(mechanism, one.adopt(pg.second_moment(table_of("p"), columns=wide)))
    refuses(lambda: one.once(mechanism, one.adopt(3)), TypeError, "second moment of this gate")
    assert ledger.entries == ()
    assert one.once(mechanism, total).matrix.shape == (2, 2)
    assert [entry.privacy for entry in ledger.entries] == [noise.privacy]
    with pytest.raises(Spent):
        one.once(mechanism, total)
    # Parts of the rows have noise of theirs.
    parts = moments(table_of("p", "q"))
    both = gate_of(noise=noise_of(adjacency, mechanism, groups=True))
    for part, moment in enumerate(parts):
        both.once(mechanism, both.adopt(moment, part))
    if adjacency == "replace":
        with pytest.raises(ValueError, match="another table"):
            (one := gate_of(noise=noise)).once(mechanism, one.adopt(parts[0], 0))


@pytest.mark.parametrize(
    ("n_rows", "adjacency", "fits"),
    [(2, "replace", True), (3, "replace", False), (2, "add-remove", False)],
)
def test_number_of_rows_that_a_law_turns_on_is_the_public_one(n_rows, adjacency, fits):
    moment, mechanism = moment_of("p", "q"), pg.MatrixLaplace()
    guarantee = Guarantee(1.0, 1e-6, adjacency, None)
    noise = mechanism.noise_for(guarantee, 2, moment.sensitivity_bound, n_rows)
    one = gate_of(noise=noise)
    if fits:
        one.once(mechanism, one.adopt(moment))
    else:
        refuses(lambda: one.once(mechanism, one.adopt(moment)), ValueError, "number of rows")


def test_choice_enters_its_own_price_and_is_made_once(ledger):
    one = Gate(Guarantee(0.5, 0.0, "replace", None), np.random.default_rng(0), ledger=ledger)
    counts = SimpleNamespace(counts=np.array([0, 900, 3]))
    assert one.choose(counts, 0.5) == 1
    profile = pg.privacy.BoundedRangeProfile(0.5, "replace")
    assert [(e.epsilon, e.privacy) for e in ledger.entries] == [(0.5, profile)]
    for use in (lambda: one.choose(counts, 0.5), lambda: one.release(one.adopt(3), 0.1)):
        with pytest.raises(Spent):
            use()


def test_noise_of_a_triangle_and_of_what_is_no_zero():
    columns = pg.Columns({"x": (0, 1), "f": pg.Factor([1, 2, 3])})
    table = {"x": np.ones(5), "f": np.array([1, 2, 3, 3, 1])}
    moment = pg.second_moment(table, columns=columns)
    guarantee = Guarantee(1.0, 1e-6, "replace", None)
    one = gate_of(noise=GAUSS.noise_for(guarantee, 4, moment.sensitivity_bound))
    total = one.adopt(moment)
    usual = one.release(total, 0.25, zeros=True)
    wide = one.release(total, 0.25, zeros=True, triangular=True)
    assert wide.std == pytest.approx(math.sqrt(2) * usual.std)
    assert wide.std == released(one, total, 0.25) * moment.resolution
    levels = usual.values[1:, 1:]
    assert (levels[~np.eye(3, dtype=bool)] == 0).all()
    assert (np.diag(levels) != 0).all()


@pytest.mark.parametrize("clip", [0.0, -1.0, math.nan, math.inf])
def test_kinds_check_themselves_where_no_row_was_seen(clip):
    refuses(lambda: Vectors(Model.features(2), clip), ValueError, "clip")


def test_second_moment_protects_whom_the_gate_does():
    unit = pg.Unit("who", max_rows=2).settled("replace")
    table = table_of("p", "q") | {"who": np.array([1, 1])}
    made = pg.second_moment(table, columns=COLUMNS, unit=unit), moment_of("p", "q")
    whose = unit.protected, None
    for guarded in (0, 1):
        guarantee = Guarantee(1.0, 1e-6, "replace", whose[guarded])
        one = gate_of(noise=GAUSS.noise_for(guarantee, 2, made[0].sensitivity_bound))
        one.adopt(made[guarded])
        with pytest.raises(ValueError, match="protects others"):
            one.adopt(made[1 - guarded])
        image = KeptImage(np.eye(2), np.ones(2), 1.0, 1.0)
        kind = Scores(Learner(np.zeros((2, 3))))
        says, error = ("images of units", TypeError) if whose[guarded] else ("changed", UnreadError)
        with pytest.raises(error, match=says):
            one.read(image, kind)


def test_which_rows_are_in_the_sums_of_kept_images():
    """Scores of classes are of those that are learnt; of fits to targets, as errors are, of all."""
    classes, fit = Learner(np.zeros((2, 3))), Learner(np.zeros((2, 1)), (0,))
    kinds = Scores(classes), HeldOut(classes), Scores(fit), Errors(fit)
    assert [kind.part for kind in kinds] == ["learnt", "held out", None, None]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_share_is_no_more_than_its_part_of_the_ratio(adjacency):
    noise = noise_of(adjacency)
    one, ratio = gate_of(noise=noise), Fraction(noise.privacy.sensitivity_ratio)
    for share in (1.0, 0.5, 0.3, 1e-9):
        assert 0.999 < Fraction(one.mu(share)) ** 2 / (Fraction(share) * ratio**2) <= 1


def test_number_of_a_part_pays_for_a_row_that_changes_its_part():
    """One column: replaced within a part a row moves it by one, and from one to the other both."""
    one, x = gate_of("replace"), pg.Columns({"x": (0, 1)})
    made = [pg.second_moment({"x": np.ones(2)}, columns=x) for _ in range(3)]
    whole = 4.0**20 / one.mu(0.5)
    assert released(one, one.adopt(made[0]), 0.5) == pytest.approx(whole)
    assert released(one, one.adopt(made[1], 0), 0.5) == pytest.approx(math.sqrt(2.0) * whole)
