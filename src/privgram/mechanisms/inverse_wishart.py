"""Sampling from an inverse Wishart distribution (Sheffet's Algorithms 4 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privgram._base.checks import check_positive
from privgram.mechanisms import _multiplicative
from privgram.mechanisms._base import Mechanism, Request
from privgram.mechanisms._multiplicative import MultiplicativeCalibration
from privgram.noise import InverseWishartLaw

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class InverseWishartCalibration(MultiplicativeCalibration):
    """Noise of an inverse Wishart."""

    orientation = "narrow"

    @property
    def law(self) -> InverseWishartLaw:
        """An inverse Wishart of G + regulariser I, with the fewest degrees of freedom."""
        return InverseWishartLaw(self.dof, self.regulariser)


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
    The inverse of a sketch with nu rows: the profile is that of
    `privgram.privacy.SketchProfile`, inversion being a bijection.  The scale
    nu - d - 1 (1 where that is less) is the library's; the paper releases X.  Where adaptive
    the profile is an upper bound, and at published constants Algorithm 5's (epsilon, delta) is
    only stated (`release.guarantee`).

    References
    ----------
    .. [1] Sheffet, "Old techniques in differentially private linear regression",
       ALT 2019, Algorithms 4 and 5, Theorem 5.1.
    """

    orientation = InverseWishartCalibration.orientation

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

    def _exact(self, request: Request) -> MultiplicativeCalibration:
        return _multiplicative.exact(
            InverseWishartCalibration, self._degrees(request), self.adaptive, request
        )

    def _published(self, request: Request, allow_erratum: bool) -> MultiplicativeCalibration:
        from privgram.papers import sheffet

        dof = self._degrees(request)
        if dof != int(dof):
            raise ValueError(f"the paper's degrees of freedom are integers, not {dof}")
        arguments = int(dof), request.bound, request.epsilon, request.delta
        if self.adaptive:
            constants = sheffet.algorithm_5(*arguments)
            return _multiplicative.published(
                InverseWishartCalibration, dof, constants.regulariser, request, constants
            )
        regulariser = sheffet.theorem_5_1(
            *arguments, n_columns=request.n_columns, allow_published_erratum=allow_erratum
        )
        return _multiplicative.published(InverseWishartCalibration, dof, regulariser, request, None)
