"""Plots of what was released: matrix, spectrum, privacy profile, coefficients.

Every function draws on the Axes it is given, or on a new figure, and returns the Axes. Names
and units are on the axes, and what noise alone could have made is greyed: a plot is read
without the text around it.
"""

from privgram.plots.of_fit import plot_coefficients
from privgram.plots.of_groups import plot_forest
from privgram.plots.of_profile import plot_profile
from privgram.plots.of_release import noise_scores, plot_matrix, plot_privacy, plot_spectrum

__all__ = [
    "noise_scores",
    "plot_coefficients",
    "plot_forest",
    "plot_matrix",
    "plot_privacy",
    "plot_profile",
    "plot_spectrum",
]
