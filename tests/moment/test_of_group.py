"""The moment of a group knows that it is one: how many rows it has is private."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from support.helpers import refuses

import privgram as pg
from privgram.moment.grouped import SecondMoments
from privgram.secret.generators import resolve


def moments() -> SecondMoments:
    x = np.linspace(-1, 1, 1000)
    table = {"x": x, "y": x**2, "g": np.where(np.arange(1000) % 2, "a", "b")}
    columns = pg.Columns({"x": (-1, 1), "y": (-1, 1)})
    return pg.second_moment(table, columns=columns, by=pg.Groups("g", ["a", "b"]))


def test_number_of_rows_of_a_group_is_in_no_release() -> None:
    a, b = moments()["a"], moments().values()[1]
    ways = [a, b, a.copy(), pickle.loads(pickle.dumps(a)), a + b, b + a]
    ways += [pg.SecondMoment.from_bytes(a.to_bytes()), moments().total() + a, a + moments().total()]
    for moment in ways:
        made = pg.release(moment, None, 1.0, 1e-6, mechanism=pg.AnalyzeGauss(), adjacency="replace")
        assert made.n_rows is None
        assert made.n_units is None
    whole = pg.release(
        moments().total(), epsilon=1.0, delta=1e-6, mechanism=pg.AnalyzeGauss(), adjacency="replace"
    )
    assert whole.n_rows == 1000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_forked_child_cannot_draw() -> None:
    generator, _ = resolve(None)
    for draw in (generator.integers, None):
        child = os.fork()
        if not child:
            try:
                generator.bit_generator if draw is None else generator.integers(9)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
    generator.integers(9)


def test_moment_is_not_merged_with_itself() -> None:
    moment = moments().total()
    for twice in (lambda: moment + moment, lambda: moment.merge(moment)):
        refuses(twice, ValueError, "count twice")
    assert moment.n_rows == 1000
