"""Adaptive rounds at tables with factors, which are apart in a frame."""

import math
from dataclasses import replace

import numpy as np
import pytest

import privgram as pg
from privgram.adaptive import rounds, whitening
from privgram.adaptive.rules import ADAPTIVE
from privgram.noise import EntryLaw, ImageLaw

pytestmark = pytest.mark.slow

LEVELS = (9, 4, 2)


def made_table(n=20_000, levels=LEVELS, seed=3):
    """Numbers that are narrow, off centre and differ by level, and an outcome."""
    rng = np.random.default_rng(seed)
    table = {f"f{k}": rng.integers(0, size, n) for k, size in enumerate(levels)}
    x = 0.2 + 0.05 * rng.standard_normal((n, 3))
    x[:, 1] += x[:, 0]
    y = 0.1 * rng.standard_normal(n)
    for k, size in enumerate(levels):
        x += 0.1 * rng.standard_normal((size, 3))[table[f"f{k}"]]
        y += 0.1 * rng.standard_normal(size)[table[f"f{k}"]]
    columns = {f"x{j}": x[:, j] for j in range(3)} | {"y": y + x @ [0.5, -1.0, 0.7]}
    return {name: column.clip(-1, 1) for name, column in columns.items()} | table


def described(levels=LEVELS, **options):
    bounds = dict.fromkeys(("x0", "x1", "x2", "y"), (-1.0, 1.0))
    bounds |= {f"f{k}": pg.Factor(list(range(size))) for k, size in enumerate(levels)}
    return pg.Columns(bounds, **options)


TABLE, COLUMNS = made_table(), described()
EXACT = pg.second_moment(TABLE, columns=COLUMNS).matrix()


def adaptive(source=TABLE, seed=0, columns=COLUMNS, **options):
    settings = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove"}
    settings |= {"mechanism": pg.AdaptiveGaussian(), "rng": np.random.default_rng(seed)}
    return pg.release(source, columns=columns, **settings | options)


def test_frame_whitens_numbers_within_levels():
    n = len(TABLE["y"])
    numbers = [TABLE[name] for name in ("x0", "x1", "x2", "y")]
    levels = [TABLE[f"f{k}"] == i for k, size in enumerate(LEVELS) for i in range(size)]
    rows = np.column_stack([*numbers, *levels]).astype(float)
    moment = rows.T @ rows
    plain = whitening.plain_transform(COLUMNS, len(COLUMNS), COLUMNS.bound, -1)
    assert [(start, size) for start, size, _ in plain.levels] == [(4, 9), (13, 4), (17, 2)]
    first = whitening.whiten(moment, 1e-9, n, plain)
    image = first.matrix @ moment @ first.matrix.T
    for before, seen in ((plain, moment), (first, image)):
        frame = whitening.whiten(seen, 1e-9, n, before)
        second = frame.matrix @ moment @ frame.matrix.T / n
        np.testing.assert_allclose(second[:4, :4], np.eye(4), atol=1e-5)
        np.testing.assert_allclose(second[:4, 4:], 0, atol=1e-5)
        for start, size, entry in frame.levels:
            own = slice(start, start + size)
            assert second[own, own].trace() == pytest.approx(entry**2)
            np.testing.assert_allclose(np.diag(second)[own], np.diag(frame.second)[own], rtol=1e-3)
        assert frame.typical == pytest.approx(second.trace(), rel=1e-3)
        np.testing.assert_allclose(frame.inverse @ frame.matrix, np.eye(19), atol=1e-9)
        metric = frame.matrix[:4, :4] @ frame.matrix[:4, :4].T
        np.testing.assert_allclose(metric, np.diag(np.diag(metric)), atol=1e-9 * metric.max())
        # No row is longer than what is public: at the corners, each with any levels.
        corners = np.array(np.meshgrid(*4 * [[-1.0, 1.0]])).reshape(4, -1).T
        shifts = frame.matrix[:4, 4:]
        most = max(
            ((corners @ frame.matrix[:4, :4].T + shifts[:, i] + shifts[:, j] + shifts[:, k]) ** 2)
            .sum(axis=1)
            .max()
            for i in range(9)
            for j in range(9, 13)
            for k in range(13, 15)
        )
        assert most + frame.constant <= frame.largest(COLUMNS.bound)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_errors_have_the_law_that_the_release_states(adjacency, monkeypatch):
    """Errors of 20 forms in 60 releases whose radius is beyond all rows: 4.5 standard errors.

    And what is known of factors holds in the release, without noise.
    """
    choose = rounds.choose_radius

    def chosen(*asked):
        found = choose(*asked)
        return replace(found, size=1.5 * found.size)

    monkeypatch.setattr(rounds, "choose_radius", chosen)
    monkeypatch.setattr(rounds, "ADAPTIVE", replace(ADAPTIVE, allowance=0.0))
    table = made_table(12_000)
    exact = pg.second_moment(table, columns=COLUMNS).matrix()
    forms = np.random.default_rng(1).standard_normal((20, 2, 19))
    scores = []
    for seed in range(60):
        made = adaptive(table, seed, adjacency=adjacency, epsilon=4.0)
        assert isinstance(made.noise, ImageLaw)
        images = forms @ np.linalg.inv(np.linalg.cholesky(made.noise.frame @ made.noise.frame.T))
        error = images @ (made.matrix - exact) @ images.mT
        variance = made.noise.entry_variance(made.matrix, images)
        scores.append((error / np.sqrt(variance))[:, 0, 1])
        scale = np.abs(made.matrix).max()
        for start, size in ((4, 9), (13, 4), (17, 2)):
            own = made.matrix[start : start + size, start : start + size]
            np.testing.assert_allclose(own, np.diag(np.diag(own)), atol=1e-9 * scale)
        sums = [made.matrix[start : start + size].sum(axis=0) for start, size in ((4, 9), (13, 4))]
        np.testing.assert_allclose(*sums, atol=1e-9 * scale)
    assert np.abs(np.mean(scores, axis=0)).max() < 4.5 / math.sqrt(60)
    assert np.abs(np.mean(np.square(scores), axis=0) - 1).max() < 4.5 * math.sqrt(2 / 60)


