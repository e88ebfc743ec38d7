"""Sheffet's experiments on second-moment matrices, reproduced and continued.

O. Sheffet, "Private Approximations of the 2nd-Moment Matrix Using Existing Techniques in Linear
Regression", arXiv:1507.00056, 2015: Figures 1 to 6, each with the paper's constants and
with exact calibration.
"""

from bench.paper.sheffet.figures import FIGURES
from bench.paper.sheffet.reproduce import Report, reproduce
from bench.paper.sheffet.settings import SCALES, Setting

__all__ = ["FIGURES", "SCALES", "Report", "Setting", "reproduce"]
