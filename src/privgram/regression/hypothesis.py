"""Linear hypotheses of the parameters, as text or as a matrix, and their tests."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._base.text import Printed, as_frame, as_text, shown
from privgram.regression.inference import SOME_OPEN, Equations, Inference, level_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from privgram._base.numbers import Matrix, Vector

#: What says which linear functions of the parameters are which numbers.
Hypothesis: TypeAlias = "str | Sequence[str] | ArrayLike | tuple[ArrayLike, ArrayLike]"

_NUMBER = r"\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"

#: Squares of the numbers of a hypothesis, times those of a release, must stay a float64.
MOST_NUMBER = 1e100


def restrictions(
    hypothesis: Hypothesis, names: Sequence[str], terms: Mapping[str, slice]
) -> tuple[tuple[str, ...], Matrix, Vector]:
    """What a hypothesis says of m parameters: in words, and as R (k, m) and r (k,), R params = r.

    ``"depth, table"`` says that both are 0, ``"depth = 2 * table, depth = 1"`` what is
    written. A name is a parameter's or, alone, that of a term, all of whose coefficients are
    then 0. An array-like of shape (k, m) is R, and a tuple is (R, r).
    """
    texts = [hypothesis] if isinstance(hypothesis, str) else hypothesis
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(t, str) for t in texts):
        words, matrix, values = _read([str(text) for text in texts], names, terms)
    else:
        words, matrix, values = _of_matrix(hypothesis, len(names))
    check_numbers(matrix)
    check_numbers(values)
    return words, matrix, values


def check_numbers(numbers: Matrix | Vector) -> None:
    """Raise ValueError unless the numbers of a hypothesis are of a size to compute with."""
    largest = float(np.abs(numbers).max())
    if not largest <= MOST_NUMBER:  # also if it is NaN
        raise ValueError(
            f"a hypothesis has numbers up to {MOST_NUMBER:g} in size, not {largest:.3g}: measure "
            "in another unit"
        )


def _of_matrix(hypothesis: Hypothesis, size: int) -> tuple[tuple[str, ...], Matrix, Vector]:
    neither = (
        "a hypothesis is a text such as 'depth, table' or 'depth = 2 * table', or an array with a "
        f"row of {size} numbers, not all zero, for each restriction, as param_names has them, or a "
        "tuple of such an array and what its rows are to give"
    )
    try:
        matrix, values = hypothesis if isinstance(hypothesis, tuple) else (hypothesis, 0.0)
        matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), len(matrix))
    except (TypeError, ValueError):
        raise ValueError(neither) from None
    sound = len(matrix) and np.isfinite(matrix).all() and np.isfinite(values).all()
    if not sound or matrix.ndim != 2 or matrix.shape[1] != size or not matrix.any(axis=1).all():
        raise ValueError(neither)
    return tuple(f"restriction {i} = {r:g}" for i, r in enumerate(values)), matrix, values


#: Words of an equation: each may nest the tree it is read from, and Python recurses 1,000 deep.
MOST_WORDS = 800


def _read(
    texts: Sequence[str], names: Sequence[str], terms: Mapping[str, slice]
) -> tuple[tuple[str, ...], Matrix, Vector]:
    equations: list[str] = []
    rows: list[Vector] = []
    for text in texts:
        for part in _parts(text, names, terms):
            if len(part) == 1 and part[0] in terms and part[0] not in names:
                for i in range(*terms[part[0]].indices(len(names))):
                    equations.append(f"{names[i]} = 0")
                    rows.append(np.eye(len(names) + 1)[i])
                continue
            try:
                sides = _sides(part, list(names))
            except (SyntaxError, ValueError):
                raise ValueError(
                    f"{shown(text)} is not a linear equation of the parameters: write one as in "
                    "'x1 = x2, 2*x3 = 1'"
                ) from None
            with np.errstate(all="ignore"):
                rows += [left - right for left, right in pairwise(sides)]
            words = " ".join(part)
            equations += [words if "=" in part else f"{words} = 0"] * (len(sides) - 1)
    stacked = np.array(rows)
    if not stacked.size or not stacked[:, :-1].any(axis=1).all():
        raise ValueError(
            f"{shown(', '.join(texts))} says nothing of the parameters: name one of them"
        )
    return tuple(equations), stacked[:, :-1], -stacked[:, -1]


def _parts(text: str, names: Sequence[str], terms: Mapping[str, slice]) -> list[list[str]]:
    """The words of each restriction: names first, however they look, the longest first."""
    known = [*names, *terms]
    # As others write the level of a factor that is compared with its reference.
    if not any("[T." in name for name in known):
        text = text.replace("[T.", "[")
    longest = sorted(map(re.escape, known), key=len, reverse=True)
    pattern = re.compile(rf"\s*({'|'.join([*longest, _NUMBER, '[-+*/=(),]'])})\s*")
    parts: list[list[str]] = [[]]
    place = 0
    while place < len(text):
        match = pattern.match(text, place)
        if match is None:
            word = re.search(r"[^-+*/=(),\s]*$", text[:place])
            start = place if word is None else word.start()
            raise ValueError(
                f"{shown(text[start:].strip())} is not understood: the names are "
                f"{', '.join(map(shown, dict.fromkeys(known)))}"
            )
        place = match.end()
        if match[1] == ",":
            parts.append([])
        else:
            parts[-1].append(match[1])
    return parts


def _sides(words: list[str], names: list[str]) -> list[Vector]:
    """The sides of one equation or of a chain of them; 0 is the right one where none is.

    Each is the coefficients of the m parameters and of 1. ValueError or SyntaxError for what is no
    linear equation, or far too long.
    """
    if len(words) > MOST_WORDS:
        raise ValueError("too long")
    unit = np.eye(len(names) + 1)

    def python(word: str) -> str:
        if word in names:
            return f"p{names.index(word)}"
        return word if word in "-+*/=()" else repr(float(word))

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Name(name) if name.startswith("p"):
                return unit[int(name[1:])]
            case ast.Constant(float(number)):
                return number * unit[-1]
            case ast.UnaryOp(sign, operand):
                return value(operand) if isinstance(sign, ast.UAdd) else -value(operand)
            case ast.BinOp(left, operation, right):
                a, b = value(left), value(right)
                match operation:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult() if not a[:-1].any():
                        return b * a[-1]
                    case ast.Mult() if not b[:-1].any():
                        return a * b[-1]
                    case ast.Div() if b[-1] and not b[:-1].any():
                        return a / b[-1]
        raise ValueError("not linear")

    sides = " ".join(map(python, words)).split("=")
    with np.errstate(all="ignore"):  # what is not finite is refused
        values = [value(ast.parse(side.strip(), mode="eval").body) for side in sides]
    return values if len(values) > 1 else [*values, np.zeros(len(names) + 1)]


#: Contrasts follow from others where singular values of theirs, scaled to length 1, are less.
_FOLLOWS = 1e-9


@dataclass(frozen=True, repr=False)
class WaldTest(Printed):
    """A test of a linear hypothesis, such as that some coefficients are all 0.

    Attributes
    ----------
    hypothesis : tuple of str
        The coefficients, or the equations.
    statistic : float
        F where `df_denom` is finite, else chi-squared with `df` degrees of freedom, under the
        hypothesis and to first order.
    df : int
    pvalue : float
    df_denom : float
        Degrees of freedom of the variance in `statistic`: those of the errors'. Infinite where the
        P value is that of chi-squared.
    """

    hypothesis: tuple[str, ...]
    statistic: float
    df: int
    pvalue: float
    df_denom: float = math.inf

    @property
    def fvalue(self) -> float:
        """F: chi-squared over its degrees of freedom."""
        return self.statistic if math.isfinite(self.df_denom) else self.statistic / self.df

    @property
    def df_num(self) -> int:
        """`df`, as statsmodels calls it in an F test."""
        return self.df

    def __str__(self) -> str:
        listed = ", ".join(self.hypothesis[:4])
        more = f" and {len(self.hypothesis) - 4} more" if len(self.hypothesis) > 4 else ""
        zero = "" if "=" in listed else " = 0"
        law = f"chi2({self.df})"
        if math.isfinite(self.df_denom):
            law = f"F({self.df}, {self.df_denom:.0f})"
        return f"{listed}{more}{zero}: {law} = {self.statistic:.4g}, p = {self.pvalue:.3g}"


@dataclass(frozen=True, eq=False, repr=False)
class Contrasts(Printed):
    """Tests of linear hypotheses, each by itself, under the names that statsmodels has."""

    hypothesis: tuple[str, ...]  # what is tested
    inference: Inference  # of the k linear functions
    value: Vector  # (k,), what they are tested to be

    @property
    def effect(self) -> Vector:
        """Estimates of the functions, shape (k,)."""
        return self.inference.estimate

    @property
    def sd(self) -> Vector:
        """Their standard errors."""
        return self.inference.stderr

    @property
    def _moved(self) -> Inference:
        """Of the functions less what they are tested to be."""
        return replace(self.inference, estimate=self.effect - self.value)

    @property
    def tvalue(self) -> Vector:
        """Statistics, shape (k,): Student's or normal."""
        return self._moved.statistic()

    #: By statsmodels' other name.
    statistic = tvalue

    @property
    def pvalue(self) -> Vector:
        """Two-sided P values, shape (k,)."""
        return self._moved.pvalues()

    @property
    def df_denom(self) -> Vector:
        """Degrees of freedom of Student's law, infinite where it is normal; shape (k,)."""
        return self.inference.df

    def conf_int(self, alpha: float = 0.05) -> Matrix:
        """Confidence intervals of the functions, shape (k, 2)."""
        return self.inference.intervals(level_of(alpha))

    def _columns(self, alpha: float) -> dict[str, Vector]:
        low, high = self.conf_int(alpha).T
        law, ends = self.inference.law, {"Conf. Int. Low": low, "Conf. Int. Upp.": high}
        tests = {"coef": self.effect, "std err": self.sd, law: self.tvalue}
        return tests | {f"P>|{law}|": self.pvalue} | ends

    def summary_frame(self, alpha: float = 0.05) -> DataFrame:
        """All of it as a data frame (needs pandas), with the columns that statsmodels has."""
        return as_frame(self._columns(alpha), [f"c{i}" for i in range(len(self.value))])

    def __str__(self) -> str:
        below = [SOME_OPEN] * bool(np.isinf(self.conf_int()).any())
        return as_text(self.hypothesis, self._columns(0.05), *below)


