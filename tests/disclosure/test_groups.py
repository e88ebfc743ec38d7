"""Releases of groups: one guarantee and one entry for all, proved and by a second route."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import integrate, stats
from support.helpers import refuses

import privgram as pg
from privgram._base.saved import DamagedFile
from privgram.disclosure.norm_bound import BoundSelection
from privgram.disclosure.release import release_for
from privgram.disclosure.request import ReleaseRequest
from privgram.mechanisms import calibrate_groups
from privgram.noise import added_up
from privgram.papers.sheffet import SketchLaw
from privgram.privacy import GaussianProfile, Guarantee, MatrixLaplaceProfile
from privgram.releases.groups import Releases
from privgram.scan.request import ScanRequest

COLUMNS = pg.Columns({"x": (-3, 3), "y": (-3, 3)}, intercept=True)
SITES = ["a", "b", "c"]
ASK = {"columns": COLUMNS, "by": pg.Groups("site", SITES)}


@pytest.fixture
def table(rng):
    n = 900
    return {
        "x": rng.normal(size=n),
        "y": rng.normal(size=n),
        "site": rng.choice(np.array(SITES, dtype=object), n),
    }


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_one_entry_for_all(table, tmp_path, adjacency, delta):
    ledger = pg.Ledger(tmp_path / "l", epsilon=3, delta=1e-5, adjacency=adjacency)
    made = pg.release(table, epsilon=1.0, delta=delta, adjacency=adjacency, ledger=ledger, **ASK)
    [entry] = ledger.entries
    assert (entry.epsilon, entry.delta) == (1.0, delta)
    assert "each of 3 groups by site" in entry.what
    assert (made.epsilon, made.delta) == (1.0, delta)
    assert list(made) == SITES
    assert all(one.n_rows is None for one in made.values())
    assert made.n_rows == (900 if adjacency == "replace" else None)
    assert made.privacy.delta(1.0) <= delta * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("mechanism", [pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace()])
def test_each_is_a_release_of_its_own_table(table, mechanism):
    """Under add-remove: the same draws as one after another, of the parts."""
    moments = pg.second_moment(table, **ASK)
    guarantee = Guarantee(2.0, 1e-3, "add-remove", None)
    rng, again = np.random.default_rng(1), np.random.default_rng(1)
    made = release_for(ReleaseRequest(moments, guarantee, mechanism=mechanism, rng=rng))
    for site, one in made.items():
        part = {name: column[table["site"] == site] for name, column in table.items()}
        moment = pg.second_moment(part, columns=COLUMNS)
        alone = release_for(ReleaseRequest(moment, guarantee, mechanism=mechanism, rng=again))
        assert_array_equal(one.matrix, alone.matrix)
        assert (one.noise, one.privacy) == (alone.noise, alone.privacy)


def integers(columns, table):
    moments = pg.second_moment(table, columns=columns, by=pg.Groups("site", SITES, unknown="drop"))
    found = []
    for moment in moments.values():
        hi, lo = moment.int128()
        found.append((hi.astype(object) << 64) + lo.astype(object))
    return np.array(found)


def test_sensitivity(rng):
    """Integers: the lemma of docs/theory/composition.md, searched; rows at the bound attain it."""
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)})
    ends = np.array([[1, 1], [1, -1], [0.3, -1], [0, 0]])
    rest = rng.uniform(-1, 1, (5, 2)), rng.choice(SITES, 5)

    def with_row(row, site):
        x = np.vstack([rest[0], row])
        sites = np.append(rest[1], site).astype(object)
        return integers(columns, {"x": x[:, 0], "y": x[:, 1], "site": sites})

    tables = {(i, s): with_row(ends[i], s) for i in range(4) for s in ["a", "b", "z"]}
    none = integers(columns, {"x": rest[0][:, 0], "y": rest[0][:, 1], "site": rest[1].astype("O")})
    moved = max(
        ((one - other) ** 2).sum() for one, other in itertools.combinations(tables.values(), 2)
    )
    added = max(((one - none) ** 2).sum() for one in tables.values())
    assert added <= 2**80
    assert moved <= 2 * 2**80
    assert added > 0.99999 * 2**80
    assert moved > 0.99999 * 2 * 2**80


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_gaussian_profile_of_a_row_that_moves(epsilon):
    """One column, two groups, noise each: delta by integration over the two outputs."""
    noise = calibrate_groups(pg.AnalyzeGauss(), Guarantee(epsilon, 1e-4, "replace", None), 1, 2.0)
    assert noise.n_columns == 1
    step = 4.0 / noise.sigma  # B^2, which one group loses and the other gains

    def inner(u):
        """P(loss > ...) given the first output u ~ N(step, 1), whose loss is known."""
        rest = epsilon - (step * u - step**2 / 2)
        return GaussianProfile(step)._curve(np.array([rest]))[0] * stats.norm.pdf(u, step)

    # H_e of a product, given one factor, is H at the epsilon that is left; also below 0.
    found = integrate.quad(inner, step - 9, step + 9, epsabs=1e-14, limit=400)[0]
    assert found == pytest.approx(1e-4, rel=1e-6)
    assert noise.privacy.delta(epsilon) == pytest.approx(found, rel=1e-6)
    alone = pg.AnalyzeGauss().calibrate(1, 2.0, epsilon, 1e-4)
    assert noise.sigma == pytest.approx(math.sqrt(2) * alone.sigma)


def scalar_profile(p, q, epsilon, x):
    """Delta of P x Q from Q x P, densities on a grid: by sorting all pairs of losses."""
    weight = x[1] - x[0]
    loss = np.log(p) - np.log(q)
    order = np.argsort(loss)
    loss, p, q = loss[order], p[order] * weight, q[order] * weight
    # The second output has law Q against P: its losses are -loss, with weights q and p.
    tails = np.append(np.cumsum(p[::-1])[::-1], 0), np.append(np.cumsum(q[::-1])[::-1], 0)
    at = np.searchsorted(loss, epsilon + loss, side="right")
    return float(np.sum(q * tails[0][at]) - math.exp(epsilon) * np.sum(p * tails[1][at]))


def test_wishart_profile_of_a_row_that_moves():
    """One column: chi-squared noise in two groups, in opposite orders, on a grid of losses."""
    epsilon, delta = 1.0, 1e-3
    noise = calibrate_groups(
        pg.AdditiveWishart(), Guarantee(epsilon, delta, "replace", None), 1, 1.0
    )
    mu = 1.0 / noise.scale
    x = np.linspace(mu + 1e-9, mu + stats.chi2.isf(1e-12, noise.dof), 40_001)
    p, q = stats.chi2.pdf(x - mu, noise.dof), stats.chi2.pdf(x, noise.dof)
    with np.errstate(divide="ignore"):
        found = scalar_profile(np.maximum(p, 1e-300), np.maximum(q, 1e-300), epsilon, x)
    beyond = stats.chi2.cdf(mu, noise.dof)  # where only one of the two can be
    assert 0 < found + beyond <= delta
    assert found > delta / 50  # the bound is not idle


def test_laplace_profile_of_a_row_that_moves():
    """At delta = 0 the losses of the two steps add up to no more than epsilon."""
    noise = calibrate_groups(pg.MatrixLaplace(), Guarantee(0.7, 0.0, "replace", None), 1, 1.0)
    one = MatrixLaplaceProfile(noise.dof, 1, 1 / noise.scale, "add-remove")
    assert 2 * one.epsilon(0.0) <= 0.7 * (1 + 1e-9)


def test_noise_of_every_group_is_its_own():
    """400 groups without rows: 2,400 independent entries of one law; false alarms 1e-6."""
    groups = list(range(400))
    columns = pg.Columns({"x": (0, 1), "y": (0, 1)}, intercept=True)
    empty = {"x": np.zeros(0), "y": np.zeros(0), "g": np.zeros(0, int)}
    made = pg.release(
        empty,
        columns=columns,
        epsilon=1.0,
        delta=1e-6,
        adjacency="add-remove",  # else it is public that there is nothing, and refused
        by=pg.Groups("g", groups),
    )
    law = made[0].noise
    drawn = np.array([one.matrix for one in made.values()])
    i, j = np.triu_indices(3)
    entries = drawn[:, i, j] / np.where(i == j, law.std_diagonal, law.std)
    for squares, df in (
        ((entries**2).sum(), entries.size),
        ((entries.sum(axis=0) ** 2).sum() / len(groups), 6),
    ):
        low, high = stats.chi2.ppf([2.5e-7, 1 - 2.5e-7], df)
        assert low < squares < high


@pytest.mark.slow
def test_sum_of_the_releases(table):
    """The matrix is the sum, and its law predicts its distance from the whole table's."""
    columns = pg.Columns({"x": (-3, 3), "y": (-3, 3), "s": ["f", "m"]}, intercept=True)
    table["s"] = np.array(["f", "m", "f"] * 300, dtype=object)
    whole = pg.second_moment(table, columns=columns).matrix()
    ask = ASK | {"columns": columns}
    for mechanism in (pg.AnalyzeGauss(), pg.AdditiveWishart(), pg.MatrixLaplace()):
        drawn = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            made = pg.release(
                table,
                epsilon=3.0,
                delta=1e-3,
                mechanism=mechanism,
                adjacency="add-remove",
                rng=rng,
                **ask,
            )
            total = made.total()
            drawn.append(total.matrix - whole - total.noise.shift_matrix(4))
        sums = np.sum([one.matrix for one in made.values()], axis=0)
        assert_array_equal(total.matrix, sums)
        expected = np.diag(total.noise.sandwich(total.matrix, np.eye(4)))
        seen = (np.array(drawn) ** 2).sum(axis=2)
        # Means of 60 squares: within 5 of their deviations.
        assert (np.abs(seen.mean(axis=0) - expected) < 5 * seen.std(axis=0) / math.sqrt(60)).all()


