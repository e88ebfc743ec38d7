"""The papers' constants against values worked out by hand from the printed formulas.

The expected numbers come from a second transcription of each formula, evaluated with
thirty digits; they are not recomputed here.
"""

import math
import pickle

import pytest
from support.helpers import refuses

from privgram.papers import PublishedErratumError, hardt_roth, sheffet, zhou_ligett_wasserman
from privgram.papers.sheffet import SketchProfile, WishartProfile
from privgram.privacy import GaussianProfile

B, EPS, DELTA = 7.4, 0.25, 1e-6


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (sheffet.theorem_3_1(44, B, EPS, DELTA), 45365.1032582648200778),
        (sheffet.theorem_b_1(44, B, EPS, DELTA), 23110.3356178933927077),
        (sheffet.corollary_b_2(44, B, EPS, DELTA), 45319.7320588356152281),
        (sheffet.algorithm_2(44, B, EPS, DELTA).regulariser, 93389.7117140544020982),
        (sheffet.algorithm_2(44, B, EPS, DELTA).laplace_scale, 438.08),
        (sheffet.algorithm_2(44, B, EPS, DELTA).shift, 6355.95278209269004068),
        (sheffet.theorem_4_1(22, 0.05, DELTA), 170282),
        (sheffet.theorem_4_1(22, 0.25, DELTA), 6832),
        (sheffet.theorem_4_1(22, 0.99, DELTA), 456),
        (sheffet.theorem_b_3(22, 1.0, 1.0, 0.5, DELTA), 1054),
        (sheffet.theorem_b_3(22, 20.0, 2.0, 0.5, DELTA), 194),
        (sheffet.lemma_a_3(9000, 22, B, DELTA), 392518.986828253637876),
        (sheffet.theorem_5_1(1022, B, EPS, DELTA), 167763.357184218901554),
        (sheffet.theorem_b_4(1022, B, EPS, DELTA), 84577.1316327428505609),
        (sheffet.theorem_b_5(10.0, B, 0.5, DELTA), 2.15470890756216771443),
        (sheffet.analyze_gauss(B, EPS, DELTA, "add-remove"), 1179.91859778104304042),
        (hardt_roth.figure_2(10, 0.5, DELTA), 74.8425333875399178435),
        (hardt_roth.figure_3(10, 0.5, DELTA), 570.153892047412287849),
        (zhou_ligett_wasserman.procedure_4_1(500, 10000, 20, 0.01), 0.735203376803001188514),
        (
            zhou_ligett_wasserman.theorem_4_6(
                500,
                10000,
                20,
                difference=0.02,
                lambda_min=0.5,
                lambda_min_reference=0.6,
                norm_reference=1.7,
                delta_max=0.01,
            ),
            251.490014489889285060,
        ),
    ],
)
def test_value(value, expected):
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (sheffet.section_2, (B, EPS, DELTA), 589.959298890521520210),
        (sheffet.analyze_gauss, (B, 1.0, DELTA), 294.979649445260760105),
        (sheffet.theorem_b_5, (1.0, 0.1, 0.5, DELTA), 21.5470890756216771443),
        (hardt_roth.theorem_2_6, (3.0, EPS, DELTA), 44.9618303868525983726),
        (hardt_roth.figure_2, (1, 0.5, 1e-9), 26.5989835583640612),
        (hardt_roth.figure_2, (3, 0.5, 1e-15), 59.6177286743723054994),
        (sheffet.theorem_3_1, (10_000, 1.0, 400.0, 0.1), 2.75309182602237836001),
        (sheffet.theorem_5_1, (10_000, 1.0, 400.0, 0.1), 2.75309182602237836001),
    ],
)
def test_erratum_refused_and_reproducible(function, args, expected):
    refuses(lambda: function(*args), PublishedErratumError, r"printed.*allow_published_erratum")
    assert function(*args, allow_published_erratum=True) == pytest.approx(expected, rel=1e-12)


def test_analyze_gauss_depends_on_the_adjacency():
    # At the paper's own settings the tail bound has room for the missing sqrt(2) ...
    args = (1.0, 0.05, math.exp(-9))
    assert sheffet.analyze_gauss(*args) == sheffet.analyze_gauss(*args, "add-remove")
    # ... at (1, 1e-6) it does not.
    sheffet.analyze_gauss(1.0, 1.0, 1e-6, "add-remove")
    with pytest.raises(PublishedErratumError, match="2 B\\^4"):
        sheffet.analyze_gauss(1.0, 1.0, 1e-6, "replace")
    refuses(lambda: sheffet.analyze_gauss(1.0, 1.0, 1e-6, "swap"), ValueError, "adjacency")


@pytest.mark.parametrize("rows", [1, 2, 44, 220, 10_000])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_adaptive_rows_are_the_largest_paid_for(rows, epsilon):
    price = sheffet.algorithm_2(rows, B, epsilon, DELTA).regulariser
    more = sheffet.algorithm_2(rows + 1, B, epsilon, DELTA).regulariser
    assert sheffet.algorithm_2_rows(price, B, epsilon, DELTA) == rows
    assert sheffet.algorithm_2_rows((price + more) / 2, B, epsilon, DELTA) == rows
    assert sheffet.algorithm_5_dof(price, B, epsilon, DELTA) == rows
    if rows == 1:
        with pytest.raises(ValueError, match="too small"):
            sheffet.algorithm_2_rows(0.999 * price, B, epsilon, DELTA)


