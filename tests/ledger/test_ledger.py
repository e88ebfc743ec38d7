"""The budget on disk: what adds up, what is refused, and what survives."""

import decimal
import functools
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram import BudgetExceeded, Ledger, privacy
from privgram._base import files as _files
from privgram._base import saved as _chain
from privgram.interop.dp_accounting import pld_from_profile
from privgram.ledger.entries import FORMAT
from privgram.papers import hardt_roth, sheffet
from privgram.papers.sheffet import (
    GaussianSketch,
    InverseGauss,
    InverseWishart,
    PublishedAnalyzeGauss,
)
from privgram.papers.zhou_ligett_wasserman import compress


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


@pytest.fixture(scope="module")
def moment():
    table = np.random.default_rng(1).uniform(-1, 1, (500, 3))
    return pg.second_moment(table, bound=2.0)


def gaussian(epsilon, delta):
    return privacy.GaussianProfile(privacy.calibration.gaussian_ratio(epsilon, delta))


def spend(ledger, epsilon=0.1, delta=1e-7, **options):
    if ledger.composition == "gaussian" and delta:
        options = {"privacy": gaussian(epsilon, delta)} | options
    return ledger.spend(epsilon, delta, adjacency=ledger.adjacency, unit="", **options)


def run(what, path, count):
    script = Path(__file__).with_name("spender.py")
    done = subprocess.run(
        [sys.executable, script, what, path, str(count)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_budget_is_made_once_and_opened_again(path):
    ledger = Ledger(path, 1.0, 1e-6, "add-remove")
    for opened in (Ledger(path), Ledger(path, 1, 1e-6), Ledger(path, adjacency="add-remove")):
        assert repr(opened) == repr(ledger)
    assert ledger.entries == ()
    assert ledger.spent == (0.0, 1e-6)
    assert ledger.remaining(1e-6) == 1.0
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "options",
    [{"epsilon": 2.0}, {"delta": 1e-5}, {"adjacency": "replace"}, {"composition": "basic"}],
)
def test_another_budget_than_the_files_is_an_error(path, options):
    Ledger(path, 1.0, 1e-6, "add-remove")
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"is a ledger with {name}=.*cannot be changed"):
        Ledger(path, **options)


def test_new_ledger_needs_a_budget(path):
    refuses(lambda: Ledger(path), FileNotFoundError, "epsilon and delta")
    for bad in ((0.0, 1e-6), (-1, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1, -1e-6), (1, 1)):
        with pytest.raises(ValueError, match="must"):
            Ledger(path, *bad)
    refuses(lambda: Ledger(path, 1, 1e-6, "neighbours"), ValueError, "adjacency")
    refuses(lambda: Ledger(path, 1, 1e-6, composition="advanced"), ValueError, "composition")
    with pytest.raises(IsADirectoryError):
        Ledger(path.parent, 1, 1e-6)
    assert not path.exists()


@pytest.mark.parametrize("budget", [(0.0, 1e-7), (0.1, -1e-9), (0.1, 1.0), (math.nan, 0.1)])
def test_spend_needs_a_guarantee(path, budget):
    ledger = Ledger(path, 1.0, 1e-6)
    refuses(lambda: spend(ledger, *budget), ValueError, "must")
    refuses(lambda: spend(ledger, privacy=privacy.GaussianProfile(1.0)), ValueError, "larger delta")
    assert ledger.entries == ()


def test_adjacencies_do_not_mix(path, moment):
    ledger = Ledger(path, 1.0, 1e-6)
    with pytest.raises(ValueError, match="do not compose"):
        pg.release(
            moment,
            epsilon=0.1,
            delta=1e-7,
            mechanism=pg.AnalyzeGauss(),
            adjacency="add-remove",
            ledger=ledger,
        )
    assert ledger.entries == ()


