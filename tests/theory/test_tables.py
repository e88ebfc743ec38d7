"""docs/theory/tables.md by second routes: rows at random, tables by hand, draws of the noise."""

import re
from itertools import product

import numpy as np
import pytest
from numpy.polynomial import legendre
from oracle import RowAccumulator, _squared_norms
from scipy import stats

import privgram as pg
from privgram.columns.structure import ties, zeros
from privgram.columns.terms import ONES, Piece
from privgram.noise import GaussianLaw, MaskedLaw, TiedLaw, symmetric_gaussian

BOUNDS = {
    "x": (-3.0, 5.0),
    "z": (10.0, 20.0),
    "a": ["p", "q", "r"],
    "b": ["u", "v"],
    "c": ["s", "t"],
}
FACTORS = ("a", "b", "c")
TERMS = {
    "numbers": ["poly(x, 3)", "z", "x:z"],
    "factors": ["a", "b", "z"],
    "products": ["a:b", "x:a", "poly(z, 2)"],
    "all": ["a:b", "poly(x, 2):b", "z:a", "x:z"],
}


def columns_of(terms, weights=None, intercept=True):
    used = {name for name in BOUNDS if any(name in re.findall(r"\w+", term) for term in terms)}
    bounds = {name: given for name, given in BOUNDS.items() if name in used}
    return pg.Columns(bounds, intercept=intercept, terms=terms, weights=weights)


def rows_of(columns, n, rng, spread=1.5):
    """Values in and beyond the bounds."""
    table = {}
    for name in columns.selected:
        if name in FACTORS:
            table[name] = rng.choice(BOUNDS[name], n)
        else:
            low, high = BOUNDS[name]
            table[name] = (low + high) / 2 + spread * (high - low) / 2 * rng.uniform(-1, 1, n)
    return table


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS)
def test_no_row_is_longer_than_the_bound_and_one_is_as_long(terms):
    rng = np.random.default_rng(0)
    weights = {term: rng.uniform(0.3, 3) for term in terms}
    for columns in (columns_of(terms), columns_of(terms, weights)):
        norms = np.linalg.norm(columns.encode(rows_of(columns, 20_000, rng)), axis=1)
        assert norms.max() <= columns.bound * (1 + 1e-15)
        # Beyond its bounds a number is at them, so among so many rows some are at the corner.
        longest = columns.layout.squared_bound() ** 0.5
        assert norms.max() >= longest * (1 - 1e-15)
        # Odd weights have room above, so that the kernel needs no norms.
        assert longest <= columns.bound <= longest * (1 + 2e-12 * (columns.weights != {}) + 1e-15)
        assert norms.min() < columns.bound


def test_rows_at_the_bound_become_the_integers_of_rows_that_are_not_clipped():
    rng = np.random.default_rng(1)
    clipped = 0
    for _ in range(60):
        columns = columns_of(TERMS["all"], {term: rng.uniform(0.3, 3) for term in TERMS["all"]})
        longest = {"x": [5.0], "z": [20.0], "a": ["r"], "b": ["u"]}
        row = columns.encode(longest)
        accumulator = RowAccumulator(len(columns), columns.bound)
        clipped += bool(_squared_norms(row)[0] > columns.bound**2)
        assert (accumulator.quantise(row) == np.rint(row * accumulator.scale)).all()
    assert clipped < 30  # and those by the rounding of their norm alone


def by_hand(table, names, powers):
    """Columns of a piece without its weight, cell by cell."""
    value = np.ones(len(next(iter(table.values()))))
    for name, degree in powers:
        low, high = BOUNDS[name]
        u = np.clip((table[name] - (low + high) / 2) / ((high - low) / 2), -1, 1)
        value = value * legendre.Legendre.basis(degree)(u)
    cells = product(*(BOUNDS[name] for name in names))
    return np.column_stack(
        [
            value
            * np.all([table[n] == level for n, level in zip(names, cell, strict=True)], axis=0)
            for cell in cells
        ]
    )


