"""A ledger that adds up as Gaussian noise: its charges, its adversary, and what is back."""

import json
import math
import os
import pickle
import signal
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri
from support.helpers import refuses

import privgram as pg
from privgram import BudgetExceeded, Ledger, privacy
from privgram._base import saved
from privgram._base.saved import DamagedFile
from privgram.ledger.accountant import GaussianAccountant
from privgram.papers import sheffet
from privgram.papers.sheffet import SketchProfile
from privgram.privacy.calibration import gaussian_ratio
from privgram.privacy.domination import dominating_ratio

EPSILON, DELTA = 1.0, 1e-6
WHOLE = gaussian_ratio(EPSILON, DELTA)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


@pytest.fixture
def ledger(path):
    return Ledger(path, EPSILON, DELTA)


def gaussian(part, **options):
    """What is asked for Gaussian noise that takes a part of the budget's mu^2."""
    profile = privacy.GaussianProfile(WHOLE * math.sqrt(part))
    epsilon = profile.epsilon(DELTA)
    return {"epsilon": epsilon, "delta": DELTA, "adjacency": "replace", "unit": "",
            "privacy": profile} | options  # fmt: skip


def delta_of_gaussian(epsilon, mu):
    """The profile of Gaussian noise, in forty digits."""
    epsilon, mu = mpmath.mpf(float(epsilon)), mpmath.mpf(float(mu))
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.e**epsilon * mpmath.ncdf(
        -mu / 2 - epsilon / mu
    )


def response(t, rate):
    return max(mpmath.mpf(0), (mpmath.e**rate - mpmath.e**t) / (1 + mpmath.e**rate))


def laplace(t, rate):
    return max(mpmath.mpf(0), 1 - mpmath.e ** ((t - rate) / 2))


def bounded_range(t, rate):
    gap = 1 - mpmath.e ** (min(t - rate, mpmath.mpf(0)) / 2)
    return gap**2 / (1 - mpmath.e**-rate)


