"""Cox's regression of made survival times, beside FDPCox's own code for one server.

    python -m bench.peers.cox FOLDER

Half a minute. FOLDER is a checkout of https://github.com/EKHung/FDPCox; it takes R. Both have the
same 20,000 rows up to time 1 and the same guarantee, and errors are from Cox's own estimates.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import statsmodels.api as sm

import privgram as pg
from bench.pages import fill, today

EPSILONS, DRAWS, ROWS, DELTA = (1.0, 4.0), 5, 20_000, 1e-3
BETA, END = np.array([0.6, -0.4, 0.2]), 1 / np.sqrt(3)

ASK = """
args <- commandArgs(TRUE); source(file.path(args[1], "R", "helper_functions.R"))
source(file.path(args[1], "R", "main_functions.R")); table <- as.matrix(read.csv(args[2]))
set.seed(1); for (i in 1:%d) cat(cdp_cox(table, %g, delta = %g), "\\n")
"""


def made():
    """Times with hazards exp(x beta) and censoring, an indicator of events, and features."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-END, END, (ROWS, 3))
    fails, ends = rng.exponential(np.exp(-x @ BETA)), rng.exponential(1, ROWS)
    return np.minimum(fails, ends), (fails <= ends).astype(float), x


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    time, event, x = made()
    cox = sm.PHReg(np.minimum(time, 1), x, event * (time <= 1), ties="efron").fit()
    columns = {"t": (0, 20), "s": (0, 1), **dict.fromkeys("abc", (-END, END))}
    table = {"t": time, "s": event, **dict(zip("abc", x.T, strict=True))}
    lines = [
        "| ε | FDPCox: error | privgram: error | standard error | held |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a delta as large as theirs
        path = Path(name) / "made.csv"
        np.savetxt(
            path, np.column_stack([time, event, x]), "%.17g", ",", header="t,s,a,b,c", comments=""
        )
        for epsilon in EPSILONS:
            ask = ["Rscript", "-e", ASK % (DRAWS, epsilon, DELTA), str(folder), str(path)]
            answer = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
            theirs = np.array([line.split() for line in answer.splitlines()], float)
            given = {"epsilon": epsilon, "delta": DELTA, "cuts": [0, 0.25, 0.5, 0.75, 1]}
            fits = [
                pg.regress(table, "Surv(t, s) ~ a + b + c", columns, **given,
                           rng=np.random.default_rng(i))
                for i in range(DRAWS)
            ]  # fmt: skip
            ours, stated = (np.array([getattr(f, k) for f in fits]) for k in ("params", "bse"))
            off = [np.abs(found - cox.params) / cox.bse for found in (theirs, ours)]
            held = (np.abs(ours - cox.params) <= 1.96 * stated).mean()
            cells = [off[0].mean(), off[1].mean(), (stated / cox.bse).mean()]
            lines.append(
                f"| {epsilon:g} | " + " | ".join(f"{x:.2f}" for x in cells) + f" | {held:.0%} |"
            )
    fill("cox", [*lines, "", today(f"{DRAWS} draws, standard errors of Cox's regression")])


if __name__ == "__main__":
    main()
