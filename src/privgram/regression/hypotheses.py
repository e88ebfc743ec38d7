"""Linear hypotheses of the parameters, as text or as a matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from privgram._base.text import shown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privgram._base.arrays import Matrix, Vector


#: What says which linear functions of the parameters are which numbers.
Hypothesis: TypeAlias = "str | Sequence[str] | ArrayLike | tuple[ArrayLike, ArrayLike]"

_NUMBER = r"\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"


def restrictions(
    hypothesis: Hypothesis, names: Sequence[str], terms: Mapping[str, slice]
) -> tuple[tuple[str, ...], Matrix, Vector]:
    """What a hypothesis says of m parameters: in words, and as R (k, m) and r (k,), R params = r.

    ``"depth, table"`` says that both are 0, ``"depth = 2 * table, depth = 1"`` what is
    written. A name is a parameter's or, alone, that of a term, all of whose coefficients are
    then 0. An array-like of shape (k, m) is R, and a tuple is (R, r).
    """
    texts: Any = [hypothesis] if isinstance(hypothesis, str) else hypothesis
    if isinstance(texts, (list, tuple)) and texts and all(isinstance(t, str) for t in texts):
        return _read(texts, names, terms)
    return _of_matrix(hypothesis, len(names))


def _of_matrix(given: Any, size: int) -> tuple[tuple[str, ...], Matrix, Vector]:
    matrix, values = given if isinstance(given, tuple) else (given, 0.0)
    try:
        matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        values = np.broadcast_to(np.asarray(values, dtype=np.float64), len(matrix))
    except (TypeError, ValueError):
        raise ValueError(_NEITHER.format(size=size)) from None
    if matrix.ndim != 2 or matrix.shape[1] != size or not matrix.any(axis=1).all():
        raise ValueError(_NEITHER.format(size=size))
    return tuple(f"restriction {i} = {r:g}" for i, r in enumerate(values)), matrix, values


_NEITHER = (
    "a hypothesis is a text such as 'depth, table' or 'depth = 2 * table', or an array with a row "
    "of {size} numbers, not all zero, for each restriction, in the order of param_names"
)


def _read(
    texts: Sequence[str], names: Sequence[str], terms: Mapping[str, slice]
) -> tuple[tuple[str, ...], Matrix, Vector]:
    said: list[str] = []
    rows: list[Vector] = []
    for text in texts:
        for part in _Tokens(text, names, terms).parts():
            if len(part) == 1 and part[0] in terms and part[0] not in names:
                for i in range(*terms[part[0]].indices(len(names))):
                    said.append(f"{names[i]} = 0")
                    rows.append(np.eye(len(names) + 1)[i])
                continue
            sides = _Expression(text, part, names).sides()
            rows += [left - right for left, right in pairwise(sides)]
            words = " ".join(part)
            said += [words if "=" in part else f"{words} = 0"] * (len(sides) - 1)
    found = np.array(rows)
    if not found.size or not found[:, :-1].any(axis=1).all():
        raise ValueError(f"{shown(', '.join(texts))} says nothing of the parameters")
    return tuple(said), found[:, :-1], -found[:, -1]


class _Tokens:
    """The words of a text: names first, however they look, the longest first."""

    def __init__(self, text: str, names: Sequence[str], terms: Mapping[str, slice]) -> None:
        self.known = [*names, *terms]
        # As others write the level of a factor that is compared with its reference.
        ours = any("[T." in name for name in self.known)
        self.text = text if ours else text.replace("[T.", "[")
        longest = sorted(map(re.escape, self.known), key=len, reverse=True)
        self.pattern = re.compile(rf"\s*({'|'.join(longest)}|{_NUMBER}|[-+*/=(),])\s*")

    def parts(self) -> list[list[str]]:
        """The words of each restriction."""
        found: list[list[str]] = [[]]
        place = 0
        while place < len(self.text):
            match = self.pattern.match(self.text, place)
            if match is None:
                word = re.search(r"[^-+*/=(),\s]*$", self.text[:place])
                start = place if word is None else word.start()
                raise ValueError(
                    f"{shown(self.text[start:].strip())} is not understood: the names are "
                    f"{', '.join(map(shown, dict.fromkeys(self.known)))}"
                )
            place = match.end()
            if match[1] == ",":
                found.append([])
            else:
                found[-1].append(match[1])
        return found


class _Expression:
    """A linear equation: its sides as coefficients of the m parameters and of 1."""

    def __init__(self, text: str, words: list[str], names: Sequence[str]) -> None:
        self.text, self.words, self.names, self.at = text, words, list(names), 0

    def sides(self) -> list[Vector]:
        """The sides of one equation or of a chain of them; 0 is the right one where none is."""
        found = [self._sum()]
        while self._take("="):
            found.append(self._sum())
        if self.at < len(self.words):
            raise self._error()
        return found if len(found) > 1 else [*found, np.zeros(len(self.names) + 1)]

    def _error(self) -> ValueError:
        return ValueError(f"{shown(self.text)} is not a linear equation of the parameters")

    def _take(self, *words: str) -> str | None:
        if self.at < len(self.words) and self.words[self.at] in words:
            self.at += 1
            return self.words[self.at - 1]
        return None

    def _sum(self) -> Vector:
        total = np.zeros(len(self.names) + 1)
        sign = self._take("+", "-") or "+"
        while True:
            total = total + (1 if sign == "+" else -1) * self._product()
            sign = self._take("+", "-") or ""
            if not sign:
                return total

    def _product(self) -> Vector:
        found = self._factor()
        while word := self._take("*", "/"):
            other = self._factor()
            if word == "/" and (other[:-1].any() or not other[-1]):
                raise self._error()
            if found[:-1].any() and other[:-1].any():
                raise self._error()
            if word == "/":
                found = found / other[-1]
            else:
                found = found * other[-1] if not other[:-1].any() else other * found[-1]
        return found

    def _factor(self) -> Vector:
        found = np.zeros(len(self.names) + 1)
        if self._take("("):
            found = self._sum()
            if not self._take(")"):
                raise self._error()
        elif self.at < len(self.words) and self.words[self.at] in self.names:
            found[self.names.index(self.words[self.at])] = 1.0
            self.at += 1
        elif self.at < len(self.words) and re.fullmatch(_NUMBER, self.words[self.at]):
            found[-1] = float(self.words[self.at])
            self.at += 1
        else:
            raise self._error()
        return found
