"""Second-moment matrices of sensitive tables, exact and differentially private."""

from typing import TYPE_CHECKING

from privgram._base import installed as _installed
from privgram._base.installed import __version__ as __version__

if TYPE_CHECKING:
    from privgram import papers as papers
    from privgram.columns import Columns, Dates, Factor, Log, PrivateBound
    from privgram.columns.features import RandomFeatures
    from privgram.columns.groups import Groups
    from privgram.columns.unit import Unit
    from privgram.disclosure.release import release
    from privgram.ledger import BudgetExceeded, Ledger
    from privgram.mechanisms import AdaptiveGaussian, AnalyzeGauss, MatrixLaplace
    from privgram.moment import SecondMoment
    from privgram.papers.sheffet import AdditiveWishart
    from privgram.planning.plan import plan
    from privgram.regression import RefusedError
    from privgram.releases.loading import load
    from privgram.releases.release import Release, pool
    from privgram.scan.executor import second_moment
    from privgram.scan.warehouse import Query
    from privgram.stream import Stream
    from privgram.study import Study, regress

__all__ = [
    "AdaptiveGaussian",
    "AdditiveWishart",
    "AnalyzeGauss",
    "BudgetExceeded",
    "Columns",
    "Dates",
    "Factor",
    "Groups",
    "Ledger",
    "Log",
    "MatrixLaplace",
    "PrivateBound",
    "Query",
    "RandomFeatures",
    "RefusedError",
    "Release",
    "SecondMoment",
    "Stream",
    "Study",
    "Unit",
    "load",
    "plan",
    "pool",
    "regress",
    "release",
    "second_moment",
]

# A saved release may name a mechanism of the papers, which no other room imports.
_installed.ROOMS.append("privgram.papers")

#: Where each public name lives: a room is imported when one of its names is first asked for.
_ROOMS = {
    "mechanisms": ("AnalyzeGauss", "MatrixLaplace", "AdaptiveGaussian"),
    "papers.sheffet": ("AdditiveWishart",),
    "ledger": ("BudgetExceeded", "Ledger"),
    "columns": ("Columns", "Dates", "Factor", "Log", "PrivateBound"),
    "columns.features": ("RandomFeatures",),
    "columns.groups": ("Groups",),
    "columns.unit": ("Unit",),
    "regression": ("RefusedError",),
    "releases.release": ("Release", "pool"),
    "releases.loading": ("load",),
    "moment": ("SecondMoment",),
    "stream": ("Stream",),
    "study": ("Study", "regress"),
    "planning.plan": ("plan",),
    "disclosure.release": ("release",),
    "scan.executor": ("second_moment",),
    "scan.warehouse": ("Query",),
}
if not TYPE_CHECKING:  # to a checker a name that is not above is misspelt
    __getattr__ = _installed.lazy_names(__name__, _ROOMS)


def __dir__() -> list[str]:
    return [*__all__, "papers"]