def test_promise_about_the_data_is_kept_and_shown(path, moment):
    from click.testing import CliRunner

    from privgram.cli._program import program

    ledger = Ledger(path, 5.0, 1e-3, composition="basic")
    pg.release(moment, epsilon=0.1, delta=1e-7, mechanism=InverseGauss(100.0), ledger=ledger)
    pg.release(moment, epsilon=0.1, delta=1e-7, mechanism=pg.AnalyzeGauss(), ledger=ledger)
    spend(ledger, condition="pigs\nfly")
    small = compress(np.eye(200, 2), 2000, np.eye(2) / 200, 0.01, scales=[1.0, 1.0])
    spend(ledger, 4.0, 1e-4, privacy=small.profile(0.1, 1.0))
    conditions = [entry.condition for entry in ledger.entries]
    assert conditions[1] is None
    assert conditions[2] == "pigs fly"
    assert "at least 100" in conditions[0]
    assert "within 0.01 of the reference" in conditions[3]
    assert [e.condition for e in Ledger(path).entries] == conditions
    assert [e.proof_status for e in ledger.entries] == ["exact", "exact", "stated", "upper bound"]
    shown = CliRunner().invoke(program, ["ledger", str(path)]).output
    assert "1 holds only if every table considered" in " ".join(shown.split())
    assert "3 holds only if pigs fly; nothing enforces that" in " ".join(shown.split())
    assert "2 holds only if" not in shown
    read = json.loads(CliRunner().invoke(program, ["ledger", str(path), "--json"]).output)
    assert [entry["condition"] for entry in read["entries"]] == conditions


MIXED = [
    pg.AnalyzeGauss(),
    pg.AdditiveWishart(),
    pg.MatrixLaplace(),
    GaussianSketch(60),
    InverseWishart(dof=80),
    GaussianSketch(40, adaptive=True),
]


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_mixed_releases_compose_as_dp_accounting_has_them(moment, adjacency):
    losses, all_of_it = [], []
    for mechanism in MIXED:
        release = pg.release(moment, None, 0.1, 2e-8, mechanism=mechanism, adjacency=adjacency)
        profile = release.privacy
        if isinstance(profile, sheffet.AdaptiveLadderProfile):  # of which a delta takes long
            profile = privacy.StatedProfile(0.1, release.delta)
        all_of_it += [profile, profile]
        symmetric = adjacency == "replace" and len(profile._directions()) > 1
        losses += [pld_from_profile(profile, symmetric=symmetric)] * 2
    least = functools.reduce(lambda x, y: x.compose(y), losses).get_epsilon_for_delta(1e-6)
    composed = privacy.compose(all_of_it).epsilon(1e-6)
    assert composed == pytest.approx(least, rel=5e-3, abs=1e-4)
    assert composed < 0.6 * 10 * 0.1


@pytest.mark.slow
@pytest.mark.parametrize("composition", ["gaussian", "basic"])
def test_one_release_may_take_all_of_it(path, moment, composition):
    # No Gaussian noise dominates one whose adaptive rows have no bound.
    for number, mechanism in enumerate(MIXED[:-1] if composition == "gaussian" else MIXED):
        ledger = Ledger(path.with_suffix(f".{number}"), 0.5, 1e-7, composition=composition)
        pg.release(moment, epsilon=0.5, delta=1e-7, mechanism=mechanism, ledger=ledger)
        with pytest.raises(BudgetExceeded):
            pg.release(moment, epsilon=0.5, delta=1e-7, mechanism=mechanism, ledger=ledger)


def test_multiplicative_releases_enter_their_finite_precision(path, moment):
    ledger = Ledger(path, 1.0, 1e-6)
    release = pg.release(moment, None, 0.2, 1e-8, mechanism=GaussianSketch(50), ledger=ledger)
    (entry,) = ledger.entries
    assert entry.delta_fp == release.parameters["delta_fp"] > 0
    assert entry.privacy == release.privacy
    assert entry.delta == 1e-8
    assert entry.what == str(release.mechanism)


def test_erratum_is_charged_at_its_true_delta(path, moment):
    ledger = Ledger(path, 5.0, 0.1)
    mechanism = PublishedAnalyzeGauss(allow_published_erratum=True)
    release = pg.release(moment, None, 0.5, 1e-6, ledger=ledger, mechanism=mechanism)
    (entry,) = ledger.entries
    assert entry.delta == release.delta == release.privacy.delta(0.5) > 1e-6


def test_table_of_one_column_composes(path):
    ledger = Ledger(path, 1.0, 1e-6)
    moment = pg.second_moment(np.ones((50, 1)), bound=1.0)
    for mechanism in (GaussianSketch(30), pg.AdditiveWishart(), pg.AnalyzeGauss()):
        pg.release(moment, epsilon=0.2, delta=1e-8, mechanism=mechanism, ledger=ledger)
    assert ledger.spent[0] < 0.6


