"""Plots of releases and of what is made of them. None of them sees a table.

Every function draws on the Axes it is given, or on a new figure, and returns the Axes. Names
and units are on the axes, and what noise alone could have made is greyed: a plot is read
without the text around it.
"""

from privgram.plots.of_results import (
    plot_coefficients,
    plot_correlation,
    plot_description,
    plot_forest,
    plot_profile,
    plot_scree,
)

__all__ = [
    "plot_coefficients",
    "plot_correlation",
    "plot_description",
    "plot_forest",
    "plot_profile",
    "plot_scree",
]
