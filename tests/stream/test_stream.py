"""Streams: what is published, who can go on, and what is left by a process that dies."""

import itertools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile, NotSavedWarning

pytest.importorskip("cryptography")
from privgram.moment.units import no_rows
from privgram.regression.difference import change
from privgram.regression.groups import regress_groups
from privgram.secret import generators
from privgram.secret.additive import SURPLUS
from privgram.secret.gate import Gate
from privgram.stream import Stream, WrongKey
from privgram.stream.state import StreamState, StreamTerms, read_key

COLUMNS = {"x": (-1, 1), "y": (-1, 1)}


def month(seed, slope=0.5, n=400):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": np.clip(slope * x + rng.normal(0, 0.2, n), -1, 1)}


def study_of(tmp_path, epsilon=2.0, **options):
    return pg.Study(
        month(0) | {"who": np.arange(400)},
        COLUMNS,
        epsilon=epsilon,
        delta=1e-6,
        ledger=tmp_path / "a.ledger",
        **options,
    )


@pytest.fixture
def study(tmp_path):
    return study_of(tmp_path)


@pytest.fixture
def stream(study, tmp_path):
    return pg.Stream(study, 6, 1.0, 1e-6, path=tmp_path / "a.stream")


def further(stream, state, number, moment):
    """The state after a period that is in no file."""
    return replace(state, past=(*state.past, stream._published(state, number, moment, b"")))


def exact(study, *tables):
    return sum(pg.second_moment(table, columns=study.columns).matrix() for table in tables)


def test_sums_grow_and_windows_are_what_they_differ_by(study, stream):
    tables = [month(seed) for seed in range(4)]
    made = [stream.release(table) for table in tables]
    for t in range(4):
        noise = (made[t].matrix - exact(study, *tables[: t + 1])) / made[t].noise.std
        assert np.abs(noise).max() < 6
        np.testing.assert_array_equal(stream.upto(t + 1).matrix, made[t].matrix)
        assert made[t].n_rows == 400 * (t + 1)
    window = stream.window(2)
    np.testing.assert_allclose(window.matrix, made[3].matrix - made[1].matrix, rtol=1e-12)
    assert window.n_rows == 800
    assert window.noise.std < made[3].noise.std + made[1].noise.std
    assert window.regress("y ~ x").params["x"] == pytest.approx(0.5, abs=0.3)


def test_release_that_cannot_be_saved_is_returned_and_saved_elsewhere(
    stream, tmp_path, monkeypatch
):
    """A disk that is full once the period was published."""
    from privgram._base import saved

    real, out = saved.write_atomically, tmp_path / "it.json"

    def write(path, *data):
        if path == out:
            raise OSError(28, os.strerror(28))
        real(path, *data)

    monkeypatch.setattr(saved, "write_atomically", write)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.warns(NotSavedWarning, match="No space left on device") as caught:
        made = stream.release(month(0), out=out)
    assert not out.exists()
    other = str(caught[0].message).partition("It is in ")[2].removesuffix(" instead")
    for again in (pg.load(other), stream.upto()):
        np.testing.assert_array_equal(again.matrix, made.matrix)


def test_price_is_one_release_and_paid_at_the_start(study, stream):
    [entry] = study.entries
    bound = pg.SecondMoment(3, study.columns.bound, columns=study.columns).sensitivity_bound
    alone = pg.AnalyzeGauss().calibrate(3, bound, 1.0, 1e-6)
    assert entry.epsilon == 1.0
    assert (entry.columns, entry.table) == (study.columns.selected, study.identity)
    for seed in range(6):
        made = stream.release(month(seed))
        assert made.noise.std == pytest.approx(stream.noise(seed + 1) * alone.noise_std)
        assert made.privacy.delta(1.0) <= 1e-6
    assert len(study.entries) == 1
    refuses(lambda: stream.release(month(6)), ValueError, "all 6 periods")


def test_file_of_no_known_form_is_refused_before_anything_is_published(stream, tmp_path):
    refuses(lambda: stream.release(month(0), out=tmp_path / "month.txt"), ValueError, "must end in")
    assert stream.periods == 0


