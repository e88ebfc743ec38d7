"""The one room where secrets meet noise: generators, draws, and the way from table to release.

A budget is spent nowhere else, and nothing on the public side imports it.
"""
