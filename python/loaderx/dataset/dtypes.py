"""Which dtypes a store can hold, and whether an array has the right one. How a schema spells them: `spelling.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataset.foreign import array_of, has_dtype
from loaderx.dataset.named import WIDTHS, dtype_named, name_of
from loaderx.dataset.spelling import spelled

DType = np.dtype[Any]
Array = npt.NDArray[Any]


def storable(dtype: npt.DTypeLike) -> DType:
    """`dtype` as a NumPy dtype that a store can hold; the names of `ml_dtypes`' dtypes do too.

    Raises:
        TypeError: no store can hold it; the message names the way out.
        ImportError: it needs `ml_dtypes`, which is not installed.
    """
    found = dtype_named(dtype) if isinstance(dtype, str) and dtype in WIDTHS else np.dtype(dtype)
    if found.kind == "T" or found.hasobject:
        raise TypeError(
            f"dtype {found} has no fixed width: store bytes as uint8 records (RaggedDataset), "
            "or convert to a fixed-width dtype such as S16 or U16"
        )
    if found.subdtype is not None:
        base, shape = found.subdtype
        raise TypeError(
            f"dtype {found} is a sub-array, which is the dtype of a field only: its {shape} belong to the shape of a record, "
            f"of dtype {base}"
        )
    if found.itemsize == 0:
        if found.names is not None:
            raise TypeError(f"dtype {found} has no width: a structured dtype needs a field")
        raise TypeError(f"dtype {found} has no width: name one, such as {found.kind}16")
    spelled(found)
    return found


def described(dtype: DType) -> str:
    """`dtype` for a message; a long one is cut."""
    if dtype.names is None:
        return repr(name_of(dtype) or dtype.str)
    text = str(dtype)
    return text if len(text) <= 120 else text[:117] + "..."


def as_array(values: Any, dtype: DType, what: str) -> Array:
    """`values` as an array of exactly `dtype`, in any memory order.

    Two differences are no change of any value, and are converted: another byte order, and text in Python's own objects (or NumPy's
    scalars) that is shorter than the fixed width.

    Raises:
        TypeError: values that no store can hold, such as objects or variable-width strings, or that lie in a device's memory.
        ValueError: any other dtype; `what` says which array it is.
    """
    # First what a ragged append asks for each of its records.
    if type(values) is np.ndarray and values.dtype == dtype:
        return values
    if isinstance(values, (list, tuple)) and values and has_dtype(values[0]):
        return stacked([as_array(one, dtype, f"{what}: record {i}") for i, one in enumerate(values)], dtype, what)
    array = array_of(values, what, text=dtype.kind == "S")
    if array.dtype == dtype:
        return array
    if native(array.dtype) == native(dtype):
        return in_other_order(array, dtype)
    if fits_as_text(values, array.dtype, dtype):
        return array.astype(dtype)
    try:
        found = storable(array.dtype)
    except TypeError as error:
        raise TypeError(f"{what}: expected dtype {described(dtype)}: {error}") from None
    full_name = "" if found.names is not None or name_of(found) is not None else f" ({found})"
    raise ValueError(f"{what}: expected dtype {described(dtype)}, found {described(found)}{full_name}")


def stacked(records: list[Array], dtype: DType, what: str) -> Array:
    """Records of one shape as one array. NumPy itself would bring them to a dtype that all can have, in this machine's byte order."""
    try:
        return np.stack([voids(record) for record in records]).view(dtype)
    except ValueError as error:
        raise ValueError(f"{what}: not an array of one shape: {error}") from error


def native(dtype: DType) -> DType:
    """`dtype` in this machine's byte order; as it is where it has none, like NumPy's variable-width strings."""
    try:
        ordered: DType = dtype.newbyteorder("=")
    except TypeError:
        return dtype
    return ordered


def in_other_order(array: Array, dtype: DType) -> Array:
    """The same values in the byte order of `dtype`. What lies between the fields of a structure is zero, not what memory held before."""
    swapped: Array = np.zeros(array.shape, dtype)
    swapped[...] = array
    return swapped


def fits_as_text(values: object, found: DType, dtype: DType) -> bool:
    """Whether `values` has no width of its own, as an array has, and fits the fixed width of `dtype`."""
    without_width = isinstance(values, (list, tuple, str, bytes))
    return without_width and dtype.kind in "SU" and found.kind == dtype.kind and found.itemsize <= dtype.itemsize


def voids(array: Array) -> Array:
    """An array as voids of the same width, which NumPy copies whole and never converts."""
    return array.view(np.dtype((np.void, array.dtype.itemsize)))


def opaque(array: Array) -> Array:
    """A structured array as voids, every other array as it is: of a structure NumPy copies only the fields."""
    return array if array.dtype.names is None else voids(array)


def contiguous(array: Array) -> Array:
    """`array` itself if it is C-contiguous, else a copy, bit for bit; one of no dimensions gets one."""
    if array.dtype.names is None:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(voids(array)).view(array.dtype)
