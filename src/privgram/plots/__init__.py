"""Plots of results, as their method `plot`. None of them sees a table.

Every function draws on the Axes it is given, or on a new figure, and returns the Axes. Names
and units are on the axes, and what noise alone could have made is greyed: a plot is read
without the text around it.
"""
