"""The estimators of `privgram.estimators`, by the name of the library they are made for."""

from privgram.estimators import (
    BudgetSpentError,
    PrivateLinearRegression,
    PrivatePCA,
    PrivateRidge,
    PrivateTruncatedSVD,
)

__all__ = [
    "BudgetSpentError",
    "PrivateLinearRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateTruncatedSVD",
]
