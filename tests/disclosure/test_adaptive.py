"""Adaptive rounds: their law, their account, and what happens where they cannot be taken."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from bench.audit import adaptive as audit
from privgram.adaptive import rounds, whitening
from privgram.adaptive.rules import ADAPTIVE
from privgram.adaptive.whitening import whiten
from privgram.disclosure import samplers
from privgram.noise import GaussianLaw, ImageLaw
from privgram.privacy import GaussianProfile

NAMES = ("a", "b", "y")
COLUMNS = pg.Columns(dict.fromkeys(NAMES, (-1.0, 1.0)), intercept=True)


def made_table(n=4000, seed=5):
    """Narrow, off centre and correlated: what one round drowns."""
    rng = np.random.default_rng(seed)
    a = 0.3 + 0.1 * rng.standard_normal(n)
    b = a + 0.02 * rng.standard_normal(n)
    y = 0.5 * a - 0.7 * b + 0.03 * rng.standard_normal(n)
    return np.column_stack([a, b, y]).clip(-1, 1)


TABLE = made_table()
EXACT = pg.second_moment(TABLE, columns=COLUMNS).matrix()


def adaptive(source=TABLE, seed=None, **options):
    settings = {"epsilon": 2.0, "delta": 1e-6, "adjacency": "add-remove", "columns": COLUMNS}
    mechanism = options.pop("mechanism", pg.AdaptiveGaussian())
    rng = None if seed is None else np.random.default_rng(seed)
    return pg.release(source, mechanism=mechanism, rng=rng, **settings | options)


def one_round(source=TABLE, **options):
    return adaptive(source, mechanism=pg.AnalyzeGauss(), **options)


@pytest.fixture
def noise_alone(monkeypatch):
    """Radii beyond all rows, and laws of the noise alone."""
    choose = rounds.choose_radius

    def chosen(*asked):
        found = choose(*asked)
        return replace(found, size=1.5 * found.size)

    monkeypatch.setattr(rounds, "choose_radius", chosen)
    monkeypatch.setattr(rounds, "ADAPTIVE", replace(ADAPTIVE, allowance=0.0))


@pytest.mark.long
@pytest.mark.usefixtures("noise_alone")
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("rounds", ["auto", 2])
def test_errors_have_the_law_that_the_release_states(adjacency, rounds):
    """Standardised errors of 200 releases of a table whose rows are all as long in the frame.

    Means and variances of 200 standard normals for 10 entries; limits of 4.5 standard errors: a
    false alarm in 7000.
    """
    signs = np.random.default_rng(2).choice([-1.0, 1.0], (4000, 3))
    table = signs @ made_table(3) * 0.3 + 0.05
    exact = pg.second_moment(table, columns=COLUMNS).matrix()
    frame = np.linalg.inv(np.linalg.cholesky(exact / len(table)))
    upper = np.triu_indices(4)
    scores = []
    for seed in range(200):
        made = adaptive(
            table, seed=seed, adjacency=adjacency, mechanism=pg.AdaptiveGaussian(rounds=rounds)
        )
        assert made.parameters["rounds"] in ((3, 4) if rounds == "auto" else (2,))
        error = frame @ (made.matrix - exact) @ frame.T
        variance = made.noise.entry_variance(made.matrix, frame)
        scores.append((error / np.sqrt(variance))[upper])
    assert np.abs(np.mean(scores, axis=0)).max() < 4.5 / math.sqrt(200)
    assert np.abs(np.mean(np.square(scores), axis=0) - 1).max() < 4.5 * math.sqrt(2 / 200)


def test_far_less_noise_than_one_look():
    """Medians of nine releases: one of a hundred does not find its frame."""
    one = one_round().noise
    frame = np.linalg.inv(np.linalg.cholesky(EXACT / len(TABLE)))
    ratios = []
    for seed in range(9):
        made = adaptive(seed=seed)
        assert isinstance(made.noise, ImageLaw)
        ours = made.noise.entry_variance(made.matrix, frame)
        ratios.append(one.entry_variance(made.matrix, frame) / ours)
    ratio = np.median(ratios, axis=0)
    # The direction of the residual; nowhere much more than the budget of other rounds costs.
    assert ratio[-1, -1] > 10
    assert (ratio > 1 / 30).all()


@pytest.mark.slow
def test_one_round_where_a_frame_gains_nothing():
    """The rest of the budget is spent in the same frame: the law is Analyze Gauss's."""
    corners = np.random.default_rng(2).choice([-1.0, 1.0], (4000, 3))
    exact = pg.second_moment(corners, columns=COLUMNS).matrix()
    law = one_round().noise
    errors = []
    for seed in range(300):
        made = adaptive(corners, seed=seed)
        assert made.noise == law
        assert made.parameters["round_radius"] == [2.0, 2.0]
        errors.append((made.matrix - exact)[np.triu_indices(4)])
    # 10 variances of 300 draws, limits of 4.5 standard errors: a false alarm in 10 000.
    expected = np.where(np.equal(*np.triu_indices(4)), law.std_diagonal**2, law.std**2)
    ratio = np.mean(np.square(errors), axis=0) / expected
    assert np.abs(ratio - 1).max() < 4.5 * math.sqrt(2 / 300)
    assert np.abs(np.mean(errors, axis=0) / np.sqrt(expected)).max() < 4.5 / math.sqrt(300)


