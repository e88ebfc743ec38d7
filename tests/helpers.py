"""What several test modules share."""

import traceback

import numpy as np

from privgram import privacy
from privgram._release import Release
from privgram.mechanisms import AnalyzeGauss
from privgram.noise import GaussianLaw
from privgram.papers import sheffet


def make_release(matrix, names, law=None, n_rows=None, columns=None, bound=1.0):
    """A release as a mechanism would make it, of a matrix of our choice."""
    return Release(
        matrix=np.array(matrix, dtype=float),
        names=tuple(names),
        mechanism=AnalyzeGauss(),
        parameters={},
        noise=law or GaussianLaw(1e-9, 1e-9),
        epsilon=1.0,
        delta=1e-6,
        adjacency="replace",
        privacy=privacy.StatedProfile(1.0, 1e-6, "replace"),  # of noise of any size
        bound=bound,
        n_rows=n_rows,
        columns=columns,
    )


def by(calibration, mechanism, **options):
    """A mechanism by its exact profile, or with "published" by the constants of its paper."""
    if calibration == "exact":
        return mechanism
    return sheffet.published(mechanism, **options)


def said(error):
    """What a program prints of an exception, and what a logging tool finds behind it."""
    texts = traceback.format_exception(error)
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


def slopes(fit, values=None):
    """Numbers of a fit's features, without the constant: `params` by default."""
    return np.asarray(fit.params if values is None else values)[: len(fit.design.names)]