@pytest.mark.slow
def test_noise_of_all_periods_has_the_law_that_is_stated(study, stream):
    """250 draws of six periods, taken apart into the noises of each: twice the variance in squares.

    False alarms: 42 numbers, five deviations each, below 1e-4.
    """
    moment = pg.second_moment(month(0), columns=study.columns)
    state, draws = StreamState.read(stream.path, read_key(stream.key)), []
    above = np.triu_indices(3)
    for _ in range(250):
        now = state
        for period in range(1, 7):
            now = further(stream, now, period, moment)
        draws.append([stream._sum(now, 0, t).matrix[above] for t in range(1, 7)])
    noise = np.array(draws) - np.arange(1, 7)[:, None] * moment.matrix()[above]
    rows = np.zeros((6, 6))
    for t in range(6):
        rows[t, : t + 1] = stream._sum(now, 0, t + 1).parameters["stream_weights"]
    own = np.linalg.solve(rows * stream._noise.noise_std, noise)
    squares = np.equal(*above)
    for places, variance in ((~squares, 1.0), (squares, 2.0)):
        each = own[:, :, places].transpose(0, 2, 1).reshape(-1, 6)
        error = each.T @ each / len(each) / variance - np.eye(6)
        assert (np.abs(error) < 5 * np.sqrt((1 + np.eye(6)) / len(each))).all()


@pytest.mark.long
def test_best_attack_on_all_periods_tells_what_the_profile_says(study, stream):
    """The likelihood ratio of everything that is published, in 4,000 games of a row of period 3.

    Who knows all but whether the row is there is right with the chance that the profile has at
    delta(0) = total variation; six deviations are a false alarm of 2e-9.
    """
    row = np.array([[1.0, 1.0, 1.0]]) / np.sqrt(3) * study.columns.bound
    shift = np.zeros(6)
    shift[2:] = 1.0
    state, moment = StreamState.read(stream.path, read_key(stream.key)), None
    moment = pg.second_moment({"x": [1.0], "y": [1.0]}, columns=study.columns)
    empty = pg.SecondMoment(3, study.columns.bound, columns=study.columns)
    weights = np.zeros((6, 6))
    for t in range(6):
        weights[t, : t + 1] = state.terms.sums().between(0, t + 1)
    inverse = np.linalg.inv(weights @ weights.T) / stream._noise.noise_std**2
    above = np.triu_indices(3)
    times = np.where(above[0] == above[1], 0.5, 1.0)  # the diagonal has twice the variance
    direction = (row.T @ row)[above]
    size = float((times * direction**2).sum() * (shift @ inverse @ shift))
    rng, right, games = np.random.default_rng(0), 0, 4000
    for _ in range(games):
        there = rng.random() < 0.5
        now = state
        for period in range(1, 7):
            table = moment if there and period == 3 else empty
            now = further(stream, now, period, table)
        seen = np.array([stream._sum(now, 0, t).matrix[above] for t in range(1, 7)])
        score = (shift @ inverse @ seen) @ (times * direction) - size / 2
        right += (score > 0) == there
    ratio = stream._noise.privacy.sensitivity_ratio
    # Neighbours by a row that is there or not are half of a replaced one: sqrt(2) in length.
    expected = norm.cdf(np.sqrt(size) / 2)
    assert np.sqrt(size) == pytest.approx(ratio / np.sqrt(2), rel=1e-3)
    assert abs(right / games - expected) < 6 * 0.5 / np.sqrt(games)


def test_months_merge_in_any_order_to_the_same_bits(study, stream, monkeypatch):
    parts = [pg.second_moment(month(seed), columns=study.columns) for seed in range(3)]
    state, made = StreamState.read(stream.path, read_key(stream.key)), []
    for order in ([0, 1, 2], [2, 0, 1]):
        whole = parts[order[0]].copy()
        for i in order[1:]:
            whole.merge(parts[i])
        monkeypatch.setattr(
            "privgram.stream.generators.resolve", lambda _: (np.random.default_rng(1), False)
        )
        made.append(stream._published(state, 1, whole, b"").published)
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda stream: stream.release(month(1)), "seems to be period 2 once more"),
        (lambda stream: stream.release(month(2), 1), "period 1 was published"),
        (lambda stream: stream.release(month(2), 4), "the next period is 3"),
        (lambda stream: stream.release({"x": [0.5]}), "y"),
        (lambda stream: stream.release(pg.second_moment(np.eye(3), 1.0)), "other columns"),
        (lambda stream: stream.window(3), "length"),
        (lambda stream: stream.window(1, 3), "last"),
        (lambda stream: stream.change("y ~ x", 2), "length"),
    ],
)
def test_wrong_period_is_refused_and_nothing_is_published(stream, wrong, says):
    for seed in range(2):
        stream.release(month(seed))
    before = stream.path.read_bytes()
    refuses(lambda: wrong(stream), ValueError, says)
    assert stream.path.read_bytes() == before
    assert stream.periods == 2


