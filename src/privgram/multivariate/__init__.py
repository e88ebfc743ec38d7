"""What a second moment says of many columns at once: post-processing of a release.

Every statistic is a function of means and covariances (`Variables`), and what is said of its error
comes from drawing the noise again by its own law, which is public.
"""

from privgram.multivariate.components import PCA, eigenvalues, noise_edge, pca, upright
from privgram.multivariate.description import Correlation, Description, correlation, describe
from privgram.multivariate.variables import Variables, mean_and_covariance

__all__ = [
    "PCA",
    "Correlation",
    "Description",
    "Variables",
    "correlation",
    "describe",
    "eigenvalues",
    "mean_and_covariance",
    "noise_edge",
    "pca",
    "upright",
]
