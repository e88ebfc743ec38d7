"""Reads a saved release with json and NumPy alone, and computes a regression of it."""

import hashlib
import json

import numpy as np


def read(path):
    with open(path, encoding="utf-8") as file:
        saved = json.load(file)
    assert (saved["format"], saved["version"]) == ("privgram-release", 2)
    release = saved["release"]
    arrays = {key: np.array(release.pop(key)) for key in ("matrix", "sketch") if key in release}
    total = hashlib.sha256(json.dumps(release, sort_keys=True).encode())
    for name, array in arrays.items():
        total.update(f"{name} {array.shape} ".encode() + array.astype("<f8").tobytes())
    assert total.hexdigest() == saved["sha256"], "damaged"
    is_saved = np.ones((len(release["names"]),) * 2, bool)
    for block in release.get("zeros", []):
        is_saved[np.ix_(block, block)] = np.eye(len(block))
    matrix = np.zeros(is_saved.shape)
    matrix[is_saved] = arrays["matrix"].reshape(-1)
    return release | arrays | {"matrix": matrix}


def of_entries(law, d):
    """The shift, and the covariance of X N v, of noise that is added to the entries."""
    ties, blocks = law.get("ties", []), []
    while "base" in law:
        law, blocks = law["base"], law.get("blocks", [])
    if law["law"] == "EntryLaw":
        variances = np.array(law["variances"])
    else:
        variances = np.full((d, d), law["std"] ** 2)
        np.fill_diagonal(variances, law["std_diagonal"] ** 2)
    for block in blocks:
        at = np.ix_(block, block)
        variances[at] = np.diag(variances[at].diagonal())
    i, j = np.triu_indices(d)
    std = np.sqrt(variances[i, j])
    equations = np.zeros((len(ties), d, d))
    for equation, tie in zip(equations, ties, strict=True):
        for a, b, c in tie:
            equation[a, b] = c
    equations = equations[:, i, j] * std

    def covariance(X, v):
        forms = (X[:, i] * v[j] + np.where(i < j, X[:, j] * v[i], 0.0)) * std
        forms = forms - forms @ np.linalg.pinv(equations) @ equations
        return forms @ forms.T

    return law.get("added", 0.0) * np.eye(d), covariance


def of_law(law, M):
    """The shift E[M] - G, and what gives the covariance of X N v for rows X and a vector v."""
    d, ones = len(M), np.eye(len(M))

    def isotropic(size):
        return lambda X, v: size * (v @ v * X @ X.T + np.outer(X @ v, X @ v))

    if law["law"] == "ImageLaw":
        L = np.array(law["frame"])
        inverse = np.linalg.pinv(L)
        shift, covariance = of_law(law["base"], inverse @ M @ inverse.T)
        return L @ shift @ L.T, lambda X, v: covariance(X @ L, L.T @ v)
    if law["law"] == "WishartLaw":
        shift = law["scale"] * law["dof"] - law["subtracted"]
        return shift * ones, isotropic(law["dof"] * law["scale"] ** 2)
    if law["law"] == "MatrixLaplaceLaw":
        return 0.0 * ones, isotropic(2 * law["dof"] * law["scale"] ** 2)
    if law["law"] == "InverseGaussianLaw":
        _, covariance = of_entries(law | {"added": 0.0}, d)
        return 0.0 * ones, lambda X, v: covariance(X @ M, M @ v)
    if law["law"] in ("SketchLaw", "InverseWishartLaw"):
        a = b = 1 / law.get("rows", np.inf)
        if "dof" in law:
            m = law["dof"] - d
            a, b = (m - 1) / (m * (m - 3)), (m + 1) / (m * (m - 3))
        return law[
            "regulariser"
        ] * ones, lambda X, v: a * (v @ M @ v) * X @ M @ X.T + b * np.outer(X @ M @ v, X @ M @ v)
    return of_entries(law, d)


def regress(release, target, features):
    """Coefficients and standard errors in own units, the intercept's last if there is one."""
    M, own = release["matrix"], release["derived"]
    ones = [] if own["ones"] is None else [np.array(own["ones"])]
    rows = []  # the variables as combinations of the columns
    for at in map(release["names"].index, [*features, target]):
        row = own["half_width"][at] * np.eye(len(M))[at]
        rows.append(row + own["center"][at] * ones[0] if ones else row)
    X, y = np.array(rows[:-1] + ones), rows[-1]
    shift, covariance = of_law(release["noise"], M)
    G, p = M - shift, len(X)
    inverse = np.linalg.inv(X @ G @ X.T)
    v = y - inverse @ (X @ G @ y) @ X
    noise = covariance(X, v)
    variance = max(v @ G @ v + np.trace(inverse @ noise), 0.0) / (own["rows"] - p)
    errors = np.sqrt(np.diag(variance * inverse + inverse @ noise @ inverse))
    return np.linalg.solve(X @ M @ X.T, X @ M @ y), errors