def test_another_study_key_or_file_is_refused(study, stream, tmp_path):
    stream.release(month(0))
    path = tmp_path / "a.stream"
    for options, says in (
        ({"periods": 7}, "other periods"),
        ({"epsilon": 0.5}, "other epsilon"),
        ({"apart": 3}, "other apart"),
    ):
        with pytest.raises(ValueError, match=says):
            pg.Stream(study, path=path, **options)
    second = pg.Study(month(0), {"x": (-1, 2), "y": (-1, 1)}, epsilon=2.0, delta=1e-6)
    refuses(lambda: pg.Stream(second, path=path), ValueError, "other columns")
    (tmp_path / "other.key").write_text("00" * 32)
    with pytest.raises(WrongKey, match="another key"):
        pg.Stream(study, path=path, key=tmp_path / "other.key")
    (tmp_path / "other.key").write_text("abc")
    with pytest.raises(WrongKey, match="holds no key"):
        pg.Stream(study, path=path, key=tmp_path / "other.key")
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile):
        pg.Stream(study, path=path)


def test_file_holds_no_exact_sum_that_can_be_read(stream):
    stream.release(month(0))
    state = StreamState.read(stream.path, read_key(stream.key))
    data = stream.path.read_bytes()
    assert state.past[0].published.tobytes() in data
    for words in state.past[0].exact:
        assert words.tobytes() not in data
    assert state.past[0].exact[1][:1].tobytes() not in data
    assert state.past[0].digest not in data
    assert repr(state.past[0].exact[1][0]) not in repr(state)
    assert stream.path.stat().st_mode & 0o077 == 0
    assert stream.key.stat().st_mode & 0o077 == 0


