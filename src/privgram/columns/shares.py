"""Which term has which stored columns, what each pays of the squared bound, and what it should.

The noise grows with the squared bound of a row, to which a term of weight w adds w^2 for every
polynomial in it, whatever the number of its levels.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from privgram.columns.terms import INTERCEPT, Piece, parse_terms
from privgram.columns.variables import Factor

if TYPE_CHECKING:
    from privgram.columns import Columns
    from privgram.columns.layout import Stored

__all__ = ["by_term", "proposed_weights", "share", "target_term"]


def by_term(columns: Columns) -> dict[str, tuple[Stored, ...]]:
    """The stored columns of each term, the intercept's last.

    What is in two terms is of the one with more polynomials. A term whose columns are of others,
    or follow from theirs, has none.
    """
    terms = {term: set(term.pieces()) for term in parse_terms(columns.terms, columns.variables)}
    found: dict[str, list[Stored]] = {term.label(columns.variables): [] for term in terms}
    for stored in columns.layout.stored:
        among = [term for term, pieces in terms.items() if stored.piece in pieces]
        owner = max(among, key=lambda term: len(terms[term]), default=None)
        label = INTERCEPT if owner is None else owner.label(columns.variables)
        found.setdefault(label, []).append(stored)
    return {term: tuple(stored) for term, stored in found.items()}


def share(columns: Columns, stored: Collection[Stored]) -> float:
    """The part of the squared bound that some stored columns pay."""
    return math.fsum(one.weight**2 for one in stored) / columns.layout.squared_bound()


def proposed_weights(columns: Columns, targets: Collection[str]) -> dict[str, float]:
    """Weights of terms that serve regressions of some terms on the others.

    Parameters
    ----------
    columns : Columns
        Its own weights do not matter.
    targets : collection of str
        Some of its terms, each of a single number.

    Returns
    -------
    dict of str to float
        For each term with stored columns, rounded to three digits, and for those whose columns are
        also in another, that other's. The intercept has weight 1; if it is not stored, the weights
        leave the bound about as it is without any.

    Raises
    ------
    ValueError
        If a target is not among the terms, or not a single number.

    Notes
    -----
    The least sum, over terms t and targets y, of

        r_t B^4 / (w_t^2 w_y^2),    B^2 = sum of m_s w_s^2 over all terms s.

    B^4 / (w_t^2 w_y^2) is in proportion to the variance of the noise in the sums of products of
    t and y, per unit. r_t is how much noisier a coefficient is for that: the mean over the
    term's m_t polynomials of 1 / v, where v is the mean square of a column if values fill their
    bounds evenly and levels are equally frequent (for a number 1/3, for a factor of L levels
    1/L). Noise in the features themselves is left out: it counts in proportion to the squared
    coefficients, which are small where the target does not fill its bounds.

    In the shares p_s = m_s w_s^2 / B^2, which add up to 1, the sum is that of r_t m_t / p_t times
    that of m_y / p_y. By the inequality of Cauchy and Schwarz it is least where the targets
    have one half, equally divided, and the other terms share the other half in proportion to
    sqrt(r_t m_t).
    """
    pieces = {term: stored for term, stored in by_term(columns).items() if stored}
    goals = {target_term(columns, target) for target in targets}
    if not goals or len(goals) == len(pieces):
        raise ValueError("targets are some of the terms, and others are there to explain them")
    sizes = {
        term: 1.0
        if term in goals
        else math.sqrt(math.fsum(_reciprocal_mean_square(columns, one.piece) for one in stored))
        for term, stored in pieces.items()
    }
    halves = {
        half: math.fsum(size for term, size in sizes.items() if (term in goals) == half)
        for half in (True, False)
    }
    squares = {
        term: size / (2 * halves[term in goals] * len(pieces[term])) for term, size in sizes.items()
    }
    ones = squares.pop(INTERCEPT, None)
    unit = 1 / ones if ones is not None else math.fsum(map(len, pieces.values()))
    found = {term: float(f"{math.sqrt(unit * square):.3g}") for term, square in squares.items()}
    # A column in two terms takes the larger weight, and a term without any has weight 1.
    owners = {one.piece: found[term] for term in found for one in pieces[term]}
    for term in parse_terms(columns.terms, columns.variables):
        given = [owners[piece] for piece in term.pieces() if piece in owners]
        if given:
            found.setdefault(term.label(columns.variables), min(given))
    return found


def target_term(columns: Columns, target: str) -> str:
    """The term of a target, as `by_term` writes it; ValueError if it is not a single number."""
    (term,) = parse_terms([target], columns.variables)
    label = term.label(columns.variables)
    if not by_term(columns).get(label):
        raise ValueError(f"the target {target!r} is not among the terms, or follows from others")
    if term.factors or sum(degree for _, degree in term.degrees) != 1:
        raise ValueError(f"the target {target!r} is not a single number")
    return label


def _reciprocal_mean_square(columns: Columns, piece: Piece) -> float:
    """1 / v; the mean square of the k-th Legendre polynomial over [-1, 1] is 1 / (2 k + 1)."""
    found = 1.0
    for _, degree in piece.powers:
        found *= 2 * degree + 1
    for name in piece.factors:
        described = columns.variables[name]
        assert isinstance(described, Factor)
        found *= len(described)
    return found