def test_sums_of_losses_are_no_filter_for_adaptive_choices():
    """What losses that add up do not promise: two ways to go on, each within the budget, are not if
    the first outcome says which. Exact, by randomised response; `docs/theory/composition.md`."""
    epsilon, first = 1.0, 0.5
    likely = math.exp(first) / (1 + math.exp(first))  # of the loss +first; else -first

    def composed(profile):
        up, down = profile.delta(epsilon - first), profile.delta(epsilon + first)
        return likely * up, (1 - likely) * down

    wide = privacy.StatedProfile(1.4, 0.0)
    delta = sum(composed(wide))
    leak = privacy.StatedProfile(1e-9, delta)
    assert sum(composed(leak)) == pytest.approx(delta, rel=1e-6)
    assert wide.delta(epsilon + first) == 0.0
    adaptive = composed(wide)[0] + composed(leak)[1]
    assert adaptive == pytest.approx(delta * (2 - likely), rel=1e-6)
    # The same two alternatives as `compose` sees them.
    other = privacy.compose([privacy.StatedProfile(first, 0.0), wide])
    assert other.delta(epsilon) == pytest.approx(delta, rel=1e-3)


PROFILES = [
    privacy.GaussianProfile(0.5),
    sheffet.SketchProfile(30, 0.02, "add-remove"),
    sheffet.WishartProfile(300.5, 4, 1.5),
    privacy.MatrixLaplaceProfile(2, 1, 0.6),
    privacy.MatrixLaplaceProfile(9, 4, 0.3),
    privacy.StatedProfile(0.5, 0.0),
    hardt_roth.ChiGaussianProfile(5, 0.01, 0.1),
    sheffet.AdaptiveSketchProfile(20, 30.0, 10.0, 3.0),
    sheffet.AdaptiveLadderProfile(20, 60.0, 20.0, 3.0, "replace", 1.0, 1e-6),
    privacy.ComposedProfile((privacy.GaussianProfile(0.5), sheffet.SketchProfile(9, 0.1))),
]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: type(p).__name__)
def test_profiles_are_rebuilt(profile):
    values = json.loads(json.dumps(profile.to_dict()))
    assert privacy.Profile.from_dict(values) == profile


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"profile": "Nothing"},
        {"profile": ["GaussianProfile"]},
        {"profile": "GaussianProfile"},
        {"profile": "GaussianProfile", "sensitivity_ratio": -1},
        {"profile": "GaussianProfile", "sensitivity_ratio": 1, "more": 2},
        {"profile": "ComposedProfile", "profiles": 3},
        [],
        None,
    ],
)
def test_malformed_profile_is_refused(values):
    with pytest.raises(ValueError):
        privacy.Profile.from_dict(values)


def test_every_line_can_be_checked_by_hand(path):
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger, what="one\nline")
    spend(ledger, privacy=privacy.GaussianProfile(0.01))
    previous = ""
    for line in path.read_text().splitlines():
        text, digest = line[:-2].rsplit(', "sha256": "', 1)
        assert hashlib.sha256((previous + text).encode()).hexdigest() == digest
        assert json.loads(line)["sha256"] == digest
        previous = digest
    assert [e.what for e in ledger.entries] == ["one line", ""]


def test_unknown_profile_counts_by_its_epsilon_and_delta(path):
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger, 0.9, 5e-7, privacy=privacy.GaussianProfile(0.1))
    text = path.read_text()
    header, entry = text.splitlines()
    record = json.loads(entry)
    del record["sha256"]
    record["privacy"]["profile"] = "OfALaterVersion"
    line = _chain.chain_line(record, json.loads(header)["sha256"])[0].decode()
    path.write_text(header + "\n" + line)
    later = Ledger(path)
    assert later.entries[0].privacy is None
    known = path.with_suffix(".known")
    known.write_text(text)
    assert later.remaining(1e-8) < 0.2 < Ledger(known).remaining(1e-8)