def test_noise_beyond_what_is_drawn_is_refused_before_anything_is_spent(study, tmp_path):
    with pytest.raises(ValueError, match="noise is too large"):
        pg.Stream(study, 6, 1e-9, 1e-9, path=tmp_path / "b.stream")
    assert not study.ledger.entries
    assert not (tmp_path / "b.stream").exists()


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", [None, pg.Unit("who", max_rows=2)], ids=["rows", "units"])
def test_no_number_of_units_of_a_period_is_published(tmp_path, unit, adjacency):
    """A unit that is replaced may leave one period and enter another: both counts would tell."""
    study = study_of(tmp_path, adjacency=adjacency, unit=unit)
    stream = pg.Stream(study, 6, 1.0, 1e-6, path=tmp_path / "a.stream")
    for seed in range(3):
        made = stream.release(month(seed) | {"who": np.arange(400) // 2})
    public = unit is None and adjacency == "replace"
    for one, rows in ((made, 1200), (stream.window(2), 800), (stream.upto(1), 400)):
        assert one.n_rows == (rows if public else None)
        assert one.n_units is None
        says = "the row that takes another's place is of the same period" if public else None
        assert one.condition == ("nobody has rows in more than one period" if unit else says)
        assert made.regress("y ~ x").params["x"] == pytest.approx(0.5, abs=0.3)
    past = StreamState.read(stream.path, read_key(stream.key)).past
    assert [period.n_rows for period in past] == ([400] * 3 if public else [None] * 3)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("months", [None, 1, 3])
def test_noise_is_for_what_a_row_adds_when_it_is_quantised(tmp_path, months, adjacency):
    """It is longer than the bound by up to some millionths, which a release's noise has too."""
    unit, options = (
        (None, {}) if months is None else (pg.Unit("who", max_rows=5), {"months": months})
    )
    study = study_of(tmp_path, adjacency=adjacency, unit=unit)
    stream = pg.Stream(study, 6, 1.0, 1e-6, path=tmp_path / "a.stream", **options)
    stream.release(month(0) | {"who": np.arange(400)})
    table = month(1) | ({} if unit is None else {"who": np.arange(400)})
    moment = pg.second_moment(table, columns=study.columns, unit=unit)
    once = pg.release(moment, None, 1.0, 1e-6, adjacency=adjacency, mechanism=pg.AnalyzeGauss())
    moved = stream._stream.sums().epochs[0].sensitivity
    assert stream._noise.noise_std / once.noise.std == pytest.approx(moved, rel=1e-12)
    longest = moment.sensitivity_bound**2 * np.sqrt(2.0 if adjacency == "replace" else 1.0)
    drawn = stream._noise.sigma * (1 + SURPLUS)
    assert drawn * stream._noise.privacy.sensitivity_ratio >= longest * moved


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_unit_that_changes_its_period_is_as_near_as_the_profile_says(tmp_path, adjacency):
    """By all that is mixed of four periods, and the deviation of its noise."""
    unit = pg.Unit("who", max_rows=1)
    study = study_of(tmp_path, adjacency=adjacency, unit=unit)
    stream = pg.Stream(study, 4, 1.0, 1e-6, path=tmp_path / "a.stream")

    def periods(*whose):
        made = []
        for who in whose:
            table = {name: np.ones(len(who)) for name in COLUMNS} | {"who": np.array(who)}
            made.append(pg.second_moment(table, columns=study.columns, unit=unit).matrix())
        return stream._stream.sums().factor(4) * 2.0**-20 @ np.array(made).reshape(4, -1)

    before = periods([1, 2], [3], [4], [5])
    after = periods([1], [2, 3] if adjacency == "replace" else [3], [4], [5])
    apart = np.linalg.norm(before - after) / stream._noise.sigma
    mu = stream._noise.privacy.sensitivity_ratio
    assert 0.6 * mu < apart <= mu


def test_copy_or_an_older_file_is_refused_by_the_ledger(study, stream, tmp_path):
    """Also under a handle that was open: a period with two noises shows the table."""
    stream.release(month(0))
    older = stream.path.read_bytes()
    copy = tmp_path / "copy.stream"
    shutil.copy(stream.path, copy)
    shutil.copy(stream.key, tmp_path / "copy.stream.key")
    other = pg.Stream(study, path=copy)
    latest = stream.release(month(1))
    before = study.ledger.path.read_bytes()
    for act in (
        lambda: other.release(month(2)),
        lambda: pg.Stream(study, path=copy),
        lambda: other.upto(),
    ):
        refuses(act, ValueError, r"went back: a.ledger has 2 .* and the file 1")
    stream.path.write_bytes(older)
    for act in (lambda: stream.release(month(2)), lambda: pg.Stream(study, path=stream.path)):
        refuses(act, ValueError, "went back")
    # Of as many periods, and others: written before the ledger had them, say.
    state = StreamState.read(copy, read_key(other.key))
    moment = pg.second_moment(month(3), columns=study.columns)
    state.append(copy, read_key(other.key), other._published(state, 2, moment, bytes(32)))
    refuses(lambda: other.upto(), ValueError, "has period 2 of this stream from another copy")
    assert study.ledger.path.read_bytes() == before
    assert latest.n_rows == 800


def test_older_ledger_is_refused_by_the_stream(study, stream):
    stream.release(month(0))
    older = study.ledger.path.read_bytes()
    for seed in (1, 2):
        stream.release(month(seed))
    study.ledger.path.write_bytes(older)
    again = study_of(study.ledger.path.parent)
    with pytest.raises(ValueError, match=r"a\.ledger went back: it has 1 published periods"):
        pg.Stream(again, path=stream.path)
    refuses(lambda: stream.upto(), ValueError, "lost entries")


def test_another_ledger_pays_for_all_of_a_stream_and_takes_it_as_it_is(stream, tmp_path):
    for seed in range(3):
        stream.release(month(seed))
    other = pg.Study(month(0), COLUMNS, epsilon=2.0, delta=1e-6, ledger=tmp_path / "b.ledger")
    again = pg.Stream(other, path=stream.path)
    [entry] = other.entries
    assert (entry.epsilon, again.periods) == (1.0, 3)
    assert len(other.ledger.periods(entry.id)) == 3


def test_two_of_one_stream_are_not_taken_for_independent(study, stream, tmp_path):
    for seed in range(4):
        made = stream.release(month(seed))
    windows = [stream.window(1, last) for last in (1, 2)]
    own = pg.release(month(7), study.columns, epsilon=1.0, delta=1e-6, mechanism="analyze-gauss")
    windows[1].save(tmp_path / "it.json")
    for two in (
        [stream.upto(2), made],
        windows,
        [windows[0], pg.load(tmp_path / "it.json")],
        [pg.pool([windows[0], own]), windows[1]],
    ):
        with pytest.raises(ValueError, match=r"of one stream.*stream\.window"):
            pg.pool(two)
        with pytest.raises(ValueError, match="of one stream"):
            regress_groups(dict(enumerate(two)), "y", ["x"])
    refuses(lambda: pg.pool([pg.pool([windows[0], own]), own]), ValueError, "given twice")
    pg.pool([made, own])


def test_pickled_stream_has_no_key_in_it(stream):
    stream.release(month(0))
    key = read_key(stream.key)
    data = pickle.dumps(stream)
    assert key not in data
    assert key.hex().encode() not in data
    again = pickle.loads(data)
    assert again.release(month(1)).n_rows == 800
    assert stream.periods == 2


def test_two_handles_go_on_from_each_other(study, stream):
    other = pg.Stream(study, path=stream.path)
    stream.release(month(0))
    other.release(month(1))
    refuses(lambda: other.release(month(0)), ValueError, "period 1 once more")
    assert stream.periods == 2
    assert len(study.entries) == 1


def test_period_that_another_published_during_the_pass_is_seen(study, stream, monkeypatch):
    other, read = pg.Stream(study, path=stream.path), pg.Stream._moment

    def slow(self, *source):
        if self is stream:
            other.release(month(0))
        return read(self, *source)

    monkeypatch.setattr(pg.Stream, "_moment", slow)
    assert stream.release(month(1)).parameters["periods"] == [1, 2]
    assert stream.periods == 2


def test_nobody_knows_how_many(study, tmp_path):
    stream = pg.Stream(study, epsilon=1.0, delta=1e-6, path=tmp_path / "b.stream")
    for seed in range(26):
        made = stream.release(month(seed, n=50))
    assert stream.periods == 26
    assert made.noise.std == pytest.approx(stream.noise(26) * stream._alone.noise_std)
    assert 2.2 < stream.noise(26) < 2.9
    assert pg.Stream(study, path=stream.path).periods == 26
    refuses(lambda: stream.noise("26"), TypeError, "period must be an integer")
    refuses(lambda: stream.noise(0), ValueError, "of at least 1, not 0")  # there is no last one


DIES = """
import itertools, os, signal, sys
import numpy as np
import privgram as pg

sys.path.insert(0, sys.argv[3])
from stream.test_stream import month, study_of
from pathlib import Path

folder, at = Path(sys.argv[1]), int(sys.argv[2])
count = itertools.count()

def dying(real):
    def call(*args, **kwargs):
        if next(count) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return call

for name in ("fsync", "replace", "link", "open", "write"):
    setattr(os, name, dying(getattr(os, name)))
study = study_of(folder)
stream = pg.Stream(study, 6, 1.0, 1e-6, path=folder / "a.stream")
print("begun", flush=True)
made = stream.release(month(stream.periods))
print("shown", made.matrix[0, 1].hex(), flush=True)
"""


def goes_on(folder, shown=None):
    """Another process goes on with a stream: it returns how many months the one before published.

    `shown` is the number that the one before showed, if it got so far.
    """
    study = study_of(folder)
    stream = pg.Stream(study, 6, 1.0, 1e-6, path=folder / "a.stream")
    assert len(study.entries) == 1
    published = stream.periods
    if shown is not None:
        assert published == 1
        assert stream.upto(1).matrix[0, 1].hex() == shown
    made = stream.release(month(published))
    assert stream.periods == published + 1
    assert abs(made.matrix - exact(study, *map(month, range(published + 1))))[0, 1] > 0
    return published


@pytest.mark.slow
def test_where_writes_fail_no_month_is_lost_or_has_two_noises(tmp_path, monkeypatch):
    """Each of the writes fails in turn, with all after it; kills are in make long."""

    class Ended(BaseException):
        pass

    def ending(real, left):
        def call(*args, **kwargs):
            if next(left) <= 0:
                raise Ended
            return real(*args, **kwargs)

        return call

    published = []
    for at in (*range(1, 60, 3), 10**6):
        folder, shown = tmp_path / str(at), None
        folder.mkdir()
        with monkeypatch.context() as patch, suppress(Ended):
            left = itertools.count(at, -1)
            for name in ("fsync", "replace", "link", "open", "write"):
                patch.setattr(os, name, ending(getattr(os, name), left))
            stream = pg.Stream(study_of(folder), 6, 1.0, 1e-6, path=folder / "a.stream")
            shown = stream.release(month(0)).matrix[0, 1].hex()
        published.append(goes_on(folder, shown))
    assert set(published) == {0, 1}


def test_period_is_in_the_file_whole_or_not_at_all(study, stream, monkeypatch):
    """Where its write fails, and where the process died at any byte of it."""
    stream.release(month(0))
    before = stream.path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        refuses(lambda: stream.release(month(1)), OSError, "No space left")
    assert stream.path.read_bytes() == before
    entered = study.ledger.path.read_bytes()
    stream.release(month(1))
    whole = stream.path.read_bytes()
    assert whole.startswith(before)
    folder, ledger = stream.path.parent, study.ledger.path
    for end in (len(before) + 1, len(before) + 70, len(whole) - 1):
        stream.path.write_bytes(whole[:end])
        # It was shown, and the ledger knows that.
        refuses(lambda: pg.Stream(study_of(folder), path=stream.path), ValueError, "went back")
        assert stream.path.read_bytes() == whole[:end]
        ledger.write_bytes(entered)  # the process died before it was
        again = pg.Stream(study_of(folder), path=stream.path)
        assert again.periods == 1
        assert again.release(month(1)).n_rows == 800
        assert stream.path.stat().st_size == len(whole)
        whole = stream.path.read_bytes()


@pytest.mark.parametrize("at", ["count", "published", "nonce", "sums", "seal"])
@pytest.mark.parametrize("period", [0, 1])
def test_altered_period_is_refused(stream, at, period):
    """Also one whose bytes are all there: blocks that a disk had not written are zeros."""
    ends = [stream.path.stat().st_size]
    for seed in range(2):
        stream.release(month(seed))
        ends.append(stream.path.stat().st_size)
    places = {"count": 0, "published": 20, "nonce": 8 + 48 + 3, "sums": 8 + 48 + 60, "seal": -1}
    data = bytearray(stream.path.read_bytes())
    data[(ends[period + 1] if at == "seal" else ends[period]) + places[at]] ^= 1
    stream.path.write_bytes(data)
    refuses(lambda: stream.upto(), WrongKey, "was altered")
    refuses(lambda: stream.release(month(2)), WrongKey, "was altered")


def test_periods_of_another_order_are_refused(stream):
    ends = [stream.path.stat().st_size]
    for seed in range(3):
        stream.release(month(seed))
        ends.append(stream.path.stat().st_size)
    data = stream.path.read_bytes()
    begun, first, second, third = (data[a:b] for a, b in zip([0, *ends], ends, strict=False))
    for parts in ((begun, second, first, third), (begun, first, third), (begun, first, first)):
        stream.path.write_bytes(b"".join(parts))
        refuses(lambda: stream.upto(), WrongKey, "was altered")


@pytest.mark.long
def test_killed_at_any_point_no_month_is_lost_or_has_two_noises(tmp_path):
    """A process dies at each of its writes in turn, and another goes on."""
    published = []
    tests = os.path.dirname(os.path.dirname(__file__))
    for at in (*range(1, 60, 3), 10**6):
        folder = tmp_path / str(at)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(DIES), folder, str(at), tests],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        shown = done.stdout.split()[-1] if "shown" in done.stdout else None
        published.append(goes_on(folder, shown))
    assert set(published) == {0, 1}


@pytest.mark.long
def test_intervals_of_windows_and_of_changes_hold():
    """400 draws of eight months: coverage of 95 % between 92 and 98, 2.7 deviations away.

    False alarms: below 2 %, by a fixed seed.
    """
    rng = np.random.default_rng(3)
    columns = pg.Columns(COLUMNS, intercept=True)
    study = SimpleNamespace(columns=columns, unit=None, adjacency="replace")
    stream = Stream.__new__(Stream)
    stream.study, stream._nothing = study, no_rows(columns, None)
    terms = StreamTerms(
        epsilon=1.0, delta=1e-6, adjacency="replace", periods=12, months=1, apart=1,
        columns=columns.to_dict(), n_columns=len(columns), bound=float(columns.bound), unit=None,
        id="it",
    )  # fmt: skip
    stream._stream, stream._noise = terms, stream._calibrate(terms)
    stream._gate = lambda _: Gate(stream._noise, generators.resolve(None)[0])  # of no ledger
    held = np.zeros(2)
    for _ in range(400):
        state = StreamState(terms)
        for number in range(1, 9):
            x = rng.uniform(-1, 1, 3000)
            table = {"x": x, "y": np.clip(0.3 * x + rng.normal(0, 0.2, 3000), -1, 1)}
            moment = pg.second_moment(table, columns=columns)
            state = further(stream, state, number, moment)
        first, last = (stream._sum(state, start, start + 4).regress("y", ["x"]) for start in (0, 4))
        changed = change(last, first)
        for i, (fit, truth) in enumerate(((last, 0.3), (changed, 0.0))):
            low, high = np.asarray(fit.conf_int())[0]
            held[i] += low <= truth <= high
    assert (np.abs(held / 400 - 0.95) < 0.03).all(), held
