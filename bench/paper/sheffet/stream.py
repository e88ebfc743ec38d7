"""The data: drawn in a stream, never stored.

A repetition is an endless table cut into chunks. Chunk j is drawn by the counter-based
generator Philox, its key fixed by the seed, the setting and the repetition, its counter by j:
so any part of the table can be drawn by anyone at any time. The data of n rows are the first n
rows of the table; since second moments merge exactly, one pass over the longest serves all n.
Repetitions are independent of each other, as the paper's are; within one repetition the curves'
points share data, which changes neither their means nor their spreads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from privgram.moment import SecondMoment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.paper.sheffet.settings import Setting

#: Rows drawn at once; they stay in the cache. Part of the stream's definition.
CHUNK = 1 << 12


def chunk(setting: Setting, repetition: int, index: int) -> NDArray[np.float64]:
    """Draw chunk `index` of a repetition: shape (CHUNK, d), Fortran order.

    Columns are the features, the labels, and the intercept. There is no BLAS in this, whose sums
    depend on the machine and on its threads.
    """
    words = [setting.seed, setting.n_labels, repetition]
    key = np.random.SeedSequence(words).generate_state(2, np.uint64)
    # A chunk takes some 2^17 numbers; the high word keeps chunks 2^192 apart.
    rng = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index]))
    p = setting.n_features
    columns = np.empty((setting.n_columns, CHUNK))
    rng.standard_normal(out=columns[:-1])
    features, labels = columns[:p], columns[p:-1]
    beta = setting.coefficients
    labels *= setting.noise_std
    labels += np.einsum("ij,jn->in", beta[:, :p], features)
    labels += beta[:, p:]
    columns[-1] = 1.0
    return columns.T


def accumulate(setting: Setting, repetition: int, start: int, stop: int) -> SecondMoment:
    """Second moment of rows start to stop of a repetition, both multiples of `CHUNK`."""
    moment = SecondMoment(setting.n_columns, setting.bound)
    for index in range(start // CHUNK, stop // CHUNK):
        moment.update(chunk(setting, repetition, index))
    return moment
