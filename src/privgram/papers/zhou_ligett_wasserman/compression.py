"""Compression by a random projection of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram._base.numbers import check_integer, check_not_negative, check_positive
from privgram.papers._blocks import MatrixBlocks
from privgram.papers.zhou_ligett_wasserman import theorems
from privgram.papers.zhou_ligett_wasserman.theorems import TruncatedSketchProfile
from privgram.secret import generators

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privgram._base.numbers import Matrix
    from privgram.privacy import ProofStatus


#: Draws after which the reference is taken to be wrong. Lemma 4.4: one in n^2 fails.
MAX_DRAWS = 100

_CLAIMS = {
    "none": "no guarantee: draws were kept close to the table's own covariance",
    "stated": "distributional privacy as stated (Theorem 4.6); not (epsilon, delta)-differential "
    "privacy",
    "upper bound": "differential privacy bounded by profile(), only under its condition",
}


@dataclass(frozen=True, eq=False)
class Compressed:
    """A compressed table.

    Attributes
    ----------
    matrix : ndarray of shape (m, p), float64
    n_rows : int
        n, public.
    delta_max : float
        Spread of the set of tables, see `equation_5`.
    threshold : float
        Largest deviation from the reference of an entry of the covariance.
    reference : ndarray of shape (p, p), float64, or None
        The public reference, or None where it was the table's own covariance.
    public_scales : bool
        Whether the columns were scaled by public numbers. Otherwise by their norms, which one
        row can change.
    reproducible : bool
        Made with a generator of the caller's: not private against anyone who knows its seed.
    """

    matrix: Matrix
    n_rows: int
    delta_max: float
    threshold: float
    reference: Matrix | None
    public_scales: bool
    reproducible: bool

    @property
    def proof_status(self) -> ProofStatus:
        """How well what is claimed of the privacy of this table is founded.

        "upper bound" where scales and reference are public: `profile`, under its condition.
        "stated" where the reference alone is public: `alpha`. "none" where it is the table's own.
        """
        if self.reference is None:
            return "none"
        return "upper bound" if self.public_scales else "stated"

    def covariance(self) -> Matrix:
        """Second moment over m, of shape (p, p): an estimate of the table's Sigma."""
        return self.matrix.T @ self.matrix / len(self.matrix)

    def pca(self, n_components: int | None = None) -> tuple[Matrix, Matrix]:
        """Eigenvalues, falling, of shape (k,), and eigenvectors, of shape (k, p), of the same."""
        values, vectors = np.linalg.eigh(self.covariance())
        p = len(values)
        k = p if n_components is None else check_integer(n_components, "n_components", 1, p)
        return values[::-1][:k], vectors.T[::-1][:k]

    def alpha(
        self,
        difference: float,
        *,
        lambda_min: float,
        lambda_min_reference: float,
        norm_reference: float,
    ) -> float:
        """Theorem 4.6, without its term o(1): a bound on the log-ratio of two densities.

        Both tables' columns have squared norm n, and both keep draws close to one reference.
        Parameters are those of `theorem_4_6`.

        Raises
        ------
        ValueError
            Where the theorem does not hold: with the table's own covariance for a reference,
            columns scaled by public numbers, or fewer rows than Lemma 4.4 needs; and if a
            parameter is out of its range.
        """
        self._check_reference()
        if self.public_scales:
            raise ValueError(
                "Theorem 4.6 is about columns of norm sqrt(n), and these were scaled by public "
                "numbers: use profile(), or leave scales out"
            )
        rows, p = self.matrix.shape
        return theorems.theorem_4_6(
            rows,
            self.n_rows,
            p,
            difference=difference,
            lambda_min=lambda_min,
            lambda_min_reference=lambda_min_reference,
            norm_reference=norm_reference,
            delta_max=self.delta_max,
        )

    def profile(self, bound: float, eigenvalue_floor: float) -> TruncatedSketchProfile:
        """Differential privacy under "replace", given what is public of all tables considered.

        Parameters
        ----------
        bound : float
            L2 bound B of their rows, after the scaling of the columns.
        eigenvalue_floor : float
            Lower bound w^2 of the eigenvalues of their A^T A, after the scaling.

        Returns
        -------
        TruncatedSketchProfile
            An upper bound. Its `condition` says on which promise it rests: these two, and
            covariances within `delta_max` of the reference in every entry. Nothing enforces it.

        Raises
        ------
        ValueError
            Where no differential privacy is known: unless reference and scales are public, and
            where draws may be thrown away always. Or if a parameter is out of its range.

        Notes
        -----
        Few draws are thrown away where the columns' mean squares are about 1 or less: see
        beta in docs/theory/compression.md.
        """
        square = check_positive(bound, "bound") ** 2
        floor = check_positive(eigenvalue_floor, "eigenvalue_floor")
        reference = self._check_reference()
        if not self.public_scales:
            raise ValueError(
                "the columns were scaled by their own norms, which one row can change for all "
                "rows: no differential privacy is known. Pass public scales= to compress"
            )
        discarded = _discarded(
            len(self.matrix), self.threshold - self.delta_max, reference, self.delta_max, square
        )
        if not discarded < 1:
            raise ValueError(
                "too many draws may be thrown away, as far as is public, to say what that gives "
                "away: choose scales= and a reference with which the mean squares of all columns "
                "are about 1 or less, or a smaller delta_max"
            )
        return TruncatedSketchProfile(
            len(self.matrix),
            square / floor,
            discarded,
            MAX_DRAWS,
            f"every table considered has, after the scaling of its columns, rows of norm at most "
            f"{bound:.12g}, a second moment A^T A whose eigenvalues are at least {floor:.12g}, and "
            f"entries of A^T A / {self.n_rows} within {self.delta_max:.12g} of the reference",
        )

    def _check_reference(self) -> Matrix:
        if self.reference is None:
            raise ValueError(
                "the reference was the table's own covariance, so that which draws are thrown "
                "away depends on the table: no guarantee is known. Pass a public reference= to "
                "compress"
            )
        return self.reference

    def __repr__(self) -> str:
        m, p = self.matrix.shape
        seed = ", reproducible: not private against anyone who knows the seed"
        return (
            f"<Compressed: {self.n_rows} rows to {m} x {p}; {_CLAIMS[self.proof_status]}"
            f"{seed if self.reproducible else ''}>"
        )


