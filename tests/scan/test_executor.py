"""The parallel pass: same bits, first error, prompt end, nothing leaked, nothing shown."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from support.helpers import assert_same, refuses

from privgram import SecondMoment, second_moment
from privgram._core.rows import RowAccumulator
from privgram.moment.accumulators import BlockReader
from privgram.scan import executor as engine
from privgram.scan import progress as progress_module
from privgram.sources.table import Chunk, Table


@pytest.fixture
def x(rng):
    return rng.standard_normal((20_000, 22))


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [None, 1, 2, 3, 8])
def test_threads_do_not_matter(x, layout, threads):
    assert_same(second_moment(layout(x), 4.0, threads=threads), SecondMoment(22, 4.0).update(x))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_of_many_columns_threads_have_the_same_sums(x, layout, threads, monkeypatch):
    beside = engine._maker(lambda d: RowAccumulator(d, 4.0), engine.SHARED_COLUMNS, threads)
    assert beside.__self__.n_columns == engine.SHARED_COLUMNS
    monkeypatch.setattr(engine, "SHARED_COLUMNS", 22)
    assert_same(second_moment(layout(x), 4.0, threads=threads), SecondMoment(22, 4.0).update(x))


def test_a_failure_to_merge_is_raised(x, monkeypatch):
    class Unmergeable:
        sums_on_device = False

        def __init__(self, accumulator, columns):
            self.accumulator = self

        def feed(self, block):
            return len(block)

        def merge(self, other):
            raise MemoryError("no memory")

    monkeypatch.setattr(engine, "BlockReader", Unmergeable)
    refuses(lambda: second_moment(x, 4.0, threads=2), MemoryError, "no memory")


def test_small_tables_take_one_thread(x, monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda t: (started.append(t), start(t))[1])
    second_moment(x[:5000], 4.0)
    assert not started
    second_moment(x[:5000], 4.0, threads=3)
    assert len(started) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5, 7}, raising=False)
    second_moment(x, 4.0)
    assert len(started) == 3 + 4


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_first_bad_row_in_the_order_of_the_source(x, threads):
    """Whichever thread meets one first."""

    def blocks():
        for start in range(0, len(x), 100):
            block = x[start : start + 100].copy()
            if start >= 7000:
                block[start // 100 - 60] = np.nan
            yield block

    for _ in range(10):
        refuses(lambda: second_moment(blocks(), 4.0, threads=threads), ValueError, r"^row 7010 ")


@pytest.mark.parametrize("threads", [1, 2])
def test_exceptions_of_the_source_come_through(threads):
    class Mine(Exception):
        pass

    closed = []

    def blocks():
        try:
            for _ in range(10):
                yield np.ones((10, 2))
            raise Mine
        finally:
            closed.append(True)

    with pytest.raises(Mine):
        second_moment(blocks(), 1.0, threads=threads)
    assert closed


@pytest.mark.parametrize("threads", [1, 2])
def test_exceptions_of_a_worker_come_through(threads, monkeypatch):
    class Mine(Exception):
        pass

    def feed(self, block):
        raise Mine

    monkeypatch.setattr(engine.BlockReader, "feed", feed)
    pulled = []

    def blocks():
        for i in range(10_000):
            pulled.append(i)
            yield np.ones((10, 2))

    with pytest.raises(Mine):
        second_moment(blocks(), 1.0, threads=threads)
    assert len(pulled) < 100, "a failure must end the pass"


@pytest.mark.parametrize("threads", [1, 2])
def test_source_runs_in_the_thread_of_the_caller(threads):
    def blocks():
        for _ in range(20):
            assert threading.current_thread() is threading.main_thread()
            yield np.ones((10, 2))

    assert second_moment(blocks(), 2.0, threads=threads).n_rows == 200


@pytest.mark.parametrize("threads", [1, 2])
def test_few_blocks_are_held(threads):
    made, most = [], 0

    class Block(np.ndarray):
        pass

    def blocks():
        nonlocal most
        for _ in range(200):
            block = np.ones((1000, 4)).view(Block)
            made.append(weakref.ref(block))
            most = max(most, sum(ref() is not None for ref in made))
            yield block
            del block

    assert second_moment(blocks(), 2.0, threads=threads).n_rows == 200_000
    assert most <= 3 * threads + 3


def test_interruption_within_a_chunk():
    """A chunk may be as long as a file: it is left between two of its blocks."""
    read = []

    def blocks():
        for i in range(10**6):
            read.append(i)
            yield np.ones((1000, 2))

    def chunks():
        yield Chunk(blocks)
        while not read:
            time.sleep(1e-3)
        raise KeyboardInterrupt

    table = Table(None, 2, None, chunks())
    run = engine.ScanExecutor(table, lambda: BlockReader(RowAccumulator(2, 1.0)), lambda rows: None)
    with pytest.raises(KeyboardInterrupt):
        run.threaded(2)
    assert len(read) < 10**5


@pytest.mark.slow
def test_interruption():
    """Ctrl-C ends an endless pass at once, in a process of its own."""
    script = """
import os, sys, threading
import numpy as np
import privgram as pg

def blocks():
    block = np.ones((1000, 20))
    for i in range(10**9):
        if i == 50:
            print("running", flush=True)
        yield block

try:
    pg.second_moment(blocks(), 1.0, threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
"""
    for threads in ("1", "2"):
        with subprocess.Popen(
            [sys.executable, "-c", script, threads], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "running\n"
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted 1\n"  # of blocks without end
            assert process.wait(600) == 0


@pytest.mark.slow
def test_second_interruption(monkeypatch):
    """Ctrl-C while the threads are joined, and again: the call ends after they have."""
    pressed = []
    join = threading.Thread.join
    process = engine.ScanExecutor.process

    def press(thread, *args):
        if len(pressed) < 3:
            pressed.append(thread)
            raise KeyboardInterrupt
        return join(thread, *args)

    def slow(run, *args):
        process(run, *args)
        time.sleep(0.3)

    monkeypatch.setattr(threading.Thread, "join", press)
    monkeypatch.setattr(engine.ScanExecutor, "process", slow)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        second_moment(iter([np.ones((10, 2))] * 3), 1.0, threads=2)
    left = threading.active_count() - before
    monkeypatch.undo()
    time.sleep(0.4 if left else 0.0)
    assert len(pressed) == 3
    assert left == 0


def test_thread_that_could_not_be_started(monkeypatch):
    def start(thread):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        second_moment(iter([np.ones((10, 2))] * 3), 1.0, threads=2)


@pytest.mark.slow
def test_nothing_is_kept_after_an_error(x):
    class Block(np.ndarray):
        pass

    block = x.copy().view(Block)
    block[-1] = np.nan
    gone = weakref.ref(block)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ValueError, match="row 19999"):
            second_moment([block], 4.0, threads=2)
        del block
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_function(x, threads, monkeypatch):
    calls = []
    second_moment(x, 4.0, threads=threads, progress=lambda *call: calls.append(call))
    assert calls[-1] == (20_000, 20_000)
    monkeypatch.setattr(progress_module, "INTERVAL", 0.0)
    calls.clear()
    second_moment(
        iter(np.array_split(x, 10)), 4.0, threads=threads, progress=lambda *c: calls.append(c)
    )
    assert calls[-1] == (20_000, None)
    assert len(calls) >= 10
    rows = [rows for rows, _ in calls]
    assert rows == sorted(rows)

    def stop(rows, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        second_moment(x, 4.0, threads=threads, progress=stop)
