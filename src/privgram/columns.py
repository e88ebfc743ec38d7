"""Public bounds of the columns: what is known of a table before looking at it."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privgram._base.files import write_atomically
from privgram._core.scale import DefaultRounding

INTERCEPT = "intercept"

_FROM_DATA = (
    "bounds are never taken from the data: a minimum or maximum is one person's value, and "
    "publishing anything scaled by it gives that value away. Use what is public: the range "
    "of the instrument, the form, the law; values beyond are clamped"
)

_LEVELS = (
    "a list of levels has none: make a column of 0 and 1 for each level but one, and give each "
    "the bounds (0, 1)"
)


class Columns:
    """Public bounds for the columns of a table.

    A value ``x`` with bounds ``(lower, upper)`` is mapped to
    ``(x - center) / half_width``, clamped to [-1, 1]; an infinity is clamped like any other
    value out of bounds. Nothing here is learnt from data, so a `Columns` is public.

    Parameters
    ----------
    bounds : mapping of str to (float, float)
        The columns to take, in this order, each with its lower and upper bound.
    intercept : bool, default False
        Append a column of ones named ``intercept``.
    missing : {"error", "drop"}, default "error"
        What a row with a null or NaN in any of these columns does: raise, or contribute
        nothing. Dropped rows still count in the public number of rows.

    Attributes
    ----------
    names : tuple of str
        The columns in order, the intercept last.
    lower, upper, center, half_width : ndarray of shape (len(names),)
        Per column, in its own units; the intercept has center 0 and half-width 1.
    bound : float
        The largest L2 norm a row can have, ``sqrt(len(names))``.

    Raises
    ------
    ValueError
        If a bound is missing, not finite, or not below its upper neighbour, if there are no
        columns, or if the bounds are asked to be taken from the data.

    Examples
    --------
    >>> import privgram as pg
    >>> cols = pg.Columns({"distance": (0, 5000), "delay": (-60, 300)}, intercept=True)
    >>> cols.names
    ('distance', 'delay', 'intercept')
    >>> cols.scale_array([[2500.0, 400.0]])
    array([[0., 1., 1.]])
    """

    __slots__ = ("_bounds", "_center", "_half_width", "_intercept", "_inverse", "_missing")

    def __init__(
        self,
        bounds: Mapping[str, tuple[float, float]],
        intercept: bool = False,
        missing: Literal["error", "drop"] = "error",
    ) -> None:
        _check_mapping(bounds)
        if missing not in ("error", "drop"):
            raise ValueError(f"missing is 'error' or 'drop', not {missing!r}")
        if not isinstance(intercept, (bool, np.bool_)):
            raise TypeError("intercept is True or False")
        if intercept and INTERCEPT in bounds:
            raise ValueError("there is a column named 'intercept' already; use intercept=False")
        self._bounds = {name: _interval(name, pair) for name, pair in bounds.items()}
        self._intercept = bool(intercept)
        self._missing = missing
        lower, upper = self.lower, self.upper
        with DefaultRounding(), np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            # Halves first: the difference of two finite bounds can overflow.
            self._center = upper / 2 + lower / 2
            self._half_width = upper / 2 - lower / 2
            if intercept:
                self._center[-1], self._half_width[-1] = 0.0, 1.0
            self._inverse = 1.0 / self._half_width
            ends = (lower - self._center) * self._inverse, (upper - self._center) * self._inverse
        k = len(self._bounds)
        narrow = ~(np.isclose(ends[0], -1.0) & np.isclose(ends[1], 1.0))[:k]
        if narrow.any():
            name = self.names[int(narrow.argmax())]
            raise ValueError(f"the bounds of column {name!r} are too close to tell apart")
        for array in (self._center, self._half_width, self._inverse):
            array.flags.writeable = False

    @classmethod
    def from_data(cls, *args: Any, **kwargs: Any) -> Columns:
        """Refuse, and say why: see the error's text."""
        raise ValueError(_FROM_DATA)

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The bounds by name, without the intercept (a copy)."""
        return dict(self._bounds)

    @property
    def intercept(self) -> bool:
        """Whether a column of ones is appended."""
        return self._intercept

    @property
    def missing(self) -> Literal["error", "drop"]:
        """What a row with a missing value does."""
        return self._missing

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, the intercept last."""
        return (*self._bounds, INTERCEPT) if self._intercept else tuple(self._bounds)

    @property
    def selected(self) -> tuple[str, ...]:
        """The names of the columns read from the table: those with bounds."""
        return tuple(self._bounds)

    @property
    def lower(self) -> NDArray[np.float64]:
        """Lower bounds; 1 for the intercept."""
        return np.array([low for low, _ in self._bounds.values()] + [1.0] * self._intercept)

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bounds; 1 for the intercept."""
        return np.array([high for _, high in self._bounds.values()] + [1.0] * self._intercept)

    @property
    def center(self) -> NDArray[np.float64]:
        """Middles of the bounds; 0 for the intercept."""
        return self._center

    @property
    def half_width(self) -> NDArray[np.float64]:
        """Half the distances between the bounds; 1 for the intercept."""
        return self._half_width

    @property
    def inverse(self) -> NDArray[np.float64]:
        """Reciprocals of `half_width`, by which values are multiplied."""
        return self._inverse

    @property
    def bound(self) -> float:
        """The largest possible L2 norm of a scaled row."""
        with DefaultRounding():
            return math.sqrt(len(self))

    def __len__(self) -> int:
        return len(self._bounds) + self._intercept

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __eq__(self, other: object) -> bool:
        # As lists: the order of the columns is the order of the matrix.
        return isinstance(other, Columns) and _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))

    def __repr__(self) -> str:
        more = ", intercept=True" if self._intercept else ""
        more += f", missing={self._missing!r}" if self._missing != "error" else ""
        return f"Columns({self._bounds!r}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Columns, (self._bounds, self._intercept, self._missing))

    def scale_array(self, x: Any) -> NDArray[np.float64]:
        """Scale a block of raw values.

        Parameters
        ----------
        x : array_like of shape (n, len(selected))
            Values in the columns' own units; NaN stays NaN.

        Returns
        -------
        ndarray of shape (n, len(names))
            Values in [-1, 1], with the intercept if there is one.
        """
        block = np.asarray(x, dtype=np.float64)
        k = len(self._bounds)
        if block.ndim != 2 or block.shape[1] != k:
            raise ValueError(f"a block of shape (n, {k}) is scaled, not {block.shape}")
        out = np.ones((block.shape[0], len(self)))
        # An overflow is a value far out of bounds: infinite, then clamped.
        with np.errstate(over="ignore"):
            scaled = (block - self._center[:k]) * self._inverse[:k]
        np.clip(scaled, -1.0, 1.0, out=out[:, :k])
        return out

    def to_dict(self) -> dict[str, Any]:
        """Give a plain form for JSON, from which `from_dict` makes an equal object."""
        return {
            "bounds": {name: list(pair) for name, pair in self._bounds.items()},
            "intercept": self._intercept,
            "missing": self._missing,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Columns:
        """Make columns from the form `to_dict` gives; unknown keys are refused."""
        if not isinstance(data, Mapping) or not isinstance(data.get("bounds"), Mapping):
            raise ValueError("a description of columns has a table named 'bounds'")
        unknown = sorted(set(data) - {"bounds", "intercept", "missing"})
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}; known: bounds, intercept, missing")
        return cls(data["bounds"], data.get("intercept", False), data.get("missing", "error"))

    def save(self, path: str | Path) -> None:
        """Write to a ``.toml`` or ``.json`` file, whole or not at all."""
        path = Path(path)
        write_atomically(path, _WRITERS[_suffix(path)](self.to_dict()).encode())

    @classmethod
    def load(cls, path: str | Path) -> Columns:
        """Read from a ``.toml`` or ``.json`` file, as `save` writes it.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If it is not valid TOML or JSON, or does not describe columns.

        Examples
        --------
        A file by hand::

            intercept = true
            missing = "drop"

            [bounds]
            distance = [0, 5000]
            dep_delay = [-60, 300]
        """
        path = Path(path)
        parse = _READERS[_suffix(path)]
        try:
            return cls.from_dict(parse(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:  # both parsers raise subclasses of ValueError
            raise ValueError(f"{path}: {error}") from error
        except RecursionError:
            raise ValueError(f"{path}: nested too deeply to describe columns") from None


def _check_mapping(bounds: object) -> None:
    if bounds is None or isinstance(bounds, str):  # such as "auto"
        raise ValueError(_FROM_DATA)
    if not isinstance(bounds, Mapping):
        raise TypeError("bounds is a mapping of column names to (lower, upper)")
    if not bounds:
        raise ValueError("bounds names no columns")


def _interval(name: str, pair: object) -> tuple[float, float]:
    if not isinstance(name, str) or not name:
        raise TypeError("the keys of bounds are column names")
    if pair is None or isinstance(pair, str):
        raise ValueError(f"column {name!r} has no bounds; {_FROM_DATA}")
    try:
        lower, upper = map(float, pair)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        levels = isinstance(pair, Collection) and (
            len(pair) > 2 or any(isinstance(level, str) for level in pair)
        )
        raise ValueError(
            f"the bounds of column {name!r} are two numbers, (lower, upper); "
            + (_LEVELS if levels else _FROM_DATA)
        ) from None
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise ValueError(f"the bounds of column {name!r} must be finite, not ({lower}, {upper})")
    if not lower < upper:
        raise ValueError(
            f"the lower bound of column {name!r} must be below the upper, not ({lower}, {upper})"
        )
    return lower, upper


def _key(columns: Columns) -> tuple[Any, ...]:
    return tuple(columns.bounds.items()), columns.intercept, columns.missing


def _suffix(path: Path) -> str:
    if path.suffix not in _READERS:
        raise ValueError(f"{path}: columns are kept in .toml or .json files")
    return path.suffix


def _to_toml(data: dict[str, Any]) -> str:
    lines = [f"{key} = {_toml(data[key])}" for key in ("intercept", "missing")]
    lines += ["", "[bounds]"]
    lines += [f"{_toml(name)} = {_toml(pair)}" for name, pair in data["bounds"].items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    # TOML's strings, numbers and booleans are JSON's, but for surrogates and DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _from_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_no_duplicates)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key appears twice")
    return data


def _to_json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2) + "\n"


_READERS: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": _from_json}
_WRITERS: dict[str, Callable[[dict[str, Any]], str]] = {".toml": _to_toml, ".json": _to_json}