def compress(
    A: Any,
    rows: int,
    reference: ArrayLike | None = None,
    delta_max: float | None = None,
    rng: np.random.Generator | None = None,
    *,
    scales: ArrayLike | None = None,
) -> Compressed:
    """Compress a table to `rows` random mixtures of its rows.

    Parameters
    ----------
    A : array_like, CSR or CSC matrix, or re-iterable of row blocks, of shape (n, p)
        SECRET.
    rows : int
        m, at least 1.
    reference : array_like of shape (p, p), optional
        Public covariance of scaled tables that draws must stay close to (Procedure 4.1). By
        default the table's own, which makes the truncation depend on the data: then no
        guarantee is known.
    delta_max : float, optional
        Spread of the set of tables (equation 5). By default `lemma_4_5` of the shape if a
        reference is given, else 0. Needed with a reference and `scales`, as that lemma is
        about normalised columns.
    rng : numpy.random.Generator, optional
        For experiments; by default a cryptographic generator.
    scales : array_like of shape (p,), optional
        Public numbers to multiply the columns by, needed for differential privacy. By default
        every column is scaled to squared norm n, as in the paper.

    Returns
    -------
    Compressed

    Raises
    ------
    ValueError
        If a parameter is outside its range, a column is zero, an entry is not finite, or no
        draw comes close to the reference.
    TypeError
        If A is not such a table.

    Notes
    -----
    One pass is made for A^T A, and rows are drawn of N(0, A^T A / n): the law of Phi A
    (docs/theory/compression.md). In floating point: nothing is claimed about its low bits.

    References
    ----------
    S. Zhou, K. Ligett, L. Wasserman, "Differential Privacy with Compression", ISIT 2009, equation
    (4), Procedures 4.1 and 4.2.
    """
    generator, reproducible = generators.resolve(rng)
    blocks = MatrixBlocks(A)
    n, p = blocks.shape
    m = check_integer(rows, "rows", 1)
    given = None if reference is None else _check_reference(reference, p)
    if delta_max is None:
        if given is not None and scales is not None:
            raise ValueError("delta_max is needed: Lemma 4.5 is about columns of norm sqrt(n)")
        delta_max = 0.0 if given is None else theorems.lemma_4_5(n, p)
    delta_max = check_not_negative(delta_max, "delta_max")
    threshold = theorems.deviation(m, n, p) + delta_max
    public = None if scales is None else _check_scales(scales, p)
    gram = _gram(blocks)
    scale = _scales(np.diag(gram), n) if public is None else public
    sigma = gram * np.outer(scale, scale) / n
    centre = sigma if given is None else given
    root = _root(sigma)
    for _ in range(MAX_DRAWS):
        draw = generator.standard_normal((m, p)) @ root
        if np.abs(draw.T @ draw / m - centre).max() <= threshold:
            return Compressed(
                draw, n, delta_max, threshold, given, public is not None, reproducible
            )
    raise ValueError(
        f"none of {MAX_DRAWS} draws is within {threshold:.3g} of the reference: it is not of a"
        " table like this one, or delta_max is too small"
    )


