"""What a second moment says of many columns at once: post-processing of a release.

Nothing here sees a table, or spends a budget.

Every statistic is a function of means and covariances (`Variables`), and what is said of its error
comes from drawing the noise again by its own law, which is public.
"""

from privgram.multivariate.components import (
    PCA,
    FactorAnalysis,
    factor_analysis,
    pca,
    varimax,
)
from privgram.multivariate.description import Correlation, Description, correlation, describe
from privgram.multivariate.relations import CCA, LDA, GraphicalLasso, cca, graphical_lasso, lda
from privgram.multivariate.synthetic import synthesize
from privgram.multivariate.variables import Covariance, Variables

__all__ = [
    "CCA",
    "LDA",
    "PCA",
    "Correlation",
    "Covariance",
    "Description",
    "FactorAnalysis",
    "GraphicalLasso",
    "Variables",
    "cca",
    "correlation",
    "describe",
    "factor_analysis",
    "graphical_lasso",
    "lda",
    "pca",
    "synthesize",
    "varimax",
]
