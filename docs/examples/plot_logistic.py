"""
A yes or no
===========

Who is a member of a union? The intervals of a private logistic regression at four values of
epsilon, beside those without privacy. Where the noise is too large for standard errors, the fit is
refused and says what would do.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg

rng = np.random.default_rng(3)
n = 50_000
school = rng.integers(8, 19, n)
age = rng.integers(18, 66, n)
logit = -1.0 - 0.10 * (school - 12) + 0.03 * (age - 40)
table = {"union": rng.random(n) < 1 / (1 + np.exp(-logit)), "school": school, "age": age}
variables = {"union": bool, "school": (0, 20), "age": (18, 66)}
study = pg.Study(table, variables, epsilon=20.0, delta=1e-6)

epsilons = [0.25, 0.5, 1.0, 4.0]
fits = [study.regress("union ~ school + age", epsilon=e, family="binomial") for e in epsilons]
for fit in fits:
    print(fit.epsilon, fit.refusal or np.exp(fit.conf_int()).round(3))

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
for axis, name, truth in zip(axes, ["school", "age"], [-0.10, 0.03], strict=True):
    answered = [fit for fit in fits if not fit.refusal]
    low, high = np.array([np.asarray(fit.conf_int().loc[name]) for fit in answered]).T
    where = np.arange(len(answered))
    axis.vlines(where, low, high, linewidth=3)
    axis.axhline(truth, color="0.5", linestyle="--", label="truth")
    axis.set_xticks(where, [f"ε = {fit.epsilon:g}" for fit in answered])
    axis.set(title=name, ylabel="change of the log odds")
    axis.legend()
