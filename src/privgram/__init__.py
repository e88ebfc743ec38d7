"""Second-moment matrices of sensitive tables, exact and differentially private."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privgram._base.installed import __version__ as __version__
from privgram._base.saved import Registry as _Registry
from privgram.columns import Columns, Dates, Factor, Log, PrivateBound
from privgram.columns.groups import Groups
from privgram.columns.unit import Unit
from privgram.disclosure.release import release
from privgram.ledger import BudgetExceeded, Ledger
from privgram.mechanisms import AdaptiveGaussian, AdditiveWishart, AnalyzeGauss, MatrixLaplace
from privgram.moment import SecondMoment
from privgram.releases.loading import load
from privgram.releases.release import Release, pool
from privgram.scan.executor import second_moment
from privgram.scan.warehouse import Query

if TYPE_CHECKING:
    from privgram import papers as papers
    from privgram.planning.plan import plan
    from privgram.regression import RefusedError
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
_Registry.rooms.append("privgram.papers")

#: Names whose rooms need SciPy, which takes longer to import than all the rest.
_LATER = {
    "plan": "planning.plan",
    "RefusedError": "regression",
    "Stream": "stream",
    "Study": "study",
    "regress": "study",
}


def __getattr__(name: str) -> Any:
    if name == "papers":
        return import_module("privgram.papers")
    if name in _LATER:
        return getattr(import_module(f"privgram.{_LATER[name]}"), name)
    raise AttributeError(f"module 'privgram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "papers"]
