"""
Privacy profiles
================

A mechanism calibrated to (1, 1e-6) also keeps every other promise on its profile: the smallest
delta for each epsilon. Three mechanisms calibrated to the same point promise different things
elsewhere, and the profile of several releases together is a profile again.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg
from privgram import privacy
from privgram.papers.sheffet import GaussianSketch

mechanisms = {
    "Analyze Gauss": pg.AnalyzeGauss(),
    "additive Wishart": pg.AdditiveWishart(),
    "sketch of 400 rows": GaussianSketch(rows=400),
}
profiles = {
    name: mechanism.calibrate(n_columns=10, bound=1.0, epsilon=1.0, delta=1e-6).privacy
    for name, mechanism in mechanisms.items()
}

figure, axis = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
epsilon = np.linspace(0.0, 2.5, 60)
for name, profile in profiles.items():
    axis.semilogy(epsilon, profile.delta(epsilon), label=name)
twice = privacy.compose([profiles["Analyze Gauss"]] * 2)
axis.semilogy(epsilon, twice.delta(epsilon), "--", color="C0", label="Analyze Gauss, twice")
axis.plot(1.0, 1e-6, "ko")
axis.set(xlabel="epsilon", ylabel="delta", ylim=(1e-12, 1))
axis.legend()
