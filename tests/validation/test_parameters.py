"""Every numeric parameter of public functions: what is no number, or out of range, is named."""

import ast
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.helpers import make_release

import privgram as pg
from bench import audit
from privgram import multivariate, privacy
from privgram.papers import hardt_roth, sheffet, zhou_ligett_wasserman
from privgram.papers import hardt_roth as low_rank
from privgram.papers.sheffet import GaussianSketch, InverseGauss, InverseWishart
from privgram.papers.zhou_ligett_wasserman import compress
from privgram.privacy import calibration

# What is no value of a parameter: by its type, and by its range.
NO_NUMBERS = ("a", True, None, [1.0], 1j)
NO_INTEGERS = (*NO_NUMBERS, 1.5, math.nan)
NUMBER = NO_NUMBERS, ()
POSITIVE = NO_NUMBERS, (math.nan, math.inf, 0, -1)
NOT_NEGATIVE = NO_NUMBERS, (math.nan, math.inf, -1)
SHARE = NO_NUMBERS, (math.nan, math.inf, 0, 1, -0.5)  # in (0, 1)
PART = NO_NUMBERS, (math.nan, math.inf, 0, 1.5, -0.5)  # in (0, 1]
COUNT = NO_INTEGERS, (0, -1)
INDEX = NO_INTEGERS, (-1,)
RIDGE = (True, None, 1j), ("a", [1.0], math.nan, math.inf, -1)  # "auto" and lists are others


def optional(kind):
    """The same, of a parameter that may be None."""
    types, values = kind
    return tuple(value for value in types if value is not None), values


SHARE_OR_NONE = NO_NUMBERS, (math.nan, math.inf, 1, -0.5)  # in [0, 1)
BUDGET = "epsilon 0.5 POSITIVE, delta 1e-6 SHARE"
PURE_BUDGET = "epsilon 0.5 NOT_NEGATIVE, delta 1e-6 SHARE"
TABLE = np.random.default_rng(1).uniform(-1, 1, (500, 3))
MOMENT = pg.second_moment(TABLE, 2.0)
RELEASE = make_release(TABLE.T @ TABLE, "aby", n_rows=500)
FIT = RELEASE.regress("y")
SMALL = np.random.default_rng(2).standard_normal((12, 9))
COMPRESSED = compress(TABLE, 1000, np.eye(TABLE.shape[1]), 4.0, np.random.default_rng(3))
SCALED = replace(COMPRESSED, public_scales=True, delta_max=0.1, threshold=2.0)
CASE = audit.Case(pg.AnalyzeGauss(), "replace")