def test_identities_between_the_statements():
    # Algorithm 2 is Theorem 3.1 at half the budget; 5.1 is 3.1 in other letters.
    assert sheffet.algorithm_2(44, B, EPS, DELTA).regulariser == pytest.approx(
        sheffet.theorem_3_1(44, B, EPS / 2, DELTA / 2), rel=1e-14
    )
    assert sheffet.theorem_5_1(44, B, EPS, DELTA) == pytest.approx(
        sheffet.theorem_3_1(44, B, EPS, DELTA), rel=1e-14
    )
    assert sheffet.algorithm_5(44, B, EPS, DELTA) == sheffet.algorithm_2(44, B, EPS, DELTA)
    # Theorem 4.1 is the instance C1 = B^2 of B.3 with C2 rounded up.
    for epsilon in (0.05, 0.5, 0.999):
        sharp = sheffet.theorem_b_3(22, B * B, B, epsilon, DELTA)
        assert sharp <= sheffet.theorem_4_1(22, epsilon, DELTA)
    assert sheffet.theorem_b_3(22, 1.0, 1.0, 0.999, DELTA) >= (
        0.98 * sheffet.theorem_4_1(22, 0.999, DELTA)
    )


@pytest.mark.parametrize(
    ("function", "args", "match"),
    [
        (sheffet.theorem_3_1, (44, B, EPS, 1 / math.e), "delta"),
        (sheffet.theorem_b_1, (44, B, EPS, 0.5), "delta"),
        (sheffet.corollary_b_2, (30, B, EPS, DELTA), "rows"),
        (sheffet.corollary_b_2, (44, B, 1.0, DELTA), "epsilon"),
        (sheffet.algorithm_2, (44, B, EPS, 0.4), "delta"),
        (sheffet.algorithm_2_rows, (math.nan, B, EPS, DELTA), "s must"),
        (sheffet.theorem_4_1, (22, 1.0, DELTA), "epsilon"),
        (sheffet.theorem_4_1, (22, 7.0, DELTA), "epsilon"),
        (sheffet.lemma_a_3, (100, 22, B, DELTA), "dof"),
        (sheffet.theorem_b_4, (44, B, 31.0, DELTA), "negative"),
        (sheffet.theorem_b_5, (1.0, B, 1.0, DELTA), "epsilon"),
        (hardt_roth.figure_2, (10, 1.0, DELTA), "epsilon"),
        (zhou_ligett_wasserman.procedure_4_1, (200, 10000, 20, 0.01), "rows"),
    ],
)
def test_outside_the_domain(function, args, match):
    refuses(lambda: function(*args), ValueError, match)


def test_columns_are_checked_when_given():
    with pytest.raises(ValueError, match=r"3\.1 needs n_columns < rows"):
        sheffet.theorem_3_1(22, B, EPS, DELTA, n_columns=22)
    with pytest.raises(ValueError, match=r"B\.1 needs n_columns < rows"):
        sheffet.theorem_b_1(22, B, EPS, DELTA, n_columns=22)
    with pytest.raises(ValueError, match="dof must be an integer of at least 22"):
        sheffet.theorem_5_1(21, B, EPS, DELTA, n_columns=22)
    with pytest.raises(ValueError, match="dof must be an integer of at least 22"):
        sheffet.theorem_b_4(21, B, EPS, DELTA, n_columns=22)


@pytest.mark.parametrize("delta", [0.36, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 0.99, 3.0, 20.0])
@pytest.mark.parametrize("rows", [1, 44, 10_000])
def test_sketch_theorems_hold(rows, epsilon, delta):
    for theorem in (
        sheffet.theorem_3_1,
        sheffet.theorem_b_1,
        sheffet.corollary_b_2,
        sheffet.theorem_5_1,
        sheffet.theorem_b_4,
    ):
        try:
            regulariser = theorem(rows, 1.0, epsilon, delta)
        except PublishedErratumError:
            raise
        except ValueError:
            continue  # outside its domain
        assert SketchProfile(rows, 1 / regulariser, "replace").delta(epsilon) <= delta


@pytest.mark.parametrize("delta", [0.36, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 0.99])
def test_wishart_theorems_hold(epsilon, delta):
    d = 22
    k = sheffet.theorem_4_1(d, epsilon, delta)
    assert WishartProfile(k, d, 1.0, "replace").delta(epsilon) <= delta
    for scale in (0.2, 5.0):
        k = sheffet.theorem_b_3(d, scale, 1.0, epsilon, delta)
        assert WishartProfile(k, d, 1 / scale, "replace").delta(epsilon) <= delta


@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.05, 0.99])
@pytest.mark.parametrize("k", [1, 10, 300])
def test_projection_holds(k, epsilon, delta):
    # At worst every entry of a row is the largest of its column.
    mu = math.sqrt(k) / hardt_roth.figure_3(k, epsilon, delta)
    assert GaussianProfile(mu).delta(epsilon) <= delta


def test_erratum_says_what_is_wrong_apart_from_what_to_do():
    with pytest.raises(PublishedErratumError) as caught:
        sheffet.analyze_gauss(B, EPS, DELTA)
    error = pickle.loads(pickle.dumps(caught.value))  # as processes hand it on
    assert str(error) == str(caught.value)
    assert error.flaw.startswith("Sheffet, section 2")
    assert str(error).count(error.flaw) == 1
    assert "allow_published_erratum" not in error.flaw
