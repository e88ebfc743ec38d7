"""A fit is made of what has left, and of public numbers (docs/theory/glm.md).

A table is fitted, and then another one, whose noisy sums are put in the place of the first one's.
All that the client does next, and all that it shows, has to be the same.
"""

from dataclasses import replace

import numpy as np
import pytest

import privgram as pg
from privgram.secret.gate import Gate

N = 3000
COLUMNS = {
    "x": (-3, 3),
    "z": (-3, 3),
    "y": (-6, 8),
    "k": (0, 20),
    "b": (0, 1),
    "t": (0, 8),
    "w": (0, 2),
    "g": pg.Factor(range(12)),
    "h": pg.Factor(range(3)),
}
CLUSTERS = {"cov_type": "cluster", "groups": "g"}
FITS = {
    "scores": ("y ~ x + z", {}),
    "weights": ("y ~ x + z", {"weights": "w"}),
    "absorbed": ("y ~ x | g + h", {}),
    "levels": ("y ~ x + g", {}),
    "clusters": ("y ~ x + z", CLUSTERS),
    "clusters with effects": ("y ~ x + g", CLUSTERS),
    "huber": ("y ~ x + z", {"loss": "huber"}),
    "counts": ("k ~ x + offset(w)", {"family": "poisson"}),
    "truth values": ("b ~ x + h", {"family": "binomial"}),
    "instruments": ("y ~ z | x ~ w", {}),
    "times": ("Surv(t, b) ~ x", {"cuts": 4}),
    "a release": ("y ~ x - 1", {}),
}
UNITS = {
    "units": pg.Unit("who", max_rows=3),
    "units of any size": pg.Unit("who"),
    "units with effects": pg.Unit("who", max_rows=3, fixed_effects=True),
}
CASES = [(*FITS[name], None) for name in FITS] + [("y ~ x + z", {}, UNITS[name]) for name in UNITS]


def usual(rng):
    x, z, w = rng.normal(size=N), rng.normal(size=N), rng.uniform(0, 2, N)
    x += w
    return {
        "x": x,
        "z": z,
        "y": 1 + x / 2 + rng.standard_t(3, N),
        "k": rng.poisson(np.exp(x / 4)).astype(float),
        "b": (rng.random(N) < 1 / (1 + np.exp(-x))).astype(float),
        "t": rng.exponential(3, N),
        "w": w,
        "g": rng.integers(0, 12, N),
        "h": rng.integers(0, 3, N),
        "who": np.arange(N) // 3,
    }


def odd(n, rng):
    """Rows with nothing in common with those: values out of bounds or missing, and one level."""
    numbers = np.array([-1e308, 0.0, 1.0, 5e-324, np.inf, np.nan])
    found = {name: rng.choice(numbers, n) for name in ("x", "z", "y", "k", "b", "t", "w")}
    return found | {"g": np.full(n, 7), "h": np.full(n, 99), "who": np.arange(n) // 3}


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(
    ("formula", "options", "unit"), CASES, ids=[name.replace(" ", "-") for name in (*FITS, *UNITS)]
)
def test_fit_is_made_of_what_has_left(formula, options, unit, adjacency, monkeypatch, tmp_path):
    left, asked, given = [], [], iter(())
    release, read = Gate.release, Gate.read

    def read_as(gate, image, *kinds):
        asked.append([np.asarray(getattr(image, "matrix", 0.0)).tolist(), *map(sizes_of, kinds)])
        return read(gate, image, *kinds)

    def release_as(gate, total, share, **how):
        noisy = release(gate, total, share, **how)
        asked.append((share, noisy.std, noisy.mu, how))
        left.append(next(given, noisy.values).copy())  # which a client may write into
        return replace(noisy, values=left[-1].copy())

    monkeypatch.setattr(Gate, "release", release_as)
    monkeypatch.setattr(Gate, "read", read_as)

    def shown(table, name):
        study = pg.Study(
            table, COLUMNS, epsilon=9, delta=1e-5, adjacency=adjacency, unit=unit, missing="drop"
        )
        fit = study.regress(formula, epsilon=4, **options)
        fit.save(tmp_path / name)
        return (tmp_path / name).read_text(), fit.refusal, str(fit), study.ledger.spent, [*asked]

    rng = np.random.default_rng(5)
    one = shown(usual(rng), "one.json")
    given = iter([*left])
    asked.clear()
    assert shown(odd(N if adjacency == "replace" else 30, rng), "two.json") == one
    assert next(given, None) is None


def sizes_of(kind):
    sizes = {name: getattr(kind, name, None) for name in ("clip", "radius", "reach", "groups")}
    edges = getattr(kind, "edges", None)
    return type(kind).__name__, sizes, None if edges is None else edges.tolist()
