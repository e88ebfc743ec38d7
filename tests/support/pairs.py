"""Delta of an arbitrary neighbouring pair, by routes the package does not take.

Tails come from scipy's distribution functions and are subtracted; whatever is left is
integrated by plain Gauss-Legendre rules. Good to about 1e-8 where delta is not tiny.
"""

import numpy as np
from scipy import special, stats


def rule(low, high, n):
    """Nodes and weights of Gauss-Legendre on [low, high], arrays on a new last axis."""
    x, w = special.roots_legendre(n)
    low, high = np.asarray(low)[..., None], np.asarray(high)[..., None]
    return low + (high - low) * (x + 1) / 2, (high - low) * w / 2


def scaled_normals(epsilon, t, rows):
    """Hockey-stick divergence of N(0, t)^rows from N(0, 1)^rows, elementwise in epsilon."""
    epsilon = np.asarray(epsilon, dtype=float)
    if t == 1.0:
        return np.maximum(-np.expm1(epsilon), 0.0)
    # The loss at |x|^2 = y is (1 - 1/t) y / 2 - (rows / 2) ln t.
    y = (epsilon + rows / 2 * np.log(t)) / ((1 - 1 / t) / 2)
    y = np.maximum(y, 0.0)
    tail = stats.chi2.sf if t > 1 else stats.chi2.cdf
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.exp(np.minimum(epsilon, 700.0)) * tail(y, rows)
        return np.where(epsilon > 600.0, 0.0, np.maximum(tail(y / t, rows) - other, 0.0))


def sketch_delta(epsilon, first, second, rows):
    """Delta of `rows` draws of N(0, first) from as many of N(0, second), up to rank 2."""
    t = np.real(np.linalg.eigvals(np.linalg.solve(second, first)))
    t = t[np.argsort(-np.abs(np.log(t)))]
    assert np.all(np.abs(np.log(t[2:])) < 1e-9)
    t1, t2 = [*t, 1.0][:2]
    if abs(np.log(t2)) < 1e-12:
        return float(scaled_normals(epsilon, t1, rows))
    # Integrate over |x_2|^2 / t2 ~ chi2, in its square root, smooth at 0.
    root, w = rule(0.0, np.sqrt(rows) + 9.0, 400)
    loss = (t2 - 1) * root**2 / 2 - rows / 2 * np.log(t2)
    inner = scaled_normals(epsilon - loss, t1, rows)
    # Negative epsilons: H_e(P|Q) for e < 0 is what scaled_normals gives, as everything counts.
    return float(np.sum(w * stats.chi.pdf(root, rows) * inner))


def wishart_delta(epsilon, mu1, mu2, m, n=(64, 40, 48)):
    r"""Delta of W + mu1 E_11 from W + mu2 E_22, W ~ W_2(I, m), m > 3.

    Bartlett: under the first, x_11 = mu1 + g + f, x_22 = y, x_12^2 = f y with g, y, f
    independent chi-squared of m - 1, m and 1 degrees of freedom, and

        loss = q ln(g / (xi (1 - eta / y))) + (mu1 - mu2) / 2,
        xi = mu1 + g, eta = mu2 (1 + f / xi), q = (m - 3) / 2,

    infinite for y < eta and falling in y. With w = ln y, ln g and sqrt(f) as variables.
    """
    q = (m - 3) / 2

    def chi2_nodes(df, count):
        # ln chi2 on all but 1e-18 of its mass.
        low, high = stats.gamma.ppf([1e-18], df / 2), stats.gamma.isf([1e-18], df / 2)
        v, w = rule(np.log(2 * low[0]), np.log(2 * high[0]), count)
        return np.exp(v), w * np.exp(v) * stats.chi2.pdf(np.exp(v), df)

    g, wg = chi2_nodes(m - 1, n[0])
    root, wf = rule(0.0, 9.0, n[1])
    f, wf = root**2, wf * 2 * stats.norm.pdf(root)
    g, f = g[:, None], f[None, :]
    xi = mu1 + g
    eta = mu2 * (1 + f / xi)
    # Loss > epsilon where 1 - eta / y < c.
    log_c = ((mu1 - mu2) / 2 - epsilon) / q + np.log(g / xi)
    with np.errstate(divide="ignore", invalid="ignore"):
        y_star = np.where(log_c < 0, eta / -np.expm1(log_c), np.inf)
    top = 2 * stats.gamma.isf(1e-18, m / 2)
    bottom = 2 * stats.gamma.ppf(1e-18, m / 2)
    high = np.clip(y_star, None, np.maximum(top, eta * 1.0000001))
    low = np.maximum(np.minimum(eta, high), np.minimum(bottom, high))
    # y = eta + (high - eta) t^4: a power of y - eta is smooth in t.
    span = np.maximum(high - eta, 0.0)
    start = np.where(span > 0, np.maximum((low - eta) / np.where(span > 0, span, 1), 0), 0) ** 0.25
    t, w = rule(start, np.ones_like(start), n[2])
    y = eta[..., None] + span[..., None] * t**4
    density = stats.chi2.pdf(y, m) * span[..., None] * 4 * t**3
    with np.errstate(divide="ignore"):
        log_ratio = q * (np.log1p(-eta[..., None] / y) - log_c[..., None])
    inside = np.sum(w * density * -np.expm1(np.minimum(log_ratio, 0.0)), axis=-1)
    value = stats.chi2.cdf(np.minimum(eta, high), m) + inside
    return float(np.sum(wg[:, None] * wf * value))