def test_too_few_rows_for_a_second_look():
    made = adaptive(TABLE[:40], seed=4)
    assert made.parameters["round_radius"] == [2.0, 2.0]
    assert isinstance(made.noise, GaussianLaw)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS.names[:3], COLUMNS.names[:1]])
def test_looks_and_the_histogram_add_up_to_the_budget(adjacency, columns):
    options = {} if columns is COLUMNS else {"bound": 1.5}
    table = dict(zip(NAMES, TABLE.T, strict=True))
    options |= {"columns": columns, "adjacency": adjacency}
    made = adaptive(table, **options)
    assert made.privacy == one_round(table, **options).privacy
    assert isinstance(made.privacy, GaussianProfile)
    found = made.parameters
    spent = [*found["round_mu"], *found["counts_mu"], found.get("number_mu", 0.0)]
    assert math.hypot(*spent) <= made.privacy.sensitivity_ratio
    assert math.hypot(*spent) == pytest.approx(made.privacy.sensitivity_ratio, rel=1e-9)
    # Each round's noise is what its share needs for the longest row it lets in.
    replaced = math.sqrt(2.0) if adjacency == "replace" and made.n_columns > 1 else 1.0
    for mu, radius, std in zip(
        found["round_mu"], found["round_radius"], found["round_noise_std"], strict=True
    ):
        needed = replaced * radius**2 / mu / math.sqrt(2.0)
        assert needed <= std < 1.001 * needed


@pytest.mark.long
def test_joint_loss_of_adaptive_rounds_is_a_gaussian_mechanisms():
    """An independent route to the account: losses of whole releases, simulated on neighbours.

    Every round shortens the row that one table has more to its radius, so it moves each by all that
    its share pays for: then the loss is N(mu^2 / 2, mu^2), however the rounds adapt.  600 losses:
    mean and variance within 4.5 standard errors, a false alarm in 100 000.
    """
    (case,) = (case for case in audit.CASES if case.adjacency == "add-remove")
    (pair,) = audit.worst_pairs(case)
    noise = pg.AdaptiveGaussian().calibrate(2, 1.000001, case.epsilon, case.delta, "add-remove")
    rng = np.random.default_rng(3)
    scores = []
    for _ in range(600):
        rounds = audit.Watched(pair.first, pair.second, noise=noise, rng=rng)
        samplers.run_rounds(pg.AdaptiveGaussian(), rounds)
        assert rounds.parameters["rounds"] in (3, 4)
        assert "number_mu" in rounds.parameters
        scores.append((rounds.ratio - noise.mu**2 / 2) / noise.mu)
    assert abs(np.mean(scores)) < 4.5 / math.sqrt(600)
    assert abs(np.mean(np.square(scores)) - 1) < 4.5 * math.sqrt(2 / 600)