@pytest.mark.parametrize(
    "options", [{"bound": 2.0}, {"mechanism": pg.AdaptiveGaussian(target="f2[1]")}]
)
def test_factors_are_not_apart_where_that_would_not_be_theirs(options):
    """Of rows that are clipped a level's entry is shorter; a target is a number."""
    made = adaptive(**options, epsilon=4.0)
    error = np.abs(made.matrix - EXACT).max() / len(TABLE["y"])
    assert isinstance(made.noise, ImageLaw)
    assert "bound" in options or error < 0.05
    plain = whitening.plain_transform(COLUMNS, 19, made.bound, 18 if "mechanism" in options else -1)
    assert len(plain.levels) == (0 if "bound" in options else 2)


def test_few_levels_of_which_one_is_rare_are_whitened():
    table = {name: TABLE[name] for name in ("x0", "x1", "x2", "y")}
    table["f0"] = (np.random.default_rng(0).uniform(size=20_000) < 0.05).astype(int)
    made = adaptive(table, columns=described((2,)))
    assert isinstance(made.noise.base, EntryLaw)
    assert not isinstance(adaptive().noise.base, EntryLaw)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "part"), [pytest.param(1.0, 1.0, marks=pytest.mark.long), (4.0, 0.2)]
)
def test_five_hundred_levels_are_no_worse_than_one_look(epsilon, part):
    """Slopes and effects of 120 rows each, against those without privacy: 3 releases.

    At epsilon 1 noise hides the levels of either.
    """
    table, columns = made_table(60_000, (500,)), described((500,))
    exact = pg.second_moment(table, columns=columns).matrix()
    features = np.delete(np.arange(504), 3)

    def solved(matrix):
        return np.linalg.solve(matrix[np.ix_(features, features)], matrix[features, 3])

    sizes = {}
    for mechanism in (pg.AnalyzeGauss(), pg.AdaptiveGaussian()):
        errors = [
            solved(adaptive(table, seed, columns, mechanism=mechanism, epsilon=epsilon).matrix)
            - solved(exact)
            for seed in range(3)
        ]
        off = np.abs(errors)
        sizes[mechanism] = np.median(off[:, :3]), np.median(off[:, 3:])
    one, ours = sizes.values()
    assert ours[0] < part * one[0]
    assert ours[1] < part * one[1]
