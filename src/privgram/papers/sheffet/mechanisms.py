"""Sheffet's mechanisms: sketch, inverse Wishart, noise on the inverse, additive Wishart noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from privgram._base.numbers import (
    check_integer,
    check_positive,
    largest_safe,
    least_safe,
    minimise,
)
from privgram.mechanisms._base import Calibration, Mechanism, Request
from privgram.papers._shared import largest_count, largest_parameter
from privgram.papers.sheffet.certified import delta_fp as bound_of_rounding
from privgram.papers.sheffet.certified import largest_epsilon
from privgram.papers.sheffet.laws import (
    InverseGaussianLaw,
    InverseWishartLaw,
    SketchLaw,
    WishartLaw,
)
from privgram.papers.sheffet.profiles import (
    RUNGS,
    AdaptiveLadderProfile,
    AdaptiveSketchProfile,
    Orientation,
    SketchProfile,
    largest_gap_delta,
    rung_share,
    sketch_curves,
)
from privgram.papers.sheffet.wishart import (
    MAX_DOF,
    WishartProfile,
    wishart_dof,
    wishart_noise,
    wishart_ratio,
)
from privgram.privacy import Adjacency, GaussianProfile, Profile
from privgram.privacy.calibration import checked_budget, gaussian_ratio
from privgram.privacy.profiles import check_parameter

if TYPE_CHECKING:
    from privgram.mechanisms._base import OfUnits

# Noise of the sketch and the inverse Wishart from a privacy budget, as in
# `privgram.privacy.calibration`, whose parameters these share.


def sketch_ratio(
    rows: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> float:
    """Largest ratio B^2 / w^2 of a Gaussian sketch for a budget.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch (degrees of freedom, for the inverse Wishart).

    Returns
    -------
    float
        lam = B^2 / w^2 (B^2 / psi).
    """
    return largest_parameter(
        lambda x: SketchProfile(rows, x, adjacency), epsilon, delta, lambda mu: mu / math.sqrt(rows)
    )


def sketch_rows(
    ratio: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> int:
    """Most rows of a Gaussian sketch with given regulariser for a budget.

    Parameters
    ----------
    ratio : float
        lam = B^2 / w^2, positive.

    Returns
    -------
    int
        r >= 1: r rows are private enough, r + 1 are not.

    Raises
    ------
    ValueError
        If a parameter is outside its range, one row is too many already, or more than
        1e12 would do.
    """
    epsilon, delta = checked_budget(epsilon, delta)
    check_parameter(ratio, "ratio")

    def delta_at(rows: float) -> float:
        return SketchProfile(rows, ratio, adjacency).delta(epsilon)

    if delta_at(1) > delta:
        raise ValueError(
            f"with ratio = {ratio:g} even one row is not private for epsilon = {epsilon:g} and "
            f"delta = {delta:g}: ask for a smaller ratio (a larger regulariser)"
        )
    guess = 1.0 + (gaussian_ratio(epsilon, delta) / ratio) ** 2
    # Beyond the least number of rows a profile takes, anything is a lower bound.
    rows = largest_safe(lambda x: delta_at(max(x, 1.0)), delta, min(guess, 1e11), limit=MAX_DOF)
    if rows > MAX_DOF:
        raise ValueError(
            f"with ratio = {ratio:g} more than {MAX_DOF:g} rows are private for epsilon = "
            f"{epsilon:g} and delta = {delta:g}: ask for a larger ratio (a smaller regulariser)"
        )
    return largest_count(lambda count: delta_at(count) <= delta, math.floor(rows), 1)


def adaptive_sketch(
    rows: float, epsilon: float, delta: float, adjacency: Adjacency = "replace"
) -> AdaptiveSketchProfile:
    r"""Noise of an adaptive sketch or inverse Wishart for a budget.

    Three numbers are to be set, and one budget sets one. The scale of the noise on the
    smallest eigenvalue is chosen so that regulariser + shift, which is what the data's own
    eigenvalue and the regulariser must supply together, is least; then the regulariser is
    the least that is private whatever the eigenvalue: a few per cent above that of the
    plain sketch. Adaptivity pays once the smallest eigenvalue exceeds about the shift.

    The profile is a proved upper bound, and reaches at least 0.99 delta where the search ends
    in time, which it does at every budget tried.

    Parameters
    ----------
    rows : float
        Rows r >= 1 of the sketch, or degrees of freedom.
    epsilon : float
        Of the budget, from 0 to 100.

    Returns
    -------
    AdaptiveSketchProfile
        With `regulariser` w^2, `shift` and `scale` in units of B^2.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 2 and 5.
    """
    plain = 1.0 / sketch_ratio(rows, epsilon, delta, adjacency)
    if epsilon > 100:
        raise ValueError(f"epsilon must be at most 100 for adaptive noise, not {epsilon!r}")

    def least_total(
        delta_at: Callable[[float], float], aim: float, guess: float, tolerance: float
    ) -> float:
        return 1.0 + least_safe(lambda room: delta_at(1.0 + room), aim, guess - 1.0, tolerance)

    # The scale hardly matters near its optimum, so a cruder pair will do to find it: twice
    # the rows under add-remove are alike to replace.
    alike = rows if adjacency == "add-remove" else 2.0 * rows
    crude = sketch_curves(float(alike), "add-remove")[0]
    # Any smaller and the eigenvalue alone would exceed the budget.
    least = 1.0 / (epsilon - 2.0 * math.log1p(-delta))
    guess = plain + 6.0 * least

    def cost(log_scale: float) -> float:
        nonlocal guess
        scale = math.exp(log_scale)

        def leaks(total: float) -> float:
            return largest_gap_delta(epsilon, crude, total, 0.0, scale, 0.0, 24)

        total = least_total(leaks, delta, 1.0 + guess, 3e-3)
        if total < math.inf:
            guess = total
        return total

    scale = math.exp(minimise(cost, math.log(1.05 * least), math.log(20.0 * least + plain)))
    # Solved for the row that moves the eigenvalue most and the two extreme clips: the larger the
    # shift, the less the one at 0 leaks, where it regularises as well, and the more the last.
    # What data without and with a large eigenvalue need, regulariser and total, counts alike.
    # Then for a smaller delta, as far as the bound on all gaps and clips exceeds that.
    sketch = sketch_curves(float(rows), adjacency, 1.0)[0]

    def total_of(log_shift: float, tolerance: float = 1e-3) -> float:
        nonlocal guess
        shift = math.exp(log_shift)

        def leaks(total: float) -> float:
            if total <= shift:
                return 1.0
            setting = epsilon, sketch, total, shift, scale
            return max(largest_gap_delta(*setting, clip) for clip in (0.0, shift))

        guess = least_total(leaks, aim, 1.0 + guess, tolerance)
        return guess

    def at_last(regulariser: float) -> float:
        shift = total - regulariser
        if not 0.0 < shift < total:
            return 1.0
        return largest_gap_delta(epsilon, sketch, total, shift, scale, shift)

    aim, most, found = (1.0 - 8e-3) * delta, math.log(max(guess - plain, 1.0)), None
    log_shift = minimise(lambda x: 2.0 * total_of(x) - math.exp(x), most - 1.0, most + 0.3)
    for _ in range(12):
        total = total_of(log_shift, 1e-5)
        regulariser = total - math.exp(log_shift)
        least = least_safe(at_last, aim, regulariser, 1e-6)
        if least < math.inf:
            regulariser = least
        shift = total - regulariser
        profile = AdaptiveSketchProfile(rows, regulariser, shift, scale, adjacency)
        reached = profile.delta(epsilon)
        if reached <= delta:
            found = profile
            if reached >= (1.0 - 1e-2) * delta:
                break
        aim *= (1.0 - 3e-3) * delta / reached
    if found is not None:
        return found
    raise ValueError(
        f"no adaptive noise was found for rows = {rows:g}, epsilon = {epsilon:g}, delta = "
        f"{delta:g}: use the sketch that is not adaptive"
    )


# The sketch (Algorithms 1 and 2) and the inverse Wishart (4 and 5) release the same experiment, r
# draws from N(0, G + w^2 I), one as it is and one inverted; both may first spend part of the budget
# on the smallest eigenvalue of G, which regularises as well as w^2 does. What they draw is in
# `privgram.papers.sheffet.drawing`.

#: Entries of the rows that a release keeps, at most, however many a large eigenvalue pays for.
KEPT_ENTRIES = 1 << 24

#: The inverse is rounded so finely that its sensitivity grows by 2^-SENSITIVITY_BITS at most.
SENSITIVITY_BITS = 20

#: The smallest eigenvalue is rounded down to a grid of 2^-EIGENVALUE_BITS B^2.
EIGENVALUE_BITS = 20

#: Most rows or degrees of freedom, before an eigenvalue multiplies them by up to 2^20: chi variates
#: are drawn of up to 2^60.
MOST_DOF = 2.0**40

#: Lengths of the adaptive calibration grow by this, for that grid.
EIGENVALUE_SLACK = 1 + 2.0 ** (1 - EIGENVALUE_BITS)


@dataclass(frozen=True)
class MultiplicativeCalibration(Calibration):
    """Noise of a sketch or an inverse Wishart."""

    #: Which law of the worst pair the table with the row has, under "add-remove".
    orientation: ClassVar[Orientation]

    #: Of what is drawn, by degrees of freedom and regulariser.
    law_of: ClassVar[type[SketchLaw | InverseWishartLaw]]

    dof: float  # rows r of the sketch, or degrees of freedom; the least possible, where adaptive
    # w^2 or psi, in the units of the second moment; before any adjustment
    regulariser: float
    laplace_scale: float | None  # of the noise on the smallest eigenvalue, where adaptive
    eigenvalue_shift: float | None  # what the noisy eigenvalue is lowered by, where adaptive
    delta_fp: float  # part of delta set aside for finite precision

    @property
    def law(self) -> SketchLaw | InverseWishartLaw:
        """The law with the fewest rows."""
        return self.law_of(self.dof, self.regulariser)


def calibrated(
    kind: type[MultiplicativeCalibration], dof: float, adaptive: bool, request: Request
) -> MultiplicativeCalibration:
    """Calibration by the exact profile."""
    # Two orthogonal rows of one column do not exist: replacing is then no more than adding.
    one_column = request.n_columns == 1 and request.adjacency == "replace"
    adjacency: Adjacency = "add-remove" if one_column else request.adjacency
    most = dof * 2**RUNGS if adaptive else dof
    delta_fp = bound_of_rounding(request.epsilon, most)
    delta = request.delta - delta_fp
    if delta <= 0:
        message = f"delta={request.delta:g} is below what finite precision takes, {delta_fp:.2g}"
        largest = largest_epsilon(request.delta, most)
        if largest >= 1:
            message += (
                f" at epsilon={request.epsilon:g}: ask for epsilon={math.floor(largest):d} or"
                " less, whose guarantee is the stronger"
            )
        raise ValueError(message)
    if not adaptive:
        ratio = sketch_ratio(dof, request.epsilon, delta, adjacency)
        profile = SketchProfile(dof, ratio, request.adjacency, kind.orientation, one_column)
        lengths: tuple[float, ...] = (request.bound**2 / ratio,)
        return multiplicative_record(kind, request, profile, dof, delta_fp, *lengths)
    first = adaptive_sketch(dof, request.epsilon, delta * rung_share(0), adjacency)
    three = first.regulariser, first.shift, first.scale
    budget = request.adjacency, request.epsilon, delta
    ladder = AdaptiveLadderProfile(dof, *three, *budget, one_column=one_column)
    lengths = tuple(x * (request.bound**2 * EIGENVALUE_SLACK) for x in three)
    return multiplicative_record(kind, request, ladder, dof, delta_fp, *lengths)


def multiplicative_record(
    kind: type[MultiplicativeCalibration],
    request: Request,
    profile: Profile,
    dof: float,
    delta_fp: float,
    regulariser: float,
    eigenvalue_shift: float | None = None,
    laplace_scale: float | None = None,
) -> MultiplicativeCalibration:
    """The record of a calibration; ValueError for more rows than can be drawn."""
    if dof > MOST_DOF:
        raise ValueError(f"at most 2^40 rows or degrees of freedom can be drawn, not {dof:g}")
    return kind(
        **vars(request),
        privacy=profile,
        noise_std=regulariser / math.sqrt(dof),
        bias=regulariser,
        dof=dof,
        regulariser=regulariser,
        laplace_scale=laplace_scale,
        eigenvalue_shift=eigenvalue_shift,
        delta_fp=delta_fp,
    )


@dataclass(frozen=True)
class SketchCalibration(MultiplicativeCalibration):
    """Noise of a sketch."""

    orientation, law_of = "wide", SketchLaw


@dataclass(frozen=True)
class GaussianSketch(Mechanism):
    """Second moment of r random combinations of the rows: a Johnson-Lindenstrauss sketch.

    Released is M = (R A')^T (R A') / r, R of independent standard normals and A'
    the data with w I appended: a Wishart matrix W_d(G + w^2 I, r) / r, which is how
    it is drawn, in O(d^3) whatever n and r.  It estimates G + w^2 I and is positive
    definite for r >= d.

    Parameters
    ----------
    rows : int
        r >= 1; where adaptive, the least number of rows.
    adaptive : bool
        First release a private lower bound s on the smallest eigenvalue of G, which
        regularises as well: w^2 falls by s, and once s alone suffices more rows are
        drawn (Algorithm 2): they double as often as s pays for it.
    keep_rows : bool
        Release the r sketch rows themselves, as `release.sketch`, and M computed
        from them.  Takes O(r d^2); adaptive ones keep 2^24 entries at most.

    Notes
    -----
    The profile is that of `SketchProfile`, or `AdaptiveLadderProfile`, less a part under 1e-12
    for finite precision.  The first is proved, the second an upper bound.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 1 and 2, Theorem 3.1; Blocki, Blum, Datta and Sheffet,
    "The Johnson-Lindenstrauss transform itself preserves differential privacy", FOCS 2012.
    """

    rows: int
    adaptive: bool = False
    keep_rows: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer(self.rows, "rows", 1)

    def _calibrated(self, request: Request) -> MultiplicativeCalibration:
        return calibrated(SketchCalibration, self.rows, self.adaptive, request)


def adaptive_pays(
    rows: int,
    n_columns: int,
    bound: float,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "replace",
) -> float:
    """Smallest eigenvalue of the second moment from which on an adaptive sketch pays.

    Its regulariser is then below that of the sketch that is not adaptive, and more rows may be
    drawn. The same holds of `InverseWishart` of as many degrees of freedom.

    Parameters
    ----------
    rows : int
        r >= 1 of the sketch.
    n_columns, bound, epsilon, delta, adjacency
        As in `privgram.mechanisms.Mechanism.calibrate`, which says what is refused too.

    Returns
    -------
    float
        In the units of the second moment.
    """
    setting = n_columns, bound, epsilon, delta, adjacency
    plain = GaussianSketch(rows).calibrate(*setting)
    adaptive = GaussianSketch(rows, adaptive=True).calibrate(*setting)
    pays: float = adaptive.eigenvalue_shift + adaptive.regulariser - plain.regulariser
    return pays


@dataclass(frozen=True)
class InverseWishartCalibration(MultiplicativeCalibration):
    """Noise of an inverse Wishart."""

    orientation, law_of = "narrow", InverseWishartLaw


@dataclass(frozen=True)
class InverseWishart(Mechanism):
    """A draw from the posterior of the second moment under a conjugate prior.

    Drawn is X ~ W_d^{-1}(G + psi I, nu); released is (nu - d - 1) X, which estimates
    G + psi I.

    Parameters
    ----------
    dof : float, optional
        nu >= d; where adaptive, the least degrees of freedom k0, and required.  By
        default n + d (Algorithm 4), where the number of rows n is public: under
        adjacency "replace" only.
    adaptive : bool
        First release a private lower bound s on the smallest eigenvalue of G:
        psi falls by s, and once s alone suffices nu rises (Algorithm 5).

    Notes
    -----
    The inverse of a sketch with nu rows: the profile is that of `SketchProfile`, inversion being
    a bijection.  The scale nu - d - 1 (1 where that is less) is the library's; the paper releases
    X.  Where adaptive the profile is an upper bound.

    References
    ----------
    Sheffet, arXiv:1507.00056, Algorithms 4 and 5, Theorem 5.1.
    """

    dof: float | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dof is not None:
            check_positive(self.dof, "dof")
        if self.dof is None and self.adaptive:
            raise ValueError("an adaptive inverse Wishart needs dof, its least degrees of freedom")

    def _degrees(self, request: Request) -> float:
        dof = self.dof
        if dof is None:
            if request.adjacency != "replace":
                raise ValueError(
                    "dof=None means n + d, and n is private under 'add-remove': neighbours "
                    "would differ in their degrees of freedom. Pass a dof that does not depend "
                    "on the data, or use adjacency='replace'"
                )
            if request.n_rows is None:
                raise ValueError("dof=None means n + d: pass n_rows, or a dof")
            dof = request.n_rows + request.n_columns
        if dof < request.n_columns:
            raise ValueError(
                f"dof must be at least the number of columns, {request.n_columns}, not {dof}"
            )
        return dof

    def _calibrated(self, request: Request) -> MultiplicativeCalibration:
        return calibrated(InverseWishartCalibration, self._degrees(request), self.adaptive, request)


@dataclass(frozen=True)
class InverseGaussCalibration(Calibration):
    """Noise on the inverse of the second moment."""

    rho: float  # the eigenvalue floor is (1 + rho) B^2
    sensitivity: float  # of the inverse in Frobenius norm, in its units
    # standard deviation on the diagonal, in units of the inverse; sigma/sqrt(2) off it
    sigma: float

    @property
    def law(self) -> InverseGaussianLaw:
        """The inverse of G^{-1} plus symmetric Gaussian noise."""
        return InverseGaussianLaw(self.sigma / math.sqrt(2.0), self.sigma)


@dataclass(frozen=True)
class InverseGauss(Mechanism):
    """Inverse of the second moment plus symmetric Gaussian noise, inverted back.

    For data of which it is public that every eigenvalue of the second moment exceeds
    a floor well above B^2: the inverse then hardly depends on a row.

    Parameters
    ----------
    eigenvalue_floor : float
        Public lower bound on the smallest eigenvalue of the second moment of every
        table considered, in its units; above B^2.

    Notes
    -----
    With floor = (1 + rho) B^2 the inverse moves by at most 1 / (B^2 rho (1 + rho)) in
    Frobenius norm when a row is added or removed and by sqrt(2) times that when one
    is replaced; both are attained (docs/theory/sheffet.md, "Gaussian noise on the inverse",
    case 3).  The printed theorem has 1 / rho there, which is right in no units
    (docs/theory/errata.md).

    The floor is a promise that nothing enforces.  The guarantee holds for tables that
    keep it, and the release says so (`release.condition`).

    The released matrix is an inverse of a noisy matrix: neither unbiased nor always
    positive definite.

    References
    ----------
    Sheffet, arXiv:1507.00056, Theorem B.5.
    """

    eigenvalue_floor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.eigenvalue_floor, "eigenvalue_floor")

    @property
    def condition(self) -> str:
        """The promise of the eigenvalue floor."""
        return (
            "every table considered has a second moment whose eigenvalues are "
            f"at least {self.eigenvalue_floor:.12g}"
        )

    @property
    def scale_free(self) -> bool:
        """False: the floor is a length of its own."""
        return False

    def margin(self, bound: float) -> float:
        """Rho > 0, by which the floor is (1 + rho) B^2; ValueError where it is lower."""
        rho = self.eigenvalue_floor / bound**2 - 1
        if rho <= 0:
            raise ValueError(
                f"eigenvalue_floor={self.eigenvalue_floor:g} must exceed the squared bound of "
                f"a row, {bound**2:g}"
            )
        return rho

    def sensitivity(self, n_columns: int, bound: float, adjacency: Adjacency) -> float:
        """Of the rounded inverse in Frobenius norm, in its units."""
        rho = self.margin(bound)
        distance = (1 + 2.0**-SENSITIVITY_BITS) / (bound**2 * rho * (1 + rho))
        return distance * (math.sqrt(2.0) if adjacency == "replace" and n_columns > 1 else 1.0)

    def _calibrated(self, request: Request) -> InverseGaussCalibration:
        ratio = gaussian_ratio(request.epsilon, request.delta)
        return self.record(request, self._moved(request) / ratio)

    def _moved(self, request: Request) -> float:
        return self.sensitivity(request.n_columns, request.bound, request.adjacency)

    def record(self, request: Request, sigma: float) -> InverseGaussCalibration:
        """Return the record, for a `request`, of noise with deviation `sigma` on the diagonal."""
        return InverseGaussCalibration(
            **vars(request),
            privacy=GaussianProfile(self._moved(request) / sigma, request.adjacency),
            # To first order, where the second moment is at its floor.
            noise_std=sigma / math.sqrt(2.0) * self.eigenvalue_floor**2,
            bias=0.0,
            rho=self.margin(request.bound),
            sensitivity=self._moved(request),
            sigma=sigma,
        )


@dataclass(frozen=True)
class WishartCalibration(Calibration):
    """Noise W_d(scale I, dof) of additive Wishart."""

    dof: float  # degrees of freedom k
    scale: float  # sigma^2, in the units of the second moment
    mean: float  # scale * dof: the noise's mean is this multiple of the identity

    @property
    def law(self) -> WishartLaw:
        """G plus Wishart noise."""
        return WishartLaw(self.scale, self.dof)


@dataclass(frozen=True)
class AdditiveWishart(Mechanism):
    """Second moment plus Wishart noise: positive definite before debiasing.

    Parameters
    ----------
    dof : int, optional
        Degrees of freedom k of the noise, at least d + 1.  By default the
        smallest that the guarantee allows.
    scale : float, optional
        sigma^2 of the noise W_d(sigma^2 I, k), in the units of the second
        moment.  The paper's is B^2.  By default chosen, with `dof`, to leave the
        least noise after debiasing.
    debias : bool
        Subtract the noise's mean, k sigma^2 I, if that leaves the released
        matrix positive definite; else the lower bound on the noise's smallest
        eigenvalue of Lemma A.3, (sqrt(k) - sqrt(d) - sqrt(2 ln(4/delta)))^2
        sigma^2 I, if that does; else nothing.  Post-processing.

    Notes
    -----
    Algorithm 3. Calibrated exactly, the noise left after debiasing is that of Analyze Gauss,
    to within the tolerance of the choice of `scale`.

    References
    ----------
    .. [1] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, Algorithm 3, Theorem 4.1, section 4, Lemma A.3.
    """

    dof: int | None = None
    scale: float | None = None
    debias: bool = True

    of_groups: ClassVar[bool] = True

    of_units: ClassVar[OfUnits] = frozenset({("trace", "add-remove")})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dof is not None:
            check_positive(self.dof, "dof")
        if self.scale is not None:
            check_positive(self.scale, "scale")

    @property
    def scale_free(self) -> bool:
        """False where the noise has a scale of its own."""
        return self.scale is None

    def _calibrated(self, request: Request) -> WishartCalibration:
        d, epsilon, delta = request.n_columns, request.epsilon, request.delta
        adjacency = request.adjacency
        dof: float | None = self.dof
        ratio = None if self.scale is None else request.bound**2 / self.scale
        if dof is None and ratio is None:
            ratio, dof = wishart_noise(d, epsilon, delta, adjacency)
        elif dof is None:
            assert ratio is not None
            dof = wishart_dof(d, ratio, epsilon, delta, adjacency)
        elif ratio is None:
            ratio = wishart_ratio(d, dof, epsilon, delta, adjacency)
        record = self._record(request, dof, ratio)
        reached = record.privacy.delta(epsilon)
        if reached > delta:
            raise ValueError(
                f"dof={dof} with scale={record.scale:g} gives delta={reached:.3g} at "
                f"epsilon={epsilon:g}, more than {delta:g}; raise dof or scale, or leave one None"
            )
        return record

    def _record(self, request: Request, dof: float, ratio: float) -> WishartCalibration:
        scale = request.bound**2 / ratio
        return WishartCalibration(
            **vars(request),
            privacy=WishartProfile(dof, request.n_columns, ratio, request.adjacency),
            noise_std=scale * math.sqrt(dof),
            bias=0.0 if self.debias else scale * dof,
            dof=dof,
            scale=scale,
            mean=scale * dof,
        )
