"""Checks of arguments that several modules share."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

U64_MAX = 2**64 - 1


def integer(value: object, name: str, *, minimum: int = 0, maximum: int = U64_MAX) -> int:
    """`value` as an int within the bounds. TypeError for another type (a bool too), ValueError outside the bounds."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected an integer, found the bool {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}: expected an integer, found {value!r} ({type(value).__name__})") from None
    if not minimum <= number <= maximum:
        bounds = f"at least {minimum}" if maximum == U64_MAX and number < minimum else f"{minimum} to {maximum}"
        raise ValueError(f"{name}: expected {bounds}, found {number}")
    return number


def uint64_array(values: npt.ArrayLike, name: str) -> npt.NDArray[np.uint64]:
    """Non-negative integers as a C-contiguous 1-D uint64 array. TypeError for another type, ValueError for the rest."""
    refuse_masked(values, name)
    array = np.asarray(values)
    if array.ndim > 1:
        raise ValueError(f"{name}: expected one dimension, found shape {array.shape}")
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, found dtype {array.dtype}")
    if array.dtype.kind == "i" and array.min() < 0:
        raise ValueError(f"{name}: expected numbers of at least 0, found {array.min()}")
    return np.ascontiguousarray(array, np.uint64).reshape(-1)


def refuse_masked(values: object, name: str) -> None:
    """TypeError for a masked array: what is taken of it is what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, whose mask would be ignored; fill it first (array.filled(...))")


def add_note(error: BaseException, note: str) -> None:
    """Attach `note` to an exception where this Python and its class allow it (from 3.11 on)."""
    try:
        attach: Any = getattr(error, "add_note", None)
        if attach is not None:
            attach(note)
    except Exception:  # a user's class may define anything under this name
        return
