"""Second-moment matrices of sensitive tables, exact and differentially private."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privgram._base.saved import DamagedFile
from privgram._base.version import __version__ as __version__
from privgram._release import Release
from privgram._release.groups import Releases
from privgram._release.load import load
from privgram._release.pool import pool
from privgram.columns import Columns, Dates, Factor, Log
from privgram.columns.groups import Groups
from privgram.columns.unit import PrivacyUnit, Unit
from privgram.drawing import robust as _robust  # noqa: F401 - by which fits look again
from privgram.drawing.norm_bound import private_norm_bound
from privgram.drawing.release import release
from privgram.engines.threads import second_moment
from privgram.ledger import BudgetExceeded, Ledger
from privgram.mechanisms import (
    AdditiveWishart,
    AnalyzeGauss,
    GaussianSketch,
    InverseGauss,
    InverseWishart,
    MatrixLaplace,
    Refined,
)
from privgram.mechanisms.norm_bound import NormBound
from privgram.moment import SecondMoment, merge
from privgram.moment.groups import SecondMoments

if TYPE_CHECKING:
    from privgram import papers, privacy
    from privgram._plan import Outlook, Plan, PlanRow, TermRow, plan
    from privgram.compression import compress
    from privgram.drawing.logistic import logistic
    from privgram.stream import Stream
    from privgram.study import Study, regress

__all__ = [
    "AdditiveWishart",
    "AnalyzeGauss",
    "BudgetExceeded",
    "Columns",
    "DamagedFile",
    "Dates",
    "Factor",
    "GaussianSketch",
    "Groups",
    "InverseGauss",
    "InverseWishart",
    "Ledger",
    "Log",
    "MatrixLaplace",
    "NormBound",
    "Outlook",
    "Plan",
    "PlanRow",
    "PrivacyUnit",
    "Refined",
    "Release",
    "Releases",
    "SecondMoment",
    "SecondMoments",
    "Stream",
    "Study",
    "TermRow",
    "Unit",
    "compress",
    "load",
    "logistic",
    "merge",
    "papers",
    "plan",
    "pool",
    "privacy",
    "private_norm_bound",
    "regress",
    "release",
    "second_moment",
]

#: Names that few programs use, and where they live.
_LATER = {
    **dict.fromkeys(("Plan", "PlanRow", "Outlook", "TermRow", "plan"), "_plan"),
    "compress": "compression",
    "logistic": "drawing.logistic",
    "Stream": "stream",
    **dict.fromkeys(("Study", "regress"), "study"),
}


def __getattr__(name: str) -> Any:
    # Imported when first used: privacy needs SciPy, which takes longer than all the rest.
    if name in ("papers", "privacy"):
        return import_module(f"privgram.{name}")
    if name in _LATER:
        return getattr(import_module(f"privgram.{_LATER[name]}"), name)
    raise AttributeError(f"module 'privgram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