@pytest.mark.slow
@pytest.mark.usefixtures("noise_alone")
def test_target_gets_less_noise():
    """And errors of the law that the release states: 16 x 24 slopes, 4.5 standard errors."""
    rng = np.random.default_rng(0)
    table = 0.05 * rng.standard_normal((20_000, 25)) @ np.triu(rng.uniform(0, 0.3, (25, 25)), 1)
    table = (table + 0.05 * rng.standard_normal(table.shape)).clip(-1, 1)
    columns = pg.Columns({f"x{i}": (-1, 1) for i in range(25)})
    exact = pg.second_moment(table, columns=columns).matrix()
    slopes = np.linalg.solve(exact[:24, :24], exact[:24, 24])
    errors, scores = {}, []
    for target in (None, "x24"):
        fits = []
        for seed in range(16):
            made = adaptive(
                table, seed, columns=columns, mechanism=pg.AdaptiveGaussian(target=target)
            )
            inverse = np.linalg.inv(made.matrix[:24, :24])
            fits.append(inverse @ made.matrix[:24, 24] - slopes)
            v = np.append(slopes + fits[-1], -1)
            noise = made.noise.sandwich(made.matrix, np.outer(v, v))[:24, :24]
            scores.append(fits[-1] / np.sqrt(np.diag(inverse @ noise @ inverse)))
        errors[target] = np.mean(np.square(fits))
    assert errors["x24"] < 0.8 * errors[None]
    assert abs(np.mean(scores)) < 4.5 / math.sqrt(2 * 384)
    assert abs(np.mean(np.square(scores)) - 1) < 4.5 * math.sqrt(2 / (2 * 384))


def test_frame_towards_a_target_lengthens_its_residual_alone():
    frame = replace(whiten(EXACT, 1e-9, len(TABLE)), typical=24.0)
    ours = frame.towards(2)
    assert ours.stretch == pytest.approx(2.0)
    residual = np.linalg.inv(EXACT)[:, 2]
    images = np.linalg.solve(frame.matrix.T, residual), np.linalg.solve(ours.matrix.T, residual)
    assert np.linalg.norm(images[0]) == pytest.approx(ours.stretch * np.linalg.norm(images[1]))
    second = ours.matrix @ EXACT @ ours.matrix.T / len(TABLE)
    np.testing.assert_allclose(np.linalg.eigvalsh(second), [1, 1, 1, ours.stretch**2], rtol=1e-4)
    assert ours.typical == pytest.approx(27.0)
    metric = ours.matrix @ ours.matrix.T
    np.testing.assert_allclose(metric, np.diag(np.diag(metric)), atol=1e-9 * metric.max())


def test_where_rows_are_dropped_the_number_that_counts_is_asked_for():
    """The public one has those without values too: rows would seem shorter than they are."""
    gaps = np.concatenate([TABLE, np.full((3 * len(TABLE), 3), np.nan)])
    for missing, asked in (("drop", True), ("error", False)):
        source = gaps if asked else TABLE
        columns = pg.Columns(dict.fromkeys(NAMES, (-1.0, 1.0)), missing=missing)
        made = adaptive(source, seed=7, columns=columns, adjacency="replace")
        assert ("number_mu" in made.parameters) == asked
        frame = np.linalg.inv(made.noise.frame)
        square = np.trace(frame @ made.matrix @ frame.T) / len(TABLE)
        assert 1.5 < square < 3.5  # three columns, of which whitening leaves less than 1 each


def test_number_that_was_asked_for_serves_the_ridge():
    """As the public one does: without it, any number that the lengths allow is believed."""
    columns = pg.Columns(dict.fromkeys(NAMES, (-1.0, 1.0)))
    made = adaptive(seed=7, columns=columns)
    assert abs(made.parameters["rows"] - len(TABLE)) < 5 * made.parameters["rows_std"]
    public = replace(made, n_rows=round(made.parameters["rows"]), adjacency="replace")
    ours, theirs = (one.regress("y", ridge="auto").used for one in (made, public))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("kind", ["normal", "exponential", "t3"])
def test_as_many_rows_are_clipped_as_the_noise_stands_for(kind, adjacency):
    """By the rows themselves, and not far fewer at the edge before.

    Numbers of 24 releases are within 5 of the deviations that are stated: a false alarm in 10^5.
    """
    rng = np.random.default_rng(0)
    draw = {
        "normal": rng.normal,
        "exponential": rng.laplace,
        "t3": lambda size: rng.standard_t(3, size),
    }
    table = 0.02 * draw[kind](size=(20_000, 3)) @ [[1, 0.9, 0], [0, 0.5, 0.5], [0, 0, 1]]
    rows = np.column_stack([table.clip(-1, 1), np.ones(20_000)])
    for seed in range(4):
        made = adaptive(table, seed=seed, adjacency=adjacency)
        found, radius = made.parameters, made.parameters["round_radius"][-1]
        lengths = np.linalg.norm(rows @ np.linalg.inv(made.noise.frame).T, axis=1)
        wanted = ADAPTIVE.beyond * found["round_noise_std"][-1] / radius**2
        wanted = max(wanted, ADAPTIVE.seen * found["clipped_rows_std"])
        five = 5 * found["clipped_rows_std"]
        assert found["clipped_rows"] <= wanted
        assert abs((lengths > radius).sum() - found["clipped_rows"]) < five
        assert (lengths > radius * 2 ** (-0.5 / ADAPTIVE.per_octave)).sum() > wanted - five


