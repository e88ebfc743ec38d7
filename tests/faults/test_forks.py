"""Forks in the middle of updates, releases and passes: the child's moment is whole, and it ends.

Each in a process of its own: pytest's may have threads, whose locks a child would inherit. A child
that hangs is ended by its alarm.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"),
]

BEGIN = """
import os, signal, sys, threading, time, warnings
import numpy as np, privgram as pg
warnings.simplefilter("ignore", DeprecationWarning)  # of fork with threads, from Python 3.12
D = 150
row = np.random.default_rng(0).normal(size=(1, D))
moment = pg.SecondMoment(D, 20.0)

def forked(work):
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""

UPDATES = """
one = [int(v) for v in pg.SecondMoment(D, 20.0).update(row).int128()[1].diagonal()]

def whole():
    hi, lo = (limb.diagonal() for limb in moment.int128())
    total = [int(h) * 2**64 + int(v) for h, v in zip(hi, lo)]
    assert total == [moment.n_rows * v for v in one], "half of a block"

def child():
    whole()
    before = moment.n_rows
    moment.update(np.repeat(row, 3, axis=0)).merge(moment.copy())
    assert moment.n_rows == 2 * (before + 3)
    whole()
    thread = threading.Thread(target=pg.release, args=(moment, None, 1.0, 1e-6))
    thread.start()
    thread.join()

stop = False

def update():
    while not stop:
        moment.update(np.repeat(row, 7, axis=0))

def release():
    while not stop:
        pg.release(moment, None, 1.0, 1e-6)

# First: a child cannot go on with an import that another thread had begun, of any module.
pg.release(moment.update(row), None, 1.0, 1e-6)
threads = [threading.Thread(target=work) for work in (update, update, release)]
for thread in threads:
    thread.start()
codes = [forked(child) for _ in range(30)]
stop = True
for thread in threads:
    thread.join()
whole()
print(sum(code != 0 for code in codes), "of", len(codes))
"""

ORDER = """
holding, order = threading.Event(), []

def hold():
    with moment._guard.lock:
        holding.set()
        time.sleep(0.3)
        order.append("let go")

thread = threading.Thread(target=hold)
thread.start()
holding.wait()
code = forked(lambda: (order.index("let go"), moment.update(row)))
thread.join()
with moment._guard.lock:  # no waiting for oneself
    code += forked(lambda: moment.update(row))

def update_in_a_thread():  # which would wait for the thread that forked
    thread = threading.Thread(target=moment.update, args=(row,), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()

code += forked(update_in_a_thread)
moment.update(row)
print(code, moment.n_rows)
"""

PASS = """
def blocks():
    yield np.repeat(row, 100, axis=0)
    if not os.fork():
        signal.alarm(100)
    else:
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    yield np.repeat(row, 100, axis=0)

for threads in (1, 2):
    parent = os.getpid()
    try:
        print(pg.second_moment(blocks(), 20.0, threads=threads).n_rows, flush=True)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(7)
"""


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.long
def test_updates_and_releases_of_other_threads():
    assert run(UPDATES) == ["0 of 30"]


def test_fork_waits_for_whoever_holds_the_moment():
    assert run(ORDER) == ["0 1"]


def test_child_of_the_source_has_no_part_in_the_pass():
    lines = run(PASS)
    assert [line for line in lines if line.isdigit()] == ["200", "200"]
    assert sum("forked by the source" in line for line in lines) == len(lines) - 2 == 2