def wald(equations: Equations, contrasts: Matrix, offset: Vector) -> tuple[float, int]:
    """Statistic and degrees of freedom of the hypothesis contrasts @ theta + offset = 0, of k rows.

    The variance is taken at the nearest coefficients that obey the hypothesis, as for a single
    coefficient: the noise is in the features too, and depends on them. The equations are of a
    regression for which `privgram.regression.inference.infer` has offered inference.
    """
    inverse, theta = equations.inverse, equations.theta
    contrasts, offset = independent(contrasts, offset)
    value = contrasts @ theta + offset
    # The least change, in the metric of the features, that obeys.
    step = inverse @ contrasts.T @ np.linalg.solve(contrasts @ inverse @ contrasts.T, value)
    v = np.append(step - theta, 1.0)
    pulled = contrasts @ inverse
    gap = value + pulled @ (equations.second @ v)
    covariance = equations.sampling(pulled) + pulled @ equations.noise_at(v) @ pulled.T
    return float(gap @ np.linalg.solve(covariance, gap)), len(gap)


def independent(contrasts: Matrix, offset: Vector) -> tuple[Matrix, Vector]:
    """Orthonormal contrasts (r, p) of k that say the same, contrasts @ theta + offset = 0.

    Some may follow from others, in units of any size.
    """
    unit = np.linalg.norm(contrasts, axis=1)
    unit[unit == 0] = 1.0
    left, sizes, rows = np.linalg.svd(contrasts / unit[:, None], full_matrices=False)
    distinct = sizes > _FOLLOWS * sizes[0]
    return rows[distinct], left[:, distinct].T @ (offset / unit) / sizes[distinct]


def verdict(
    hypothesis: tuple[str, ...], statistic: float, df: int, df_denom: float = math.inf
) -> WaldTest:
    """The test of a hypothesis in words, with its P value: of chi-squared or, with `df_denom`, F.

    These are the degrees of freedom of the errors' variance. Noise, whose variance is known, takes
    none: so the test is wider than need be where there is much of it.
    """
    from scipy.special import chdtrc, fdtrc

    finite = math.isfinite(df_denom)
    pvalue = fdtrc(df, df_denom, statistic / df) if finite else chdtrc(df, statistic)
    return WaldTest(
        hypothesis, statistic / df if finite else statistic, df, float(pvalue), df_denom
    )
