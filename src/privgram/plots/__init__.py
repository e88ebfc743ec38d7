"""Plots of what is made of releases and of studies. None of them sees a table.

Every function draws on the Axes it is given, or on a new figure, and returns the Axes. Names
and units are on the axes, and what noise alone could have made is greyed: a plot is read
without the text around it.
"""

from privgram.plots.of_results import plot_coefficients

__all__ = ["plot_coefficients"]
