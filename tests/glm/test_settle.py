"""What a fit that stopped early has back of its ledger."""

import math

import numpy as np
import pytest

import privgram as pg


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "levels"])
def test_stopped_fit_is_charged_for_what_its_rounds_spent(tmp_path, family, adjacency):
    """Its recorded ratios, and hardly more: nothing that was released is given back."""
    rng = np.random.default_rng(0)
    n = 4000 if family == "levels" else 60
    x = rng.normal(size=n)
    table = {"x": x, "y": np.clip(0.5 * x, -8, 8), "z": x > 0, "k": 1e-9 * x}
    columns = {"x": (-8, 8), "y": (-15, 15), "z": bool, "k": (-1e6, 1e6)}
    if family == "levels":
        names = [f"f{i}" for i in range(500)]
        table["firm"] = np.array(names, object)[np.repeat(np.arange(500), 8)]
        columns["firm"] = names
    formula = {"gaussian": "y ~ k", "binomial": "z ~ k", "levels": "y ~ k | firm"}[family]
    study = pg.Study(
        table, columns, epsilon=8.0, delta=1e-6, adjacency=adjacency, ledger=tmp_path / "one.ledger"
    )
    more = {"family": "binomial"} if family == "binomial" else {}
    fit = study.regress(formula, epsilon=4.0, rng=rng, **more)
    entry = study.entries[-1]
    assert fit.refusal is not None
    assert entry.settled is not None or family == "levels"  # whose rounds are all spent by then
    spent = fit.parameters
    parts = [*spent["round_mu"], *spent["counts_mu"], *spent.get("score_mu", [])]
    ratio = math.hypot(*parts, spent.get("number_mu", 0.0))
    assert ratio <= entry.charged.sensitivity_ratio <= ratio * (1 + 1e-6)
