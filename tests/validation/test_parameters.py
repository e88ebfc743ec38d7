"""Every numeric parameter of public functions: what is no number, or out of range, is named."""

import ast
import math
from dataclasses import replace
from functools import partial

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

#: Functions, and of each the parameters with a value that it takes and the name of others that it
#: refuses; after a ? it also takes None.
CASES = {
    "SecondMoment": (pg.SecondMoment, "n_columns 2 COUNT, bound 1.0 POSITIVE?"),
    "second_moment": (partial(pg.second_moment, TABLE), "bound 2.0 POSITIVE?, threads 1 COUNT?"),
    "Unit of a bound": (partial(pg.Unit, "id"), "bound 2.0 POSITIVE?"),
    "Unit of rows": (partial(pg.Unit, "id"), "max_rows 2 COUNT?"),
    "PrivateBound": (pg.PrivateBound, "epsilon 0.1 POSITIVE, quantile 0.9 SHARE?"),
    "AnalyzeGauss.calibrate": (
        pg.AnalyzeGauss().calibrate,
        "n_columns 3 COUNT, bound 1.0 POSITIVE, BUDGET, n_rows 10 INDEX?",
    ),
    "release": (partial(pg.release, MOMENT, mechanism=pg.AnalyzeGauss()), "BUDGET"),
    "AdditiveWishart": (pg.AdditiveWishart, "dof 30 POSITIVE?, scale 2.0 POSITIVE?"),
    "MatrixLaplace": (pg.MatrixLaplace, "dof 30 COUNT?"),
    "GaussianSketch": (GaussianSketch, "rows 30 COUNT"),
    "InverseWishart": (InverseWishart, "dof 30 POSITIVE?"),
    "InverseGauss": (InverseGauss, "eigenvalue_floor 30.0 POSITIVE"),
    "Release.regress": (partial(RELEASE.regress, "y"), "ridge 1.0 RIDGE"),
    "Release.pca": (RELEASE.pca, "n_components 2 COUNT?"),
    "pca": (partial(multivariate.pca, RELEASE), "alpha 0.1 SHARE"),
    "OLSResults.conf_int": (FIT.conf_int, "alpha 0.1 SHARE"),
    "OLSResults.summary": (FIT.summary, "alpha 0.1 SHARE"),
    "compress": (partial(compress, TABLE), "rows 60 COUNT, delta_max 1.0 NOT_NEGATIVE?"),
    "Compressed.pca": (COMPRESSED.pca, "n_components 2 COUNT?"),
    "Compressed.alpha": (
        COMPRESSED.alpha,
        "difference 0.1 NOT_NEGATIVE, lambda_min 1.0 POSITIVE, lambda_min_reference 1.0 "
        "POSITIVE, norm_reference 1.0 POSITIVE",
    ),
    "Compressed.profile": (SCALED.profile, "bound 1.0 POSITIVE, eigenvalue_floor 100.0 POSITIVE"),
    "lemma_4_5": (
        zhou_ligett_wasserman.lemma_4_5,
        "n_rows 100 COUNT, n_columns 3 COUNT, failure 0.1 SHARE",
    ),
    "proposition_3_4": (
        partial(zhou_ligett_wasserman.proposition_3_4, [3.0, 2.0, 1.0]),
        "n_components 1 COUNT, difference 0.1 NOT_NEGATIVE",
    ),
    "range_finder": (
        partial(low_rank.range_finder, SMALL, 2, 2),
        "BUDGET, row_change 1.0 POSITIVE",
    ),
    "project": (partial(low_rank.project, SMALL, np.eye(12, 4)), "BUDGET, row_change 1.0 POSITIVE"),
    "approximate": (
        partial(low_rank.approximate, SMALL),
        "rank 2 COUNT, oversample 2 COUNT?, prune 0.5 PART?, BUDGET, leverage 0.5 PART?",
    ),
    "low_rank.calibrate": (
        partial(low_rank.calibrate, (12, 9)),
        "rank 2 COUNT, oversample 2 COUNT?, BUDGET, row_change 1.0 POSITIVE, leverage 0.5 PART?",
    ),
    "Calibration.expected_error": (
        partial(low_rank.calibrate((12, 9), 2, 3, epsilon=0.5, delta=1e-6).expected_error, (12, 9)),
        "rank 2 COUNT, tail 1.0 NOT_NEGATIVE, leverage 0.5 PART",
    ),
    "prune": (partial(low_rank.prune, SMALL), "level 0.5 PART"),
    "coherence": (partial(low_rank.coherence, SMALL), "rank 2 COUNT?"),
    "Coherence.tail": (low_rank.coherence(SMALL).tail, "rank 2 INDEX"),
    "halko_martinsson_tropp": (
        partial(low_rank.halko_martinsson_tropp, SMALL),
        "rank 2 COUNT, oversample 2 COUNT?, iterations 0 INDEX",
    ),
    "randomised_response": (
        partial(low_rank.randomised_response, SMALL),
        "rank 2 COUNT, BUDGET, row_change 1.0 POSITIVE, iterations 0 INDEX",
    ),
    "LowRank.svd": (low_rank.LowRank(SMALL[:, :3], SMALL[:3]).svd, "rank 2 COUNT?"),
    "entry_limit": (partial(low_rank.entry_limit, (12, 9)), "row_change 1.0 POSITIVE"),
    "prune_level": (
        partial(low_rank.prune_level, (12, 9)),
        "k 4 COUNT, C 1.5 NOT_NEGATIVE, frobenius 9.0 NOT_NEGATIVE, BUDGET",
    ),
    "theorem_6_2": (
        partial(low_rank.theorem_6_2, (12, 9)),
        "rank 2 COUNT, oversample 2 COUNT?, C 1.5 NOT_NEGATIVE, frobenius 9.0 NOT_NEGATIVE, "
        "tail 1.0 NOT_NEGATIVE, BUDGET",
    ),
    "theorem_6_3": (
        partial(low_rank.theorem_6_3, (12, 9)),
        "rank 2 COUNT, oversample 2 COUNT?, mu0 1.5 NUMBER, matrix_rank 9 INDEX, tail 1.0 "
        "NOT_NEGATIVE, BUDGET",
    ),
    "audit.measure": (
        partial(audit.measure, CASE),
        "draws 10 COUNT, confidence 0.9 SHARE, seed 0 INDEX, processes 1 COUNT",
    ),
    "sheffet_theorem_3_2_rows": (
        sheffet.theorem_3_2_rows,
        "n_columns 3 COUNT, accuracy 0.1 POSITIVE, failure 0.1 SHARE, constant 1.0 POSITIVE",
    ),
    "sheffet_theorem_3_2": (
        sheffet.theorem_3_2,
        "accuracy 0.1 POSITIVE, regulariser 1.0 NOT_NEGATIVE, smallest_eigenvalue 1.0 "
        "NOT_NEGATIVE, residual 1.0 NOT_NEGATIVE",
    ),
    "sheffet_theorem_c_1": (
        sheffet.theorem_c_1,
        "coef_norm 1.0 NOT_NEGATIVE, smallest_eigenvalue 1e6 POSITIVE, noise_std 1.0 "
        "POSITIVE, n_features 3 COUNT, failure 0.1 SHARE, constant 1.0 POSITIVE",
    ),
    "sheffet_theorem_c_3": (
        sheffet.theorem_c_3,
        "coef_norm 1.0 NOT_NEGATIVE, smallest_eigenvalue 1e6 POSITIVE, scale 1.0 POSITIVE, "
        "dof 30.0 POSITIVE, n_features 3 COUNT, failure 0.1 SHARE",
    ),
    "GaussianProfile": (privacy.GaussianProfile, "sensitivity_ratio 0.5 POSITIVE"),
    "BoundedRangeProfile": (privacy.BoundedRangeProfile, "at_epsilon 0.5 POSITIVE"),
    "StatedProfile": (privacy.StatedProfile, "at_epsilon 0.5 POSITIVE, at_delta 0.1 NUMBER"),
    "ComposedProfile": (
        partial(privacy.ComposedProfile, (privacy.GaussianProfile(0.5),)),
        "discretization 1e-3 POSITIVE",
    ),
    "SketchProfile": (sheffet.SketchProfile, "rows 30 POSITIVE, ratio 0.5 POSITIVE"),
    "ChiGaussianProfile": (
        hardt_roth.ChiGaussianProfile,
        "k 30 POSITIVE, ratio 0.5 POSITIVE, offset 0.5 NOT_NEGATIVE",
    ),
    "WishartProfile": (
        sheffet.WishartProfile,
        "dof 30 POSITIVE, n_columns 3 COUNT, ratio 0.5 POSITIVE",
    ),
    "MatrixLaplaceProfile": (
        privacy.MatrixLaplaceProfile,
        "dof 30 POSITIVE, n_columns 3 COUNT, ratio 0.5 POSITIVE",
    ),
    "AdaptiveSketchProfile": (
        sheffet.AdaptiveSketchProfile,
        "rows 30 POSITIVE, regulariser 9.0 POSITIVE, shift 1.0 NOT_NEGATIVE, scale 1.0 POSITIVE",
    ),
    "gaussian_ratio": (calibration.gaussian_ratio, "PURE_BUDGET"),
    "sketch_rows": (sheffet.sketch_rows, "ratio 0.001 POSITIVE, PURE_BUDGET"),
    "sketch_ratio": (sheffet.sketch_ratio, "rows 30 POSITIVE, PURE_BUDGET"),
    "wishart_dof": (sheffet.wishart_dof, "n_columns 3 COUNT, ratio 1.0 POSITIVE, PURE_BUDGET"),
    "wishart_ratio": (
        sheffet.wishart_ratio,
        "n_columns 3 COUNT, dof 300 POSITIVE, PURE_BUDGET",
    ),
    "matrix_laplace_noise": (
        calibration.matrix_laplace_noise,
        "n_columns 3 COUNT, epsilon 0.5 NOT_NEGATIVE, delta 1e-6 SHARE_OR_NONE",
    ),
    "wishart_noise": (sheffet.wishart_noise, "n_columns 3 COUNT, PURE_BUDGET"),
    "adaptive_sketch": (sheffet.adaptive_sketch, "rows 30 POSITIVE, PURE_BUDGET"),
    "chi_gaussian_ratio": (hardt_roth.chi_gaussian_ratio, "k 30 POSITIVE, PURE_BUDGET"),
    "chi_gaussian_offset": (
        hardt_roth.chi_gaussian_offset,
        "k 30 POSITIVE, ratio 0.01 POSITIVE, PURE_BUDGET",
    ),
    "theorem_3_1": (
        sheffet.theorem_3_1,
        "rows 30 COUNT, n_columns 3 COUNT?, bound 1.0 POSITIVE, BUDGET",
    ),
    "theorem_b_1": (
        sheffet.theorem_b_1,
        "rows 30 COUNT, n_columns 3 COUNT?, bound 1.0 POSITIVE, BUDGET",
    ),
    "corollary_b_2": (sheffet.corollary_b_2, "rows 300 COUNT, bound 1.0 POSITIVE, BUDGET"),
    "algorithm_2": (sheffet.algorithm_2, "rows 30 COUNT, bound 1.0 POSITIVE, BUDGET"),
    "theorem_5_1": (
        sheffet.theorem_5_1,
        "dof 30 COUNT, n_columns 3 COUNT?, bound 1.0 POSITIVE, BUDGET",
    ),
    "algorithm_5": (sheffet.algorithm_5, "dof 30 COUNT, bound 1.0 POSITIVE, BUDGET"),
    "theorem_b_4": (
        sheffet.theorem_b_4,
        "dof 30 COUNT, n_columns 3 COUNT?, bound 1.0 POSITIVE, BUDGET",
    ),
    "sheffet_algorithm_2_rows": (
        sheffet.algorithm_2_rows,
        "s 1e4 NUMBER, bound 1.0 POSITIVE, BUDGET",
    ),
    "sheffet_theorem_4_1": (sheffet.theorem_4_1, "n_columns 3 COUNT, BUDGET"),
    "sheffet_theorem_b_3": (
        sheffet.theorem_b_3,
        "n_columns 3 COUNT, scale 1.0 POSITIVE, bound 1.0 POSITIVE, BUDGET",
    ),
    "sheffet_lemma_a_3": (
        sheffet.lemma_a_3,
        "dof 300 COUNT, n_columns 3 COUNT, bound 1.0 POSITIVE, delta 1e-6 SHARE",
    ),
    "sheffet_section_2": (
        partial(sheffet.section_2, allow_published_erratum=True),
        "bound 1.0 POSITIVE, BUDGET",
    ),
    "sheffet_analyze_gauss": (
        partial(sheffet.analyze_gauss, allow_published_erratum=True),
        "bound 1.0 POSITIVE, BUDGET",
    ),
    "sheffet_theorem_b_5": (
        partial(sheffet.theorem_b_5, allow_published_erratum=True),
        "rho 1.0 POSITIVE, bound 1.0 POSITIVE, BUDGET",
    ),
    "hardt_roth_theorem_2_6": (
        partial(hardt_roth.theorem_2_6, allow_published_erratum=True),
        "sensitivity 1.0 POSITIVE, BUDGET",
    ),
    "hardt_roth_figure_2": (
        partial(hardt_roth.figure_2, allow_published_erratum=True),
        "k 4 COUNT, BUDGET",
    ),
    "hardt_roth_figure_3": (hardt_roth.figure_3, "k 4 COUNT, BUDGET"),
    "zhou_procedure_4_1": (
        zhou_ligett_wasserman.procedure_4_1,
        "rows 1000 COUNT, n_rows 500 COUNT, n_columns 3 COUNT, delta_max 0.1 NOT_NEGATIVE",
    ),
}


def read(call):
    """The function, and by each parameter's name what it takes and what it refuses."""
    function, text = CASES[call]
    text = text.replace("PURE_BUDGET", PURE_BUDGET).replace("BUDGET", BUDGET)
    parameters = {}
    for name, good, kind in map(str.split, text.split(", ")):
        refused = optional(globals()[kind[:-1]]) if kind.endswith("?") else globals()[kind]
        parameters[name] = ast.literal_eval(good), refused
    return function, parameters


@pytest.mark.parametrize("call", CASES)
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
@pytest.mark.parametrize("call", CASES)
def test_right_numbers_are_taken(call):
    """Or the test above might see an error of something else."""
    function, parameters = read(call)
    function(**{name: good for name, (good, _) in parameters.items()})
