"""Which types of NumPy's a column may have, by what it is known to be."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privgram.columns.unit import Identifier
from privgram.columns.variables import Boolean, Dates, Factor, Variable

#: What to do about a column of dates, and about one of words.
DATES = "describe it by pg.Dates(first, last), or cast it to a number in the unit you mean"
LEVELS = "describe it by a list of its levels in Columns, or cast it if it holds numerals"


def check_kind(dtype: np.dtype[Any], name: str | int, wanted: Variable | None = None) -> None:
    """Refuse a column that does not hold real numbers, or what it is known to be.

    Objects, of any type, are looked at later, one by one.
    """
    held = _held(dtype)
    if isinstance(wanted, (Boolean, Factor, Dates, Identifier)):
        if dtype.kind not in _kinds(wanted):
            raise TypeError(f"column {name!r} holds {held}, not {wanted.holds}")
    elif dtype.kind not in "buifO":
        raise _no_number(dtype, name)


def numbers_of(values: NDArray[Any], name: str | int) -> NDArray[Any]:
    """Objects that are numbers, as databases give decimals, as float64; None is NaN."""
    if values.dtype.kind != "O":
        return values
    listed = values.tolist()
    if not all(value is None or isinstance(value, (Real, Decimal)) for value in listed):
        raise _no_number(values.dtype, name)
    return np.array([math.nan if value is None else float(value) for value in listed])


def _held(dtype: np.dtype[Any]) -> str:
    text = dtype.kind in "UT"
    return "complex numbers" if dtype.kind == "c" else f"values of type {'str' if text else dtype}"


def _no_number(dtype: np.dtype[Any], name: str | int) -> TypeError:
    advice = DATES if dtype.kind in "mM" else LEVELS if dtype.kind in "OSUT" else ""
    said = f"column {name!r} holds {_held(dtype)}; only real numbers can be used"
    return TypeError(said + (f": {advice}" if advice else ""))


def _kinds(wanted: Boolean | Factor | Dates | Identifier) -> str:
    if isinstance(wanted, Identifier):
        return "iuUSTO"
    if isinstance(wanted, Factor):
        return "USTO" if wanted.text else "iufO"
    return "MUSTO" if isinstance(wanted, Dates) else "buifO"