def test_sums_that_have_no_law(table):
    made = pg.release(table, epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), **ASK)
    refuses(lambda: added_up([made["a"].noise, SketchLaw(10, 0.0)]), ValueError, "by one mechanism")
    refuses(lambda: added_up([]), ValueError, "nothing")


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_save_and_load(table, tmp_path, suffix):
    path = tmp_path / f"r{suffix}"
    made = pg.release(table, COLUMNS, 1.0, 1e-6, out=path, by=pg.Groups("site", SITES, "other"))
    again = pg.load(path)
    assert list(again) == [*SITES, "other"]
    assert (again.groups, again.n_rows) == (made.groups, made.n_rows)
    for site in again:
        assert_array_equal(again[site].matrix, made[site].matrix)
        assert again[site]._header() == made[site]._header()
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFile):
        pg.load(path)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("kind", ["plain", "names", "array", "factor", "drop", "other"])
def test_bound_chosen_by_the_rows_of_all_groups(table, tmp_path, adjacency, kind):
    """The same choice, of the same rows, as without groups; one pass for its counts."""
    ask, rows = dict(ASK), {name: table[name] for name in ("x", "y")}
    columns, source = ask["columns"], table
    if kind == "factor":
        columns = pg.Columns({"x": (-3, 3), "y": (-3, 3), "k": pg.Factor(["u", "v"])})
        rows["k"] = np.array(["u", "v", "v"], object)[np.arange(900) % 3]
        source = table | rows
    elif kind == "names":
        columns = ["x", "y"]
    elif kind == "array":
        numbers = np.unique(table["site"].astype(str), return_inverse=True)[1]
        rows = np.stack([table["x"], table["y"]], axis=1)
        columns, source = None, np.column_stack([rows, numbers])
        ask |= {"by": pg.Groups("site", [0, 1, 2])}
    elif kind != "plain":
        ask |= {"by": pg.Groups("site", SITES[:2], kind)}
        if kind == "drop":
            listed = table["site"] != "c"
            rows = {name: column[listed] for name, column in rows.items()}
    ask |= {"columns": columns, "adjacency": adjacency}
    ledger = pg.Ledger(tmp_path / "l", 4.0, 1e-5, adjacency, "basic")
    made = pg.release(
        source,
        epsilon=1.0,
        delta=1e-6,
        bound=pg.PrivateBound(2.0),
        ledger=ledger,
        rng=np.random.default_rng(3),
        **ask,
    )
    scan = ScanRequest.of(rows, columns, None, None, None, None, False, adjacency)
    choice = BoundSelection(pg.PrivateBound(2.0), scan, adjacency)
    chosen = choice.draw(choice.count(), np.random.default_rng(3))
    assert all(one.bound == chosen.bound for one in made.values())
    assert [entry.epsilon for entry in ledger.entries] == [2.0, 1.0]
    assert made.epsilon == 3.0


