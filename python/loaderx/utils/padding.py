"""Ragged batches as dense ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.arguments import integer
from loaderx.dataset.dtypes import DType, as_array, contiguous, described, native, storable
from loaderx.dataset.foreign import array_of, is_array
from loaderx.dataset.named import name_of
from loaderx.dataset.packed import Packed, flat
from loaderx.dataset.shapes import MAX_DIM, Rows, check_shape

Array = npt.NDArray[Any]
Lengths: TypeAlias = npt.NDArray[np.int64]
Side: TypeAlias = Literal["left", "right"]


def pad(
    records: Iterable[Any] | Packed, value: Any = 0, length: int | None = None, side: Side = "right"
) -> tuple[Array, Lengths]:
    """Bring the records of a ragged batch to one length along their first axis.

    Args:
        records: a list of arrays of one dtype, as a `RaggedDataset` gives it, but of any package, or a `Packed`. They differ in their
            first axis only, which may be empty.
        value: what the rest of a row is filled with. The dtype must have exactly this value. Of text, 0 is the empty one, and of a
            structure, zero in each field.
        length: of the rows, as long as the longest record at least. None: that long.
        side: "right": a record stands at the begin of its row, and what is filled up lies behind it. "left": at the end.

    Returns:
        The batch, shape (n, length, *rest), C-contiguous, of the dtype of the records, the caller's own memory; and how long each record
        is along its first axis, int64, shape (n,).

    Raises:
        TypeError: no batch of arrays, or a dtype that no store holds.
        ValueError: no records, which have no dtype; several dtypes, ranks or trailing dimensions; a record without an axis or longer than
            `length`, which is named: nothing is ever cut off; a value that the dtype doesn't have.
    """
    if side not in ("left", "right"):
        raise ValueError(f"pad: side: expected 'left' or 'right', found {side!r}")
    room = None if length is None else integer(length, "pad: length", maximum=MAX_DIM)
    if isinstance(records, Packed):
        return pad_packed(records, value, room, side)
    return pad_list(records, value, room, side)


def pad_packed(packed: Packed, value: Any, room: int | None, side: Side) -> tuple[Array, Lengths]:
    """`pad` of a packed batch."""
    batch = flat(packed, None, "pad")
    dtype = storable(batch.values.dtype)
    lengths, rest = form(batch.items, batch.rows)
    dense = rows_for(lengths, rest, dtype, room)
    _core.pad_packed(batch.values, batch.starts, dense, item_of(value, dtype), side == "left")
    return dense, lengths


def pad_list(records: Iterable[Any], value: Any, room: int | None, side: Side) -> tuple[Array, Lengths]:
    """`pad` of a list of records."""
    one = isinstance(records, (str, bytes, bytearray, memoryview, Mapping)) or is_array(records)
    if one or not np.iterable(records):
        raise TypeError(f"pad: expected a list of records, found one {type(records).__name__}")
    given = list(records)
    if not given:
        raise ValueError(
            "pad: expected at least one record, found none: a batch of none has neither a dtype nor a length"
        )
    dtype = storable(array_of(given[0], "pad: record 0").dtype)

    def convert(record: Any, i: int) -> Array:
        array = as_array(record, dtype, f"pad: record {i}")
        check_shape(array.shape, f"pad: record {i}")
        return array if array.flags.c_contiguous else contiguous(array)

    arrays, rows = _core.ready(given, dtype, convert)
    lengths, rest = form(np.array([array.size for array in arrays], np.int64), rows)
    dense = rows_for(lengths, rest, dtype, room)
    _core.pad_list(arrays, dense, item_of(value, dtype), side == "left")
    return dense, lengths


def form(items: npt.NDArray[np.int64], rows: Rows | None) -> tuple[Lengths, tuple[int, ...]]:
    """How long records of so many items and these shape rows are along their first axis, and their other dimensions.

    ValueError unless all have the same of these.
    """
    if rows is None:
        return items, ()
    stated = np.where(rows[:, 0] == 0, 2, rows[:, 0])
    check_alike(stated[:, None] - 1, "dimensions")
    rank = int(stated[0]) - 1
    if rank == 0:
        raise ValueError("pad: record 0: expected an axis to pad along, found shape ()")
    rest = rows[:, 2 : rank + 1]
    check_alike(rest, "trailing dimensions")
    return rows[:, 1].astype(np.int64), tuple(rest[0].tolist())


def check_alike(numbers: npt.NDArray[Any], what: str) -> None:
    """ValueError for the first row that is not as the one of record 0."""
    others = (numbers != numbers[0]).any(axis=1)
    if others.any():
        at = int(np.argmax(others))
        expected, found = (", ".join(map(str, row.tolist())) for row in (numbers[0], numbers[at]))
        raise ValueError(f"pad: record {at}: expected {what} ({expected}) as record 0 has, found ({found})")


def rows_for(lengths: Lengths, rest: tuple[int, ...], dtype: DType, room: int | None) -> Array:
    """An array for records of such lengths, its content whatever. ValueError for the first that is longer than `room`."""
    longest = int(lengths.max())
    if room is not None and longest > room:
        at = int(np.argmax(lengths > room))
        raise ValueError(
            f"pad: record {at}: expected a length of at most {room}, found {lengths[at]}; the longest is {longest}"
        )
    return _core.empty((len(lengths), longest if room is None else room, *rest), dtype)


def item_of(value: Any, dtype: DType) -> bytes:
    """The bytes of an item that is exactly `value`. ValueError if the dtype has none."""
    if dtype.kind in "SUV" and name_of(dtype) is None:
        item = text_or_void(value, dtype)
    else:
        with np.errstate(all="ignore"):
            item = number(value, dtype)
    if item is None:
        raise ValueError(f"pad: value: dtype {described(dtype)} does not have exactly {value!r}")
    return item.tobytes()


def text_or_void(value: Any, dtype: DType) -> Array | None:
    """A text, a void or a structure of this dtype."""
    if type(value) is int and value == 0:
        return np.zeros((), dtype)
    given = np.asarray(value)
    if given.dtype == dtype and given.ndim == 0:
        return given
    if dtype.kind in "SU" and given.dtype.kind == dtype.kind and given.itemsize <= dtype.itemsize and given.ndim == 0:
        return given.astype(dtype)
    if dtype.names is not None and isinstance(value, tuple):
        try:
            item = np.array(value, dtype)
            return item if item.item() == value else None
        # The last is NumPy 1's, of integers that are too large.
        except (TypeError, ValueError, OverflowError, DeprecationWarning):
            return None
    return None


def number(value: Any, dtype: DType) -> Array | None:
    """A number or a time of this dtype."""
    given = np.asarray(value)
    is_number = given.dtype.kind in "biufcmM" or name_of(given.dtype) is not None
    if given.ndim != 0 or not is_number:
        return None
    if given.dtype.kind == "c" and given.imag == 0 and dtype.kind != "c":
        given = given.real  # NumPy would warn of the part that is nothing
    elif given.dtype.kind == "c" and dtype.kind != "c" and name_of(dtype) is None:
        return None
    if given.dtype == dtype:
        return given
    try:
        item = converted(given, dtype)
        return item if equal(item, given) else None
    except (TypeError, ValueError, OverflowError):
        return None


def converted(given: Array, dtype: DType) -> Array:
    """A number in another dtype, as near as that has it. Bytes of it that no conversion sets, as long doubles have some, are zero."""
    item = np.zeros((), native(dtype))
    for part, of in ((item.real, given.real), (item.imag, given.imag)) if dtype.kind == "c" else ((item, given),):
        np.copyto(part, of, casting="unsafe")
    return item if item.dtype == dtype else item.byteswap().view(dtype)


def equal(item: Array, given: Array) -> bool:
    """Whether two numbers, or two times, are exactly the same. NumPy would round some of them first."""
    kinds = {item.dtype.kind, given.dtype.kind}
    if kinds & set("mM"):
        if given.dtype.kind in "biu":
            return int(item.astype(np.int64)) == int(given)
        back = item.astype(given.dtype)
        return len(kinds) == 1 and bool((back == given) | (np.isnat(back) & np.isnat(given)))
    if np.dtype(np.longdouble) in (item.dtype, given.dtype) or np.dtype(np.clongdouble) in (item.dtype, given.dtype):
        return bool((item == given) | ((item != item) & (given != given)))
    ours, theirs = python_number(item), python_number(given)
    return ours == theirs or (ours != ours and theirs != theirs)


def python_number(array: Array) -> int | complex:
    """Python's own number, which compares without rounding."""
    return int(array) if array.dtype.kind in "biu" else complex(array)
