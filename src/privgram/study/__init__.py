"""One table, one protected unit, one budget: said once, and spent on whatever is asked."""

from privgram.study.check import Check
from privgram.study.precision import Precision
from privgram.study.studied import Study, regress

__all__ = ["Check", "Precision", "Study", "regress"]
