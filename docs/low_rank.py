"""Fill the tables of low rank and compression in experiments.md, and draw their pictures.

    python -m bench.paper low-rank --out docs/benchmarks
    python -m bench.paper compression --out docs/benchmarks
    python -m docs.low_rank

The tables say what the results in benchmarks/ do.
"""

import csv
import math
from pathlib import Path

from bench import pages

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "benchmarks"

#: Key in the results, name in table and picture, colour, and line.
WAYS = (
    ("pfp", "find-and-project", "tab:blue", "-"),
    ("randomised_response", "noise on A", "tab:orange", "--"),
    ("analyze_gauss", "noise on A Aᵀ", "tab:green", "-."),
)


def read(name):
    """Rows of a result, with numbers for numbers."""
    with open(RESULTS / f"{name}.csv", newline="") as file:
        return [
            {key: value if key == "varied" else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def table(header, rows):
    lines = [header, ["--:"] * len(header), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def relative(value):
    return f"{100 * value:.1f} %"


def low_rank():
    """Every setting, the closest of the private ways in bold."""
    rows = []
    for row in read("low-rank"):
        errors = {key: row[key] for key in ("pfp", "randomised_response", "analyze_gauss")}
        least = min(errors.values())
        cells = [f"**{relative(x)}**" if x == least else relative(x) for x in errors.values()]
        rows.append(
            [
                "Theorem " + row["varied"] if row["varied"][0] == "6" else row["varied"],
                f"{row['m']:.0f} x {row['n']:.0f}",
                f"{row['rank']:.0f}",
                f"{row['signal']:.3g}",
                f"{row['C']:.1f}",
                f"{row['mu0']:.1f}",
                relative(row["hmt"]),
                cells[0],
                relative(row["pruned"]),
                *cells[1:],
                f"{row['theorem_6_2']:.2g}",
                f"{row['theorem_6_3']:.2g}",
            ]
        )
    header = ["varied", "m x n", "rank", "signal", "C", "mu0", "no privacy", "find-and-project"]
    header += ["pruned", "noise on A", "noise on A Aᵀ", "Thm 6.2", "Thm 6.3"]
    return table(header, rows)


def compression():
    """Distance of the leading eigenvectors."""
    results = read("compression")
    columns = sorted({row["n_columns"] for row in results})
    rows = []
    for m in sorted({row["rows"] for row in results}):
        at = {row["n_columns"]: row for row in results if row["rows"] == m}
        cells = []
        for p in columns:
            bound = at[p]["bound"]
            cells.append(f"{at[p]['error']:.3f}")
            cells.append("none" if math.isinf(bound) else f"{bound:.3f}")
        rows.append([f"{m:.0f}", *cells])
    header = ["rows kept"]
    for p in columns:
        header += [f"p = {p:.0f}", "bound"]
    return table(header, rows)


def signs():
    """Example 3.6: what Theorem 4.6 says, and the exact profile."""
    rows = [
        [
            f"{row['n_rows']:.0f}",
            f"{row['n_columns']:.0f}",
            f"{row['rows']:.0f}",
            f"{row['difference']:.2e}".replace("e-0", "e-"),
            f"{row['alpha']:.3g}",
            f"{row['epsilon']:.3g}",
        ]
        for row in read("compression-signs")
    ]
    return table(
        ["n", "p", "m", "norm of the change", "alpha, without o(1)", "epsilon at 1e-6"], rows
    )


TABLES = {"low rank": low_rank, "compression": compression, "signs": signs}


def draw():
    """Draw the errors in the regimes of the theorems, and those of PCA."""
    from matplotlib.figure import Figure

    results = read("low-rank")
    figure = Figure((9, 3.4), layout="constrained")
    panels = (("6.2", "m", "‖A‖ = 40 √n, n = 64 m"), ("6.3", "m", "entries of 4, n = 64 m"))
    panels += (("spike", "C", "one row larger, 100 x 1600"),)
    for axes, (varied, key, title) in zip(figure.subplots(1, 3), panels, strict=True):
        rows = [row for row in results if row["varied"] == varied]
        for name, label, colour, line in WAYS:
            x = [row[key] for row in rows]
            axes.plot(x, [row[name] for row in rows], line, color=colour, label=label, marker=".")
        axes.set(xlabel=key, title=title, yscale="log")
        if key == "m":
            axes.set(xscale="log", xticks=(25, 100, 400), xticklabels=("25", "100", "400"))
            axes.minorticks_off()
        axes.set_ylim(0.05, 1)
        axes.set_yticks((0.05, 0.1, 0.2, 0.5, 1), ("5 %", "10 %", "20 %", "50 %", "100 %"))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("error, of ‖A‖")
    figure.axes[0].legend(frameon=False)
    figure.savefig(FOLDER / "img" / "low-rank.png", dpi=110)

    results = read("compression")
    figure = Figure((5, 3.4), layout="constrained")
    axes = figure.subplots()
    columns = sorted({row["n_columns"] for row in results})
    for p, colour in zip(columns, ("tab:blue", "tab:orange", "tab:green"), strict=False):
        rows = [row for row in results if row["n_columns"] == p]
        x = [row["rows"] for row in rows]
        axes.plot(x, [row["error"] for row in rows], ".-", color=colour, label=f"p = {p:.0f}")
        axes.plot(x, [row["bound"] for row in rows], ":", color=colour)
    axes.set(xscale="log", yscale="log", xlabel="rows kept", ylabel="distance of the subspaces")
    axes.set_title("two components; dotted: Proposition 3.4")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(FOLDER / "img" / "compression.png", dpi=110)


if __name__ == "__main__":
    for name, lines in TABLES.items():
        pages.fill(name, lines())
    draw()
