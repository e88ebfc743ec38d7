"""Draw the pictures of the site: python docs/pictures.py."""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import privgram as pg
from privgram.cli.demo import BOUNDS, load_flights
from privgram.papers import sheffet

IMAGES = Path(__file__).parent / "img"


def noise() -> Figure:
    """Noise by exact and by published constants: 21 columns in [-1, 1] and an intercept."""
    bound, delta = math.sqrt(22), 1e-6
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    grid = np.geomspace(0.05, 0.99, 25)  # the papers' theorems are for epsilon below 1
    ours = pg.AnalyzeGauss(), pg.AdditiveWishart(), sheffet.GaussianSketch(10_000)
    for j, mechanism in enumerate(ours):
        name, color = type(mechanism).__name__, f"C{j}"
        printed = sheffet.published(mechanism, allow_published_erratum=True)
        exact, published = (
            [one.calibrate(22, bound, float(epsilon), delta) for epsilon in grid]
            for one in (mechanism, printed)
        )
        # Where curves coincide, the wider one shows on both sides of the narrower.
        std = [record.noise_std for record in exact]
        axes.loglog(grid, std, color=color, linewidth=5 - 2 * j, label=f"{name}, exact")
        std = np.array([record.noise_std for record in published])
        axes.loglog(grid, std, "--", color=color, label=f"{name}, published")
        flawed = [record.privacy.delta(record.epsilon) > delta for record in published]
        if any(flawed):
            axes.loglog(grid[flawed], std[flawed], "x", color=color, label="not private as printed")
    axes.axvline(0.5, color="0.8", zorder=0)
    axes.set(xlabel="epsilon", ylabel="noise of one entry (standard deviation)")
    axes.set_title(f"d = 22, B = {bound:.3g}, delta = {delta:g}, replace")
    axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["0.05", "0.1", "0.2", "0.5", "1"])
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axes.grid(which="major", color="0.92")
    return figure


def main() -> None:
    """Draw every picture into docs/img."""
    IMAGES.mkdir(exist_ok=True)
    noise().savefig(IMAGES / "noise.png", dpi=150)
    # The flights of the demo; a seed, so that the pictures stay the same.
    columns = pg.Columns(BOUNDS, intercept=True, missing="drop")
    moment = pg.second_moment(load_flights(), columns=columns)
    release = pg.release(
        moment, epsilon=0.5, delta=1e-6, mechanism=pg.AnalyzeGauss(), rng=np.random.default_rng(1)
    )
    release.plot().figure.savefig(IMAGES / "matrix.png", dpi=110)
    fit = release.regress("arr_delay")
    fit.plot(per="sd").figure.savefig(IMAGES / "coefficients.png", dpi=110)


if __name__ == "__main__":
    main()