def test_row_of_no_group_is_found_before_a_bound_is_chosen(table, tmp_path):
    ledger = pg.Ledger(tmp_path / "l", 4.0, 1e-5, composition="basic")
    ask = ASK | {"by": pg.Groups("site", SITES[:2], "error")}
    with pytest.raises(ValueError, match="of a group that is not listed"):
        pg.release(table, epsilon=1.0, delta=1e-6, bound=pg.PrivateBound(2.0), ledger=ledger, **ask)
    table["x"][5] = np.nan
    with pytest.raises(ValueError, match="row"):
        pg.release(table, epsilon=1.0, delta=1e-6, bound=pg.PrivateBound(2.0), ledger=ledger, **ASK)
    assert not ledger.entries


def test_cluster_counts_no_norms_by_group(table, tmp_path, monkeypatch):
    pytest.importorskip("dask")
    monkeypatch.setattr("privgram.scan.request.scale_out", lambda source: "dask")
    ledger = pg.Ledger(tmp_path / "l", 4.0, 1e-5, composition="basic")
    with pytest.raises(ValueError, match="pass its files, or a bound"):
        pg.release(table, epsilon=1.0, delta=1e-6, bound=pg.PrivateBound(0.5), ledger=ledger, **ASK)
    assert not ledger.entries


def test_how_many_rows_are_of_no_group_is_not_told(table):
    """The warning of few rows tells those of the table, which are public under replace."""
    ask = ASK | {"by": pg.Groups("site", SITES[:2], "drop"), "epsilon": 1.0, "delta": 1e-6}
    with pytest.warns(UserWarning, match=r"^900 rows are too few"):
        pg.release(table, bound=pg.PrivateBound(0.1), **ask)


def test_each_group_has_its_release(table):
    made = pg.release(pg.second_moment(table, **ASK), epsilon=1.0, delta=1e-6)
    assert list(made) == SITES
    refuses(lambda: Releases(made.groups, [made["a"]], None), ValueError, "1 releases for 3 groups")
