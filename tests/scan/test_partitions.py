"""What every worker of a cluster does with its partitions, here without a cluster."""

import pickle
from functools import partial

import numpy as np

from privgram import SecondMoment, second_moment
from privgram._core.rows import RowAccumulator
from privgram.disclosure.norm_bound import NormCounts
from privgram.moment.accumulators import MappedAccumulator
from privgram.scan.partitions import Failure, PartitionPlan, merged, rows_in_state
from privgram.scan.request import ScanRequest


def assert_same(a, b):
    assert a.to_bytes() == b.to_bytes()


def test_states():
    plan = pickle.loads(
        pickle.dumps(PartitionPlan.check(np.empty((0, 2)), ScanRequest(None, bound=2.0)))
    )
    x = np.arange(20.0).reshape(10, 2)
    assert_same(plan.state([], 0), SecondMoment(2, 2.0))
    states = [plan.state(np.array_split(part, 2), i) for i, part in enumerate(np.split(x, 5))]
    assert_same(merged(states), second_moment(x, 2.0))
    x[[5, 9]] = np.nan
    states = [plan.state(np.array_split(part, 2), i) for i, part in enumerate(np.split(x, 5))]
    failure = merged([merged(states[::-1][:2]), merged(states[::-1][2:])])
    assert isinstance(failure, Failure)
    assert str(failure.error()).startswith("partition 2: row 1 holds")


def test_states_of_rounds():
    """Images of rows, added up and counted, of which the states pickle and are left as they are."""
    x = np.random.default_rng(0).normal(size=(50, 2))
    frame = np.array([[2.0, 1.0], [0.0, 3.0]])
    for inner in (
        partial(RowAccumulator, bound=1.5),
        partial(NormCounts, grid=np.array([1.0, 2.0])),
    ):
        new = partial(mapped_of, frame, inner)
        plan = pickle.loads(
            pickle.dumps(PartitionPlan.check(np.empty((0, 2)), ScanRequest(None), new))
        )
        whole = new(2)
        whole.update(x)
        states = [plan.state([part], i) for i, part in enumerate(np.array_split(x, 7))]
        states.append(plan.state([], 7))
        for _ in range(2):
            total = merged(pickle.loads(pickle.dumps(states)))
            assert rows_in_state(total) == 50
            assert pickle.dumps(total) == pickle.dumps(whole)
            assert pickle.dumps(merged(states)) == pickle.dumps(whole)
        assert isinstance(plan.state([np.full((1, 2), np.nan)], 3), Failure)


def mapped_of(frame, inner, n_columns):
    return MappedAccumulator(frame, 5.0, inner(n_columns))
