"""Measure the privacy loss of a mechanism's real release code on its worst-case pair.

A profile says how well the best test can tell two neighbouring tables apart. Here the
test is made. Both tables of a pair that attains the profile are released many times
over, each release is scored by its log-likelihood ratio L (the optimal test, by Neyman
and Pearson), and

    delta(epsilon) = P(L > epsilon) - e^epsilon Q(L > epsilon)

is estimated with exact (Clopper-Pearson) confidence limits. Whatever the score, this is
a lower bound on the delta of the code that ran: too little noise shows as an estimate
above the profile, a profile that is not exact as one below.

The audit stands outside the wall between the public and the secret side: it needs the
secret moments of its made-up tables and what is released of them.
"""

from .cases import Case, Estimate, Pair, Together
from .measurement import CASES, leading, measure, worst_pairs

__all__ = ["CASES", "Case", "Estimate", "Pair", "Together", "leading", "measure", "worst_pairs"]
