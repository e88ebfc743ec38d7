"""Compression: its law by another route, truncation, and what is claimed of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from support.helpers import refuses

from privgram.papers import zhou_ligett_wasserman
from privgram.papers.sheffet import SketchProfile
from privgram.papers.zhou_ligett_wasserman import TruncatedSketchProfile, compress, compression


def generator(seed=1):
    return np.random.default_rng(seed)


def table(rng, n=500, p=4):
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 0.3


def normalised(A):
    return A * math.sqrt(len(A)) / np.linalg.norm(A, axis=0)


STORAGE = {
    "dense": np.asarray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_matrix,
    "CSR matrix": sp.csr_matrix,
    "blocks": lambda A: [A[:7], sp.csr_matrix(A[7:50]), A[50:]],
}
stored = pytest.mark.parametrize("store", STORAGE.values(), ids=STORAGE)


@stored
def test_rows_are_drawn_of_the_covariance(rng, store, monkeypatch):
    A = table(rng)
    sigma = normalised(A).T @ normalised(A) / 500
    values, vectors = np.linalg.eigh(sigma)
    expected = generator().standard_normal((300, 4)) * np.sqrt(values) @ vectors.T
    for entries in (1, 100, 1 << 22):
        monkeypatch.setattr("privgram.papers._blocks.ENTRIES", entries)
        if entries == 1 and store is STORAGE["CSC"]:
            continue  # columns apart, their eigenvectors' signs the same but for rounding
        out = compress(store(A), 300, rng=generator())
        np.testing.assert_allclose(out.matrix @ out.matrix.T, expected @ expected.T, atol=1e-6)


def test_gram_of_column_blocks(rng, monkeypatch):
    A = table(rng)
    monkeypatch.setattr("privgram.papers._blocks.ENTRIES", 1)
    gram = compression._gram(compression.MatrixBlocks(sp.csc_array(A)))
    np.testing.assert_allclose(gram, A.T @ A)


@pytest.mark.slow
def test_rows_have_the_law_of_phi_times_the_normalised_table():
    """Quadratic forms of many small releases, by Kolmogorov and Smirnov; false alarm 1e-6."""
    rng = generator(8)
    A = table(rng, n=12, p=3)
    ours = [compress(A, 5, rng=rng).covariance() for _ in range(1500)]
    phi = rng.standard_normal((1500, 5, 12)) / math.sqrt(12)
    plain = [rows.T @ rows / 5 for rows in phi @ normalised(A)]
    forms = [[np.trace(np.diag([3.0, 2.0, 1.0]) @ one) for one in made] for made in (ours, plain)]
    assert stats.ks_2samp(*forms).pvalue > 1e-6


def test_draws_far_from_the_reference_are_thrown_away(rng):
    A = table(rng, n=400, p=3)
    sigma = normalised(A).T @ normalised(A) / 400
    # A threshold that about half of the draws pass.
    size = np.sqrt(2 * sum(zhou_ligett_wasserman.lemma_b_1()) * math.log(2 * 400 * 3) / 50)
    offset = np.zeros((3, 3))
    offset[0, 0] = size + 0.01
    counts = 0
    for seed in range(40):
        out = compress(A, 50, sigma + offset, 0.0, generator(seed))
        assert np.abs(out.covariance() - sigma - offset).max() <= size
        first = generator(seed).standard_normal((50, 3)) @ compression._root(sigma)
        counts += not np.allclose(first, out.matrix)
    assert 8 <= counts <= 35  # P < 1e-4 outside, for a half
    assert out.threshold == pytest.approx(size)
    assert out.reference is not None
    refuses(lambda: compress(A, 50, sigma + 10, 0.0), ValueError, "none of 100 draws")


def test_default_spread(rng):
    A = table(rng)
    sigma = normalised(A).T @ normalised(A) / 500
    assert compress(A, 300).delta_max == 0
    assert compress(A, 300, sigma).delta_max == zhou_ligett_wasserman.lemma_4_5(500, 4)


def covariances(rng, n, correlation, tables):
    """Normalised covariances of tables of Gaussian rows."""
    G = stats.wishart(n, correlation).rvs(tables, rng)
    scale = np.sqrt(np.einsum("tii->ti", G))
    return G / (scale[:, :, None] * scale[:, None, :])


def test_lemma_4_5_searched_over_covariances():
    """Held at the probability stated whatever the truth is, and tight within a third for one.

    Each of 13 truths has 2000 tables; false alarm 1e-6 in all if the bound were exact.
    """
    rng = generator(11)
    n, p, failure, tables = 100_000, 4, 0.1, 2000
    bound = zhou_ligett_wasserman.lemma_4_5(n, p, failure)
    truths = [np.full((p, p), r) + (1 - r) * np.eye(p) for r in (0, 0.1, 0.3, 0.6, 0.9, 0.99)]
    signs = np.outer([1, -1, 1, -1], [1, -1, 1, -1])
    truths += [truth * signs for truth in truths[1:4]]
    for _ in range(4):
        G = np.cov(rng.standard_normal((p, p + 1)))
        truths.append(G / np.sqrt(np.outer(np.diag(G), np.diag(G))))
    reached = 0.0
    for truth in truths:
        spread = 2 * np.abs(covariances(rng, n, truth, tables) - truth).max(axis=(1, 2))
        assert np.sum(spread > bound) <= stats.binom.isf(1e-6 / 13, tables, failure)
        reached = max(reached, np.quantile(spread, 1 - failure))
    assert 2 / 3 * bound < reached < bound


def test_lemma_4_5_at_its_ends():
    assert zhou_ligett_wasserman.lemma_4_5(100, 1) == 0
    assert zhou_ligett_wasserman.lemma_4_5(3, 10) == 4  # what correlations cannot exceed
    # The maximum over the correlation, by brute force.
    t, r = math.log(12 / 0.01), np.linspace(0, 1, 100_001)
    xi, eta = math.sqrt(2 * t / 500) + t / 500, 2 * math.sqrt(t / 500) + 2 * t / 500
    bound = ((1 - r**2) * xi + r * eta**2 / (2 * (1 - eta))) / (1 - eta)
    assert zhou_ligett_wasserman.lemma_4_5(500, 3, 0.01) == pytest.approx(2 * bound.max(), rel=1e-6)
    # 4 sqrt(ln p / n) in the limit, the constant of O_P.
    many, p = 10**14, 10**9
    assert zhou_ligett_wasserman.lemma_4_5(many, p, 0.5) == pytest.approx(
        4 * math.sqrt(math.log(p) / many), rel=0.02
    )
    for bad in ((0, 3, 0.1), (5, 0, 0.1), (5, 3, 0.0), (5, 3, 1.0)):
        with pytest.raises(ValueError, match="must"):
            zhou_ligett_wasserman.lemma_4_5(*bad)


@pytest.mark.parametrize(
    "covariances", [[], [np.eye(2), np.full((2, 2), np.nan)], [np.eye(3)], [np.eye(2)[:1]], [1.0]]
)
def test_equation_5_takes_finite_matrices_of_one_shape(covariances):
    refuses(
        lambda: zhou_ligett_wasserman.equation_5(covariances, np.eye(2)),
        ValueError,
        r"must be finite and of one shape \(p, p\)",
    )


def test_equation_5_searched(rng):
    """No two covariances of a set differ by more than Delta_max; mirror images do by all of it."""
    largest = 0.0
    for _ in range(200):
        truth = np.corrcoef(rng.standard_normal((3, 5)))
        step = rng.choice([0.0, 1.0]) * 0.01 * rng.standard_normal((3, 3))
        step += step.T
        family = [truth + step, truth - step, truth + rng.uniform(-1, 1) * step]
        claimed = zhou_ligett_wasserman.equation_5(family, truth)
        found = max(np.abs(a - b).max() for a in family for b in family)
        assert found <= claimed * (1 + 1e-12) + 1e-15
        largest = max(largest, found / claimed) if claimed else largest
    assert largest == pytest.approx(1.0)


def test_proof_status_is_stated(rng):
    A = table(rng)
    own = compress(A, 300, rng=generator())
    assert own.proof_status == "none"
    assert "no guarantee" in repr(own)
    assert "knows the seed" in repr(own)
    assert "knows the seed" not in repr(compress(A, 300))
    published_ = compress(A, 300, np.eye(4))
    assert published_.proof_status == "stated"
    assert "not (epsilon, delta)" in repr(published_)
    settings = {
        "difference": 0.01,
        "lambda_min": 0.3,
        "lambda_min_reference": 0.4,
        "norm_reference": 2.0,
    }
    assert published_.alpha(**settings) == zhou_ligett_wasserman.theorem_4_6(
        300, 500, 4, delta_max=published_.delta_max, **settings
    )
    public = compress(A, 300, np.eye(4) / 9, 1.0, scales=np.full(4, 0.1))
    assert public.proof_status == "upper bound"
    assert "condition" in repr(public)
    profile = public.profile(0.5, 2.0)
    assert "norm at most 0.5" in profile.condition
    assert "eigenvalues are at least 2," in profile.condition
    assert "within 1 of the reference" in profile.condition
    assert (profile.rows, profile.ratio, profile.draws) == (300, 0.125, 100)
    # Mean squares of up to 0.25, by the bound; two of a row's entries share it.
    x = (public.threshold - 1.0) / np.array([0.25, 0.125])
    terms = 2 * np.exp(-150 * (x - np.log(1 + x)))
    assert profile.discarded == pytest.approx(4 * terms[0] + 6 * terms[1], rel=1e-5)
    drawn = SketchProfile(300, 0.125)
    assert 0 < profile.discarded < 1e-30
    assert public.profile(0.5, 2.0).delta(1.0) == pytest.approx(drawn.delta(1.0), rel=1e-9)
    assert public.profile(0.5, 2.0).delta(-1.0) > 1 - math.exp(-1)


def test_nothing_is_claimed_where_it_is_false(rng):
    """No profile without public scales and reference, no alpha without columns of one norm."""
    A = table(rng)
    scales = np.full(4, 0.1)
    settings = {"lambda_min": 0.3, "lambda_min_reference": 0.4, "norm_reference": 2.0}
    for claim in (
        lambda out: out.profile(1.0, 200.0),
        lambda out: out.profile(1.0, 200.0).delta(1.0),
        lambda out: out.alpha(0.01, **settings),
    ):
        for own in (compress(A, 300), compress(A, 300, scales=scales)):
            with pytest.raises(ValueError, match="table's own covariance"):
                claim(own)
    with pytest.raises(ValueError, match="which one row can change"):
        compress(A, 300, np.eye(4)).profile(1.0, 200.0)
    with pytest.raises(ValueError, match="norm sqrt"):
        compress(A, 300, np.eye(4) / 9, 1.0, scales=scales).alpha(0.01, **settings)
    far = compress(np.ones((100, 1)), 300, [[1.0]], 0.1, scales=[1.0])
    with pytest.raises(ValueError, match="no table has"):
        replace(far, reference=np.array([[-1.0]])).profile(1.0, 10.0)


def test_columns_far_from_mean_square_one():
    """The window of Procedure 4.1 is for mean squares of 1: 1000 rows of 10 in one column.

    With windows of their own the table and a neighbour, with a 9.5 in it, give each other away
    in an event of chance 0 for one; a bound of 1.6e-6 at epsilon 0.5 was stated.
    """
    A = np.full((1000, 1), 10.0)
    out = compress(A, 200, scales=[1.0], rng=generator())
    near, m = out.threshold, 200
    ours, theirs = 100.0, 100.0 - (100 - 9.5**2) / 1000
    law = stats.chi2(m, scale=1 / m)

    def chance(low, high, square):
        return law.cdf(high / square) - law.cdf(low / square)

    # Below every kept draw of ours, and kept by the neighbour.
    event = chance(theirs - near, ours - near, theirs)
    kept = chance(theirs - near, theirs + near, theirs)
    assert event / kept > 0.005
    assert SketchProfile(m, 100 / 9e4).delta(0.5) < 1e-5  # what a draw not thrown away has
    refuses(lambda: out.profile(10.0, 9e4).delta(0.5), ValueError, "table's own covariance")
    public = compress(A, 200, [[100.0]], 0.1, scales=[1.0], rng=generator())
    assert 1 - chance(100 - public.threshold, 100 + public.threshold, ours) > 0.9
    with pytest.raises(ValueError, match="too many draws may be thrown away"):
        public.profile(10.0, 9e4).delta(0.5)


@pytest.mark.parametrize("draws", [1, 2, 100])
@pytest.mark.parametrize("window", [(0.8, 1.2), (1.1, 3.0), (0.0, 1.0)])
def test_profile_of_what_is_kept_by_the_exact_law(draws, window):
    """One column, where kept second moments are a chi-squared variable cut off: by quadrature."""
    m, ratio = 30, 0.3
    wide, narrow = (stats.gamma(m / 2, scale=2 * s / m) for s in (1 + ratio, 1.0))
    missed = [1 - (law.cdf(window[1]) - law.cdf(window[0])) for law in (wide, narrow)]
    beta = max(missed)
    x, weight = np.polynomial.legendre.leggauss(400)
    x = window[0] + (x + 1) / 2 * (window[1] - window[0])
    weight = weight / 2 * (window[1] - window[0])
    densities = [
        law.pdf(x) * sum(miss**i for i in range(draws))
        for law, miss in zip((wide, narrow), missed, strict=True)
    ]
    claimed = TruncatedSketchProfile(m, ratio, beta, draws, "so")
    pair = SketchProfile(m, ratio, "add-remove")
    larger = False
    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0, 2.5, 4.0):
        for first, second in ((0, 1), (1, 0)):
            factor = math.exp(epsilon)
            exact = weight @ np.maximum(densities[first] - factor * densities[second], 0)
            exact += max(missed[first] ** draws - factor * missed[second] ** draws, 0)
            shifted = pair.delta(epsilon + math.log1p(-beta)) / (1 - beta) + beta**draws
            assert exact <= shifted * (1 + 1e-6) + 1e-9
            larger |= exact > pair.delta(epsilon) * (1 + 1e-6)
        assert claimed.delta(epsilon) >= min(shifted, 1.0) * (1 - 1e-9)
        whole = SketchProfile(m, ratio).delta(epsilon + math.log1p(-beta))
        assert claimed.delta(epsilon) == pytest.approx(
            min(1.0, whole / (1 - beta) + beta**draws), rel=1e-9
        )
    # Giving up is an output like any other: a bound without it would fail here.
    assert larger or window == (0.8, 1.2) or draws != 2


@pytest.mark.parametrize("correlation", [-1.0, -0.6, 0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("m", [5, 80])
def test_chance_of_a_far_entry_by_the_exact_law(correlation, m):
    """A product of two columns is a difference of chi-squared variables: Chernoff's bound holds."""
    a, b = (1 + correlation) / 2, (1 - correlation) / 2
    one = stats.chi2(m)
    # E[f(B)] by the midpoints of its quantiles.
    B = one.ppf((np.arange(20_000) + 0.5) / 20_000) / m
    for x in (0.05, 0.2, 0.5, 1.0, 3.0):
        if a == 0:
            above, below = np.mean(b * (1 - B) > x), np.mean(b * (1 - B) < -x)
        else:
            above = np.mean(one.sf(m * (1 + (x + b * (B - 1)) / a)))
            below = np.mean(one.cdf(m * (1 + (-x + b * (B - 1)) / a)))
        bound = math.exp(-m / 2 * (x - math.log1p(x)))
        assert above <= bound * (1 + 1e-6) + 1e-4 * (a == 0)
        assert below <= bound * (1 + 1e-6) + 1e-4 * (a == 0)
        reference = np.array([[1.0, correlation], [correlation, 1.0]])
        total = compression._discarded(m, x, reference, 0.0, 1e3)
        assert total == pytest.approx(6 * bound, rel=1e-5)


