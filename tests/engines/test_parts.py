"""What every worker of a cluster does with its partitions, here without a cluster."""

import pickle

import numpy as np

from privgram import SecondMoment, second_moment
from privgram.engines.parts import Failure, Plan, merged


def assert_same(a, b):
    assert a.to_bytes() == b.to_bytes()


def test_states():
    plan = pickle.loads(pickle.dumps(Plan.check(np.empty((0, 2)), 2.0, None)))
    x = np.arange(20.0).reshape(10, 2)
    assert_same(plan.state([], 0), SecondMoment(2, 2.0))
    states = [plan.state(np.array_split(part, 2), i) for i, part in enumerate(np.split(x, 5))]
    assert_same(merged(states), second_moment(x, 2.0))
    x[[5, 9]] = np.nan
    states = [plan.state(np.array_split(part, 2), i) for i, part in enumerate(np.split(x, 5))]
    failure = merged([merged(states[::-1][:2]), merged(states[::-1][2:])])
    assert isinstance(failure, Failure)
    assert str(failure.error()).startswith("partition 2: row 1 holds")