def _discarded(m: int, near: float, reference: Matrix, delta_max: float, square: float) -> float:
    """Bound the chance that a draw is thrown away, of any table considered."""
    sizes = np.minimum(np.diag(reference) + delta_max, square)
    if sizes.min() < 0:
        raise ValueError(
            "no table has a covariance within delta_max of the reference: its diagonal is negative"
        )
    products = np.sqrt(np.outer(sizes, sizes))
    # Two columns share the squared norm of a row.
    np.minimum(products, 0.5 * square, out=products, where=~np.eye(len(sizes), dtype=bool))
    with np.errstate(divide="ignore", over="ignore"):
        x = near / products[np.triu_indices(len(sizes))]
        chances = np.exp(-0.5 * m * (x - np.log1p(x)), where=x < math.inf, out=np.zeros_like(x))
    # Rounding of an exponent that leaves a term to speak of is far below a millionth.
    return float(2 * chances.sum() * (1 + 1e-6))


def _gram(blocks: MatrixBlocks) -> Matrix:
    """A^T A. Column blocks, of CSC matrices, would miss the products between them."""
    p = blocks.shape[1]
    total = np.zeros((p, p))
    rows: list[Any] = []
    for block in blocks:
        if block.columns == slice(0, p):
            total += _dense(block.values.T @ block.values)
        else:
            rows.append(block)
    for first in rows:
        for second in rows:
            if first.rows == second.rows:
                product = first.values.T @ second.values
                total[first.columns, second.columns] += _dense(product)
    return total


def _dense(values: Any) -> Matrix:
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


def _scales(squares: Matrix, n: int) -> Matrix:
    zero = np.flatnonzero(squares <= 0)
    if zero.size:
        raise ValueError(f"column {zero[0]} is zero and cannot be normalised; leave it out")
    return np.sqrt(n / squares)


def _root(sigma: Matrix) -> Matrix:
    """R with R^T R = sigma, which may be singular."""
    values, vectors = np.linalg.eigh(sigma)
    root: Matrix = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return root


def _check_reference(reference: ArrayLike, p: int) -> Matrix:
    matrix = np.asarray(reference, dtype=np.float64)
    if matrix.shape != (p, p) or not np.isfinite(matrix).all():
        raise ValueError(f"the reference must be finite and of shape ({p}, {p})")
    return matrix


def _check_scales(scales: ArrayLike, p: int) -> Matrix:
    numbers = np.asarray(scales, dtype=np.float64)
    if numbers.shape != (p,) or not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise ValueError(f"scales must be {p} positive finite numbers")
    return numbers