@pytest.mark.slow
def test_ledger_that_was_cut_short_counts_whole_records(path):
    """If only the digest is cut, the record counts: two bytes fewer took a spend away silently."""
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger)
    before = path.stat().st_size
    spend(ledger)
    whole = path.read_bytes()
    record = whole.rindex(b', "sha256": "') + len(b', "sha256": "')
    for size in range(before, len(whole)):
        path.write_bytes(whole[:size])
        counted = 2 if size >= record else 1
        cut = counted == 1 and size > before
        with pytest.warns(match="is cut off") if cut else nullcontext():
            torn = Ledger(path)
        with pytest.warns(match="is cut off") if cut else nullcontext():
            assert len(torn.entries) == counted
        with pytest.warns(match="is cut off") if cut else nullcontext():
            spend(torn, what="next")
        assert [e.what for e in Ledger(path).entries] == [""] * counted + ["next"]
        assert path.read_bytes().count(b"\n") == counted + 2
        if counted == 2:
            assert path.read_bytes().startswith(whole)


def test_cut_line_that_cannot_be_completed_stays_as_it_was(path, monkeypatch):
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger)
    path.write_bytes(path.read_bytes()[:-9])
    before = path.read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    refuses(lambda: spend(ledger), OSError, "No space")
    assert path.read_bytes() == before
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "profile",
    [
        {"profile": "ChiGaussianProfile", "k": 5, "ratio": 100.0, "offset": 0.1},  # minutes
        {"profile": "WishartProfile", "dof": 1e308, "n_columns": 3, "ratio": 0.01,
         "adjacency": "replace"},  # ArithmeticError
        {"profile": "GaussianProfile", "sensitivity_ratio": 10**30},  # TypeError
        {"profile": "AdaptiveLadderProfile", "rows": 25, "regulariser": 1e3, "shift": 500.0,
         "scale": 100.0, "adjacency": "replace", "at_epsilon": 1e9, "at_delta": 1e-6},  # minutes
    ],
)  # fmt: skip
def test_entries_that_no_ledger_accepts_take_no_time(path, profile):
    ledger = Ledger(path, 1.0, 1e-6)
    header = json.loads(path.read_text())
    record = {"number": 1, "when": "t", "what": "w", "epsilon": 0.5, "delta": 1e-7}
    record |= {"delta_fp": 0.0, "privacy": profile}
    with path.open("ab") as file:
        file.write(_chain.chain_line(record, header["sha256"])[0])
    began = time.process_time()
    for work in (lambda: ledger.remaining(1e-9), lambda: spend(ledger, 0.9)):
        with suppress(ValueError):
            work()
    assert time.process_time() - began < 30.0  # of minutes, on a slow machine


def test_every_changed_byte_is_found(path):
    ledger = Ledger(path, 1.0, 1e-6)
    for _ in range(2):
        spend(ledger)
    whole = bytearray(path.read_bytes())
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="damaged") as error:
            _ = Ledger(path).entries
        line = whole[:at].count(b"\n") + 1
        assert line == 1 or f"line {line}" in str(error.value)


def test_lines_cannot_be_removed_moved_or_doubled(path):
    ledger = Ledger(path, 1.0, 1e-6)
    for number in range(3):
        spend(ledger, what=f"{number}")
    header, a, b, c = path.read_bytes().splitlines(keepends=True)
    for lines in ((header, b, c), (header, a, c), (header, a, c, b), (header, a, b, b), (a, b)):
        path.write_bytes(b"".join(lines))
        refuses(lambda: Ledger(path), ValueError, "damaged")


@pytest.mark.parametrize("named", [False, True])
def test_older_copy_is_noticed_by_who_knows_better(path, named):
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger)
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    spend(ledger.entered_as("an answer") if named else ledger)
    shutil.copyfile(copy, path)
    refuses(lambda: spend(ledger), ValueError, "lost entries")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        spend(ledger)
    assert not path.exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{", b"age,cost\n1,2\n", b"\x00" * 5000, b'{"format": "privgram-release"}\n'],
)
def test_file_that_is_no_ledger_is_refused_and_left_alone(path, data):
    path.write_bytes(data)
    refuses(lambda: Ledger(path, 1.0, 1e-6), ValueError, "not a ledger")
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    "header",
    [
        {"version": 1},
        {"format": "privgram-columns"},
        {"epsilon": "1"},
        {"epsilon": None},
        {"delta": 2.0},
        {"adjacency": "both"},
        {"composition": []},
    ],
)
def test_headers_are_checked(path, header):
    good = {
        "format": FORMAT,
        "version": 2,
        "epsilon": 1.0,
        "delta": 1e-6,
        "adjacency": "replace",
        "composition": "basic",
    }
    path.write_bytes(_chain.chain_line(good, "")[0])
    Ledger(path)
    path.write_bytes(_chain.chain_line(good | header, "")[0])
    refuses(lambda: Ledger(path), ValueError, r"version 1|not entries of a ledger|not a ledger")


