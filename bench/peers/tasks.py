"""The tables and the measures of error. Bounds are public: none is taken from the data."""

from __future__ import annotations

import numpy as np

D = 20
COMPONENTS = 3
NORM = 2.0


def regression_table(n: int) -> np.ndarray:
    """20 correlated features and a target within [-1, 1]: with an intercept, 22 columns."""
    rng = np.random.default_rng(n)
    mixing = np.eye(D) + 0.5 * rng.standard_normal((D, D)) / np.sqrt(D)
    x = np.clip(0.35 * rng.standard_normal((n, D)) @ mixing, -1, 1)
    coef = rng.standard_normal(D) / np.sqrt(D)
    y = 0.1 + 0.6 * x @ coef + 0.1 * rng.standard_normal(n)
    return np.column_stack([x, np.clip(y, -1, 1)])


def pca_table(n: int, d: int = D) -> np.ndarray:
    """Columns about a public centre, three strong directions, rows of norm at most `NORM`."""
    rng = np.random.default_rng(n + 1)
    spread = np.array([0.5, 0.4, 0.3, *np.linspace(0.15, 0.05, d - COMPONENTS)])
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    x = (spread * rng.standard_normal((n, d))) @ turn
    norms = np.linalg.norm(x, axis=1)
    x *= np.minimum(1, NORM * (1 - 1e-9) / norms)[:, None]
    return x


def shifted_table(n: int, d: int) -> tuple[np.ndarray, float, float]:
    """The same about a mean that is not public: with its length, and a bound of every entry."""
    shift = np.linspace(-0.3, 0.3, d)
    return pca_table(n, d) + shift, float(np.linalg.norm(shift)), 2.0


def flights(names: list[str]) -> tuple[np.ndarray, list[float], list[float]]:
    """Complete rows of the flights of `privgram demo`, clamped to its public bounds."""
    from privgram.cli.demo import BOUNDS, load_flights

    table = load_flights().select(names).drop_null()
    x = np.column_stack([table[name].to_numpy().astype(float) for name in names])
    lower, upper = (np.array([BOUNDS[name][side] for name in names]) for side in (0, 1))
    return np.clip(x, lower, upper), lower.tolist(), upper.tolist()


def least_squares(table: np.ndarray) -> np.ndarray:
    """Slopes and the intercept, last."""
    x = np.column_stack([table[:, :-1], np.ones(len(table))])
    return np.linalg.lstsq(x, table[:, -1])[0]


class RegressionError:
    """How far slopes are from least squares, each in units of its feature's range, and R^2."""

    def __init__(self, table: np.ndarray, lower: list[float], upper: list[float]) -> None:
        self.width = np.subtract(upper, lower)[:-1]
        self.truth = least_squares(table)
        x = np.column_stack([table, np.ones(len(table))])
        self.gram, self.n = x.T @ x, len(table)

    def __call__(self, coef: list[float]) -> tuple[float, float]:
        """Relative error of the slopes, and R^2 on the table itself."""
        slopes, truth = np.array(coef[:-1]), self.truth[:-1]
        error = np.linalg.norm((slopes - truth) * self.width) / np.linalg.norm(truth * self.width)
        contrast = np.array([*slopes, -1.0, coef[-1]])
        y_mean = self.gram[-2, -1] / self.n
        total = self.gram[-2, -2] / self.n - y_mean**2
        return float(error), float(1 - contrast @ self.gram @ contrast / self.n / total)


class PCAError:
    """Part of the variance that the best subspace holds and this one does not."""

    def __init__(self, table: np.ndarray) -> None:
        self.gram = table.T @ table
        self.best = float(np.linalg.eigvalsh(self.gram)[::-1][:COMPONENTS].sum())

    def __call__(self, components: list[list[float]]) -> float:
        """1 - captured variance over the best there is."""
        v = np.linalg.qr(np.array(components).T)[0]
        return 1 - float(np.trace(v.T @ self.gram @ v)) / self.best