#: Profiles, and their deltas in other arithmetic where these have a closed form.
OTHERS = {
    "response": (privacy.StatedProfile(0.3, 0.0), lambda t: response(t, mpmath.mpf(0.3))),
    "wide response": (privacy.StatedProfile(3.0, 0.0), lambda t: response(t, mpmath.mpf(3))),
    "Laplace": (privacy.MatrixLaplaceProfile(2, 1, 1), lambda t: laplace(t, mpmath.mpf(0.5))),
    "choice": (privacy.BoundedRangeProfile(0.2), lambda t: bounded_range(t, mpmath.mpf(0.2))),
    "Wishart": (sheffet.WishartProfile(2361, 3, 11.4), None),
    "Wishart, add": (sheffet.WishartProfile(161605, 3, 133.2, "add-remove"), None),
    "matrix Laplace": (privacy.MatrixLaplaceProfile(9, 4, 0.3), None),
    "sketch": (SketchProfile(60, 0.01), None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_noise_is_charged_as_gaussian_noise_that_shows_as_much(name):
    """By forty digits at epsilons between those that were looked at, out to where none is left."""
    profile, exact = OTHERS[name]
    slack = 1e-21
    mu = dominating_ratio(profile, slack)
    top = profile.epsilon(slack)
    rng = np.random.default_rng(5)
    looked = np.array([0.0, *rng.uniform(0, 1.5 * top, 700), *top * (1 - rng.random(100) / 99)])
    with mpmath.workdps(40):
        for epsilon, shown in zip(looked, profile.delta(looked), strict=True):
            shown = mpmath.mpf(shown) if exact is None else exact(mpmath.mpf(float(epsilon)))
            assert shown <= mpmath.mpf(slack) + delta_of_gaussian(epsilon, mu), epsilon
    # And with hardly any more than that: a hundredth less noise would not do.
    grid = np.linspace(0, top, 400)
    less = privacy.GaussianProfile(mu * 0.99)
    assert (profile.delta(grid) > slack + less.delta(grid)).any()


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_pure_privacy_is_that_of_known_gaussian_noise(rate):
    """Randomised response is as hard to tell as N(0, 1) from N(mu, 1) at total variation."""
    exact = -2 * ndtri(1 / (1 + math.exp(rate)))
    assert dominating_ratio(privacy.StatedProfile(rate, 0.0), 1e-300) == pytest.approx(
        exact, rel=2e-6
    )


def test_profile_that_no_gaussian_noise_dominates_is_refused(ledger):
    for privacy_of in (None, privacy.StatedProfile(0.1, 1e-7)):
        with pytest.raises(ValueError, match=r'none shows as much .*="basic"'):
            ledger.spend(0.1, 1e-7, adjacency="replace", unit="", privacy=privacy_of)
    assert ledger.entries == ()
    ledger.spend(0.1, 0.0, adjacency="replace", unit="")
    assert ledger.spent[0] > 0.1


def test_epsilon_of_any_size_is_over_the_budget(ledger):
    """The square of its ratio is beyond floats, and was an OverflowError."""
    for epsilon in (1e200, 1e308):
        profile = privacy.GaussianProfile(gaussian_ratio(epsilon, 1e-7))
        refuses(
            lambda e=epsilon, p=profile: ledger.spend(
                e, 1e-7, adjacency=ledger.adjacency, unit="", privacy=p
            ),
            BudgetExceeded,
            "over the budget",
        )
    assert not ledger.entries


def test_default_is_by_gaussian_noise_where_there_is_some(path):
    assert Ledger(path, 1.0, 1e-6).composition == "gaussian"
    assert Ledger(path.with_suffix(".pure"), 1.0, 0.0).composition == "basic"
    with pytest.raises(ValueError, match='take composition="basic"'):
        Ledger(path.with_suffix(".no"), 1.0, 0.0, composition="gaussian")
    study = pg.Study({"x": [0.5], "y": [0.5]}, {"x": (0, 1), "y": (0, 1)}, epsilon=1, delta=1e-6)
    assert study.ledger.composition == "gaussian"


def test_other_noise_is_charged_the_chance_with_which_it_shows_more(ledger):
    """A billionth of delta is shared by 2^20 of them."""
    for name, profile in (("one", 0.01), ("two", 0.02)):
        ledger.spend(profile, 0.0, adjacency="replace", unit="", what=name)
    ledger.spend(**gaussian(0.1))
    square, chance = GaussianAccountant(EPSILON, DELTA)._charged(ledger.entries)
    assert chance == pytest.approx(2 * 1e-9 * DELTA / 2**20, rel=1e-6, abs=0.0)
    assert square > 0.1 * WHOLE**2


@pytest.mark.parametrize("k", [1, 2, 3, 7, pytest.param(50, marks=pytest.mark.slow)])
def test_k_equal_parts_are_the_whole(path, k):
    ledger = Ledger(path, EPSILON, DELTA)
    for i in range(k):
        assert (ledger.remaining() == pytest.approx(EPSILON)) == (i == 0)
        ledger.spend(**gaussian(1 / k))
    assert ledger.spent == (pytest.approx(EPSILON, rel=1e-9), DELTA)
    assert ledger.spent[0] <= EPSILON
    assert ledger.remaining() == 0.0
    refuses(lambda: ledger.spend(**gaussian(1e-4)), BudgetExceeded, "the ledger allows delta=1e-06")


def test_all_that_remains_can_be_spent(path):
    def of(epsilon):
        return privacy.GaussianProfile(gaussian_ratio(epsilon, DELTA))

    for part in (0.0, 0.3, 0.9):
        ledger = Ledger(path.with_suffix(f".{part}"), EPSILON, DELTA)
        if part:
            ledger.spend(**gaussian(part))
        left = ledger.remaining()
        entries = ledger.entries
        with pytest.raises(BudgetExceeded):
            ledger.check(privacy.Price(left + 2e-4, DELTA, "replace", "", of(left + 2e-4)))
        ledger.check(privacy.Price(left, DELTA, "replace", "", of(left)))
        assert ledger.entries == entries  # a check is no spend
        ledger.spend(left, DELTA, adjacency="replace", unit="", privacy=of(left))
        exact = privacy.GaussianProfile(WHOLE * math.sqrt(1 - part)).epsilon(DELTA)
        assert exact - 1.1e-4 <= left <= exact * (1 + 1e-9)


def test_delta_of_finite_precision_counts_among_the_chances(ledger):
    """A chance h to be off adds h (1 + e^epsilon); a billionth of delta has room."""
    profile = privacy.GaussianProfile(WHOLE / 100)
    terms = {"adjacency": "replace", "unit": "", "privacy": profile, "delta_fp": 2e-16}
    share = 2e-16 * (1 + math.e) / (1 + math.exp(0.1))
    assert 2 * share < 1e-9 * DELTA < 3 * share
    for _ in range(2):
        ledger.spend(0.1, DELTA, **terms)
    with pytest.raises(BudgetExceeded, match="chances that outputs are off"):
        ledger.spend(0.1, DELTA, **terms)


def test_one_of_another_kind_may_take_the_whole_budget_first(path):
    """It is chosen before anything is seen; by its Gaussian noise it would be a little over."""
    wishart = sheffet.wishart_noise(3, EPSILON, DELTA)
    profile = sheffet.WishartProfile(wishart.dof, 3, wishart.ratio)
    assert dominating_ratio(profile, 1e-21) > WHOLE
    ledger = Ledger(path, EPSILON, DELTA)
    ledger.spend(EPSILON, DELTA, adjacency="replace", unit="", privacy=profile)
    assert ledger.spent == (EPSILON, DELTA)
    assert ledger.remaining() == 0.0
    second = Ledger(path.with_suffix(".2"), EPSILON, DELTA)
    second.spend(**gaussian(1e-4))
    with pytest.raises(BudgetExceeded):
        second.spend(EPSILON, DELTA, adjacency="replace", unit="", privacy=profile)


def best_adversary(charges, epsilon, units):
    """The delta at an epsilon that choosing by what was seen can reach, of a budget in units.

    By dynamic programming over what is left and the loss so far: at each stage any mechanism that
    fits may be next, or none. A mechanism is a list of (loss, probability) under the first table.
    """
    losses = np.linspace(-12.0, 12.0, 4801)
    value = np.maximum(-np.expm1(np.minimum(epsilon - losses, 50.0)), 0.0)
    best = [value]
    for left in range(1, units + 1):
        ways = [best[left - 1]]
        for cost, outcomes in charges:
            if cost <= left:
                after = best[left - cost]
                ways.append(
                    sum(p * np.interp(losses + loss, losses, after) for loss, p in outcomes)
                )
        best.append(np.max(ways, axis=0))
    return float(np.interp(0.0, losses, best[units]))


def of_gaussian(mu, points=801):
    """Losses of N(mu, 1) against N(0, 1), by the trapezoidal rule."""
    x = np.linspace(-7.0, 7.0, points)
    w = np.exp(-(x**2) / 2)
    return list(zip(mu * (x + mu / 2), w / w.sum(), strict=True))


def of_response(rate):
    up = math.exp(rate) / (1 + math.exp(rate))
    return [(rate, up), (-rate, 1 - up)]


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "mu"), [(1.0, 0.6), (0.5, 0.4), (2.0, 1.0)])
def test_adversary_who_chooses_by_what_was_seen_gets_no_more(epsilon, mu):
    """Gaussian noise and randomised response of many sizes, each at its charge, in any order."""
    units = 8
    allowed = privacy.GaussianProfile(mu).delta(epsilon)
    accountant = GaussianAccountant(epsilon, allowed)
    menu = []
    for cost in range(1, units + 1):
        ratio = mu * math.sqrt(cost / units)
        menu.append((cost, of_gaussian(ratio)))
        # The largest rate that is charged so much.
        rate = math.log(1 / (1 - 0.5 * (1 + math.erf(ratio / 2 / math.sqrt(2)))) - 1)
        assert dominating_ratio(privacy.StatedProfile(rate, 0.0), accountant._slack) <= ratio * (
            1 + 1e-5
        )
        menu.append((cost, of_response(rate)))
    gained = best_adversary(menu, epsilon, units)
    assert gained <= allowed * (1 + 2e-3)  # of interpolation and quadrature
    assert gained >= allowed * (1 - 2e-3)  # as one Gaussian release has


