"""Indexing: every form that selects records, brought to a uint64 array.

An integer is one record. Everything else is a record set: a slice, a tuple, list or array of integers, or a bool mask.
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx.arguments import refuse_masked

Indices: TypeAlias = npt.NDArray[np.uint64]


def single(index: object) -> int | None:
    """The integer that `index` is, or None if it selects a record set. TypeError for a bool."""
    if type(index) is int:
        return index
    if isinstance(index, (bool, np.bool_)):
        raise TypeError(f"index {index!r} is a bool; a mask is an array of one bool a record")
    if getattr(index, "ndim", 0) != 0:
        return None  # an array of one element converts to an integer too, but it is a record set
    try:
        return operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        return None


def wrap(index: int, length: int) -> int:
    """`index` counted from the front. IndexError if it is out of range."""
    if not -length <= index < length:
        raise out_of_range(index, length)
    return index + length if index < 0 else index


def indices(index: Any, length: int) -> Indices:
    """The records that `index` selects from `length`, as a C-contiguous uint64 array of shape (n,).

    Raises:
        TypeError: floats, strings, None, an ellipsis, or slices inside a tuple.
        IndexError: an index out of range, a mask of another length, or an index array of more than one dimension.
    """
    if isinstance(index, slice):
        return np.arange(*index.indices(length), dtype=np.int64).astype(np.uint64)
    one = single(index)
    if one is not None:
        return np.array([wrap(one, length)], np.uint64)
    array = integers(index)
    if array.dtype.kind == "b":
        return mask(array, length)
    if array.ndim != 1:
        raise IndexError(f"a record set has one dimension: expected an index array of shape (n,), found {array.shape}")
    return in_range(array, length)


def integers(index: Any) -> npt.NDArray[Any]:
    """`index` as an array of integers or bools."""
    refuse_masked(index, "index")
    if isinstance(index, np.ndarray):
        array = index
    else:
        if index is None or isinstance(index, (str, bytes)) or not hasattr(index, "__len__"):
            raise wrong_kind(index)
        try:
            array = np.asarray(index)
        except ValueError as error:
            raise wrong_kind(index) from error
        if array.size == 0 and array.ndim == 1:
            return np.empty(0, np.uint64)
    if array.dtype.kind == "O" and array.ndim == 1:
        array = big_integers(array, index)
    if array.dtype.kind not in "iub":
        raise wrong_kind(index)
    return array


def big_integers(array: npt.NDArray[Any], index: Any) -> npt.NDArray[Any]:
    """Python integers as int64; one too large for that is out of range of every store."""
    for element in array:
        if isinstance(element, (bool, np.bool_)) or not hasattr(element, "__index__"):
            raise wrong_kind(index)
    bounds = np.iinfo(np.int64)
    for element in array:
        if not bounds.min <= element <= bounds.max:
            raise IndexError(f"index {element} is out of range: no store has as many records")
    return array.astype(np.int64)


def mask(array: npt.NDArray[Any], length: int) -> Indices:
    """The places where a mask is true."""
    if array.shape != (length,):
        raise IndexError(f"a mask has one bool a record: expected shape ({length},), found {array.shape}")
    return np.flatnonzero(array).astype(np.uint64)


def in_range(array: npt.NDArray[Any], length: int) -> Indices:
    """Signed or unsigned indices, counted from the front."""
    if array.size == 0:
        return np.empty(0, np.uint64)
    if array.dtype.kind == "u":
        if array.max() >= length:
            raise out_of_range(int(array[array >= length][0]), length)
        return np.ascontiguousarray(array, np.uint64)
    signed = np.ascontiguousarray(array, np.int64)
    lowest, highest = signed.min(), signed.max()
    if highest >= length or lowest < -length:
        raise out_of_range(int(signed[(signed >= length) | (signed < -length)][0]), length)
    if lowest < 0:
        signed = np.where(signed < 0, signed + length, signed)
    return signed.astype(np.uint64)


def out_of_range(index: int, length: int) -> IndexError:
    """The error of an index outside `-length <= index < length`."""
    return IndexError(f"index {index} is out of range for {length} records")


def wrong_kind(index: object) -> TypeError:
    """The error of what is no index at all."""
    hint = ""
    if index is Ellipsis:
        hint = "; [:] selects all records"
    elif isinstance(index, tuple):
        hint = "; select records first, then index the arrays: ds[records][...]"
    shown = repr(index)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    return TypeError(
        f"{shown} ({type(index).__name__}) selects no records: expected an integer, a slice, a mask, "
        f"or a tuple, list or array of integers{hint}"
    )
