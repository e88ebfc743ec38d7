"""Arrays of torch, CuPy, JAX and whatever else keeps to the array API, on any device.

What NumPy can read where it lies becomes a view. On a GPU rows stay where they are, and
`privgram.moment.device` sums them there; whoever else reads them is given copies, block by block.
https://data-apis.org/array-api/latest
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
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
    is_a,
    open_array,
    open_mapping,
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
    """Rows of an array on a device, of shape (m, d)."""

    of: AnyArray
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.stop - self.start, int(self.of.shape[1])

    def numbers(self, start: int, stop: int) -> AnyArray:
        """Some of the rows as float64, on their device."""
        return _float64(self.of[self.start + start : self.start + stop, :])

    def array(self, values: NDArray[Any]) -> AnyArray:
        """Numbers of ours, on the device."""
        xp = namespace(self.of)
        values = values.copy()  # torch takes none that is read-only
        if library(self.of) in ("cupy", "jax"):  # on the current one, or on any
            return xp.asarray(values)
        return xp.asarray(values, device=self.of.device)

    def current(self) -> AbstractContextManager[Any]:
        """Make the library work on the device and in float64, where it has to be told."""
        name = library(self.of)
        if name == "jax" and not sys.modules["jax"].config.jax_enable_x64:
            raise TypeError(
                "JAX has no float64 as it is set: call jax.config.update('jax_enable_x64', True) "
                "at the start of the program, or pass np.asarray(array)"
            )
        on: AbstractContextManager[Any] = nullcontext()
        return self.of.device if name == "cupy" else on

    def read(self) -> Iterator[RawBlock]:
        """Copies of the rows, as NumPy reads them, a block at a time."""
        step = rows_per_chunk(8 * self.shape[1])
        for at in range(self.start, self.stop, step):
            yield to_numpy(self.of[at : min(at + step, self.stop), :])


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
    n, d = map(int, source.shape)
    runs = (DeviceRows(source, at, min(at + DEVICE_ROWS, n)) for at in range(0, n, DEVICE_ROWS))
    return Table(names, d, n, (Chunk(rows.read, on_device=rows) for rows in runs))


def open_columns(source: Mapping[str, Any], select: Selection = None) -> Table:
    """Read a mapping of names to one-dimensional arrays of any library, all of one length.

    Those on a device are copied from it.
    """
    if any(map(is_array, source.values())):
        taken = source if select is None else select
        source = {
            name: to_numpy(column) if name in taken and is_array(column) else column
            for name, column in source.items()
        }
    return open_mapping(source, select)


def check_together(arrays: Mapping[str, Any]) -> None:
    """Refuse arrays that are not of one library and on one device, by what each is called."""
    places = {what: (device(array), library(array)) for what, array in arrays.items()}
    (one, place), *others = places.items()
    for other, another in others:
        if another != place:
            here, there = (f"{name} on {where}".strip() for where, name in (place, another))
            raise ValueError(f"{one} is {here} and {other} {there}: move them to one device")