def share(of):
    return privacy.GaussianProfile(WHOLE * math.sqrt(of))


def hold(ledger, of, floor=0.01, **more):
    return ledger.hold(privacy.Price(**gaussian(of), **more), share(floor))


def test_unspent_part_of_a_reservation_is_back(ledger, path):
    reserved = hold(ledger, 0.8, what="an answer")
    assert ledger.remaining() < 0.5
    with pytest.raises(BudgetExceeded):
        ledger.spend(**gaussian(0.5))
    entry = reserved.settle(share(0.1))
    assert entry.settled == share(0.1)
    assert entry.epsilon == reserved.entry.epsilon > entry.spent
    for opened in (ledger, Ledger(path)):
        assert opened.entries == (entry,)
        assert opened.spent[0] == pytest.approx(share(0.1).epsilon(DELTA), rel=1e-8)
    ledger.spend(**gaussian(0.9))
    assert ledger.remaining() == 0.0
    assert path.read_bytes().count(b"\n") == 4


def test_in_other_ledgers_the_whole_stays_spent(path):
    """There what is left may depend on what was seen only if it was spent."""
    ledger = Ledger(path, EPSILON, DELTA, composition="basic")
    reserved = hold(ledger, 0.8)
    before = path.read_bytes()
    assert reserved.settle(share(0.1)) == reserved.entry
    assert path.read_bytes() == before


