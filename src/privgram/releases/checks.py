"""Whether a saved release is sound: its parts, its noise beside its profile, what is said twice."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privgram import privacy
from privgram._base.numbers import (
    check_adjacency,
    check_integer,
    check_not_negative,
    check_number,
    check_positive,
)
from privgram._base.saved import JsonObject
from privgram.mechanisms import AnalyzeGauss
from privgram.mechanisms._base import sensitivity
from privgram.noise import (
    GaussianLaw,
    ImageLaw,
    MaskedLaw,
    MatrixLaplaceLaw,
    NoiseLaw,
    TiedLaw,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from privgram._base.numbers import Matrix
    from privgram.privacy import Profile
    from privgram.regression.saved import SavedFit
    from privgram.releases.record import ReleaseRecord


#: What the last of adaptive rounds records of the rows that it clipped, all or none.
_CLIPPING = {"clipping_bias", "clipped_rows", "clipped_rows_std"}

#: Rows and columns of a matrix that are compared together: within a cache.
COMPARED = 256


def is_symmetric(matrix: Matrix, tolerance: float) -> bool:
    """Tell whether a square matrix is symmetric, up to a tolerance."""
    blocks = [slice(start, start + COMPARED) for start in range(0, len(matrix), COMPARED)]
    pairs = ((p, q) for i, p in enumerate(blocks) for q in blocks[: i + 1])
    return all(np.abs(matrix[p, q] - matrix[q, p].T).max() <= tolerance for p, q in pairs)


def check_parts(release: ReleaseRecord) -> None:
    """Raise unless the parts of a release are sound and fit together, as saved ones do."""
    names, d = release.names, release.n_columns
    if not all(isinstance(name, str) for name in names) or len(set(names)) != d or not d:
        raise ValueError("names must be different strings, at least one")
    if release.matrix.shape != (d, d) or release.matrix.dtype != np.float64:
        raise ValueError(f"the matrix of {d} columns must have shape ({d}, {d}), of float64")
    size = max(abs(float(release.matrix.min())), abs(float(release.matrix.max())))
    if not size < math.inf:  # also if it is NaN
        raise ValueError("the entries of the matrix must be finite")
    # But for the rounding of InverseGauss and of AnalyzeGauss(repair="project").
    if not is_symmetric(release.matrix, 1e-6 * size):
        raise ValueError("the matrix must be symmetric")
    sketch = release.sketch
    if sketch is not None and (sketch.shape[1:] != (d,) or sketch.dtype != np.float64):
        raise ValueError(f"the sketch of {d} columns must have shape (r, {d}), of float64")
    if sketch is not None and not np.isfinite(sketch).all():
        raise ValueError("the entries of the sketch must be finite")
    if release.columns is not None and not set(names) <= set(release.columns.names):
        raise ValueError("the columns with bounds are others than those of the matrix")
    check_positive(release.bound, "bound")
    for name, count in {"n_rows": release.n_rows, "n_units": release.n_units}.items():
        if count is not None:
            check_integer(count, name, 0, 2**63 - 1)
    release.noise.check(d)
    if not isinstance(release.parameters, dict) or not isinstance(release.reproducible, bool):
        raise ValueError("parameters must be a mapping and reproducible true or false")
    recorded = _CLIPPING & release.parameters.keys()
    for name in recorded:
        check_not_negative(release.parameters[name], name)
    if recorded not in (set(), _CLIPPING):
        raise ValueError("of clipped rows all is known, or nothing")
    if not all(isinstance(source, str) for source in release.noise_sources):
        raise ValueError("the sources of the noise must be texts")
    if not isinstance(release.condition, (str, type(None))):
        raise ValueError("the condition must be a sentence")
    check_guarantee(release, of_one_column=d == 1)
    json.dumps(release._header())  # what cannot be written again was not written by `save`
    repr(release)


def check_guarantee(one: ReleaseRecord | SavedFit, *, of_one_column: bool = False) -> None:
    """Raise unless a guarantee is sound, and the profile is for it.

    Of one column the two notions of neighbours are one.
    """
    check_positive(one.epsilon, "epsilon")
    if not 0 <= check_number(one.delta, "delta") <= 1:
        raise ValueError("delta must be in [0, 1]")
    check_adjacency(one.adjacency)
    profiled = privacy.composition.adjacencies(one.privacy)
    if not (of_one_column or profiled <= {one.adjacency}):
        raise ValueError("the privacy profile is for another adjacency")
    # A hundredth is for profiles that a later version evaluates more sharply.
    if _least_delta(one.privacy, one.epsilon) > 1.01 * one.delta + 1e-300:
        raise ValueError("the privacy profile has a larger delta at epsilon than the release")


def _least_delta(profile: Profile, epsilon: float) -> float:
    """Delta of a profile, or of a part if the whole needs an extra or takes seconds."""
    if isinstance(profile, privacy.ComposedProfile):
        return max((_least_delta(part, epsilon) for part in profile.profiles), default=1.0)
    return profile._quick().delta(epsilon)


#: Rows are quantised to 20 bits, which lengthens the bound by far less, and fewer bits by less.
_BOUND_TOLERANCE = 0.02

#: Parameters of releases whose noise is not that of one draw: of sums, and of streams.
_SEVERAL = {"groups", "pooled", "stream"}


def check_stated(release: ReleaseRecord) -> None:
    """Raise unless the law of the noise is the one that the profile is of, where one tells that.

    Lengths of the noise are those of the profile in proportion to the squared bound; what was drawn
    or added after calibration is among the parameters. Nothing is known of sums, streams, several
    rounds, and of profiles that are only stated or composed.
    """
    if _SEVERAL & release.parameters.keys():
        return
    law = release.noise
    while isinstance(law, (MaskedLaw, TiedLaw, ImageLaw)):
        law = law.base
    for name, values in _expected(release, law, release.privacy).items():
        parameter = getattr(law, name)
        if values and not any(
            math.isclose(parameter, value, rel_tol=_BOUND_TOLERANCE) for value in values
        ):
            raise ValueError(f"{name} of the noise is not what the guarantee needs")


def _expected(
    release: ReleaseRecord, law: NoiseLaw, profile: Profile
) -> Mapping[str, tuple[float, ...]]:
    """What the parameters of a law may be; none where the profile does not tell."""
    square, parameters = release.bound**2, release.parameters
    if isinstance(law, GaussianLaw) and isinstance(release.mechanism, AnalyzeGauss):
        if not isinstance(profile, privacy.GaussianProfile):
            return {}
        # One column may be all that is left of several.
        widths = (release.n_columns, 2)
        sigmas = [
            sensitivity(release.bound, d, release.adjacency) / profile.sensitivity_ratio
            for d in widths
        ]
        narrow = 1.0 if release.mechanism.noise == "triangular" else math.sqrt(2.0)
        return {
            "std": tuple(sigma / narrow for sigma in sigmas),
            "std_diagonal": tuple(sigmas),
            "added": (number_of(parameters, "added"),),
        }
    if isinstance(law, MatrixLaplaceLaw) and isinstance(profile, privacy.MatrixLaplaceProfile):
        return {"scale": (square / profile.ratio,), "dof": (profile.dof,)}
    return law.expected(release)


def number_of(parameters: Mapping[str, Any], name: str) -> float:
    """A number among the parameters of a release, 0 if it is not there."""
    value = parameters.get(name, 0.0)
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number")
    return float(value)


def derived(release: ReleaseRecord) -> JsonObject:
    """What docs/guide/file-format.md lists under the key of this name, as plain values.

    None also for what is beyond the largest number.
    """
    from privgram.regression.design import intercept_of
    from privgram.regression.inference import degrees_behind, rows_behind

    center, half_width = _scale(release)
    ones = intercept_of(release)
    with np.errstate(over="ignore", invalid="ignore"):
        rows = degrees_behind(release, rows_behind(release))
    return {
        "center": center,
        "half_width": half_width,
        "ones": None if ones is None else ones.tolist(),
        "rows": rows if rows is not None and math.isfinite(rows) else None,
    }


def check_derived(saved: JsonObject, release: ReleaseRecord) -> None:
    """Raise ValueError where a file says something else than what follows from the rest of it."""
    for name, expected in derived(release).items() if saved else ():
        if name in saved and not _alike(saved[name], expected):
            raise ValueError(f"its {name!r} does not follow from the rest of it")


def _alike(saved: ArrayLike, expected: ArrayLike) -> bool:
    # None becomes NaN. Logarithms and sums may be rounded otherwise elsewhere.
    one, other = (np.asarray(value, dtype=np.float64) for value in (saved, expected))
    return one.shape == other.shape and np.allclose(one, other, 1e-9, 1e-12, equal_nan=True)


def _scale(release: ReleaseRecord) -> tuple[list[float | None], list[float | None]]:
    """Centers and half-widths of variables and indicators; None for products and powers."""
    columns, d = release.columns, release.n_columns
    if columns is None:
        return [0.0] * d, [1.0] * d
    unknown: tuple[float | None, float | None] = None, None
    scales = dict.fromkeys(release.names, unknown)
    for stored in columns.layout.stored:
        powers, factors = stored.piece.powers, stored.piece.factors
        if powers and (factors or len(powers) > 1 or powers[0][1] > 1):
            continue
        for i in range(columns.layout.size)[stored.columns]:
            scales[columns.names[i]] = float(columns.center[i]), float(columns.half_width[i])
    center, half_width = zip(*(scales[name] for name in release.names), strict=True)
    return list(center), list(half_width)
