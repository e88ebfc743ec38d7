"""What is proved, bounded or stated: the tables of docs/security.md against the objects."""

import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from support.helpers import make_release
from support.public_api import public

import privgram as pg
from privgram import mechanisms, privacy
from privgram.columns.groups import Groups
from privgram.ledger import Entry
from privgram.mechanisms import Calibration, Mechanism
from privgram.papers import PublishedErratumError, sheffet, zhou_ligett_wasserman
from privgram.papers import hardt_roth as low_rank
from privgram.papers.sheffet import GaussianSketch
from privgram.papers.zhou_ligett_wasserman import Compressed, compress
from privgram.releases.groups import Releases

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "security.md"
LEVELS = get_args(privacy.ProofStatus)


def rows_of(name):
    """Cells of a table, by its name, without its two lines of heading."""
    assert f"{{include}} guarantees-{name}.txt" in PAGE.read_text(encoding="utf-8")
    block = (DOCS / f"guarantees-{name}.txt").read_text(encoding="utf-8")
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines()[2:]
    ]


def said(proof_status, condition):
    return proof_status if condition is None else f"{proof_status}, conditional"


NAMES = {name: getattr(privacy, name) for name in privacy.__all__}  # imported when asked for
NAMES |= vars(low_rank) | vars(sheffet) | vars(zhou_ligett_wasserman)
MECHANISMS, PROFILES, RESULTS = map(rows_of, ("mechanisms", "profiles", "results"))


@pytest.mark.slow
@pytest.mark.parametrize("cells", MECHANISMS, ids=lambda cells: cells[0])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_mechanisms(cells, adjacency):
    mechanism = eval(cells[0].strip("`"), {}, vars(mechanisms) | vars(sheffet))
    n_rows = 1000 if adjacency == "replace" else None
    try:
        record = mechanism.calibrate(3, 2.0, 0.5, 1e-6, adjacency, n_rows)
    except PublishedErratumError:
        assert "refused" in cells[2] or cells[2] == "the same"
        return
    assert record.proof_status == record.privacy.proof_status
    assert said(record.proof_status, mechanism.condition) == cells[1]


@pytest.mark.parametrize("cells", PROFILES, ids=lambda cells: cells[0])
def test_profiles(cells):
    profile = eval(cells[0].strip("`"), {}, NAMES)
    assert said(profile.proof_status, getattr(profile, "condition", None)) == cells[1]


def test_no_mechanism_or_profile_is_missing():
    listed = {re.match(r"`(\w+)", cells[0])[1] for cells in MECHANISMS + PROFILES}
    profiles = {
        name
        for name, kind in NAMES.items()
        if inspect.isclass(kind)
        and issubclass(kind, privacy.Profile)
        and kind is not privacy.Profile
    }
    ours = {k.__name__ for k in Mechanism.kinds.values() if k.__module__[:8] == "privgram"}
    assert listed == profiles | ours
    # All kinds of profile that there are are public.
    ours = {k.__name__ for k in privacy.Profile.kinds.values() if k.__module__[:8] == "privgram"}
    assert ours == profiles


@pytest.mark.slow
def test_no_result_is_missing():
    """What has a profile says what it is worth, and what says so is in the table."""
    listed = " ".join(cells[0] for cells in RESULTS)
    for kind in {*filter(inspect.isclass, public().values()), Calibration}:
        fields = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}
        if "privacy" in fields | set(dir(kind)) and kind.__name__ != "Price":  # which is no result
            assert hasattr(kind, "proof_status"), kind
        if hasattr(kind, "proof_status") and not issubclass(kind, privacy.Profile):
            # A record is in the table by the class that gives it its methods.
            names = "|".join(k.__name__ for k in (kind, *kind.__subclasses__()))
            assert re.search(rf"`(\w+\.)?({names})`", listed), kind