def test_reservation_is_settled_once_and_by_no_more_than_it_is(ledger, path):
    reserved = hold(ledger, 0.5, 0.1)
    for bad, says in (
        (share(0.51), "more was spent than was reserved"),
        (share(0.09), "less was spent than the first stage"),
        (privacy.StatedProfile(0.01, 0.0), "only Gaussian noise"),
        (privacy.GaussianProfile(WHOLE / 2, "replace"), "other neighbours"),
    ):
        with pytest.raises(ValueError, match=says):
            reserved.settle(bad)
    reserved.settle(share(0.25))
    refuses(lambda: reserved.settle(share(0.2)), ValueError, "settled before")
    refuses(lambda: hold(ledger, 0.1, id="a stream"), ValueError, "has no id")
    assert [entry.settled for entry in Ledger(path).entries] == [share(0.25)]


def appended(path, *lines):
    """A ledger with lines at its end that whoever may append can write: their digests are right."""
    previous = json.loads(path.read_text().splitlines()[-1])["sha256"]
    with path.open("ab") as file:
        for line in lines:
            data, previous = saved.chain_line(line, previous)
            file.write(data)


def settles(number, of, key="00"):
    return {"settles": number, "privacy": share(of).to_dict(), "key": key}


@pytest.mark.parametrize("staged", [False, True])
def test_an_appended_line_gives_nothing_back(ledger, path, staged):
    """A line of a second handle, of a copy, of the entry itself: none has the reservation's key."""
    assert not [name for name in dir(ledger) if "settle" in name]
    reserved = hold(ledger, 0.9) if staged else ledger.spend(**gaussian(0.9))
    lock = Ledger(path).entries[0].lock
    known = path.read_bytes()
    for key in ("", "00" * 32, lock, "no hexadecimal", None):
        appended(path, settles(1, 0.5, key))
        for handle in (ledger, pickle.loads(pickle.dumps(ledger))):
            refuses(handle.remaining, DamagedFile, "not entries")
        refuses(lambda: Ledger(path), DamagedFile, "not entries")
        path.write_bytes(known)
    if not staged:
        return
    refuses(lambda: pickle.dumps(reserved), TypeError, "does not travel")
    assert reserved._key.hex() not in repr(vars(reserved.entry)) + repr(reserved)
    copied = path.with_name("a copy")
    copied.write_bytes(known)
    Ledger(copied).spend(**gaussian(0.05))
    reserved.settle(share(0.5))
    # The key is in the file now, of this entry, whose digest is another in the copy's next line.
    used = json.loads(path.read_text().splitlines()[-1])
    with pytest.raises(BudgetExceeded):
        Ledger(copied).spend(**gaussian(0.4))
    again = hold(ledger, 0.4)
    appended(path, settles(again.entry.number, 0.1, used["key"]))
    refuses(lambda: Ledger(path), DamagedFile, "not entries")


