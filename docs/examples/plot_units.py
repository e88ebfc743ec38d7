"""
Visits or patients
==================

A patient has up to ten visits. Protecting single visits needs less noise and promises less: all
visits of a patient together may still show. Here both, with the intervals of the same regression.
"""

import matplotlib.pyplot as plt
import numpy as np

import privgram as pg

rng = np.random.default_rng(4)
patients = 10_000
visits = rng.integers(1, 11, patients)
patient = np.repeat(np.arange(patients), visits)
age = np.repeat(rng.uniform(20, 90, patients), visits)
frailty = np.repeat(rng.normal(0, 10, patients), visits)  # a patient's visits are alike
pressure = 90 + 0.5 * age + frailty + rng.normal(0, 8, patient.size)
table = {"patient": patient, "age": age, "pressure": pressure}
bounds = {"age": (18, 100), "pressure": (50, 220)}

fits = {}
for label, unit in [("visits", None), ("patients", pg.Unit("patient", max_rows=10))]:
    study = pg.Study(table, bounds, epsilon=1.0, delta=1e-6, unit=unit)
    fits[f"{label} protected"] = study.regress("pressure ~ age", epsilon=1.0)
    print(fits[f"{label} protected"].summary())

figure, axis = plt.subplots(figsize=(6.5, 2.4), layout="constrained")
for i, fit in enumerate(fits.values()):
    low, high = np.asarray(fit.conf_int().loc["age"])
    axis.hlines(i, low, high, linewidth=4)
axis.set_yticks(range(len(fits)), list(fits))
axis.set_ylim(-0.7, 1.7)
axis.axvline(0.5, color="0.5", linestyle="--")
axis.set(xlabel="mmHg per year of age, 95 % interval; truth dashed")