@pytest.mark.parametrize("what", ["the last round would drown", "its noise would be larger"])
def test_several_rounds_take_nothing_away_that_one_shows(what, monkeypatch):
    """Where what they found in the end is worse, what is left goes to one round."""
    if what == "the last round would drown":
        monkeypatch.setattr(whitening.WhiteningTransform, "loudest", lambda frame, rows: 1.0)
        monkeypatch.setattr(
            whitening.WhiteningTransform, "teaches", lambda frame, noise, rows: True
        )
    else:
        monkeypatch.setattr(rounds, "ADAPTIVE", replace(ADAPTIVE, gain_of_last=1e9))
    made = adaptive(seed=7)
    found = made.parameters
    assert isinstance(made.noise, GaussianLaw)
    assert len(found["counts_mu"]) >= 2
    assert "clipped_rows" not in found
    assert found["round_radius"][0] == found["round_radius"][-1] == 2.0
    spent = math.hypot(found["round_mu"][0], found["round_mu"][-1])
    assert made.noise.std == pytest.approx(
        one_round().noise.std * made.privacy.sensitivity_ratio / spent, rel=1e-9
    )


def test_by_name_and_its_parameters():
    assert adaptive(mechanism="adaptive-gaussian", seed=1).mechanism == pg.AdaptiveGaussian()
    refuses(lambda: pg.AdaptiveGaussian(target=3), TypeError, "name of a column")
    for bad in (0, 1, 5, True, "many", 1.5):
        with pytest.raises((ValueError, TypeError), match="rounds"):
            pg.AdaptiveGaussian(rounds=bad)
    assert replace(pg.AdaptiveGaussian(), rounds=2).most_rounds == 2


def test_frames_have_orthogonal_rows_and_whiten():
    first = EXACT + 1.0 * np.eye(4)
    frame = whiten(first, 1.0, len(TABLE))
    second = whiten(frame.matrix @ first @ frame.matrix.T, 0.1, len(TABLE), frame)
    for one in (frame, second):
        metric = one.matrix @ one.matrix.T
        np.testing.assert_allclose(metric, np.diag(np.diag(metric)), atol=1e-9 * metric.max())
        np.testing.assert_allclose(one.inverse @ one.matrix, np.eye(4), atol=1e-9)
        longest = max(np.linalg.norm(one.matrix @ u) ** 2 for u in 2 * np.linalg.svd(one.matrix)[2])
        assert one.largest(2.0) == pytest.approx(longest)
    white = second.matrix @ first @ second.matrix.T / len(TABLE)
    np.testing.assert_allclose(np.linalg.eigvalsh(white), 1.0, atol=0.05)
    assert second.typical == pytest.approx(np.trace(white), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_intervals_hold_the_rows_at_hand_though_some_were_shortened(adjacency):
    """Long skewed errors, 40 draws of 3 slopes: a false alarm in 500 where 95 % of them hold."""
    rng = np.random.default_rng(8)
    n = 20_000
    features = np.column_stack([rng.normal(size=n), rng.uniform(-2, 2, n), rng.lognormal(size=n)])
    features = features.clip(-8, 8)
    # The longest pull one way: with no allowance for them 3 in 4 hold.
    errors = rng.lognormal(0.4 * features[:, 0] + 0.2 * features[:, 1], 0.9)
    target = (features @ [0.5, -0.3, 0.2] + errors).clip(-25, 25)
    table = np.column_stack([features, target, np.ones(n)])
    columns = pg.Columns({"a": (-8, 8), "b": (-8, 8), "c": (-8, 8), "y": (-25, 25)}, intercept=True)
    exact = np.linalg.lstsq(table[:, [0, 1, 2, 4]], target)[0][:3]
    held, clipped = [], 0
    for seed in range(40):
        made = pg.release(
            table[:, :4], columns, 1.0, 1e-6, adjacency=adjacency, rng=np.random.default_rng(seed)
        )
        clipped += bool(made.parameters.get("clipping_bias"))
        low, high = np.asarray(made.regress("y").conf_int(estimand="sample"))[:3].T
        held.append((low < exact) & (exact < high))
    assert clipped > 30
    assert np.mean(held) > 0.88