#: Functions; of each, `parameters.txt` has the parameters, with a value that each takes and the
#: name of others that it refuses. After a ? it also takes None.
CALLS = {
    "SecondMoment": pg.SecondMoment,
    "second_moment": partial(pg.second_moment, TABLE),
    "Unit of a bound": partial(pg.Unit, "id"),
    "Unit of rows": partial(pg.Unit, "id"),
    "PrivateBound": pg.PrivateBound,
    "AnalyzeGauss.calibrate": pg.AnalyzeGauss().calibrate,
    "release": partial(pg.release, MOMENT, mechanism=pg.AnalyzeGauss()),
    "AdditiveWishart": pg.AdditiveWishart,
    "MatrixLaplace": pg.MatrixLaplace,
    "GaussianSketch": GaussianSketch,
    "InverseWishart": InverseWishart,
    "InverseGauss": InverseGauss,
    "Release.regress": partial(RELEASE.regress, "y"),
    "Release.pca": RELEASE.pca,
    "pca": partial(multivariate.pca, RELEASE),
    "OLSResults.conf_int": FIT.conf_int,
    "OLSResults.summary": FIT.summary,
    "compress": partial(compress, TABLE),
    "Compressed.pca": COMPRESSED.pca,
    "Compressed.alpha": COMPRESSED.alpha,
    "Compressed.profile": SCALED.profile,
    "lemma_4_5": zhou_ligett_wasserman.lemma_4_5,
    "proposition_3_4": partial(zhou_ligett_wasserman.proposition_3_4, [3.0, 2.0, 1.0]),
    "range_finder": partial(low_rank.range_finder, SMALL, 2, 2),
    "project": partial(low_rank.project, SMALL, np.eye(12, 4)),
    "approximate": partial(low_rank.approximate, SMALL),
    "low_rank.calibrate": partial(low_rank.calibrate, (12, 9)),
    "Calibration.expected_error": partial(
        low_rank.calibrate((12, 9), 2, 3, epsilon=0.5, delta=1e-6).expected_error, (12, 9)
    ),
    "prune": partial(low_rank.prune, SMALL),
    "coherence": partial(low_rank.coherence, SMALL),
    "Coherence.tail": low_rank.coherence(SMALL).tail,
    "halko_martinsson_tropp": partial(low_rank.halko_martinsson_tropp, SMALL),
    "randomised_response": partial(low_rank.randomised_response, SMALL),
    "LowRank.svd": low_rank.LowRank(SMALL[:, :3], SMALL[:3]).svd,
    "entry_limit": partial(low_rank.entry_limit, (12, 9)),
    "prune_level": partial(low_rank.prune_level, (12, 9)),
    "theorem_6_2": partial(low_rank.theorem_6_2, (12, 9)),
    "theorem_6_3": partial(low_rank.theorem_6_3, (12, 9)),
    "audit.measure": partial(audit.measure, CASE),
    "sheffet_theorem_3_2_rows": sheffet.theorem_3_2_rows,
    "sheffet_theorem_3_2": sheffet.theorem_3_2,
    "sheffet_theorem_c_1": sheffet.theorem_c_1,
    "sheffet_theorem_c_3": sheffet.theorem_c_3,
    "GaussianProfile": privacy.GaussianProfile,
    "BoundedRangeProfile": privacy.BoundedRangeProfile,
    "StatedProfile": privacy.StatedProfile,
    "ComposedProfile": partial(privacy.ComposedProfile, (privacy.GaussianProfile(0.5),)),
    "SketchProfile": sheffet.SketchProfile,
    "ChiGaussianProfile": hardt_roth.ChiGaussianProfile,
    "WishartProfile": sheffet.WishartProfile,
    "MatrixLaplaceProfile": privacy.MatrixLaplaceProfile,
    "AdaptiveSketchProfile": sheffet.AdaptiveSketchProfile,
    "gaussian_ratio": calibration.gaussian_ratio,
    "sketch_rows": sheffet.sketch_rows,
    "sketch_ratio": sheffet.sketch_ratio,
    "wishart_dof": sheffet.wishart_dof,
    "wishart_ratio": sheffet.wishart_ratio,
    "matrix_laplace_noise": calibration.matrix_laplace_noise,
    "wishart_noise": sheffet.wishart_noise,
    "adaptive_sketch": sheffet.adaptive_sketch,
    "chi_gaussian_ratio": hardt_roth.chi_gaussian_ratio,
    "chi_gaussian_offset": hardt_roth.chi_gaussian_offset,
    "theorem_3_1": sheffet.theorem_3_1,
    "theorem_b_1": sheffet.theorem_b_1,
    "corollary_b_2": sheffet.corollary_b_2,
    "algorithm_2": sheffet.algorithm_2,
    "theorem_5_1": sheffet.theorem_5_1,
    "algorithm_5": sheffet.algorithm_5,
    "theorem_b_4": sheffet.theorem_b_4,
    "sheffet_algorithm_2_rows": sheffet.algorithm_2_rows,
    "sheffet_theorem_4_1": sheffet.theorem_4_1,
    "sheffet_theorem_b_3": sheffet.theorem_b_3,
    "sheffet_lemma_a_3": sheffet.lemma_a_3,
    "sheffet_section_2": partial(sheffet.section_2, allow_published_erratum=True),
    "sheffet_analyze_gauss": partial(sheffet.analyze_gauss, allow_published_erratum=True),
    "sheffet_theorem_b_5": partial(sheffet.theorem_b_5, allow_published_erratum=True),
    "hardt_roth_theorem_2_6": partial(hardt_roth.theorem_2_6, allow_published_erratum=True),
    "hardt_roth_figure_2": partial(hardt_roth.figure_2, allow_published_erratum=True),
    "hardt_roth_figure_3": hardt_roth.figure_3,
    "zhou_procedure_4_1": zhou_ligett_wasserman.procedure_4_1,
}

LINES = Path(__file__).with_name("parameters.txt").read_text().splitlines()
PARAMETERS = dict(line.split(" | ") for line in LINES)


def read(call):
    """The function, and by each parameter's name what it takes and what it refuses."""
    text = PARAMETERS[call].replace("PURE_BUDGET", PURE_BUDGET).replace("BUDGET", BUDGET)
    parameters = {}
    for name, good, kind in map(str.split, text.split(", ")):
        refused = optional(globals()[kind[:-1]]) if kind.endswith("?") else globals()[kind]
        parameters[name] = ast.literal_eval(good), refused
    return CALLS[call], parameters


@pytest.mark.parametrize("call", CALLS | PARAMETERS)
def test_wrong_number_is_named(call):
    function, parameters = read(call)
    right = {other: good for other, (good, _) in parameters.items()}
    for name, (_, kind) in parameters.items():
        for error, values in zip((TypeError, ValueError), kind, strict=True):
            for value in values:
                with pytest.raises(error, match=rf"\b{name}\b.* must ") as caught:
                    function(**(right | {name: value}))
                assert caught.value.__cause__ is None, (name, value)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
def test_right_numbers_are_taken(call):
    """Or the test above might see an error of something else."""
    function, parameters = read(call)
    function(**{name: good for name, (good, _) in parameters.items()})
