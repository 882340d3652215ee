"""Which NumPy dtypes a store can hold: those of fixed width that their own short name (`dtype.str`) brings back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

DType = np.dtype[Any]

# `dtype.str` of every dtype accepted below: byte order, kind, width, and the unit of datetimes.
STORED_NAME = re.compile(r"[<>|][biufcmMSUV]\d{1,10}(\[\d*[A-Za-z]{1,2}\])?")


def storable(dtype: npt.DTypeLike) -> DType:
    """`dtype` as a NumPy dtype that a store can hold. TypeError for the others; the message names the way out."""
    found = np.dtype(dtype)
    if found.kind == "T" or found.hasobject:
        raise TypeError(
            f"dtype {found} has no fixed width: store bytes as uint8 records (RaggedDataset), "
            "or convert to a fixed-width dtype such as S16 or U16"
        )
    if found.itemsize == 0:
        raise TypeError(f"dtype {found} has no width: name one, such as {found.kind}16")
    if found.names is not None or found.subdtype is not None:
        raise TypeError(
            f"dtype {found} is structured, which is not supported yet: store each field as a stream of its own (MSDataset)"
        )
    if not round_trips(found):
        raise TypeError(
            f"dtype {found} is not NumPy's own, and its name {found.str!r} would not bring it back; it is not supported yet: "
            f"store its bits, such as array.view(numpy.uint{8 * found.itemsize})"
        )
    return found


def round_trips(dtype: DType) -> bool:
    """Whether `dtype.str` names this very dtype."""
    try:
        return STORED_NAME.fullmatch(dtype.str) is not None and np.dtype(dtype.str) == dtype
    except (TypeError, ValueError):
        return False


def from_stored_name(name: str) -> DType:
    """The dtype of a name that a schema holds. ValueError for a name that no store should hold."""
    expected = "the name of a fixed-width NumPy dtype, such as '<f4'"
    if STORED_NAME.fullmatch(name) is None:
        raise ValueError(f"expected {expected}, found {name[:80]!r}")
    try:
        dtype = storable(name)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"expected {expected}, found {name[:80]!r}") from error
    if dtype.str != name:
        raise ValueError(f"expected {expected}, found {name[:80]!r}")
    return dtype


def as_array(values: npt.ArrayLike, dtype: DType, what: str) -> npt.NDArray[Any]:
    """`values` as an array of exactly `dtype`, in any memory order; only a difference of byte order is converted.

    Raises:
        TypeError: values that no store can hold, such as objects or variable-width strings.
        ValueError: any other dtype; `what` says which array it is.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{what}: a masked array, and a store keeps no masks; fill it first (array.filled(...))")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{what}: not an array of one shape: {error}") from error
    if array.dtype == dtype:
        return array
    try:
        found = storable(array.dtype)
    except TypeError as error:
        raise TypeError(f"{what}: expected dtype {dtype.str!r}: {error}") from None
    if found.newbyteorder("=") == dtype.newbyteorder("="):
        return array.astype(dtype)
    raise ValueError(f"{what}: expected dtype {dtype.str!r}, found {array.dtype.str!r} ({array.dtype})")
