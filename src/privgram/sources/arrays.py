"""Arrays of torch, CuPy, JAX and whatever else keeps to the array API, on any device.

What NumPy can read where it lies becomes a view. On a GPU rows stay where they are, and
`privgram.moment.device` sums them there; whoever else reads them is given copies, block by block.
https://data-apis.org/array-api/latest
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privgram.sources.table import (
    Chunk,
    RawBlock,
    Selection,
    Table,
    check_dimensions,
    described_kind,
    is_a,
    open_array,
    open_mapping,
    positions,
    rows_per_chunk,
    unnamed,
)

#: An array of any library.
AnyArray: TypeAlias = Any

#: Rows of a chunk: so many sums of products of entries up to 2^20 are within int64.
DEVICE_ROWS = 1 << 22

#: Names of types that hold real numbers, by any library; torch has bfloat16, and JAX int4.
_REAL = re.compile(r"bool|u?int\d+|b?float\d+\w*")


def is_array(source: object) -> bool:
    """Tell whether this is an array of a library other than NumPy, importing nothing."""
    if isinstance(source, (np.ndarray, np.generic, type)):
        return False
    return library(source) != "" or hasattr(source, "__array_namespace__")


def library(array: AnyArray) -> str:
    """Name the library of an array that needs more than the standard's word, or ''."""
    kinds = (("torch", "Tensor"), ("cupy", "ndarray"), ("jax", "Array"))
    return next((name for name, kind in kinds if is_a(array, name, kind)), "")


def namespace(array: AnyArray) -> Any:
    """Module with the functions of an array's library."""
    name = library(array)
    return sys.modules[name] if name in ("torch", "cupy") else array.__array_namespace__()


def device(array: AnyArray) -> str:
    """Name the device of an array: where NumPy reads it, "cpu"."""
    if not is_array(array) or not computes(array):
        return "cpu"
    return str(array.device)


def computes(array: AnyArray) -> bool:
    """Tell whether an array's rows are to be summed where they lie: elsewhere, in IEEE's float64.

    Of devices that are not known to have that, as Apple's and TPUs, rows are copied.
    """
    name = library(array)
    if name == "torch":
        return bool(array.device.type == "cuda")  # ROCm's too
    if name == "jax":
        return all(each.platform in ("gpu", "cuda", "rocm") for each in array.devices())
    return name == "cupy" or _view(array) is None


def to_numpy(array: AnyArray) -> NDArray[Any]:
    """View an array of real numbers as NumPy's, or copy it to where NumPy can read it."""
    check_real(array)
    name = library(array)
    if name == "cupy":
        return np.asarray(array.get())
    if name == "torch":
        array = array.detach().resolve_neg().cpu()
        if not _is_numpy(array):  # bfloat16, and float8
            array = array.to(sys.modules["torch"].float32)
        return np.asarray(array.numpy())
    if not _is_numpy(array):
        array = array.astype(namespace(array).float32)
    view = _view(array)
    return np.from_dlpack(array, device="cpu") if view is None else view


def _view(array: AnyArray) -> NDArray[Any] | None:
    try:
        return np.asarray(array)
    except (TypeError, ValueError, RuntimeError, BufferError):  # on another device
        return None


def _is_numpy(array: AnyArray) -> bool:
    return type_of(array) in ("float16", "float32", "float64") or "float" not in type_of(array)


def type_of(array: AnyArray) -> str:
    """Name of the type of an array's entries, without its library's."""
    return str(array.dtype).rpartition(".")[2]


def check_real(array: AnyArray) -> None:
    """Refuse an array that does not hold real numbers, each in its place."""
    kind = type_of(array)
    if not _REAL.fullmatch(kind):
        what = "complex numbers" if "complex" in kind else f"values of type {kind}"
        raise TypeError(f"the block holds {what}; only real numbers can be used")
    if library(array) != "torch":
        return
    if array.is_nested:
        raise TypeError("a nested tensor is no table: its rows differ in length")
    if str(array.layout) != "torch.strided":
        raise TypeError("a sparse tensor is no table; pass .to_dense(), or blocks of its rows")
    if array.device.type == "meta":
        raise TypeError("a tensor on the meta device has no data; pass one that has")