def test_what_another_enters_before_the_lock_is_held_counts(path, monkeypatch):
    """Or both would have the last of a budget: what was read before is not what there is."""
    ledger, others = Ledger(path, epsilon=1.0, delta=1e-5), []
    locked = Ledger._open

    def raced(self, exclusive=False):
        if exclusive and not others:
            others.append(Ledger(path))
            others[0].spend(0.75, 0.0, adjacency="replace", unit="")
        return locked(self, exclusive)

    monkeypatch.setattr(Ledger, "_open", raced)
    with pytest.raises(BudgetExceeded):
        ledger.spend(0.75, 0.0, adjacency="replace", unit="")
    assert ledger.entries == others[0].entries
    assert len(ledger.entries) == 1


def test_threads_cannot_both_have_the_last(path):
    ledger = Ledger(path, 0.2, 1e-6, composition="basic")
    got, refused = [], []

    def work():
        try:
            while True:
                got.append(spend(ledger, 0.01, 1e-9).number)
        except BudgetExceeded as error:
            refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 21))
    assert len(refused) == 8


@pytest.mark.slow
def test_processes_cannot_both_have_the_last(path):
    Ledger(path, 0.3, 1e-6, composition="basic")
    result = run("race", path, 4)
    assert result["codes"] == [0] * 4
    assert sorted(n for report in result["reports"] for n in report) == list(range(1, 31))
    assert result["entries"] == 30


def test_two_who_make_it_make_one(path, monkeypatch):
    create = _files.create_file

    def late(target, data):
        create(target, data)
        raise FileExistsError

    monkeypatch.setattr(_files, "create_file", late)
    Ledger(path, 1.0, 1e-6)
    monkeypatch.setattr(_files, "create_file", create)
    real = type(path).exists
    monkeypatch.setattr(type(path), "exists", lambda p: p != path and real(p))
    refuses(lambda: Ledger(path, 2.0, 1e-6), ValueError, "cannot be changed")
    assert json.loads(path.read_text())["epsilon"] == 1.0


@pytest.mark.slow
def test_kill_minus_nine_at_any_instant(path):
    """60 kills of a process that spends: what it reported is entered, and at most one more."""
    Ledger(path, 1e4, 1e-2, composition="basic")
    result = run("kill", path, 60)
    assert result["entries"] > 30  # 60 on average wait to be reported
    # Kills did land inside of a record, or the test would show nothing.
    assert result["torn"] > 0


def test_callers_decimal_context_spends_nothing(path):
    """With two digits, 14.7 went into a budget of 1."""
    ledger = Ledger(path, 1.0, 1e-6, composition="basic")
    with decimal.localcontext(decimal.Context(prec=2, rounding=decimal.ROUND_DOWN)) as context:
        for trap in context.traps:
            context.traps[trap] = False
        for _ in range(20):
            spend(ledger, 0.049, 0.0)
        with pytest.raises(BudgetExceeded):
            spend(ledger, 0.049, 0.0)
        assert ledger.spent == (0.98, 0.0)


def test_sums_are_exact(path):
    ledger = Ledger(path, 1e308, 1e-6, composition="basic")
    spend(ledger, 1e308, 1e-6 * (1 - 1e-15))
    refuses(lambda: spend(ledger, 5e-324, 0.0), BudgetExceeded, "add up to more than 1")
    small = Ledger(path.with_suffix(".small"), 1.0, 1e-6, composition="basic")
    spend(small, 5e-324, 1e-6)
    # As a float, the sum of both would still be 1e-6.
    with pytest.raises(BudgetExceeded):
        spend(small, 0.1, 1e-30)
    spend(small, 5e-324, 0.0)
    assert small.spent == (1e-323, 1e-6)
    # Read as it is written, what was spent is never less than the sum.
    third = Ledger(path.with_suffix(".third"), 1.0, 1e-6, composition="basic")
    spend(third, 0.3, 0.0)
    spend(third, 1e-20, 0.0)
    assert third.spent[0] == math.nextafter(0.3, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"what": 3}, TypeError, "what must be a text, not int"),
        ({"id": 3}, TypeError, "id must be a text, not int"),  # read back as "3", it pays twice
        ({"condition": 3}, TypeError, "condition must be a text, not int"),
        ({"privacy": 3}, TypeError, "privacy must be a privacy profile.*not int"),
        ({"delta_fp": "x"}, TypeError, "delta_fp"),
        ({"privacy": privacy.GaussianProfile(0.01, "add-remove")}, ValueError, "do not compose"),
    ],
)
def test_spend_is_checked(path, options, error, message):
    ledger = Ledger(path, 1.0, 1e-6)
    refuses(lambda: spend(ledger, **options), error, message)
    assert ledger.entries == ()