def test_share_of_draws_thrown_away(rng):
    """Simulated at a threshold that throws a few away; false alarm 1e-6."""
    m, draws = 40, 20_000
    reference = np.array([[0.9, 0.2, 0.0], [0.2, 0.4, 0.1], [0.0, 0.1, 0.7]])
    sigma = reference + 0.05 * np.array([[1, -1, 1], [-1, 1, 1], [1, 1, 1]])
    near = 0.75
    second = stats.wishart(m, sigma / m).rvs(draws, rng)
    thrown = np.sum(np.abs(second - reference).max(axis=(1, 2)) > near + 0.05)
    bound = compression._discarded(m, near, reference, 0.05, 10.0)
    assert thrown / draws > 0.001
    assert thrown <= stats.binom.isf(1e-6, draws, min(bound, 1.0))
    assert bound < 0.5


@pytest.mark.slow
def test_public_scales(rng):
    A = table(rng)
    scales = np.array([1.0, 0.5, 2.0, 0.1])
    out = compress(A, 40_000, rng=generator(), scales=scales)
    assert out.public_scales
    sigma = (A * scales).T @ (A * scales) / 500
    np.testing.assert_allclose(out.covariance(), sigma, atol=0.05 * sigma.max())


def test_pca_and_proposition_3_4(rng):
    A = table(rng, n=2000, p=5)
    sigma = normalised(A).T @ normalised(A) / 2000
    out = compress(A, 100_000, rng=generator())
    values, vectors = np.linalg.eigh(sigma)
    found, components = out.pca(1)
    assert (found.shape, components.shape) == ((1,), (1, 5))
    difference = np.linalg.norm(out.covariance() - sigma)
    bound = zhou_ligett_wasserman.proposition_3_4(values, 1, difference)
    distance = np.linalg.norm(
        np.outer(components[0], components[0]) - np.outer(vectors[:, -1], vectors[:, -1])
    )
    assert 0 < distance <= bound < 0.2
    assert out.pca()[1].shape == (5, 5)
    assert zhou_ligett_wasserman.proposition_3_4([3.0, 1.0], 1, 0.6) == math.inf
    assert zhou_ligett_wasserman.proposition_3_4([3.0, 1.0], 1, 0.5) == 0.5
    with pytest.raises(ValueError, match="n_components"):
        zhou_ligett_wasserman.proposition_3_4([3.0, 1.0], 2, 0.5)