# The process holds the ledger's lock in a thread, forks in another, and is killed; the child lives.
LEDGER = """
import contextlib, subprocess
ledger = pg.Ledger(sys.argv[1], 1.0, 1e-6)
holding = threading.Event()

def hold():
    with ledger._open(exclusive=True):
        holding.set()
        time.sleep(100)

threading.Thread(target=hold, daemon=True).start()
holding.wait()
child = os.fork()
if child == 0:
    os.close(1)
    os.close(2)
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_lock_of_a_killed_process_is_not_left_to_its_child(tmp_path):
    path = tmp_path / "budget"
    code = [sys.executable, "-c", BEGIN + LEDGER, str(path)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=600)
    child = int(done.stdout)
    try:
        spend = (
            "import sys, privgram as pg\n"
            "pg.Ledger(sys.argv[1]).spend(.1, 0, adjacency='replace', unit='')"
        )
        subprocess.run([sys.executable, "-c", spend, str(path)], check=True, timeout=600)
    finally:
        os.kill(child, signal.SIGKILL)


# Whoever forks under the lock goes on in the child, and there writes nothing anywhere.
UNDER = """
ledger = pg.Ledger(sys.argv[1], 1.0, 1e-6)
def spend():
    with ledger._open(exclusive=True) as handle:
        def child():
            other = os.open(sys.argv[1] + ".other", os.O_RDWR | os.O_CREAT)
            assert other != handle
            try:
                os.write(handle, b"a line")
            except OSError as error:
                print(error.strerror, flush=True)
            else:
                os._exit(3)
        print(forked(child), flush=True)
        os.lseek(handle, 0, os.SEEK_SET)
        print(len(os.read(handle, 1000)) > 100)
spend()
ledger.spend(0.1, 0.0, adjacency="replace", unit="")
print(forked(lambda: ledger.spend(0.1, 0.0, adjacency="replace", unit="")), len(ledger.entries))
"""


def test_child_forked_under_the_lock_cannot_write(tmp_path):
    code = [sys.executable, "-c", BEGIN + UNDER, str(tmp_path / "budget")]
    done = subprocess.run(code, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == ["Bad file descriptor", "0", "True", "0 2"], done.stderr


# Wherever the caller's code runs in a pass, it may fork, and the child go on.
POINTS = """
from pathlib import Path
from privgram.secret import generators
from privgram.scan import progress
from privgram.disclosure.norm_bound import BoundSelection
from privgram.estimators import PrivateRidge
from privgram.papers import hardt_roth
from privgram.scan.request import ScanRequest

parent, keys, points = os.getpid(), [], []
progress.INTERVAL = 0.0  # a report after every block
real = generators.ChaCha20

def made():
    keys.append(os.getpid())
    return real()

generators.ChaCha20 = made

def point(*_):
    if os.getpid() != parent:
        return
    begun = len(keys)
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (7, 8), code  # the first that hung: others would, each until its alarm
        points.append((begun, code))
    else:
        signal.alarm(100)

class Table:
    "Blocks, as often as they are wanted."
    def __init__(self, wanted):
        rng = np.random.default_rng(0)
        x, who = rng.standard_t(3, (900, 2)), rng.integers(0, 200, 900)
        y = x @ [1.0, -1.0] + rng.standard_normal(900)
        table = {"x": x[:, 0], "z": x[:, 1], "g": np.array(["a", "b"])[who % 2], "who": who}
        table |= {"y": y, "won": y > 0, "w": 2 * y}
        self.table = {name: table[name] for name in wanted}
    def __iter__(self):
        point()
        for at in (0, 300, 600):
            yield {name: column[at : at + 300] for name, column in self.table.items()}
            point()

class Matrix(Table):
    def __iter__(self):
        return (np.column_stack(list(block.values())) for block in super().__iter__())

class Array:
    shape, ndim, dtype = (900, 2), 2, np.dtype(float)
    def __len__(self):
        return 900
    def __array__(self, dtype=None, copy=None):
        point()
        return np.column_stack([table.table["x"], table.table["z"]])

BOUNDS = {"x": (-3, 3), "z": (-3, 3), "y": (-8, 8)}
COLUMNS = pg.Columns(BOUNDS, intercept=True)
table, matrix = Table("xzy"), Matrix("xzy")
budget = {"epsilon": 1.0, "delta": 1e-6, "ledger": pg.Ledger(sys.argv[1], 1000.0, 1e-2)}

def of(name, threads, **options):
    return pg.release(
        table, COLUMNS, **budget, mechanism=getattr(pg, name)(), progress=point, threads=threads
    )

def regress(*more, **options):
    return pg.regress(Table(["x", "z", "y", *more]), "y ~ x + z", COLUMNS, **budget, **options)