def results(name):
    """Objects of a row of the last table, with the guarantee that its profile alone gives."""
    rng = np.random.default_rng(1)
    table = rng.uniform(-1, 1, (60, 3))
    stated = privacy.StatedProfile(1.0, 1e-6)
    if name == "`Release`":
        exact = make_release(np.eye(2), "ab")
        taken = replace(exact, privacy=stated)
        return [(r, r.privacy.proof_status) for r in (exact, taken, taken.marginal([0]))]
    if name == "`Releases`":
        groups = Groups("g", ["a", "b"], "error")
        exact = make_release(np.eye(2), "ab")
        taken = replace(exact, privacy=stated)
        made = [Releases(groups, [one, one], None) for one in (exact, taken)]
        return [(releases, releases.privacy.proof_status) for releases in made]
    if name.startswith("`regression.RegressionResults`"):
        fit = make_release(np.eye(3) + 0.1, "abc").regress("a")
        told = replace(fit, release=replace(fit.release, privacy=stated))
        return [(fit, fit.release.proof_status), (told, "stated")]
    if name.startswith("`GLMResults`"):
        table = {"x": table[:, 0], "y": table[:, 1]}
        fit = pg.regress(table, "y ~ x", {"x": (-1, 1), "y": (-1, 1)}, 1.0, 1e-6, rng=rng)
        return [(fit, "exact")]
    if name.startswith("`multivariate.DistributionResults`"):
        study = pg.Study({"x": table[:, 0]}, {"x": (-1, 1)}, epsilon=2.0, delta=1e-6, name="x")
        doors = study.summarize, study.histogram
        return [(door("x", epsilon=1.0, rng=rng), "exact") for door in doors]
    if name == "`mechanisms.Calibration`":
        sketch = GaussianSketch(9, adaptive=True)
        records = [one.calibrate(3, 2.0, 0.5, 1e-6) for one in (sketch, sheffet.published(sketch))]
        return [(r, r.privacy.proof_status) for r in records]
    if name == "`hardt_roth.LowRankCalibration`":
        return [(low_rank.calibrate((20, 15), 2, epsilon=1.0, delta=1e-6), "upper bound")]
    if "LowRank" in name:
        make = getattr(low_rank, re.findall(r"`(\w+)`$", name)[0])
        budget = {} if "halko" in name else {"epsilon": 1.0, "delta": 1e-6}
        return [(make(rng.standard_normal((20, 15)), 2, rng=rng, **budget), None)]
    if "Compressed" in name:
        options = {"reference": np.eye(3)} if "reference public" in name else {}
        if "reference and scales public" in name:
            options = {"reference": np.eye(3) / 3, "delta_max": 1.0, "scales": np.ones(3)}
        return [(compress(table, 3000, rng=rng, **options), None)]
    if "Entry" in name:
        profiles = [stated, privacy.GaussianProfile(0.1)] if "with a profile" in name else [None]
        return [
            (Entry(1, "", "", 1.0, 1e-6, 0.0, p), None if p is None else p.proof_status)
            for p in profiles
        ]
    assert name == "`opendp.make_measurement`"
    return []  # OpenDP's own object: tests/interop/test_opendp.py


@pytest.mark.slow
@pytest.mark.parametrize("cells", RESULTS, ids=lambda cells: cells[0])
def test_results(cells):
    for item, expected in results(cells[0]):
        assert item.proof_status in LEVELS
        assert item.proof_status == (expected if cells[1].startswith("its ") else cells[1])
        if not isinstance(item, (Calibration, Entry, low_rank.LowRankCalibration, Compressed)):
            assert item.proof_status.replace("none", "not private") in repr(item)
        if isinstance(item, Compressed) and item.proof_status == "upper bound":
            assert item.profile(3**0.5, 10.0).proof_status == "upper bound"


def test_weakest_part_decides():
    proved, stated = privacy.GaussianProfile(0.1), privacy.StatedProfile(1.0, 1e-6)
    sketch = sheffet.SketchProfile(9, 0.1)
    assert privacy.compose([proved, proved]).proof_status == "exact"
    assert privacy.compose([proved, sketch]).proof_status == "upper bound"
    assert privacy.compose([proved, sketch, stated]).proof_status == "stated"


def test_profile_that_does_not_say_is_stated():
    class Own(privacy.GaussianProfile):
        _proof_status = privacy.Profile._proof_status

    try:
        assert Own(0.1).proof_status == "stated"
    finally:
        del privacy.Profile.kinds["Own"]
