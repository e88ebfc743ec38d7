"""Reading what was saved, of whatever kind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from privgram._base.installed import LazyModule
from privgram._base.saved import DamagedFile, format_of
from privgram._base.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from privgram.multivariate.distribution import DistributionResults, HistogramResults
    from privgram.regression import IVResults, OLSResults
    from privgram.regression.classes import ClassFit
    from privgram.regression.features import FeatureFit
    from privgram.regression.results import RegressionResults
    from privgram.releases.groups import Releases
    from privgram.releases.release import Release

#: What `load` is told to expect.
Saved = TypeVar(
    "Saved",
    bound="Release | Releases | RegressionResults | DistributionResults | HistogramResults"
    " | ClassFit | FeatureFit",
)


def _read_fit(path: Path) -> OLSResults | IVResults:
    """Read a regression on a release, by asking it of the release again."""
    from privgram.regression.design import RegressionTerms
    from privgram.regression.iv import IVResults, ScoreSolution, fit_iv
    from privgram.regression.least_squares import fit_ols
    from privgram.regression.results import FIT_FORMAT
    from privgram.releases.release import build

    header, arrays = FIT_FORMAT.read(path)
    with FIT_FORMAT.understood(path), np.errstate(all="ignore"):
        release = build(header.pop("release"), arrays)
        question = RegressionTerms.from_dict(header.pop("question"))
        kept = {name: header.pop(name) for name in ("without", "not_scores") if name in header}
        if not all(text is None or isinstance(text, str) for text in kept.values()):
            raise ValueError("a reason is a sentence")
        scores = header.pop("scores", None)
        ask = fit_iv if question.endogenous else fit_ols
        fit = replace(ask(release, question, **header), **kept)
        if scores is not None and isinstance(fit, IVResults):
            size = len(fit.design.images) - 1
            fit = replace(fit, scores=ScoreSolution.from_dict(scores, size))
        str(fit.summary())
        return fit


#: What reads a file of each format, imported when there is one.
READERS: dict[str, Callable[[Path], Any]] = {
    "privgram-release": LazyModule("privgram.releases.release").read_release,
    "privgram-release-fit": _read_fit,
    "privgram-releases": LazyModule("privgram.releases.groups").read_releases,
    "privgram-features": LazyModule("privgram.regression.features").read_features,
    "privgram-distribution": LazyModule("privgram.multivariate.distribution").read_table,
    "privgram-histogram": LazyModule("privgram.multivariate.distribution").read_table,
    "privgram-classes": LazyModule("privgram.regression.classes").read_classes,
    "privgram-regression": LazyModule("privgram.regression.survival").read_fit,
}


@overload
def load(
    path: str | os.PathLike[str], kind: None = None
) -> (
    Release
    | Releases
    | RegressionResults
    | DistributionResults
    | HistogramResults
    | ClassFit
    | FeatureFit
): ...
@overload
def load(path: str | os.PathLike[str], kind: type[Saved]) -> Saved: ...
def load(path: str | os.PathLike[str], kind: type[Any] | None = None) -> Any:
    """Read what was saved: a release, releases of groups, a regression, a summary or a classifier.

    Parameters
    ----------
    path : path-like
        A `.json` or `.npz` file, as the `save` of any of these writes it.
    kind : type, optional
        What is expected, such as `Release`: type checkers then know what comes.

    Returns
    -------
    Release, Releases, RegressionResults, DistributionResults, HistogramResults, ClassFit or
    FeatureFit
        Whichever the file says it holds.

    Raises
    ------
    TypeError
        If the file holds another kind.
    DamagedFile
        A ValueError: if the file holds none of these, is of a later version, was truncated or
        altered, or has parts that contradict each other.
    OSError
        If it cannot be read.
    """
    path = Path(path)
    name = format_of(path)
    if name not in READERS:
        raise DamagedFile(
            f"{shown(path.name)} is not a release of privgram, of groups or of one table, nor a "
            "fit, or is damaged"
        )
    result = READERS[name](path)
    if kind is not None and not isinstance(result, kind):
        raise TypeError(
            f"{shown(path.name)} holds a {type(result).__name__}, and no {kind.__name__}"
        )
    return result