def test_rank_deficient_and_single(rng):
    A = table(rng, p=2)[:, [0, 1, 1]]
    out = compress(A, 300, rng=rng)
    np.testing.assert_allclose(out.matrix[:, 1], out.matrix[:, 2], atol=1e-6)
    assert compress([[[2.0]], [[1.0]]], 1).matrix.shape == (1, 1)


A = np.ones((20, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: compress(A, 0), ValueError, "rows"),
        (lambda: compress(A * [1, 0, 1], 5), ValueError, "column 1 is zero"),
        (lambda: compress(A * np.nan, 5), ValueError, "row 0, column 0"),
        (lambda: compress(A, 5, np.eye(2)), ValueError, r"shape \(3, 3\)"),
        (lambda: compress(A, 5, delta_max=-1), ValueError, "delta_max"),
        (lambda: compress(A, 5, scales=[1, 2]), ValueError, "scales"),
        (lambda: compress(A, 5, np.eye(3), scales=[1, 1, 1]), ValueError, "delta_max is needed"),
        (lambda: compress(A, 5, scales=[1, 2, 0]), ValueError, "scales"),
        (lambda: compress(A, 5, rng=3), TypeError, "default_rng"),
        (lambda: compress(iter([A]), 5), TypeError, "iterator"),
    ],
)
def test_errors(call, error, message):
    refuses(call, error, message)
