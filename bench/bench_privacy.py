"""Privacy profiles and calibration: times, and accuracy where a value is known.

The aims: a delta of a closed form in 1 ms, of a two-dimensional one in 10 ms, a calibration
in 50 ms.
"""

from privgram import privacy
from privgram.papers import hardt_roth, sheffet
from privgram.privacy import calibration

PROFILES = {
    "gaussian": privacy.GaussianProfile(0.3),
    "laplace": privacy.LaplaceProfile(0.3),
    "sketch, add-remove": sheffet.SketchProfile(1000, 0.03, "add-remove"),
    "sketch, replace": sheffet.SketchProfile(1000, 0.03),
    "sketch, replace, 1 row": sheffet.SketchProfile(1, 0.5),
    "sketch, replace, 1e9 rows": sheffet.SketchProfile(10**9, 3e-5),
    "wishart, add-remove": privacy.WishartProfile(300, 22, 2.0, "add-remove"),
    "wishart, replace": privacy.WishartProfile(300, 22, 2.0),
    "wishart, replace, 1e9 dof": privacy.WishartProfile(10**9, 5000, 1e4),
    "adaptive, add-remove": sheffet.AdaptiveSketchProfile(100, 47.0, 20.0, 3.0, "add-remove"),
    "adaptive, replace": sheffet.AdaptiveSketchProfile(100, 47.0, 20.0, 3.5),
    "adaptive, replace, 1 row": sheffet.AdaptiveSketchProfile(1, 13.0, 12.0, 1.7),
}

CALIBRATIONS = {
    "gaussian_ratio": lambda d, a: calibration.gaussian_ratio(1.0, 1e-6),
    "chi_gaussian_ratio": lambda d, a: hardt_roth.chi_gaussian_ratio(d, 1.0, 1e-6),
    "sketch_ratio": lambda d, a: sheffet.sketch_ratio(d, 1.0, 1e-6, a),
    "sketch_rows": lambda d, a: sheffet.sketch_rows(0.01, 1.0, 1e-6, a),
    "wishart_ratio": lambda d, a: calibration.wishart_ratio(d, 2 * d, 1.0, 1e-6, a),
    "wishart_dof": lambda d, a: calibration.wishart_dof(d, 1.0, 1.0, 1e-6, a),
    "wishart_noise": lambda d, a: calibration.wishart_noise(d, 1.0, 1e-6, a),
    "adaptive_sketch": lambda d, a: sheffet.adaptive_sketch(d, 1.0, 1e-6, a),
}


class Delta:
    """One delta, and the epsilon of one delta."""

    params = tuple(PROFILES)
    param_names = ("profile",)

    def setup(self, profile):
        self.profile = PROFILES[profile]
        self.profile.delta(1.0)

    def time_delta(self, _):
        self.profile.delta(1.0)

    def time_epsilon(self, _):
        self.profile.epsilon(1e-6)


class Calibrate:
    """A calibration, root-finding included."""

    params = (tuple(CALIBRATIONS), (22, 5000), ("replace", "add-remove"))
    param_names = ("function", "n_columns", "adjacency")

    def setup(self, function, n_columns, adjacency):
        self.call = CALIBRATIONS[function]
        self.call(n_columns, adjacency)

    def time_calibrate(self, _, n_columns, adjacency):
        self.call(n_columns, adjacency)


class Accuracy:
    """Relative error of a delta known from 60-digit arithmetic."""

    # Shape, ratio, epsilon, delta: see tests/privacy/data.
    def track_wishart_corner(self):
        # m' = 46, s = 4: the replace profile at (k, d) = (46, 2)
        return abs(privacy.WishartProfile(46, 2, 4.0).delta(2.0) / 0.001766756020971062 - 1)