def longer(path, *entries):
    """Write entries that the ledger would refuse, in a chain that is whole."""
    previous = json.loads(path.read_text().splitlines()[-1])["sha256"]
    with path.open("ab") as file:
        for number, (epsilon, delta, profile) in enumerate(entries, len(Ledger(path).entries) + 1):
            record = {"number": number, "when": "t", "what": "", "epsilon": epsilon, "delta": delta}
            record |= {"delta_fp": 0.0, "condition": None}
            record["privacy"] = None if profile is None else profile.to_dict()
            line, previous = _chain.chain_line(record, previous)
            file.write(line)


def test_spend_beyond_the_budget_is_shown(path):
    ledger = Ledger(path, 1.0, 1e-6, composition="basic")
    longer(path, *[(0.6, 0.0, None)] * 5)
    assert ledger.spent[0] == pytest.approx(3.0, abs=1e-3)
    assert ledger.remaining(0.0) == 0.0
    longer(path, (2.0, 1e-3, None))
    assert ledger.spent[1] > 1e-6
    with pytest.raises(BudgetExceeded):
        spend(ledger, 1e-3, 0.0)


def test_periods_of_a_stream_are_entered_once_and_in_order(path):
    ledger = Ledger(path, 1.0, 1e-6)
    refuses(lambda: ledger.enter_period("it", 1, "a"), ValueError, "no entry that paid")
    # A line that no reader takes would end the ledger.
    refuses(lambda: ledger.enter_period("it", 1, 5), TypeError, "digest must be a text")
    refuses(lambda: ledger.entered_as("one", table=5), TypeError, "table must be a text")
    refuses(lambda: ledger.entered_as("one", "xy"), TypeError, "columns are a list of names")
    refuses(lambda: Ledger(path, table=5), TypeError, "table must be a text")
    assert spend(ledger, id="it") == spend(ledger, id="it")
    refuses(lambda: spend(ledger, 0.1, 0.0, id="it"), ValueError, "another spend with the id")
    ledger.enter_period("it", 1, "a")
    spend(ledger)
    ledger.enter_period("it", 2, "b")
    ledger.enter_period("it", 2, "b")
    with pytest.raises(ValueError, match="has period 2 of this stream from another copy"):
        ledger.enter_period("it", 2, "c")
    refuses(lambda: ledger.enter_period("it", 4, "d"), ValueError, "the next one is not 4")
    assert ledger.periods("it") == Ledger(path).periods("it") == ("a", "b")
    assert [entry.number for entry in Ledger(path).entries] == [1, 2]
    assert path.read_bytes().count(b"\n") == 5


def test_file_that_is_replaced_while_it_is_opened_is_refused(path, monkeypatch):
    """A spend in what no name leads to would be in no ledger: between the opening and the lock."""
    ledger, locked = Ledger(path, 1.0, 1e-6), _files.locked

    def replacing(handle, shared):
        shutil.copy(path, copy := path.with_suffix(".copy"))
        os.replace(copy, path)
        return locked(handle, shared)

    monkeypatch.setattr(_files, "locked", replacing)
    for ask in (lambda: spend(ledger), lambda: ledger.entries):
        refuses(ask, OSError, "was replaced while it was opened")
    monkeypatch.undo()
    assert ledger.entries == ()


def test_spend_for_another_unit_is_refused_where_it_is_entered(path):
    ledger = Ledger(path, 1.0, 1e-6)
    spend(ledger)
    with pytest.raises(ValueError, match="single rows, and this protects all rows of a unit"):
        ledger.spend(0.1, 1e-7, adjacency="replace", unit="person", privacy=gaussian(0.1, 1e-7))
    assert [entry.unit for entry in ledger.entries] == [""]
