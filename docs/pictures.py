"""Draw the pictures of the site: python docs/pictures.py."""

import math
from pathlib import Path

import numpy as np

import privgram as pg
from privgram.cli.demo import BOUNDS, load_flights
from privgram.papers import sheffet

IMAGES = Path(__file__).parent / "img"


def main() -> None:
    """Draw every picture into docs/img."""
    IMAGES.mkdir(exist_ok=True)
    # 21 columns in [-1, 1] and an intercept.
    ours = pg.AnalyzeGauss(), pg.AdditiveWishart(), sheffet.GaussianSketch(10_000)
    papers = [sheffet.published(one, allow_published_erratum=True) for one in ours]
    plan = pg.plan(22, math.sqrt(22), 0.5, 1e-6, mechanisms=[ours[-1], *papers])
    plan.plot(IMAGES / "noise.png")
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
