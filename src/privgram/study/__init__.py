"""One table, one protected unit, one budget, and what is spent of it."""

from typing import TYPE_CHECKING

from privgram._base.installed import lazy_names
from privgram.study.check import Check
from privgram.study.study import Study, regress

if TYPE_CHECKING:
    from privgram.planning.precision import Precision as Precision

__getattr__ = lazy_names(__name__, {"planning": ["Precision"]})

__all__ = ["Check", "Precision", "Study", "regress"]