@pytest.mark.parametrize("change", [{"floor": 0.0}, {"floor": -1.0}, {"lock": 3}, {"lock": None}])
def test_entry_whose_stages_make_no_sense_is_damage(ledger, path, change):
    hold(ledger, 0.5)
    line = json.loads(path.read_text().splitlines()[-1]) | {"number": 2} | change
    del line["sha256"]
    appended(path, line)
    refuses(lambda: Ledger(path), DamagedFile, "not entries")


def test_entry_of_another_file_is_not_settled(ledger, path):
    """Put in the place of the ledger while an answer is drawn; its first entry is another's."""
    reserved = hold(ledger, 0.5)
    path.unlink()
    hold(Ledger(path, EPSILON, DELTA), 0.5)
    refuses(lambda: reserved.settle(share(0.1)), ValueError, "replaced by an older or another copy")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="of a fork")
def test_reservation_is_of_the_process_that_made_it(ledger, path):
    reserved = hold(ledger, 0.5)
    pid = os.fork()
    if pid == 0:
        try:
            reserved.settle(share(0.1))
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert ledger.entries[0].settled is None


@pytest.mark.parametrize(
    "lines",
    [
        [settles(1, 0.6)],
        [settles(1, 0.1)] * 2,
        [settles(2, 0.1)],
        [settles(0, 0.1)],
        [settles(1, 0.1) | {"privacy": privacy.StatedProfile(0.01, 0.0).to_dict()}],
        [settles(1, 0.1) | {"privacy": None}],
        [{"settles": 1, "privacy": share(0.1).to_dict()}],
    ],
)
def test_lines_that_settle_what_they_cannot_are_damage(ledger, path, lines, monkeypatch):
    """The same of who has the key of each entry: all others are refused before this."""
    monkeypatch.setattr("secrets.token_bytes", lambda n: b"\0")
    hold(ledger, 0.5, 0.05)
    twice = lines[0] == settles(1, 0.1)
    appended(path, *lines)
    refuses(lambda: Ledger(path), DamagedFile, "not entries")
    if twice:  # and once it is right
        path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:-2]) + b"\n")
        assert Ledger(path).entries[0].settled == share(0.1)


STAGES = """
import math, os, signal, sys
sys.path.insert(0, {tests!r})
from ledger.test_gaussian import *
from privgram._base import files

ledger = Ledger({path!r}, EPSILON, DELTA)
reserved = hold(ledger, 0.8)
if {point!r} == "before the settlement":
    os.kill(os.getpid(), signal.SIGKILL)
if {point!r} == "in it":
    def torn(handle, data, start):
        os.lseek(handle, start, os.SEEK_SET)
        os.write(handle, data[:50])
        os.kill(os.getpid(), signal.SIGKILL)
    files._write = torn
reserved.settle(share(0.1))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before the settlement", "in it", "after it"])
def test_process_that_dies_has_spent_the_whole(path, point):
    tests = os.path.dirname(os.path.dirname(__file__))
    code = STAGES.format(tests=tests, path=str(path), point=point)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    dies = point != "after it"
    assert done.returncode == (-signal.SIGKILL if dies else 0), done.stderr
    if point == "in it":
        with pytest.warns(match="is cut off"):
            ledger = Ledger(path)
        with pytest.warns(match="is cut off"):
            [entry] = ledger.entries
    else:
        [entry] = Ledger(path).entries
    assert (entry.settled is None) == dies
    assert entry.spent == pytest.approx(
        privacy.GaussianProfile(WHOLE * math.sqrt(0.8 if dies else 0.1)).epsilon(DELTA)
    )