@pytest.mark.parametrize(
    "piece",
    [
        ONES,
        Piece((), ("a",)),
        Piece((), ("b",)),
        Piece((), ("a", "b")),
        Piece((("x", 1),), ("b",)),
        Piece((("x", 2),), ("b",)),
        Piece((("x", 1),)),
        Piece((("z", 1),)),
        Piece((("x", 1), ("z", 1))),
    ],
    ids=str,
)
def test_implied_columns_are_an_image_of_stored_ones(piece):
    columns = columns_of(TERMS["all"], {"a:b": 1.7, "z:a": 0.4})
    table = rows_of(columns, 300, np.random.default_rng(2))
    image = columns.layout.image(piece)
    written = by_hand(table, piece.factors, piece.powers)
    np.testing.assert_allclose(columns.encode(table) @ image.T, written, atol=1e-12)


def law_of(columns, std=1.0):
    masked = MaskedLaw(GaussianLaw(std, np.sqrt(2) * std), zeros(columns.layout))
    found = ties(columns.layout)
    return TiedLaw(masked, found) if found else masked


STRUCTURES = {
    "factors": (TERMS["factors"], None),
    "products": (TERMS["products"], None),
    "all": (TERMS["all"], None),
    "weights": (["a:b", "b:c", "x:a", "x:b"], {"a:b": 1.7, "b:c": 0.4, "x:a": 0.6}),
}


@pytest.mark.parametrize(("terms", "weights"), STRUCTURES.values(), ids=STRUCTURES)
def test_imposed_identities_hold_of_every_table_and_give_the_nearest_matrix(terms, weights):
    """By rows at random: their products stay, and what is taken off is orthogonal to them."""
    rng = np.random.default_rng(3)
    columns = columns_of(terms, weights)
    law, d = law_of(columns), len(columns)
    written = columns.encode(rows_of(columns, 100, rng))
    noise = symmetric_gaussian(d, 1.0, np.sqrt(2.0), rng)
    projected = law.project(noise)
    assert np.linalg.norm(projected) < 0.99 * np.linalg.norm(noise)
    np.testing.assert_allclose(law.project(projected), projected, atol=1e-12)
    for row in written:
        outer = np.outer(row, row)
        np.testing.assert_allclose(law.project(outer), outer, atol=1e-12)
        assert abs(((noise - projected) * outer).sum()) < 1e-10 * np.linalg.norm(noise) * d


@pytest.mark.parametrize(("terms", "weights"), STRUCTURES.values(), ids=STRUCTURES)
def test_projected_noise_has_its_stated_law(terms, weights):
    """By draws of whole noise that are projected; 1 false alarm in 10,000 over all."""
    rng = np.random.default_rng(4)
    columns = columns_of(terms, weights)
    law, d, draws = law_of(columns, 2.0), len(columns), 800
    frame = rng.normal(size=(3, d))
    frame = np.vstack([frame, np.eye(d)])  # single entries too
    stated = law.entry_variance(np.zeros((d, d)), frame)
    known = stated < 1e-9
    inner = np.outer(frame[0], frame[0])
    products, images = np.empty((draws, d + 3, d + 3)), np.empty((draws, d))
    for i in range(draws):
        noise = law.project(symmetric_gaussian(d, 2.0, 2 * np.sqrt(2.0), rng))
        products[i] = frame @ noise @ frame.T
        images[i] = noise @ frame[0]
    assert np.abs(products[:, known]).max(initial=0.0) < 1e-9
    ratio = (products**2).sum(axis=0)[~known] / stated[~known]
    tail = 1e-4 / (2 * len(STRUCTURES) * (ratio.size + 1))
    low, high = stats.chi2(draws).ppf([tail, 1 - tail])
    assert ((low < ratio) & (ratio < high)).all()
    # Of N v in a random direction: the quadratic form of the stated covariance.
    direction = rng.normal(size=d)
    variance = direction @ law.sandwich(np.zeros((d, d)), inner) @ direction
    assert low < ((images @ direction) ** 2).sum() / variance < high


def test_no_variance_grows_and_some_fall():
    rng = np.random.default_rng(5)
    for terms in TERMS.values():
        columns = columns_of(terms)
        law, d = law_of(columns), len(columns)
        frame, nothing = rng.normal(size=(20, d)), np.zeros((d, d))
        before = GaussianLaw(1.0, np.sqrt(2.0)).entry_variance(nothing, frame)
        after = law.entry_variance(nothing, frame)
        assert (after <= before * (1 + 1e-12)).all()
        assert (after < 0.98 * before).any() == bool(zeros(columns.layout))