@dataclass(frozen=True)
class DeviceRows:
    """Rows on a device, of one array of shape (m, d), or of columns of one library and length."""

    parts: AnyArray | list[AnyArray]
    start: int
    stop: int

    @property
    def first(self) -> AnyArray:
        """An array of them, of whose library and device all are."""
        return self.parts[0] if isinstance(self.parts, list) else self.parts

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        columns = len(self.parts) if isinstance(self.parts, list) else int(self.parts.shape[1])
        return self.stop - self.start, columns

    def numbers(self, start: int, stop: int) -> AnyArray:
        """Some of the rows as float64, on their device."""
        some = slice(self.start + start, self.start + stop)
        if isinstance(self.parts, list):
            columns = [part[some] for part in self.parts]
            if len({*map(type_of, columns)}) > 1:
                columns = [_float64(column) for column in columns]
            return _float64(namespace(self.first).stack(columns, axis=1))
        return _float64(self.parts[some, :])

    def array(self, values: NDArray[Any]) -> AnyArray:
        """Numbers of ours, on the device."""
        xp = namespace(self.first)
        values = values.copy()  # torch takes none that is read-only
        if library(self.first) in ("cupy", "jax"):  # on the current one, or on any
            return xp.asarray(values)
        return xp.asarray(values, device=self.first.device)

    def current(self) -> AbstractContextManager[Any]:
        """Make the library work on the device and in float64, where it has to be told."""
        name = library(self.first)
        if name == "jax" and not sys.modules["jax"].config.jax_enable_x64:
            raise TypeError(
                "JAX has no float64 as it is set: call jax.config.update('jax_enable_x64', True) "
                "at the start of the program, or pass np.asarray(array)"
            )
        on: AbstractContextManager[Any] = nullcontext()
        return self.first.device if name == "cupy" else on

    def read(self) -> Iterator[RawBlock]:
        """Copies of the rows, as NumPy reads them, a block at a time."""
        step = rows_per_chunk(8 * self.shape[1])
        for at in range(self.start, self.stop, step):
            some = slice(at, min(at + step, self.stop))
            if isinstance(self.parts, list):
                yield [to_numpy(part[some]) for part in self.parts]
            else:
                yield to_numpy(self.parts[some, :])


def _float64(array: AnyArray) -> AnyArray:
    xp = namespace(array)
    if library(array) == "torch":
        return array.detach().to(xp.float64)
    return xp.asarray(array, dtype=xp.float64)


def open_device_array(
    source: AnyArray, select: Selection = None, by_position: bool = True
) -> Table:
    """Read a two-dimensional array of any library, where it lies."""
    check_real(source)
    check_dimensions(len(source.shape))
    if not computes(source):
        return open_array(to_numpy(source), select, by_position)
    names = unnamed(int(source.shape[1]), select, by_position)
    return _table(names, source, tuple(map(int, source.shape)))


def open_columns(source: Mapping[str, Any], select: Selection = None) -> Table:
    """Read a mapping of names to one-dimensional arrays of any library, all of one length.

    Where columns of numbers are on a device, all are on that one.
    """
    if not any(map(is_array, source.values())):
        return open_mapping(source, select)
    taken = [name for name in source if select is None or name in select]
    elsewhere = {name: device(source[name]) for name in taken}
    if {*elsewhere.values()} <= {"cpu"} or _has_levels(select, taken):
        near = {name: to_numpy(x) if is_array(x) else x for name, x in source.items()}
        return open_mapping(near, select)
    check_together({f"column {name!r}": source[name] for name in taken})
    names = [list(source)[i] for i in positions(list(source), select)]
    columns = [source[name] for name in names]
    for name, column in zip(names, columns, strict=True):
        check_real(column)
        if len(column.shape) != 1:
            raise ValueError(f"column {name!r} has {len(column.shape)} dimensions instead of one")
        if column.shape != columns[0].shape:
            lengths = f"{columns[0].shape[0]} and {column.shape[0]}"
            raise ValueError(f"columns {names[0]!r} and {name!r} have {lengths} rows")
    return _table(tuple(names), columns, (int(columns[0].shape[0]), len(columns)))


def check_together(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays that are not of one library and on one device, by what each is called."""
    places = {what: (device(array), library(array)) for what, array in arrays.items()}
    (one, place), *others = places.items()
    for other, another in others:
        if another != place:
            here, there = (f"{name} on {where}".strip() for where, name in (place, another))
            raise ValueError(f"{one} is {here} and {other} {there}: move them to one device")


def _has_levels(select: Selection, names: Sequence[str]) -> bool:
    return any(described_kind(select, name) is not None for name in names)


def _table(names: tuple[str, ...] | None, parts: AnyArray, shape: tuple[int, ...]) -> Table:
    n, d = shape
    runs = (DeviceRows(parts, at, min(at + DEVICE_ROWS, n)) for at in range(0, n, DEVICE_ROWS))
    return Table(names, d, n, (Chunk(rows.read, on_device=rows) for rows in runs))
