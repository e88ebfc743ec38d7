"""Every profile and calibration against values from 60-digit ball arithmetic.

data/deltas.csv and data/calibration.csv were computed once with Arb, outside this package:
incomplete gamma functions, negative binomial and Poisson sums, tanh-sinh quadrature.
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from privgram.papers import sheffet
from privgram.papers._shared import narrow_against_wide, wide_against_narrow
from privgram.papers.hardt_roth import ChiGaussianProfile
from privgram.papers.sheffet import SketchProfile, WishartProfile
from privgram.papers.sheffet.wishart import _Corner, with_against_without, without_against_with
from privgram.privacy import GaussianProfile, calibration

DATA = Path(__file__).parent / "data"

# Of (shape, ratio, epsilon): shape is rows, or degrees of freedom after the reduction.
CURVES = {
    "gaussian": lambda _, mu, e: GaussianProfile(mu).delta(e),
    "range-finder": lambda k, rho, e: ChiGaussianProfile(k, 1 / rho).delta(e),
    "sketch-replace": lambda r, lam, e: SketchProfile(r, lam, "replace").delta(e),
    "sketch-with": lambda r, lam, e: wide_against_narrow(e, r, np.asarray(lam)),
    "sketch-without": lambda r, lam, e: narrow_against_wide(e, r, np.asarray(lam)),
    "wishart-with": lambda m, s, e: with_against_without(e, m / 2, s / 2),
    "wishart-without": lambda m, s, e: without_against_with(e, m / 2, s / 2),
    "wishart-corner": lambda m, s, e: _Corner(m, s / 2).delta(e),
    "wishart-replace": lambda m, s, e: WishartProfile(m, 2, s, "replace").delta(e),
}


def read(name):
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("pair", CURVES)
def test_delta(pair):
    groups = defaultdict(list)
    for row in read("deltas.csv"):
        if row["pair"] == pair:
            key = float(row["shape"] or 0), float(row["ratio"])
            groups[key].append((float(row["epsilon"]), float(row["delta"])))
    assert groups
    for (shape, ratio), values in groups.items():
        epsilon, delta = np.array(values).T
        np.testing.assert_allclose(CURVES[pair](shape, ratio, epsilon), delta, rtol=2e-13)


@pytest.mark.parametrize("row", read("calibration.csv"), ids=lambda row: ",".join(row.values()))
def test_calibration(row):
    epsilon, delta, noise = (float(row[k]) for k in ("epsilon", "delta", "noise"))
    adjacency = row["adjacency"]
    match row["mechanism"]:
        case "gaussian":
            sensitivity = np.sqrt(2) if adjacency == "replace" else 1
            assert sensitivity / calibration.gaussian_ratio(epsilon, delta) == pytest.approx(
                noise, rel=1e-12
            )
        case "sketch":
            ratio = sheffet.sketch_ratio(int(row["shape"]), epsilon, delta, adjacency)
            assert 1 / ratio == pytest.approx(noise, rel=1e-12)
        case "wishart":
            dof = sheffet.wishart_dof(int(row["shape"]), 1.0, epsilon, delta, adjacency)
            assert dof == noise