def by(name, value):
    more = {name: value, "progress": point}
    of = Table(["x", "z", "y", "g" if name == "by" else "who"])
    return pg.release(of, COLUMNS, mechanism=pg.AnalyzeGauss(), **budget, **more)

def choice():
    scan = ScanRequest.of(matrix, None, None, None, None, None, point)
    bounds = BoundSelection(pg.PrivateBound(1.0), scan)
    return bounds.draw(bounds.count(), None, budget["ledger"])

def logistic():
    columns = pg.Columns({"x": (-3, 3), "won": bool}, intercept=True)
    return pg.regress(Table(["x", "won"]), "won ~ x", columns, **budget, family="binomial")

def stream():
    budget["ledger"] = sys.argv[1] + ".study"
    study = pg.Study(table.table, COLUMNS, **budget)
    months = pg.Stream(study, periods=3, epsilon=1.0, delta=1e-6, path=sys.argv[1] + ".stream")
    budget["ledger"] = study.ledger
    rows = {name: column.tolist() for name, column in table.table.items()}  # for two threads
    return months.release(rows, threads=2, progress=point)

def estimator():
    return PrivateRidge(columns=(-8, 8), **budget).fit(Array(), table.table["y"])
"""

BRANCH = """
try:
    {}
except RuntimeError as error:
    if os.getpid() == parent or "forked" not in str(error):
        raise
    os._exit(7)
if os.getpid() != parent:
    os._exit(8)
print(*(f"{{begun}},{{code}}" for begun, code in points), len(budget["ledger"].entries))
"""

#: What draws noise and reads a table; and whether a charge is entered in the ledger.
DOORS = {
    "one round": ("of('AnalyzeGauss', 1)", True),
    "one round, threads": ("of('AnalyzeGauss', 2)", True),
    "rounds": ("of('AdaptiveGaussian', 1)", True),
    "rounds, threads": ("of('AdaptiveGaussian', 2)", True),
    "Laplace": ("of('MatrixLaplace', 1)", True),
    "Wishart": ("of('AdditiveWishart', 1)", True),
    "groups": ("by('by', pg.Groups('g', ['a', 'b']))", True),
    "units": ("by('unit', pg.Unit('who', max_rows=5))", True),
    "scores": ("regress()", True),
    "scores of units": ("regress('who', unit=pg.Unit('who', max_rows=5))", True),
    "logistic": ("logistic()", True),
    "stream": ("stream()", True),
    "estimator": ("estimator()", True),
    "norm bound": ("choice()", True),
    "low rank": ("hardt_roth.approximate(Matrix('xzyw'), 2, epsilon=1.0, delta=1e-6)", False),
}


# Has imported everything once, in one thread, and has a child run each code that it is sent.
SERVER = """
import json, os, signal, sys
import numpy
import privgram.disclosure.norm_bound
import privgram.scan
import privgram.estimators
import privgram.papers.hardt_roth

for line in sys.stdin:
    code, path = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        for handle, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{path}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), handle)
        sys.argv = ["", path]
        exec(code, {"__name__": "__main__"})
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def server():
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=pipe, stdout=pipe, text=True
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.parametrize("door", DOORS)
def test_child_has_no_part_in_the_noise_of_its_parent(door, tmp_path, server):
    """It ends with an error, or had its noise to itself and entered it in the ledger."""
    call, charged = DOORS[door]
    path = tmp_path / "budget"
    print(json.dumps([BEGIN + POINTS + BRANCH.format(call), str(path)]), file=server.stdin)
    server.stdin.flush()
    status = server.stdout.readline()
    errors = path.with_suffix(".err").read_text()
    assert status == "0\n", errors
    *points, entries = path.with_suffix(".out").read_text().split()
    assert points
    ends = [tuple(map(int, point.split(","))) for point in points]
    assert all(code == 7 for begun, code in ends if begun)
    # One that ended later than it was entered has lost what it paid.
    assert not charged or int(entries) >= 1 + sum(code == 8 for _, code in ends)
