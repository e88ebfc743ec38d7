"""One table, one protected unit, one budget, and what is spent of it."""

from privgram.planning.precision import Precision
from privgram.study.check import Check
from privgram.study.study import Study, regress

__all__ = ["Check", "Precision", "Study", "regress"]
