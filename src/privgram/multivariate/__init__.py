"""What a second moment says of many columns at once: post-processing of a release.

Nothing here sees a table, or spends a budget.

Every statistic is a function of means and covariances (`Variables`), and what is said of its error
comes from drawing the noise again by its own law, which is public.
"""

from privgram.multivariate.components import PCA, pca
from privgram.multivariate.description import Correlation, Description, correlation, describe
from privgram.multivariate.distribution import DistributionResults, HistogramResults, summarize
from privgram.multivariate.statistic import Statistic, statistic
from privgram.multivariate.synthetic import synthesize
from privgram.multivariate.variables import Covariance, Variables

__all__ = [
    "PCA",
    "Correlation",
    "Covariance",
    "Description",
    "DistributionResults",
    "HistogramResults",
    "Statistic",
    "Variables",
    "correlation",
    "describe",
    "pca",
    "statistic",
    "summarize",
    "synthesize",
]
